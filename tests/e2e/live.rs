//! The live view: what viewers see, what they may do, and what one of them can do to the others.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, IF_NONE_MATCH, ORIGIN};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::wire::{self, Socket};
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    let settings =
        Settings::new().set("POOL_CHROMIUM_HEADED", "1").set("LIVE_MAX_VIEWERS", "24").set("LIVE_WRITE_TIMEOUT", "3s");
    group!(Some(settings),
        quick: [a_headless_session_is_seen, nothing_is_shown_without_a_token, scripts_are_small_and_fetched_once],
        full: [
            a_headed_session_is_seen,
            a_person_takes_a_headless_session_over,
            a_person_takes_a_headed_session_over,
            one_viewer_at_a_time_has_the_control,
            a_pause_holds_the_client,
            a_pause_answers_pings,
            a_viewer_may_choose_a_tab,
            the_page_shows_the_state,
            a_link_can_be_taken_back,
            who_only_watches_gets_nothing_that_is_copied,
            a_page_comes_back_by_itself,
            a_stalled_viewer_affects_no_other,
            many_viewers_cost_little,
            the_last_viewer_leaves_nothing_behind,
            a_recording_outlives_its_session,
        ],
    )
}

async fn turning(stage: &Stage, daemon: &Daemon, headless: bool) -> Result<Session> {
    let url = format!("{}/turn", stage.site_for(daemon).await?);
    daemon.session(json!({"url": url, "headless": headless})).await
}

/// The viewer's program (tests/clients/viewer.mjs) on this session.
pub(crate) async fn viewer(stage: &Stage, session: &Session, flow: &str) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = Program::node(&programs::clients(), "viewer.mjs").await?.of(daemon);
    Ok(program
        .env("FLOW", flow)
        .env("STREAM_URL", session.url("livestream_url")?)
        .env("WEBSOCKET_URL", session.websocket_url()?)
        .env("SESSION_URL", format!("{}/sessions/{}", daemon.url(), session.id))
        .env("SITE_URL", stage.site_for(daemon).await?))
}

/// A viewer's bare websocket.
pub(crate) async fn socket(session: &Session, query: &str) -> Result<Socket> {
    wire::websocket(&address(session, query)?, &HeaderMap::new(), None).await
}

fn address(session: &Session, query: &str) -> Result<String> {
    let url = session.url("livestream_url")?.replacen("http", "ws", 1);
    Ok(format!("{}{query}", url.replacen("/stream?", "/stream/socket?", 1)))
}

pub(crate) async fn say(socket: &mut Socket, message: Value) -> Result<()> {
    Ok(socket.send(Message::text(message.to_string())).await?)
}

