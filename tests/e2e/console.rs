//! The console: who is let in and for how long, what each key sees, what pages follow, and the pages in a real browser.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Api, Daemon, Group, Reply, Session, Settings, Stage, eventually, group};

/// How long to wait for an event.
const EVENT_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            a_sign_in_lasts_and_ends,
            a_replaced_secret_ends_its_sign_ins,
            a_key_sees_its_own_and_an_operator_sees_all,
            pages_follow_what_happens,
            an_open_stream_tells_of_its_own_and_is_no_use_of_its_key,
            thumbnails_show_the_session,
            thumbnails_are_sent_while_a_page_shows_them,
        ],
        full: [the_console_works_in_a_browser],
    )
}

/// Somebody who is signed in, in a page of the console.
pub(crate) struct SignedIn {
    api: Api,
    cookie: String,
}

impl SignedIn {
    pub(crate) async fn new(daemon: &Daemon, key: &str) -> Result<Self> {
        let api = daemon.api().without_key();
        let reply = api.post("/console/sign-in", &json!({"key": key})).await?;
        ensure!(reply.status == 204, "{reply}");
        let cookie = reply.header("set-cookie").context("a cookie")?;
        ensure!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(key), "{cookie}");
        // The daemon says when a sign-in ends, and each use puts that off: the browser keeps the cookie as long as it can.
        ensure!(cookie.contains("Max-Age=34560000"), "{cookie}");
        Ok(Self { api, cookie: cookie.split(';').next().unwrap_or_default().to_owned() })
    }

    fn headers(&self, more: &[(&'static str, &'static str)]) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", self.cookie.parse()?);
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in more {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        Ok(headers)
    }

    /// A call with these headers beside the cookie.
    async fn with(&self, more: &[(&'static str, &'static str)], method: Method, path: &str) -> Result<Reply> {
        self.api.send(method, path, self.headers(more)?, Bytes::new()).await
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Reply> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        self.api.send(method, path, self.headers(&[("x-warmpool-console", "1")])?, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Reply> {
        self.call(Method::GET, path, None).await
    }

    async fn follow(&self, topics: &str) -> Result<Events> {
        let mut events = self.stream(&format!("/console/api/events?{topics}")).await?;
        events.until("event: hello").await?;
        Ok(events)
    }

    /// The events of this path.
    async fn stream(&self, path: &str) -> Result<Events> {
        Events::open(&self.api, path, &[("cookie", &self.cookie), ("x-warmpool-console", "1")]).await
    }
}

/// The events of a stream so far.
pub(crate) struct Events {
    stream: Box<dyn wire::Io>,
    text: String,
}

impl Events {
    /// Asks for the events of a path, with these headers.
    pub(crate) async fn open(api: &Api, path: &str, headers: &[(&str, &str)]) -> Result<Self> {
        let target = Target::parse(&format!("{}{path}", api.base()))?;
        let (path, host) = (&target.path, target.authority());
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n{headers}\r\n");
        let mut stream = wire::connect(&target, None).await?;
        stream.write_all(request.as_bytes()).await?;
        Ok(Self { stream, text: String::new() })
    }

    /// Reads until this text. Returns all that came before it since the last call.
    pub(crate) async fn before(&mut self, wanted: &str) -> Result<String> {
        let reading = async {
            loop {
                if let Some(at) = self.text.find(wanted) {
                    return Ok(self.text.drain(..at + wanted.len()).collect());
                }
                self.read(wanted).await?;
            }
        };
        timeout(EVENT_WITHIN, reading).await.with_context(|| format!("no {wanted}"))?
    }

    async fn read(&mut self, wanted: &str) -> Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes).await? {
            0 => bail!("the stream ended before {wanted}: {}", self.text),
            count => self.text.push_str(&String::from_utf8_lossy(&bytes[..count])),
        }
        Ok(())
    }

    /// Reads until this text, and drops everything before it. Fails at the end of the stream.
    async fn until(&mut self, wanted: &str) -> Result<String> {
        let reading = async {
            loop {
                if let Some(at) = self.text.find(wanted)
                    && let Some(end) = self.text[at..].find("\n\n")
                {
                    let rest = self.text.split_off(at + end);
                    let said = std::mem::replace(&mut self.text, rest);
                    return Ok(said[at..].to_owned());
                }
                self.read(wanted).await?;
            }
        };
        timeout(EVENT_WITHIN, reading).await.with_context(|| format!("no {wanted}"))?
    }
}

