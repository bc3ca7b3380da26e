//! SOCKS version 5 (RFC 1928), which the browser speaks with the daemon: the agent speaks it, too, and reads along.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The first byte of every message.
pub(crate) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
/// The kind of an address that is a name. The daemon reads addresses as names, too.
const NAME: u8 = 3;
const IPV6: u8 = 4;
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
/// Bytes of a message before its address.
const HEAD: usize = 4;

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Has the daemon connect a tunnel to a site.
/// Errors: when it does not, or hangs up.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(tunnel: &mut S, site: &Site) -> io::Result<()> {
    let length = u8::try_from(site.host.len()).map_err(io::Error::other)?;
    greet(tunnel).await?;
    let mut request = vec![VERSION, CONNECT, 0, NAME, length];
    request.extend_from_slice(site.host.as_bytes());
    request.extend(site.port.to_be_bytes());
    tunnel.write_all(&request).await?;
    let mut answer = [0; HEAD];
    tunnel.read_exact(&mut answer).await?;
    let mut address = vec![0; if answer[3] == IPV6 { 16 } else { 4 } + 2];
    tunnel.read_exact(&mut address).await?;
    match answer[1] {
        SUCCEEDED => Ok(()),
        code => Err(io::Error::other(format!("the daemon answered {code}"))),
    }
}

/// Greets a server, as somebody without a password.
/// Errors: when it wants one, or hangs up.
pub(crate) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(server: &mut S) -> io::Result<()> {
    server.write_all(&[VERSION, 1, NO_AUTHENTICATION]).await?;
    let mut greeting = [0; 2];
    server.read_exact(&mut greeting).await?;
    if greeting == [VERSION, NO_AUTHENTICATION] {
        Ok(())
    } else {
        Err(io::Error::other("it takes nobody without a password"))
    }
}

/// Answers a browser's greeting, and reads its request.
/// Errors: when it speaks something else, or hangs up.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(browser: &mut S) -> io::Result<Vec<u8>> {
    let mut greeting = [0; 2];
    browser.read_exact(&mut greeting).await?;
    browser.read_exact(&mut vec![0; usize::from(greeting[1])]).await?;
    browser.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut request = vec![0; HEAD + 1];
    browser.read_exact(&mut request).await?;
    let rest = match request[HEAD - 1] {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(request[HEAD]) + 1,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    request.resize(HEAD + rest + 2, 0);
    browser.read_exact(&mut request[HEAD + 1..]).await?;
    Ok(request)
}

/// The answer to a request, without an address.
pub(crate) const fn answer(is_connected: bool) -> [u8; 10] {
    [VERSION, if is_connected { SUCCEEDED } else { FAILED }, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

/// The site that a browser's request names.
pub(crate) fn requested(request: &[u8]) -> Option<Site> {
    let &[VERSION, CONNECT, _, kind, ref rest @ ..] = request else { return None };
    if kind != NAME {
        let address = socket_address(kind, rest)?;
        return Some(Site { host: address.ip().to_string(), port: address.port() });
    }
    let (&length, rest) = rest.split_first()?;
    let (host, port) = rest.split_at_checked(usize::from(length))?;
    let host = std::str::from_utf8(host).ok()?.to_owned();
    Some(Site { host, port: u16::from_be_bytes(*port.first_chunk()?) })
}

/// The address that the daemon's answer says the connection leads to; none where it keeps that for itself.
pub(crate) fn connected_to(answer: &[u8]) -> Option<SocketAddr> {
    let &[VERSION, SUCCEEDED, _, kind, ref rest @ ..] = answer else { return None };
    socket_address(kind, rest).filter(|address| !address.ip().is_unspecified())
}

fn socket_address(kind: u8, bytes: &[u8]) -> Option<SocketAddr> {
    let (address, port): (IpAddr, _) = match kind {
        IPV4 => (bytes.first_chunk::<4>().copied()?.into(), bytes.get(4..)?),
        IPV6 => (bytes.first_chunk::<16>().copied()?.into(), bytes.get(16..)?),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_be_bytes(*port.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(answers: &[u8]) -> (io::Result<()>, Vec<u8>) {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(answers).await.unwrap();
        theirs.shutdown().await.unwrap();
        let connected = connect(&mut ours, &Site { host: "proxy.x".to_owned(), port: 3128 }).await;
        drop(ours);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.unwrap();
        (connected, sent)
    }

    #[tokio::test]
    async fn a_site_is_asked_for_by_name() {
        let (connected, sent) = asked(b"\x05\0\x05\0\0\x01\0\0\0\0\0\0").await;
        connected.unwrap();
        assert_eq!(sent, b"\x05\x01\0\x05\x01\0\x03\x07proxy.x\x0c\x38");
        assert!(asked(b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0").await.0.is_err());
        assert!(asked(b"\x05\xff").await.0.is_err());
        let from_ipv6 = [&b"\x05\0\x05\0\0\x04"[..], &[7; 18]].concat();
        asked(&from_ipv6).await.0.unwrap();
        assert!(asked(&from_ipv6[..23]).await.0.is_err());
    }

    #[test]
    fn requests_and_answers_are_read() {
        let site = |request: &[u8]| requested(request).map(|site| (site.host, site.port));
        assert_eq!(site(b"\x05\x01\0\x03\x03a.x\0\x50"), Some(("a.x".to_owned(), 80)));
        assert_eq!(site(b"\x05\x01\0\x01\x7f\0\0\x01\x1f\x90"), Some(("127.0.0.1".to_owned(), 8080)));
        let ipv6 = [&b"\x05\x01\0\x04"[..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(site(&ipv6), Some(("::1".to_owned(), 80)));
        for cut in 0..ipv6.len() {
            assert_eq!(site(&ipv6[..cut]), None);
        }
        assert_eq!(connected_to(b"\x05\0\0\x01\x0a\0\0\x07\x1f\x90"), "10.0.0.7:8080".parse().ok());
        for none in [&b"\x05\x05\0\x01\x0a\0\0\x07\x1f\x90"[..], b"\x05\0\0\x01\0\0\0\0\0\0", b"\x05\0\0\x01\x0a", b""]
        {
            assert_eq!(connected_to(none), None);
        }
    }
}
