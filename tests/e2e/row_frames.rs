//! Row 16: messages at the limit and beyond, and a million tiny frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, evidence, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [messages_at_the_limit_and_beyond, a_million_tiny_frames])
}

const LIMIT: usize = 4 << 20;
/// Tiny frames that are sent in one piece.
const PIECE: u64 = 10_000;

fn settings() -> Settings {
    Settings::new().set("RELAY_MAX_MESSAGE", "4MiB")
}

/// A text without a pattern that a lost, doubled or swapped piece would fit into: each letter depends on its place.
fn text(length: usize) -> String {
    let letter =
        |at: usize| char::from(b'a' + u8::try_from((at * 31 + (at >> 7) * 17 + (at >> 15)) % 26).unwrap_or_default());
    (0..length).map(letter).collect()
}

/// The same text, as a page writes it.
fn written_by_page(length: usize) -> String {
    format!(
        "(length => {{ const text = new Uint8Array(length); \
         for (let at = 0; at < length; at++) text[at] = 97 + (at * 31 + (at >> 7) * 17 + (at >> 15)) % 26; \
         return new TextDecoder().decode(text) }})({length})"
    )
}

/// A command as long as this, which is answered with its text; and the text.
fn command(id: u32, page: &str, length: usize) -> (String, String) {
    let whole = |text: &str| {
        let params = json!({"expression": format!("'{text}'"), "returnByValue": true});
        json!({"id": id, "method": "Runtime.evaluate", "sessionId": page, "params": params}).to_string()
    };
    let text = text(length - whole("").len());
    (whole(&text), text)
}

async fn messages_at_the_limit_and_beyond(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    for (length, passes) in [(LIMIT, true), (LIMIT + 1, false)] {
        let mut cdp = session.cdp().await?;
        let page = cdp.first_page().await?;
        // To the browser.
        let (command, sent_text) = command(9_000, &page, length);
        ensure!(command.len() == length);
        let sent = cdp.send_text(command).await;
        if passes {
            sent?;
            let answer = cdp.message(9_000).await?;
            ensure!(answer["result"]["result"]["value"] == sent_text, "what came back is not what was sent");
        } else {
            let (code, reason) = cdp.ended().await?.context("a Close frame")?;
            ensure!(code == 1009 && reason.contains("relay.max_message"), "{code} {reason}");
        }
        // And from it: an answer that is as long, with what stands around its text.
        let mut cdp = session.cdp().await?;
        let page = cdp.first_page().await?;
        let around = cdp.answer_length(&page, &written_by_page(100_000)).await? - 100_000;
        let answered = cdp.answer_text(&page, &written_by_page(length - around)).await;
        if passes {
            let answered = answered?;
            ensure!(answered.len() == length, "it arrives whole");
            let value: Value = serde_json::from_str::<Value>(&answered)?["result"]["result"]["value"].take();
            ensure!(value == text(length - around), "and as the page has written it");
        } else {
            let said = answered.err().map(|error| format!("{error:#}")).context("a longer one arrived")?;
            ensure!(said.contains("1009") || said.contains("Size"), "{said}");
        }
    }
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A million pongs without a word, and as many empty continuations, at once.
async fn a_million_tiny_frames(_: Stage) -> Result<()> {
    let pieces = evidence::rounds(1_000_000).div_ceil(PIECE).max(1);
    let frames = pieces * PIECE;
    evidence::made(frames);
    let daemon = Daemon::start(settings()).await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    let other = daemon.session(json!({"keep_alive": true})).await?;
    let mut others = other.cdp().await?;
    let page = others.first_page().await?;
    let (before, time_before) = (daemon.resident()?, daemon.processor_time()?);
    let target = Target::parse(session.websocket_url()?)?;
    let began = Instant::now();
    let mut slowest = 0;
    // FIN and pong; and text without FIN, which a message of many parts begins with.
    for (name, first, later) in [("pongs", 0x8a_u8, 0x8a_u8), ("empty continuations", 0x01, 0x00)] {
        let mut taken = 0;
        let mut stream = wire::connect(&target, None).await?;
        let head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            target.path,
            target.authority()
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await?);
        }
        ensure!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        let frame = |kind: u8| [kind, 0x80, 1, 2, 3, 4];
        let (mut from, mut to) = tokio::io::split(stream);
        // It says nothing unless it has had enough.
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let said = tokio::spawn(async move {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut piece).await {
                hears.lock().extend_from_slice(&piece[..read]);
            }
            hears.lock().clone()
        });
        to.write_all(&frame(first)).await?;
        let many = frame(later).repeat(usize::try_from(PIECE)?);
        for _ in 0..pieces {
            if to.write_all(&many).await.is_err() {
                break;
            }
            taken += PIECE;
            let asked = Instant::now();
            ensure!(others.evaluate(&page, "6 * 7").await? == 42, "the neighbour goes on");
            slowest = slowest.max(asked.elapsed().as_millis());
        }
        if taken < frames || said.is_finished() {
            let said = said.await?;
            bail!("{name}: it hung up after {taken}: {}", String::from_utf8_lossy(&said));
        }
        // The end of the message of many parts; and a command on the same socket is answered.
        if later == 0 {
            to.write_all(&frame(0x80)).await?;
        }
        let command = br#"{"id":1,"method":"Browser.getVersion"}"#;
        let mut last = vec![0x81, 0x80 | u8::try_from(command.len())?, 0, 0, 0, 0];
        last.extend_from_slice(command);
        to.write_all(&last).await?;
        eventually!(
            format!("{name}: the socket is of use"),
            30,
            heard.lock().windows(9).any(|at| at == b"\"product\"")
        )?;
    }
    let more = daemon.peak_resident()?.saturating_sub(before);
    let busy = daemon.processor_time()? - time_before;
    evidence::saw(format!(
        "{frames} pongs and as many empty continuations in {:.1} s, {:.1} s of the processor, {} MiB more; a neighbour's command took at most {slowest} ms",
        began.elapsed().as_secs_f64(),
        busy.as_secs_f64(),
        more >> 20
    ));
    ensure!(more < 16 << 20, "{} MiB", more >> 20);
    // A tenth of that is usual.
    let most = Duration::from_secs(5 * frames.div_ceil(1_000_000));
    ensure!(busy < most, "{busy:?} of the processor");
    ensure!(wire::websocket(session.websocket_url()?, &HeaderMap::new(), None).await.is_ok(), "the session goes on");
    eventually!("both run", 5, session.status().await? == "running" && other.status().await? == "running")?;
    for session in [session, other] {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}
