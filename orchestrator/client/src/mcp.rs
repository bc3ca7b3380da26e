//! `warmpool mcp`: the daemon's MCP endpoint on standard input and output, for programs that start their servers.
//!
//! Messages pass as they are, one a line: the daemon knows the protocol, and this only where its messages begin and end.

use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::arguments::Service;
use super::error::ClientError;
use super::events::Events;
use super::http::{Caller, read_json};
use super::output::{note, write};
use super::values;
use crate::exit::Exit;
use warmpool_core::browser::Engine;
use warmpool_core::clock::millis;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of the message that begins an MCP session.
const INITIALIZE: &str = "initialize";
/// So many messages may wait for their answers at once.
const UNDER_WAY: usize = 16;
/// The longest message, in bytes.
const LONGEST: u64 = 64 << 20;

/// A browser for a program that speaks MCP with what it starts.
#[derive(Debug, Clone, Args)]
pub struct McpArguments {
    /// The engine.
    #[arg(long, alias = "browser", value_name = "ENGINE", default_value = "chromium", value_parser = values::engine())]
    pub browser_type: Engine,
    /// Begin with this profile.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Give the browser a display.
    #[arg(long)]
    pub headed: bool,
    /// How long the browser may last, such as 1h; as long as the MCP session and the daemon allow otherwise.
    #[arg(long, alias = "timeout", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub session_timeout: Option<Duration>,
    /// Where the daemon is.
    #[command(flatten)]
    pub service: Service,
}

/// One MCP session, as far as messages have to name it.
struct Bridge {
    caller: Caller,
    path: String,
    /// The headers by which the daemon knows it again.
    session: Mutex<HeaderMap>,
    /// The message that began it. Whoever holds it may begin another one.
    opening: AsyncMutex<Option<Value>>,
}

/// Where answers go.
type Answers<'a> = &'a (dyn Fn(&Value) + Sync);

