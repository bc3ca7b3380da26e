//! Requests for worlds: their keys, what is refused of them, and who may look at them in the console.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Stage, docker, eventually, group};

use crate::console::Events;
use crate::worlds::{PATIENT, generate, integration, log, path, picture, request, settings, text};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            keys_live_a_whole_life,
            each_bad_request_is_refused_and_logged,
            a_missing_renderer_is_named_with_its_remedy,
            the_console_is_signed_in_to_by_cookie,
            failed_sign_ins_lock_no_right_key_out,
            no_stream_outlasts_what_opened_it,
        ],
        full: [],
    )
}

async fn keys_live_a_whole_life(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let secret = integration(&daemon, &["ward"]).await?;
    ensure!(secret.starts_with("wk_live_"), "{secret}");
    let listed = daemon.api().get("/v1/integration-keys").await?.ok()?;
    let key = &listed["keys"][0];
    ensure!(key["name"] == "ward" && key["state"] == "ACTIVE" && key["kind"] == "live", "{key}");
    ensure!(key["worlds_generated"] == 0 && key["last_used"] == "never", "{key}");
    let shown = key["key"].as_str().unwrap_or_default();
    ensure!(shown.starts_with(&secret[..12]) && shown.ends_with(&secret[secret.len() - 4..]), "{shown}");
    ensure!(!listed.to_string().contains(&secret), "a secret is shown once");

    let made = daemon.api().post("/v1/integration-keys", &json!({"name": "trial", "kind": "test"})).await?.ok()?;
    ensure!(made["secret"].as_str().is_some_and(|secret| secret.starts_with("wk_test_")), "{made}");
    let id = made["key_id"].as_str().context("an id")?;
    let rotated = daemon.api().post(&format!("/v1/integration-keys/{id}/rotate"), &json!({})).await?.ok()?;
    ensure!(rotated["secret"] != made["secret"], "{rotated}");
    let old = generate(&daemon, request(made["secret"].as_str().unwrap_or_default(), "garden")).await?;
    ensure!(old.fault(401)?.code == "invalid_api_key", "{old}");

    // Another service key sees nothing of it, and can do nothing to it.
    let other = crate::keys::create(&daemon, "other").await?;
    let stranger = daemon.api().with_key(&other);
    ensure!(stranger.get("/v1/integration-keys").await?.ok()?["keys"] == json!([]));
    let refused = stranger.delete(&format!("/v1/integration-keys/{id}")).await?;
    ensure!(refused.fault(404)?.code == "unknown_integration_key", "{refused}");
    let ambiguous = daemon.cli(&["integration-key", "create", "whose"]).await?;
    ensure!(String::from_utf8_lossy(&ambiguous.stderr).contains("--owner"), "with several keys the owner is named");

    let revoked = daemon.api().delete(&format!("/v1/integration-keys/{id}")).await?.ok()?;
    ensure!(revoked["state"] == "REVOKED", "{revoked}");
    let again = daemon.api().post(&format!("/v1/integration-keys/{id}/rotate"), &json!({})).await?;
    ensure!(again.fault(409)?.code == "conflict", "{again}");
    daemon.cli_ok(&["integration-key", "revoke", "ward"]).await?;
    let late = generate(&daemon, request(&secret, "garden")).await?;
    ensure!(late.fault(401)?.code == "invalid_api_key", "{late}");
    let rows = log(&daemon, "status=4xx").await?;
    ensure!(rows[0]["key"] == shown && rows[0]["status"] == "401 Unauthorized", "{rows:?}");
    let listed = daemon.cli_ok(&["integration-key", "list"]).await?;
    ensure!(listed.contains("revoked") && !listed.contains(&secret), "{listed}");
    daemon.assert_idle().await
}

