//! Calls on pages: one request, one fresh browser, one answer.

use std::io::Cursor;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use image::{GenericImageView as _, ImageFormat};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Reply, Settings, Stage, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [a_page_is_read_printed_pictured_and_scraped, a_page_is_read_as_data],
        full: [
            pictures_show_what_was_asked_for,
            documents_have_the_sheets_that_were_asked_for,
            the_browser_is_what_the_call_says,
            calls_wait_for_what_they_name,
            requests_stop_at_the_daemon,
            a_password_goes_to_its_own_site,
        ],
    )
}

/// A call that succeeds.
pub(crate) async fn call(daemon: &Daemon, path: &str, body: Value) -> Result<Reply> {
    let reply = daemon.api().post(path, &body).await?;
    ensure!(reply.status == 200, "{path} {body}: {reply}");
    Ok(reply)
}

/// How many sheets a document has.
fn sheets(document: &[u8]) -> usize {
    let text = String::from_utf8_lossy(document);
    text.matches("/Type /Page\n").count()
}

async fn a_page_is_read_printed_pictured_and_scraped(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let url = format!("{site}/brewing");
    for prefix in ["", "/chrome", "/edge"] {
        let token = format!("token={}", daemon.key());
        let path = format!("{prefix}/content?{token}");
        let reply = daemon.api().without_key().post(&path, &json!({"url": url})).await?;
        ensure!(reply.status == 200 && reply.text().starts_with("<!DOCTYPE html><html>"), "{reply}");
        ensure!(reply.headers["content-type"] == "text/html; charset=utf-8", "{:?}", reply.headers);
        let (ip, port) = site.trim_start_matches("http://").split_once(':').context("the site's port")?;
        for (name, value) in [("code", "200"), ("status", "OK"), ("ip", ip), ("port", port), ("url", url.as_str())] {
            ensure!(reply.headers[format!("x-response-{name}")] == value, "{name}: {:?}", reply.headers);
        }

        let document = call(daemon, &format!("{prefix}/pdf"), json!({"url": url})).await?;
        ensure!(document.headers["content-type"] == "application/pdf", "{:?}", document.headers);
        ensure!(document.body.starts_with(b"%PDF-") && document.body.trim_ascii_end().ends_with(b"%%EOF"));

        let picture = call(daemon, &format!("{prefix}/screenshot"), json!({"url": url})).await?;
        ensure!(picture.headers["content-type"] == "image/png", "{:?}", picture.headers);
        image::load_from_memory_with_format(&picture.body, ImageFormat::Png)?;

        let elements = json!({"url": url, "elements": [{"selector": ".tea"}, {"selector": "#late"}]});
        let scraped = call(daemon, &format!("{prefix}/scrape"), elements).await?.ok()?;
        let first = &scraped["data"][0];
        ensure!(
            first["selector"] == ".tea" && first["results"].as_array().is_some_and(|all| all.len() == 2),
            "{scraped}"
        );
        let tea = &first["results"][0];
        ensure!(tea["text"] == "one" && tea["html"] == "one" && tea["width"].as_f64() > Some(100.0), "{tea}");
        ensure!(tea["attributes"][1] == json!({"name": "data-grams", "value": "5"}), "{tea}");
        ensure!(scraped["data"][1]["results"][0]["top"].as_f64() > Some(3000.0), "{scraped}");
    }
    daemon.assert_idle().await
}

async fn picture(daemon: &Daemon, body: Value) -> Result<(u32, u32)> {
    let reply = call(daemon, "/screenshot", body).await?;
    Ok(image::load_from_memory(&reply.body)?.dimensions())
}

