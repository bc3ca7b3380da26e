//! Row 20: files of the container, which no call shows and no page reads, however their addresses are spelled.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warmpool_tests::{Daemon, Driver, Group, Settings, Stage, group};

use crate::leaks::{FILES, is_of_the_container};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [no_spelling_of_a_file_is_read])
}

async fn no_spelling_of_a_file_is_read(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    for engine in ["chromium", "firefox", "webkit"] {
        pages_read_no_file(&daemon, engine, &site).await?;
        calls_read_no_file(&daemon, engine, &site).await?;
    }
    daemon.assert_idle().await
}

/// A page that goes to such an address, frames it, or fetches it.
async fn pages_read_no_file(daemon: &Daemon, engine: &str, site: &str) -> Result<()> {
    let session = daemon.webdriver(json!({"browser_type": engine})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    for address in FILES {
        driver.goto(&format!("{site}/tab/1")).await?;
        let fetched = format!(
            "const [done] = arguments;
             const frame = document.createElement('iframe');
             frame.src = {address};
             document.body.append(frame);
             const framed = () => {{ try {{ return frame.contentDocument?.documentElement?.innerText ?? '' }} catch {{ return '' }} }};
             Promise.resolve().then(() => fetch({address})).then(answer => answer.text()).catch(() => '')
               .then(text => setTimeout(() => done(text + framed()), 100))",
            address = json!(address)
        );
        let body = json!({"script": fetched, "args": []});
        let reply = driver.command(http::Method::POST, "/execute/async", &body).await?.ok()?;
        ensure!(!is_of_the_container(&reply.to_string()), "{engine} lets a page read {address}: {reply}");
        // Some engines throw.
        let _ = driver.execute(&format!("try {{ location.href = {} }} catch {{}}", json!(address))).await;
        let shown = driver.execute("return document.documentElement?.innerText ?? ''").await?.to_string();
        ensure!(!is_of_the_container(&shown), "{engine} shows {address} to a page: {shown}");
    }
    session.delete().await?.ok()?;
    Ok(())
}

/// Calls on pages and tasks take no such address, and follow nothing to one.
async fn calls_read_no_file(daemon: &Daemon, engine: &str, site: &str) -> Result<()> {
    let api = daemon.api();
    for address in FILES {
        for call in ["content", "screenshot"] {
            let reply = api.post(&format!("/{call}?browser={engine}"), &json!({"url": address})).await?;
            let fault = reply.fault(400).with_context(|| format!("{engine}: {call} of {address:?}"))?;
            ensure!(fault.field == "url", "{fault:?}");
        }
        let task = json!({"browser_type": engine, "steps": [{"type": "navigate", "url": address}]});
        let reply = api.post("/lam/run", &task).await?;
        ensure!(reply.status == 400, "{engine}: a task may go to {address:?}: {reply}");
    }
    for body in [
        json!({"url": format!("{site}/redirect?to=file:///etc/passwd")}),
        json!({"html": "<p>Tea<script>location.href = 'file:etc/passwd'</script>", "waitForTimeout": 500}),
        json!({"html": "<p>Tea<meta http-equiv=refresh content='0;url=file:/etc/passwd'>", "waitForTimeout": 500}),
    ] {
        let reply = api.post(&format!("/content?browser={engine}"), &body).await?;
        ensure!(!is_of_the_container(&reply.text()), "{engine}: {body}: {reply}");
    }
    Ok(())
}
