//! A port of the agent that stands for a proxy of a browser context, where some hosts have no proxy.
//!
//! Chromium would connect to these hosts itself, and its network leads nowhere. So it is told of no such hosts and takes
//! every connection to this port, which sends those hosts the session's way and the others to the proxy.

use std::io;
use std::sync::Arc;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bypass::Bypass;
use crate::egress::{self, Egress};
use crate::socks::{self, Site};

/// The port of pages that are not encrypted.
const HTTP: u16 = 80;
/// The longest head of a request, in bytes; Chromium's are shorter.
const MAX_HEAD: usize = 1 << 20;
/// Where a request of SOCKS version 4 has the user's name, and the longest request, in bytes.
const SOCKS4_USER: usize = 8;
const MAX_SOCKS4: usize = 512;
const END: &[u8] = b"\r\n\r\n";

/// What the browser speaks with a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ProxyKind {
    Http,
    Socks4,
    Socks5,
}

/// The port's destinations.
pub(super) struct ContextPort {
    pub(super) egress: Arc<Egress>,
    pub(super) kind: ProxyKind,
    /// None where the agent cannot lead to it.
    pub(super) proxy: Option<Site>,
    pub(super) bypass: Bypass,
}

impl ContextPort {
    /// Opens it for as long as the agent runs.
    /// Errors: when there is no port left.
    pub(super) async fn open(self) -> io::Result<u16> {
        let port = Arc::new(self);
        egress::open_port(move |browser| {
            let port = Arc::clone(&port);
            async move {
                if let Err(error) = port.serve(browser).await {
                    tracing::debug!(%error, "a connection of a browser context ended");
                }
            }
        })
        .await
    }

    async fn serve(&self, browser: TcpStream) -> io::Result<()> {
        match self.kind {
            ProxyKind::Http => self.http(browser).await,
            ProxyKind::Socks4 => self.socks4(browser).await,
            ProxyKind::Socks5 => self.socks5(browser).await,
        }
    }

