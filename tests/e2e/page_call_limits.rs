//! Calls on pages that ask for too much, for what is not there, or for nothing in the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

use crate::page_calls::call;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [
            bad_input_names_its_field,
            pages_that_do_not_come_are_errors,
            calls_end_in_time,
            a_call_shows_in_lists,
            a_client_that_leaves_frees_its_browser,
            a_large_document_arrives_whole,
        ],
    )
}

async fn bad_input_names_its_field(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    for (path, body, field) in [
        ("/content", json!({}), "url"),
        ("/content", json!({"url": "http://a.example/", "html": "x"}), "html"),
        ("/content", json!({"url": "file:///etc/passwd"}), "url"),
        ("/content", json!({"url": "http://a.example/", "colour": "red"}), "colour"),
        ("/pdf", json!({"html": "x", "options": {"colour": "red"}}), "options.colour"),
        ("/pdf", json!({"html": "x", "options": {"fullPage": true, "format": "A4"}}), "options.format"),
        ("/screenshot", json!({"html": "x", "options": {"type": "gif"}}), "options.type"),
        ("/scrape", json!({"html": "x"}), "elements"),
        (
            "/scrape",
            json!({"html": "x", "elements": [{"selector": "h1"}], "debugOpts": {"console": true}}),
            "debugOpts.console",
        ),
        ("/content", json!({"html": "x", "userAgent": "a\r\nb"}), "userAgent"),
        ("/content?keep_alive=true", json!({"html": "x"}), "keep_alive"),
        ("/content?session=a", json!({"html": "x"}), "session"),
        ("/content?colour=red", json!({"html": "x"}), "colour"),
        ("/content?stealth=true", json!({"html": "x"}), "stealth"),
        ("/content?timeout=soon", json!({"html": "x"}), "timeout"),
        ("/content?timeout=0", json!({"html": "x"}), "timeout"),
        ("/content?timeout=999999999", json!({"html": "x"}), "timeout"),
        ("/chromium/content?browser=webkit", json!({"html": "x"}), "browser"),
        ("/content", json!({"html": "x", "waitForSelector": {"selector": "##"}}), "waitForSelector.selector"),
        ("/scrape", json!({"html": "x", "elements": [{"selector": "##"}]}), "elements[0].selector"),
        ("/content", json!({"html": "x", "waitForFunction": {"fn": "() => nonsense()"}}), "waitForFunction.fn"),
        ("/content", json!({"html": "x", "waitForFunction": {"fn": "){"}}), "waitForFunction.fn"),
        ("/content", json!({"html": "x", "addScriptTag": [{"url": "http://nowhere.invalid/x.js"}]}), "addScriptTag[0]"),
    ] {
        let fault = api.post(path, &body).await?.fault(400).with_context(|| format!("{path} {body}"))?;
        ensure!(fault.field == field, "{path} {body}: {fault:?}");
    }
    for path in ["/function", "/chromium/download"] {
        let fault = api.post(path, &json!({"code": "export default () => 1"})).await?.fault(400)?;
        ensure!(fault.code == "not_supported" && fault.message.contains("pages.functions"), "{path}: {fault:?}");
    }
    api.without_key().post("/pdf", &json!({"html": "x"})).await?.fault(401)?;
    ensure!(api.get("/pdf").await?.status == 405);
    ensure!(api.post_bytes("/pdf", "text/plain", "x").await?.status == 415);

    // Refused before it is read.
    let host = daemon.url().trim_start_matches("http://");
    let head = format!(
        "POST /content HTTP/1.1\r\nHost: {host}\r\n{KEY_HEADER}: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        daemon.key(),
        200 << 20
    );
    let answer = wire::raw(daemon.url(), head.as_bytes(), 4096).await?;
    ensure!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("pages.max_body"), "{answer}");
    daemon.assert_idle().await
}

async fn pages_that_do_not_come_are_errors(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (url, reason) in [
        ("http://nowhere.invalid/".to_owned(), "ERR_NAME_NOT_RESOLVED"),
        ("http://127.0.0.1:4444/".to_owned(), "egress.allow"),
        (format!("{site}/file.bin"), "file"),
    ] {
        let fault = daemon.api().post("/content", &json!({"url": url})).await?.fault(500)?;
        ensure!(fault.code == "page_failed" && fault.message.contains(reason), "{fault:?}");
    }
    let gone = call(daemon, "/content", json!({"url": format!("{site}/no-such-page")})).await?;
    ensure!(gone.headers["x-response-code"] == "404", "{:?}", gone.headers);
    let led = call(daemon, "/content", json!({"url": format!("{site}/redirect?to=/button")})).await?;
    ensure!(led.headers["x-response-url"] == format!("{site}/button"), "{:?}", led.headers);
    daemon.assert_idle().await
}

