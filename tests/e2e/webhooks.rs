//! Webhooks: messages are signed, sent again, kept through a crash, and never sent where the policy forbids it.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::NamedTempFile;
use warmpool_tests::captcha::Service;
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [messages_arrive])
}

const OPERATORS: &str = "a secret of the operator's own";

/// The messages that a receiver got, verified by hand as the standard says: their ids and what they say.
pub(crate) fn verified(receiver: &Service, secret: &str) -> Result<Vec<(String, Value)>> {
    let key = match secret.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded)?,
        None => secret.as_bytes().to_vec(),
    };
    let mut messages = Vec::new();
    for (headers, body) in receiver.requests() {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).context("a header");
        let text = body.as_str().context("a body")?;
        let (id, seconds) = (header("webhook-id")?, header("webhook-timestamp")?);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
        mac.update(format!("{id}.{seconds}.{text}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        ensure!(header("webhook-signature")? == signature, "{text}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        ensure!(now.abs_diff(seconds.parse()?) < 60, "{seconds}");
        messages.push((id.to_owned(), serde_json::from_str(text)?));
    }
    Ok(messages)
}

async fn messages_arrive(_: Stage) -> Result<()> {
    let (operator, client, denied, late) =
        tokio::try_join!(Service::webhook(), Service::webhook(), Service::webhook(), Service::webhook())?;
    let mut secret_file = NamedTempFile::new()?;
    writeln!(secret_file, "{OPERATORS}")?;
    let settings = Settings::on_demand()
        .set("WEBHOOKS_URL", format!("{}/all", operator.url()))
        .set("WEBHOOKS_SECRET_FILE", secret_file.path().display())
        .set("WEBHOOKS_NETWORKS", "127.0.0.1/32")
        .set("WEBHOOKS_RETRY_DELAY", "100ms")
        .set("EGRESS_DENY", "localhost");
    let mut daemon = Daemon::start(settings).await?;
    let secret = daemon.api().get("/webhooks/secret").await?.ok()?["secret"].as_str().context("secret")?.to_owned();
    let other = daemon.api().with_key(daemon.cli_ok(&["key", "create", "other"]).await?.trim().to_owned());
    ensure!(other.get("/webhooks/secret").await?.ok()?["secret"] != secret.as_str(), "each key has its own");

    for address in ["ftp://a.example/", "nonsense", "http://127.0.0.2/", "http://[::1]/", "https://me:pass@a.example/"]
    {
        for (path, body) in [
            ("/sessions/create", json!({"webhook_url": address})),
            ("/lam/run", json!({"webhook_url": address, "steps": []})),
        ] {
            let fault = daemon.api().post(path, &body).await?.fault(400)?;
            ensure!(fault.message.contains("webhook_url"), "{address}: {fault:?}");
        }
    }

    // Both receivers refuse the first message until it comes again.
    let session = daemon.session(json!({"headless": true, "webhook_url": format!("{}/word", client.url())})).await?;
    ensure!(session.record().await?.get("webhook_url").is_none(), "it may hold a secret");
    session.delete().await?.ok()?;
    for (receiver, secret) in [(&client, secret.as_str()), (&operator, OPERATORS)] {
        eventually!("the message comes again", 20, receiver.requests().len() >= 2)?;
        let messages = verified(receiver, secret)?;
        ensure!(messages.len() == 2 && messages[0] == messages[1], "{messages:?}");
        let message = &messages[0].1;
        ensure!(message["type"] == "session.ended" && message["data"]["reason"] == "deleted", "{message}");
        ensure!(message["data"]["session_id"] == session.id.as_str(), "{message}");
    }

    // A name is judged when it is resolved.
    let port = denied.url().rsplit(':').next().context("a port")?.to_owned();
    let session = daemon.session(json!({"headless": true, "webhook_url": format!("http://localhost:{port}/")})).await?;
    session.delete().await?.ok()?;
    let refused = async || {
        Ok::<_, anyhow::Error>(daemon.metrics().await?.sum("warmpool_webhooks_total", &[("result", "refused")]))
    };
    eventually!("the address is refused", 20, refused().await? == Some(1.0))?;
    ensure!(denied.requests().is_empty(), "it was called");

    // What has not arrived outlives the daemon.
    late.refuse(true);
    let session = daemon.session(json!({"headless": true, "webhook_url": format!("{}/late", late.url())})).await?;
    session.delete().await?.ok()?;
    eventually!("it is tried", 20, !late.requests().is_empty())?;
    let log = daemon.log_text();
    ensure!(
        !log.contains("/word") && !log.contains("/late") && !log.contains(&secret),
        "the log has an address or a secret"
    );
    daemon.kill9().await?;
    late.refuse(false);
    let tried = late.requests().len();
    daemon.restart().await?;
    eventually!("it arrives after all", 30, late.requests().len() > tried)?;
    let messages = verified(&late, &secret)?;
    ensure!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    eventually!("none is left", 20, daemon.metrics().await?.sum("warmpool_webhooks_pending", &[]) == Some(0.0))?;
    daemon.assert_idle().await
}
