//! Files beside the browser: in, out, listed, removed, limited.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Driver, Group, Settings, Stage, eventually, group, site, wire};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("WORKER_FILE_LIMIT", "1MiB").set("WORKER_TMP", "128MiB");
    group!(Some(settings),
        quick: [go_in_and_out],
        full: [
            downloads_are_listed_and_fetched,
            unsafe_names_are_refused,
            a_long_file_is_413,
            wrong_lengths_are_refused,
            many_at_once_stay_apart,
            a_full_worker_refuses_files,
            foreign_folders_are_found,
            a_drivers_foreign_folders_are_found,
            a_path_elsewhere_stands_for_an_upload,
            a_path_elsewhere_stands_for_an_upload_by_bidi,
            downloads_of_one_name_are_all_kept,
            what_a_client_forbids_is_not_stored,
            long_strings_of_a_page_end_nothing,
            many_frames_and_cookies_end_nothing,
        ],
    )
}

async fn go_in_and_out(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let put = session.put_file("data.bin", content.clone()).await?.ok()?;
    ensure!(put["path"].as_str().is_some_and(|path| path.starts_with('/') && path.ends_with("/data.bin")), "{put}");
    let listed = session.get_file("").await?.ok()?;
    let file = listed.as_array().and_then(|files| files.first()).context("one file")?;
    ensure!(file["name"] == "data.bin" && file["size"] == 100_000 && file["source"] == "upload", "{listed}");
    ensure!(file["complete"] == true, "{listed}");
    let got = session.get_file("data.bin").await?;
    ensure!(got.status == 200 && got.body == content, "{} bytes", got.body.len());
    let path = format!("/sessions/{}/files/data.bin", session.id);
    daemon.api().delete(&path).await?.ok()?;
    session.get_file("data.bin").await?.fault(404)?;
    ensure!(session.get_file("").await?.ok()? == json!([]));
    session.delete().await?.ok()?;
    Ok(())
}

async fn downloads_are_listed_and_fetched(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/downloads")).await?;
    eventually!(
        "the page is loaded",
        20,
        cdp.evaluate(&page, "document.querySelector('#file') !== null").await? == true
    )?;
    cdp.evaluate(&page, "document.querySelector('#file').click()").await?;
    eventually!("the download is complete", 20, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        files.iter().any(|file| file["name"] == "file.bin" && file["source"] == "download" && file["complete"] == true)
    })?;
    ensure!(session.get_file("file.bin").await?.body == site::file_bytes());
    session.delete().await?.ok()?;
    session.get_file("file.bin").await?.fault(404)?;
    Ok(())
}

async fn unsafe_names_are_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let long = "n".repeat(300);
    for name in ["..", "%2e%2e", "..%2fetc%2fpasswd", "a%2fb", "%00", "line%0abreak", "a%5cb", "%ff", long.as_str()] {
        let reply = session.put_file(name, "x").await?;
        ensure!(reply.status == 400 || reply.status == 404, "{name}: {reply}");
        ensure!(session.get_file(name).await?.status != 200, "{name}");
    }
    session.put_file("b%C3%BCro%20plan.txt", "x").await?.ok()?;
    let listed = session.get_file("").await?.ok()?;
    ensure!(
        listed.as_array().is_some_and(|files| files.len() == 1) && listed[0]["name"] == "büro plan.txt",
        "{listed}"
    );
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_long_file_is_413(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let path = format!("/sessions/{}/files/long.bin", session.id);
    let long = Bytes::from(vec![7; (1 << 20) + 1]);
    daemon.api().send(Method::PUT, &path, HeaderMap::new(), long).await?.fault(413)?;
    ensure!(session.get_file("").await?.ok()? == json!([]), "nothing of it stays");
    session.delete().await?.ok()?;
    Ok(())
}

