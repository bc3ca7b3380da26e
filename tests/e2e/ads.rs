//! `advanced.block_ads`: rules for requests and for elements hold in every page, and only in sessions that ask for them.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

use crate::settings::{Client, EVERYWHERE, OF_DRIVERS, Place, Row};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [are_blocked_in_headless_chromium, are_asked_about_by_firefox_in_one_form],
        full: [
            are_blocked_in_headed_chromium,
            are_blocked_in_chromium_under_webdriver,
            are_blocked_in_headless_firefox,
            are_blocked_in_headed_firefox,
            are_blocked_in_firefox_under_webdriver,
            are_blocked_in_webkit,
            leave_the_interception_of_a_firefox_client_alone,
            leave_the_clients_interception_alone,
            survive_a_request_with_a_large_body,
            are_let_through_by_default,
            of_the_built_in_list_are_blocked_in_headless_chromium,
            of_the_built_in_list_are_blocked_in_headed_chromium,
            of_the_built_in_list_are_blocked_in_chromium_under_webdriver,
            of_the_built_in_list_are_blocked_in_headless_firefox,
            have_an_error_that_clients_know,
            stay_blocked_when_a_client_leaves,
            stay_blocked_after_a_large_form,
            have_a_built_in_list,
        ],
    )
}

/// Whatever a process of pages sends.
async fn are_asked_about_by_firefox_in_one_form(_: Stage) -> Result<()> {
    Program::node_file(&programs::clients().join("firefox_ads.mjs"))?.run().await.map(drop)
}