fn settings() -> Settings {
    Settings::on_demand()
}

async fn a_sign_in_lasts_and_ends(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(settings()).await?;
    let operator = SignedIn::new(&daemon, daemon.key()).await?;
    let who = operator.get("/console/sign-in").await?.ok()?;
    ensure!(who["name"] == "default" && who["role"] == "operator", "{who}");

    // The cookie alone opens nothing, and no page of another origin can use it.
    ensure!(operator.with(&[], Method::GET, "/sessions").await?.fault(401)?.code == "missing_key");
    for site in ["cross-site", "same-site", "none"] {
        let reply = operator.with(&[("sec-fetch-site", site)], Method::GET, "/sessions").await?;
        ensure!(reply.fault(401)?.code == "missing_key", "{site}");
    }
    ensure!(operator.with(&[("sec-fetch-site", "same-origin")], Method::GET, "/sessions").await?.status == 200);

    // A proxy's own bearer token hides no sign-in, and opens nothing. A wrong key in our header stays wrong.
    let bearer = ("authorization", "Bearer proxy.own.token");
    for path in ["/sessions", "/sessions/ses_none"] {
        let by_page = operator.with(&[bearer, ("x-warmpool-console", "1")], Method::GET, path).await?;
        ensure!(by_page.status == if path == "/sessions" { 200 } else { 404 }, "{by_page}");
        for more in [&[bearer][..], &[bearer, ("sec-fetch-site", "cross-site")]] {
            ensure!(operator.with(more, Method::GET, path).await?.fault(401)?.code == "invalid_key", "{more:?}");
        }
        let wrong = [(KEY_HEADER, "wp_wrong"), ("x-warmpool-console", "1")];
        ensure!(operator.with(&wrong, Method::GET, path).await?.fault(401)?.code == "invalid_key");
    }
    let alone = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(bearer.1))]);
    let alone = daemon.api().without_key().send(Method::GET, "/sessions", alone, Bytes::new()).await?;
    ensure!(alone.fault(401)?.code == "invalid_key", "{alone}");

    let foreign = [("x-warmpool-console", "1"), ("origin", "https://evil.example")];
    let reply = operator.with(&foreign, Method::POST, "/console/api/keys").await?;
    ensure!(reply.fault(403)?.code == "foreign_origin", "{reply}");

    // It outlives the daemon, and signing out does as well.
    let other = SignedIn::new(&daemon, daemon.key()).await?;
    let out = other.call(Method::DELETE, "/console/sign-in", None).await?;
    ensure!(out.status == 204 && out.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")), "{out}");
    daemon.kill9().await?;
    daemon.set("CONSOLE_SIGN_IN_TIMEOUT", "2s");
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(operator.get("/console/sign-in").await?.status == 200, "a restart signs nobody out");
    ensure!(other.get("/console/sign-in").await?.fault(401)?.code == "missing_key", "who signed out stays out");

    // It ends when it is not used, and a page that only looks does not use it: neither by its stream, nor by what it fetches
    // because something has changed.
    let mut events = operator.follow("topic=overview").await?;
    let by_itself = [("x-warmpool-console", "follow")];
    let fetches = async {
        eventually!("no fetch puts the end off", 30, {
            operator.with(&by_itself, Method::GET, "/sessions").await?.status == 401
        })
    };
    tokio::try_join!(events.until("event: signed-out"), fetches)?;
    ensure!(operator.get("/sessions").await?.fault(401)?.code == "missing_key");

    // The page itself: nothing inline, nobody frames it; the old address of worlds leads there.
    let page = daemon.api().without_key().get("/console/").await?;
    let policy = page.header("content-security-policy").unwrap_or_default();
    ensure!(page.status == 200 && !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let worlds = daemon.api().without_key().get("/console/worlds").await?;
    ensure!(worlds.status == 308 && worlds.header("location") == Some("./#/worlds"), "{worlds}");
    daemon.assert_idle().await
}

async fn a_replaced_secret_ends_its_sign_ins(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let first = crate::keys::create(&daemon, "client").await?;
    let client = SignedIn::new(&daemon, &first).await?;
    let mut events = client.follow("topic=sessions").await?;
    daemon.cli_ok(&["key", "rotate", "client", "--keep-old-for", "1h"]).await?;
    ensure!(client.get("/sessions").await?.status == 200, "the old secret goes on for a while");
    daemon.cli_ok(&["key", "rotate", "client"]).await?;
    events.until("event: signed-out").await?;
    ensure!(client.get("/sessions").await?.fault(401)?.code == "invalid_key");

    // An operator who rotates their own key in the console stays signed in there, and nowhere else.
    let admin = SignedIn::new(&daemon, daemon.key()).await?;
    let make = async |name: &str| -> Result<Value> {
        let wanted = json!({"name": name, "role": "operator"});
        admin.call(Method::POST, "/console/api/keys", Some(wanted)).await?.ok()
    };
    let made = make("second").await?;
    let (id, secret) = (made["key_id"].as_str().context("an id")?, made["secret"].as_str().context("a secret")?);
    let (here, elsewhere) = (SignedIn::new(&daemon, secret).await?, SignedIn::new(&daemon, secret).await?);
    let (mut follows, mut ends) = (here.follow("topic=log").await?, elsewhere.follow("topic=log").await?);
    let path = format!("/console/api/keys/{id}/rotate");
    for _ in 0..2 {
        let rotated = here.call(Method::POST, &path, Some(json!({}))).await?.ok()?;
        let new = rotated["secret"].as_str().context("a secret")?;
        ensure!(new != secret && daemon.api().with_key(new).get("/sessions").await?.status == 200);
        ensure!(here.get("/console/sign-in").await?.ok()?["key_id"] == json!(id));
    }
    ends.until("event: signed-out").await?;
    ensure!(elsewhere.get("/sessions").await?.fault(401)?.code == "invalid_key");
    // The stream that was open all the time goes on.
    let third = make("third").await?;
    follows.until(third["key_id"].as_str().context("an id")?).await?;
    // Somebody else's rotation ends it.
    admin.call(Method::POST, &path, Some(json!({}))).await?.ok()?;
    follows.until("event: signed-out").await?;
    ensure!(here.get("/sessions").await?.fault(401)?.code == "invalid_key");
    daemon.assert_idle().await
}

async fn a_key_sees_its_own_and_an_operator_sees_all(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("CONSOLE_LOG_ENTRIES", "40")).await?;
    let client_key = crate::keys::create(&daemon, "client").await?;
    let client_api = daemon.api().with_key(&client_key);
    let (operator, client) = (SignedIn::new(&daemon, daemon.key()).await?, SignedIn::new(&daemon, &client_key).await?);
    let session = Session::create(&client_api, &json!({"headless": true, "keep_alive": true})).await?;
    let own = daemon.session(json!({"keep_alive": true})).await?;
    let extract = json!({"url": "data:text/html,<h1>Sencha</h1>", "schema": {"title": "h1"}, "wait": 60});
    let task = client_api.post("/lam/extract", &extract).await?.ok()?;
    let task = task["taskId"].as_str().context("a task")?.to_owned();

    // Lists: an operator's page has all, by key where it asks; a program with the same key has its own.
    let count = async |who: &SignedIn, query: &str| -> Result<u64> {
        let listed = who.get(&format!("/sessions?{query}")).await?.ok()?;
        listed["meta"]["totalRecords"].as_u64().context("totalRecords")
    };
    let client_id = client.get("/console/sign-in").await?.ok()?["key_id"].as_str().context("an id")?.to_owned();
    ensure!(count(&operator, "status=running").await? == 2);
    ensure!(count(&operator, &format!("status=running&key_id={client_id}")).await? == 1);
    ensure!(count(&client, "status=running").await? == 1);
    ensure!(count(&client, "status=running&key_id=000000000000").await? == 0);
    let programs = daemon.api().get("/sessions?status=running").await?.ok()?;
    ensure!(programs["meta"]["totalRecords"] == 1, "a key in a header sees its own: {programs}");
    for (who, found) in [(&operator, 1), (&client, 1)] {
        let tasks = who.get("/lam/tasks").await?.ok()?;
        ensure!(tasks["meta"]["totalRecords"] == found && tasks["tasks"][0]["taskId"] == json!(task), "{tasks}");
    }
    ensure!(daemon.api().get("/lam/tasks").await?.ok()?["meta"]["totalRecords"] == 0);
    for of_whom in [String::new(), format!("&key_id={client_id}")] {
        let sorted = operator.get(&format!("/lam/tasks?sort_by=executionTime{of_whom}")).await?.ok()?;
        ensure!(sorted["tasks"][0]["taskId"] == json!(task), "{sorted}");
    }
    let beyond = operator.get("/lam/tasks?page=1000000&limit=100").await?.ok()?;
    ensure!(beyond["meta"]["totalRecords"] == 1 && beyond["tasks"] == json!([]), "{beyond}");

    // One of them: an operator acts in the name of the key that made it; to another client it is unknown.
    let path = format!("/sessions/{}", session.id);
    ensure!(operator.get(&path).await?.ok()?["livestream_url"].is_string());
    ensure!(client.get(&format!("/sessions/{}", own.id)).await?.fault(404)?.code == "unknown_session");
    ensure!(daemon.api().get(&path).await?.fault(404)?.code == "unknown_session");
    let order = operator.get(&format!("/lam/tasks/{task}/order")).await?.ok()?;
    ensure!(order["work"]["schema"]["title"] == "h1", "{order}");
    ensure!(daemon.api().get(&format!("/lam/tasks/{task}/order")).await?.fault(404)?.code == "unknown_task");
    ensure!(operator.call(Method::DELETE, &path, None).await?.ok()?["status"] == "terminated");
    own.delete().await?.ok()?;

    // Keys and the host are the operator's.
    for path in ["/console/api/doctor", "/console/api/keys"] {
        ensure!(operator.get(path).await?.status == 200, "{path}");
    }
    ensure!(client.get("/console/api/doctor").await?.fault(403)?.code == "operator_only");
    let listed = client.get("/console/api/keys").await?.ok()?;
    ensure!(listed["keys"].as_array().is_some_and(|keys| keys.len() == 1), "{listed}");
    let wanted = json!({"name": "<b>press</b>"});
    let refused = client.call(Method::POST, "/console/api/keys", Some(wanted.clone())).await?;
    ensure!(refused.fault(403)?.code == "operator_only", "{refused}");
    let with_key = daemon.api().post("/console/api/keys", &wanted).await?;
    ensure!(with_key.fault(401)?.code == "missing_key", "a key in a header manages no keys: {with_key}");
    let made = operator.call(Method::POST, "/console/api/keys", Some(wanted)).await?.ok()?;
    let secret = made["secret"].as_str().context("a secret")?.to_owned();
    ensure!(daemon.api().with_key(&secret).get("/sessions").await?.status == 200);
    let id = made["key_id"].as_str().context("an id")?;
    let path = format!("/console/api/keys/{id}");
    let rotated = operator.call(Method::POST, &format!("{path}/rotate"), Some(json!({}))).await?.ok()?;
    ensure!(rotated["secret"] != json!(secret) && daemon.api().with_key(&secret).get("/sessions").await?.status == 401);
    ensure!(operator.call(Method::DELETE, &path, None).await?.ok()?["state"] == "revoked");
    ensure!(operator.call(Method::DELETE, &path, None).await?.ok()?["state"] == "revoked", "again changes nothing");
    let removal = format!("{path}?forget=true");
    ensure!(operator.call(Method::DELETE, &removal, None).await?.status == 204, "a revoked key can be removed");
    ensure!(operator.call(Method::DELETE, &removal, None).await?.fault(404)?.code == "unknown_key");
    let operators = operator.get("/console/sign-in").await?.ok()?["key_id"].as_str().context("an id")?.to_owned();
    let last = operator.call(Method::DELETE, &format!("/console/api/keys/{operators}"), None).await?;
    ensure!(last.fault(409)?.message.contains("last operator"), "{last}");

    // The log has the last requests, a client's its own alone, and no secret.
    let log = operator.get("/console/api/log").await?;
    let text = log.text();
    let (token, _) = session.websocket_url()?.rsplit_once("token=").map(|(_, token)| (token, ())).context("a token")?;
    for secret in [daemon.key(), &client_key, &secret, token, &operator.cookie] {
        // Their names and prefixes may stand there, what is random may not.
        let random = &secret[secret.len() - 16..];
        ensure!(!text.contains(random), "the log has {random}");
    }
    let log = log.ok()?;
    let (requests, lines) =
        (log["requests"].as_array().context("requests")?, log["lines"].as_array().context("lines")?);
    ensure!(requests.len() <= 40 && lines.len() <= 40 && lines.len() > 3, "{log}");
    ensure!(
        requests.iter().any(|entry| entry["code"] == "operator_only" && entry["status"] == 403),
        "refusals are noted: {log}"
    );
    let log = client.get("/console/api/log").await?.ok()?;
    ensure!(log["lines"] == json!([]), "{log}");
    let foreign =
        log["requests"].as_array().context("requests")?.iter().any(|entry| entry["key_id"] != json!(client_id));
    ensure!(!foreign, "{log}");
    daemon.assert_idle().await
}

