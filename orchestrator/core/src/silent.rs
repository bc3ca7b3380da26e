//! A peer for tests that stops in the middle of its answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A client that keeps a connection for longer keeps it for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes connections, reads what comes, and says nothing after the beginning of an answer.
#[derive(Debug)]
pub struct SilentPeer {
    /// Where it listens.
    pub address: SocketAddr,
    ended: mpsc::Receiver<()>,
}

impl SilentPeer {
    /// A peer that says this once it has been asked something, and nothing more.
    /// Errors: when it cannot listen.
    pub async fn after(beginning: &'static [u8]) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (ends, ended) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ends = ends.clone();
                tokio::spawn(async move {
                    // A connection that breaks off has ended as well.
                    let _ = listen(stream, beginning).await;
                    let _ = ends.send(()).await;
                });
            }
        });
        Ok(Self { address, ended })
    }

    /// Waits until a client has closed its connection. Time must not be paused.
    /// Errors: the client keeps the connection.
    pub async fn is_left(&mut self) -> io::Result<()> {
        let ended = timeout(PATIENCE, self.ended.recv()).await;
        ended.map(drop).map_err(|_| io::Error::other("the client keeps a connection that it has given up"))
    }
}

async fn listen(mut stream: TcpStream, beginning: &[u8]) -> io::Result<()> {
    let mut heard = [0; 4096];
    if !beginning.is_empty() && stream.read(&mut heard).await? > 0 {
        stream.write_all(beginning).await?;
    }
    while stream.read(&mut heard).await? > 0 {}
    Ok(())
}
