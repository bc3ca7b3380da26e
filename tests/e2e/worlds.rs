//! Worlds: asked for, rendered by a real renderer in its container, shown, and forgotten. Scenes are as small as they may
//! be, so that a case takes seconds.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::api::Reply;
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

/// Seconds that the smallest scene may take on a busy machine.
const RENDERED_WITHIN: u64 = 240;
const PATIENT: &str = "patient-4711";
const NAME: &str = "Ottilie Überschär";

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            keys_live_a_whole_life,
            each_bad_request_is_refused_and_logged,
            a_missing_renderer_is_named_with_its_remedy,
            the_console_is_signed_in_to_by_cookie,
        ],
        full: [
            a_world_is_made_shown_and_forgotten,
            a_worlds_attachments_come_from_allowed_addresses_alone,
            unfinished_worlds_outlive_the_daemon,
            a_killed_renderer_is_replaced_once,
        ],
    )
}

fn settings() -> Settings {
    Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "0")
        .set("WORLD_WIDTH", "256")
        .set("WORLD_PREVIEW_WIDTH", "128")
        .set("WORLD_SAMPLES", "2")
}

/// A picture of one colour, as PNG in base64.
fn picture() -> Result<String> {
    let mut bytes = Cursor::new(Vec::new());
    image::RgbImage::from_pixel(64, 48, image::Rgb([180, 90, 40])).write_to(&mut bytes, image::ImageFormat::Png)?;
    Ok(STANDARD.encode(bytes.into_inner()))
}

async fn integration(daemon: &Daemon, arguments: &[&str]) -> Result<String> {
    let arguments = [&["integration-key", "create"], arguments].concat();
    Ok(daemon.cli_ok(&arguments).await?.trim().to_owned())
}

async fn generate(daemon: &Daemon, body: Value) -> Result<Reply> {
    daemon.api().without_key().post("/v1/world/generate", &body).await
}

fn request(key: &str, environment: &str) -> Value {
    json!({"api_key": key, "patient_id": PATIENT, "patient_name": NAME, "environment_type": environment})
}

/// Waits until a world has ended; answers it.
async fn ended(daemon: &Daemon, id: &Value) -> Result<Value> {
    let path = format!("/v1/worlds/{}", id.as_str().context("an id")?);
    eventually!("the world has ended", RENDERED_WITHIN, {
        let world = daemon.api().get(&path).await?.ok()?;
        matches!(world["status"].as_str(), Some("ready" | "failed")).then_some(world)
    })
}

/// The path of one of the service's own URLs.
fn path(daemon: &Daemon, url: &Value) -> Result<String> {
    let url = url.as_str().with_context(|| format!("a URL: {url}"))?;
    Ok(url.strip_prefix(daemon.url()).with_context(|| url.to_owned())?.to_owned())
}

async fn log(daemon: &Daemon, query: &str) -> Result<Vec<Value>> {
    let answer = daemon.api().get(&format!("/v1/requests?{query}")).await?.ok()?;
    Ok(answer["requests"].as_array().context("requests")?.clone())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
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
    let nobody = generate(&daemon, json!({"patient_id": PATIENT})).await?;
    ensure!(nobody.fault(401)?.code == "missing_api_key", "{nobody}");
    let wrong = generate(&daemon, request("wk_live_AAAABBBBCCCCDDDDEEEEFFFF", "porch")).await?;
    ensure!(wrong.fault(401)?.code == "invalid_api_key", "{wrong}");

    let rows = log(&daemon, "limit=100").await?;
    ensure!(rows.len() == 12, "every request has a row: {rows:?}");
    ensure!(rows[0]["key"] == "wk_live_AAAA…FFFF" && rows[0]["environment_type"] == "porch", "{}", rows[0]);
    ensure!(rows.iter().all(|row| row["patient_id"].is_null()), "who was refused is nobody's patient: {rows:?}");
    let query = daemon.api().get("/v1/requests?environment_type=beach").await?;
    ensure!(query.fault(400)?.field == "environment_type", "{query}");
    let unknown = daemon.api().get("/v1/worlds/wld_nothing").await?;
    ensure!(unknown.fault(404)?.code == "unknown_world", "{unknown}");
    let patient = daemon.api().delete("/v1/patients/nobody").await?;
    ensure!(patient.fault(404)?.code == "unknown_patient", "{patient}");
    let viewer = daemon.api().without_key().get("/w/wld_x.y").await?;
    ensure!(viewer.fault(404)?.code == "unknown_viewer", "{viewer}");
    daemon.assert_idle().await
}