async fn pages_follow_what_happens(_: Stage) -> Result<()> {
    let settings = settings().set("CONSOLE_MAX_STREAMS", "3").set("CONSOLE_MAX_STREAMS_PER_KEY", "2");
    let mut daemon = Daemon::start(settings).await?;
    let operator = SignedIn::new(&daemon, daemon.key()).await?;
    let mut events = operator.follow("topic=overview&topic=sessions&topic=log&topic=tasks").await?;
    let overview = events.until("event: overview").await?;
    ensure!(overview.contains("\"pool\"") && overview.contains("\"memory_total\""), "{overview}");
    let session = daemon.session(json!({})).await?;
    events.until("event: sessions").await?;
    session.delete().await?.ok()?;
    events.until("session ended").await?;
    let refused = daemon.api().post("/sessions/create", &json!({"nonsense": 1})).await?;
    ensure!(refused.status == 400);
    let request = events.until("unknown_field").await?;
    ensure!(request.contains("unknown_field"), "{request}");
    let extract = json!({"url": "data:text/html,<h1>Sencha</h1>", "schema": {"title": "h1"}});
    daemon.api().post("/lam/extract", &extract).await?.ok()?;
    events.until("event: tasks").await?;
    events.until("task ended").await?;

    // The samples of the hour count what was made and refused.
    let counted = eventually!("a sample has counted it", 30, {
        let hour = operator.get("/console/api/overview").await?.ok()?["hour"].take();
        (hour["created"].as_u64() >= Some(2) && hour["refused"].as_u64() >= Some(1)).then_some(hour)
    })?;
    ensure!(counted["create_p99"].as_f64() >= counted["create_p50"].as_f64(), "{counted}");

    let unknown = operator.get("/console/api/events?topic=gossip").await?;
    ensure!(unknown.fault(400)?.field == "topic", "{unknown}");
    // Each key has its share of the streams, and an operator gets theirs however many clients follow.
    let refusal = async |who: &SignedIn| -> Result<String> {
        let fault = who.get("/console/api/events?topic=sessions").await?.fault(429)?;
        ensure!(fault.code == "stream_limit", "{}", fault.code);
        Ok(fault.message)
    };
    let client = SignedIn::new(&daemon, &crate::keys::create(&daemon, "client").await?).await?;
    let stranger = SignedIn::new(&daemon, &crate::keys::create(&daemon, "stranger").await?).await?;
    let _theirs = (client.follow("topic=sessions").await?, client.follow("topic=sessions").await?);
    let second = operator.follow("topic=sessions").await?;
    for (who, setting) in
        [(&client, "max_streams_per_key"), (&operator, "max_streams_per_key"), (&stranger, "max_streams")]
    {
        let message = refusal(who).await?;
        ensure!(message.contains(&format!("`console.{setting}`")), "{message}");
    }
    drop(second);
    let again = async || operator.follow("topic=sessions").await;
    let mut second = eventually!("a place is free again", 30, again().await.ok())?;

    // Another process is another number, and a revoked key follows nothing.
    let started = async || -> Result<Value> { Ok(operator.get("/console/sign-in").await?.ok()?["started_at"].take()) };
    let before = started().await?;
    daemon.kill9().await?;
    ensure!(second.until("event: never").await.is_err(), "the stream ends with the daemon");
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(started().await? != before);
    let spare = crate::keys::create(&daemon, "spare").await?;
    let spare = SignedIn::new(&daemon, &spare).await?;
    let mut events = spare.follow("topic=sessions").await?;
    daemon.cli_ok(&["key", "revoke", "spare"]).await?;
    events.until("event: signed-out").await?;
    ensure!(spare.get("/sessions").await?.fault(401)?.code == "invalid_key");
    daemon.assert_idle().await
}

