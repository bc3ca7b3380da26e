//! A name server that returns another address at each query, and for some names nothing at all.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::eventually;

/// Where it listens; nothing else on this machine does.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);
/// Nobody answers for names below this one.
pub const SILENT: &str = "silent.test";
/// The type of a query for an IPv4 address.
const A: u16 = 1;

/// A running name server; it stops when this is dropped.
pub struct Names {
    folder: TempDir,
    asked: Arc<Mutex<usize>>,
    unanswered: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    server: JoinHandle<()>,
}

impl Names {
    /// Answers each query for an IPv4 address with the next of these, whatever the name, unless nobody answers for
    /// it. Returns `None`, and logs a line, if
    /// it may not listen on the port of name servers.
    pub async fn start(addresses: Vec<Ipv4Addr>) -> Result<Option<Self>> {
        // The socket of an earlier case's server closes a moment after that is dropped.
        let bound = eventually!("the port of name servers is free", 10, {
            let bound = UdpSocket::bind(SocketAddr::from((ADDRESS, 53))).await;
            Some(bound).filter(|bound| !matches!(bound, Err(error) if error.kind() == ErrorKind::AddrInUse))
        })?;
        let socket = match bound {
            Ok(socket) => socket,
            Err(error) => {
                crate::evidence::cannot(format!("there is no name server: {error}"));
                return Ok(None);
            }
        };
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("resolv.conf"), format!("nameserver {ADDRESS}\n"))?;
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let unanswered = Arc::new(Mutex::new(BTreeSet::new()));
        let silent = Arc::clone(&unanswered);
        let server = tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut question).await {
                let next = || {
                    let mut asked = count.lock();
                    *asked += 1;
                    addresses[(*asked - 1) % addresses.len()]
                };
                match answer(&question[..length], next) {
                    Some(answer) => {
                        let _ = socket.send_to(&answer, client).await;
                    }
                    None => {
                        silent.lock().insert(name(&question[..length]).unwrap_or_default().to_vec());
                    }
                }
            }
        });
        Ok(Some(Self { folder, asked, unanswered, server }))
    }

    /// A replacement for `/etc/resolv.conf` that names this server.
    #[must_use]
    pub fn resolv_conf(&self) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("resolv.conf")
    }

    /// For how many names it was asked that it has no answer for.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.lock().len()
    }

    /// How many IPv4 addresses it was asked for.
    #[must_use]
    pub fn asked(&self) -> usize {
        *self.asked.lock()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The answer to a message of one question (RFC 1035): one address that nobody may keep, or none for other types.
fn answer(question: &[u8], next: impl FnOnce() -> Ipv4Addr) -> Option<Vec<u8>> {
    let name = name(question)?;
    let name_end = 12 + name.len() + 1;
    let kind = u16::from_be_bytes(question.get(name_end..name_end + 2)?.try_into().ok()?);
    let question_end = name_end + 4;
    // Labels, each after its length.
    let silent: Vec<u8> =
        SILENT.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    if name.ends_with(&silent) {
        return None;
    }
    let answers = u16::from(kind == A);
    let mut reply = question.get(..2)?.to_vec();
    reply.extend([0x81, 0x80, 0, 1]);
    reply.extend(answers.to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(question.get(12..question_end)?);
    if kind == A {
        // The name of the question, the type, the class, no time to live, four bytes.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        reply.extend(next().octets());
    }
    Some(reply)
}

/// The labels in a question, each after its length.
fn name(question: &[u8]) -> Option<&[u8]> {
    question.get(12..)?.split(|byte| *byte == 0).next()
}
