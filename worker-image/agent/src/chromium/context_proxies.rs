//! Proxies that a client gives to single browser contexts.
//!
//! The browser cannot reach them, since its network leads nowhere. So the agent opens a port for each and puts it in the
//! command in the proxy's place. It carries what comes there to the proxy as any other connection, so the daemon judges the
//! proxy's address. Browser and proxy speak with each other themselves, about credentials as well. Where the client lists
//! hosts without a proxy, the port is one that knows them (`context_port.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Mutex;
use warmpool_protocol::EGRESS_PORT;

use super::bypass::Bypass;
use super::context_port::{ContextPort, ProxyKind};
use crate::egress::Egress;
use crate::socks::Site;

/// The member that names the proxies.
pub(super) const PROXIES: &str = "proxyServer";
/// The member that lists hosts without a proxy.
pub(super) const BYPASS: &str = "proxyBypassList";
/// The proxy that stands for none.
const DIRECT: &str = "direct://";
/// Ends Chromium's own rule by which a page reaches the loopback ports of its container without the proxy.
const NO_LOOPBACK: &str = "<-loopback>";
/// Ports at most: each is a descriptor, and there is one for each proxy.
const MOST_PORTS: usize = 1000;

/// A proxy, and the list of hosts that do without it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Proxy {
    kind: ProxyKind,
    /// None where the agent cannot lead to it.
    site: Option<Site>,
    bypass: String,
}

/// The ports that lead to the proxies of one browser.
pub(super) struct ContextProxies {
    egress: Arc<Egress>,
    ports: Mutex<HashMap<Proxy, u16>>,
}

impl ContextProxies {
    pub(super) fn new(egress: Arc<Egress>) -> Self {
        Self { egress, ports: Mutex::default() }
    }

    /// A client is about to make a context. Puts our ports in the place of its proxies; `true` if it has any.
    pub(super) async fn redirect(&self, params: &mut Map<String, Value>) -> bool {
        let Some(wanted) = params.get(PROXIES).and_then(Value::as_str).map(str::to_owned) else { return false };
        let bypass = params.get(BYPASS).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut rules = Vec::new();
        for rule in wanted.split(';') {
            rules.push(self.rule(rule, &bypass).await);
        }
        params.insert(PROXIES.to_owned(), rules.join(";").into());
        // Our ports know the others of the list: the browser itself reaches nobody.
        params.insert(BYPASS.to_owned(), NO_LOOPBACK.into());
        true
    }

    /// A rule of Chromium's: proxies with commas between them, each for when those before it fail; or the same for one scheme of
    /// pages after an equals sign.
    async fn rule(&self, rule: &str, bypass: &str) -> String {
        let (pages, proxies) = rule.split_once('=').map_or(("", rule), |(pages, proxies)| (pages, proxies));
        let equals = if pages.is_empty() { "" } else { "=" };
        let mut ours = Vec::new();
        for proxy in proxies.split(',') {
            ours.push(self.proxy(proxy, bypass).await);
        }
        format!("{pages}{equals}{}", ours.join(","))
    }

    /// What stands for a proxy. One that the agent cannot lead to it leaves as it is, unless some hosts do without it.
    async fn proxy(&self, proxy: &str, bypass: &str) -> String {
        if proxy.trim().eq_ignore_ascii_case(DIRECT) {
            return format!("socks5://127.0.0.1:{EGRESS_PORT}");
        }
        let (scheme, kind, site) = match read(proxy) {
            Some((scheme, kind, site)) => (scheme, kind, Some(site)),
            None if !Bypass::parse(bypass).is_empty() => ("http".to_owned(), ProxyKind::Http, None),
            None => return proxy.to_owned(),
        };
        match self.port(Proxy { kind, site, bypass: bypass.to_owned() }).await {
            Some(port) => format!("{scheme}://127.0.0.1:{port}"),
            None => proxy.to_owned(),
        }
    }

    async fn port(&self, proxy: Proxy) -> Option<u16> {
        let mut ports = self.ports.lock().await;
        if let Some(port) = ports.get(&proxy) {
            return Some(*port);
        }
        if ports.len() >= MOST_PORTS {
            return None;
        }
        let (kind, bypass) = (proxy.kind, Bypass::parse(&proxy.bypass));
        let opened = match &proxy.site {
            Some(site) if bypass.is_empty() => self.egress.open_port(site.clone()).await,
            site => {
                let (egress, proxy) = (Arc::clone(&self.egress), site.clone());
                ContextPort { egress, kind, proxy, bypass }.open().await
            }
        };
        let port = opened.ok()?;
        ports.insert(proxy, port);
        Some(port)
    }
}

