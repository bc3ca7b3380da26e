//! SOCKS version 5 (RFC 1928), which the browser speaks with the daemon. The agent speaks it, too.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use warmpool_protocol::socks::{
    Address, CONNECT, FAILED, HEAD, NO_AUTHENTICATION, SUCCEEDED, VERSION, address, address_length, message,
};

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Has the daemon connect a tunnel to a site.
/// Errors: when it does not, or hangs up.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(tunnel: &mut S, site: &Site) -> io::Result<()> {
    // The daemon reads addresses as names, too.
    let request = message(CONNECT, Address::Name(site.host.as_bytes()), site.port);
    let request = request.ok_or(io::ErrorKind::InvalidInput)?;
    greet(tunnel).await?;
    tunnel.write_all(&request).await?;
    match read_message(tunnel).await?[1] {
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
    read_message(browser).await
}

/// Reads a request or an answer with the address in it.
async fn read_message<S: AsyncRead + Unpin>(from: &mut S) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEAD + 1];
    from.read_exact(&mut message).await?;
    let length = address_length(message[HEAD - 1], message[HEAD]).ok_or(io::ErrorKind::InvalidData)?;
    message.resize(HEAD + length, 0);
    from.read_exact(&mut message[HEAD + 1..]).await?;
    Ok(message)
}

/// The answer to a request, without an address.
pub(crate) fn answer(is_connected: bool) -> Vec<u8> {
    let nowhere = Address::Ip(Ipv4Addr::UNSPECIFIED.into());
    message(if is_connected { SUCCEEDED } else { FAILED }, nowhere, 0).unwrap_or_default()
}

/// The site that a browser's request names.
pub(crate) fn requested(request: &[u8]) -> Option<Site> {
    let &[VERSION, CONNECT, _, kind, ref rest @ ..] = request else { return None };
    let (host, port) = match address(kind, rest)? {
        (Address::Ip(ip), port) => (ip.to_string(), port),
        (Address::Name(name), port) => (std::str::from_utf8(name).ok()?.to_owned(), port),
    };
    Some(Site { host, port })
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
    fn requests_are_read() {
        let site = |request: &[u8]| requested(request).map(|site| (site.host, site.port));
        assert_eq!(site(b"\x05\x01\0\x03\x03a.x\0\x50"), Some(("a.x".to_owned(), 80)));
        assert_eq!(site(b"\x05\x01\0\x01\x7f\0\0\x01\x1f\x90"), Some(("127.0.0.1".to_owned(), 8080)));
        let ipv6 = [&b"\x05\x01\0\x04"[..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(site(&ipv6), Some(("::1".to_owned(), 80)));
        for cut in 0..ipv6.len() {
            assert_eq!(site(&ipv6[..cut]), None);
        }
    }
}
