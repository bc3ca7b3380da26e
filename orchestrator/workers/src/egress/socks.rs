//! SOCKS version 5 (RFC 1928), of which browsers need little: no authentication, and `CONNECT`.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use url::Host;
use warmpool_protocol::socks;
use warmpool_protocol::socks::{
    Address, CONNECT, FAILED, HEAD, NO_AUTHENTICATION, SUCCEEDED, VERSION, address_length, message,
};

use super::proxy::ProxyError;
use warmpool_core::address;
use warmpool_core::secret::Secret;

const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;

/// How a request is answered. Two answers have the code of another, as RFC 1928 has none for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Succeeded,
    Failed,
    NotAllowed,
    NetworkUnreachable,
    HostUnreachable,
    ConnectionRefused,
    TimedOut,
    UnknownCommand,
    UnknownHost,
    ProxyFailed,
}

impl Reply {
    const fn code(self) -> u8 {
        match self {
            Self::Succeeded => SUCCEEDED,
            Self::Failed | Self::ProxyFailed => FAILED,
            Self::NotAllowed => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable | Self::UnknownHost => 4,
            Self::ConnectionRefused => 5,
            Self::TimedOut => 6,
            Self::UnknownCommand => 7,
        }
    }
}

/// A client's destination. Names are unresolved; a name that spells an address in another notation is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub host: Host,
    pub port: u16,
}

/// Answers the greeting, which begins with the bytes in `begun`, and reads the request. `refused` hears
/// Chromium's name for what is wrong with one that names no site, where it has any.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    mut begun: BytesMut,
    refused: impl Fn(Option<&'static str>),
) -> io::Result<Target> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    while begun.len() < 2 || begun.len() < 2 + usize::from(begun[1]) {
        if stream.read_buf(&mut begun).await? == 0 {
            return Err(malformed());
        }
    }
    // Browsers wait for the answer to their greeting.
    if begun[0] != VERSION || begun.len() > 2 + usize::from(begun[1]) {
        return Err(malformed());
    }
    if !begun[2..].contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(malformed());
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    let [VERSION, command, _, kind] = head else { return Err(malformed()) };
    let bytes = read_address(stream, kind).await?;
    let (host, port) = socks::address(kind, &bytes).ok_or_else(malformed)?;
    let host = match host {
        Address::Ip(IpAddr::V4(ip)) => Some(Host::Ipv4(ip)),
        Address::Ip(IpAddr::V6(ip)) => Some(Host::Ipv6(ip)),
        Address::Name(name) => std::str::from_utf8(name).ok().and_then(address::host),
    };
    let refusal = match host {
        Some(host) if command == CONNECT => return Ok(Target { host, port }),
        Some(_) => Reply::UnknownCommand,
        // What a resolver says of such a name.
        None => Reply::UnknownHost,
    };
    refused((refusal == Reply::UnknownHost).then_some("net::ERR_NAME_NOT_RESOLVED"));
    answer(stream, refusal).await?;
    Err(malformed())
}

/// Reads the bytes of a message's address and port.
async fn read_address<S: AsyncRead + Unpin>(stream: &mut S, kind: u8) -> io::Result<Vec<u8>> {
    let first = stream.read_u8().await?;
    let mut bytes = vec![first; address_length(kind, first).ok_or(io::ErrorKind::InvalidData)?];
    stream.read_exact(&mut bytes[1..]).await?;
    Ok(bytes)
}

/// Answers the request.
pub(super) async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, reply: Reply) -> io::Result<()> {
    answer_with(stream, reply, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await
}

/// Answers that there is a connection to this address, which stands where RFC 1928 has the address that the connection
/// comes from, which says nothing to a browser.
pub(super) async fn answer_connected<S: AsyncWrite + Unpin>(stream: &mut S, peer: SocketAddr) -> io::Result<()> {
    answer_with(stream, Reply::Succeeded, peer).await
}

async fn answer_with<S: AsyncWrite + Unpin>(stream: &mut S, reply: Reply, address: SocketAddr) -> io::Result<()> {
    let message = message(reply.code(), Address::Ip(address.ip()), address.port());
    stream.write_all(&message.unwrap_or_default()).await
}

/// The user that a proxy authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub user: String,
    pub password: Secret,
}