/// The next message of this type; pictures are taken and said to be on the screen.
pub(crate) async fn message(socket: &mut Socket, kind: &str) -> Result<Value> {
    let wait = async {
        loop {
            match socket.next().await.context("the socket ended")?? {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text)?;
                    if message["type"] == kind {
                        return Ok(message);
                    }
                }
                // The other side may have closed already: what it said before that is still to be read.
                Message::Binary(_) => drop(say(socket, json!({"type": "ack"})).await),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.with_context(|| format!("no {kind}"))?
}

/// The next picture, said to be on the screen.
pub(crate) async fn picture(socket: &mut Socket) -> Result<usize> {
    let wait = async {
        loop {
            if let Message::Binary(bytes) = socket.next().await.context("the socket ended")?? {
                say(socket, json!({"type": "ack"})).await?;
                return Ok(bytes.len());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.context("no picture")?
}

async fn is_seen(stage: &Stage, headless: bool) -> Result<()> {
    let session = turning(stage, stage.daemon()?, headless).await?;
    let name = if headless { "headless" } else { "headed" };
    let seen = viewer(stage, &session, "look").await?.env("NAME", name).results().await?;
    ensure!(seen["who"].as_str().is_some_and(|who| who.contains("2 are watching")), "{seen}");
    // One click arrived: that of the viewer with control.
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    ensure!(cdp.evaluate(&page, "document.title").await? == "Turned 1");
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_headless_session_is_seen(stage: Stage) -> Result<()> {
    is_seen(&stage, true).await
}

async fn a_headed_session_is_seen(stage: Stage) -> Result<()> {
    is_seen(&stage, false).await
}

async fn is_taken_over(stage: &Stage, headless: bool) -> Result<()> {
    let session = turning(stage, stage.daemon()?, headless).await?;
    let name = if headless { "headless" } else { "headed" };
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    let note = "document.querySelector('#typed').addEventListener('keydown', (event) => { \
                if (event.key === 'Enter') localStorage.typed = event.target.value; })";
    eventually!("the page is loaded", 20, cdp.evaluate(&page, "!!document.querySelector('#typed')").await? == true)?;
    cdp.evaluate(&page, note).await?;
    let flow = viewer(stage, &session, "takeover").await?.env("NAME", name).env("TABS", "true");
    flow.results().await?;
    let typed = eventually!("the text is there", 10, {
        let typed = cdp.evaluate(&page, "localStorage.typed ?? null").await?;
        typed.as_str().map(str::to_owned)
    })?;
    ensure!(typed == "Zürich 5 € 日本", "{typed}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_person_takes_a_headless_session_over(stage: Stage) -> Result<()> {
    is_taken_over(&stage, true).await
}

async fn a_person_takes_a_headed_session_over(stage: Stage) -> Result<()> {
    is_taken_over(&stage, false).await
}

async fn flow(stage: &Stage, name: &str, headless: bool) -> Result<Session> {
    let session = turning(stage, stage.daemon()?, headless).await?;
    viewer(stage, &session, name).await?.results().await?;
    Ok(session)
}

async fn one_viewer_at_a_time_has_the_control(stage: Stage) -> Result<()> {
    flow(&stage, "control", false).await?.delete().await?.ok()?;
    Ok(())
}

async fn a_pause_holds_the_client(stage: Stage) -> Result<()> {
    flow(&stage, "pause", true).await.map(drop)
}

/// A client whose pings stay without an answer gives its connection up.
async fn a_pause_answers_pings(stage: Stage) -> Result<()> {
    let session = turning(&stage, stage.daemon()?, true).await?;
    let mut client = wire::websocket(session.websocket_url()?, &HeaderMap::new(), None).await?;
    let mut viewer = socket(&session, "&enable_actions=true").await?;
    message(&mut viewer, "hello").await?;
    say(&mut viewer, json!({"type": "control", "take": true})).await?;
    say(&mut viewer, json!({"type": "pause", "on": true})).await?;
    eventually!("the client is paused", 20, message(&mut viewer, "state").await?["paused"] == true)?;
    say(&mut client, json!({"id": 1, "method": "Browser.getVersion"})).await?;
    for number in 0..3_u8 {
        client.send(Message::Ping(vec![number].into())).await?;
        let answer = next(&mut client).await?;
        let is_its_pong = matches!(&answer, Message::Pong(payload) if payload[..] == [number]);
        ensure!(is_its_pong, "the command is held, and ping {number} is answered: {answer:?}");
    }
    say(&mut viewer, json!({"type": "pause", "on": false})).await?;
    // The browser has the pings then, and answers them as well.
    let mut answer = next(&mut client).await?;
    while answer.is_pong() {
        answer = next(&mut client).await?;
    }
    ensure!(answer.to_text()?.contains("protocolVersion"), "the command is carried out: {answer:?}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn next(socket: &mut Socket) -> Result<Message> {
    let message = tokio::time::timeout(Duration::from_secs(20), socket.next()).await.context("no message")?;
    Ok(message.context("the socket ended")??)
}

async fn a_viewer_may_choose_a_tab(stage: Stage) -> Result<()> {
    flow(&stage, "tabs", true).await.map(drop)
}

async fn the_page_shows_the_state(stage: Stage) -> Result<()> {
    flow(&stage, "states", true).await.map(drop)
}

async fn a_page_comes_back_by_itself(stage: Stage) -> Result<()> {
    for headless in [true, false] {
        flow(&stage, "reconnect", headless).await?.delete().await?.ok()?;
    }
    Ok(())
}

async fn a_link_can_be_taken_back(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = turning(&stage, daemon, true).await?;
    let path = format!("/sessions/{}/share", session.id);
    ensure!(daemon.api().post(&path, &json!({"ttl": 0})).await?.fault(400)?.field == "ttl");
    ensure!(daemon.api().post(&path, &json!({"for": "me"})).await?.fault(400)?.field == "for");
    daemon.api().without_key().post(&path, &json!({})).await?.fault(401)?;
    let share = daemon.api().post(&path, &json!({"ttl": 120})).await?.ok()?;
    let listed = daemon.api().get(&path).await?.ok()?;
    ensure!(listed["shares"][0] == share && share["enable_actions"] == false, "{listed}");
    let (id, url) = (share["share_id"].as_str().context("share_id")?, share["url"].as_str().context("url")?);
    let unshare = format!("{}{path}/{id}", daemon.url());
    viewer(&stage, &session, "share").await?.env("SHARE_URL", url).env("UNSHARE_URL", unshare).results().await?;
    ensure!(daemon.api().get(&path).await?.ok()?["shares"] == json!([]));
    // A link that expires.
    let short = daemon.api().post(&path, &json!({"ttl": 3, "enable_actions": true})).await?.ok()?;
    let url =
        short["url"].as_str().context("url")?.replacen("http", "ws", 1).replacen("/stream?", "/stream/socket?", 1);
    let mut socket = wire::websocket(&url, &HeaderMap::new(), None).await?;
    ensure!(message(&mut socket, "hello").await?["may_act"] == true);
    message(&mut socket, "unshared").await?;
    ensure!(wire::refusal(&url, &HeaderMap::new()).await? == 401);
    session.delete().await?.ok()?;
    Ok(())
}

/// Also by a viewer that never says what it understands: to such a one, a display sends all texts as they are.
async fn who_only_watches_gets_nothing_that_is_copied(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api().with_key(crate::keys::create(daemon, "copies").await?);
    // By Selenoid's address anybody can copy, and no page has to.
    let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome"}}});
    let created = api.post("/wd/hub/session", &wanted).await?.ok()?;
    let driver = created["value"]["sessionId"].as_str().context("sessionId")?;
    let listed = api.get("/sessions?status=running").await?.ok()?;
    let id = listed["sessions"][0]["session_id"].as_str().context("session_id")?;
    let share = api.post(&format!("/sessions/{id}/share"), &json!({"enable_actions": false})).await?.ok()?;
    let url =
        share["url"].as_str().context("url")?.replacen("http", "ws", 1).replacen("/stream?", "/stream/socket?", 1);
    let mut viewer = wire::websocket(&url, &HeaderMap::new(), None).await?;
    viewer.send(Message::binary(&b"RFB 003.008\n\x01\x01"[..])).await?;
    let mut heard = Vec::new();
    // The display has noted what this viewer may get.
    hear(&mut viewer, &mut heard, &[3, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xF8]).await?;
    let copied = api.post_bytes(&format!("/clipboard/{driver}"), "text/plain", "a password").await?;
    ensure!(copied.status == 200, "{copied}");
    // There is a text now.
    hear(&mut viewer, &mut heard, &[3, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFC, 8, 0, 0, 1]).await?;
    ensure!(!contains(&heard, b"a password"), "a text as it is");
    ensure!(!contains(&heard, &[0x10, 0, 0, 1, 0x78]), "a text, compressed");
    api.delete(&format!("/wd/hub/session/{driver}")).await?.ok()?;
    Ok(())
}

/// Takes what a display sends until these bytes are in it.
async fn hear(viewer: &mut Socket, heard: &mut Vec<u8>, awaited: &[u8]) -> Result<()> {
    let wait = async {
        while !contains(heard, awaited) {
            if let Message::Binary(bytes) = next(viewer).await? {
                heard.extend_from_slice(&bytes);
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.with_context(|| format!("no {awaited:?}"))?
}

fn contains(bytes: &[u8], piece: &[u8]) -> bool {
    bytes.windows(piece.len()).any(|window| window == piece)
}

async fn nothing_is_shown_without_a_token(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = turning(&stage, daemon, true).await?;
    let url = address(&session, "")?;
    let foreign = HeaderMap::from_iter([(ORIGIN, "https://evil.example".parse()?)]);
    ensure!(wire::refusal(&url, &foreign).await? == 403, "another site's page");
    let (path, _) = url.split_once("token=").context("token")?;
    let client = session.websocket_url()?.split_once("token=").context("token")?.1.to_owned();
    for token in ["", "x", "shr_AAAAAAAAAAAA.AAAA", &client] {
        ensure!(wire::refusal(&format!("{path}token={token}"), &HeaderMap::new()).await? == 401, "{token}");
    }
    let json = HeaderMap::from_iter([(ACCEPT, "application/json".parse()?)]);
    let get = async |path: String| daemon.api().without_key().send(Method::GET, &path, json.clone(), "".into()).await;
    let stream = format!("/sessions/{}/stream", session.id);
    get(stream.clone()).await?.fault(401)?;
    let token = session.url("livestream_url")?.split_once('?').context("query")?.1.to_owned();
    ensure!(get(format!("{stream}?{token}&theme=pink")).await?.fault(400)?.field == "theme");
    ensure!(get(format!("{stream}?{token}&enable_actions=maybe")).await?.fault(400)?.field == "enable_actions");
    // The view's token opens the view and nothing else.
    let devtools = session.websocket_url()?.split_once("token=").context("token")?.0.to_owned();
    ensure!(wire::refusal(&format!("{devtools}{token}"), &HeaderMap::new()).await? == 401);
    // With the key in its header the page needs no token in its address.
    let page = daemon.api().get(&stream).await?;
    ensure!(page.status == 200 && page.header("content-security-policy").is_some(), "{page}");
    ensure!(page.header("cache-control") == Some("no-store") && page.header("referrer-policy") == Some("no-referrer"));
    let other = daemon.api().with_key(crate::keys::create(daemon, "live").await?);
    ensure!(other.get(&stream).await?.status == 404);
    session.delete().await?.ok()?;
    ensure!(get(format!("{stream}?{token}")).await?.fault(404)?.code == "session_ended");
    ensure!(daemon.api().get(&format!("{stream}/state")).await?.fault(404)?.code == "session_ended");
    // Nobody else learns that there was a session.
    for place in ["stream?token=x", "stream", "stream/recording?token=x", "devtools?token=x"] {
        let refused = get(format!("/sessions/{}/{place}", session.id)).await?.fault(404)?;
        let unknown = get(format!("/sessions/ses_0/{place}")).await?.fault(404)?;
        ensure!(refused.code == unknown.code, "{place}: {} {}", refused.code, unknown.code);
        ensure!(
            refused.message.replace(session.id.as_str(), "ses_0") == unknown.message,
            "{place}: {}",
            refused.message
        );
    }
    Ok(())
}

async fn a_stalled_viewer_affects_no_other(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/animation", stage.site_for(daemon).await?);
    for headless in [true, false] {
        let session = daemon.session(json!({"url": url, "headless": headless})).await?;
        let mut stalled = socket(&session, "").await?;
        message(&mut stalled, "hello").await?;
        let mut lively = socket(&session, "&enable_actions=true").await?;
        message(&mut lively, "hello").await?;
        if headless {
            // It acknowledges every picture, and reads none.
            for _ in 0..50_000 {
                say(&mut stalled, json!({"type": "ack"})).await?;
            }
            let before = daemon.resident()?;
            for _ in 0..60 {
                picture(&mut lively).await?;
            }
            ensure!(daemon.resident()? < before + (16 << 20), "pictures wait nowhere: {before}");
        } else {
            stalled.send(Message::binary(&b"RFB 003.008\n\x01\x01"[..])).await?;
            // Asks for the whole picture again and again, and reads none.
            let before = daemon.resident()?;
            let ask = [3u8, 0, 0, 0, 0, 0, 5, 0, 3, 0x20].repeat(500);
            let _ = tokio::time::timeout(Duration::from_secs(2), stalled.send(Message::binary(ask))).await;
            lively.send(Message::binary(&b"RFB 003.008\n\x01\x01"[..])).await?;
            let another = Message::binary(&[3u8, 0, 0, 0, 0, 0, 5, 0, 3, 0x20][..]);
            for _ in 0..60 {
                lively.send(another.clone()).await?;
                picture(&mut lively).await?;
            }
            ensure!(daemon.resident()? < before + (16 << 20), "pictures wait nowhere: {before}");
            // What is sent to it does not get through, nor does a ping.
            eventually!("the stalled viewer is cut, and not the lively one", 60, {
                lively.send(another.clone()).await?;
                picture(&mut lively).await?;
                daemon.metrics().await?.sum("warmpool_live_viewers", &[]) == Some(1.0)
            })?;
        }
        let mut cdp = session.cdp().await?;
        let page = cdp.first_page().await?;
        let drawn = cdp.evaluate(&page, "window.frames_drawn").await?.as_u64().context("frames")?;
        eventually!("the page goes on", 10, cdp.evaluate(&page, "window.frames_drawn").await?.as_u64() > Some(drawn))?;
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn many_viewers_cost_little(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/animation", stage.site_for(daemon).await?);
    let session = daemon.session(json!({"url": url})).await?;
    let mut first = socket(&session, "").await?;
    for _ in 0..10 {
        picture(&mut first).await?;
    }
    let before = daemon.resident()?;
    let mut viewers = vec![first];
    for _ in 0..19 {
        viewers.push(socket(&session, "").await?);
    }
    for _ in 0..10 {
        for viewer in &mut viewers {
            picture(viewer).await?;
        }
    }
    let after = daemon.resident()?;
    ensure!(after < before + (8 << 20), "20 viewers: {before} -> {after}");
    let state = message(&mut viewers[0], "state").await?;
    ensure!(state["viewers"].as_u64().is_some_and(|count| count <= 20), "{state}");
    for _ in 0..4 {
        viewers.push(socket(&session, "").await?);
    }
    ensure!(wire::refusal(&address(&session, "")?, &HeaderMap::new()).await? == 429);
    // A page cannot read why its websocket was refused, and asks here.
    let path = format!("/sessions/{}/stream/state", session.id);
    ensure!(daemon.api().get(&path).await?.fault(429)?.code == "socket_limit");
    drop(viewers.pop());
    eventually!("the place is free", 10, daemon.api().get(&path).await?.status == 200)?;
    session.delete().await?.ok()?;
    for viewer in &mut viewers {
        ensure!(message(viewer, "ended").await?["reason"] == "deleted");
    }
    Ok(())
}

/// When the last one has left, the client's browser is as if it had never been watched.
async fn the_last_viewer_leaves_nothing_behind(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = turning(&stage, daemon, true).await?;
    let mut cdp = session.cdp().await?;
    let attached = async |cdp: &mut warmpool_tests::Cdp| -> Result<bool> {
        let targets = cdp.call("Target.getTargets", json!({})).await?;
        let pages = targets["targetInfos"].as_array().context("targetInfos")?;
        Ok(pages.iter().any(|target| target["type"] == "page" && target["attached"] == true))
    };
    eventually!("the first page is loaded, and let go of", 10, !attached(&mut cdp).await?)?;
    let mut viewer = socket(&session, "").await?;
    picture(&mut viewer).await?;
    ensure!(attached(&mut cdp).await?, "a viewer is attached");
    ensure!(daemon.metrics().await?.sum("warmpool_live_viewers", &[]) == Some(1.0));
    viewer.close(None).await?;
    eventually!("the view has let go", 10, !attached(&mut cdp).await?)?;
    eventually!("no viewer is left", 10, daemon.metrics().await?.sum("warmpool_live_viewers", &[]) == Some(0.0))?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_recording_outlives_its_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/animation", stage.site_for(daemon).await?);
    let other = daemon.api().with_key(crate::keys::create(daemon, "recording").await?);
    for (headless, kind) in [(false, "video/webm"), (true, "video/x-matroska")] {
        let session = daemon.session(json!({"url": url, "headless": headless, "recording": true})).await?;
        let path = format!("/sessions/{}/recording", session.id);
        eventually!("some of it is on disk", 20, {
            let listed = daemon.api().get(&path).await?.ok()?;
            listed["parts"][0]["size"].as_u64() > Some(20_000)
        })?;
        ensure!(daemon.api().delete(&path).await?.status == 409, "it is still being made");
        session.delete().await?.ok()?;
        let part = eventually!("it is complete", 10, {
            let listed = daemon.api().get(&path).await?.ok()?;
            (listed["parts"][0]["complete"] == true && listed["parts"][0]["duration"].as_u64() > Some(0))
                .then(|| listed["parts"][0].clone())
        })?;
        let file = format!("{path}/{}", part["name"].as_str().context("name")?);
        let whole = daemon.api().get(&file).await?;
        ensure!(whole.status == 200 && whole.header("content-type") == Some(kind), "{:?}", whole.headers);
        ensure!(whole.body.len() as u64 == part["size"] && whole.body.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]));
        let range = HeaderMap::from_iter([(http::header::RANGE, "bytes=4-7".parse()?)]);
        let piece = daemon.api().send(Method::GET, &file, range, "".into()).await?;
        ensure!(piece.status == 206 && piece.body == whole.body[4..8]);
        other.get(&path).await?.fault(404)?;
        other.get(&file).await?.fault(404)?;
        daemon.api().get(&format!("{path}/..%2Finstance.json")).await?.fault(404)?;
        if !headless {
            // A browser can play it: its length, its size, and a place in the middle of it.
            let program = Program::node(&programs::clients(), "viewer.mjs").await?.of(daemon);
            let played =
                program.env("FLOW", "play").env("VIDEO_URL", format!("{}{file}", daemon.url())).results().await?;
            ensure!(played["width"] == 1280 && played["height"] == 807, "{played}");
            ensure!(played["seconds"].as_f64() > Some(0.1), "{played}");
        }
        ensure!(daemon.api().delete(&path).await?.status == 204);
        ensure!(daemon.api().get(&path).await?.ok()?["parts"] == json!([]));
    }
    let session = daemon.session(json!({"url": url})).await?;
    session.delete().await?.ok()?;
    let listed = daemon.api().get(&format!("/sessions/{}/recording", session.id)).await?.ok()?;
    ensure!(listed == json!({"recording": false, "parts": []}), "off unless asked for: {listed}");
    Ok(())
}

async fn scripts_are_small_and_fetched_once(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api().without_key();
    let get = async |headers: HeaderMap| api.send(Method::GET, "/console/live.js", headers, "".into()).await;
    let plain = get(HeaderMap::new()).await?;
    ensure!(plain.status == 200 && plain.header("content-encoding").is_none(), "{plain}");
    let small = get(HeaderMap::from_iter([(ACCEPT_ENCODING, "gzip".parse()?)])).await?;
    ensure!(small.status == 200 && small.header("content-encoding") == Some("gzip"), "{small}");
    ensure!(small.body.len() < plain.body.len() / 2, "{} of {} bytes", small.body.len(), plain.body.len());
    let tag = small.header("etag").context("etag")?;
    ensure!(get(HeaderMap::from_iter([(IF_NONE_MATCH, tag.parse()?)])).await?.status == 304);
    Ok(())
}
