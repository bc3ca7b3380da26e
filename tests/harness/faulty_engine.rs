//! A socket in front of a container engine that spoils chosen answers of it. Everything else goes through as it is.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::poll;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its head and half of its body come, or half of its head where it has no body; then nothing more, on a connection that
    /// stays open. The engine has done what it was asked to.
    Cut,
    /// None comes, on a connection that stays open, and the engine does nothing.
    Silence,
    /// None comes, and the engine does what it was asked to once nobody waits for it any more.
    Late,
    /// None comes, and the connection ends at once. The engine has done what it was asked to.
    Lost,
    /// It comes, and half of its body is garbage, or half of its head where it has no body. The engine has done what it was asked to.
    Garbled,
    /// It comes whole, a byte at a time at first and the rest a moment later.
    Slow,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 6] = [Self::Cut, Self::Silence, Self::Late, Self::Lost, Self::Garbled, Self::Slow];
}

/// A running one; it stops when this is dropped. Calls have names such as `POST /containers/{}/start`.
pub struct FaultyEngine {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// What the next calls of a name get, in their order.
    next: HashMap<String, VecDeque<Fault>>,
    /// What all further calls of a name get.
    every: HashMap<String, Fault>,
    /// What every call gets that nothing else was said of.
    all: Option<Fault>,
    seen: BTreeMap<String, usize>,
    spoiled: BTreeMap<String, usize>,
    /// How many calls are being answered or kept waiting, of each name.
    open: BTreeMap<String, usize>,
    /// Changes when the connections are to end that are kept open.
    healed: watch::Sender<()>,
}

impl FaultyEngine {
    /// Listens in front of the machine's own engine.
    pub fn start() -> Result<Self> {
        let engine = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
        let engine: PathBuf = engine.strip_prefix("unix://").context("DOCKER_HOST is no socket")?.into();
        // Short, whatever the target directory's path is: the kernel allows 108 bytes.
        let name = format!("warmpool-faulty-{}.sock", hex::encode(rand_bytes()));
        let socket = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&socket)?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // They end with it.
                let (engine, state) = (engine.clone(), Arc::clone(&shared));
                open.spawn(async move { serve(client, &engine, &state).await });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Self { socket, state, server })
    }

    /// Its address, as `docker.host` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// The next call of this name that nothing was said of yet gets this fault.
    pub fn next(&self, call: &str, fault: Fault) {
        self.state.lock().next.entry(call.to_owned()).or_default().push_back(fault);
    }

    /// Every call of this name gets this fault from now on.
    pub fn every(&self, call: &str, fault: Fault) {
        self.state.lock().every.insert(call.to_owned(), fault);
    }

    /// How many calls of this name are being answered or kept waiting.
    #[must_use]
    pub fn open(&self, call: &str) -> usize {
        self.state.lock().open.get(call).copied().unwrap_or_default()
    }

    /// Every call gets this fault from now on.
    pub fn all(&self, fault: Fault) {
        self.state.lock().all = Some(fault);
    }

    /// Nothing is spoiled any more, and no connection kept open.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.next.clear();
        state.every.clear();
        state.all = None;
        state.healed.send_replace(());
    }

    /// How many calls of this name were spoiled.
    #[must_use]
    pub fn spoiled(&self, call: &str) -> usize {
        self.state.lock().spoiled.get(call).copied().unwrap_or_default()
    }

    /// The names of all calls that came, and how many of each.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<String, usize> {
        self.state.lock().seen.clone()
    }
}

