//! The DevTools relay: frames go through whole, limits hold, and a bad peer harms only itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, evidence, group};

pub(crate) fn group() -> Group {
    let settings = Settings::new()
        .set("RELAY_MAX_MESSAGE", "32MiB")
        .set("RELAY_WRITE_TIMEOUT", "2s")
        .set("RELAY_MAX_SOCKETS", "3")
        .set("RELAY_PING_INTERVAL", "1s");
    group!(Some(settings),
        quick: [a_long_result_arrives_whole, a_long_message_closes_1009],
        full: [
            a_client_that_stops_reading_is_cut,
            frames_sent_before_the_101_are_kept_whole,
            a_silent_client_gets_pings_and_goes_on,
            sockets_have_a_limit,
            an_unknown_target_is_404,
            two_clients_share_a_browser,
            compressed_messages_pass_as_agreed,
            the_connection_ends_behind_the_browsers_close,
        ],
    )
}

async fn a_long_result_arrives_whole(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/blob")).await?;
    eventually!("the page is loaded", 20, cdp.evaluate(&page, "window.blob !== undefined").await? == true)?;
    let blob = cdp.evaluate(&page, "window.blob").await?;
    let text = blob.as_str().context("a string")?;
    ensure!(text.len() == warmpool_tests::site::BLOB_BYTES && text.bytes().all(|byte| byte == b'x'));
    // And the other way.
    let long = "y".repeat(8 << 20);
    ensure!(cdp.evaluate(&page, &format!("'{long}'.length")).await? == 8 << 20);
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_long_message_closes_1009(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    // The daemon may close before it has taken all of it.
    let _ = cdp.send_text("z".repeat((32 << 20) + 1)).await;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1009 && reason.contains("relay.max_message"), "{code} {reason}");
    // The session goes on.
    let mut again = session.cdp().await?;
    again.call("Browser.getVersion", json!({})).await?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_client_that_stops_reading_is_cut(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/blob")).await?;
    eventually!("the page is loaded", 20, cdp.evaluate(&page, "window.blob !== undefined").await? == true)?;
    let other = daemon.session(json!({})).await?;
    let mut neighbour = other.cdp().await?;
    let theirs = neighbour.first_page().await?;
    let stalled = async || {
        Ok::<_, anyhow::Error>(daemon.metrics().await?.sum("warmpool_relay_stalled_total", &[]).unwrap_or_default())
    };
    let (before, so_far) = (daemon.resident()?, stalled().await?);
    let ask = |id: u32| {
        let params = json!({"expression": "window.blob", "returnByValue": true});
        json!({"id": id, "method": "Runtime.evaluate", "sessionId": page, "params": params}).to_string()
    };
    for id in 1000..1016 {
        cdp.send_text(ask(id)).await?;
    }
    let mut most = 0;
    eventually!("the client is cut", 30, {
        most = most.max(daemon.resident()?);
        ensure!(neighbour.evaluate(&theirs, "6 * 7").await? == 42, "a neighbour goes on");
        stalled().await? > so_far
    })?;
    ensure!(stalled().await? == so_far + 1.0, "only that client is");
    let more = most.saturating_sub(before);
    ensure!(more < 32 << 20, "256 MiB wait for the client, and not in the daemon, which has {more} bytes more");
    // What the kernel has kept arrives, and then the connection ends. A Close frame has no place in the middle of a message.
    ensure!(cdp.ended().await?.is_none(), "its connection is cut");
    ensure!(neighbour.evaluate(&theirs, "6 * 7").await? == 42, "the neighbour's is not");
    other.delete().await?.ok()?;
    let mut again = session.cdp().await?;
    again.call("Browser.getVersion", json!({})).await?;
    session.delete().await?.ok()?;
    Ok(())
}

/// One masked text frame, as a client sends it.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap_or(125), 1, 2, 3, 4];
    frame.extend(text.bytes().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn handshake(target: &Target) -> String {
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        target.path,
        target.authority()
    )
}

async fn frames_sent_before_the_101_are_kept_whole(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let target = Target::parse(session.websocket_url()?)?;
    let mut bytes = handshake(&target).into_bytes();
    bytes.extend(frame(r#"{"id":1,"method":"Browser.getVersion"}"#));
    bytes.extend(frame(r#"{"id":2,"method":"Browser.close"}"#));
    let answer = wire::raw(daemon.url(), &bytes, 1 << 20).await?;
    // Their answers come after the 101, in order.
    ensure!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    let version = answer.find("\"product\"").context("the first command is answered")?;
    ensure!(answer.find("\r\n\r\n").is_some_and(|head| head < version), "{answer}");
    ensure!(answer.find("\"id\":2").is_none_or(|closed| version < closed), "{answer}");
    let record = session.becomes("completed", 10).await?;
    ensure!(record["reason"] == "browser_closed", "{record}");
    Ok(())
}

async fn a_silent_client_gets_pings_and_goes_on(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({"headless": true, "idle_timeout": 8})).await?;
    let mut cdp = session.cdp().await?;
    for _ in 0..3 {
        ensure!(cdp.pinged().await?.is_empty());
    }
    cdp.call("Browser.getVersion", json!({})).await?;
    cdp.pinged().await?;
    // The answers to the pings are no use of the session.
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1001 && reason.contains("idle_timeout"), "{code} {reason}");
    Ok(())
}

async fn sockets_have_a_limit(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(session.cdp().await?);
    }
    ensure!(wire::refusal(session.websocket_url()?, &HeaderMap::new()).await? == 429);
    sockets.pop();
    eventually!("a place is free", 10, session.cdp().await.is_ok())?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn an_unknown_target_is_404(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    let url = session.websocket_url()?.replace("/devtools?", "/devtools/page/NONE?");
    ensure!(wire::refusal(&url, &HeaderMap::new()).await? == 404);
    session.delete().await?.ok()?;
    Ok(())
}

async fn two_clients_share_a_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let (mut one, mut two) = (session.cdp().await?, session.cdp().await?);
    let page = one.first_page().await?;
    one.evaluate(&page, "window.mark = 'seen by both'").await?;
    let same = two.first_page().await?;
    ensure!(two.evaluate(&same, "window.mark").await? == "seen by both");
    one.disconnect().await?;
    ensure!(two.evaluate(&same, "1 + 1").await? == 2);
    ensure!(session.status().await? == "running");
    session.delete().await?.ok()?;
    let (code, reason) = two.ended().await?.context("a Close frame")?;
    ensure!(code == 1001 && !reason.is_empty(), "{code} {reason}");
    Ok(())
}

/// A session, and where a server stands in for its browser: what attaches from now on finds nobody there but a server that
/// listens at this place.
pub(crate) async fn without_browser(daemon: &Daemon, engine: &str) -> Result<(Session, PathBuf)> {
    const BROWSERS_PORT: u16 = 9222;
    let body =
        json!({"browser_type": engine, "headless": engine == "chromium", "keep_alive": true, "session_timeout": 3000});
    let session = daemon.session(body).await?;
    let container = daemon.only_container().await?;
    // The agent goes on with the connection that it has.
    let place = daemon.docker().port_socket(&container, BROWSERS_PORT).await?;
    fs::rename(&place, place.with_extension("real"))?;
    Ok((session, place))
}

/// Whether a server may take a browser's place.
pub(crate) fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        evidence::cannot("it takes root to put a server in a browser's place");
    }
    root
}

