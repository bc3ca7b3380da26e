//! Workers whose memory went to swap while they waited.

use anyhow::{Result, ensure};
use serde_json::json;
use warmpool_tests::{Daemon, Driver, Group, Settings, Stage, eventually, group, swap};

/// Bytes that a browser alone has written.
const BROWSER: u64 = 20 << 20;
/// Enough for each browser of the case at once.
const SWAP: u64 = 1 << 30;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [waiting_workers_go_to_swap_and_serve_all_the_same],
    )
}

async fn page_outs(daemon: &Daemon, result: &str) -> Result<f64> {
    Ok(daemon.metrics().await?.sum("warmpool_worker_page_outs_total", &[("result", result)]).unwrap_or_default())
}

async fn waiting_workers_go_to_swap_and_serve_all_the_same(stage: Stage) -> Result<()> {
    let settings = Settings::new().set("WORKER_PAGE_OUT_AFTER", "3s");
    let settings = settings.set("POOL_FIREFOX_HEADLESS", "1").set("POOL_WEBKIT_HEADLESS", "1");
    let daemon = Daemon::start(settings).await?;
    let _swap = if swap::is_there()? {
        None
    } else {
        eventually!("each is tried in vain", 30, page_outs(&daemon, "failed").await? >= 3.0)?;
        let said = || daemon.log_text().matches("worker.page_out_after lacks here").count();
        eventually!("it says what is missing", 10, said() > 0)?;
        ensure!(said() == 1, "said once: {}", daemon.log_text());
        let doctor = daemon.cli(&["doctor"]).await?;
        let said = String::from_utf8_lossy(&doctor.stdout);
        ensure!(doctor.status.success() && said.contains("this host has no swap"), "{said}");
        works(&daemon, &stage).await?;
        let Some(swap) = swap::Swap::make(SWAP)? else { return daemon.assert_idle().await };
        Some(swap)
    };
    eventually!("those that wait are paged out", 60, page_outs(&daemon, "done").await? >= 3.0)?;
    for container in daemon.containers().await? {
        let pids = daemon.docker().browser_pids(&container.id).await?;
        let bytes: u64 = pids.into_iter().map(swap::of_process).sum::<Result<u64>>()?;
        ensure!(bytes > BROWSER, "{} has {bytes} bytes in swap", container.id);
    }
    works(&daemon, &stage).await?;
    daemon.assert_idle().await
}

/// A session on each engine shows a page.
async fn works(daemon: &Daemon, stage: &Stage) -> Result<()> {
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({})).await?;
    session.cdp().await?.reads_form(&site).await?;
    session.delete().await?.ok()?;
    for engine in ["firefox", "webkit"] {
        let session = daemon.webdriver(json!({"browser_type": engine})).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        driver.goto(&format!("{site}/form")).await?;
        ensure!(driver.execute("return document.title").await? == "Form", "{engine}");
        driver.quit().await?;
    }
    Ok(())
}
