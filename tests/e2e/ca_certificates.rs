//! Sites whose certificates come from private authorities: the daemon's `egress.ca_certificates`, a preset's, a key's.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::private_site::PrivateSite;
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            every_engine_trusts_those_of_the_daemon_and_of_a_key,
            contexts_and_browsers_of_the_driver_trust_them,
            waiting_browsers_trust_what_the_settings_say_now,
        ],
    )
}

/// Whether a browser of this key shows the site's page; a browser that does not has to blame the certificate.
async fn believes(daemon: &Daemon, key: &str, engine: &str, site: &PrivateSite) -> Result<bool> {
    let api = daemon.api().with_key(key);
    let reply = api.post(&format!("/content?browser={engine}"), &json!({"url": site.url()})).await?;
    if reply.status == 200 {
        // WebKit's driver takes the page that says so for the page.
        let refused = engine == "webkit" && reply.text().contains("Unacceptable TLS certificate");
        ensure!(refused || reply.text().contains("Private"), "{reply}");
        return Ok(!refused);
    }
    let fault = reply.fault(500)?;
    ensure!(fault.message.to_lowercase().contains("cert"), "{engine}: {fault:?}");
    Ok(false)
}

fn trusting(site: &PrivateSite) -> Settings {
    Settings::on_demand().set("EGRESS_CA_CERTIFICATES", site.authority().display())
}

async fn every_engine_trusts_those_of_the_daemon_and_of_a_key(_stage: Stage) -> Result<()> {
    let (ours, theirs) = (PrivateSite::start("ours").await?, PrivateSite::start("theirs").await?);
    let daemon = Daemon::start(trusting(&ours)).await?;
    let file = theirs.authority();
    let path = file.to_str().unwrap_or_default();
    let key = daemon.cli_ok(&["key", "create", "more", "--egress-ca-certificates", path]).await?;
    // The key has the certificate itself.
    std::fs::remove_file(&file)?;
    for engine in ["chromium", "firefox", "webkit"] {
        for (key, site, wanted) in [
            (daemon.key(), &ours, true),
            (daemon.key(), &theirs, false),
            (key.trim(), &ours, true),
            (key.trim(), &theirs, true),
        ] {
            ensure!(believes(&daemon, key, engine, site).await? == wanted, "{engine}: {}, {wanted}", site.url());
        }
    }
    let wrong = daemon.cli(&["key", "create", "wrong", "--egress-ca-certificates", "/nowhere/ca.pem"]).await?;
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    ensure!(wrong.status.code() == Some(64) && said.contains("--egress-ca-certificates: /nowhere/ca.pem"), "{said}");
    daemon.assert_idle().await
}

async fn shows_it(session: &Session, in_context: bool, site: &PrivateSite) -> Result<()> {
    let mut cdp = session.cdp().await?;
    let mut params = json!({"url": site.url()});
    if in_context {
        params["browserContextId"] =
            cdp.call("Target.createBrowserContext", json!({})).await?["browserContextId"].take();
    }
    let target = cdp.call("Target.createTarget", params).await?;
    let attached = cdp.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true})).await?;
    let page = attached["sessionId"].as_str().unwrap_or_default().to_owned();
    eventually!("the page is there", 20, cdp.evaluate(&page, "document.title").await? == "Private")?;
    session.delete().await?.ok().map(drop)
}

/// A browser context has a profile of its own, and what chromedriver starts has an environment of its own.
async fn contexts_and_browsers_of_the_driver_trust_them(_stage: Stage) -> Result<()> {
    let site = PrivateSite::start("ours").await?;
    let daemon = Daemon::start(trusting(&site)).await?;
    shows_it(&daemon.session(json!({})).await?, true, &site).await?;
    for (engine, options) in [
        ("chromium", json!({"goog:chromeOptions": {"args": ["--headless=new", "--window-size=777,555"]}})),
        ("firefox", json!({"moz:firefoxOptions": {"args": ["-width", "700"]}})),
    ] {
        let session = daemon.webdriver(json!({"browser_type": engine})).await?;
        let driver = Driver::start(session.connect_url()?, options).await?;
        driver.goto(site.url()).await?;
        ensure!(driver.execute("return document.title").await? == "Private", "{engine}");
        driver.quit().await?;
    }
    daemon.end_all().await?;
    daemon.assert_idle().await
}

async fn waiting_browsers_trust_what_the_settings_say_now(_stage: Stage) -> Result<()> {
    let (old, new) = (PrivateSite::start("old").await?, PrivateSite::start("new").await?);
    let preset = |site: &PrivateSite| {
        format!(
            "[{{ name = \"german\", engine = \"chromium\", mode = \"headless\", count = 1, locales = [\"de-DE\"], \
             egress = {{ ca_certificates = [\"{}\"] }} }}]",
            site.authority().display()
        )
    };
    let mut daemon = Daemon::start(trusting(&old).set("POOL_PRESETS", preset(&new))).await?;
    let shows = async |daemon: &Daemon, settings: Value, site: &PrivateSite| -> Result<()> {
        shows_it(&daemon.session(json!({"settings": settings})).await?, false, site).await
    };
    shows(&daemon, json!({"locales": ["de-DE"]}), &new).await?;
    daemon.warm().await?;
    let before = daemon.containers().await?;
    daemon.kill9().await?;
    daemon.set("EGRESS_CA_CERTIFICATES", new.authority().display());
    daemon.set("POOL_PRESETS", preset(&new));
    daemon.restart().await?;
    daemon.warm().await?;
    let after = daemon.containers().await?;
    ensure!(!after.iter().any(|one| before.iter().any(|other| other.id == one.id)), "none of the old ones waits");
    shows(&daemon, json!({"locales": ["de-DE"]}), &new).await?;
    shows(&daemon, json!({}), &new).await?;
    ensure!(!believes(&daemon, daemon.key(), "chromium", &old).await?);
    daemon.assert_idle().await
}