/// What each way saw of an echo server in the browser's place, directly and through the relay.
async fn compression(daemon: &Daemon, engine: &str) -> Result<(Value, Value)> {
    let (session, place) = without_browser(daemon, engine).await?;
    let program = Program::node(&programs::clients(), "compression.mjs").await?;
    let program = program.env("PLACE", place.to_string_lossy()).env("RELAY", session.websocket_url()?);
    let mut results = program.results().await?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await?;
    let direct = results["direct"].take();
    let offers = direct["offers"].as_object().context("offers")?;
    let compressed = |offer: &Value| offer["agreed"].as_str().is_some_and(|agreed| agreed.contains("deflate"));
    ensure!(offers.values().all(|offer| compressed(offer) && offer["other"] == 0 && offer["same"] != 0), "{direct}");
    ensure!(direct["unreadable"] == 1007 && direct["unasked"] == 1002, "{direct}");
    Ok((direct, results["relay"].take()))
}

async fn compressed_messages_pass_as_agreed(_: Stage) -> Result<()> {
    if !is_root() {
        return Ok(());
    }
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let (direct, relayed) = compression(&daemon, "firefox").await?;
    ensure!(relayed == direct, "directly {direct}, through the relay {relayed}");
    // Messages to Chromium are read, so its handshake loses the offer, and a message that is compressed all the same breaks
    // the protocol.
    let (mut uncompressed, relayed) = compression(&daemon, "chromium").await?;
    for offer in uncompressed["offers"].as_object_mut().context("offers")?.values_mut() {
        offer.as_object_mut().context("an offer")?.remove("agreed");
    }
    uncompressed["unreadable"] = uncompressed["unasked"].clone();
    ensure!(relayed == uncompressed, "without compression {uncompressed}, through the relay {relayed}");
    Ok(())
}

async fn the_connection_ends_behind_the_browsers_close(_: Stage) -> Result<()> {
    const MASKED_CLOSE: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8];
    if !is_root() {
        return Ok(());
    }
    let daemon = Daemon::start(Settings::on_demand()).await?;
    for engine in ["chromium", "firefox"] {
        let (session, place) = without_browser(&daemon, engine).await?;
        let listener = UnixListener::bind(&place)?;
        fs::set_permissions(&place, Permissions::from_mode(0o777))?;
        // Says Close, ends its half, and hears the client out.
        let browser = async {
            let mut socket = tokio_tungstenite::accept_async(listener.accept().await?.0).await?;
            socket.close(None).await?;
            let mut stream = socket.into_inner();
            stream.shutdown().await?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await?;
            anyhow::Ok(heard)
        };
        // Says its own Close only once its connection has ended.
        let client = async {
            let target = Target::parse(session.websocket_url()?)?;
            let mut stream = wire::connect(&target, None).await?;
            stream.write_all(handshake(&target).as_bytes()).await?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await?;
            stream.write_all(&MASKED_CLOSE).await?;
            stream.shutdown().await?;
            anyhow::Ok(heard)
        };
        let (by_browser, by_client) = tokio::try_join!(browser, client)?;
        ensure!(by_client.ends_with(&[0x88, 0]), "the browser's Close comes last: {by_client:?}");
        ensure!(by_browser == MASKED_CLOSE, "{engine}: the client's Close reaches the browser: {by_browser:?}");
        session.delete().await?.ok()?;
        daemon.assert_idle().await?;
    }
    Ok(())
}