async fn calls_end_in_time(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let restless = format!("{site}/restless");
    for (body, field) in [
        (
            json!({"url": restless, "gotoOptions": {"waitUntil": "networkidle0", "timeout": 1500}}),
            "gotoOptions.timeout",
        ),
        (json!({"url": format!("{site}/slow?ms=20000"), "gotoOptions": {"timeout": 500}}), "gotoOptions.timeout"),
        (
            json!({"html": "x", "waitForFunction": {"fn": "() => new Promise(() => {})", "timeout": 500}}),
            "waitForFunction",
        ),
        (json!({"html": "x", "waitForFunction": {"fn": "() => { for (;;); }", "timeout": 500}}), "waitForFunction"),
    ] {
        let fault = daemon.api().post("/content", &body).await?.fault(408)?;
        ensure!(fault.code == "page_timeout" && fault.field == field, "{body}: {fault:?}");
    }
    for body in [
        json!({"url": restless, "gotoOptions": {"waitUntil": "networkidle0"}}),
        json!({"html": "<script>for (;;);</script>"}),
        json!({"html": "x", "waitForTimeout": 60000}),
    ] {
        let fault = daemon.api().post("/content?timeout=2000", &body).await?.fault(408)?;
        ensure!(fault.code == "page_timeout", "{body}: {fault:?}");
    }
    let rested =
        json!({"url": restless, "gotoOptions": {"waitUntil": "networkidle0", "timeout": 3000}, "bestAttempt": true});
    ensure!(call(daemon, "/content", rested).await?.text().contains("Restless"));
    // A document of more sheets than can be printed in the time.
    let many = "<p style='break-after:page'>tea</p>".repeat(100_000);
    let fault = daemon.api().post("/pdf?timeout=4000", &json!({"html": many})).await?.fault(408)?;
    ensure!(fault.code == "page_timeout", "{fault:?}");
    // And HTML that is too large to be answered.
    let html = json!({"html": "<script>document.write('<!--' + 'x'.repeat(2e7) + '-->')</script>"});
    let fault = daemon.api().post("/content", &html).await?.fault(500)?;
    ensure!(fault.message.contains("pages.max_answer"), "{fault:?}");
    daemon.assert_idle().await
}

async fn a_call_shows_in_lists(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let body = json!({"html": "x", "waitForTimeout": 60000});
    let slow = api.post("/content?trackingId=teahouse", &body);
    let end = async {
        let id = eventually!("the call's session is listed", 60, {
            let listed = api.get("/sessions?status=running").await?.ok()?;
            let entries = listed["sessions"].as_array().cloned().unwrap_or_default();
            entries.iter().find(|entry| entry["app_name"] == "teahouse").map(|entry| entry["session_id"].clone())
        })?;
        let id = id.as_str().context("an id")?.to_owned();
        api.delete(&format!("/sessions/{id}")).await?.ok()
    };
    let (reply, ended) = tokio::join!(slow, end);
    ended?;
    let fault = reply?.fault(404)?;
    ensure!(fault.code == "session_ended", "{fault:?}");
    daemon.assert_idle().await
}

async fn a_client_that_leaves_frees_its_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let many = "<p style='break-after:page'>tea</p>".repeat(3000);
    leaving_frees_the_browser(daemon, "/content", &json!({"html": "x", "waitForTimeout": 60000})).await?;
    leaving_frees_the_browser(daemon, "/pdf", &json!({"html": many})).await?;
    daemon.assert_idle().await
}

/// Begins a call and leaves: its session ends.
pub(crate) async fn leaving_frees_the_browser(daemon: &Daemon, path: &str, body: &Value) -> Result<()> {
    let api = daemon.api();
    let target = Target::parse(daemon.url())?;
    let body = body.to_string();
    let name = format!("left{}", path.len());
    let mark = if path.contains('?') { '&' } else { '?' };
    let head = format!(
        "POST {path}{mark}trackingId={name} HTTP/1.1\r\nHost: {}\r\n{KEY_HEADER}: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        target.authority(),
        daemon.key(),
        body.len()
    );
    let mut client = wire::connect(&target, None).await?;
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    let entry = async |status: &str| -> Result<Option<Value>> {
        let listed = api.get(&format!("/sessions?status={status}")).await?.ok()?;
        let entries = listed["sessions"].as_array().cloned().unwrap_or_default();
        Ok(entries.into_iter().find(|entry| entry["app_name"] == name))
    };
    eventually!("the call's session lives", 60, entry("running").await?)?;
    drop(client);
    let ended = eventually!("it has ended", 30, entry("terminated").await?)?;
    let record = api.get(&format!("/sessions/{}", ended["session_id"].as_str().unwrap_or_default())).await?.ok()?;
    ensure!(record["reason"] == "client_gone", "{record}");
    Ok(())
}

async fn a_large_document_arrives_whole(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let word = |at: u64| format!("{} ", at * 2_654_435_761 % 9_999_991);
    let lines: String = (0..4000_u64)
        .map(|line| format!("<p>{}", (0..40).map(|at| word(line * 40 + at)).collect::<String>()))
        .collect();
    let reply =
        tokio::time::timeout(Duration::from_secs(60), call(daemon, "/pdf?timeout=60000", json!({"html": lines})))
            .await??;
    ensure!(reply.body.len() > 600 << 10, "{} bytes", reply.body.len());
    ensure!(reply.body.trim_ascii_end().ends_with(b"%%EOF"), "it is not whole");
    daemon.assert_idle().await
}