async fn a_missing_renderer_is_named_with_its_remedy(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("WORLD_IMAGE", "warmpool/no-such-scene:latest")).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let reply = generate(&daemon, request(&key, "garden")).await?;
    let fault = reply.fault(503)?;
    ensure!(fault.code == "renderer_not_installed" && fault.message.contains("scripts/images --scene"), "{reply}");
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
    let page = api.get("/console/worlds").await?;
    ensure!(page.status == 200 && page.header("content-security-policy").is_some(), "{page}");
    daemon.assert_idle().await
}

async fn a_world_is_made_shown_and_forgotten(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let mut body = request(&key, "garden");
    body["images"] = json!([{"data": picture()?, "label": "By the sea"}]);
    body["belongings"] = json!([{"label": "radio"}, {"label": "grandmother's thimble"}]);
    let accepted = generate(&daemon, body.clone()).await?.ok()?;
    ensure!(matches!(accepted["status"].as_str(), Some("queued" | "rendering")), "{accepted}");
    ensure!(accepted["assets"]["panorama_url"].is_null() && accepted["cached"] == false, "{accepted}");
    let again = generate(&daemon, body.clone()).await?.ok()?;
    ensure!(again["world_id"] == accepted["world_id"] && again["cached"] == true, "one scene is made once: {again}");
    let world = ended(&daemon, &accepted["world_id"]).await?;
    ensure!(world["status"] == "ready" && world["progress"] == 1.0, "{world}");
    for item in world["items"].as_array().context("items")? {
        ensure!(item["placed"] == true && item["yaw"].is_number(), "each item has its place: {item}");
    }

    let anybody = daemon.api().without_key();
    let panorama = anybody.get(&path(&daemon, &world["assets"]["panorama_url"])?).await?;
    let read = image::load_from_memory(&panorama.body)?;
    ensure!((read.width(), read.height()) == (256, 128), "{} x {}", read.width(), read.height());
    ensure!(
        contains(&panorama.body, "GPano") && contains(&panorama.body, "equirectangular"),
        "the picture says what it is"
    );
    for asset in ["preview_url", "thumbnail_url", "panorama_png_url", "depth_url"] {
        let reply = anybody.get(&path(&daemon, &world["assets"][asset])?).await?;
        ensure!(reply.status == 200 && image::load_from_memory(&reply.body).is_ok(), "{asset}: {reply}");
        ensure!(!contains(&reply.body, PATIENT) && !contains(&reply.body, NAME), "{asset} names nobody");
    }
    let viewer = path(&daemon, &world["viewer_url"])?;
    let page = anybody.get(&viewer).await?;
    ensure!(
        page.status == 200 && page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")),
        "{page}"
    );
    for reply in [&page, &panorama] {
        ensure!(reply.header("cache-control").is_some_and(|value| value.contains("no-store")), "{:?}", reply.headers);
        ensure!(reply.header("x-robots-tag").is_some_and(|value| value.contains("noindex")), "{:?}", reply.headers);
        ensure!(reply.header("referrer-policy") == Some("no-referrer"), "{:?}", reply.headers);
    }
    let scene = anybody.get(&format!("{viewer}/scene.json")).await?;
    ensure!(
        scene.ok()?["panorama"] == true && !scene.text().contains(PATIENT) && !scene.text().contains(NAME),
        "{scene}"
    );
    let events = anybody.get(&format!("{viewer}/events")).await?.text();
    ensure!(events.contains("event: scene") && events.contains("event: end"), "{events}");

    let cached = generate(&daemon, body).await?.ok()?;
    ensure!(cached["status"] == "ready" && cached["cached"] == true, "{cached}");
    let rows = log(&daemon, &format!("patient_id={PATIENT}")).await?;
    ensure!(rows.len() == 3, "{rows:?}");
    let payload = format!("{NAME}: 1 image, 2 belongings: radio, grandmother's thimble");
    ensure!(rows[2]["payload"] == payload && rows[2]["status"] == "200 OK", "{}", rows[2]);
    ensure!(rows[2]["latency"].as_str().is_some_and(|text| text.ends_with(" ms")), "{}", rows[2]);
    let listed = daemon.api().get("/v1/integration-keys").await?.ok()?;
    ensure!(listed["keys"][0]["worlds_generated"] == 1, "{listed}");

    let renewed =
        daemon.api().post(&format!("/v1/worlds/{}/viewer", text(&world["world_id"])?), &json!({})).await?.ok()?;
    ensure!(anybody.get(&viewer).await?.status == 404, "the old address is dead");
    let renewed = path(&daemon, &renewed["viewer_url"])?;
    ensure!(anybody.get(&renewed).await?.status == 200);
    let export = daemon.api().get(&format!("/v1/patients/{PATIENT}/export")).await?;
    ensure!(export.body.starts_with(b"PK") && contains(&export.body, "panorama.jpg"), "{}", export.status);
    nothing_names(&daemon, &[PATIENT, NAME, "thimble"]).await?;

    let forgotten = daemon.api().delete(&format!("/v1/patients/{PATIENT}")).await?.ok()?;
    ensure!(forgotten == json!({"worlds": 1, "patients": 1}), "{forgotten}");
    ensure!(anybody.get(&renewed).await?.status == 404);
    ensure!(log(&daemon, &format!("patient_id={PATIENT}")).await?.len() == 3, "rows stay");
    let rows = log(&daemon, "").await?;
    ensure!(rows[0]["patient_id"].is_null() && rows[0]["payload"] == "1 image, 2 belongings", "{}", rows[0]);
    ensure!(files_below(&daemon.data_dir().join("worlds"))?.is_empty(), "no file stays");
    daemon.assert_idle().await
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("a text")
}