/// Scheme and address of a proxy that takes connections in the clear. One over TLS shows a certificate with its own name,
/// which is not that of our port.
fn read(proxy: &str) -> Option<(String, ProxyKind, Site)> {
    let proxy = proxy.trim();
    let with_scheme = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    let address: http::Uri = with_scheme.parse().ok()?;
    let scheme = address.scheme_str()?.to_ascii_lowercase();
    let (kind, default_port) = match scheme.as_str() {
        "http" => (ProxyKind::Http, 80),
        "socks4" => (ProxyKind::Socks4, 1080),
        "socks" | "socks5" => (ProxyKind::Socks5, 1080),
        _ => return None,
    };
    let host = address.host().filter(|host| !host.is_empty())?.to_owned();
    let after_host = address.authority()?.as_str().rsplit('@').next()?.strip_prefix(&host)?;
    let port = after_host.strip_prefix(':').map_or(Ok(default_port), str::parse).ok()?;
    Some((scheme, kind, Site { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn site(host: &str, port: u16) -> Site {
        Site { host: host.to_owned(), port }
    }

    #[test]
    fn every_notation_of_a_proxy_is_read() {
        for (text, scheme, host, port) in [
            ("proxy.example:3128", "http", "proxy.example", 3128),
            ("http://proxy.example", "http", "proxy.example", 80),
            ("HTTP://10.0.0.1:8080/", "http", "10.0.0.1", 8080),
            ("socks5://proxy.example", "socks5", "proxy.example", 1080),
            ("socks://[::1]:9", "socks", "[::1]", 9),
        ] {
            let (read_scheme, _, read_site) = read(text).unwrap();
            assert_eq!((read_scheme.as_str(), read_site), (scheme, site(host, port)), "{text}");
        }
        for text in ["https://proxy.example", "direct://", "", "quic://a:1", "http://a:999999", "a b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn a_proxy_has_one_port() {
        let proxies = ContextProxies::new(Arc::new(Egress::new()));
        let redirected = async |mut params: Value| {
            assert!(proxies.redirect(params.as_object_mut().unwrap()).await);
            params
        };
        let first = redirected(json!({PROXIES: "a.example:1", "disposeOnDetach": true})).await;
        let port = first[PROXIES].as_str().unwrap();
        assert!(port.starts_with("http://127.0.0.1:"), "{port}");
        assert_eq!((&first[BYPASS], &first["disposeOnDetach"]), (&json!("<-loopback>"), &json!(true)));
        let second = redirected(json!({PROXIES: "http=a.example:1;https=https://b.example"})).await;
        assert_eq!(second[PROXIES], format!("http={port};https=https://b.example"));
        assert_ne!(redirected(json!({PROXIES: "a.example:2"})).await[PROXIES], port);
    }

    #[tokio::test]
    async fn the_browser_reaches_nobody_itself() {
        let proxies = ContextProxies::new(Arc::new(Egress::new()));
        let redirected = async |proxies_of: &str, bypass: &str| {
            let mut params = json!({PROXIES: proxies_of, BYPASS: bypass});
            assert!(proxies.redirect(params.as_object_mut().unwrap()).await);
            assert_eq!(params[BYPASS], "<-loopback>");
            params[PROXIES].as_str().unwrap().to_owned()
        };
        let ours =
            |proxy: &str| proxy.strip_prefix("http://127.0.0.1:").is_some_and(|port| port.parse::<u16>().is_ok());
        let plain = redirected("a.example:1", "").await;
        let listed = redirected("a.example:1", "c.example").await;
        assert!(ours(&plain) && ours(&listed) && plain != listed, "{plain} {listed}");
        assert_eq!(redirected("a.example:1", "c.example").await, listed);
        assert_eq!(redirected("https://a.example", "").await, "https://a.example");
        assert!(
            ours(&redirected("https://a.example", "c.example").await),
            "hosts of the list are reached all the same"
        );
        let direct = format!("http=socks5://127.0.0.1:{EGRESS_PORT}");
        assert_eq!(redirected("http=direct://", "").await, direct);
    }

    #[tokio::test]
    async fn each_proxy_of_a_list_has_its_port() {
        let proxies = ContextProxies::new(Arc::new(Egress::new()));
        let redirected = async |list: &str| {
            let mut params = json!({PROXIES: list});
            assert!(proxies.redirect(params.as_object_mut().unwrap()).await);
            params[PROXIES].as_str().unwrap().to_owned()
        };
        let (a, b) = (redirected("a.example:1").await, redirected("socks5://b.example").await);
        assert!(a.starts_with("http://127.0.0.1:") && b.starts_with("socks5://127.0.0.1:"), "{a} {b}");
        let direct = format!("socks5://127.0.0.1:{EGRESS_PORT}");
        for (list, ours) in [
            ("a.example:1,socks5://b.example", format!("{a},{b}")),
            ("socks5://b.example, DIRECT://", format!("{b},{direct}")),
            ("direct://,a.example:1", format!("{direct},{a}")),
            (
                "http=a.example:1,direct://;https=https://c.example,a.example:1",
                format!("http={a},{direct};https=https://c.example,{a}"),
            ),
        ] {
            assert_eq!(redirected(list).await, ours, "{list}");
        }
    }

    #[tokio::test]
    async fn a_context_without_a_proxy_stays_as_it_is() {
        let proxies = ContextProxies::new(Arc::new(Egress::new()));
        for params in [json!({"disposeOnDetach": true}), json!({PROXIES: 3})] {
            let mut redirected = params.clone();
            assert!(!proxies.redirect(redirected.as_object_mut().unwrap()).await);
            assert_eq!(redirected, params);
        }
    }
}
