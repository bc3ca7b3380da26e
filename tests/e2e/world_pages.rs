//! The pages of worlds in a real browser: the viewer, and the console's page for keys and requests.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Stage, group};

use crate::worlds::{ended, generate, integration, path, picture, request, settings};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [the_viewer_and_the_console_work_in_a_browser])
}

async fn browse(daemon: &Daemon, flow: &str, variables: &[(&str, &str)]) -> Result<()> {
    let mut program = Program::node(&programs::clients(), "worlds.mjs").await?.of(daemon).env("FLOW", flow);
    for (name, value) in variables {
        program = program.env(name, value);
    }
    program.results().await?;
    Ok(())
}

async fn the_viewer_and_the_console_work_in_a_browser(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let mut body = request(&key, "home");
    body["patient_id"] = json!("p-42");
    body["patient_name"] = json!("Ζωή 田中 مريم כהן");
    body["images"] =
        json!([{"data": picture()?, "label": "By the sea"}, {"data": picture()?, "label": "البيت القديم"}]);
    body["videos"] = json!([{"data": picture()?, "label": "A walk"}]);
    body["belongings"] = json!([{"label": "radio"}, {"label": "מזכרת מירושלים"}, {"label": "दादी की घड़ी"}, {"label": "祖母の指ぬき 🧵"}]);
    let world = generate(&daemon, body.clone()).await?.ok()?;
    let world = ended(&daemon, &world["world_id"]).await?;
    ensure!(world["status"] == "ready", "{world}");
    let viewer = world["viewer_url"].as_str().context("a viewer")?;
    let closed = format!("{}/w/wld_x.y", daemon.url());
    browse(&daemon, "viewer", &[("VIEWER_URL", viewer), ("CLOSED_URL", &closed)]).await?;
    browse(
        &daemon,
        "console",
        &[("VIEWER_URL", viewer), ("REQUEST", &body.to_string()), ("PATIENT", "Ζωή 田中 مريم כהן")],
    )
    .await?;
    // Neither the operator nor the visitor stands in the log of the daemon.
    let log = daemon.log_text();
    let token = path(&daemon, &world["viewer_url"])?;
    for secret in [daemon.key(), &key, &token, "p-42", "田中"] {
        ensure!(!log.contains(secret), "the log has {secret}");
    }
    daemon.assert_idle().await
}
