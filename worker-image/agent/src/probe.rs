//! Tries to reach what nobody should reach from a worker, for `warmpool doctor --egress`.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use warmpool_protocol::{EGRESS_PORT, Probe, ProbeWay, Probed};

/// Time for one try.
const LIMIT: Duration = Duration::from_secs(4);
/// A query of DNS for the name servers of the root.
const QUERY: [u8; 17] = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
/// What the daemon's own page of refusal begins with.
const REFUSAL: &[u8] = b"HTTP/1.1 403 Refused by Warmpool";

/// Tries it once.
pub(crate) async fn carry_out(probe: &Probe) -> Probed {
    let tried = async {
        match probe.way {
            ProbeWay::Direct => direct(probe).await,
            ProbeWay::Datagram => asked(probe).await,
            ProbeWay::Proxy => proxied(probe).await,
        }
    };
    match timeout(LIMIT, tried).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => Probed { reached: false, detail: error.to_string() },
        Err(_) => Probed { reached: false, detail: "no answer".to_owned() },
    }
}

/// A host that refuses a connection is there: its packets came through.
async fn direct(Probe { host, port, .. }: &Probe) -> io::Result<Probed> {
    there(TcpStream::connect((host.as_str(), *port)).await.map(|_| "it takes the connection"))
}

async fn asked(Probe { host, port, .. }: &Probe) -> io::Result<Probed> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect((host.as_str(), *port)).await?;
    socket.send(&QUERY).await?;
    there(socket.recv(&mut [0; 512]).await.map(|_| "it answers"))
}

fn there(tried: io::Result<&str>) -> io::Result<Probed> {
    match tried {
        Ok(detail) => Ok(Probed { reached: true, detail: detail.to_owned() }),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset) => {
            Ok(Probed { reached: true, detail: "it is there, and refuses the connection".to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// Asks the proxy as a browser does that leaves names and notations to it.
async fn proxied(Probe { host, port, .. }: &Probe) -> io::Result<Probed> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, EGRESS_PORT)).await?;
    stream.write_all(&[5, 1, 0]).await?;
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await?;
    let length = u8::try_from(host.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut request = vec![5, 1, 0, 3, length];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await?;
    if reply[1] != 0 {
        return Ok(Probed { reached: false, detail: format!("the proxy refused (code {})", reply[1]) });
    }
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n").as_bytes()).await?;
    let mut answer = vec![0; REFUSAL.len()];
    let count = read_up_to(&mut stream, &mut answer).await;
    if answer[..count] == *REFUSAL {
        return Ok(Probed { reached: false, detail: "the proxy refused".to_owned() });
    }
    Ok(Probed { reached: true, detail: "the proxy connected".to_owned() })
}

/// Reads until the buffer is full or the other side ends; gives how much there was.
async fn read_up_to(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    let mut count = 0;
    while count < buffer.len() {
        match stream.read(&mut buffer[count..]).await {
            Ok(more @ 1..) => count += more,
            _ => break,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_that_refuses_is_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = |port| Probe { host: "127.0.0.1".to_owned(), port, way: ProbeWay::Direct };
        assert!(carry_out(&probe(port)).await.reached);
        drop(listener);
        assert!(carry_out(&probe(port)).await.reached);
        let datagram = Probe { way: ProbeWay::Datagram, ..probe(port) };
        assert!(carry_out(&datagram).await.reached);
    }
}
