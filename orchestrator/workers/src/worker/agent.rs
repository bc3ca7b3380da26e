//! Client of the agent's protocol: plain HTTP, with a secret of the worker's own.

mod error;
mod extensions;
mod files;
mod pages;

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;
use warmpool_protocol::folder::FolderQuery;
use warmpool_protocol::recording::RecordingQuery;
use warmpool_protocol::text::{MAX_KEPT, shortened};
use warmpool_protocol::{
    BODY_LIMIT, BUILT_IN_LIST, CaptchaAction, Claim, DriverMode, ErrorBody, Launch, Launched, NewDriverSession, Probe,
    Probed, ProgramsProbed, Secret, Snapshot, StorageQuery, StorageState, Window, WorkerEvent, longest_state,
};

pub use self::error::AgentError;
use super::connection::{AgentStream, Connector};
use super::idle::{Content, unless_silent};
use super::lines::Lines;
use super::upgrade::{Upgrade, upgrade};
use crate::ads::AdRules;
use warmpool_core::error::Cause;
use warmpool_runtime::AgentAddress;

/// A streamed request body.
pub type Body = UnsyncBoxBody<Bytes, Cause>;

/// The deadline of a small call, which an agent answers at once or not at all.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for an answer that a browser or a program may take its time for, for the begin of a file or a recording, and for each pause
/// in a file, either way.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a launch before which a browser compiles rules of ads: seconds of a whole core. Also for fetching what it compiled.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for reading or writing what a browser keeps for sites, each of hundreds of which it may have to visit, and for a launch with
/// a profile folder, which starts another browser, or with extensions.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Idle connections that are kept: a launch takes one, and the agent ends none that a burst of calls leaves.
const MAX_IDLE: usize = 1;
/// How long one is kept that may lead to another host: only a new connection tells within seconds that the host has vanished.
const TCP_IDLE: Duration = Duration::from_secs(30);
/// What requests name as their host: each connection leads to one agent, whatever it is called.
const AUTHORITY: &str = "agent";
/// The maximum length of a JSON answer, in bytes.
const REPLY_LIMIT: usize = 16 << 20;
/// The maximum length of Chromium's description of DevTools, in bytes, which has some two million. The daemon keeps it.
const PROTOCOL_LIMIT: usize = 4 << 20;
/// The maximum length of an event, in bytes.
const EVENT_LIMIT: usize = 256 << 10;

/// The driver's own answer to a new session.
#[derive(Debug)]
pub struct DriverReply {
    /// The status with which the driver answered.
    pub status: StatusCode,
    /// The body of the answer, which is WebDriver's JSON.
    pub body: Bytes,
}

/// What every answer of a driver has, and none of the agent's own.
#[derive(Deserialize)]
struct DriverBody {
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

/// A client of one agent. Clones share its connections.
#[derive(Clone)]
pub struct Agent {
    address: AgentAddress,
    secret: HeaderValue,
    client: Client<Connector, Body>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent that answers to `secret` (hex) on `address`.
    pub fn new(address: AgentAddress, secret: &Secret) -> Self {
        let idle = matches!(address, AgentAddress::Tcp(_)).then_some(TCP_IDLE);
        // A client of its own: when the worker goes, so do its pooled connections, and a container that gets the same
        // address later never sees them.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(Connector(address.clone()));
        let mut secret = HeaderValue::try_from(secret.authorization()).unwrap_or(HeaderValue::from_static("Bearer"));
        secret.set_sensitive(true);
        Self { address, secret, client }
    }

    /// Sends the agent its secret and its orders. Fails with `Connect` while the container is still coming up.
    pub async fn claim(&self, claim: &Claim) -> Result<(), AgentError> {
        self.call(Method::POST, "/claim", Some(claim)).await.map(drop)
    }

    /// Returns what the agent says of itself and its browser.
    pub async fn health(&self) -> Result<Snapshot, AgentError> {
        self.call(Method::GET, "/health", None::<&()>).await.and_then(|body| read(&body))
    }

