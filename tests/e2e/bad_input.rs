//! Requests that are wrong: each gets a clear answer, and none costs a browser.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use warmpool_tests::{Group, Settings, Stage, group, webdriver, wire};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [wrong_fields_are_named, malformed_json_is_400, sizes_are_limited],
        full: [
            another_content_type_is_415,
            unknown_paths_and_methods,
            unknown_sessions_are_404,
            lists_check_their_query,
            unknown_and_repeated_parameters_are_refused,
            a_request_names_one_host,
        ],
    )
}

async fn wrong_fields_are_named(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    // The field as it must be named; a list's element may add its place.
    let both: Vec<(Value, &str)> = vec![
        (json!({"colour": 1}), "colour"),
        (json!({"url": 5}), "url"),
        (json!({"url": "no scheme"}), "url"),
        (json!({"headless": "yes"}), "headless"),
        (json!({"session_timeout": "5"}), "session_timeout"),
        (json!({"session_timeout": 0}), "session_timeout"),
        (json!({"session_timeout": -1}), "session_timeout"),
        (json!({"session_timeout": 1.5}), "session_timeout"),
        (json!({"session_timeout": 86_401}), "session_timeout"),
        (json!({"idle_timeout": 0}), "idle_timeout"),
        (json!({"keep_alive": 1}), "keep_alive"),
        (json!({"service_passcode": 7}), "service_passcode"),
        (json!({"browser_type": "opera"}), "browser_type"),
        (json!({"browser_type": 1}), "browser_type"),
        (json!({"settings": []}), "settings"),
        (json!({"settings": {"timezone": "Europe/Atlantis"}}), "settings.timezone"),
        (json!({"settings": {"locales": "de-DE"}}), "settings.locales"),
        (json!({"settings": {"locales": ["de-DE", 4]}}), "settings.locales"),
        (json!({"settings": {"locales": ["not a locale"]}}), "settings.locales"),
        (json!({"settings": {"locales": ["en-US", "de_DE"]}}), "settings.locales[1]"),
        (json!({"settings": {"locales": ["de\r\nX-Evil: 1"]}}), "settings.locales[0]"),
        (json!({"settings": {"locales": ["de;q=0.1,fr"]}}), "settings.locales[0]"),
        (json!({"settings": {"locales": ["x-klingon"]}}), "settings.locales[0]"),
        (json!({"settings": {"locales": vec!["en"; 17]}}), "settings.locales"),
        (json!({"settings": {"user_agent": "two\nlines"}}), "settings.user_agent"),
        (json!({"settings": {"user_agent": "a\r\nX-Evil: 1"}}), "settings.user_agent"),
        (json!({"settings": {"user_agent": "a\u{0}b"}}), "settings.user_agent"),
        (json!({"settings": {"user_agent": "spätzle/1"}}), "settings.user_agent"),
        (json!({"settings": {"user_agent": " padded "}}), "settings.user_agent"),
        (json!({"settings": {"user_agent": ""}}), "settings.user_agent"),
        (json!({"settings": {"viewport": {"width": 800}}}), "settings.viewport"),
        (json!({"settings": {"viewport": {"width": "wide", "height": 600}}}), "settings.viewport.width"),
        (json!({"settings": {"viewport": {"width": 800, "height": 0}}}), "settings.viewport.height"),
        (json!({"settings": {"viewport": {"width": -1, "height": 600}}}), "settings.viewport.width"),
        (json!({"settings": {"viewport": {"width": 800.5, "height": 600}}}), "settings.viewport.width"),
        (json!({"settings": {"viewport": {"width": 8193, "height": 600}}}), "settings.viewport.width"),
        (json!({"settings": {"viewport": {"width": 800, "height": 4_294_967_296_u64}}}), "settings.viewport.height"),
        (json!({"settings": {"viewport": {"width": 800, "height": 600, "depth": 1}}}), "settings.viewport.depth"),
        (json!({"advanced": 1}), "advanced"),
        (json!({"advanced": {"block_everything": true}}), "advanced.block_everything"),
        (json!({"advanced": {"block_ads": "yes"}}), "advanced.block_ads"),
        (json!({"headless": true, "kiosk": true}), "kiosk"),
        (json!({"advanced": {"solve_captchas": true}}), "advanced.solve_captchas"),
    ];
    let plain = vec![
        (json!({"app_name": "mail"}), "app_name"),
        (json!({"advanced": {"proxy": {"city": "berlin"}}}), "advanced.proxy"),
        (json!({"advanced": {"proxy": true}}), "advanced.proxy"),
    ];
    let driver = vec![
        (json!({"app_name": 1}), "app_name"),
        (json!({"advanced": {"proxy": true}}), "advanced.proxy"),
        (json!({"advanced": {"proxy": {"city": "berlin"}}}), "advanced.proxy"),
    ];
    for (path, own) in [("/sessions/create", plain), ("/sessions/webdriver/create", driver)] {
        for (body, field) in both.iter().chain(&own) {
            // The engine changes nothing about it, installed or not.
            for engine in ["chromium", "firefox", "webkit"] {
                let mut body = body.clone();
                body.as_object_mut().context("an object")?.entry("browser_type").or_insert(engine.into());
                let fault = api.post(path, &body).await?.fault(400)?;
                ensure!(fault.field.starts_with(field), "{path} {body}: {fault:?}");
            }
        }
    }
    Ok(())
}

