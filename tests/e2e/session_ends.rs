//! How sessions end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use warmpool_tests::{Cdp, Group, Settings, Stage, eventually, group, poll, wire};

pub(crate) fn group() -> Group {
    let settings = Settings::new()
        .set("SESSION_RECONNECT_WINDOW", "3s")
        .set("SESSION_ATTACH_TIMEOUT", "4s")
        .set("POOL_CHROMIUM_HEADLESS", "2");
    group!(Some(settings),
        quick: [the_hard_timeout_ends_it, a_client_may_come_back, delete_may_be_repeated],
        full: [
            the_idle_timeout_ends_it,
            pings_are_no_use,
            a_session_nobody_attaches_to_ends,
            keep_alive_outlasts_the_window,
            a_file_on_its_way_is_use,
            closing_the_browser_completes_it,
            playwrights_close_leaves_it_to_the_others,
            a_killed_client_is_waited_for,
            sdk_paths_work,
        ],
    )
}

async fn the_hard_timeout_ends_it(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({"session_timeout": 2})).await?;
    let mut cdp = session.cdp().await?;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1001 && reason.contains("session_timeout"), "{code} {reason}");
    let record = session.becomes("terminated", 10).await?;
    ensure!(record["reason"] == "session_timeout" && record["session_timeout"] == 2, "{record}");
    let (start, end) = (record["timestamp"].as_u64(), record["ended_at"].as_u64());
    ensure!(end.zip(start).is_some_and(|(end, start)| end >= start + 2000), "not before its time: {record}");
    Ok(())
}

async fn the_idle_timeout_ends_it(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({"idle_timeout": 4})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    // As long as something is done, it stays.
    let busy_until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < busy_until {
        cdp.evaluate(&page, "1").await?;
        poll().await;
    }
    ensure!(session.status().await? == "running");
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1001 && reason.contains("idle_timeout"), "{code} {reason}");
    let record = session.becomes("terminated", 10).await?;
    ensure!(record["reason"] == "idle_timeout", "{record}");
    Ok(())
}

/// A client that only keeps its connection alive leaves the session to itself.
async fn pings_are_no_use(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({"idle_timeout": 4})).await?;
    let mut socket = wire::websocket(session.websocket_url()?, &HeaderMap::new(), None).await?;
    let close = eventually!("the session ends", 60, {
        // What ends the connection is read.
        let _ = socket.send(Message::Ping(Bytes::new())).await;
        match tokio::time::timeout(Duration::from_millis(200), socket.next()).await {
            Ok(Some(Ok(Message::Close(frame)))) => frame,
            _ => None,
        }
    })?;
    ensure!(u16::from(close.code) == 1001 && close.reason.contains("idle_timeout"), "{close:?}");
    let record = session.becomes("terminated", 10).await?;
    ensure!(record["reason"] == "idle_timeout", "{record}");
    Ok(())
}

async fn a_session_nobody_attaches_to_ends(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let kept = daemon.session(json!({"keep_alive": true})).await?;
    let left = daemon.session(json!({"session_timeout": 3600})).await?;
    let record = left.becomes("terminated", 20).await?;
    ensure!(record["reason"] == "attach_timeout", "{record}");
    // The older one asked to be kept.
    ensure!(kept.status().await? == "running");
    kept.delete().await?.ok()?;
    Ok(())
}

async fn a_client_may_come_back(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    cdp.evaluate(&page, "window.left = 'here'").await?;
    cdp.disconnect().await?;
    ensure!(session.status().await? == "running", "it waits for its client");
    let mut again = session.cdp().await?;
    let page = again.first_page().await?;
    ensure!(again.evaluate(&page, "window.left").await? == "here");
    again.disconnect().await?;
    let record = session.becomes("completed", 20).await?;
    ensure!(record["reason"] == "disconnected", "{record}");
    Ok(())
}

async fn a_killed_client_is_waited_for(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    // The client sends no Close frame: the connection breaks.
    drop(session.cdp().await?);
    let mut again = session.cdp().await?;
    again.call("Browser.getVersion", json!({})).await?;
    drop(again);
    let record = session.becomes("completed", 20).await?;
    ensure!(record["reason"] == "disconnected", "{record}");
    Ok(())
}