/// Asks a proxy for a connection to a site (RFC 1928, RFC 1929).
pub(super) async fn request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    credentials: Option<&Credentials>,
    host: &Host,
    port: u16,
) -> Result<(), ProxyError> {
    let method = if credentials.is_some() { PASSWORD } else { NO_AUTHENTICATION };
    stream.write_all(&[VERSION, 1, method]).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match (answer, credentials) {
        ([VERSION, NO_AUTHENTICATION], None) => {}
        ([VERSION, PASSWORD], Some(Credentials { user, password })) => {
            let mut message = vec![1];
            for text in [user.as_str(), password.expose()] {
                message.push(u8::try_from(text.len()).map_err(|_| ProxyError::Credentials)?);
                message.extend_from_slice(text.as_bytes());
            }
            stream.write_all(&message).await?;
            stream.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(ProxyError::Credentials);
            }
        }
        ([VERSION, NO_METHOD], _) => return Err(ProxyError::Credentials),
        _ => return Err(ProxyError::Garbage),
    }
    let address = match host {
        Host::Ipv4(ip) => Address::Ip((*ip).into()),
        Host::Ipv6(ip) => Address::Ip((*ip).into()),
        Host::Domain(name) => Address::Name(name.as_bytes()),
    };
    stream.write_all(&message(CONNECT, address, port).ok_or(ProxyError::Garbage)?).await?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    match head {
        // What follows is the address that the proxy connects from.
        [VERSION, SUCCEEDED, _, kind] => read_address(stream, kind).await.map(drop).map_err(Into::into),
        [VERSION, code, ..] => Err(ProxyError::Refused(format!("code {code}"))),
        _ => Err(ProxyError::Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client gets that begins with one method, and what is made of its request.
    async fn asked(rest: &[u8]) -> (io::Result<Target>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(1024);
        let answers = async {
            client.write_all(&rest[1..]).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let greeting = BytesMut::from(&[5, 1, rest[0]][..]);
        let (target, ()) = tokio::join!(accept(&mut server, greeting, drop), answers);
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
        assert_eq!(mapped.0.unwrap().host, Host::<String>::Ipv6("::ffff:127.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_greeting_may_come_in_pieces_and_with_nothing_after_it() {
        let (mut client, mut server) = tokio::io::duplex(1024);
        client.write_all(b"\x02\0\x02").await.unwrap();
        client.shutdown().await.unwrap();
        assert!(accept(&mut server, BytesMut::from(&b"\x05"[..]), drop).await.is_err(), "no request came");
        drop(server);
        let mut answered = Vec::new();
        client.read_to_end(&mut answered).await.unwrap();
        assert_eq!(answered, [5, 0]);
        let (_client, mut server) = tokio::io::duplex(1024);
        assert!(accept(&mut server, BytesMut::from(&b"\x05\x01\0\x05\x01"[..]), drop).await.is_err());
    }

    #[tokio::test]
    async fn an_answer_has_the_address_of_the_connection() {
        let mut answered = Vec::new();
        answer_connected(&mut answered, "192.0.2.7:80".parse().unwrap()).await.unwrap();
        answer_connected(&mut answered, "[::1]:80".parse().unwrap()).await.unwrap();
        assert_eq!(answered[..10], [5, 0, 0, 1, 192, 0, 2, 7, 0, 80]);
        assert_eq!(answered[10..], [&[5, 0, 0, 4][..], &[0; 15], &[1, 0, 80]].concat());
    }

    #[tokio::test]
    async fn other_commands_and_nonsense_are_refused() {
        let (datagrams, answered) = asked(b"\0\x05\x03\0\x01\x0a\0\0\x01\0\x50").await;
        assert!(datagrams.is_err());
        assert_eq!(answered[..4], [5, 0, 5, 7]);
        let (no_method, answered) = asked(b"\x02").await;
        assert!(no_method.is_err());
        assert_eq!(answered, [5, 0xff]);
        for name in [&b"\x02a\xff"[..], b"\x03a..", b"\x03..a", b"\x04a..b", b"\x01.", b"\0"] {
            let (target, answered) = asked(&[b"\0\x05\x01\0\x03", name, b"\0\x50"].concat()).await;
            assert!(target.is_err(), "{name:?}");
            assert_eq!(answered[..4], [5, 0, 5, 4], "{name:?}");
        }
        for wrong in [&b"\0\x04\x01\0\x01"[..], b"\0\x05\x01\0\x09"] {
            assert!(asked(wrong).await.0.is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_proxy_is_asked_with_credentials() {
        let ask = async |answers: &[u8], credentials: Option<&Credentials>| {
            let (mut ours, mut theirs) = tokio::io::duplex(1024);
            theirs.write_all(answers).await.unwrap();
            theirs.shutdown().await.unwrap();
            let asked = request(&mut ours, credentials, &Host::Domain("a.x".to_owned()), 80).await;
            drop(ours);
            let mut sent = Vec::new();
            theirs.read_to_end(&mut sent).await.unwrap();
            (asked.map_err(|error| error.code()), sent)
        };
        let credentials = Credentials { user: "u".to_owned(), password: Secret::new("pw".to_owned()) };
        let (asked, sent) = ask(b"\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0", Some(&credentials)).await;
        assert_eq!(asked, Ok(()));
        assert_eq!(sent, b"\x05\x01\x02\x01\x01u\x02pw\x05\x01\0\x03\x03a.x\0\x50");
        assert_eq!(ask(b"\x05\x02\x01\x01", Some(&credentials)).await.0, Err("proxy_credentials"));
        assert_eq!(ask(b"\x05\xff", None).await.0, Err("proxy_credentials"));
        assert_eq!(ask(b"\x05\0\x05\x05\0\x01", None).await.0, Err("proxy_refused"));
        assert_eq!(ask(b"HTTP/1.1", None).await.0, Err("proxy_garbage"));
        assert_eq!(ask(b"\x05\0\x05", None).await.0, Err("proxy_garbage"));
    }
}
