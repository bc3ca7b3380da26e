//! Bodies of requests: what they may cost the host, and how long they may take.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::wire::{self, Io, Target};
use warmpool_tests::{Api, Daemon, Driver, Group, Reply, Settings, Stage, eventually, group};

use crate::keys;

/// What the daemon may take beside what it has when nobody asks for anything: the budget for bodies, which is 160 MiB,
/// and what the allocator and the connections' own buffers keep beside it.
const ATTACK_COSTS: u64 = 320 << 20;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            no_body_takes_the_hosts_memory,
            all_bodies_share_one_budget,
            one_key_leaves_memory_for_others,
            bodies_without_a_key_hold_up_nobody_who_has_one,
        ],
        full: [a_body_that_does_not_arrive_is_given_up, a_client_refused_while_sending_gets_the_answer],
    )
}

/// `count` times the item, in an array behind the head, and then the tail.
fn array(head: &str, item: &str, count: usize, tail: &str) -> Bytes {
    let mut text = String::with_capacity(head.len() + count * (item.len() + 1) + tail.len() + 8);
    text.push_str(head);
    text.push('[');
    for _ in 1..count {
        text.push_str(item);
        text.push(',');
    }
    text.push_str(item);
    text.push(']');
    text.push_str(tail);
    Bytes::from(text)
}

async fn post(api: &Api, path: &str, body: Bytes) -> Result<Reply> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    api.send(Method::POST, path, headers, body).await
}

/// The same without saying how long it is.
async fn chunked(daemon: &Daemon, path: &str, body: &[u8]) -> Result<String> {
    let mut request = head(daemon, "POST", path, &format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len()));
    request.extend_from_slice(body);
    request.extend_from_slice(b"\r\n0\r\n\r\n");
    wire::raw(daemon.url(), &request, 4096).await
}

/// A request's head up to `rest`, which has its last headers and may begin the body.
fn head(daemon: &Daemon, method: &str, path: &str, rest: &str) -> Vec<u8> {
    let host = daemon.url().trim_start_matches("http://");
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{KEY_HEADER}: {}\r\nContent-Type: application/json\r\n{rest}",
        daemon.key()
    )
    .into_bytes()
}

