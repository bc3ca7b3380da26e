//! Row 27: the cases of the Autobahn suite, against an echo server directly and through the relay: every verdict is the same.
//!
//! The echo server stands where a worker's browser listens, so that the relay is the daemon's own. The suite needs Python 2
//! (`autobahntestsuite` 0.8.2; the version after it says Python 3 and does not start there). `WARMPOOL_AUTOBAHN` names its
//! program, `wstest`.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, UnixListener};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};
use warmpool_tests::wire::Io;
use warmpool_tests::{Daemon, Group, Settings, Stage, evidence, group};

use crate::relay::{is_root, without_browser};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [the_relay_changes_no_verdict])
}

/// The cases of compression: this echo server takes none, and `relay::compressed_messages_pass_as_agreed` has one that does.
const LEFT_OUT: [&str; 2] = ["12.*", "13.*"];

/// How long the rest of a broken message may take to come.
const LEFT_UNREAD_FOR: Duration = Duration::from_secs(5);

/// Answers each message with the same message, and what is none with a Close that says so.
async fn echo(stream: impl Io) {
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let Ok(mut socket) = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await else { return };
    while let Some(read) = socket.next().await {
        let code = match read {
            Ok(message) if message.is_text() || message.is_binary() => {
                if socket.send(message).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(_) => continue,
            Err(Error::Utf8(_)) => CloseCode::Invalid,
            Err(Error::Protocol(_)) => CloseCode::Protocol,
            Err(_) => return,
        };
        let _ = socket.close(Some(CloseFrame { code, reason: Utf8Bytes::default() })).await;
        // What is left unread when the connection closes would make the kernel reset it, and the Close may be lost.
        let mut stream = socket.into_inner();
        let _ = stream.shutdown().await;
        let _ = timeout(LEFT_UNREAD_FOR, copy(&mut stream, &mut sink())).await;
        return;
    }
}

/// The verdicts of each server, by case: on the messages, on the close, and the code that came with it.
async fn verdicts(wstest: &str, servers: &[(&str, &str)]) -> Result<Vec<BTreeMap<String, [Value; 3]>>> {
    let folder = tempfile::tempdir()?;
    let (spec, out) = (folder.path().join("spec.json"), folder.path().join("reports"));
    let listed: Vec<Value> = servers.iter().map(|(name, url)| json!({"agent": name, "url": url})).collect();
    let asked = json!({
        "outdir": out, "servers": listed, "cases": ["*"], "exclude-cases": LEFT_OUT, "exclude-agent-cases": {},
    });
    fs::write(&spec, asked.to_string())?;
    let ran = Command::new(wstest).args(["--mode", "fuzzingclient", "--spec"]).arg(&spec).output().await;
    let ran = ran.with_context(|| wstest.to_owned())?;
    let index = fs::read(out.join("index.json"));
    let index: Value =
        serde_json::from_slice(&index.with_context(|| String::from_utf8_lossy(&ran.stderr).into_owned())?)?;
    let of = |name: &str| {
        let cases = index[name].as_object().with_context(|| format!("no verdicts of {name}"))?;
        let parts = ["behavior", "behaviorClose", "remoteCloseCode"];
        Ok(cases.iter().map(|(case, verdict)| (case.clone(), parts.map(|part| verdict[part].clone()))).collect())
    };
    servers.iter().map(|(name, _)| of(name)).collect()
}

async fn the_relay_changes_no_verdict(_: Stage) -> Result<()> {
    let Ok(wstest) = std::env::var("WARMPOOL_AUTOBAHN") else {
        evidence::cannot("WARMPOOL_AUTOBAHN does not name the suite's wstest");
        return Ok(());
    };
    if !is_root() {
        return Ok(());
    }
    let daemon = Daemon::start(Settings::on_demand().set("RELAY_MAX_MESSAGE", "64MiB")).await?;
    let (session, place) = without_browser(&daemon, "chromium").await?;
    let within = UnixListener::bind(&place).with_context(|| place.display().to_string())?;
    fs::set_permissions(&place, Permissions::from_mode(0o777))?;
    let outside = TcpListener::bind("127.0.0.1:0").await?;
    let direct = format!("ws://{}/", outside.local_addr()?);
    // They end with this set.
    let mut servers = JoinSet::new();
    servers.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = within.accept().await {
            open.spawn(echo(stream));
        }
    });
    servers.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = outside.accept().await {
            open.spawn(echo(stream));
        }
    });
    let found = verdicts(&wstest, &[("direct", &direct), ("relay", session.websocket_url()?)]).await?;
    let [directly, relayed] = found.as_slice() else { anyhow::bail!("two servers were asked") };
    ensure!(directly.len() > 240 && directly.len() == relayed.len(), "{} and {}", directly.len(), relayed.len());
    let differs = directly.iter().filter(|(case, verdict)| relayed.get(*case) != Some(verdict));
    let differs: Vec<String> =
        differs.map(|(case, verdict)| format!("{case}: {verdict:?}, relayed {:?}", relayed.get(case))).collect();
    let mut counts = BTreeMap::<&str, usize>::new();
    relayed.values().for_each(|[behavior, ..]| *counts.entry(behavior.as_str().unwrap_or_default()).or_default() += 1);
    let counts = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ");
    evidence::saw(format!("{} cases, through the relay {counts}; {} differ", directly.len(), differs.len()));
    ensure!(differs.is_empty(), "{}", differs.join("\n"));
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
