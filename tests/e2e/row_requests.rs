//! Rows 21, 22 and 24: requests of foreign pages, of other keys, and such as two servers would read differently.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, evidence, group, host_address, wire};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_page_of_another_origin_starts_nothing,
            a_wrong_key_takes_as_long_whatever_it_shares,
            every_call_hides_what_is_anothers,
            requests_that_can_be_read_two_ways,
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
    let seen = cdp.evaluate(&page, &script).await?;
    let seen = seen.as_array().context("a list")?;
    // A page that asks without CORS learns nothing, not even the status.
    ensure!(seen.iter().all(|answer| answer == "failed" || answer == "opaque"), "{seen:?}");
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

/// The middle of the times that wrong keys take: one with a long beginning of the right one, and one without.
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
    for id in [&session.id, &owned.id] {
        for path in ["", "/status", "/files", "/files/x", "/recording", "/share", "/state"] {
            let reply = other.get(&format!("/sessions/{id}{path}")).await?;
            // Not every path has a GET.
            ensure!(matches!(reply.status, 404 | 405), "{path}: {reply}");
        }
        other.delete(&format!("/sessions/{id}")).await?.fault(404)?;
        other.post(&format!("/sessions/{id}/terminate"), &json!({})).await?.fault(404)?;
    }
    for path in ["", "/events", "/items", "/results"] {
        ensure!(matches!(other.get(&format!("/lam/tasks/{task}{path}")).await?.status, 404 | 405), "{path}");
    }
    other.delete(&format!("/lam/tasks/{task}")).await?.fault(404)?;
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

async fn refused(connect_url: &str) -> Result<bool> {
    let reply = warmpool_tests::webdriver::new_session(connect_url, json!({"alwaysMatch": {}})).await?;
    Ok(matches!(reply.status, 401 | 403 | 404))
}

async fn requests_that_can_be_read_two_ways(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let session: Session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let host = daemon.url().trim_start_matches("http://").to_owned();
    let own = session.connect_url()?.replace(daemon.url(), "");
    let command = format!("{}/session/{}/execute/sync", own.trim_end_matches('/'), driver.id());
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
        let answer = wire::raw(daemon.url(), request.as_bytes(), 1 << 16).await.unwrap_or_default();
        let status = answer.get(9..12).unwrap_or_default().to_owned();
        // One clean request may pass; what follows it is then a request to the daemon itself, and never one to the driver.
        let passed = status == "200" && answer.contains("\"value\":42");
        ensure!(passed || status.starts_with('4') || answer.is_empty(), "{what}: {answer}");
        ensure!(!answer.contains("unknown command"), "the driver got a second request: {what}: {answer}");
        answers.push(format!("{what} {status}"));
    }
    ensure!(driver.execute("return 6 * 7").await? == 42, "the driver's connections are as they were");
    // Headers that a request names as its connection's are not passed on, and do not hide the daemon's own.
    let nominated = format!(
        "GET /sessions HTTP/1.1\r\nHost: {host}\r\nservice-secret-key: {key}\r\nConnection: close, service-secret-key, host\r\n\r\n"
    );
    let answer = wire::raw(daemon.url(), nominated.as_bytes(), 1 << 16).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 4"), "{answer}");
    for path in [
        "/session/../sessions",
        "/sessions/%2e%2e/status",
        "/session/..%2fsessions",
        "//sessions",
        "/sessions/./create",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = wire::raw(daemon.url(), request.as_bytes(), 1 << 16).await?;
        ensure!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
    }
    evidence::saw(answers.join(", "));
    session.delete().await?;
    daemon.assert_idle().await
}