async fn malformed_json_is_400(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let deep = "[".repeat(100_000);
    let twice = r#"{"headless": true, "headless": false}"#;
    for body in ["{\"headless\":", "[]", "\"text\"", "7", "{} {}", "{'url': 1}", deep.as_str(), twice] {
        api.post_bytes("/sessions/create", "application/json", body.to_owned()).await?.fault(400)?;
    }
    api.post_bytes("/sessions/create", "application/json", &b"{\"url\": \"\xff\"}"[..]).await?.fault(400)?;
    Ok(())
}

async fn another_content_type_is_415(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for other in ["text/plain", "application/x-www-form-urlencoded"] {
        let fault = api.post_bytes("/sessions/create", other, "{}").await?.fault(415)?;
        ensure!(fault.message.contains("application/json"), "{fault:?}");
    }
    Ok(())
}

async fn sizes_are_limited(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let long = format!("{{\"url\": \"{}\"}}", "x".repeat(10_000_000));
    let head = format!(
        "POST /sessions/create HTTP/1.1\r\nHost: {}\r\nservice-secret-key: {}\r\nContent-Type: application/json\r\n",
        daemon.url().trim_start_matches("http://"),
        daemon.key()
    );
    let declared = format!("{head}Content-Length: {}\r\n\r\n{long}", long.len());
    let answer = wire::raw(daemon.url(), declared.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let answer = wire::raw(daemon.url(), chunked.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let padded = format!("{head}X-Long: {}\r\n\r\n", "x".repeat(200_000));
    let answer = wire::raw(daemon.url(), padded.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    Ok(())
}

async fn unknown_paths_and_methods(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    api.get("/no/such/path").await?.fault(404)?;
    api.get("/sessions/create").await?.fault(405)?;
    api.send(Method::PATCH, "/sessions", HeaderMap::new(), Bytes::new()).await?.fault(405)?;
    Ok(())
}

async fn unknown_sessions_are_404(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    for id in ["ses_00000000000000000000000000000000", "ses_x", "%00", "..%2f..%2fetc"] {
        api.get(&format!("/sessions/{id}")).await?.fault(404)?;
        api.get(&format!("/sessions/{id}/status")).await?.fault(404)?;
        api.get(&format!("/sessions/{id}/files")).await?.fault(404)?;
        api.delete(&format!("/sessions/{id}")).await?.fault(404)?;
    }
    let url = format!("{}/sessions/ses_x/devtools?token=abc", daemon.url().replace("http:", "ws:"));
    ensure!(wire::refusal(&url, &HeaderMap::new()).await? == 404);
    Ok(())
}

async fn lists_check_their_query(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let wrong = [
        ("page=0", "page"),
        ("page=x", "page"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("sort_by=colour", "sort_by"),
        ("sort_order=sideways", "sort_order"),
        ("status=asleep", "status"),
        ("start_time=yesterday", "start_time"),
        ("colour=red", "colour"),
    ];
    for (query, field) in wrong {
        let fault = api.get(&format!("/sessions?{query}")).await?.fault(400)?;
        ensure!(fault.field.starts_with(field), "{query}: {fault:?}");
    }
    Ok(())
}

async fn unknown_and_repeated_parameters_are_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let session = daemon.session(json!({})).await?;
    let id = &session.id;
    let task = "/lam/tasks/01K00000000000000000000000";
    for (path, field) in [
        ("/sessions?limit=1&limit=2".to_owned(), "limit"),
        ("/lam/tasks?page=1&page=2".to_owned(), "page"),
        (format!("{task}/items?limit=1&limit=2"), "limit"),
        (format!("{task}/items?limit=1&colour=red"), "colour"),
        (format!("{task}?format=json&format=csv"), "format"),
        (format!("{task}?colour=red"), "colour"),
        (format!("{task}/artifacts?limit=1"), "limit"),
        ("/healthz?verbose=1".to_owned(), "verbose"),
        ("/status?x".to_owned(), "x"),
        ("/metrics?name=a".to_owned(), "name"),
        (format!("/sessions/{id}?fields=id"), "fields"),
        (format!("/sessions/{id}/files?path=/"), "path"),
        (format!("/sessions/{id}/devtools?token=a&token=b"), "token"),
        (format!("/sessions/{id}/devtools?token=a&colour=red"), "colour"),
        (format!("/sessions/{id}/stream?token=a&token=b"), "token"),
        (format!("/sessions/{id}/stream/state?token=a&colour=red"), "colour"),
        (format!("/json/version?token={0}&token={0}", daemon.key()), "token"),
        (format!("/json/list?token={}&colour=red", daemon.key()), "colour"),
        (format!("/json/protocol?token={}&colour=red", daemon.key()), "colour"),
        ("/chromium?timeout=1&timeout=2".to_owned(), "timeout"),
    ] {
        ensure!(api.get(&path).await?.fault(400)?.field == field, "{path}");
    }
    for path in ["/sessions/create?headless=true", "/lam/run?wait=1"] {
        api.post(path, &json!({})).await?.fault(400)?;
    }
    let (error, message) = webdriver::fault(&api.post("/session?timeout=1", &json!({})).await?, 400)?;
    ensure!(error == "invalid argument" && message.contains("timeout"), "{error}: {message}");
    let (_, message) = webdriver::fault(&api.get("/wd/hub/status?x=1").await?, 400)?;
    ensure!(message.contains("`x`"), "{message}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_request_names_one_host(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let host = daemon.url().trim_start_matches("http://");
    for (first, second) in [(host, host), (host, "evil.example"), ("evil.example", host)] {
        let request = format!("GET /status HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\nConnection: close\r\n\r\n");
        let answer = wire::raw(daemon.url(), request.as_bytes(), 4096).await?;
        ensure!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("Host"), "{first} {second}: {answer}");
    }
    Ok(())
}