/// Neither the log, the metrics, a name of a file nor a file's content names anybody.
async fn nothing_names(daemon: &Daemon, words: &[&str]) -> Result<()> {
    let metrics = daemon.api().get("/metrics").await?.text();
    let log = daemon.log_text();
    let files = files_below(daemon.data_dir())?;
    for word in words {
        ensure!(!metrics.contains(word) && !log.contains(word), "{word} stands in metrics or log");
        for file in &files {
            ensure!(!file.display().to_string().contains(word), "{}", file.display());
            ensure!(!contains(&fs::read(file)?, word), "{word} stands in {}", file.display());
        }
    }
    Ok(())
}

fn files_below(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

async fn a_worlds_attachments_come_from_allowed_addresses_alone(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let mut body = request(&key, "porch");
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
        let url = format!("{}/picture.png", stage.site().url(host));
        body["images"] = json!([{"url": url, "label": "Far away"}]);
        let world = generate(&daemon, body.clone()).await?.ok()?;
        let world = ended(&daemon, &world["world_id"]).await?;
        ensure!(world["status"] == "failed" && world["error"]["code"] == "attachment_refused", "{host}: {world}");
        let message = text(&world["error"]["message"])?;
        ensure!(message.contains("images[0]") && message.contains("world.attachment_networks"), "{message}");
    }
    ensure!(stage.site().hits("/picture.png").is_empty(), "nothing was asked for");
    daemon.assert_idle().await
}

async fn unfinished_worlds_outlive_the_daemon(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(settings()).await?;
    let key = integration(&daemon, &["--test", "trial"]).await?;
    let mut worlds = Vec::new();
    for variation in 0..50 {
        let mut body = request(&key, "porch");
        body["variation"] = json!(variation);
        worlds.push(generate(&daemon, body).await?.ok()?["world_id"].clone());
    }
    eventually!("the first is being rendered", RENDERED_WITHIN, {
        let world = daemon.api().get(&format!("/v1/worlds/{}", text(&worlds[0])?)).await?.ok()?;
        world["status"] != "queued"
    })?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.ready().await?;
    for world in &worlds {
        let reply = daemon.api().get(&format!("/v1/worlds/{}", text(world)?)).await?;
        ensure!(reply.ok()?["status"] != "failed", "{reply}");
    }
    let first = ended(&daemon, &worlds[0]).await?;
    ensure!(first["status"] == "ready" && first["test"] == true, "{first}");
    for world in &worlds {
        let gone = daemon.api().delete(&format!("/v1/worlds/{}", text(world)?)).await?;
        ensure!(gone.status == 204, "{gone}");
    }
    daemon.assert_idle().await
}

async fn a_killed_renderer_is_replaced_once(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("WORLD_SAMPLES", "4096").set("WORLD_WIDTH", "2048")).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let world = generate(&daemon, request(&key, "home")).await?.ok()?;
    let mut killed = Vec::new();
    for _ in 0..2 {
        let renderer = eventually!("a renderer runs", RENDERED_WITHIN, {
            let containers = daemon.containers().await?;
            containers.into_iter().map(|container| container.id).find(|id| !killed.contains(id))
        })?;
        daemon.docker().run(&["kill", &renderer]).await?;
        killed.push(renderer);
    }
    let world = ended(&daemon, &world["world_id"]).await?;
    ensure!(world["status"] == "failed" && world["error"]["code"] == "render_failed", "{world}");
    let again = generate(&daemon, request(&key, "home")).await?.ok()?;
    ensure!(again["cached"] == false, "what failed is tried anew: {again}");
    let gone = daemon.api().delete(&format!("/v1/worlds/{}", text(&again["world_id"])?)).await?;
    ensure!(gone.status == 204, "{gone}");
    tokio::time::timeout(Duration::from_secs(60), daemon.assert_idle()).await?
}