async fn wrong_lengths_are_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let head = |name: &str, length: &str| {
        format!(
            "PUT /sessions/{}/files/{name} HTTP/1.1\r\nHost: localhost\r\nservice-secret-key: {}\r\n{length}\r\n",
            session.id,
            daemon.key()
        )
    };
    // More is promised than comes.
    let short = format!("{}\r\n0123456789", head("short.bin", "Content-Length: 1000"));
    let answer = wire::raw_half_closed(daemon.url(), short.as_bytes(), 4096).await?;
    ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    // More comes than is promised: what is behind the file is no request.
    let long = format!("{}\r\n0123456789", head("long.bin", "Content-Length: 4"));
    let answer = wire::raw_half_closed(daemon.url(), long.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Chunks without an end to them.
    let chunk = format!("{:x}\r\n{}\r\n", 2 << 20, "x".repeat(2 << 20));
    let endless = format!("{}\r\n{chunk}0\r\n\r\n", head("endless.bin", "Transfer-Encoding: chunked"));
    let answer = wire::raw_half_closed(daemon.url(), endless.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    for length in ["-1", "99999999999999999999", "4, 5", "0x10"] {
        let wrong = format!("{}\r\nabcd", head("wrong.bin", &format!("Content-Length: {length}")));
        let answer = wire::raw_half_closed(daemon.url(), wrong.as_bytes(), 4096).await?;
        ensure!(answer.starts_with("HTTP/1.1 400"), "{length}: {answer}");
    }
    let listed = eventually!("only the whole file is there", 10, {
        let listed = session.get_file("").await?.ok()?;
        (listed.as_array().map(Vec::len) == Some(1)).then_some(listed)
    })?;
    ensure!(listed[0]["name"] == "long.bin" && listed[0]["size"] == 4, "{listed}");
    ensure!(session.status().await? == "running");
    session.cdp().await?.call("Browser.getVersion", json!({})).await?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn many_at_once_stay_apart(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let content = |number: u8| vec![number; 200_000];
    let puts = (0..12_u8).map(|number| {
        let session = &session;
        async move {
            // Half of them under one name: the last one counts, and it is whole.
            let name =
                if number % 2 == 0 { "same.bin".to_owned() } else { format!("own {number}.bin").replace(' ', "%20") };
            session.put_file(&name, content(number)).await?.ok()
        }
    });
    for put in join_all(puts).await {
        put?;
    }
    let same = session.get_file("same.bin").await?.body;
    ensure!(same.len() == 200_000 && same.iter().all(|byte| *byte == same[0]), "one file, not two mixed");
    for number in (1..12_u8).step_by(2) {
        ensure!(session.get_file(&format!("own%20{number}.bin")).await?.body == content(number), "{number}");
    }
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_full_worker_refuses_files(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let file = vec![1; 1 << 20];
    let mut full = None;
    for number in 0..256 {
        let reply = session.put_file(&format!("{number}.bin"), file.clone()).await?;
        if reply.status != 200 {
            full = Some(reply);
            break;
        }
    }
    let fault = full.context("it never fills")?.fault(507)?;
    ensure!(fault.message.contains("worker.tmp"), "{fault:?}");
    ensure!(session.status().await? == "running");
    let path = format!("/sessions/{}/files/0.bin", session.id);
    daemon.api().delete(&path).await?.ok()?;
    session.put_file("again.bin", file[..1000].to_vec()).await?.ok()?;
    session.delete().await?.ok()?;
    Ok(())
}

/// Clicks the link of `/downloads` in a new tab of a context.
pub(crate) async fn click_download(cdp: &mut Cdp, site: &str, context: Option<&Value>) -> Result<()> {
    let mut params = json!({"url": format!("{site}/downloads")});
    if let Some(context) = context {
        params["browserContextId"] = context.clone();
    }
    let target = cdp.call("Target.createTarget", params).await?;
    let attach = json!({"targetId": target["targetId"], "flatten": true});
    let page = cdp.call("Target.attachToTarget", attach).await?["sessionId"].as_str().context("sessionId")?.to_owned();
    eventually!("the page is loaded", 20, {
        cdp.evaluate(&page, "document.querySelector('#file') !== null").await? == true
    })?;
    cdp.evaluate(&page, "document.querySelector('#file').click()").await?;
    Ok(())
}

async fn foreign_folders_are_found(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    let mut cdp = session.cdp().await?;
    // As Playwright names them on macOS and on Windows, and where a client keeps temporary files in its home.
    for folder in [
        "/var/folders/zz/abc/T/playwright-artifacts-1",
        "C:\\Users\\me\\Temp\\artifacts",
        "/home/somebody/tmp/playwright-artifacts-1",
    ] {
        let behavior = json!({"behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true});
        cdp.call("Browser.setDownloadBehavior", behavior).await?;
        click_download(&mut cdp, &site, None).await?;
        eventually!(format!("a download to {folder} is listed"), 20, {
            let listed = session.get_file("").await?.ok()?;
            let files = listed.as_array().context("a list")?;
            files.iter().any(|file| file["name"] == "file.bin" && file["complete"] == true)
        })?;
        ensure!(session.get_file("file.bin").await?.body == site::file_bytes(), "{folder}");
        daemon.api().delete(&format!("/sessions/{}/files/file.bin", session.id)).await?.ok()?;
    }
    session.delete().await?.ok()?;
    Ok(())
}

/// As Selenium sends it by `execute_cdp_cmd`, and as scripts send it by the driver's older commands.
async fn a_drivers_foreign_folders_are_found(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "chrome"})).await?;
    let params = json!({"behavior": "allow", "downloadPath": "/Users/me/Downloads"});
    for path in ["/goog/cdp/execute", "/chromium/send_command", "/chromium/send_command_and_get_result"] {
        let command = json!({"cmd": "Page.setDownloadBehavior", "params": params});
        driver.command(Method::POST, path, &command).await?.ok()?;
        driver.goto(&format!("{site}/downloads")).await?;
        driver.execute("document.querySelector('#file').click()").await?;
        eventually!(format!("a download after {path} is listed"), 20, {
            let listed = session.get_file("").await?.ok()?;
            let files = listed.as_array().context("a list")?;
            files.iter().any(|file| file["name"] == "file.bin" && file["complete"] == true)
        })?;
        ensure!(session.get_file("file.bin").await?.body == site::file_bytes(), "{path}");
        daemon.api().delete(&format!("/sessions/{}/files/file.bin", session.id)).await?.ok()?;
    }
    driver.quit().await?;
    Ok(())
}

/// As Puppeteer's `uploadFile` names them.
async fn a_path_elsewhere_stands_for_an_upload(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/upload")).await?;
    let field = "document.querySelector('#file')";
    eventually!("the page is loaded", 20, cdp.evaluate(&page, &format!("{field} !== null")).await? == true)?;
    let found = cdp.call_in(&page, "Runtime.evaluate", json!({"expression": field})).await?;
    let files = |path: &str| json!({"objectId": found["result"]["objectId"], "files": [path]});
    let Err(refusal) = cdp.call_in(&page, "DOM.setFileInputFiles", files("/home/me/cv.txt")).await else {
        anyhow::bail!("a page has a file that is not there")
    };
    let refusal = format!("{refusal:#}");
    ensure!(refusal.contains("/home/me/cv.txt") && refusal.contains("PUT /sessions/"), "{refusal}");
    ensure!(cdp.evaluate(&page, &format!("{field}.files.length")).await? == 0);
    let stored = session.put_file("cv.txt", "Ada").await?.ok()?;
    for path in [stored["path"].as_str().context("path")?, "/home/me/cv.txt", "C:\\Users\\me\\cv.txt"] {
        cdp.evaluate(&page, &format!("void ({field}.value = '')")).await?;
        cdp.call_in(&page, "DOM.setFileInputFiles", files(path)).await?;
        let content = cdp.evaluate(&page, &format!("{field}.files[0].text()")).await?;
        ensure!(content == "Ada", "{path}: {content}");
    }
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_path_elsewhere_stands_for_an_upload_by_bidi(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({})).await?;
    let wanted = json!({"browserName": "chrome", "webSocketUrl": true});
    let driver = Driver::start(session.connect_url()?, wanted).await?;
    driver.goto(&format!("{site}/upload")).await?;
    let mut bidi = Cdp::connect(driver.capabilities["webSocketUrl"].as_str().context("webSocketUrl")?).await?;
    let context = bidi.call("browsingContext.getTree", json!({})).await?["contexts"][0]["context"].clone();
    let field = json!({
        "expression": "document.querySelector('#file')", "target": {"context": context}, "awaitPromise": false,
    });
    let found = bidi.call("script.evaluate", field).await?;
    let element = json!({"sharedId": found["result"]["sharedId"]});
    let files = json!({"context": context, "element": element, "files": ["/home/me/cv.txt"]});
    let Err(refusal) = bidi.call("input.setFiles", files.clone()).await else {
        anyhow::bail!("a page has a file that is not there")
    };
    let refusal = format!("{refusal:#}");
    ensure!(refusal.contains("unable to set file input") && refusal.contains("PUT /sessions/"), "{refusal}");
    session.put_file("cv.txt", "Ada").await?.ok()?;
    bidi.call("input.setFiles", files).await?;
    let content = driver.execute("return document.querySelector('#file').files[0].text()").await?;
    ensure!(content == "Ada", "{content}");
    bidi.disconnect().await?;
    driver.quit().await?;
    Ok(())
}

/// In a context that a client opened, with ids for names, as Playwright does it.
async fn downloads_of_one_name_are_all_kept(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    let mut cdp = session.cdp().await?;
    let context = cdp.call("Target.createBrowserContext", json!({})).await?["browserContextId"].clone();
    let behavior = json!({
        "behavior": "allowAndName", "downloadPath": "/home/somebody/tmp/artifacts", "eventsEnabled": true,
        "browserContextId": context,
    });
    cdp.call("Browser.setDownloadBehavior", behavior).await?;
    for name in ["file.bin", "file (1).bin", "file (2).bin"] {
        click_download(&mut cdp, &site, Some(&context)).await?;
        eventually!(format!("{name} is listed"), 20, {
            let listed = session.get_file("").await?.ok()?;
            let files = listed.as_array().context("a list")?;
            files.iter().any(|file| file["name"] == name && file["complete"] == true)
        })?;
        ensure!(session.get_file(&name.replace(' ', "%20")).await?.body == site::file_bytes(), "{name}");
    }
    session.delete().await?.ok()?;
    Ok(())
}

async fn what_a_client_forbids_is_not_stored(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    let mut cdp = session.cdp().await?;
    // As Playwright does for `acceptDownloads: false`. What was said last counts.
    let context = cdp.call("Target.createBrowserContext", json!({})).await?["browserContextId"].clone();
    let behavior = json!({"behavior": "allow", "downloadPath": "/tmp/allowed", "browserContextId": context});
    cdp.call("Browser.setDownloadBehavior", behavior).await?;
    let behavior = json!({"behavior": "deny", "browserContextId": context, "eventsEnabled": true});
    cdp.call("Browser.setDownloadBehavior", behavior).await?;
    click_download(&mut cdp, &site, Some(&context)).await?;
    cdp.event("Browser.downloadProgress", |params| params["state"] == "canceled").await?;
    ensure!(session.get_file("").await?.ok()? == json!([]), "nothing is stored");
    session.delete().await?.ok()?;
    Ok(())
}

/// DevTools tells the agent of a download by its whole address, and of a worker by its name, which may be no Unicode; and the log of what is logged.
async fn long_strings_of_a_page_end_nothing(stage: Stage) -> Result<()> {
    const LENGTH: usize = 34 << 20;
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let body =
        json!({"headless": true, "logs": true, "url": format!("{site}/form"), "settings": {"user_agent": "long/1"}});
    let session = daemon.session(body).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    eventually!("the page is there", 20, cdp.evaluate(&page, "location.pathname").await? == "/form")?;
    let download = format!(
        "(() => {{ const link = document.createElement('a');
                   link.download = 'long.bin';
                   link.href = 'data:application/octet-stream,' + 'x'.repeat({LENGTH});
                   link.click(); }})()"
    );
    cdp.evaluate(&page, &download).await?;
    eventually!("the download is complete", 60, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        files.iter().any(|file| file["name"] == "long.bin" && file["size"] == LENGTH && file["complete"] == true)
    })?;
    let worker = format!(
        "(() => {{ const code = URL.createObjectURL(new Blob(['postMessage(navigator.userAgent)']));
                   new Worker(code, {{name: '\\ud83d' + 'x'.repeat({LENGTH})}}).onmessage = event => {{ window.told = event.data; }}; }})()"
    );
    cdp.evaluate(&page, &worker).await?;
    eventually!("the worker has the settings", 60, cdp.evaluate(&page, "window.told").await? == "long/1")?;
    cdp.evaluate(&page, &format!("console.log('long' + 'x'.repeat({LENGTH})); console.log('what comes after')"))
        .await?;
    eventually!("the log has both", 60, {
        let log = daemon.api().get(&format!("/sessions/{}/logs", session.id)).await?.ok()?.to_string();
        log.contains("longxx") && log.contains("what comes after")
    })?;
    let tab = cdp.open("about:blank").await?;
    ensure!(cdp.evaluate(&tab, "navigator.userAgent").await? == "long/1", "later tabs have the settings");
    session.delete().await?.ok()?;
    Ok(())
}

