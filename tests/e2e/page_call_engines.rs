//! Calls on pages in Firefox and WebKit: what their drivers can do, and what is refused by name.

use anyhow::{Context as _, Result, ensure};
use image::GenericImageView as _;
use serde_json::{Value, json};
use warmpool_tests::{Group, Settings, Stage, group};

use crate::page_calls::{call, reads};

pub(crate) fn group() -> Group {
    let settings = Settings::on_demand().set("POOL_FIREFOX_HEADLESS", "1").set("POOL_WEBKIT_HEADLESS", "1");
    group!(Some(settings),
        quick: [],
        full: [firefox_answers_calls, webkit_answers_calls],
    )
}

async fn answers(stage: &Stage, engine: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let url = format!("{site}/brewing");
    let path = |call: &str| format!("/{call}?browser={engine}");

    let body = json!({"url": url, "waitForSelector": {"selector": "#late", "visible": true}, "waitForEvent": {"event": "brewed"}});
    let page = call(daemon, &path("content"), body).await?;
    ensure!(page.text().contains("<p id=\"late\">") && page.headers["x-response-url"] == url, "{page}");
    let html = json!({
        "html": "<p id=p>tea</p><script>document.title = 'a'</script>",
        "userAgent": "Tea/1",
        "addScriptTag": [{"content": "document.title += navigator.userAgent"}],
        "waitForFunction": {"fn": "async () => document.title === 'aTea/1'", "timeout": 5000},
    });
    call(daemon, &path("content"), html).await?;

    let viewport = json!({"width": 640, "height": 400});
    for (more, high) in [(json!({}), 400..401), (json!({"fullPage": true}), 3000..4000)] {
        let body = json!({"url": url, "viewport": viewport, "options": more});
        let picture = call(daemon, &path("screenshot"), body).await?;
        let (width, height) = image::load_from_memory(&picture.body)?.dimensions();
        ensure!(width == 640 && high.contains(&height), "{more}: {width} by {height}");
    }
    let element = call(daemon, &path("screenshot"), json!({"url": url, "selector": "h1"})).await?;
    ensure!(image::load_from_memory(&element.body)?.dimensions().1 < 60);

    let body = json!({"url": url, "elements": [{"selector": ".tea"}]});
    let scraped = call(daemon, &path("scrape"), body).await?.ok()?;
    ensure!(scraped["data"][0]["results"][1]["text"] == "two", "{scraped}");

    reads(daemon, &site, engine).await?;

    let api = daemon.api();
    for (kind, body, field) in [
        ("content", json!({"url": url, "cookies": [{"name": "a", "value": "b"}]}), "cookies"),
        ("content", json!({"url": url, "gotoOptions": {"waitUntil": "networkidle0"}}), "gotoOptions.waitUntil"),
        ("screenshot", json!({"url": url, "options": {"type": "jpeg"}}), "options.type"),
        ("screenshot", json!({"url": url, "selector": "#cup"}), "selector"),
        ("content", json!({"html": "x", "waitForFunction": {"fn": "() => nonsense()"}}), "waitForFunction.fn"),
    ] {
        let fault = api.post(&path(kind), &body).await?.fault(400).with_context(|| body.to_string())?;
        ensure!(fault.field == field, "{body}: {fault:?}");
    }
    for (body, reason) in [
        (json!({"url": "http://nowhere.invalid/"}), "ERR_NAME_NOT_RESOLVED"),
        (json!({"url": "http://127.0.0.1:4444/"}), "egress.allow"),
    ] {
        let fault = api.post(&path("content"), &body).await?.fault(500)?;
        ensure!(fault.message.contains(reason), "{fault:?}");
    }
    for code in ["() => new Promise(() => {})", "() => { for (;;); }"] {
        let body = json!({"html": "x", "waitForFunction": {"fn": code, "timeout": 700}});
        let fault = api.post(&path("content"), &body).await?.fault(408)?;
        ensure!(fault.field == "waitForFunction", "{code}: {fault:?}");
    }
    let slow: Value = json!({"url": format!("{site}/slow?ms=20000"), "gotoOptions": {"timeout": 700}});
    ensure!(api.post(&path("content"), &slow).await?.fault(408)?.field == "gotoOptions.timeout");
    Ok(())
}

async fn firefox_answers_calls(stage: Stage) -> Result<()> {
    answers(&stage, "firefox").await?;
    let daemon = stage.daemon()?;
    let options = json!({"format": "A4", "pageRanges": "1", "margin": {"top": "1cm"}, "printBackground": true});
    let document = call(daemon, "/pdf?browser=firefox", json!({"html": "<h1>Tea</h1>", "options": options})).await?;
    ensure!(document.body.starts_with(b"%PDF-") && document.body.trim_ascii_end().ends_with(b"%%EOF"));
    daemon.assert_idle().await
}

async fn webkit_answers_calls(stage: Stage) -> Result<()> {
    answers(&stage, "webkit").await?;
    let daemon = stage.daemon()?;
    let fault = daemon.api().post("/pdf?browser=webkit", &json!({"html": "x"})).await?.fault(400)?;
    ensure!(fault.field == "browser" && fault.code == "not_supported", "{fault:?}");
    daemon.assert_idle().await
}
