//! A proxy that a WebDriver client names by the standard's capability.

use serde_json::{Map, Value};
use url::{Host, Url};

use super::proxy::Proxy;
use super::socks::Credentials;
use warmpool_config::ProxyScheme;
use warmpool_core::address;
use warmpool_core::cipher::Cipher;
use warmpool_core::secret::Secret;

/// The port of plain HTTP, to which `httpProxy` applies; `sslProxy` applies to every other.
const HTTP: u16 = 80;

/// The proxies of one session.
#[derive(Debug, Clone)]
pub struct ClientProxy {
    /// The capability that it was read from, which may have a password.
    capability: Secret,
    http: Option<Proxy>,
    ssl: Option<Proxy>,
    socks: Option<Proxy>,
    /// Hosts that need no proxy: names, and suffixes that begin with a dot.
    none: Vec<String>,
}

impl ClientProxy {
    /// Reads the members of a checked proxy capability of kind `manual`.
    /// Errors: the member that is wrong, and why.
    pub fn read(members: &Map<String, Value>) -> Result<Self, (&'static str, &'static str)> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let proxy = |name: &'static str, scheme| {
            text(name).map(|text| proxy(text, scheme).ok_or((name, "must be host and port")))
        };
        let mut socks = proxy("socksProxy", ProxyScheme::Socks5).transpose()?;
        if socks.is_some() && members.get("socksVersion").and_then(Value::as_u64) != Some(5) {
            return Err(("socksVersion", "must be 5: other versions are not served"));
        }
        if let (Some(socks), Some(user)) = (&mut socks, text("socksUsername")) {
            let password = Secret::new(text("socksPassword").unwrap_or_default().to_owned());
            socks.credentials = Some(Credentials { user: user.to_owned(), password });
        }
        let none = members.get("noProxy").and_then(Value::as_array);
        let none = none.into_iter().flatten().filter_map(Value::as_str).filter_map(no_proxy);
        Ok(Self {
            capability: Secret::new(Value::Object(members.clone()).to_string()),
            http: proxy("httpProxy", ProxyScheme::Http).transpose()?,
            ssl: proxy("sslProxy", ProxyScheme::Http).transpose()?,
            socks,
            none: none.collect(),
        })
    }

    /// It as text that only this cipher makes sense of.
    #[must_use]
    pub fn encrypted(&self, cipher: &Cipher) -> String {
        cipher.encrypt(self.capability.expose().as_bytes())
    }

    /// Reads what [`ClientProxy::encrypted`] made; none where that is damaged, or another cipher's.
    #[must_use]
    pub fn decrypted(text: &str, cipher: &Cipher) -> Option<Self> {
        Self::read(&cipher.decrypt_json(text).ok()?).ok()
    }

    /// The proxy for a site, if it needs one.
    pub(super) fn proxy_for(&self, host: &Host, port: u16) -> Option<&Proxy> {
        let host = host.to_string();
        let direct = |rule: &String| if rule.starts_with('.') { host.ends_with(rule.as_str()) } else { host == *rule };
        if self.none.iter().any(direct) {
            return None;
        }
        let own = if port == HTTP { &self.http } else { &self.ssl };
        own.as_ref().or(self.socks.as_ref())
    }
}

/// Reads a host of `noProxy`, in the form in which sites are compared with it.
fn no_proxy(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('*');
    let (dot, name) = text.strip_prefix('.').map_or(("", text), |name| (".", name));
    Some(format!("{dot}{}", address::host(name)?))
}

/// Reads `host:port`, where clients may put a scheme in front, and a user with a password.
fn proxy(text: &str, scheme: ProxyScheme) -> Option<Proxy> {
    let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) }.ok()?;
    let user = percent_encoding::percent_decode_str(url.username()).decode_utf8().ok()?.into_owned();
    let password =
        percent_encoding::percent_decode_str(url.password().unwrap_or_default()).decode_utf8().ok()?.into_owned();
    let port = match scheme {
        ProxyScheme::Socks5 => url.port().unwrap_or(1080),
        ProxyScheme::Http | ProxyScheme::Https => url.port_or_known_default()?,
    };
    let credentials = (!user.is_empty()).then(|| Credentials { user, password: Secret::new(password) });
    Some(Proxy { scheme, host: address::host(url.host_str()?)?, port, credentials })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<ClientProxy, (&'static str, &'static str)> {
        ClientProxy::read(value.as_object().unwrap())
    }

    #[test]
    fn each_site_has_its_proxy() {
        let proxies =
            json!({"httpProxy": "http://u:p%40@web.x", "sslProxy": "tls.x:3128", "noProxy": ["*.Local.x.", "one.x"]});
        let proxies = read(proxies).unwrap();
        let of = |host: &str, port| {
            proxies.proxy_for(&Host::Domain(host.to_owned()), port).map(|proxy| (proxy.host.to_string(), proxy.port))
        };
        assert_eq!(of("a.x", 80), Some(("web.x".to_owned(), 80)));
        assert_eq!(of("a.x", 443), Some(("tls.x".to_owned(), 3128)));
        assert_eq!((of("one.x", 443), of("a.local.x", 80)), (None, None));
        assert_eq!(proxies.http.as_ref().unwrap().credentials.as_ref().unwrap().password.expose(), "p@");
        let socks = read(json!({"socksProxy": "[::1]:1", "socksVersion": 5, "socksUsername": "u"})).unwrap();
        assert_eq!(socks.proxy_for(&Host::Domain("a.x".to_owned()), 80).unwrap().scheme, ProxyScheme::Socks5);
        assert_eq!(read(json!({"socksProxy": "a:1", "socksVersion": 4})).unwrap_err().0, "socksVersion");
    }

    #[test]
    fn it_comes_back_for_who_has_the_key() {
        let proxies = read(json!({"httpProxy": "u:open-sesame@web.x", "noProxy": ["one.x"]})).unwrap();
        let (cipher, other) = (Cipher::new(&[1; 32]), Cipher::new(&[2; 32]));
        let text = proxies.encrypted(&cipher);
        let read = ClientProxy::decrypted(&text, &cipher).unwrap();
        let found = read.proxy_for(&Host::Domain("a.x".to_owned()), 80).unwrap();
        assert_eq!(found.credentials.as_ref().unwrap().password.expose(), "open-sesame");
        assert_eq!(read.none, ["one.x"]);
        assert!(ClientProxy::decrypted(&text, &other).is_none() && ClientProxy::decrypted("", &cipher).is_none());
        assert!(!format!("{proxies:?}").contains("sesame"), "{proxies:?}");
    }
}
