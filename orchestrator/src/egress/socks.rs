//! SOCKS version 5 (RFC 1928), of which browsers need little: no authentication, and `CONNECT`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use url::Host;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimedOut = 6,
    UnknownCommand = 7,
}

/// Where a client wants to go. A name is not resolved yet; one that is an address in another notation is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub host: Host,
    pub port: u16,
}

/// Answers the greeting, whose first two bytes were read, and reads the request.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, greeting: [u8; 2]) -> io::Result<Target> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    if greeting[0] != VERSION {
        return Err(malformed());
    }
    let mut methods = [0; 255];
    let methods = &mut methods[..usize::from(greeting[1])];
    stream.read_exact(methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(malformed());
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    if head[0] != VERSION {
        return Err(malformed());
    }
    let host = match head[3] {
        IPV4 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            Host::Ipv4(Ipv4Addr::from(octets))
        }
        IPV6 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            Host::Ipv6(Ipv6Addr::from(octets))
        }
        NAME => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            host(std::str::from_utf8(&name).map_err(|_| malformed())?).ok_or_else(malformed)?
        }
        _ => return Err(malformed()),
    };
    let port = stream.read_u16().await?;
    if head[1] != CONNECT {
        answer(stream, Reply::UnknownCommand).await?;
        return Err(malformed());
    }
    Ok(Target { host, port })
}

/// Reads a host as the URL standard does: `0x7f.1` and `2130706433` are addresses, and names have small letters.
pub(super) fn host(text: &str) -> Option<Host> {
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<Ipv6Addr>() {
        return Some(Host::Ipv6(address));
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            (!name.is_empty()).then(|| Host::Domain(name.to_owned()))
        }
        address => Some(address),
    }
}

/// Answers the request.
pub(super) async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, reply: Reply) -> io::Result<()> {
    stream.write_all(&[VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}

/// The address that a host is, unless it is a name.
pub(super) const fn address(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(rest: &[u8]) -> (io::Result<Target>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(1024);
        client.write_all(rest).await.unwrap();
        client.shutdown().await.unwrap();
        let target = accept(&mut server, [5, 1]).await;
        drop(server);
        let mut answered = Vec::new();
        client.read_to_end(&mut answered).await.unwrap();
        (target, answered)
    }

    #[tokio::test]
    async fn a_browsers_request_is_read() {
        let target = |host, port| Target { host, port };
        let named = asked(b"\0\x05\x01\0\x03\x09EXAMPLE.x\x01\xbb").await;
        assert_eq!(named.0.unwrap(), target(Host::Domain("example.x".to_owned()), 443));
        assert_eq!(named.1, [5, 0]);
        let address = asked(b"\0\x05\x01\0\x01\x0a\0\0\x01\0\x50").await;
        assert_eq!(address.0.unwrap(), target(Host::Ipv4(Ipv4Addr::new(10, 0, 0, 1)), 80));
        let mapped = asked(b"\0\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\0\x50").await;
        assert_eq!(mapped.0.unwrap().host, Host::Ipv6("::ffff:127.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn other_commands_and_nonsense_are_refused() {
        let (datagrams, answered) = asked(b"\0\x05\x03\0\x01\x0a\0\0\x01\0\x50").await;
        assert!(datagrams.is_err());
        assert_eq!(answered[..4], [5, 0, 5, 7]);
        let (no_method, answered) = asked(b"\x02").await;
        assert!(no_method.is_err());
        assert_eq!(answered, [5, 0xff]);
        for wrong in [
            &b"\0\x04\x01\0\x01"[..],
            b"\0\x05\x01\0\x09",
            b"\0\x05\x01\0\x03\0\0\x50",
            b"\0\x05\x01\0\x03\x02a\xff\0\x50",
        ] {
            assert!(asked(wrong).await.0.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_notation_of_an_address_is_one() {
        for text in ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1."] {
            assert_eq!(host(text), Some(Host::Ipv4(Ipv4Addr::LOCALHOST)), "{text}");
        }
        assert_eq!(host("[::1]"), Some(Host::Ipv6(Ipv6Addr::LOCALHOST)));
        assert_eq!(host("a.example."), Some(Host::Domain("a.example".to_owned())));
        assert_eq!(host("a b"), None);
    }
}