async fn a_page_is_read_as_data(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    reads(daemon, &site, "chromium").await?;
    let rows = json!({"url": format!("{site}/tab/1"), "extract": {"rows": "h1", "schema": {"name": {}}}});
    ensure!(call(daemon, "/read", rows).await?.ok()?["data"].as_array().is_some_and(|rows| rows.len() == 1));
    let theirs = json!({"url": format!("{site}/brewing"), "robots": "TeaBot"});
    ensure!(daemon.api().post("/read", &theirs).await?.fault(403)?.message.contains("TeaBot"));
    // More than all of a body may take together.
    let patterns: serde_json::Map<_, _> =
        (100..300).map(|at| (format!("f{at}"), json!({"type": "regex", "pattern": "\\w+"}))).collect();
    for (extract, field) in [
        (json!({"schema": {"a": {"type": "nonsense"}}}), "extract.schema.a.type"),
        (json!({"schema": {"a": "{{input.x}}"}}), "extract"),
        (json!({"schema": {"a": "h1"}, "next": "a"}), "extract.next"),
        (json!({"rows": "p", "builtins": ["article"]}), "extract.rows"),
        (json!({"schema": patterns}), "extract.schema.f228.pattern"),
    ] {
        let fault = daemon.api().post("/read", &json!({"html": "x", "extract": extract})).await?.fault(400)?;
        ensure!(fault.field == field, "{extract}: {fault:?}");
    }
    for robots in [json!("a bot"), json!(""), json!("x".repeat(65))] {
        let fault = daemon.api().post("/read", &json!({"html": "x", "robots": robots})).await?.fault(400)?;
        ensure!(fault.field == "robots", "{fault:?}");
    }
    // What a fleet reads of a page is what the call reads.
    let words = "Sencha is steamed after it was picked, and keeps its colour. ".repeat(12);
    let url = format!("data:text/html,<title>Sencha</title><nav>Shop</nav><article><p>{words}<p>{words}</article>");
    let work = json!({"extract": {"url": "{{input.url}}", "builtins": ["article"]}, "urls": [url], "wait": 60});
    let task = daemon.api().post("/lam/fleet", &work).await?.ok()?;
    let items =
        daemon.api().get(&format!("/lam/tasks/{}?format=ndjson", task["taskId"].as_str().context("an id")?)).await?;
    let row: Value = serde_json::from_slice(&items.body).with_context(|| items.to_string())?;
    let article = &row["article"];
    ensure!(article["title"] == "Sencha" && article["metadata"]["is_article"] == true, "{row}");
    ensure!(
        article["markdown"].as_str().is_some_and(|text| text.contains("steamed") && !text.contains("Shop")),
        "{row}"
    );
    Ok(())
}

/// What `/read` has beside a page's main content.
pub(crate) async fn reads(daemon: &Daemon, site: &str, engine: &str) -> Result<()> {
    let path = format!("/read?browser={engine}");
    let url = format!("{site}/brewing");
    let one = json!({"schema": {"title": "h1", "teas": {"selector": ".tea", "type": "list"}}});
    let body = json!({"url": url, "extract": one, "screenshot": true, "robots": true});
    let read = call(daemon, &path, body).await?.ok()?;
    ensure!(read["data"]["teas"][1] == "two" && read["url"] == url, "{engine}: {read}");
    let picture = STANDARD.decode(read["screenshot"].as_str().context("a picture")?)?;
    image::load_from_memory_with_format(&picture, ImageFormat::Png)?;
    // A site says who may read what.
    let reply = daemon.api().post(&path, &json!({"url": format!("{site}/tab/1"), "robots": true})).await?;
    let fault = reply.fault(403)?;
    ensure!(fault.code == "refused_by_robots" && fault.field == "robots", "{engine}: {fault:?}");
    Ok(())
}

async fn pictures_show_what_was_asked_for(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let html = "<body style='margin:0;background:red'><div id=box style='width:200px;height:50px;margin:10px;background:blue'>\
        </div><div style='height:2000px'></div>";
    let viewport = json!({"width": 400, "height": 300});
    let shown = |more: Value| {
        let mut body = json!({"html": html, "viewport": viewport});
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        body
    };
    ensure!(picture(daemon, shown(json!({}))).await? == (400, 300));
    let (width, height) = picture(daemon, shown(json!({"options": {"fullPage": true}}))).await?;
    ensure!(width == 400 && (2060..2080).contains(&height), "{width} {height}");
    ensure!(picture(daemon, shown(json!({"selector": "#box"}))).await? == (200, 50));
    let twice = json!({"viewport": {"width": 400, "height": 300, "deviceScaleFactor": 2}, "scrollPage": true});
    ensure!(picture(daemon, shown(twice)).await? == (800, 600));
    let clip = json!({"options": {"clip": {"x": 10, "y": 10, "width": 20, "height": 30, "scale": 2}}});
    ensure!(picture(daemon, shown(clip)).await? == (40, 60));

    for (kind, format) in [("jpeg", ImageFormat::Jpeg), ("webp", ImageFormat::WebP)] {
        let reply = call(daemon, "/screenshot", shown(json!({"options": {"type": kind, "quality": 50}}))).await?;
        ensure!(reply.headers["content-type"] == format!("image/{kind}"), "{:?}", reply.headers);
        ensure!(image::guess_format(&reply.body)? == format, "{kind}");
    }
    let coded = call(daemon, "/screenshot", shown(json!({"options": {"encoding": "base64"}}))).await?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &coded.body)?;
    image::ImageReader::with_format(Cursor::new(decoded), ImageFormat::Png).decode()?;
    let clear = json!({"html": "<p>tea", "options": {"omitBackground": true}});
    let reply = call(daemon, "/screenshot", clear).await?;
    ensure!(image::load_from_memory(&reply.body)?.get_pixel(5, 5).0[3] == 0, "the background is drawn");

    let tall = json!({"html": "<div style='height:20000px'>", "options": {"fullPage": true}});
    let fault = daemon.api().post("/screenshot", &tall).await?.fault(400)?;
    ensure!(fault.field == "options.fullPage" && fault.message.contains("options.clip"), "{fault:?}");
    let fault = daemon.api().post("/screenshot", &shown(json!({"selector": "#cup"}))).await?.fault(400)?;
    ensure!(fault.field == "selector", "{fault:?}");
    daemon.assert_idle().await
}