pub(super) async fn carry_out(arguments: McpArguments) -> Result<Exit, ClientError> {
    let bridge = Arc::new(Bridge::new(Caller::new(&arguments.service)?, path(&arguments)));
    let unhandled = |error| ClientError::Usage(format!("cannot wait for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unhandled)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unhandled)?;
    let served = tokio::select! {
        served = serve(&bridge) => served,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    bridge.end().await;
    served.map(|()| Exit::Success)
}

/// The address of a session with such a browser.
fn path(arguments: &McpArguments) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("browser", arguments.browser_type.as_str());
    if let Some(profile) = &arguments.profile {
        query.append_pair("profile", profile);
    }
    if arguments.headed {
        query.append_pair("headless", "false");
    }
    if let Some(timeout) = arguments.session_timeout {
        query.append_pair("timeout", &millis(timeout).to_string());
    }
    format!("/mcp?{}", query.finish())
}

/// Passes messages on until there are no more.
async fn serve(bridge: &Arc<Bridge>) -> Result<(), ClientError> {
    let (sender, mut lines) = mpsc::channel(UNDER_WAY);
    // Reading standard input blocks, and nothing interrupts it but its end.
    std::thread::spawn(move || read_lines(&sender));
    let mut answers = JoinSet::new();
    let places = Arc::new(Semaphore::new(UNDER_WAY));
    while let Some(line) = lines.recv().await {
        let line = line.map_err(|error| ClientError::Usage(format!("cannot read standard input: {error}")))?;
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            tell(&Value::Null, "the line is not a message in JSON");
            continue;
        };
        // The session is known once this has its answer.
        if message["method"] == INITIALIZE {
            bridge.pass(&message).await;
            continue;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let bridge = Arc::clone(bridge);
        answers.spawn(async move {
            bridge.pass(&message).await;
            drop(place);
        });
        while answers.try_join_next().is_some() {}
    }
    // A script that pipes its messages in waits for all answers. An editor that is closed sends SIGTERM after some seconds.
    while answers.join_next().await.is_some() {}
    Ok(())
}

/// Hands on line by line, until the input or its reader ends.
fn read_lines(lines: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = match (&mut input).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        let is_over = read.is_err();
        if lines.blocking_send(read).is_err() || is_over {
            return;
        }
    }
}

impl Bridge {
    fn new(caller: Caller, path: String) -> Self {
        Self { caller, path, session: Mutex::default(), opening: AsyncMutex::default() }
    }

    /// Sends a message, and writes what comes back.
    async fn pass(&self, message: &Value) {
        if let Err(error) = self.try_pass(message, &|answer| write(&answer.to_string())).await {
            // Who sent a notification waits for nothing.
            if message.get("id").is_some() {
                tell(&message["id"], &error.to_string());
            }
            note(format_args!("warmpool mcp: {error}"));
        }
    }

    /// Sends a message. A request begins another session where the daemon has forgotten this one: clients on standard input never
    /// hear of that, and say `initialize` once.
    async fn try_pass(&self, message: &Value, answers: Answers<'_>) -> Result<(), ClientError> {
        let is_opening = message["method"] == INITIALIZE;
        if is_opening {
            *self.opening.lock().await = Some(message.clone());
        }
        let session = self.session.lock().clone();
        match self.send(message, &session, answers).await {
            Err(ClientError::Refused { status, .. })
                if status == StatusCode::NOT_FOUND && !is_opening && message.get("id").is_some() =>
            {
                self.begin_anew(&session).await?;
                let session = self.session.lock().clone();
                self.send(message, &session, answers).await
            }
            sent => sent,
        }
    }

    /// Begins another session in place of one that the daemon has forgotten, unless another message has done so.
    async fn begin_anew(&self, forgotten: &HeaderMap) -> Result<(), ClientError> {
        let opening = self.opening.lock().await;
        if *self.session.lock() != *forgotten {
            return Ok(());
        }
        let Some(opening) = &*opening else { return Ok(()) };
        note("warmpool mcp: the daemon has forgotten the session, so another one begins, with a fresh browser");
        self.send(opening, &HeaderMap::new(), &|_| {}).await?;
        let session = self.session.lock().clone();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &session, &|_| {}).await
    }

    /// Sends a message with the headers of a session, and hands on what comes back.
    async fn send(&self, message: &Value, session: &HeaderMap, answers: Answers<'_>) -> Result<(), ClientError> {
        let mut headers = session.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let response = self.caller.send(Method::POST, &self.path, headers, Some(message)).await?;
        // A late answer of a session that is forgotten does not bring it back.
        let begun = response.headers().get(SESSION).filter(|_| message["method"] == INITIALIZE).cloned();
        if response.status() == StatusCode::ACCEPTED {
            return Ok(());
        }
        let is_json =
            response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if is_json {
            answers(&read_json::<Value>(response).await?);
            return Ok(());
        }
        let mut events = Events::new(response);
        let mut is_answered = message.get("id").is_none();
        while let Some((_, answer)) = events.next_of_any_kind().await {
            if let Some(session) = &begun {
                self.begin(session, &answer);
            }
            is_answered |= answer["id"] == message["id"];
            answers(&answer);
        }
        if is_answered { Ok(()) } else { Err(ClientError::Unreachable("the answer broke off".to_owned())) }
    }

    /// Notes what the messages of the session are to carry.
    fn begin(&self, session: &HeaderValue, answer: &Value) {
        let mut headers = self.session.lock();
        headers.insert(SESSION, session.clone());
        if let Some(version) = answer["result"]["protocolVersion"].as_str()
            && let Ok(version) = HeaderValue::from_str(version)
        {
            headers.insert(VERSION, version);
        }
    }

    /// Ends the session, if there is one, and its browser with it.
    async fn end(&self) {
        let headers = self.session.lock().clone();
        if headers.contains_key(SESSION) {
            let _ = self.caller.send(Method::DELETE, &self.path, headers, None).await;
        }
    }
}

