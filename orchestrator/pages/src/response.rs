//! What the site answered for a page, which goes into headers of the call's own answer.

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use warmpool_core::address;
use warmpool_workers::egress::Outcomes;

/// The longest address in a header, in characters.
const MAX_URL: usize = 1000;

/// What the site answered for a page, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageResponse {
    /// Its status, such as 200.
    pub(crate) code: Option<u16>,
    /// The status's words.
    pub(crate) status: Option<String>,
    /// The site's address.
    pub(crate) ip: Option<String>,
    /// The site's port.
    pub(crate) port: Option<u16>,
    /// The page's address, after all redirects.
    pub(crate) url: Option<String>,
}

impl PageResponse {
    /// The same with the address from which it came: browsers know their proxy alone.
    pub(crate) fn with_address(mut self, outcomes: &Outcomes) -> Self {
        let address = self.url.as_deref().and_then(|url| {
            let url = Url::parse(url).ok()?;
            outcomes.address_of(address::host(url.host_str()?)?, url.port_or_known_default()?)
        });
        self.ip = address.map(|address| address.ip().to_string());
        self.port = address.map(|address| address.port());
        self
    }

    /// The headers that tell of it. What is not known has none.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let url = self.url.as_ref().map(|url| url.chars().take(MAX_URL).collect::<String>());
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-response-code", self.code.map(|code| code.to_string())),
            ("x-response-ip", self.ip.clone()),
            ("x-response-port", self.port.map(|port| port.to_string())),
            ("x-response-status", self.status.clone().filter(|status| !status.is_empty())),
            ("x-response-url", url),
        ] {
            // What a site says may be no header at all.
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_header() {
        assert!(PageResponse::default().headers().is_empty());
        let response = PageResponse {
            code: Some(404),
            status: Some("Not\nFound".to_owned()),
            url: Some(format!("https://a.example/{}", "x".repeat(2000))),
            ..PageResponse::default()
        };
        let headers = response.headers();
        assert_eq!(headers["x-response-code"], "404");
        assert_eq!(headers["x-response-url"].len(), MAX_URL);
        assert_eq!(headers.len(), 2, "a status of two lines is no header");
    }
}
