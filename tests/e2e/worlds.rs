//! Worlds: asked for, rendered by a real renderer in its container, shown, and forgotten. Scenes are as small as they may
//! be, so that a case takes seconds.

use std::fs;
use std::io::Cursor;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use warmpool_tests::api::Reply;
use warmpool_tests::secrecy::{contains, files_below};
use warmpool_tests::{Daemon, Group, Settings, Stage, docker, eventually, group};

/// Seconds that the smallest scene may take on a busy machine.
const RENDERED_WITHIN: u64 = 240;
pub(crate) const PATIENT: &str = "patient-4711";
const NAME: &str = "Ottilie Überschär";

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_world_is_made_shown_and_forgotten,
            a_worlds_attachments_come_from_allowed_addresses_alone,
            unfinished_worlds_outlive_the_daemon,
            a_killed_renderer_is_replaced_once,
            a_renderer_that_was_left_is_removed,
        ],
    )
}

pub(crate) fn settings() -> Settings {
    Settings::on_demand().set("WORLD_WIDTH", "256").set("WORLD_PREVIEW_WIDTH", "128").set("WORLD_SAMPLES", "2")
}

/// A picture of one colour, as PNG in base64.
pub(crate) fn picture() -> Result<String> {
    let mut bytes = Cursor::new(Vec::new());
    image::RgbImage::from_pixel(64, 48, image::Rgb([180, 90, 40])).write_to(&mut bytes, image::ImageFormat::Png)?;
    Ok(STANDARD.encode(bytes.into_inner()))
}

pub(crate) async fn integration(daemon: &Daemon, arguments: &[&str]) -> Result<String> {
    let arguments = [&["integration-key", "create"], arguments].concat();
    Ok(daemon.cli_ok(&arguments).await?.trim().to_owned())
}

pub(crate) async fn generate(daemon: &Daemon, body: Value) -> Result<Reply> {
    daemon.api().without_key().post("/v1/world/generate", &body).await
}

pub(crate) fn request(key: &str, environment: &str) -> Value {
    json!({"api_key": key, "patient_id": PATIENT, "patient_name": NAME, "environment_type": environment})
}

/// Waits until a world has ended; returns it.
pub(crate) async fn ended(daemon: &Daemon, id: &Value) -> Result<Value> {
    let path = format!("/v1/worlds/{}", id.as_str().context("an id")?);
    eventually!("the world has ended", RENDERED_WITHIN, {
        let world = daemon.api().get(&path).await?.ok()?;
        matches!(world["status"].as_str(), Some("ready" | "failed")).then_some(world)
    })
}

/// The path of one of the service's own URLs.
pub(crate) fn path(daemon: &Daemon, url: &Value) -> Result<String> {
    let url = url.as_str().with_context(|| format!("a URL: {url}"))?;
    Ok(url.strip_prefix(daemon.url()).with_context(|| url.to_owned())?.to_owned())
}

pub(crate) async fn log(daemon: &Daemon, query: &str) -> Result<Vec<Value>> {
    let answer = daemon.api().get(&format!("/v1/requests?{query}")).await?.ok()?;
    Ok(answer["requests"].as_array().context("requests")?.clone())
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
    attachments_are_shown(&daemon, &world).await?;

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
        for word in [PATIENT, NAME, "thimble", "Exif", "xmpMM", "Blender"] {
            ensure!(!contains(&reply.body, word), "{asset} says {word}");
        }
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
    let attachment = anybody.get(&path(&daemon, &world["items"][0]["picture_url"])?).await?;
    ensure!(attachment.status == 404, "so is that of an attachment: {attachment}");
    let renewed = path(&daemon, &renewed["viewer_url"])?;
    ensure!(anybody.get(&renewed).await?.status == 200);
    let export = daemon.api().get(&format!("/v1/patients/{PATIENT}/export")).await?;
    ensure!(export.body.starts_with(b"PK") && contains(&export.body, "panorama.jpg"), "{}", export.status);
    daemon.keeps_secret(&[PATIENT, NAME, "thimble", "By the sea"]).await?;
    let files = files_below(&daemon.data_dir().join("worlds"))?;
    ensure!(!files.is_empty(), "its files are elsewhere");
    for file in files {
        let bytes = fs::read(&file)?;
        ensure!(image::guess_format(&bytes).is_err(), "{} can be read without a key", file.display());
    }

    let forgotten = daemon.api().delete(&format!("/v1/patients/{PATIENT}")).await?.ok()?;
    ensure!(forgotten == json!({"worlds": 1, "patients": 1}), "{forgotten}");
    ensure!(anybody.get(&renewed).await?.status == 404);
    ensure!(log(&daemon, &format!("patient_id={PATIENT}")).await?.len() == 3, "rows stay");
    let rows = log(&daemon, "").await?;
    ensure!(rows[0]["patient_id"].is_null() && rows[0]["payload"] == "1 image, 2 belongings", "{}", rows[0]);
    ensure!(files_below(&daemon.data_dir().join("worlds"))?.is_empty(), "no file stays");
    daemon.assert_idle().await
}