    /// Wakes the browser, applies the settings and starts opening the page. A launch that blocks ads needs their rules, and one
    /// with a state that state, as JSON, and one with a profile folder that folder, packed.
    /// Returns the warnings for the client.
    pub async fn launch(
        &self,
        launch: &Launch,
        ad_rules: Option<AdRules>,
        state: Option<Bytes>,
        folder: Option<(Body, FolderQuery)>,
    ) -> Result<Vec<String>, AgentError> {
        let mut limit = if launch.extensions { STORAGE_TIMEOUT } else { CALL_TIMEOUT };
        if let Some((packed, query)) = folder {
            let path = format!("/folder?{}", query.query());
            within(STORAGE_TIMEOUT, self.succeed(Method::PUT, &path, packed)).await?;
            limit = STORAGE_TIMEOUT;
        }
        if let Some(state) = state {
            within(CALL_TIMEOUT, self.succeed(Method::PUT, "/storage", full(state))).await?;
            limit = limit.max(STORAGE_TIMEOUT);
        }
        if let Some(rules) = ad_rules {
            let (path, bytes) = match rules {
                AdRules::Plain(bytes) => ("/ads".to_owned(), bytes),
                // An agent that does not know the query judges requests itself.
                AdRules::BuiltIn(bytes) => (format!("/ads?{BUILT_IN_LIST}"), bytes),
                AdRules::Compiled(bytes) => ("/ads/compiled".to_owned(), bytes),
            };
            within(CALL_TIMEOUT, self.succeed(Method::PUT, &path, full(bytes))).await?;
            limit = limit.max(COMPILE_TIMEOUT);
        }
        let body = self.call_within(limit, Method::POST, "/launch", Some(launch)).await?;
        read(&body).map(|Launched { warnings }| warnings)
    }

    /// Reads what the browser keeps for sites.
    pub async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, AgentError> {
        let request = json_request(Method::POST, Some(&query))?;
        let limit = usize::try_from(longest_state(query.limit)).unwrap_or(usize::MAX);
        let answered = async { collect_within(limit, success(self.send("/storage", request).await?).await?).await };
        read(&within(STORAGE_TIMEOUT, answered).await?)
    }

    /// Ends the browser, and returns its packed profile folder, as a stream. Fails with `Refused` and 413 where its files have
    /// more than the limit.
    pub async fn take_folder(&self, query: FolderQuery) -> Result<Content, AgentError> {
        let path = format!("/folder?{}", query.query());
        let response = within(STORAGE_TIMEOUT, self.succeed(Method::POST, &path, full(""))).await?;
        Ok(unless_silent(response.into_body(), STORAGE_TIMEOUT))
    }

    /// Returns the rules of ads as this worker's browser has compiled them. The agent has them once.
    pub async fn compiled_ads(&self) -> Result<Bytes, AgentError> {
        let fetched =
            async { collect_within(BODY_LIMIT, self.succeed(Method::GET, "/ads/compiled", full("")).await?).await };
        within(COMPILE_TIMEOUT, fetched).await
    }

    /// Opens a window in a browser context of its own, in place of the one there was. Returns the window's WebDriver
    /// handle, or `None` where the engine has no contexts.
    pub async fn open_context(&self) -> Result<Option<String>, AgentError> {
        match self.window("/context").await {
            Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            window => window.map(Some),
        }
    }

    /// Opens another window in that context; returns its handle.
    pub async fn open_window(&self) -> Result<String, AgentError> {
        self.window("/context/window").await
    }

    /// Closes that context with its windows and files.
    pub async fn close_context(&self) -> Result<(), AgentError> {
        self.call(Method::DELETE, "/context", None::<&()>).await.map(drop)
    }

    async fn window(&self, path: &str) -> Result<String, AgentError> {
        let body = self.call(Method::POST, path, None::<&()>).await?;
        read(&body).map(|Window { window }| window)
    }

    /// Starts the one driver session. The driver's refusals are replies; what the agent says for a driver that does not answer is an
    /// error.
    pub async fn driver_session(
        &self,
        mode: DriverMode,
        capabilities: Value,
        limit: Duration,
    ) -> Result<DriverReply, AgentError> {
        let request = json_request(Method::POST, Some(&NewDriverSession { mode, capabilities }))?;
        let answered = async {
            let response = self.send("/driver/session", request).await?;
            let status = response.status();
            let body = collect(response).await?;
            let is_drivers = status != StatusCode::BAD_GATEWAY && serde_json::from_slice::<DriverBody>(&body).is_ok();
            if is_drivers { Ok(DriverReply { status, body }) } else { Err(refusal(status, &body)) }
        };
        within(limit, answered).await
    }

    /// The text on the clipboard of the worker's display. Fails with `Refused`: 404 where there is no display, 413 when the text
    /// has more than [`CLIPBOARD_LIMIT`](warmpool_protocol::CLIPBOARD_LIMIT).
    pub async fn clipboard(&self) -> Result<Bytes, AgentError> {
        let answered = async { collect(self.succeed(Method::GET, "/clipboard", full("")).await?).await };
        within(ASK_TIMEOUT, answered).await
    }

