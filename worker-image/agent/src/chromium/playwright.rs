//! Playwright's own server, for a client that speaks its protocol.
//!
//! Playwright can only serve a browser that it has launched. So the agent gives it a program for a browser
//! (`worker-image/playwright/devtools_pipe.c`), which hands the pipe that a browser would have to the agent. The agent
//! connects that pipe to the browser that is warm already, and hears of commands on their way as it hears of any client's.
//! Whatever the version, Playwright then behaves as after a launch.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use memchr::memmem;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use serde_json::{Map, Value, json};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::codec::{AnyDelimiterCodec, FramedRead, FramedWrite};
use warmpool_protocol::{ClientMessage, EGRESS_PORT, PlaywrightLaunch, PlaywrightProxy, playwright_minor};

use super::browser::Browser;
use super::client::Client;
use super::context_proxies::{BYPASS, PROXIES};
use super::translator::Translator;
use super::{Chromium, SETS_LOCALE};
use crate::attach::{ClientListener as _, Endpoint};
use crate::domain::{DEVTOOLS_PIPE, Domain};
use crate::error::{ApiError, BootError};
use crate::ports::{self, LocalPort};
use crate::program::{Program, ReadySign};

/// What an image of another engine says.
pub(crate) const OTHER_ENGINE: &str = "playwright: only Chromium's image can have Playwright's server";
/// Has a folder for each version, by its name.
const FOLDER: &str = "/opt/playwright";
/// What Node runs.
const SERVER: &str = "/opt/playwright/server.cjs";
/// Its name in messages.
const NAME: &str = "playwright";
/// What it prints once it listens.
const READY: &str = "Playwright listens";
/// Where it listens.
const PORT: LocalPort = LocalPort::new(9323);
/// The path of its websocket.
const PATH: &str = "/playwright";
/// How long it may take: Node starts, reads Playwright, and Playwright asks the browser for its version.
const START_TIMEOUT: Duration = Duration::from_secs(8);
/// What the server reads its orders from.
const ORDERS: &str = "WARMPOOL_PLAYWRIGHT";
/// Ends each message in the pipe.
const END: &[u8] = b"\0";
/// Largest message in either direction, in bytes, as Chromium has it for its own pipe.
const MAX_MESSAGE: usize = 100 << 20;
/// What is in every command that the agent has to see whole.
const TRANSLATED: [&[u8]; 3] = [b"\"proxyServer\"", b".setDownloadBehavior\"", NEW_CONTEXT];
const NEW_CONTEXT: &[u8] = b"\"Target.createBrowserContext\"";
/// By what a client opens a page, and by what it asks to hold new targets.
const NAVIGATES: &[u8] = b"\"Page.navigate";
const HOLDS: &[u8] = b"\"waitForDebuggerOnStart\":true";

/// Fails when this image does not have that version.
pub(crate) fn check(wanted: &PlaywrightLaunch) -> Result<(), ApiError> {
    let version = &wanted.version;
    let is_there = playwright_minor(version) == Some(version) && Path::new(FOLDER).join(version).is_dir();
    if is_there {
        return Ok(());
    }
    Err(ApiError::not_supported(format!(
        "playwright: the worker's image has no Playwright {version}: build one with scripts/images --playwright, and name it in \
         worker.chromium_image"
    )))
}

impl Chromium {
    /// Starts the server over the browser, and waits until it takes a client.
    pub(crate) async fn start_playwright(&self, wanted: PlaywrightLaunch) -> Result<(), ApiError> {
        let failed = |error: BootError| ApiError::upstream(error.to_string());
        let browser = self.browser()?;
        let PlaywrightLaunch { version, slow_mo, proxy } = wanted;
        let of_contexts = proxy.as_ref().map(proxy_of_contexts);
        let pipe = self.worker.home.join("devtools-pipe");
        let listener = UnixListener::bind(&pipe)?;
        let targets = Arc::clone(&browser.targets);
        let translator = Translator::new(Arc::clone(&targets), Arc::clone(&self.context_proxies));
        let client = Client::new(targets, translator, browser.cdp.clone());
        tokio::spawn(async move {
            match pipe_of(listener).await {
                Ok((pipe, _program)) => carry(&browser, pipe, client, of_contexts).await,
                Err(error) => tracing::warn!(%error, "Playwright's server launched no browser"),
            }
        });
        let orders = json!({
            "version": version,
            "port": PORT.number(),
            "path": PATH,
            "program": DEVTOOLS_PIPE,
            "pipe": pipe,
            "headless": self.worker.claim.headless,
            "slowMo": slow_mo.unwrap_or_default(),
            "proxy": self.proxy_of_server(proxy).await,
        });
        let mut command = Command::new(Domain::Playwright.program());
        ports::hide(&mut command).arg(SERVER).env(ORDERS, orders.to_string());
        let sign = Some(ReadySign::Stdout(READY));
        let program = Program::start(&self.worker.processes, Domain::Playwright, NAME, &mut command, sign);
        let program = program.map_err(failed)?;
        program.until(START_TIMEOUT, program.ready()).await.map_err(failed)?;
        let _ = self.playwright.set(PORT);
        Ok(())
    }