    /// Chromium keeps the connections to one proxy apart by the site, so the first request says where all of them go.
    async fn http(&self, mut browser: TcpStream) -> io::Result<()> {
        let mut begun = Vec::with_capacity(4 << 10);
        let line = read_until(&mut browser, &mut begun, b"\r\n").await?;
        let (method, target) = request_line(&begun[..line]).ok_or_else(malformed)?;
        let is_tunnel = method == "CONNECT";
        let site = site(&target, is_tunnel).ok_or_else(malformed)?;
        if !self.bypass.has(&site, is_tunnel && site.port != HTTP) {
            return self.pass(browser, &begun).await;
        }
        let head = read_until(&mut browser, &mut begun, END).await? + END.len();
        match self.egress.connect(&site).await {
            Ok(mut tunnel) if is_tunnel => {
                browser.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                tunnel.write_all(&begun[head..]).await?;
                egress::carry(browser, tunnel).await;
            }
            Ok(mut tunnel) => {
                tunnel.write_all(&origin_form(&begun[..head]).ok_or_else(malformed)?).await?;
                tunnel.write_all(&begun[head..]).await?;
                egress::carry(browser, tunnel).await;
            }
            Err(error) if is_tunnel => {
                browser.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await?;
                return Err(error);
            }
            // The browser shows an error of its own.
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn socks5(&self, mut browser: TcpStream) -> io::Result<()> {
        let request = socks::accept(&mut browser).await?;
        let site = socks::requested(&request).ok_or_else(malformed)?;
        if !self.bypass.has(&site, site.port != HTTP) {
            let mut tunnel = self.to_proxy().await?;
            socks::greet(&mut tunnel).await?;
            tunnel.write_all(&request).await?;
            egress::carry(browser, tunnel).await;
            return Ok(());
        }
        match self.egress.connect(&site).await {
            Ok(tunnel) => {
                browser.write_all(&socks::answer(true)).await?;
                egress::carry(browser, tunnel).await;
                Ok(())
            }
            Err(error) => {
                browser.write_all(&socks::answer(false)).await?;
                Err(error)
            }
        }
    }

    /// Version 4 has addresses alone, and a user's name that ends with a zero.
    async fn socks4(&self, mut browser: TcpStream) -> io::Result<()> {
        let mut request = Vec::new();
        let end = loop {
            let user = request.get(SOCKS4_USER..).unwrap_or_default();
            match user.iter().position(|byte: &u8| *byte == 0) {
                Some(length) => break SOCKS4_USER + length + 1,
                None => read_more(&mut browser, &mut request, MAX_SOCKS4).await?,
            }
        };
        let &[4, 1, high, low, a, b, c, d, ..] = request.as_slice() else { return Err(malformed()) };
        let site = Site { host: format!("{a}.{b}.{c}.{d}"), port: u16::from_be_bytes([high, low]) };
        if !self.bypass.has(&site, site.port != HTTP) {
            return self.pass(browser, &request).await;
        }
        let mut tunnel = self.egress.connect(&site).await?;
        browser.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).await?;
        tunnel.write_all(&request[end..]).await?;
        egress::carry(browser, tunnel).await;
        Ok(())
    }

    /// Leaves the rest to browser and proxy.
    async fn pass(&self, browser: TcpStream, begun: &[u8]) -> io::Result<()> {
        let mut tunnel = self.to_proxy().await?;
        tunnel.write_all(begun).await?;
        egress::carry(browser, tunnel).await;
        Ok(())
    }

    async fn to_proxy(&self) -> io::Result<crate::listener::Connection> {
        let proxy = self.proxy.as_ref().ok_or_else(|| io::Error::other("no way leads to this kind of proxy"))?;
        self.egress.connect(proxy).await
    }
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

async fn read_more(browser: &mut TcpStream, begun: &mut Vec<u8>, most: usize) -> io::Result<()> {
    if begun.len() >= most {
        return Err(malformed());
    }
    match browser.read_buf(begun).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Reads on until these bytes are there; returns where they begin.
async fn read_until(browser: &mut TcpStream, begun: &mut Vec<u8>, end: &[u8]) -> io::Result<usize> {
    loop {
        if let Some(at) = memmem::find(begun, end) {
            return Ok(at);
        }
        read_more(browser, begun, MAX_HEAD).await?;
    }
}

/// Method and target of a request line.
fn request_line(line: &[u8]) -> Option<(&str, http::Uri)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    Some((words.next()?, words.next()?.parse().ok()?))
}

fn site(target: &http::Uri, is_tunnel: bool) -> Option<Site> {
    let port = target.port_u16().or((!is_tunnel).then_some(HTTP))?;
    Some(Site { host: target.host()?.to_owned(), port })
}

/// The head of a request for a proxy, as the site itself wants it, and without what is meant for the proxy. The
/// connection takes no other request, which would need the same.
fn origin_form(head: &[u8]) -> Option<Vec<u8>> {
    let text = head.strip_suffix(END)?;
    let line_end = memmem::find(text, b"\r\n").unwrap_or(text.len());
    let (method, target) = request_line(&text[..line_end])?;
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let mut request = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    for line in text[line_end..].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        let is_hop = name.starts_with(b"proxy-") || matches!(name.as_slice(), b"connection" | b"keep-alive");
        if !line.is_empty() && !is_hop {
            request.extend_from_slice(line);
            request.extend_from_slice(b"\r\n");
        }
    }
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn a_site_gets_the_request_without_what_is_the_proxys() {
        let head =
            b"GET http://a.example:8080/x?y=1 HTTP/1.1\r\nHost: a.example:8080\r\nProxy-Connection: keep-alive\r\n\
            Proxy-Authorization: Basic dTpw\r\nX-Case: a: b\r\n\r\n";
        let expected = b"GET /x?y=1 HTTP/1.1\r\nHost: a.example:8080\r\nX-Case: a: b\r\nConnection: close\r\n\r\n";
        assert_eq!(origin_form(head).unwrap(), expected);
        assert!(origin_form(b"GET http://a.example/").is_none());
        let bare = origin_form(b"GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        assert!(bare.starts_with(b"GET / HTTP/1.1\r\nHost: a.example\r\n"));
    }

    #[test]
    fn a_request_line_names_the_site() {
        let named = |line: &str| {
            let (method, target) = request_line(line.as_bytes())?;
            let Site { host, port } = site(&target, method == "CONNECT")?;
            Some((host, port))
        };
        assert_eq!(named("GET http://a.example/x HTTP/1.1"), Some(("a.example".to_owned(), 80)));
        assert_eq!(named("POST http://[::1]:81/ HTTP/1.1"), Some(("[::1]".to_owned(), 81)));
        assert_eq!(named("CONNECT a.example:443 HTTP/1.1"), Some(("a.example".to_owned(), 443)));
        for wrong in ["", "GET", "GET /x HTTP/1.1", "CONNECT a.example HTTP/1.1", "\u{16}\u{3}"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }

    /// A daemon at the other end of a tunnel: what the tunnel was asked for, and what came then, up to so many bytes.
    async fn asked(kind: ProxyKind, sent: &[&[u8]], bytes: usize) -> (Site, Vec<u8>) {
        let egress = Arc::new(Egress::new());
        let daemon = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = daemon.local_addr().unwrap();
        let (ours, tunnel) = tokio::join!(TcpStream::connect(address), daemon.accept());
        egress.add_tunnel(tokio_util::either::Either::Right(tunnel.unwrap().0));
        let proxy = Some(Site { host: "proxy.example".to_owned(), port: 3128 });
        let bypass = Bypass::parse("*.direct.example;10.0.0.0/8");
        let port = ContextPort { egress, kind, proxy, bypass }.open().await.unwrap();
        let mut browser = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        for message in sent {
            browser.write_all(message).await.unwrap();
            if kind == ProxyKind::Socks5 && *message == b"\x05\x01\0" {
                browser.read_exact(&mut [0; 2]).await.unwrap();
            }
        }
        let mut ours = ours.unwrap();
        let request = socks::accept(&mut ours).await.unwrap();
        ours.write_all(&socks::answer(true)).await.unwrap();
        let mut came = vec![0; bytes];
        ours.read_exact(&mut came).await.unwrap();
        (socks::requested(&request).unwrap(), came)
    }

    #[tokio::test]
    async fn hosts_of_the_list_go_the_sessions_way() {
        let site = |host: &str, port| Site { host: host.to_owned(), port };
        let get = b"GET http://a.direct.example/ HTTP/1.1\r\nHost: a.direct.example\r\n\r\n";
        let (to, came) = asked(ProxyKind::Http, &[get], 14).await;
        assert_eq!((to, &came[..]), (site("a.direct.example", 80), &b"GET / HTTP/1.1"[..]));
        let tunnel = b"CONNECT a.direct.example:443 HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03";
        let (to, came) = asked(ProxyKind::Http, &[tunnel], 2).await;
        assert_eq!((to, &came[..]), (site("a.direct.example", 443), &b"\x16\x03"[..]));
        let (to, came) =
            asked(ProxyKind::Socks5, &[b"\x05\x01\0", b"\x05\x01\0\x01\x0a\0\0\x07\0\x50", b"hi"], 2).await;
        assert_eq!((to, &came[..]), (site("10.0.0.7", 80), &b"hi"[..]));
        let (to, came) = asked(ProxyKind::Socks4, &[b"\x04\x01\0\x50\x0a\0\0\x07\0", b"hi"], 2).await;
        assert_eq!((to, &came[..]), (site("10.0.0.7", 80), &b"hi"[..]));
    }

    #[tokio::test]
    async fn other_hosts_go_to_the_proxy_as_the_browser_asks() {
        let proxy = Site { host: "proxy.example".to_owned(), port: 3128 };
        let get = b"GET http://b.example/ HTTP/1.1\r\nProxy-Authorization: x\r\n\r\n";
        assert_eq!(asked(ProxyKind::Http, &[get], get.len()).await, (proxy.clone(), get.to_vec()));
        let tunnel = b"CONNECT b.example:443 HTTP/1.1\r\n";
        assert_eq!(asked(ProxyKind::Http, &[tunnel], tunnel.len()).await, (proxy.clone(), tunnel.to_vec()));
        let request = b"\x04\x01\0\x50\x0b\0\0\x07\0";
        assert_eq!(asked(ProxyKind::Socks4, &[request], request.len()).await, (proxy.clone(), request.to_vec()));
        let request = b"\x05\x01\0\x03\x09b.example\0\x50";
        assert_eq!(asked(ProxyKind::Socks5, &[b"\x05\x01\0", request], 3).await, (proxy, b"\x05\x01\0".to_vec()));
    }
}