    /// Puts a text there, of at most [`CLIPBOARD_LIMIT`](warmpool_protocol::CLIPBOARD_LIMIT). Fails with `Refused` and 404 where there
    /// is no display.
    pub async fn set_clipboard(&self, text: Bytes) -> Result<(), AgentError> {
        within(ASK_TIMEOUT, self.succeed(Method::PUT, "/clipboard", full(text))).await.map(drop)
    }

    /// The targets of a debugging port: what its `/json/list` answers.
    pub async fn targets<T: DeserializeOwned>(&self) -> Result<Vec<T>, AgentError> {
        self.ask("/json/list").await
    }

    /// The browser's own description of DevTools.
    pub async fn devtools_protocol(&self) -> Result<Value, AgentError> {
        self.ask_within("/json/protocol", PROTOCOL_LIMIT).await
    }

    /// A video of the display from now on, as IVF with VP8. A display that does not change sends nothing, for however long.
    pub async fn recording(&self, rate: u32) -> Result<Incoming, AgentError> {
        let path = format!("/recording?{}", RecordingQuery { rate }.query());
        within(ASK_TIMEOUT, self.succeed(Method::GET, &path, full(""))).await.map(Response::into_body)
    }

    /// Passes a driver's command on, which the agent has to see; `path` is the driver's. The body streams both ways, and
    /// refusals are answers.
    pub(super) async fn forward(&self, path: &str, request: Request<Body>) -> Result<Response<Incoming>, AgentError> {
        self.send(&format!("/webdriver{path}"), request).await
    }

    /// Asks for another protocol at `path`, with the headers of an upgrade.
    pub async fn upgrade(&self, path: &str, mut headers: HeaderMap) -> Result<Upgrade, AgentError> {
        headers.insert(AUTHORIZATION, self.secret.clone());
        headers.insert(HOST, HeaderValue::from_static(AUTHORITY));
        let work = async {
            let stream = AgentStream::connect(&self.address).await;
            let stream = stream.map_err(|error| AgentError::Connect(error.into()))?;
            upgrade(stream, path, headers).await
        };
        within(CALL_TIMEOUT, work).await
    }

    /// Opens the event stream. While one is open the agent knows that its daemon lives.
    pub(super) async fn events(&self) -> Result<Lines<WorkerEvent>, AgentError> {
        self.stream("/events", EVENT_LIMIT).await
    }

    /// Does something about a challenge. Fails with `Refused` and 404 when it is over, or its page took no answer.
    pub(crate) async fn act_on_captcha(&self, id: u64, action: &CaptchaAction) -> Result<(), AgentError> {
        self.call(Method::POST, &format!("/captchas/{id}"), Some(action)).await.map(drop)
    }

    /// Tells the agent to try to reach an address, for which it gives itself some seconds.
    pub async fn probe(&self, probe: &Probe) -> Result<Probed, AgentError> {
        read(&self.call_within(ASK_TIMEOUT, Method::POST, "/probe", Some(probe)).await?)
    }

    /// Tells the agent to try to execute what nobody may.
    pub async fn probe_programs(&self) -> Result<ProgramsProbed, AgentError> {
        read(&self.call_within(ASK_TIMEOUT, Method::POST, "/probe/programs", None::<&()>).await?)
    }

    async fn stream<T>(&self, path: &str, limit: usize) -> Result<Lines<T>, AgentError> {
        let response = within(CALL_TIMEOUT, self.succeed(Method::GET, path, full(""))).await?;
        Ok(Lines::new(response.into_body(), limit))
    }

    /// A small call that waits for nothing but the agent.
    async fn call(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<Bytes, AgentError> {
        self.call_within(CALL_TIMEOUT, method, path, body).await
    }

    async fn call_within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, AgentError> {
        let request = json_request(method, body)?;
        let answered = async { collect(success(self.send(path, request).await?).await?).await };
        within(limit, answered).await
    }

    /// Asks for JSON, which the browser may take its time for.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, AgentError> {
        self.ask_within(path, REPLY_LIMIT).await
    }

    async fn ask_within<T: DeserializeOwned>(&self, path: &str, limit: usize) -> Result<T, AgentError> {
        let answered = async { collect_within(limit, self.succeed(Method::GET, path, full("")).await?).await };
        read(&within(ASK_TIMEOUT, answered).await?)
    }