async fn no_body_takes_the_hosts_memory(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let api = daemon.api();
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let own = session.connect_url()?.replace(daemon.url(), "");
    let own = format!("{}/session", own.trim_end_matches('/'));
    let before = daemon.peak_resident()?;

    // Two bytes of text become a value of 32 bytes in memory, and this body has 64 MiB.
    let zeros = array(r#"{"capabilities":{"alwaysMatch":{"x":"#, "0", 32 << 20, "}}}");
    for path in ["/session", "/wd/hub/session", own.as_str()] {
        ensure!(post(&api, path, zeros.clone()).await?.status == 400, "{path}: longer than webdriver.max_session_body");
        let answer = chunked(&daemon, path, &zeros).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("webdriver.max_session_body"),
            "{path}: {answer}"
        );
    }
    ensure!(post(&api, "/lam/run", zeros).await?.fault(413)?.code == "body_too_large");

    // As long as allowed, and each seven bytes of it are an object with room for eleven members.
    let objects = array(r#"{"capabilities":{"alwaysMatch":{"x":"#, r#"{"":0}"#, (8 << 20) / 7 - 20, "}}}");
    // A small body that grows when each of its alternatives gets a copy of `alwaysMatch`.
    let copies = r#","y":0},"firstMatch":["#.to_owned() + &vec!["{}"; 200_000].join(",") + "]}}";
    let copies = array(r#"{"capabilities":{"alwaysMatch":{"x":"#, "0", 20_000, &copies);
    let steps = array(r#"{"recording":{"title":"t","steps":"#, r#"{"":0}"#, (8 << 20) / 7 - 20, "}}");
    let api = Arc::new(api);
    let attacks = (0..4).flat_map(|_| {
        [
            ("/session", objects.clone()),
            ("/session", copies.clone()),
            (own.as_str(), objects.clone()),
            ("/lam/run", steps.clone()),
        ]
    });
    let attacks = attacks.map(|(path, body)| {
        let (api, path) = (Arc::clone(&api), path.to_owned());
        async move {
            let reply = post(&api, &path, body).await?;
            let heavy = reply.text().contains("body_too_heavy") || reply.text().contains("body_memory");
            ensure!(heavy && matches!(reply.status, 400 | 413 | 500 | 503), "{reply}");
            anyhow::Ok(())
        }
    });
    futures_util::future::try_join_all(attacks).await?;

    // A file passes through, however long it is.
    let upload = format!("{{\"file\": \"{}\"}}", "A".repeat(16 << 20));
    let reply = driver.command_bytes("/se/file", upload.into()).await?;
    ensure!(reply.status == 400 && reply.text().contains("zip"), "{reply}");

    let cost = daemon.peak_resident()?.saturating_sub(before);
    println!("at its peak the daemon took {} MiB more than before the attack", cost >> 20);
    ensure!(cost < ATTACK_COSTS, "the attack took {} MiB", cost >> 20);
    ensure!(driver.execute("return 6 * 7").await? == 42, "the others do not notice");
    driver.quit().await?;
    daemon.assert_idle().await
}

/// A connection on which the head of a request has been sent and its body is waited for.
async fn waited_for(daemon: &Daemon, method: &str, path: &str, length: usize) -> Result<Box<dyn Io>> {
    let mut stream = wire::connect(&Target::parse(daemon.url())?, None).await?;
    let rest = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(&head(daemon, method, path, &rest)).await?;
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await?;
    ensure!(go_on.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&go_on));
    Ok(stream)
}

/// A budget of 8 MiB for bodies of at most 2 MiB.
fn small_budget() -> Settings {
    Settings::on_demand()
        .set("SERVER_BODY_MEMORY", "8MiB")
        .set("TASKS_MAX_BODY", "2MiB")
        .set("WEBDRIVER_MAX_SESSION_BODY", "2MiB")
        .set("SESSION_MAX_STATE", "2MiB")
        .set("PROFILES_MAX_SIZE", "2MiB")
        .set("PAGES_MAX_BODY", "2MiB")
        .set("MCP_MAX_BODY", "2MiB")
        .set("EXTENSIONS_MAX_SIZE", "2MiB")
}

/// Bodies to these paths, complete but for their ends: each holds almost 2 MiB.
async fn unfinished(daemon: &Daemon, paths: &[&str]) -> Result<Vec<Box<dyn Io>>> {
    let mut held = Vec::new();
    for path in paths {
        let mut stream = waited_for(daemon, "POST", path, 2 << 20).await?;
        stream.write_all(&vec![b' '; (2 << 20) - (64 << 10)]).await?;
        held.push(stream);
    }
    Ok(held)
}

async fn all_bodies_share_one_budget(_: Stage) -> Result<()> {
    let daemon = Daemon::start(small_budget().set("SERVER_BODY_SHARE", "8MiB")).await?;
    let api = daemon.api();
    // Four of them hold most of the budget.
    let held = unfinished(&daemon, &["/lam/run", "/lam/extract", "/lam/fleet", "/session"]).await?;
    let long = json!({"service_passcode": "x".repeat(512 << 10)});
    eventually!("there is no room for another", 20, {
        let reply = api.post("/sessions/create", &long).await?;
        let full = reply.status == 503;
        ensure!(!full || reply.header("retry-after").is_some(), "{reply}");
        ensure!(!full || reply.fault(503)?.code == "body_memory", "{reply}");
        full
    })?;
    // Requests that need little memory are served all the same.
    daemon.session(json!({})).await?.delete().await?.ok()?;
    let status = api.get("/status").await?;
    ensure!(status.status == 200, "{status}");
    drop(held);
    eventually!("there is room again", 20, api.post("/sessions/create", &long).await?.status == 400)?;
    daemon.assert_idle().await
}

async fn one_key_leaves_memory_for_others(_: Stage) -> Result<()> {
    let daemon = Daemon::start(small_budget().set("SERVER_BODY_SHARE", "6MiB")).await?;
    let other = daemon.api().with_key(keys::create(&daemon, "other").await?);
    let held = unfinished(&daemon, &["/lam/run", "/lam/extract", "/lam/fleet"]).await?;
    let long = json!({"service_passcode": "x".repeat(512 << 10)});
    eventually!("the key has no more", 20, {
        let reply = daemon.api().post("/sessions/create", &long).await?;
        let full = reply.status == 503;
        ensure!(!full || reply.fault(503)?.message.contains("server.body_share"), "{reply}");
        full
    })?;
    // What is refused to one is taken from the other, whose field it names.
    let reply = other.post("/sessions/create", &long).await?;
    ensure!(reply.fault(400)?.code != "body_memory", "{reply}");
    drop(held);
    eventually!("the key has its share again", 20, {
        daemon.api().post("/sessions/create", &long).await?.status == 400
    })?;
    daemon.assert_idle().await
}

async fn bodies_without_a_key_hold_up_nobody_who_has_one(_: Stage) -> Result<()> {
    let settings = small_budget()
        .set("SERVER_KEYLESS_BODY_MEMORY", "8MiB")
        .set("SERVER_KEYLESS_BODY_SHARE", "8MiB")
        .set("WORLD_MAX_BODY", "2MiB");
    let daemon = Daemon::start(settings).await?;
    let api = daemon.api();
    let held = unfinished(&daemon, &["/v1/world/generate"; 4]).await?;
    let long = json!({"patient_id": "x".repeat(512 << 10)});
    eventually!("there is no room for another stranger", 20, {
        let reply = api.post("/v1/world/generate", &long).await?;
        let full = reply.status == 503;
        ensure!(!full || reply.header("retry-after").is_some(), "{reply}");
        ensure!(!full || reply.fault(503)?.code == "body_memory", "{reply}");
        full
    })?;
    // Those whose key is in a header have room.
    let reply = api.post("/sessions/create", &json!({"service_passcode": "x".repeat(512 << 10)})).await?;
    ensure!(reply.status == 400, "{reply}");
    let made = api.post("/v1/integration-keys", &json!({"name": "clinic"})).await?.ok()?;
    let key = made["secret"].as_str().context("a secret")?;
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    headers.insert("x-api-key", HeaderValue::try_from(key)?);
    let reply = api.send(Method::POST, "/v1/world/generate", headers, long.to_string().into()).await?;
    ensure!(reply.fault(400)?.code == "invalid_field", "{reply}");
    // No stranger sends much to a call that needs no key.
    let reply = api.post("/graphql", &json!({"query": "x".repeat(65 << 10)})).await?;
    ensure!(reply.fault(413)?.message.contains("server.max_keyless_body"), "{reply}");
    drop(held);
    eventually!("there is room again", 20, api.post("/v1/world/generate", &long).await?.status == 401)?;
    daemon.assert_idle().await
}

async fn a_body_that_does_not_arrive_is_given_up(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SERVER_BODY_TIMEOUT", "1s")).await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let own = session.connect_url()?.replace(daemon.url(), "");
    let own = own.trim_end_matches('/');
    let command = format!("{own}/session/{}/execute/sync", driver.id());
    let upload = format!("{own}/session/{}/se/file", driver.id());
    let file = format!("/sessions/{}/files/x", session.id);
    // Bodies that the daemon reads, that it passes to the worker, and that it passes to the driver.
    for (method, path) in
        [("POST", "/sessions/create"), ("POST", "/lam/run"), ("PUT", &file), ("POST", &upload), ("POST", &command)]
    {
        let mut stream = waited_for(&daemon, method, path, 1000).await?;
        stream.write_all(b"{").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.with_context(|| path.to_owned())?;
        let answer = String::from_utf8_lossy(&answer);
        // WebDriver has no error code for this, and so no status.
        let status = if path.starts_with(own) { "HTTP/1.1 400 " } else { "HTTP/1.1 408 " };
        ensure!(answer.starts_with(status) && answer.contains("body_timeout"), "{path}: {answer}");
    }
    ensure!(driver.execute("return 1").await? == 1, "the session is none the worse for it");
    // Chromedriver itself takes no body in chunks.
    let answer = chunked(&daemon, &command, br#"{"script": "return 6 * 7", "args": []}"#).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""value":42"#), "{answer}");
    driver.quit().await?;
    daemon.assert_idle().await
}

async fn a_client_refused_while_sending_gets_the_answer(_: Stage) -> Result<()> {
    let settings = Settings::on_demand()
        .set("SERVER_MAX_BODY", "1MiB")
        .set("WEBDRIVER_MAX_BODY", "1MiB")
        .set("WEBDRIVER_MAX_SESSION_BODY", "1MiB");
    let daemon = Daemon::start(settings).await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let own = session.connect_url()?.replace(daemon.url(), "");
    let own = own.trim_end_matches('/');
    let drivers = [
        "/session".to_owned(),
        format!("{own}/session"),
        format!("{own}/session/{}/execute/sync", driver.id()),
        format!("{own}/session/{}/se/file", driver.id()),
    ];
    let paths: Vec<&str> = drivers.iter().map(String::as_str).chain(["/sessions/create"]).collect();
    let program = Program::python(&programs::clients(), "refused.py").await?;
    let answers = program.of(&daemon).env("PATHS", json!(paths).to_string()).results().await?;
    let answers = answers.as_array().context("a list")?;
    ensure!(answers.len() == 6 * paths.len() - 2, "{answers:?}");
    for answer in answers {
        // WebDriver has no error code for this, and so no status.
        let status = if answer["path"] == "/sessions/create" { 413 } else { 400 };
        let said = answer["answer"].as_str().is_some_and(|text| text.contains("body_too_large"));
        ensure!(answer["status"] == status && said, "{answer}");
    }
    driver.quit().await?;
    daemon.assert_idle().await
}
