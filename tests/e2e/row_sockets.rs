//! Row 17: ten thousand idle websockets, and a thousand clients that send their heads a byte at a time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt as _;
use futures_util::stream;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use warmpool_tests::wire::Target;
use warmpool_tests::{Cdp, Daemon, Group, Session, Settings, Stage, evidence, group, poll};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [ten_thousand_idle_websockets, a_thousand_slow_senders])
}

const SOCKETS: u64 = 10_000;
const SESSIONS: u64 = 10;
/// The most memory that an idle websocket may cost the daemon, in bytes. Runs saw 33 KiB in an optimised build, and 31 KiB in an
/// older one that was not optimised.
const MOST_OF_ONE: u64 = 40 << 10;
const SLOW: usize = 1000;
/// So many connections come from one address.
const OF_ONE_ADDRESS: u64 = 2000;

/// How many files this process and the daemons that it starts may have open: as many as this, or as many as this machine allows.
fn descriptors(wanted: u64) -> Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // Only root may have more than it was given, and not everywhere.
    if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return Ok(wanted);
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// A connection from one of this machine's many loopback addresses.
async fn connect(target: &Target, number: u64) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let last = u8::try_from(2 + number / OF_ONE_ADDRESS)?;
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
    Ok(socket.connect(SocketAddr::new(target.host.parse()?, target.port)).await?)
}

/// Opens a websocket and says nothing more.
async fn idle(url: &str, number: u64) -> Result<TcpStream> {
    let target = Target::parse(url)?;
    let mut stream = connect(&target, number).await?;
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
    ensure!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    Ok(stream)
}

/// How long it takes from the request to the first answer of the browser, in the middle of these times and at worst.
async fn starts(daemon: &Daemon, times: usize) -> Result<(Duration, Duration)> {
    let mut took = Vec::new();
    for _ in 0..times {
        daemon.warm().await?;
        let asked = Instant::now();
        let session = daemon.session(json!({})).await?;
        let mut cdp = session.cdp().await?;
        cdp.call("Browser.getVersion", json!({})).await?;
        took.push(asked.elapsed());
        session.delete().await?.ok()?;
    }
    took.sort_unstable();
    Ok((took[took.len() / 2], took[took.len() - 1]))
}

/// The websocket of a session's live view.
fn view(session: &Session) -> Result<String> {
    Ok(session.url("livestream_url")?.replacen("/stream?", "/stream/socket?", 1))
}

fn settings() -> Settings {
    Settings::new()
        .set("POOL_MAX_WORKERS", SESSIONS + 2)
        .set("RELAY_MAX_SOCKETS", "4000")
        .set("LIVE_MAX_VIEWERS", "4000")
        // Nobody reads, so nobody would answer.
        .set("LIVE_PING_INTERVAL", "1h")
        .set("SERVER_MAX_CONNECTIONS", "20000")
        .set("LOG_FILTER", "info")
}