    async fn succeed(&self, method: Method, path: &str, body: Body) -> Result<Response<Incoming>, AgentError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        success(self.send(path, request).await?).await
    }

    async fn send(&self, path: &str, mut request: Request<Body>) -> Result<Response<Incoming>, AgentError> {
        *request.uri_mut() = uri(&format!("http://{AUTHORITY}{path}"))?;
        request.headers_mut().insert(AUTHORIZATION, self.secret.clone());
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() { AgentError::Connect(error.into()) } else { AgentError::Broken(error.into()) }
        })
    }
}

/// A body that is in memory.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn json_request(method: Method, body: Option<&impl Serialize>) -> Result<Request<Body>, AgentError> {
    let bytes = body.map_or(Ok(Vec::new()), serde_json::to_vec);
    let mut request = Request::new(full(bytes.map_err(|error| AgentError::Unreadable(error.into()))?));
    *request.method_mut() = method;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(request)
}

/// The result of a call that may take this long.
pub(super) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, AgentError>>,
) -> Result<T, AgentError> {
    timeout(limit, call).await.unwrap_or(Err(AgentError::Timeout(limit)))
}

/// Makes an error of a refusal.
async fn success(response: Response<Incoming>) -> Result<Response<Incoming>, AgentError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(match refusal(status, &collect(response).await?) {
        AgentError::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, message } => AgentError::of_setting(&message),
        refused => refused,
    })
}

