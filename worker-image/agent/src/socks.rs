//! What the agent itself asks the daemon for, in the protocol that the browser speaks: SOCKS version 5 (RFC 1928).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
/// The kind of an address that is a name. The daemon reads addresses as names, too.
const NAME: u8 = 3;
const SUCCEEDED: u8 = 0;
/// The rest of the daemon's answer: an IPv4 address and a port, in bytes.
const BOUND: usize = 6;

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
    tunnel.write_all(&[VERSION, 1, NO_AUTHENTICATION]).await?;
    let mut greeting = [0; 2];
    tunnel.read_exact(&mut greeting).await?;
    let mut request = vec![VERSION, CONNECT, 0, NAME, length];
    request.extend_from_slice(site.host.as_bytes());
    request.extend(site.port.to_be_bytes());
    tunnel.write_all(&request).await?;
    let mut answer = [0; 4 + BOUND];
    tunnel.read_exact(&mut answer).await?;
    match (greeting, answer[1]) {
        ([VERSION, NO_AUTHENTICATION], SUCCEEDED) => Ok(()),
        (_, code) => Err(io::Error::other(format!("the daemon answered {code}"))),
    }
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
    }
}
