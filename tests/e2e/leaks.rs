//! What pages get around the proxy, or out of their container: nothing.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use warmpool_tests::names::{Names, SILENT};
use warmpool_tests::{Daemon, Driver, Group, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            no_engine_sends_datagrams,
            a_name_that_is_rebound_leads_nowhere,
            names_that_nobody_answers_for_delay_no_other_session,
            the_doctor_gets_out_of_no_worker,
        ],
    )
}

/// Files of the container, and a page of WebKit's that tells of the system, in the spellings that filters of text have missed.
pub(crate) const FILES: [&str; 16] = [
    "file:///etc/passwd",
    "file:/etc/passwd",
    "file:etc/passwd",
    "file:\\\\\\etc\\passwd",
    "file:\\etc\\passwd",
    "FILE:///etc/passwd",
    "fIlE:etc/passwd",
    " file:///etc/passwd",
    "fi\tle:///etc/passwd",
    "file://localhost/etc/passwd",
    "view-source:file:///etc/passwd",
    "View-Source:File:etc/passwd",
    "filesystem:file:///etc/passwd",
    "jar:file:///etc/passwd!/",
    "file:///proc/self/environ",
    "webkit://gpu/stdout",
];

/// Whether a text has something of what these files have.
pub(crate) fn is_of_the_container(shown: &str) -> bool {
    ["root:", "worker:", "WARMPOOL", "HOME=", "Operating system"].iter().any(|secret| shown.contains(secret))
}

/// WebRTC by a STUN server of ours, and QUIC; and files of the container, while a browser is there.
async fn no_engine_sends_datagrams(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let listener = UdpSocket::bind((host_address(), 0)).await?;
    let port = listener.local_addr()?.port();
    for engine in ["chromium", "firefox", "webkit"] {
        let session = daemon.webdriver(json!({"browser_type": engine})).await?;
        // A plain browser with this switch tries nothing but QUIC.
        let quic = format!("--origin-to-force-quic-on={}:{port}", host_address());
        let capabilities = match engine {
            "chromium" => json!({"goog:chromeOptions": {"args": [quic]}}),
            _ => json!({}),
        };
        let driver = Driver::start(session.connect_url()?, capabilities).await?;
        let address = format!("https://{}:{port}/", host_address());
        // Drivers differ in what they say of a page that does not come.
        let _ = driver.command(Method::POST, "/url", &json!({"url": address})).await?;
        driver.goto(&format!("{site}/tab/1")).await?;
        let script = format!(
            "const [done] = arguments;
             if (!window.RTCPeerConnection) return done({{candidates: []}});
             const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{host}:{port}'}}]}});
             const candidates = [];
             const end = () => done({{candidates}});
             peer.onicecandidate = ({{candidate}}) => candidate ? candidates.push(candidate.candidate) : end();
             peer.createDataChannel('c');
             peer.createOffer().then(offer => peer.setLocalDescription(offer)).catch(end);
             setTimeout(end, 5000);",
            host = host_address(),
        );
        let body = json!({"script": script, "args": []});
        let found = driver.command(Method::POST, "/execute/async", &body).await?.ok()?;
        let candidates = found["value"]["candidates"].as_array().cloned().context("candidates")?;
        // A name that stands for an address of the container is all that a page may get.
        let shows = |candidate: &Value| {
            candidate.as_str().is_some_and(|text| text.contains("srflx") || text.contains(host_address()))
        };
        ensure!(!candidates.iter().any(shows), "{engine}: {candidates:?}");

        let redirect = format!("{site}/redirect?to=file:///etc/passwd");
        for address in FILES.iter().copied().chain([redirect.as_str()]) {
            let _ = driver.command(Method::POST, "/url", &json!({"url": address})).await?;
            let shown = driver.execute("return document.documentElement?.innerText ?? ''").await?.to_string();
            ensure!(!is_of_the_container(&shown), "{engine} shows {address}: {shown}");
        }
        session.delete().await?.ok()?;
    }
    let mut datagram = [0; 64];
    let got = listener.try_recv(&mut datagram);
    ensure!(got.is_err(), "a datagram came out: {datagram:?}");
    daemon.assert_idle().await
}