/// Whoever may open the viewer gets the attached pictures, and nobody else.
async fn attachments_are_shown(daemon: &Daemon, world: &Value) -> Result<()> {
    let anybody = daemon.api().without_key();
    let (viewer, item) = (path(daemon, &world["viewer_url"])?, &world["items"][0]);
    let corners = item["corners"].as_array().context("corners")?;
    ensure!(corners.len() == 4 && corners.iter().all(|corner| corner["pitch"].is_number()), "{item}");
    let [upper_left, upper_right, _, lower_left] = corners.as_slice() else { anyhow::bail!("{item}") };
    ensure!(upper_left["pitch"].as_f64() > lower_left["pitch"].as_f64(), "the upper one is above: {item}");
    ensure!(upper_left["yaw"].as_f64() < upper_right["yaw"].as_f64(), "the left one is to the left: {item}");
    let address = path(daemon, &item["picture_url"])?;
    let name = address.strip_prefix(&format!("{viewer}/")).context("an address of the viewer")?;
    let picture = anybody.get(&address).await?;
    ensure!(picture.header("content-type") == Some("image/jpeg"), "{picture}");
    let read = image::load_from_memory(&picture.body)?;
    ensure!((read.width(), read.height()) == (64, 48), "{} x {}", read.width(), read.height());
    ensure!(picture.header("cache-control").is_some_and(|value| value.contains("no-store")), "{:?}", picture.headers);
    let scene = anybody.get(&format!("{viewer}/scene.json")).await?.ok()?;
    ensure!(scene["items"][0]["picture_url"] == name, "the viewer's page knows it by its name: {scene}");
    ensure!(world["items"][1]["picture_url"].is_null(), "a belonging without a picture has none: {world}");
    for other in ["picture-1.jpg", "picture-00.jpg", "upload-0", "..%2Fpicture-0.jpg"] {
        let reply = anybody.get(&format!("{viewer}/{other}")).await?;
        ensure!(reply.fault(404)?.code == "unknown_file", "{other}: {reply}");
    }
    let id = text(&world["world_id"])?;
    let reply = anybody.get(&format!("/w/{id}.{}/{name}", "A".repeat(22))).await?;
    ensure!(reply.fault(404)?.code == "unknown_viewer", "{reply}");
    Ok(())
}

pub(crate) fn text(value: &Value) -> Result<&str> {
    value.as_str().context("a text")
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

/// A container whose daemon was killed while the engine made it shows up after the next daemon has looked around.
async fn a_renderer_that_was_left_is_removed(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("DOCKER_RECONCILE_INTERVAL", "1s")).await?;
    let instance = format!("warmpool.instance={}", daemon.instance()?);
    let image = docker::image("scene");
    let name = format!("warmpool-left-{}", daemon.instance()?);
    let worker = format!("warmpool.worker=left-{}", daemon.instance()?);
    let labels = ["--label", &instance, "--label", &worker, "--label", "warmpool.renderer=earlier"];
    let create = [&["create", "--name", &name], &labels[..], &[&image]].concat();
    daemon.docker().run(&create).await?;
    daemon.assert_idle().await
}

/// As soon as there is a preview, the viewer knows where to look first and where the pictures hang.
async fn its_places_come_with_the_preview(daemon: &Daemon, id: &Value) -> Result<()> {
    let path_of_world = format!("/v1/worlds/{}", text(id)?);
    let world = eventually!("the preview is there", RENDERED_WITHIN, {
        let world = daemon.api().get(&path_of_world).await?.ok()?;
        ensure!(world["status"] != "failed", "{world}");
        (!world["assets"]["preview_url"].is_null()).then_some(world)
    })?;
    ensure!(world["status"] == "rendering" && world["assets"]["panorama_url"].is_null(), "{world}");
    let scene = path(daemon, &world["viewer_url"])? + "/scene.json";
    let scene = daemon.api().without_key().get(&scene).await?.ok()?;
    ensure!(scene["preview"] == true && scene["panorama"] == false, "{scene}");
    for item in [&world["items"][0], &scene["items"][0]] {
        ensure!(item["placed"] == true && item["corners"].is_array(), "the picture hangs somewhere: {item}");
        ensure!(item["yaw"] == scene["initial_yaw"], "and the viewer faces it: {scene}");
    }
    Ok(())
}

/// Kills a renderer that runs, but for these. The engine also lists one that has not begun yet, or that has just ended.
async fn kill_renderer(daemon: &Daemon, but: &[String]) -> Result<Option<String>> {
    for container in daemon.containers().await? {
        if !but.contains(&container.id) && daemon.docker().run(&["kill", &container.id]).await.is_ok() {
            return Ok(Some(container.id));
        }
    }
    Ok(None)
}

async fn a_killed_renderer_is_replaced_once(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("WORLD_SAMPLES", "1024").set("WORLD_WIDTH", "2048")).await?;
    let key = integration(&daemon, &["ward"]).await?;
    let mut body = request(&key, "home");
    body["images"] = json!([{"data": picture()?, "label": "By the sea"}]);
    let world = generate(&daemon, body.clone()).await?.ok()?;
    its_places_come_with_the_preview(&daemon, &world["world_id"]).await?;
    let mut killed = Vec::new();
    for _ in 0..2 {
        killed.push(eventually!("a renderer is killed", RENDERED_WITHIN, kill_renderer(&daemon, &killed).await?)?);
    }
    let world = ended(&daemon, &world["world_id"]).await?;
    ensure!(world["status"] == "failed" && world["error"]["code"] == "render_failed", "{world}");
    let again = generate(&daemon, body).await?.ok()?;
    ensure!(again["cached"] == false, "what failed is tried anew: {again}");
    let gone = daemon.api().delete(&format!("/v1/worlds/{}", text(&again["world_id"])?)).await?;
    ensure!(gone.status == 204, "{gone}");
    tokio::time::timeout(Duration::from_secs(60), daemon.assert_idle()).await?
}