/// In the style of EasyList, with two rules that nobody can read.
const RULES: &str = "[Adblock Plus 2.0]
! Rules for the test site
/ad-slot/*$script
@@/ad-slot/needed.js
@@/ad-slot/worker.js
/ad-slot/banner$image
/ad-slot/data$xmlhttprequest
/ad-slot/frame$subdocument
||example.invalid^$nonsense
##.ad-banner
##.ad-late
##p[data-sponsor]
##
";

/// What a page reports of its slots once all of them are decided.
fn slots(let_through: bool) -> Value {
    let show = let_through;
    json!({
        "script": show, "image": show, "data": show, "worker": show, "frame": show,
        "banner": show, "sponsor": show, "late": show, "needed": true, "story": true,
    })
}

/// Waits until a page reports exactly these slots.
async fn reports(stage: &Stage, name: &str, wanted: &Value) -> Result<()> {
    let seen = || {
        let mut report = stage.site().report(name)?;
        report.as_object_mut()?.remove("rounds");
        Some(report)
    };
    let right = eventually!(format!("the page {name} reports {wanted}"), 30, seen().filter(|seen| seen == wanted));
    right.map(drop).with_context(|| format!("the last report is {:?}", seen()))
}

/// A daemon with [`RULES`], and the file that holds them.
async fn daemon_with_rules(settings: Settings) -> Result<(Daemon, NamedTempFile)> {
    let mut file = NamedTempFile::new()?;
    file.write_all(RULES.as_bytes())?;
    let daemon = Daemon::start(settings.set("ADS_LISTS", file.path().display())).await?;
    Ok((daemon, file))
}

/// Runs one row: ads are blocked at each of its places, and counted.
async fn are_blocked(stage: Stage, row: Row) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    are_blocked_in_session(&stage, &daemon, &row, "ads", "").await?;
    let broken = daemon.log_text().matches("a broken rule").count();
    ensure!(broken == 2, "{broken} broken rules are named");
    daemon.assert_idle().await
}

async fn are_blocked_in_session(stage: &Stage, daemon: &Daemon, row: &Row, pages: &str, round: &str) -> Result<()> {
    let site = stage.site_for(daemon).await?;
    let kind = if row.webdriver { "webdriver" } else { "socket" };
    let name = |place: Place| format!("{pages}-{}-{}-{kind}-{place:?}{round}", row.engine, row.headless);
    let page = |place: Place| format!("{site}/{pages}/{}", name(place));
    let body = json!({
        "browser_type": row.engine, "headless": row.headless, "url": page(Place::First), "advanced": {"block_ads": true},
    });
    let session = if row.webdriver { daemon.webdriver(body).await? } else { daemon.session(body).await? };
    let mut client = None;
    for place in row.places {
        if *place != Place::First {
            if client.is_none() {
                client = Some(Client::attach(row, &session).await?);
            }
            client.as_mut().context("a client")?.open(row, *place, &page(*place)).await?;
        }
        reports(stage, &name(*place), &slots(false)).await.with_context(|| format!("{} {place:?}", row.engine))?;
    }
    // The script, the image, the frame, and the data that the page and its worker ask for. WebKit does not tell.
    let least = if row.engine == "webkit" { 0 } else { 5 * row.places.len() as u64 };
    eventually!("the session counts what it blocks", 10, {
        let record = session.record().await?;
        record["ads"]["blocked"].as_u64().or((least == 0).then_some(0)).filter(|count| *count >= least)
    })?;
    let counted = daemon.metrics().await?.sum("warmpool_ads_blocked_total", &[]).unwrap_or_default();
    ensure!(counted >= least as f64, "the metric says {counted}");
    drop(client);
    session.delete().await?.ok().map(drop)
}

async fn are_blocked_in_headless_chromium(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "chromium", headless: true, webdriver: false, places: EVERYWHERE }).await
}

async fn are_blocked_in_headed_chromium(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "chromium", headless: false, webdriver: false, places: EVERYWHERE }).await
}

async fn are_blocked_in_chromium_under_webdriver(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "chromium", headless: true, webdriver: true, places: OF_DRIVERS }).await
}

async fn are_blocked_in_headless_firefox(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "firefox", headless: true, webdriver: false, places: EVERYWHERE }).await
}

async fn are_blocked_in_headed_firefox(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "firefox", headless: false, webdriver: false, places: EVERYWHERE }).await
}

async fn are_blocked_in_firefox_under_webdriver(stage: Stage) -> Result<()> {
    are_blocked(stage, Row { engine: "firefox", headless: true, webdriver: true, places: OF_DRIVERS }).await
}

/// The first session has its browser compile the rules, and the second one loads them.
async fn are_blocked_in_webkit(stage: Stage) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    let row = Row { engine: "webkit", headless: true, webdriver: true, places: OF_DRIVERS };
    are_blocked_in_session(&stage, &daemon, &row, "ads", "-compiles").await?;
    let kept = || daemon.log_text().matches("a browser has compiled the rules of ads").count();
    eventually!("what it has compiled is kept", 20, kept() == 1)?;
    are_blocked_in_session(&stage, &daemon, &row, "ads", "-loads").await?;
    ensure!(kept() == 1, "the second session compiles nothing");
    daemon.assert_idle().await
}

/// The same with WebDriver BiDi: the client answers one script and lets another go on.
async fn leave_the_interception_of_a_firefox_client_alone(stage: Stage) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let blocking = json!({"browser_type": "firefox", "headless": true, "advanced": {"block_ads": true}});
    let session = daemon.session(blocking).await?;
    let mut bidi = session.cdp().await?;
    bidi.call("session.new", json!({"capabilities": {}})).await?;
    bidi.call("session.subscribe", json!({"events": ["network.beforeRequestSent"]})).await?;
    let (host, port) = site.trim_start_matches("http://").split_once(':').context("a port")?;
    let pattern = |path: &str| json!({"type": "pattern", "hostname": host, "port": port, "pathname": path});
    let patterns = json!([pattern("/ad-slot/show.js"), pattern("/ad-slot/frame")]);
    bidi.call("network.addIntercept", json!({"phases": ["beforeRequestSent"], "urlPatterns": patterns})).await?;
    let tree = bidi.call("browsingContext.getTree", json!({"maxDepth": 0})).await?;
    let there = json!({"context": tree["contexts"][0]["context"], "url": format!("{site}/ads/bidi"), "wait": "none"});
    bidi.call("browsingContext.navigate", there).await?;
    for _ in 0..2 {
        let sent = bidi.event("network.beforeRequestSent", |params| params["isBlocked"] == true).await?;
        let request = &sent["request"];
        if request["url"].as_str().is_some_and(|url| url.ends_with("/frame")) {
            bidi.call("network.continueRequest", json!({"request": request["request"]})).await?;
            continue;
        }
        let answer = json!({
            "request": request["request"], "statusCode": 200, "reasonPhrase": "OK",
            "headers": [{"name": "content-type", "value": {"type": "string", "value": "text/javascript"}}],
            "body": {"type": "string", "value": "window.shown = true"},
        });
        bidi.call("network.provideResponse", answer).await?;
    }
    let mut wanted = slots(false);
    wanted["script"] = json!(true);
    reports(&stage, "bidi", &wanted).await?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A client's own answers come first, and what it lets go on is still judged.
async fn leave_the_clients_interception_alone(stage: Stage) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(json!({"headless": true, "advanced": {"block_ads": true}})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open("about:blank").await?;
    let patterns = json!({"patterns": [{"urlPattern": "*/ad-slot/*.js"}]});
    cdp.call_in(&page, "Fetch.enable", patterns).await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/ads/intercepted")})).await?;
    // The two scripts of the page, which its parser asks for in order or at once.
    for _ in 0..2 {
        let paused = cdp.event("Fetch.requestPaused", |_| true).await?;
        let request = json!({"requestId": paused["requestId"]});
        if paused["request"]["url"].as_str().is_some_and(|url| url.ends_with("/needed.js")) {
            cdp.call_in(&page, "Fetch.continueRequest", request).await?;
            continue;
        }
        // `window.shown = true`, as the client's own answer.
        let answer = json!({
            "requestId": paused["requestId"], "responseCode": 200,
            "responseHeaders": [{"name": "content-type", "value": "text/javascript"}],
            "body": "d2luZG93LnNob3duID0gdHJ1ZQ==",
        });
        cdp.call_in(&page, "Fetch.fulfillRequest", answer).await?;
    }
    let paused = cdp.event("Fetch.requestPaused", |_| true).await?;
    cdp.call_in(&page, "Fetch.continueRequest", json!({"requestId": paused["requestId"]})).await?;
    let mut wanted = slots(false);
    wanted["script"] = json!(true);
    reports(&stage, "intercepted", &wanted).await?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A body that fits no message of DevTools passes, and blocking goes on after it.
async fn survive_a_request_with_a_large_body(stage: Stage) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(json!({"headless": true, "advanced": {"block_ads": true}})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/upload")).await?;
    eventually!("the page is there", 10, {
        (cdp.evaluate(&page, "location.pathname").await? == "/upload").then_some(())
    })?;
    let post = "fetch('/length', {method: 'POST', body: 'x'.repeat(1 << 25)}).then(r => r.text(), String)";
    let length = cdp.evaluate(&page, post).await?;
    ensure!(length == "33554432", "the request did not pass: {length}");
    eventually!("requests are blocked again", 10, {
        let asked = cdp.evaluate(&page, "fetch('/ad-slot/data').then(r => r.status, () => 'blocked')").await?;
        (asked == "blocked").then_some(())
    })?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Neighbours differ, and without the option nothing is blocked or counted.
async fn are_let_through_by_default(stage: Stage) -> Result<()> {
    let (daemon, _file) = daemon_with_rules(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let url = |name: &str| format!("{site}/ads/{name}");
    let blocking = json!({"headless": true, "url": url("on"), "advanced": {"block_ads": true}});
    let blocking = daemon.session(blocking).await?;
    for (name, advanced) in [("default", json!(null)), ("off", json!({"block_ads": false}))] {
        let plain = daemon.session(json!({"headless": true, "url": url(name), "advanced": advanced})).await?;
        reports(&stage, name, &slots(true)).await?;
        ensure!(plain.record().await?["ads"].is_null());
        plain.delete().await?.ok()?;
    }
    reports(&stage, "on", &slots(false)).await?;
    blocking.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Runs one row with the list that daemon and images were built with.
async fn of_the_built_in_list(stage: Stage, row: Row) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    are_blocked_in_session(&stage, &daemon, &row, "easylist", "").await?;
    daemon.assert_idle().await
}

async fn of_the_built_in_list_are_blocked_in_headless_chromium(stage: Stage) -> Result<()> {
    of_the_built_in_list(stage, Row { engine: "chromium", headless: true, webdriver: false, places: EVERYWHERE }).await
}

async fn of_the_built_in_list_are_blocked_in_headed_chromium(stage: Stage) -> Result<()> {
    of_the_built_in_list(stage, Row { engine: "chromium", headless: false, webdriver: false, places: EVERYWHERE }).await
}

async fn of_the_built_in_list_are_blocked_in_chromium_under_webdriver(stage: Stage) -> Result<()> {
    of_the_built_in_list(stage, Row { engine: "chromium", headless: true, webdriver: true, places: OF_DRIVERS }).await
}

async fn of_the_built_in_list_are_blocked_in_headless_firefox(stage: Stage) -> Result<()> {
    of_the_built_in_list(stage, Row { engine: "firefox", headless: true, webdriver: false, places: EVERYWHERE }).await
}

/// Whether Chromium's own filter blocks them or the agent does.
async fn have_an_error_that_clients_know(stage: Stage) -> Result<()> {
    let ours = Daemon::start(Settings::on_demand()).await?;
    let (theirs, _file) = daemon_with_rules(Settings::on_demand()).await?;
    for (daemon, pages) in [(&ours, "easylist"), (&theirs, "ads")] {
        let site = stage.site_for(daemon).await?;
        let session = daemon.session(json!({"headless": true, "advanced": {"block_ads": true}})).await?;
        let mut cdp = session.cdp().await?;
        let tab = cdp.first_page().await?;
        cdp.call_in(&tab, "Network.enable", json!({})).await?;
        cdp.call_in(&tab, "Page.navigate", json!({"url": format!("{site}/{pages}/named")})).await?;
        for _ in 0..3 {
            let failed = cdp.event("Network.loadingFailed", |_| true).await?;
            ensure!(failed["errorText"] == "net::ERR_BLOCKED_BY_CLIENT", "{pages}: {failed}");
        }
        session.delete().await?.ok()?;
        daemon.assert_idle().await?;
    }
    Ok(())
}

/// Chromium turns its own filter off for a tab that a client of DevTools leaves.
async fn stay_blocked_when_a_client_leaves(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let blocking = json!({"headless": true, "url": format!("{site}/easylist/before"), "advanced": {"block_ads": true}});
    let session = daemon.session(blocking).await?;
    reports(&stage, "before", &slots(false)).await?;
    let mut cdp = session.cdp().await?;
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    let targets = targets["targetInfos"].as_array().context("targets")?;
    let tab = targets.iter().find(|target| target["type"] == "page").context("a tab")?;
    let attach = json!({"targetId": tab["targetId"], "flatten": true});
    let first = cdp.call("Target.attachToTarget", attach.clone()).await?;
    let first = first["sessionId"].as_str().context("a session")?;
    cdp.call_in(first, "Page.enable", json!({})).await?;
    cdp.call("Target.detachFromTarget", json!({"sessionId": first})).await?;
    let second = cdp.call("Target.attachToTarget", attach).await?;
    let second = second["sessionId"].as_str().context("a session")?;
    for name in ["after", "later"] {
        cdp.call_in(second, "Page.navigate", json!({"url": format!("{site}/easylist/{name}")})).await?;
        reports(&stage, name, &slots(false)).await?;
        cdp.call_in(second, "Page.setAdBlockingEnabled", json!({"enabled": false})).await.ok();
    }
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// The request for a page may be longer than any message of DevTools. Settings and blocking outlive it.
async fn stay_blocked_after_a_large_form(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let body = json!({
        "headless": true, "url": format!("{site}/kept"), "advanced": {"block_ads": true}, "settings": {"user_agent": "form/1"},
    });
    let session = daemon.session(body).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    eventually!("the page is there", 10, {
        (cdp.evaluate(&page, "location.pathname").await? == "/kept").then_some(())
    })?;
    let submit = "document.body.innerHTML = '<form method=post action=/length><input type=hidden name=a></form>';\
                  document.querySelector('input').value = 'x'.repeat(1 << 25);\
                  document.forms[0].submit()";
    cdp.evaluate(&page, submit).await?;
    eventually!("the form has arrived", 30, {
        let text = cdp.evaluate(&page, "location.pathname + document.body.innerText").await.unwrap_or_default();
        (text == "/length33554434").then_some(())
    })?;
    eventually!("a new tab has settings, and its ads are blocked", 20, {
        let tab = cdp.open(&format!("{site}/easylist/form")).await?;
        let agent = cdp.evaluate(&tab, "navigator.userAgent").await?;
        let report = stage.site().report("form").unwrap_or_default();
        (agent == "form/1" && report["data"] == false && report["script"] == false).then_some(())
    })?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// EasyList is part of a daemon that was built by the scripts.
async fn have_a_built_in_list(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(json!({"headless": true, "advanced": {"block_ads": true}})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/kept")).await?;
    eventually!("the page is there", 10, {
        (cdp.evaluate(&page, "location.pathname").await? == "/kept").then_some(())
    })?;
    cdp.call_in(&page, "Network.enable", json!({})).await?;
    cdp.evaluate(&page, "void fetch('https://googleads.g.doubleclick.net/pagead/ads').catch(() => {})").await?;
    let failed = cdp.event("Network.loadingFailed", |_| true).await?;
    ensure!(failed["blockedReason"] == "subresource-filter", "{failed}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