    /// The server's websocket. Nobody has to hear of its messages: they are no commands of DevTools.
    pub(crate) fn playwright(&self) -> Result<Endpoint, ApiError> {
        let port = self.playwright.get().ok_or_else(|| ApiError::not_found("no server of Playwright was started"))?;
        Ok(Endpoint { port: *port, path: PATH.to_owned(), listener: None })
    }

    /// The way out of the requests that Playwright makes without a page: the browser's own, or by the client's proxy.
    async fn proxy_of_server(&self, proxy: Option<PlaywrightProxy>) -> Value {
        let Some(proxy) = proxy else { return json!({"server": format!("socks5://127.0.0.1:{EGRESS_PORT}")}) };
        let mut params = proxy_of_contexts(&proxy);
        self.context_proxies.redirect(&mut params).await;
        let PlaywrightProxy { username, password, .. } = proxy;
        json!({"server": params.get(PROXIES), "username": username, "password": password})
    }
}

/// The members by which a new browser context gets a proxy.
fn proxy_of_contexts(proxy: &PlaywrightProxy) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert(PROXIES.to_owned(), json!(proxy.server));
    if !proxy.bypass.is_empty() {
        members.insert(BYPASS.to_owned(), json!(proxy.bypass));
    }
    members
}

/// The ends of the pipe of what Playwright takes for a browser.
struct Pipe {
    commands: UnixStream,
    answers: UnixStream,
}

/// Waits for that program. It runs for as long as its connection is held.
async fn pipe_of(listener: UnixListener) -> io::Result<(Pipe, UnixStream)> {
    let (program, _) = listener.accept().await?;
    let [commands, answers] = program.async_io(Interest::READABLE, || receive(&program)).await?.map(|fd| {
        let stream = std::os::unix::net::UnixStream::from(fd);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    });
    Ok((Pipe { commands: commands?, answers: answers? }, program))
}

fn receive(program: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut parts = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(program, &mut [IoSliceMut::new(&mut byte)], &mut parts, flags)?;
    let mut given = Vec::new();
    for part in parts.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            given.extend(fds);
        }
    }
    let is_cut = message.flags.contains(ReturnFlags::CTRUNC);
    given.try_into().ok().filter(|_| !is_cut).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Carries messages between Playwright and the browser until one of them has gone.
async fn carry(browser: &Browser, pipe: Pipe, client: Client, of_contexts: Option<Map<String, Value>>) {
    let url = format!("ws://{}{}", browser.port.authority(), browser.path);
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let socket = match browser.port.connect().await {
        Ok(stream) => tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await,
        Err(error) => Err(error.into()),
    };
    let (mut to_browser, mut from_browser) = match socket {
        Ok((socket, _)) => socket.split(),
        Err(error) => return tracing::warn!(%error, "Playwright's server has no browser"),
    };
    let codec = || AnyDelimiterCodec::new_with_max_length(END.to_vec(), END.to_vec(), MAX_MESSAGE);
    let mut commands = FramedRead::new(pipe.commands, codec());
    let mut answers = FramedWrite::new(pipe.answers, codec());
    let mut ears = Ears { client, of_contexts };
    let up = async {
        while let Some(Ok(command)) = commands.next().await {
            let command = Utf8Bytes::try_from(command).ok()?;
            let command = ears.hear(command).await;
            to_browser.send(Message::Text(command)).await.ok()?;
        }
        to_browser.close().await.ok()
    };
    let down = async {
        while let Some(Ok(message)) = from_browser.next().await {
            if let Message::Text(text) = message {
                answers.send(text.as_str()).await.ok()?;
            }
        }
        Some(())
    };
    tokio::select! {
        _ = up => {}
        _ = down => {}
    }
}