/// A name server of ours gives another address at each question. The daemon asks once and connects to what it has judged.
async fn a_name_that_is_rebound_leads_nowhere(_: Stage) -> Result<()> {
    let outside: Ipv4Addr = host_address().parse()?;
    let Some(names) = Names::start(vec![outside, Ipv4Addr::LOCALHOST]).await? else { return Ok(()) };
    // It listens on loopback, too, and notes by which address it was reached.
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let port = listener.local_addr()?.port();
    let reached = tokio::spawn(async move {
        let mut reached = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            reached.push(stream.local_addr().map(|address| address.ip().to_string()).unwrap_or_default());
            let mut request = [0; 4096];
            let count = stream.read(&mut request).await.unwrap_or_default();
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .await;
            if request[..count].starts_with(b"GET /last ") {
                break;
            }
        }
        reached
    });
    let daemon = Daemon::start(Settings::on_demand().resolv_conf(&names.resolv_conf())).await?;
    let session = daemon.session(json!({"headless": true})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    let mut answers = Vec::new();
    for round in 0..6 {
        let script = format!("fetch('http://rebound.test:{port}/{round}').then(r => r.status, () => 'failed')");
        answers.push(cdp.evaluate(&page, &script).await?);
    }
    ensure!(answers.contains(&json!(200)) && answers.contains(&json!("failed")), "{answers:?}");
    ensure!(names.asked() >= 6, "each connection asks for its name: {}", names.asked());
    let record = session.record().await?;
    let rows = record["egress"]["refused"].as_array().cloned().unwrap_or_default();
    ensure!(rows.iter().any(|row| row["host"] == "rebound.test" && row["reason"] == "not_public"), "{record}");
    let last = format!("fetch('http://{outside}:{port}/last').then(r => r.status, () => 'failed')");
    eventually!("the listener ends", 10, cdp.evaluate(&page, &last).await? == 200)?;
    let reached = reached.await?;
    ensure!(reached.iter().all(|address| address == host_address()), "{reached:?}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Each session has its own share of look-ups, here of one name. While nobody answers for a page's first name its others
/// wait, and another session has its page.
async fn names_that_nobody_answers_for_delay_no_other_session(stage: Stage) -> Result<()> {
    let Some(names) = Names::start(vec![host_address().parse()?]).await? else { return Ok(()) };
    let settings = Settings::on_demand().set("EGRESS_MAX_LOOKUPS", "1").set("EGRESS_LOOKUP_TIMEOUT", "10m");
    let daemon = Daemon::start(settings.resolv_conf(&names.resolv_conf())).await?;
    let site = stage.site_for(&daemon).await?;
    let port = site.rsplit_once(':').context("a port")?.1;
    let (greedy, other) =
        (daemon.session(json!({"headless": true})).await?, daemon.session(json!({"headless": true})).await?);
    let mut cdp = greedy.cdp().await?;
    let page = cdp.first_page().await?;
    let script = format!(
        "globalThis.first = 'pending'; fetch('http://0.{SILENT}/').catch(() => first = 'failed');
         for (let at = 1; at < 20; at++) fetch(`http://${{at}}.{SILENT}/`).catch(() => {{}}); 0"
    );
    cdp.evaluate(&page, &script).await?;
    eventually!("a name is being looked up", 30, names.unanswered() > 0)?;
    let mut others = other.cdp().await?;
    let its_page = others.first_page().await?;
    let fetch = format!("fetch('http://other.test:{port}/tab/1', {{mode: 'no-cors'}}).then(() => 'there', String)");
    ensure!(others.evaluate(&its_page, &fetch).await? == "there");
    let first = cdp.evaluate(&page, "first").await?;
    ensure!(first == "pending", "the other session waited until a look-up had {first}");
    ensure!(names.unanswered() == 1, "{} names at once", names.unanswered());
    greedy.delete().await?.ok()?;
    other.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// `warmpool doctor --egress` beside a running daemon, and with a rule that opens something.
async fn the_doctor_gets_out_of_no_worker(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SERVER_LISTEN", "127.0.0.1:0")).await?;
    let port = daemon.url().rsplit_once(':').context("a port")?.1;
    let listen = format!("127.0.0.1:{port}");
    let report: Value =
        serde_json::from_str(&daemon.cli_ok(&["doctor", "--egress", "--json", "--egress-allow", "192.0.2.9"]).await?)?;
    ensure!(report["ok"] == true, "{report}");
    let findings = report["findings"].as_array().context("findings")?;
    for title in [
        "Metadata",
        "Gateway",
        "This host",
        "Docker",
        "Another worker",
        "Notation",
        "Name",
        "Internet",
        "Programs",
        "Landlock",
    ] {
        let of_title = |finding: &&Value| finding["title"] == title;
        ensure!(findings.iter().any(|finding| of_title(&finding)), "{title} was not tried");
        ensure!(findings.iter().filter(of_title).all(|finding| finding["level"] == "ok"), "{title}: {report}");
    }
    // The daemon itself listens there, so this one is reached, and said to be.
    let open = daemon.cli_ok(&["doctor", "--egress", "--egress-allow", &listen]).await?;
    let warned =
        open.lines().any(|line| line.starts_with("warn") && line.contains(&listen) && line.contains("connected"));
    ensure!(warned && open.contains("a rule of egress.allow"), "{open}");
    daemon.assert_idle().await
}