async fn an_open_stream_tells_of_its_own_and_is_no_use_of_its_key(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let key = crate::keys::create(&daemon, "client").await?;
    let client = daemon.api().with_key(&key);
    let follow = async |topics: &str| -> Result<Events> {
        let path = format!("/console/api/events?{topics}");
        let mut events = Events::open(&client, &path, &[(KEY_HEADER, &key)]).await?;
        events.until("event: hello").await?;
        Ok(events)
    };
    let mut events = follow("topic=sessions&topic=log").await?;
    let theirs = daemon.session(json!({})).await?;
    theirs.delete().await?.ok()?;
    // The key's own request is told behind all that came before it.
    ensure!(client.post("/sessions/create", &json!({"nonsense": 1})).await?.status == 400);
    let heard = events.before("unknown_field").await?;
    ensure!(!heard.contains("event: sessions"), "sessions of another key are no news: {heard}");
    let own = Session::create(&client, &json!({"headless": true})).await?;
    events.until("event: sessions").await?;
    own.delete().await?.ok()?;

    let operator = SignedIn::new(&daemon, daemon.key()).await?;
    let last_used = async || -> Result<Value> {
        let listed = operator.get("/console/api/keys").await?.ok()?;
        let keys = listed["keys"].as_array().context("keys")?;
        Ok(keys.iter().find(|key| key["name"] == "client").context("the key")?["last_used_at"].clone())
    };
    let mut keys = operator.follow("topic=keys").await?;
    crate::keys::create(&daemon, "another").await?;
    keys.until("event: keys").await?;

    let mut events = follow("topic=overview").await?;
    let before = last_used().await?;
    for _ in 0..2 {
        events.until("event: overview").await?;
    }
    let after = last_used().await?;
    ensure!(before.is_u64() && after == before, "used at {before}, and at {after}");
    daemon.assert_idle().await
}