async fn each_bad_request_is_refused_and_logged(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("WORLD_MAX_BODY", "64KiB")).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let with = |members: Value| {
        let mut body = request(&key, "garden");
        for (name, value) in members.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    };
    // The head of a PNG that says it has four billion pixels.
    let mut bomb = STANDARD.decode(picture()?)?;
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let images: Vec<Value> = (0..100).map(|_| json!({"data": "AAAA"})).collect();
    for (body, field) in [
        (with(json!({"patient_id": null})), "patient_id"),
        (with(json!({"patient_name": "x".repeat(10_000)})), "patient_name"),
        (with(json!({"environment_type": "beach"})), "environment_type"),
        (with(json!({"environment_type": 5})), "environment_type"),
        (with(json!({"enviroment_type": "garden"})), "enviroment_type"),
        (with(json!({"images": images})), "images"),
        (with(json!({"images": [{"data": STANDARD.encode(&bomb)}]})), "images[0].data"),
        (with(json!({"images": [{"data": STANDARD.encode(b"GIF89a")}]})), "images[0].data"),
        (with(json!({"wait": 100_000})), "wait"),
    ] {
        let reply = generate(&daemon, body).await?;
        ensure!(reply.fault(400)?.field == field, "{field}: {reply}");
    }
    let known = generate(&daemon, with(json!({"environment_type": "beach"}))).await?.fault(400)?.message;
    ensure!(known.contains("garden, home, porch"), "{known}");
    let large = generate(&daemon, with(json!({"images": [{"data": "A".repeat(100_000)}]}))).await?;
    ensure!(large.fault(413)?.message.contains("world.max_body"), "{large}");
    let form = HeaderMap::from_iter([
        (HeaderName::from_static("x-api-key"), HeaderValue::try_from(&key)?),
        (CONTENT_TYPE, HeaderValue::from_static("text/plain")),
    ]);
    let unread =
        daemon.api().without_key().send(Method::POST, "/v1/world/generate", form, Bytes::from_static(b"{}")).await?;
    unread.fault(415)?;
    // The largest body that is read at all is judged by its content, and one byte more is not.
    let limit = 64 << 10;
    let around = with(json!({"images": [{"data": ""}]})).to_string().len();
    for (length, status) in [(limit - around, 400), (limit - around + 1, 413)] {
        let reply = generate(&daemon, with(json!({"images": [{"data": "A".repeat(length)}]}))).await?;
        ensure!(reply.fault(status).is_ok(), "{length}: {reply}");
    }
    let nobody = generate(&daemon, json!({"patient_id": PATIENT})).await?;
    ensure!(nobody.fault(401)?.code == "missing_api_key", "{nobody}");
    let wrong = generate(&daemon, request("wk_live_AAAABBBBCCCCDDDDEEEEFFFF", "porch")).await?;
    ensure!(wrong.fault(401)?.code == "invalid_api_key", "{wrong}");

    let rows = log(&daemon, "limit=100").await?;
    ensure!(rows.len() == 16, "every request has a row: {rows:?}");
    ensure!(rows[0]["key"] == "wk_live_AAAA…FFFF" && rows[0]["environment_type"] == "porch", "{}", rows[0]);
    ensure!(rows.iter().all(|row| row["patient_id"].is_null()), "who was refused is nobody's patient: {rows:?}");
    let of_ward = |payload: &str| rows.iter().any(|row| row["payload"] == payload && row["key_id"].is_string());
    ensure!(of_ward("100 images") && of_ward("not read"), "the log says what came, and whose it was: {rows:?}");
    let query = daemon.api().get("/v1/requests?environment_type=beach").await?;
    ensure!(query.fault(400)?.field == "environment_type", "{query}");
    let unknown = daemon.api().get("/v1/worlds/wld_nothing").await?;
    ensure!(unknown.fault(404)?.code == "unknown_world", "{unknown}");
    let patient = daemon.api().delete("/v1/patients/nobody").await?;
    ensure!(patient.fault(404)?.code == "unknown_patient", "{patient}");
    let viewer = daemon.api().without_key().get("/w/wld_x.y").await?;
    ensure!(viewer.fault(404)?.code == "unknown_viewer", "{viewer}");
    let mut browser = HeaderMap::new();
    browser.insert("accept", HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"));
    let without_key = daemon.api().without_key();
    let page = without_key.send(Method::GET, "/w/wld_x.y", browser.clone(), Bytes::new()).await?;
    ensure!(page.status == 404 && page.text().contains("does not work any more"), "a person gets a page: {page}");
    let file = without_key.send(Method::GET, "/w/wld_x.y/scene.json", browser, Bytes::new()).await?;
    ensure!(file.fault(404)?.code == "unknown_viewer", "{file}");
    daemon.assert_idle().await
}

async fn a_missing_renderer_is_named_with_its_remedy(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("WORLD_IMAGE", "warmpool/no-such-scene:latest")).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let reply = generate(&daemon, request(&key, "garden")).await?;
    let fault = reply.fault(503)?;
    ensure!(fault.code == "renderer_not_installed" && fault.message.contains("scripts/images --scene"), "{reply}");
    let worlds = daemon.api().get("/status").await?.ok()?["worlds"].take();
    ensure!(worlds["renderer_installed"] == false && text(&worlds["remedy"])?.contains("--scene"), "{worlds}");
    let doctor = daemon.cli(&["doctor"]).await?;
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(doctor.contains("no warmpool/no-such-scene:latest") && doctor.contains("--scene"), "{doctor}");
    daemon.assert_idle().await
}

async fn the_console_is_signed_in_to_by_cookie(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let api = daemon.api().without_key();
    let wrong = api.post("/console/sign-in", &json!({"key": "wp_wrong"})).await?;
    ensure!(wrong.fault(401)?.code == "invalid_key", "{wrong}");
    let signed = api.post("/console/sign-in", &json!({"key": daemon.key()})).await?;
    ensure!(signed.status == 204, "{signed}");
    let cookie = signed.header("set-cookie").context("a cookie")?.to_owned();
    ensure!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(daemon.key()),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let headers = |own: bool| -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", cookie.parse()?);
        if own {
            headers.insert("x-warmpool-console", HeaderValue::from_static("1"));
        }
        Ok(headers)
    };
    let get = |own: bool, path: &'static str| {
        let (api, headers) = (api.clone(), headers(own));
        async move { api.send(Method::GET, path, headers?, Bytes::new()).await }
    };
    ensure!(get(true, "/console/sign-in").await?.ok()?["name"] == "default");
    ensure!(get(true, "/v1/integration-keys").await?.status == 200);
    ensure!(
        get(false, "/v1/integration-keys").await?.fault(401)?.code == "missing_key",
        "the cookie alone opens nothing"
    );
    let out = api.send(Method::DELETE, "/console/sign-in", headers(true)?, Bytes::new()).await?;
    ensure!(out.status == 204, "{out}");
    ensure!(get(true, "/console/sign-in").await?.fault(401)?.code == "missing_key");
    daemon.assert_idle().await
}