impl Drop for FaultyEngine {
    fn drop(&mut self) {
        self.server.abort();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl State {
    /// Counts a call, and takes what it gets.
    fn take(&mut self, call: &str) -> Option<Fault> {
        *self.seen.entry(call.to_owned()).or_default() += 1;
        let fault = self.next.get_mut(call).and_then(VecDeque::pop_front);
        let fault = fault.or_else(|| self.every.get(call).copied()).or(self.all)?;
        *self.spoiled.entry(call.to_owned()).or_default() += 1;
        Some(fault)
    }
}

/// One connection, which carries one call.
async fn serve(mut client: UnixStream, engine: &Path, state: &Mutex<State>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let call = name(&head)?;
    let (fault, healed) = {
        let mut state = state.lock();
        *state.open.entry(call.clone()).or_default() += 1;
        (state.take(&call), state.healed.subscribe())
    };
    let served = answer(client, engine, &head, fault, healed).await;
    if let Some(open) = state.lock().open.get_mut(&call) {
        *open -= 1;
    }
    served
}

/// Answers one call.
async fn answer(
    mut client: UnixStream,
    engine: &Path,
    head: &str,
    fault: Option<Fault>,
    mut healed: watch::Receiver<()>,
) -> Result<()> {
    let mut engine = UnixStream::connect(engine).await?;
    let Some(fault) = fault else {
        engine.write_all(closing(head).as_bytes()).await?;
        copy_bidirectional(&mut client, &mut engine).await?;
        return Ok(());
    };
    let spoiled = async {
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
        };
        ensure!(field("transfer-encoding").is_none(), "a body without a length: {head}");
        let mut body = vec![0; field("content-length").map_or(Ok(0), |length| length.parse())?];
        client.read_exact(&mut body).await?;
        match fault {
            Fault::Cut => {
                let answer = ask(&mut engine, head, &body).await?;
                client.write_all(half(&answer)?).await?;
                copy(&mut client, &mut sink()).await?;
            }
            Fault::Silence => drop(copy(&mut client, &mut sink()).await?),
            Fault::Late => {
                copy(&mut client, &mut sink()).await?;
                ask(&mut engine, head, &body).await?;
            }
            Fault::Lost => drop(ask(&mut engine, head, &body).await?),
            Fault::Garbled => {
                let answer = ask(&mut engine, head, &body).await?;
                let from = half(&answer)?.len();
                client.write_all(&answer[..from]).await?;
                client.write_all(&vec![0xf7; answer.len() - from]).await?;
            }
            Fault::Slow => {
                let answer = ask(&mut engine, head, &body).await?;
                let (first, rest) = answer.split_at(answer.len().min(64));
                for byte in first {
                    client.write_all(&[*byte]).await?;
                    poll().await;
                }
                client.write_all(rest).await?;
            }
        }
        Ok(())
    };
    tokio::select! {
        done = spoiled => done,
        _ = healed.changed() => Ok(()),
    }
}

/// The engine's whole answer.
async fn ask(engine: &mut UnixStream, head: &str, body: &[u8]) -> Result<Vec<u8>> {
    engine.write_all(closing(head).as_bytes()).await?;
    engine.write_all(body).await?;
    let mut answer = Vec::new();
    engine.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The same head, for a connection that ends with the answer; one that becomes a stream does so anyway.
fn closing(head: &str) -> String {
    if head.to_ascii_lowercase().contains("\r\nupgrade:") {
        return head.to_owned();
    }
    head.replacen("\r\n", "\r\nConnection: close\r\n", 1)
}

fn half(answer: &[u8]) -> Result<&[u8]> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer without a head")? + 4;
    let body = answer.len() - head;
    Ok(&answer[..if body == 0 { head / 2 } else { head + body / 2 }])
}

/// A call without its version, its query and what it names: `GET /v1.41/images/a/b:latest/json` is `GET /images/{}/json`.
fn name(head: &str) -> Result<String> {
    let mut words = head.split(' ');
    let (method, target) = (words.next().context("a method")?, words.next().context("a target")?);
    let path = target.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let parts = match parts.split_first() {
        Some((first, rest)) if first.starts_with("v1.") => rest,
        _ => &parts[..],
    };
    let name = match parts {
        [kind, "json" | "create"] => format!("/{kind}/{}", parts[1]),
        [kind, _] => format!("/{kind}/{{}}"),
        [kind, .., last] if parts.len() > 2 => format!("/{kind}/{{}}/{last}"),
        _ => format!("/{}", parts.join("/")),
    };
    Ok(format!("{method} {name}"))
}

fn rand_bytes() -> [u8; 6] {
    use std::hash::{BuildHasher as _, RandomState};
    let bytes = RandomState::new().hash_one(std::process::id()).to_le_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}