/// The thumbnail with its tag, once the browser gives one.
async fn thumbnail(api: &Api, session: &Session) -> Result<(Bytes, String)> {
    eventually!("a thumbnail", 30, {
        let reply = api.get(&format!("/sessions/{}/thumbnail", session.id)).await?;
        ensure!(matches!(reply.status, 200 | 204), "{reply}");
        let tag = reply.header("etag").map(ToOwned::to_owned);
        tag.map(|tag| (reply.body, tag))
    })
}

/// The next picture of a stream that follows this session.
async fn next_picture(events: &mut Events, session: &str) -> Result<Vec<u8>> {
    let event = events.until("event: thumbnail").await?;
    let data = event.lines().find_map(|line| line.strip_prefix("data:")).context("data")?;
    let picture: Value = serde_json::from_str(data)?;
    ensure!(picture["session_id"] == session, "{}", picture["session_id"]);
    Ok(STANDARD.decode(picture["jpeg"].as_str().context("a picture")?)?)
}

async fn thumbnails_are_sent_while_a_page_shows_them(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("CONSOLE_THUMBNAIL_INTERVAL", "100ms")).await?;
    let page = |colour: &str| json!(format!("data:text/html,<body style='background:{colour}'><h1>{colour}</h1>"));
    let operator = SignedIn::new(&daemon, daemon.key()).await?;
    let session = daemon.session(json!({"headless": true, "keep_alive": true, "url": page("teal")})).await?;
    let path = format!("/console/api/thumbnails?session={}&session=ses_none", session.id);
    let mut events = operator.stream(&path).await?;
    let jpeg = next_picture(&mut events, &session.id).await?;
    ensure!(jpeg.starts_with(&[0xFF, 0xD8]) && jpeg.len() < 50_000, "{} bytes", jpeg.len());
    let mut cdp = session.cdp().await?;
    let tab = cdp.first_page().await?;
    cdp.call_in(&tab, "Page.navigate", json!({"url": page("maroon")})).await?;
    ensure!(next_picture(&mut events, &session.id).await? != jpeg, "another picture comes by itself");
    cdp.disconnect().await?;

    // Nobody else's are shown, and not too many.
    let key = crate::keys::create(&daemon, "stranger").await?;
    let body = json!({"headless": true, "url": page("navy")});
    let own = daemon.api().with_key(&key).post("/sessions/create", &body).await?.ok()?;
    let own = own["session_id"].as_str().context("an id")?;
    let mut theirs = SignedIn::new(&daemon, &key).await?.stream(&format!("{path}&session={own}")).await?;
    next_picture(&mut theirs, own).await?;
    let many = vec!["session=x"; 101].join("&");
    let refused = operator.get(&format!("/console/api/thumbnails?{many}")).await?;
    ensure!(refused.fault(400)?.field == "session", "{refused}");
    daemon.api().with_key(&key).delete(&format!("/sessions/{own}")).await?.ok()?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn thumbnails_show_the_session(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("CONSOLE_THUMBNAIL_INTERVAL", "100ms")).await?;
    let page = |colour: &str| json!(format!("data:text/html,<body style='background:{colour}'><h1>{colour}</h1>"));
    let api = daemon.api();
    for headless in [true, false] {
        let session = daemon.session(json!({"headless": headless, "keep_alive": true, "url": page("teal")})).await?;
        let (jpeg, tag) = thumbnail(&api, &session).await?;
        ensure!(jpeg.starts_with(&[0xFF, 0xD8]) && jpeg.len() < 50_000, "{} bytes", jpeg.len());
        // It changes with the page; until then, a conditional request gets no new one.
        let mut cdp = session.cdp().await?;
        let tab = cdp.first_page().await?;
        cdp.call_in(&tab, "Page.navigate", json!({"url": page("maroon")})).await?;
        let seen = eventually!("another picture", 30, {
            let (_, seen) = thumbnail(&api, &session).await?;
            (seen != tag).then_some(seen)
        })?;
        eventually!("the same picture", 30, {
            let mut headers = HeaderMap::new();
            headers.insert("if-none-match", seen.parse()?);
            let path = format!("/sessions/{}/thumbnail", session.id);
            let reply = api.send(Method::GET, &path, headers, Bytes::new()).await?;
            reply.status == 304 || reply.header("etag") != Some(&seen)
        })?;
        cdp.disconnect().await?;
        let stranger = crate::keys::create(&daemon, if headless { "a" } else { "b" }).await?;
        let refused = api.with_key(&stranger).get(&format!("/sessions/{}/thumbnail", session.id)).await?;
        ensure!(refused.fault(404)?.code == "unknown_session", "{refused}");
        session.delete().await?.ok()?;
        // The last one stays, for those who could see the session; one that was never seen has none.
        let path = format!("/sessions/{}/thumbnail", session.id);
        let late = api.get(&path).await?;
        ensure!(late.status == 200 && late.body.starts_with(&[0xFF, 0xD8]), "{}", late.status);
        ensure!(api.with_key(&stranger).get(&path).await?.fault(404)?.code == "unknown_session");
        let unseen = daemon.session(json!({"headless": headless})).await?;
        unseen.delete().await?.ok()?;
        let late = api.get(&format!("/sessions/{}/thumbnail", unseen.id)).await?;
        ensure!(late.fault(404)?.code == "session_ended", "{late}");
    }
    daemon.assert_idle().await
}

