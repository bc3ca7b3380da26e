//! Rows 21, 22 and 24: requests of foreign pages, of other keys, and such as two servers would read differently.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use warmpool_tests::{
    Api, Daemon, Driver, Group, Reply, Session, Settings, Stage, evidence, group, host_address, wire,
};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_page_of_another_origin_starts_nothing,
            a_wrong_key_takes_as_long_whatever_it_shares,
            every_call_hides_what_is_anothers,
            requests_that_can_be_read_two_ways,
            nothing_passes_before_the_browser_agrees,
            a_driver_that_stops_is_given_up,
        ],
    )
}

/// A real page, in a browser of this daemon's, that may reach it as far as the network is concerned.
async fn a_page_of_another_origin_starts_nothing(stage: Stage) -> Result<()> {
    let settings = Settings::new()
        .set("SERVER_LISTEN", "0.0.0.0:0")
        .set("SERVER_ALLOWED_HOSTS", host_address())
        .set("SESSION_RECONNECT_WINDOW", "60s");
    let daemon = Daemon::start(settings).await?;
    let port = daemon.url().rsplit(':').next().context("a port")?.to_owned();
    let session = daemon.session(json!({})).await?;
    let victim = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{}/tab/1", stage.site_for(&daemon).await?)).await?;
    daemon.warm().await?;
    let (containers, sessions) = (daemon.containers().await?.len(), listed(&daemon).await?);
    let base = format!("http://{}:{port}", host_address());
    let socket = victim.websocket_url()?.replace("127.0.0.1", host_address());
    let script = format!(
        "(async () => {{
           const seen = [];
           const key = {{'service-secret-key': '{key}'}};
           const body = JSON.stringify({{headless: true}});
           const tries = [
             ['/sessions/create', {{method: 'POST', mode: 'no-cors', body}}],
             ['/sessions/create', {{method: 'POST', headers: {{'content-type': 'text/plain'}}, body}}],
             ['/sessions/create', {{method: 'POST', headers: {{'content-type': 'application/json', ...key}}, body}}],
             ['/session', {{method: 'POST', headers: {{'content-type': 'text/plain'}}, body: '{{\"capabilities\": {{}}}}'}}],
             ['/sessions', {{headers: key}}], ['/status', {{}}], ['/healthz', {{mode: 'no-cors'}}],
           ];
           for (const [path, init] of tries) {{
             seen.push(await fetch('{base}' + path, init).then(reply => reply.type === 'opaque' ? 'opaque' : reply.status, () => 'failed'));
           }}
           seen.push(await new Promise(done => {{
             const socket = new WebSocket('{socket}');
             socket.onopen = () => done('open');
             socket.onerror = () => done('failed');
           }}));
           return seen;
         }})()",
        key = daemon.key(),
    );
    let refused_before = daemon.metrics().await?.sum("warmpool_refusals_total", &[]).unwrap_or_default();
    let seen = cdp.evaluate(&page, &script).await?;
    let seen = seen.as_array().context("a list")?;
    // A page that asks without CORS learns nothing, not even the status.
    ensure!(seen.iter().all(|answer| answer == "failed" || answer == "opaque"), "{seen:?}");
    // They arrived: nothing on the way refused them.
    ensure!(seen[0] == "opaque" && seen[6] == "opaque", "{seen:?}");
    let refused = daemon.metrics().await?.sum("warmpool_refusals_total", &[]).unwrap_or_default() - refused_before;
    ensure!(refused >= 4.0, "{refused} requests of the page were refused: {seen:?}");
    ensure!(
        listed(&daemon).await? == sessions && daemon.containers().await?.len() == containers,
        "something was started"
    );
    for headers in [
        format!("Host: {}:{port}\r\nOrigin: http://evil.test\r\nContent-Type: application/json\r\n", host_address()),
        format!("Host: 127.0.0.1.evil.com:{port}\r\nContent-Type: application/json\r\n"),
        format!("Host: evil.test:{port}\r\nContent-Type: application/json\r\n"),
        format!(
            "Host: {}:{port}\r\nOrigin: http://{}.evil.com:{port}\r\nContent-Type: text/plain\r\n",
            host_address(),
            host_address()
        ),
    ] {
        let request = format!(
            "POST /sessions/create HTTP/1.1\r\n{headers}service-secret-key: {}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}",
            daemon.key()
        );
        let answer = wire::raw(daemon.url(), request.as_bytes(), 1 << 16).await?;
        ensure!(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 415 "), "{headers}{answer}");
        ensure!(!answer.to_ascii_lowercase().contains("access-control-"), "{answer}");
    }
    ensure!(listed(&daemon).await? == sessions, "something was started");
    for session in [session, victim] {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn listed(daemon: &Daemon) -> Result<Value> {
    Ok(daemon.api().get("/sessions?limit=100").await?.ok()?["meta"]["totalRecords"].clone())
}

/// The middle of the times that wrong keys take: one with a long beginning of the right one, and one without. For comparisons of
/// secrets, `core/tests/constant_time.rs` counts instructions.
async fn a_wrong_key_takes_as_long_whatever_it_shares(_: Stage) -> Result<()> {
    let samples = usize::try_from(evidence::rounds(10_000))?;
    let daemon = Daemon::start(Settings::on_demand().set("LOG_FILTER", "warn")).await?;
    let key = daemon.key().to_owned();
    let near = format!("{}{}", &key[..key.len() - 1], if key.ends_with('0') { '1' } else { '0' });
    let far: String = key
        .chars()
        .map(|letter| {
            if letter == 'a' {
                'b'
            } else if letter.is_ascii_digit() {
                '9'
            } else {
                letter
            }
        })
        .collect();
    let mut times = [Vec::new(), Vec::new()];
    for sample in 0..samples {
        let which = sample % 2;
        let api = daemon.api().with_key(if which == 0 { near.clone() } else { far.clone() });
        let asked = Instant::now();
        api.get("/sessions").await?.fault(401)?;
        times[which].push(asked.elapsed());
    }
    let [near, far] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let apart = near.abs_diff(far);
    evidence::saw(format!(
        "{samples} wrong keys: {:.0} µs in the middle with the right beginning, {:.0} µs without",
        near.as_secs_f64() * 1e6,
        far.as_secs_f64() * 1e6
    ));
    // A comparison that stops at the first difference would show far less than this: the rest is what the machine does.
    ensure!(apart < near / 10 + Duration::from_micros(20), "{near:?} and {far:?}");
    ensure!(!daemon.log_text().contains(&key), "the log holds a key");
    daemon.assert_idle().await
}

async fn every_call_hides_what_is_anothers(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new().set("POOL_CHROMIUM_HEADLESS", "2")).await?;
    let site = stage.site_for(&daemon).await?;
    let other = daemon.api().with_key(crate::keys::create(&daemon, "other").await?);
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let owned = daemon.session(json!({})).await?;
    let done = crate::history::finished(&daemon.api(), "/lam/run", crate::history::visit(&format!("{site}/"))).await?;
    let task = crate::history::id(&done)?;
    let description = daemon.api().get("/openapi.json").await?.ok()?;
    let mut asked = hidden(&daemon.api(), &other, &description, "/sessions/{id}", &session.id).await?;
    asked += hidden(&daemon.api(), &other, &description, "/sessions/{id}", &owned.id).await?;
    asked += hidden(&daemon.api(), &other, &description, "/lam/tasks/{id}", &task).await?;
    ensure!(asked > 30, "{asked} calls are described");
    evidence::saw(format!("{asked} calls with another's id answer as with an unknown one"));
    // The token in an address is its session's alone.
    let wrong = session.connect_url()?.replace(session.id.as_str(), owned.id.as_str());
    ensure!(wrong == session.connect_url()? || refused(&wrong).await?, "a token opened another session");
    let token = owned.websocket_url()?.split("token=").nth(1).map(str::to_owned);
    ensure!(driver.execute("return 6 * 7").await? == 42 && owned.status().await? == "running");
    let metrics = daemon.api().get("/metrics").await?.text();
    for secret in [Some(daemon.key().to_owned()), token].into_iter().flatten() {
        ensure!(!daemon.log_text().contains(&secret) && !metrics.contains(&secret), "a secret shows");
    }
    ensure!(!metrics.contains(&session.id), "an id shows in the metrics");
    for session in [session, owned] {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

/// Each described call below this path answers another key as if there were no such id; the owner gets something by `GET`. Returns how
/// many there are.
async fn hidden(owner: &Api, other: &Api, description: &Value, below: &str, id: &str) -> Result<u64> {
    // As long, and of the same kind.
    let unknown: String = id.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    ensure!(unknown != id, "{id} has no digit");
    let mut asked = 0;
    for (path, calls) in description["paths"].as_object().context("paths")? {
        // What a token opens is for whoever has the address: it needs no key, and knows none.
        let by_token = ["{token}", "/devtools", "/stream"].iter().any(|part| path.contains(part));
        if !path.starts_with(below) || by_token {
            continue;
        }
        for method in calls.as_object().context("methods")?.keys() {
            let Ok(method) = method.to_ascii_uppercase().parse::<Method>() else { continue };
            if !matches!(method, Method::GET | Method::DELETE | Method::POST | Method::PUT | Method::PATCH) {
                continue;
            }
            let filled = |id: &str| {
                let parts = path.split('/').map(|part| match part {
                    "{id}" => id,
                    part if part.starts_with('{') => "x",
                    part => part,
                });
                parts.collect::<Vec<_>>().join("/")
            };
            let ask = async |api: &Api, id: &str| {
                let json = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
                let body = if method == Method::GET { Bytes::new() } else { Bytes::from_static(b"{}") };
                api.send(method.clone(), &filled(id), json, body).await
            };
            let what = format!("{method} {path}");
            let (anothers, nobodys) = (ask(other, id).await?, ask(other, &unknown).await?);
            ensure!((400..500).contains(&anothers.status), "{what}: {anothers}");
            let told = |reply: &Reply| (reply.status, reply.json().unwrap_or_default()["error"]["code"].clone());
            ensure!(told(&anothers) == told(&nobodys), "{what}: {anothers}, and {nobodys}");
            // Where the path says it all, there is something to hide.
            if method == Method::GET && path.matches('{').count() == 1 {
                let own = ask(owner, id).await?;
                ensure!(own.status != 404 || MAY_LACK.iter().any(|last| path.ends_with(last)), "{what}: {own}");
                ensure!(
                    own.status != 200 || anothers.status == 404,
                    "{what}: the owner gets it, and another {anothers}"
                );
            }
            asked += 1;
        }
    }
    Ok(asked)
}

/// What a session or a task may have none of.
const MAY_LACK: &[&str] = &["/recording", "/share", "/logs", "/har", "/thumbnail", "/state", "/artifacts", "/items"];

async fn refused(connect_url: &str) -> Result<bool> {
    let reply = warmpool_tests::webdriver::new_session(connect_url, json!({"alwaysMatch": {}})).await?;
    Ok(matches!(reply.status, 401 | 403 | 404))
}

/// The ports of chromedriver and of the browser, in their container.
const DRIVER: u16 = 9515;
const BROWSER: u16 = 9222;

/// A server in the place of a worker's own, which goes on with the connections that it has: it takes down each request whole, and
/// answers it as a driver does.
struct Recorder {
    seen: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Recorder {
    fn start(place: &Path) -> Result<Self> {
        let listener = in_place(place)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&seen);
        let server = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let to = Arc::clone(&to);
                open.spawn(async move { record(stream, &to).await });
            }
        });
        Ok(Self { seen, server })
    }

    /// The requests since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Listens where a program in a container did.
fn in_place(place: &Path) -> Result<UnixListener> {
    fs::rename(place, place.with_extension("real"))?;
    let listener = UnixListener::bind(place).with_context(|| place.display().to_string())?;
    fs::set_permissions(place, Permissions::from_mode(0o777))?;
    Ok(listener)
}

/// Takes down what comes, and answers whenever it is a whole request by one reading or the other.
async fn record(mut stream: UnixStream, to: &Mutex<Vec<String>>) -> Result<()> {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await?;
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if is_whole(&text) || (read == 0 && !text.is_empty()) {
            to.lock().push(text);
            request.clear();
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"value\":42}";
            stream.write_all(answer.as_bytes()).await?;
        }
        if read == 0 {
            return Ok(());
        }
    }
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    match length {
        Some(length) => body.len() >= length,
        None => !head.contains("transfer-encoding:") || body.ends_with("0\r\n\r\n"),
    }
}