/// What the agent says of a call that it does not carry out.
fn refusal(status: StatusCode, body: &[u8]) -> AgentError {
    let message = serde_json::from_slice::<ErrorBody>(body)
        .map_or_else(|_| shortened(String::from_utf8_lossy(body), MAX_KEPT), |refusal| refusal.error.message);
    AgentError::Refused { status, message }
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, AgentError> {
    collect_within(REPLY_LIMIT, response).await
}

async fn collect_within(limit: usize, response: Response<Incoming>) -> Result<Bytes, AgentError> {
    let body = Limited::new(response.into_body(), limit).collect().await;
    body.map(Collected::to_bytes).map_err(AgentError::Broken)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AgentError> {
    serde_json::from_slice(body).map_err(|error| AgentError::of_answer(&error))
}

pub(super) fn uri(text: &str) -> Result<Uri, AgentError> {
    text.parse().map_err(|error: http::uri::InvalidUri| AgentError::Unreadable(error.into()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::Pin;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use warmpool_protocol::{PageAction, ProbeWay};

    use super::*;

    type Call<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<(), AgentError>> + 'a>>);

    fn claim() -> Claim {
        let claim = serde_json::json!({
            "secret": "ab".repeat(32), "headless": true, "sandbox": true, "freeze": false, "rehearse": false, "display": {"width": 1, "height": 1},
            "orphan_timeout_ms": 1, "unresponsive_timeout_ms": 1, "file_limit": 1,
        });
        serde_json::from_value(claim).unwrap()
    }

    fn probe() -> Probe {
        Probe { host: "a".to_owned(), port: 1, way: ProbeWay::Direct }
    }

    /// Each call.
    fn calls(agent: &Agent) -> Vec<Call<'_>> {
        macro_rules! calls {
            ($($name:literal: $call:expr),+ $(,)?) => {
                vec![$(($name, Box::pin(async { $call.await.map(drop) }) as Pin<Box<dyn Future<Output = _>>>)),+]
            };
        }
        fn launch() -> Launch {
            Launch::default()
        }
        fn bytes() -> Bytes {
            Bytes::from_static(b"x")
        }
        fn folder() -> (Body, FolderQuery) {
            (full("folder"), FolderQuery { limit: 1 })
        }
        calls!(
            "claim": agent.claim(&claim()),
            "health": agent.health(),
            "launch": agent.launch(&launch(), None, None, None),
            "launch with a folder": agent.launch(&launch(), None, None, Some(folder())),
            "launch with a state": agent.launch(&launch(), None, Some(bytes()), None),
            "launch with rules": agent.launch(&launch(), Some(AdRules::Plain(bytes())), None, None),
            "read_storage": agent.read_storage(StorageQuery { limit: 1, everywhere: true, time_ms: 1 }),
            "take_folder": agent.take_folder(FolderQuery { limit: 1 }),
            "compiled_ads": agent.compiled_ads(),
            "open_context": agent.open_context(),
            "open_window": agent.open_window(),
            "close_context": agent.close_context(),
            "driver_session": agent.driver_session(DriverMode::Warm, Value::Null, ASK_TIMEOUT),
            "clipboard": agent.clipboard(),
            "set_clipboard": agent.set_clipboard(bytes()),
            "files": agent.files(),
            "read_file": agent.read_file("a"),
            "store_file": agent.store_file("a", full("x")),
            "store_zip": agent.store_zip(full("x")),
            "remove_file": agent.remove_file("a"),
            "rename_upload": agent.rename_upload("a", "b"),
            "remove_upload": agent.remove_upload("a"),
            "targets": agent.targets::<Value>(),
            "devtools_protocol": agent.devtools_protocol(),
            "recording": agent.recording(10),
            "upgrade": agent.upgrade("/port", HeaderMap::new()),
            "events": agent.events(),
            "act_on_captcha": agent.act_on_captcha(1, &CaptchaAction::Leave { solved: false }),
            "probe": agent.probe(&probe()),
            "probe_programs": agent.probe_programs(),
            "pages": agent.pages(),
            "act": agent.act("a", &PageAction::Reload {}),
            "log": agent.log(),
            "begin_log": agent.begin_log(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_never_answers_keeps_nobody_waiting() {
        // It takes the connection and what it is sent, and says nothing.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let agent = Agent::new(AgentAddress::Tcp(listener.local_addr().unwrap()), &Secret::new("ab".repeat(32)));
        for (name, call) in calls(&agent) {
            let ended = timeout(Duration::from_secs(3600), call).await;
            assert!(matches!(ended, Ok(Err(AgentError::Timeout(_)))), "{name}: {ended:?}");
        }
    }

    /// An agent that answers every call with this, once for each connection.
    async fn answering(status: u16, body: String) -> Agent {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = AgentAddress::Tcp(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.read(&mut [0; 4096]).await;
                let _ = client.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = client.read_to_end(&mut Vec::new()).await;
            }
        });
        Agent::new(address, &Secret::new("ab".repeat(32)))
    }

    #[tokio::test]
    async fn what_the_agent_says_itself_is_no_drivers_answer() {
        let refused = r#"{"error": {"code": "browser_unreachable", "message": "no answer"}}"#;
        for (status, body, is_drivers) in [
            (200, r#"{"value": {"sessionId": "a"}}"#, true),
            (500, r#"{"value": {"error": "session not created"}}"#, true),
            (200, r#"{"value": null}"#, true),
            (502, refused, false),
            (502, r#"{"value": null}"#, false),
            (409, refused, false),
            (200, "{}", false),
            (500, "broken", false),
        ] {
            let agent = answering(status, body.to_owned()).await;
            let replied = agent.driver_session(DriverMode::Warm, Value::Null, ASK_TIMEOUT).await;
            match replied {
                Ok(reply) => assert!(is_drivers && reply.status == status && reply.body == body, "{status} {body}"),
                Err(AgentError::Refused { status: said, .. }) => {
                    assert!(!is_drivers && said == status, "{status} {body}");
                }
                Err(error) => panic!("{status} {body}: {error}"),
            }
        }
    }

    #[tokio::test]
    async fn of_an_agents_words_the_beginning_is_kept() {
        let long = "x".repeat(100_000);
        let refused = format!(r#"{{"error": {{"code": "internal", "message": "{long}"}}}}"#);
        let of_no_kind = format!("\"{long}\"");
        for (status, body) in [(500, refused), (500, long), (200, of_no_kind)] {
            let error = answering(status, body).await.targets::<Value>().await.unwrap_err();
            let words = error.to_string();
            assert!(words.contains("xxx") && words.len() < MAX_KEPT + 100, "{words}");
        }
    }

    #[tokio::test]
    async fn files_are_listed_by_plain_names() {
        let file = |name: &str| serde_json::json!({"name": name, "size": 1, "modified_ms": 1, "source": "download", "complete": true});
        let listed = ["a.txt", "../../.bashrc", "b/c", "", "b\\c"].map(file);
        let files = answering(200, Value::from(listed.to_vec()).to_string()).await.files().await.unwrap();
        assert_eq!(files.into_iter().map(|file| file.name).collect::<Vec<_>>(), ["a.txt"]);
    }

    #[tokio::test]
    async fn a_description_of_devtools_has_a_limit_of_its_own() {
        let agent = answering(200, format!("{:?}", "x".repeat(PROTOCOL_LIMIT))).await;
        assert!(matches!(agent.targets::<Value>().await, Err(AgentError::Unreadable(_))), "it is read whole");
        assert!(matches!(agent.devtools_protocol().await, Err(AgentError::Broken(_))));
    }
}