/// What hears of Playwright's commands before the browser has them.
struct Ears {
    client: Client,
    /// What a context gets whose client names no proxy.
    of_contexts: Option<Map<String, Value>>,
}

impl Ears {
    /// The command, or what the browser gets in its place.
    async fn hear(&mut self, command: Utf8Bytes) -> Utf8Bytes {
        let listen_rules = self.client.listen_rules();
        let has = |text: &[u8]| memmem::find(command.as_bytes(), text).is_some();
        let said = ClientMessage {
            navigates: listen_rules.first_page && has(NAVIGATES),
            holds_targets: listen_rules.overrides && has(HOLDS),
            sets_locale: listen_rules.overrides && SETS_LOCALE.iter().any(|name| has(name)),
            command: TRANSLATED
                .iter()
                .any(|text| has(text))
                .then(|| with_proxy(&command, self.of_contexts.as_ref()).unwrap_or_else(|| command.to_string())),
        };
        if !listen_rules.first_page && said == ClientMessage::default() {
            return command;
        }
        self.client.hear(said).await.instead.map_or(command, Utf8Bytes::from)
    }
}

/// The command with a proxy, where it makes a context that has none.
fn with_proxy(command: &str, proxy: Option<&Map<String, Value>>) -> Option<String> {
    let mut command: Value = serde_json::from_str(command).ok()?;
    if command["method"] != "Target.createBrowserContext" {
        return None;
    }
    let proxy = proxy?.clone();
    let params = command.as_object_mut()?.entry("params").or_insert_with(|| json!({})).as_object_mut()?;
    if params.contains_key(PROXIES) {
        return None;
    }
    params.extend(proxy);
    Some(command.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(bypass: &str) -> PlaywrightProxy {
        PlaywrightProxy {
            server: "http://proxy.example:3128".to_owned(),
            bypass: bypass.to_owned(),
            username: None,
            password: None,
        }
    }

    #[test]
    fn a_context_without_a_proxy_gets_the_launchs() {
        let launchs = proxy_of_contexts(&proxy("*.example.org"));
        let with = |command: Value| {
            let command = with_proxy(&command.to_string(), Some(&launchs))?;
            serde_json::from_str::<Value>(&command).ok()
        };
        let method = "Target.createBrowserContext";
        let made = with(json!({"id": 1, "method": method, "params": {"disposeOnDetach": true}})).unwrap();
        let params = json!({
            "disposeOnDetach": true, "proxyServer": "http://proxy.example:3128", "proxyBypassList": "*.example.org",
        });
        assert_eq!(made, json!({"id": 1, "method": method, "params": params}));
        assert!(with(json!({"id": 1, "method": method})).unwrap()["params"][PROXIES].is_string());
        assert!(with(json!({"id": 1, "method": method, "params": {PROXIES: "http://own.example"}})).is_none());
        assert!(with(json!({"id": 1, "method": "Target.createTarget", "params": {"url": method}})).is_none());
        assert!(with_proxy(&json!({"id": 1, "method": method}).to_string(), None).is_none());
        assert!(proxy_of_contexts(&proxy("")).get(BYPASS).is_none());
    }

    #[test]
    fn only_versions_of_the_image_are_started() {
        for version in ["1.1", "..", "1.65.1", "../playwright/1.65", ""] {
            let wanted = PlaywrightLaunch { version: version.to_owned(), slow_mo: None, proxy: None };
            let error = check(&wanted).unwrap_err();
            assert_eq!(error.status, http::StatusCode::UNPROCESSABLE_ENTITY, "{version}");
        }
    }

    #[tokio::test]
    async fn the_pipe_arrives_as_two_sockets() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::io::IoSlice;
        use std::os::fd::AsFd as _;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("pipe");
        let listener = UnixListener::bind(&path).unwrap();
        let [(mut commands, theirs), (mut answers, others)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let program = UnixStream::connect(&path).await.unwrap();
        let fds = [theirs.as_fd(), others.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut parts = SendAncillaryBuffer::new(&mut space);
        assert!(parts.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&program, &[IoSlice::new(&[0])], &mut parts, SendFlags::empty()).unwrap();
        let (mut pipe, _program) = pipe_of(listener).await.unwrap();
        commands.write_all(b"a").await.unwrap();
        assert_eq!(pipe.commands.read_u8().await.unwrap(), b'a');
        pipe.answers.write_all(b"b").await.unwrap();
        assert_eq!(answers.read_u8().await.unwrap(), b'b');
    }
}