/// It is one request with this body, whose end can be read in one way alone, and has nothing that is not the driver's.
fn is_clean(request: &str, path: &str, body: &str) -> Result<()> {
    let (head, rest) = request.split_once("\r\n\r\n").context("a head")?;
    let head = head.to_ascii_lowercase();
    let mut lines = head.lines();
    ensure!(lines.next() == Some(&format!("post {path} http/1.1").to_ascii_lowercase()), "{request}");
    let mut names: Vec<&str> = lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let by_length = ["content-length", "content-type", "host"];
    let by_chunks = ["content-type", "host", "transfer-encoding"];
    let rest_is = if names == by_length {
        body.to_owned()
    } else {
        ensure!(names == by_chunks && head.contains("transfer-encoding: chunked"), "{request}");
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    };
    ensure!(rest.eq_ignore_ascii_case(&rest_is), "{request}");
    Ok(())
}

/// A driver that says nothing, and one that stops in the middle of its answer: each call ends, and the session goes on.
async fn a_driver_that_stops_is_given_up(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("it takes root to put a server in a driver's place");
        return Ok(());
    }
    let daemon = Daemon::start(Settings::new().set("WEBDRIVER_COMMAND_TIMEOUT", "2s")).await?;
    let container = daemon.only_container().await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let listener = in_place(&daemon.docker().port_socket(&container, DRIVER).await?)?;
    let halves: [&[u8]; 2] =
        [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"val"];
    // They stay open, and say nothing more.
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        for half in halves {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(half).await?;
            open.push(stream);
        }
        std::future::pending::<anyhow::Result<()>>().await
    });
    let silent = driver.command(Method::GET, "/url", &Value::Null).await?;
    ensure!(silent.status >= 500, "{silent}");
    let cut = driver.command(Method::GET, "/title", &Value::Null).await;
    let cut = cut.err().map(|error| format!("{error:#}")).context("half an answer arrived as a whole one")?;
    ensure!(!cut.contains("hung"), "{cut}");
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    server.abort();
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Frames that come with the request for the upgrade wait until the browser has agreed to it.
async fn nothing_passes_before_the_browser_agrees(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("it takes root to put a server in a browser's place");
        return Ok(());
    }
    let daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    let browser = in_place(&daemon.docker().port_socket(&container, BROWSER).await?)?;
    let slow = tokio::spawn(async move {
        let (mut stream, _) = browser.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        // Nothing more may come before the answer, however long that takes.
        let mut early = [0; 64];
        let read = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut early)).await;
        let head = String::from_utf8_lossy(&head).into_owned();
        if let Ok(read) = read {
            return Ok((head, early[..read?].to_vec(), Vec::new()));
        }
        let key = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().starts_with("sec-websocket-key:").then(|| line[18..].trim()));
        let accept = derive_accept_key(key.context("a key")?.as_bytes());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await?;
        let mut late = vec![0; FRAME.len()];
        // A refusal of the early frame leaves nothing to pass.
        let passed = tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut late)).await;
        anyhow::Ok((head, Vec::new(), if matches!(passed, Ok(Ok(_))) { late } else { Vec::new() }))
    });
    let target = wire::Target::parse(session.websocket_url()?)?;
    let head = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        target.path,
        target.authority()
    );
    let mut client = wire::connect(&target, None).await?;
    client.write_all(&[head.as_bytes(), FRAME].concat()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(client.read_u8().await?);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.starts_with("HTTP/1.1 101 ") {
        let (head, early, late) = slow.await??;
        ensure!(early.is_empty(), "before its answer, the browser got {early:?} after {head}");
        ensure!(late == FRAME, "after it, the browser got {late:?}");
        evidence::saw("an early frame waited for the browser's 101");
    } else {
        ensure!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        slow.abort();
        evidence::saw("an early frame was refused");
    }
    drop(client);
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A masked text frame, "{}".
const FRAME: &[u8] = &[0x81, 0x82, 1, 2, 3, 4, b'{' ^ 1, b'}' ^ 2];

async fn requests_that_can_be_read_two_ways(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("it takes root to put a server in a driver's place");
        return Ok(());
    }
    let daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let session: Session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let host = daemon.url().trim_start_matches("http://").to_owned();
    let own = session.connect_url()?.replace(daemon.url(), "");
    let path = format!("/session/{}/execute/sync", driver.id());
    let command = format!("{}{path}", own.trim_end_matches('/'));
    let recorder = Recorder::start(&daemon.docker().port_socket(&container, DRIVER).await?)?;
    let key = daemon.key();
    let script = r#"{"script":"return 6*7","args":[]}"#;
    let length = script.len();
    let smuggled = format!("GET /smuggled HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let chunks = format!("{length:x}\r\n{script}\r\n0\r\n\r\n");
    let post = |version: &str, headers: &str, body: &str| {
        format!(
            "POST {command} HTTP/{version}\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
        )
    };
    let two_ways = [
        (
            "a length and chunks",
            post(
                "1.1",
                &format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
                &(chunks.clone() + &smuggled),
            ),
        ),
        (
            "chunks and a length",
            post("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", &(chunks.clone() + &smuggled)),
        ),
        (
            "two lengths",
            post(
                "1.1",
                &format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
                &(script.to_owned() + &smuggled),
            ),
        ),
        (
            "a list of lengths",
            post("1.1", &format!("Content-Length: {length}, 0\r\n"), &(script.to_owned() + &smuggled)),
        ),
        ("a signed length", post("1.1", &format!("Content-Length: +{length}\r\n"), &(script.to_owned() + &smuggled))),
        ("chunks of an old client", post("1.0", "Transfer-Encoding: chunked\r\n", &(chunks.clone() + &smuggled))),
        ("chunks by another name", post("1.1", "Transfer-Encoding: xchunked\r\n", &(chunks.clone() + &smuggled))),
        (
            "chunks that are not last",
            post("1.1", "Transfer-Encoding: chunked, identity\r\n", &(chunks.clone() + &smuggled)),
        ),
        (
            "a name with a space",
            post("1.1", &format!("Content-Length : {length}\r\n"), &(script.to_owned() + &smuggled)),
        ),
        (
            "a folded header",
            post("1.1", &format!("X-Long: a\r\n b\r\nContent-Length: {length}\r\n"), &(script.to_owned() + &smuggled)),
        ),
    ];
    let mut answers = Vec::new();
    for (what, request) in two_ways {
        let answer = wire::raw(daemon.url(), request.as_bytes(), 1 << 16).await.context(what)?;
        let status = answer.get(9..12).unwrap_or_default().to_owned();
        let passed = recorder.take();
        match (status.as_str(), passed.as_slice()) {
            // What follows it is a request to the daemon itself, and never one to the driver.
            ("200", [one]) => is_clean(one, &path, script).with_context(|| format!("{what}: {answer}"))?,
            (refusal, []) if refusal.starts_with('4') => {}
            _ => bail!("{what}: {answer}, and the driver got {passed:?}"),
        }
        answers.push(format!("{what} {status}"));
    }
    // Headers that a request names as its connection's are not passed on, and take away none that the driver needs.
    let nominating = "Connection: close, host, content-type, content-length, x-own\r\nX-Own: 1\r\nCookie: a=b\r\n";
    let nominated =
        post("1.1", &format!("{nominating}service-secret-key: {key}\r\nContent-Length: {length}\r\n"), script);
    let answer = wire::raw(daemon.url(), nominated.as_bytes(), 1 << 16).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let passed = recorder.take();
    let [one] = passed.as_slice() else { bail!("the driver got {passed:?}") };
    is_clean(one, &path, script)?;
    drop(recorder);
    // Nor do they hide the daemon's own.
    let nominated = format!(
        "GET /sessions HTTP/1.1\r\nHost: {host}\r\nservice-secret-key: {key}\r\nConnection: close, service-secret-key, host\r\n\r\n"
    );
    let answer = wire::raw(daemon.url(), nominated.as_bytes(), 1 << 16).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Who took a path for another one would answer 200: the key is right.
    let get = async |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nservice-secret-key: {key}\r\nConnection: close\r\n\r\n");
        let answer = wire::raw(daemon.url(), request.as_bytes(), 1 << 16).await?;
        Ok::<_, anyhow::Error>((answer.get(9..12).unwrap_or_default().to_owned(), answer))
    };
    for path in ["/sessions", "/status"] {
        let (status, answer) = get(path).await?;
        ensure!(status == "200", "{path}: {answer}");
    }
    for path in [
        "/session/../sessions",
        "/sessions/%2e%2e/status",
        "/session/..%2fsessions",
        "//sessions",
        "/./sessions",
        "/sessions/./create",
    ] {
        let (status, answer) = get(path).await?;
        ensure!(status.starts_with('4') && status != "401", "{path}: {answer}");
    }
    evidence::saw(answers.join(", "));
    session.delete().await?;
    daemon.assert_idle().await
}