async fn failed_sign_ins_lock_no_right_key_out(_: Stage) -> Result<()> {
    let settings = settings().set("SERVER_FAILED_SIGN_INS", "3").set("SERVER_TRUSTED_PROXIES", "127.0.0.1");
    let daemon = Daemon::start(settings).await?;
    let api = daemon.api().without_key();
    let sign_in = |address: &'static str, key: &str| {
        let (api, body) = (api.clone(), json!({"key": key}).to_string());
        async move {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            // What a client claims stands before what its proxy saw.
            headers.insert("x-forwarded-for", HeaderValue::try_from(format!("198.51.100.7, {address}"))?);
            api.send(Method::POST, "/console/sign-in", headers, Bytes::from(body)).await
        }
    };
    for _ in 0..3 {
        ensure!(sign_in("192.0.2.1", "wp_wrong").await?.fault(401)?.code == "invalid_key");
    }
    let refused = sign_in("192.0.2.1", "wp_wrong").await?;
    ensure!(refused.fault(429)?.code == "sign_in_limit" && refused.header("retry-after").is_some(), "{refused}");
    ensure!(sign_in("192.0.2.1", daemon.key()).await?.status == 204, "a right key behind the same address signs in");
    ensure!(
        sign_in("192.0.2.2", "wp_wrong").await?.fault(401)?.code == "invalid_key",
        "other addresses have their own"
    );
    daemon.assert_idle().await
}

/// A world that no renderer begins, since its attachment never comes: its streams stay open.
async fn no_stream_outlasts_what_opened_it(_: Stage) -> Result<()> {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let engine = docker::image("chromium");
    let settings = settings().set("WORLD_ATTACHMENT_NETWORKS", "127.0.0.0/8").set("WORLD_FETCH_TIMEOUT", "10m");
    let daemon = Daemon::start(settings.set("WORLD_IMAGE", &engine)).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let mut body = request(&key, "garden");
    body["images"] = json!([{"url": format!("http://{}/picture.png", silent.local_addr()?), "label": "By the sea"}]);
    let world = generate(&daemon, body.clone()).await?.ok()?;
    let id = text(&world["world_id"])?.to_owned();
    let anybody = daemon.api().without_key();

    // A viewer's URL that is renewed.
    let viewer = path(&daemon, &world["viewer_url"])?;
    let mut events = Events::open(&anybody, &format!("{viewer}/events"), &[]).await?;
    events.before("By the sea").await?;
    let renewed = daemon.api().post(&format!("/v1/worlds/{id}/viewer"), &json!({})).await?.ok()?;
    let rest = events.before("event: revoked").await?;
    ensure!(!rest.contains("event: scene"), "nothing is shown after the renewal: {rest}");

    // An integration key that is revoked, while it follows and while it waits.
    let used = async || -> Result<Value> {
        Ok(daemon.api().get("/v1/integration-keys").await?.ok()?["keys"][0]["last_used_at"].take())
    };
    let generated = used().await?;
    let mut events = Events::open(&anybody, &format!("/v1/worlds/{id}/events"), &[("x-api-key", &key)]).await?;
    events.before("By the sea").await?;
    body["wait"] = json!(600);
    let before = used().await?;
    ensure!(before != generated, "who looks at a world uses the key: {before}");
    let waits = tokio::spawn({
        let api = anybody.clone();
        async move { api.post("/v1/world/generate", &body).await }
    });
    eventually!("the second request is there", 20, used().await? != before)?;
    daemon.cli_ok(&["integration-key", "revoke", "ward"]).await?;
    let rest = events.before("event: revoked").await?;
    let token = text(&renewed["viewer_url"])?;
    ensure!(!rest.contains("event: world") && !rest.contains(token), "nothing is shown after the revocation: {rest}");
    ensure!(waits.await??.fault(401)?.code == "invalid_api_key");
    let world = daemon.api().get(&format!("/v1/worlds/{id}")).await?.ok()?;
    ensure!(world["status"] == "failed" && world["error"]["code"] == "key_revoked", "{world}");

    // A service key whose secret is replaced, and one that is revoked.
    for (name, end) in [("rotated", "rotate"), ("revoked", "revoke")] {
        let secret = crate::keys::create(&daemon, name).await?;
        let mut events = Events::open(&anybody, "/v1/requests", &[("service-secret-key", &secret)]).await?;
        events.before("200 OK").await?;
        daemon.cli_ok(&["key", end, name]).await?;
        events.before("event: revoked").await?;
    }
    daemon.assert_idle().await
}
