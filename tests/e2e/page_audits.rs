//! Audits of pages by Lighthouse.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Settings, Stage, group};

use crate::page_call_limits::leaving_frees_the_browser;
use crate::page_calls::call;

/// Time for an audit on a busy machine, in milliseconds.
const ENOUGH: u64 = 120_000;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [a_page_is_audited, audits_that_cannot_be_say_why],
    )
}

/// What Lighthouse says of a page.
async fn audit(daemon: &Daemon, prefix: &str, body: Value) -> Result<Value> {
    let reply = call(daemon, &format!("{prefix}/performance?timeout={ENOUGH}"), body).await?;
    ensure!(reply.headers["content-type"] == "application/json", "{:?}", reply.headers);
    let mut said = reply.json()?;
    ensure!(said["type"] == "json", "{:?}", said["type"]);
    Ok(said["data"].take())
}

async fn a_page_is_audited(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    tokio::try_join!(with_all_there_is(daemon, &site), as_configured(&stage, daemon, &site))?;
    daemon.assert_idle().await
}

async fn with_all_there_is(daemon: &Daemon, site: &str) -> Result<()> {
    let url = format!("{site}/faulty");
    // As users of browserless write it.
    let body = json!({"url": url, "config": {"extends": "lighthouse:default"}, "budgets": []});
    let result = audit(daemon, "", body).await?;
    ensure!(result["finalDisplayedUrl"] == url && result["runtimeError"].is_null(), "{}", result["runtimeError"]);
    for category in ["performance", "accessibility", "best-practices", "seo"] {
        let score = result["categories"][category]["score"].as_f64();
        ensure!(score.is_some_and(|score| (0.0..=1.0).contains(&score)), "{category}: {score:?}");
    }
    // Nothing that Lighthouse wanted to do has failed.
    let audits = result["audits"].as_object().context("audits")?;
    let failed: Vec<&Value> = audits.values().filter(|audit| audit["errorMessage"].is_string()).collect();
    ensure!(failed.is_empty() && audits.len() > 80, "{} audits, of which failed: {failed:?}", audits.len());
    for (id, snippet) in [("button-name", "<button>"), ("image-alt", "pot.png")] {
        let (audit, node) = (&audits[id], &audits[id]["details"]["items"][0]["node"]["snippet"]);
        ensure!(audit["score"] == 0 && node.as_str().is_some_and(|node| node.contains(snippet)), "{id}: {audit}");
    }
    ensure!(audits["document-title"]["score"] == 1, "{}", audits["document-title"]);
    // The trace, and pictures of what was seen when.
    for metric in ["first-contentful-paint", "largest-contentful-paint", "speed-index", "total-blocking-time"] {
        ensure!(audits[metric]["numericValue"].is_number(), "{metric}: {}", audits[metric]);
    }
    let frames = audits["screenshot-thumbnails"]["details"]["items"].as_array().map_or(0, Vec::len);
    ensure!(frames > 1, "{frames} pictures");
    let screen = &result["fullPageScreenshot"]["screenshot"];
    ensure!(screen["width"] == 412 && screen["data"].as_str().is_some_and(|data| data.starts_with("data:image/")));
    ensure!(result["configSettings"]["formFactor"] == "mobile", "{}", result["configSettings"]);
    Ok(())
}

async fn as_configured(stage: &Stage, daemon: &Daemon, site: &str) -> Result<()> {
    let settings = json!({
        "formFactor": "desktop",
        "onlyAudits": ["button-name", "document-title"],
        "extraHeaders": {"x-tea": "sencha"},
        "screenEmulation": {"width": 1000},
    });
    let body = json!({"url": format!("{site}/faulty"), "config": {"settings": settings}});
    let result = audit(daemon, "/edge", body).await?;
    let audits: Vec<&String> = result["audits"].as_object().context("audits")?.keys().collect();
    ensure!(audits == ["button-name", "document-title"], "{audits:?}");
    let had = &result["configSettings"];
    ensure!(had["formFactor"] == "desktop" && had["screenEmulation"]["width"] == 1000, "{had}");
    ensure!(had["screenEmulation"]["mobile"] == false, "{had}");
    let agent = &result["environment"]["networkUserAgent"];
    ensure!(agent.as_str().is_some_and(|agent| !agent.contains("Mobile")), "{agent}");
    ensure!(result["fullPageScreenshot"]["screenshot"]["width"] == 1000);
    let seen = stage.site().hits("/faulty");
    let asked = seen.iter().find(|seen| seen.headers.get("x-tea").is_some_and(|tea| tea == "sencha"));
    ensure!(asked.is_some_and(|seen| seen.headers["user-agent"].contains("Macintosh")), "{seen:?}");
    Ok(())
}

async fn audits_that_cannot_be_say_why(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let api = daemon.api();
    let url = format!("{site}/faulty");
    for (path, body, field) in [
        ("/performance", json!({}), "url"),
        ("/performance", json!({"url": "data:text/html,x"}), "url"),
        ("/performance", json!({"url": url, "html": "x"}), "html"),
        (
            "/performance",
            json!({"url": url, "config": {"settings": {"auditMode": "/etc"}}}),
            "config.settings.auditMode",
        ),
        ("/performance", json!({"url": url, "config": {"audits": ["/etc/passwd"]}}), "config.audits"),
        ("/performance", json!({"url": url, "config": {"settings": {"onlyCategories": ["tea"]}}}), "config"),
        ("/performance", json!({"url": url, "budgets": [{"path": "/*"}]}), "budgets"),
        ("/performance?browser=firefox", json!({"url": url}), "browser"),
        ("/edge/performance?browser=webkit", json!({"url": url}), "browser"),
        ("/performance?colour=red", json!({"url": url}), "colour"),
    ] {
        let fault = api.post(path, &body).await?.fault(400).with_context(|| format!("{path} {body}"))?;
        ensure!(fault.field == field, "{path} {body}: {fault:?}");
    }
    api.without_key().post("/performance", &json!({"url": url})).await?.fault(401)?;
    // At once: an audit waits more than it works.
    let fails = async |url: String, reason: &str| {
        let config = json!({"settings": {"onlyAudits": ["document-title"]}});
        let path = format!("/performance?timeout={ENOUGH}");
        let fault = api.post(&path, &json!({"url": url, "config": config})).await?.fault(500)?;
        ensure!(fault.code == "page_failed" && fault.message.contains(reason), "{url}: {fault:?}");
        Ok(())
    };
    tokio::try_join!(
        fails("http://nowhere.invalid/".to_owned(), "ERR_NAME_NOT_RESOLVED"),
        fails("http://127.0.0.1:4444/".to_owned(), "egress.allow"),
        fails(format!("{site}/no-such-page"), "404"),
    )?;
    let fault = api.post("/performance?timeout=1500", &json!({"url": url})).await?.fault(408)?;
    ensure!(fault.code == "page_timeout", "{fault:?}");
    leaving_frees_the_browser(daemon, "/performance?timeout=60000", &json!({"url": format!("{site}/slow?ms=50000")}))
        .await?;
    daemon.assert_idle().await
}