/// In one message, all frames of a page or all cookies of a browser would be longer than the agent takes.
async fn many_frames_and_cookies_end_nothing(stage: Stage) -> Result<()> {
    const FRAMES: usize = 40;
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let profile = json!({"name": "many-frames", "mode": "write"});
    let session = daemon.session(json!({"url": format!("{site}/form"), "profile": profile})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    eventually!("the page is there", 20, cdp.evaluate(&page, "location.pathname").await? == "/form")?;
    let frames = format!(
        "(() => {{ localStorage.kept = 'whatever the frames are';
                   for (let at = 0; at < {FRAMES}; at++) {{
                     const frame = document.createElement('iframe');
                     frame.src = 'about:blank#' + 'x'.repeat(1 << 20);
                     document.body.append(frame);
                   }} }})()"
    );
    cdp.evaluate(&page, &frames).await?;
    eventually!("the frames are there", 60, cdp.evaluate(&page, "window.frames.length").await? == FRAMES)?;
    session.delete().await?.ok()?;
    let ended = session.becomes("terminated", 60).await?;
    ensure!(ended["reason"] == "deleted" && ended["profile"]["saved_at"].is_u64(), "{ended}");
    let state = daemon.api().get("/profiles/many-frames/state").await?.ok()?.to_string();
    ensure!(state.contains("whatever the frames are"), "{state}");

    // One site may have 180 cookies, and JSON may write each of these letters as six.
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    for site in 0..29 {
        let domain = format!("shop{site}.example");
        let cookie = |at| json!({"name": format!("c{at}"), "value": "é".repeat(2000), "domain": domain, "path": "/"});
        let cookies: Vec<Value> = (0..100).map(cookie).collect();
        cdp.call("Storage.setCookies", json!({"cookies": cookies})).await?;
    }
    // They are too many to be told, or are told.
    daemon.api().get(&format!("/sessions/{}/state", session.id)).await?;
    cdp.call("Browser.getVersion", json!({})).await.context("the browser goes on")?;
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    session.delete().await?.ok()?;
    Ok(())
}