async fn documents_have_the_sheets_that_were_asked_for(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let html = "<style>section{break-after:page}</style>".to_owned() + &"<section>tea</section>".repeat(7);
    let document = async |options: Value| -> Result<Bytes> {
        Ok(call(daemon, "/pdf", json!({"html": html, "options": options})).await?.body)
    };
    ensure!(sheets(&document(json!({})).await?) >= 7);
    ensure!(sheets(&document(json!({"pageRanges": "2-3, 5"})).await?) == 3);
    let has =
        |document: &[u8], size: &str| String::from_utf8_lossy(document).contains(&format!("/MediaBox [0 0 {size}]"));
    ensure!(has(&document(json!({"pageRanges": "1"})).await?, "612 792"), "letter");
    ensure!(
        has(&document(json!({"pageRanges": "1", "format": "A4", "landscape": true})).await?, "841.91998 595.91998"),
        "A4"
    );
    ensure!(
        has(&document(json!({"pageRanges": "1", "width": "10in", "height": 480})).await?, "720 360"),
        "10in by 480px"
    );
    let header = json!({"displayHeaderFooter": true, "headerTemplate": "<p class=title>", "margin": {"top": "2cm"}, "pageRanges": "1"});
    document(header).await?;
    let long = "<h1>One</h1>".to_owned() + &"<p>tea</p>".repeat(300);
    for full in [true, false] {
        let reply = call(daemon, "/pdf", json!({"html": long, "options": {"fullPage": full}})).await?;
        ensure!((sheets(&reply.body) == 1) == full, "{} sheets", sheets(&reply.body));
    }
    let fault = daemon.api().post("/pdf", &json!({"html": "x", "options": {"pageRanges": "9-1"}})).await?.fault(400)?;
    ensure!(fault.field == "options.pageRanges", "{fault:?}");
    daemon.assert_idle().await
}