/// Writes an error as the answer to a request.
fn tell(id: &Value, problem: &str) {
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": problem}});
    write(&answer.to_string());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::test_daemon::{TestDaemon, answer, refusal};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: McpArguments,
    }

    #[test]
    fn options_say_which_browser_it_is() {
        for (given, wanted) in [
            ("", "/mcp?browser=chromium"),
            ("--browser-type webkit --headed", "/mcp?browser=webkit&headless=false"),
            ("--profile shop --session-timeout 1h30m", "/mcp?browser=chromium&profile=shop&timeout=5400000"),
            ("--browser firefox --timeout 1m", "/mcp?browser=firefox&timeout=60000"),
        ] {
            let line = Line::try_parse_from(["mcp"].into_iter().chain(given.split_whitespace())).unwrap();
            assert_eq!(path(&line.arguments), wanted, "{given}");
        }
        for refused in [["--session-timeout", "soon"], ["--browser-type", "chrome"]] {
            assert!(Line::try_parse_from(["mcp"].into_iter().chain(refused)).is_err(), "{refused:?}");
        }
    }

    /// The MCP sessions of a daemon. They are called s1, s2 and so on.
    #[derive(Default)]
    struct Sessions {
        begun: usize,
        /// Whether the daemon knows the latest.
        is_known: bool,
    }

    /// A bridge to a daemon with such sessions.
    async fn bridge(sessions: &Arc<Mutex<Sessions>>) -> (TestDaemon, Bridge) {
        let sessions = Arc::clone(sessions);
        let daemon = TestDaemon::start(move |asked| {
            let mut sessions = sessions.lock();
            let message: Value = serde_json::from_str(&asked.body).unwrap();
            let result = json!({"id": message["id"], "result": {"protocolVersion": "2025-06-18"}});
            if message["method"] == INITIALIZE {
                sessions.begun += 1;
                sessions.is_known = true;
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream";
                return format!("{head}\r\nMcp-Session-Id: s{}\r\n\r\ndata: {result}\n\n", sessions.begun);
            }
            let latest = format!("s{}", sessions.begun);
            if !sessions.is_known || asked.header("mcp-session-id") != Some(latest.as_str()) {
                return refusal("404 Not Found");
            }
            assert_eq!(asked.header("mcp-protocol-version"), Some("2025-06-18"));
            if message["id"].is_null() {
                return refusal("202 Accepted");
            }
            answer("200 OK\r\nContent-Type: application/json", &result.to_string())
        })
        .await;
        let bridge = Bridge::new(daemon.caller(), "/mcp".to_owned());
        (daemon, bridge)
    }

    fn request(id: u64, method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method})
    }

    #[tokio::test]
    async fn requests_that_find_their_session_forgotten_begin_one_more() {
        let sessions = Arc::default();
        let (daemon, bridge) = bridge(&sessions).await;
        let answered = Mutex::new(Vec::new());
        let hear = |answer: &Value| answered.lock().push(answer["id"].as_u64());
        bridge.try_pass(&request(0, INITIALIZE), &hear).await.unwrap();
        bridge.try_pass(&request(1, "tools/list"), &hear).await.unwrap();
        sessions.lock().is_known = false;
        let (two, three) = (request(2, "tools/call"), request(3, "tools/call"));
        let (two, three) = tokio::join!(bridge.try_pass(&two, &hear), bridge.try_pass(&three, &hear));
        two.and(three).unwrap();
        answered.lock().sort_unstable();
        // The client has said `initialize` once, and hears one answer.
        assert_eq!(*answered.lock(), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(sessions.lock().begun, 2);
        let asked = daemon.asked();
        let initialized = asked.iter().filter(|asked| asked.body.contains("notifications/initialized"));
        assert_eq!(initialized.filter_map(|asked| asked.header("mcp-session-id")).collect::<Vec<_>>(), ["s2"]);
    }

    #[tokio::test]
    async fn nothing_else_begins_a_session() {
        let sessions = Arc::default();
        let (daemon, bridge) = bridge(&sessions).await;
        let unheard = |answer: &Value| assert!(answer.is_null(), "{answer}");
        assert!(bridge.try_pass(&request(1, "tools/list"), &unheard).await.is_err());
        assert_eq!(sessions.lock().begun, 0, "no client has begun one");
        bridge.try_pass(&request(0, INITIALIZE), &|_| {}).await.unwrap();
        sessions.lock().is_known = false;
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled"});
        assert!(bridge.try_pass(&cancelled, &unheard).await.is_err());
        assert_eq!(sessions.lock().begun, 1);
        assert_eq!(daemon.asked().len(), 4);
    }
}