async fn the_console_works_in_a_browser(stage: Stage) -> Result<()> {
    // Something warm, so that the table of the pool has a row.
    let mut daemon = Daemon::start(Settings::new()).await?;
    let site = stage.site_for(&daemon).await?;
    let recording = std::fs::read_to_string(programs::examples().join("tasks/hello.json"))?;
    let program = async |daemon: &Daemon, name: &str| -> Result<Program> {
        let program = Program::node(&programs::clients(), "console.mjs").await?.of(daemon).env("FLOW", name);
        Ok(program.env("SITE_URL", &site).env("RECORDING", &recording))
    };
    for flow in ["sessions", "tasks", "keys", "extremes"] {
        program(&daemon, flow).await?.results().await?;
    }
    // A page that stays open while the daemon is replaced.
    let open = program(&daemon, "restart").await?.results();
    let replacing = async {
        let reported = |what: &str| stage.site().report("console").is_some_and(|report| report["what"] == what);
        eventually!("the page is open", 60, reported("open"))?;
        daemon.kill9().await?;
        eventually!("the page says so", 60, reported("lost"))?;
        daemon.restart().await
    };
    let (seen, replaced) = tokio::join!(open, replacing);
    replaced?;
    seen?;
    daemon.warm().await?;
    daemon.assert_idle().await
}
