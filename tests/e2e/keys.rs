//! Keys by command line, with the daemon running and stopped.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!("keys", None,
        quick: [live_a_whole_life],
        full: [may_be_changed_while_the_daemon_is_down],
    )
}

/// Makes a key by command line and answers its secret.
pub(crate) async fn create(daemon: &Daemon, name: &str) -> Result<String> {
    secret(&daemon.cli_ok(&["key", "create", name]).await?)
}

/// The secret in what `key create` or `key rotate` printed: the one long word.
fn secret(printed: &str) -> Result<String> {
    let word = printed.split_whitespace().find(|word| word.len() >= 43 && !word.contains('/'));
    Ok(word.with_context(|| format!("a secret in {printed:?}"))?.to_owned())
}

/// Whether the daemon takes this key now.
async fn works(daemon: &Daemon, key: &str) -> Result<bool> {
    Ok(daemon.api().with_key(key).get("/sessions").await?.status == 200)
}

async fn live_a_whole_life(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let first = create(&daemon, "press").await?;
    ensure!(works(&daemon, &first).await?, "a new key works at once");
    let listed = daemon.cli_ok(&["key", "list"]).await?;
    ensure!(listed.contains("press") && !listed.contains(&first), "{listed}");

    let rotated = secret(&daemon.cli_ok(&["key", "rotate", "press"]).await?)?;
    ensure!(rotated != first && works(&daemon, &rotated).await?, "the new secret works");
    eventually!("the old secret is refused", 5, !works(&daemon, &first).await?)?;

    let api = daemon.api().with_key(&rotated);
    let session = Session::create(&api, &json!({"headless": true})).await?;
    let mut cdp = session.cdp().await?;
    daemon.cli_ok(&["key", "revoke", "press"]).await?;
    let (code, reason) = cdp.ended().await.context("a Close frame")?;
    ensure!(code == 1008 && reason.contains("revoked"), "{code} {reason}");
    ensure!(!works(&daemon, &rotated).await?, "a revoked key is refused");
    ensure!(works(&daemon, daemon.key()).await?, "the others stay");
    let unknown = daemon.cli(&["key", "revoke", "nobody"]).await?;
    ensure!(!unknown.status.success(), "an unknown name is an error");
    daemon.assert_idle().await
}

async fn may_be_changed_while_the_daemon_is_down(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new()).await?;
    let gone = create(&daemon, "gone").await?;
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(30).await?.success());
    let made = create(&daemon, "made").await?;
    daemon.cli_ok(&["key", "revoke", "gone"]).await?;
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(works(&daemon, &made).await? && !works(&daemon, &gone).await?);
    ensure!(works(&daemon, daemon.key()).await?, "the first key stays the first key");
    daemon.assert_idle().await
}