async fn keep_alive_outlasts_the_window(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let kept = daemon.session(json!({"keep_alive": true, "session_timeout": 60})).await?;
    let waiting = daemon.session(json!({})).await?;
    kept.cdp().await?.disconnect().await?;
    waiting.cdp().await?.disconnect().await?;
    // When the later reconnect window is over, the earlier one is over too.
    waiting.becomes("completed", 20).await?;
    ensure!(kept.status().await? == "running");
    kept.cdp().await?.call("Browser.getVersion", json!({})).await?;
    kept.delete().await?.ok()?;
    Ok(())
}

/// A client that reads slowly: its file is more than the sockets between hold.
async fn a_file_on_its_way_is_use(stage: Stage) -> Result<()> {
    const SIZE: usize = 64 << 20;
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({"idle_timeout": 2, "keep_alive": true})).await?;
    session.put_file("large.bin", vec![7; SIZE]).await?.ok()?;
    let address = daemon.api().base().split("//").nth(1).context("an address")?.to_owned();
    let mut reading = TcpStream::connect(&address).await?;
    let request = format!(
        "GET /sessions/{}/files/large.bin HTTP/1.1\r\nHost: {address}\r\nservice-secret-key: {}\r\nConnection: close\r\n\r\n",
        session.id,
        daemon.key()
    );
    reading.write_all(request.as_bytes()).await?;
    let mut read = vec![0; 1 << 10];
    reading.read_exact(&mut read).await?;
    // Once another that began later is idle for too long, this one would be.
    let other = daemon.session(json!({"idle_timeout": 2, "keep_alive": true})).await?;
    other.becomes("terminated", 20).await?;
    ensure!(session.status().await? == "running");
    reading.read_to_end(&mut read).await?;
    let of_file = read.iter().filter(|byte| **byte == 7).count();
    ensure!(of_file == SIZE && read.ends_with(b"\r\n0\r\n\r\n"), "{of_file} of {} bytes", read.len());
    let record = session.becomes("terminated", 20).await?;
    ensure!(record["reason"] == "idle_timeout", "{record}");
    Ok(())
}

async fn closing_the_browser_completes_it(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    cdp.call("Browser.close", json!({})).await?;
    let end = cdp.ended().await?;
    ensure!(end.as_ref().is_none_or(|(code, _)| *code == 1000 || *code == 1005), "{end:?}");
    let record = session.becomes("completed", 15).await?;
    ensure!(record["reason"] == "browser_closed", "{record}");
    Ok(())
}

/// Its `close` says that it is done with the browser, for itself.
async fn playwrights_close_leaves_it_to_the_others(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    let mut other = session.cdp().await?;
    let page = other.first_page().await?;
    Cdp::connect_as_playwright(session.websocket_url()?).await?.disconnect().await?;
    ensure!(other.evaluate(&page, "6 * 7").await? == 42, "another client is connected");
    ensure!(session.status().await? == "running");
    other.disconnect().await?;
    let record = eventually!("the close of the last one ends it", 20, {
        // A connection that has ended may count for a moment; and once the session has ended there is none.
        if let Ok(last) = Cdp::connect_as_playwright(session.websocket_url()?).await {
            let _ = last.disconnect().await;
        }
        let record = session.record().await?;
        (record["status"] != "running").then_some(record)
    })?;
    ensure!(record["status"] == "completed" && record["reason"] == "client_finished", "{record}");
    Ok(())
}

async fn delete_may_be_repeated(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    session.delete().await?.ok()?;
    session.delete().await?.ok()?;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1001 && !reason.is_empty(), "{code} {reason}");
    let record = session.record().await?;
    ensure!(record["status"] == "terminated" && record["reason"] == "deleted", "{record}");
    // A second end changes nothing.
    let first_end = record["ended_at"].clone();
    session.delete().await?.ok()?;
    ensure!(session.record().await?["ended_at"] == first_end);
    Ok(())
}

async fn sdk_paths_work(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    for method in [Method::POST, Method::DELETE] {
        let session = daemon.session(json!({})).await?;
        let status = api.get(&format!("/sessions/{}/status", session.id)).await?.ok()?;
        ensure!(status["status"] == "running", "{status}");
        let path = format!("/sessions/{}/terminate", session.id);
        api.send(method, &path, HeaderMap::new(), Bytes::new()).await?.ok()?;
        let status = api.get(&format!("/sessions/{}/status", session.id)).await?.ok()?;
        ensure!(status["status"] == "terminated", "{status}");
    }
    Ok(())
}