async fn ten_thousand_idle_websockets(_: Stage) -> Result<()> {
    let files = descriptors(100_000)?;
    let room = files.saturating_sub(1000);
    // The daemon has three for each websocket of a browser: the client's, the browser's and the agent's. It has one for a viewer's,
    // and so many of them are viewers' that all have room.
    let viewers = (3 * SOCKETS).saturating_sub(room).div_ceil(2).min(SOCKETS);
    let count = SOCKETS - viewers;
    if room < SOCKETS {
        evidence::cannot(format!("{SOCKETS} websockets need more than the {files} files that a process may have here"));
        return Ok(());
    }
    let daemon = Daemon::start(settings()).await?;
    let (usual, worst) = starts(&daemon, 10).await?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        daemon.warm().await?;
        sessions.push(daemon.session(json!({"keep_alive": true, "session_timeout": 3600})).await?);
    }
    let before = daemon.resident()?;
    let urls: Vec<&str> = sessions.iter().map(Session::websocket_url).collect::<Result<_>>()?;
    let opened = stream::iter(0..count).map(|number| {
        let url = urls[usize::try_from(number % SESSIONS).unwrap_or_default()];
        async move { idle(url, number).await.with_context(|| format!("socket {number}")) }
    });
    let mut opened = opened.buffer_unordered(16);
    let mut sockets = Vec::new();
    while let Some(socket) = opened.next().await {
        sockets.push(socket?);
    }
    drop(opened);
    let resident = daemon.resident()?;
    let views: Vec<String> = sessions.iter().map(view).collect::<Result<_>>()?;
    let opened = stream::iter(count..SOCKETS).map(|number| {
        let url = &views[usize::try_from(number % SESSIONS).unwrap_or_default()];
        async move { idle(url, number).await.with_context(|| format!("viewer {number}")) }
    });
    let mut opened = opened.buffer_unordered(16);
    while let Some(socket) = opened.next().await {
        sockets.push(socket?);
    }
    drop(opened);
    let with_viewers = daemon.resident()?;
    let (usual_then, worst_then) = starts(&daemon, 10).await?;
    evidence::saw(format!(
        "{} idle websockets: the daemon takes {} MiB for {count} of browsers, {} KiB each, and {} MiB with {viewers} of viewers; a session starts in {} ms as a rule and {} ms at worst, without them in {} and {}",
        sockets.len(),
        resident >> 20,
        (resident.saturating_sub(before) / count.max(1)) >> 10,
        with_viewers >> 20,
        usual_then.as_millis(),
        worst_then.as_millis(),
        usual.as_millis(),
        worst.as_millis()
    ));
    ensure!(resident.saturating_sub(before) < count.max(1) * MOST_OF_ONE, "{} MiB", resident >> 20);
    ensure!(usual_then < usual * 2 + Duration::from_millis(50), "{usual:?} before, {usual_then:?} with them");
    ensure!(worst_then < worst * 2 + Duration::from_secs(1), "{worst:?} before, {worst_then:?} with them");
    for session in &sessions {
        let mut cdp: Cdp = session.cdp().await?;
        cdp.call("Browser.getVersion", json!({})).await?;
    }
    drop(sockets);
    for session in sessions {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_thousand_slow_senders(_: Stage) -> Result<()> {
    descriptors(100_000)?;
    let daemon = Daemon::start(settings()).await?;
    let target = Target::parse(daemon.url())?;
    let before = daemon.resident()?;
    let senders = (0..SLOW).map(|number| {
        let target = target.clone();
        tokio::spawn(async move {
            let mut stream = connect(&target, number as u64).await?;
            let began = Instant::now();
            let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nX-Slow: ", target.authority());
            stream.write_all(head.as_bytes()).await?;
            let mut answer = [0; 1024];
            loop {
                tokio::select! {
                    // The daemon may say why, and then hangs up.
                    read = stream.read(&mut answer) => if read.unwrap_or_default() == 0 { return anyhow::Ok(began.elapsed()) },
                    () = pause() => if stream.write_all(b"a").await.is_err() { return Ok(began.elapsed()) },
                }
                ensure!(began.elapsed() < Duration::from_secs(60), "it was never hung up on");
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let (usual, worst) = starts(&daemon, 3).await?;
    let (mut earliest, mut latest) = (Duration::MAX, Duration::ZERO);
    for sender in senders {
        let stayed = sender.await??;
        (earliest, latest) = (earliest.min(stayed), latest.max(stayed));
    }
    // The header's limit is ten seconds: none was refused before.
    ensure!(earliest >= Duration::from_secs(9), "a slow sender was there for {earliest:?} only");
    evidence::saw(format!(
        "{SLOW} slow senders: all hung up on after {:.1} to {:.1} s, a session started meanwhile in {} ms as a rule and {} ms at worst, {} MiB more",
        earliest.as_secs_f64(),
        latest.as_secs_f64(),
        usual.as_millis(),
        worst.as_millis(),
        daemon.peak_resident()?.saturating_sub(before) >> 20
    ));
    daemon.assert_idle().await
}

/// About a second.
async fn pause() {
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        poll().await;
    }
}
