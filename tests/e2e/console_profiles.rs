//! Profiles, extensions and labels in the console, in a real browser; and who sees whose profiles there.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::json;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, group};

use crate::console::SignedIn;
use crate::extensions::zipped;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [operators_manage_those_of_all_keys],
        full: [are_made_and_managed_by_hand],
    )
}

async fn operators_manage_those_of_all_keys(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let key = crate::keys::create(&daemon, "client").await?;
    let api = daemon.api().with_key(&key);
    let cookie =
        json!({"name": "login", "value": "secret", "domain": "a.example", "path": "/", "expires": 2_000_000_000});
    let made = api.post("/profiles", &json!({"name": "shop", "state": {"cookies": [cookie]}})).await?;
    ensure!(made.status == 201, "{made}");
    let id = made.json()?["key_id"].as_str().context("an id")?.to_owned();
    let (operator, client) = (SignedIn::new(&daemon, daemon.key()).await?, SignedIn::new(&daemon, &key).await?);

    let list = operator.get("/profiles").await?.ok()?;
    ensure!(list["profiles"][0]["key_id"] == json!(id), "{list}");
    let path = format!("/profiles/shop?key_id={id}");
    let shown = operator.get(&path).await?.ok()?;
    let held = json!([{"name": "login", "path": "/", "expires": 2_000_000_000_000_u64}]);
    ensure!(shown["cookies"][0]["list"] == held && !shown.to_string().contains("secret"), "{shown}");
    ensure!(operator.call(Method::PUT, &path, Some(json!({"version": 1}))).await?.ok()?["key_id"] == json!(id));
    // A name alone means one of the operator's own.
    ensure!(operator.get("/profiles/shop").await?.fault(404)?.code == "unknown_profile");

    // Nobody else may name another's key, a program with the operator's key neither.
    let own = client.get("/console/sign-in").await?.ok()?;
    ensure!(own["key_id"] == json!(id) && client.get(&path).await?.status == 200);
    let operators = operator.get("/console/sign-in").await?.ok()?["key_id"].as_str().context("an id")?.to_owned();
    let foreign = format!("/profiles/shop?key_id={operators}");
    for refused in [
        client.get(&foreign).await?,
        daemon.api().get(&path).await?,
        daemon.api().delete(&path).await?,
        daemon.api().get(&format!("/profiles/shop/state?key_id={id}")).await?,
    ] {
        ensure!(refused.fault(404)?.code == "unknown_profile", "{refused}");
    }
    ensure!(operator.get("/profiles/shop?key_id=ann").await?.fault(400)?.field == "key_id");
    ensure!(operator.call(Method::DELETE, &path, None).await?.status == 204);
    ensure!(api.get("/profiles/shop").await?.status == 404);
    daemon.assert_idle().await
}

async fn are_made_and_managed_by_hand(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let folder = tempfile::tempdir()?;
    let extension = folder.path().join("tea.zip");
    let manifest = json!({"manifest_version": 3, "name": "Tea", "version": "1.2", "permissions": ["storage"],
        "host_permissions": ["https://tea.example/*"]});
    std::fs::write(&extension, zipped(&[("manifest.json", manifest.to_string().as_bytes())])?)?;
    for flow in ["make", "manage", "folders", "labels", "extensions"] {
        let program = Program::node(&programs::clients(), "console_profiles.mjs").await?.of(&daemon).env("FLOW", flow);
        let program = program.env("EXTENSION_FILE", extension.to_str().context("a path")?);
        program.env("SITE_URL", &site).results().await.context(flow)?;
    }
    daemon.end_all().await?;
    daemon.assert_idle().await
}