async fn the_browser_is_what_the_call_says(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let body = json!({
        "url": format!("{site}/headers"),
        "cookies": [{"name": "kind", "value": "green"}],
        "userAgent": "Tea/1",
        "setExtraHTTPHeaders": {"x-grams": "5"},
        "gotoOptions": {"referer": "http://elsewhere.example/"},
    });
    let sent = call(daemon, "/content", body).await?.text();
    for part in ["kind=green", "Tea/1", r#""x-grams":"5""#, "elsewhere.example"] {
        ensure!(sent.contains(part), "{part}: {sent}");
    }
    let asked = "<p id=p></p><script>p.textContent = [matchMedia('print').matches, innerWidth, devicePixelRatio, \
        navigator.maxTouchPoints > 0]</script>";
    let viewport = json!({"width": 321, "height": 200, "deviceScaleFactor": 3, "hasTouch": true});
    let body = json!({"html": asked, "emulateMediaType": "print", "viewport": viewport});
    let seen = call(daemon, "/content", body).await?.text();
    ensure!(seen.contains(">true,321,3,true<"), "{seen}");
    let still = call(daemon, "/content", json!({"html": asked, "setJavaScriptEnabled": false})).await?.text();
    ensure!(still.contains(r#"<p id="p"></p>"#), "{still}");
    // Of the client's own, in this order: a style, a script, and a function that sees both.
    let added = json!({
        "html": "<p id=p>tea</p>",
        "addStyleTag": [{"content": "#p { color: rgb(1, 2, 3) }"}],
        "addScriptTag": [{"content": "p.title = getComputedStyle(p).color"}],
        "waitForFunction": {"fn": "() => document.title = p.title"},
    });
    ensure!(call(daemon, "/content", added).await?.text().contains("rgb(1, 2, 3)</title>"));
    daemon.assert_idle().await
}

async fn calls_wait_for_what_they_name(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/brewing", stage.site_for(daemon).await?);
    for wait in [
        json!({"waitForTimeout": 1500}),
        json!({"waitForSelector": {"selector": "#late", "visible": true}}),
        json!({"waitForFunction": {"fn": "async () => document.querySelector('#late')", "polling": 50}}),
        json!({"waitForFunction": {"fn": "document.querySelector('#late') !== null", "polling": "mutation"}}),
        json!({"waitForEvent": {"event": "brewed"}}),
        json!({"waitForSelector": {"selector": "#late"}, "waitForEvent": {"event": "brewed"}}),
    ] {
        let mut body = json!({"url": url, "gotoOptions": {"waitUntil": "domcontentloaded"}});
        body.as_object_mut().context("an object")?.extend(wait.as_object().context("an object")?.clone());
        ensure!(call(daemon, "/content", body).await?.text().contains("<p id=\"late\">"), "{wait}");
    }
    for idle in ["networkidle0", "networkidle2"] {
        call(daemon, "/content", json!({"url": url, "gotoOptions": {"waitUntil": ["load", idle]}})).await?;
    }
    for (field, wait) in [
        ("waitForSelector", json!({"selector": "#never", "timeout": 300})),
        ("waitForFunction", json!({"fn": "() => 0", "timeout": 300})),
        ("waitForEvent", json!({"event": "spilled", "timeout": 300})),
    ] {
        let mut body = json!({"url": url});
        body[field] = wait;
        let fault = daemon.api().post("/content", &body).await?.fault(408)?;
        ensure!(fault.code == "page_timeout" && fault.field == field, "{fault:?}");
        body["bestAttempt"] = json!(true);
        ensure!(call(daemon, "/content", body).await?.text().contains("Sencha"), "{field}");
    }
    daemon.assert_idle().await
}

async fn requests_stop_at_the_daemon(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let port = site.rsplit(':').next().unwrap_or_default();
    let html = format!(
        "<img src={site}/pixel.png?call onerror=\"document.title += 'i'\"><iframe src='http://localhost:{port}/frame'></iframe>\
         <script>fetch('{site}/api/data?call').catch(() => document.title += 'f');\
         fetch('https://tea.example/menu').then((it) => it.text()).then((it) => document.title += it)</script>"
    );
    let body = json!({
        "html": html,
        "rejectResourceTypes": ["image"],
        "rejectRequestPattern": ["/api/data\\?call$"],
        "requestInterceptors": [
            {"pattern": "^https://tea\\.example/", "response": {"status": 200, "contentType": "text/plain",
                "headers": {"access-control-allow-origin": "*"}, "body": "m"}},
            {"pattern": "^http://localhost:", "response": {"contentType": "text/html", "body":
                "<script>top.postMessage('o', '*')</script><img src=https://elsewhere.example/x.png onerror=\"top.postMessage('n', '*')\">"}},
        ],
        "addScriptTag": [{"content": "onmessage = (it) => document.title += it.data"}],
        "waitForFunction": {"fn": "() => ['i', 'f', 'm'].every((it) => document.title.includes(it))", "timeout": 10000},
    });
    call(daemon, "/content", body).await?;
    ensure!(stage.site().hits("/pixel.png").iter().all(|hit| !hit.line.contains("?call")), "the image was asked for");
    ensure!(stage.site().hits("/api/data").iter().all(|hit| !hit.line.ends_with("?call")), "the data was asked for");

    // A frame of another site, which has a process of its own.
    let framed = json!({
        "url": format!("{site}/brewing"),
        "addScriptTag": [{"content": format!("const it = document.createElement('iframe'); it.src = 'http://localhost:{port}/x'; \
            onmessage = (it) => document.title += it.data; document.body.append(it)")}],
        "rejectRequestPattern": ["in-a-frame"],
        "requestInterceptors": [{"pattern": "^http://localhost:", "response": {"contentType": "text/html", "body": format!(
            "<script>fetch('{site}/in-a-frame').catch(() => top.postMessage('rejected', '*'))</script>")}}],
        "waitForFunction": {"fn": "() => document.title.includes('rejected')", "timeout": 10000},
    });
    call(daemon, "/content", framed).await?;
    ensure!(stage.site().hits("/in-a-frame").is_empty(), "a frame's request did not stop");
    daemon.assert_idle().await
}

async fn a_password_goes_to_its_own_site(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/private", stage.site_for(daemon).await?);
    let with = |password: &str| json!({"url": url, "authenticate": {"username": "tea", "password": password}});
    ensure!(call(daemon, "/content", with("pot")).await?.text().contains("Come in"));
    let refused = call(daemon, "/content", with("cup")).await?;
    ensure!(refused.headers["x-response-code"] == "401", "{:?}", refused.headers);
    let fault = daemon.api().post("/content", &json!({"url": url})).await?.fault(500)?;
    ensure!(fault.message.contains("`authenticate`"), "{fault:?}");
    ensure!(!daemon.log_text().contains("dGVhOnBvdA"), "the password is in the log");
    daemon.assert_idle().await
}
