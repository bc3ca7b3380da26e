//! What a client's switches, preferences and extensions do to Chromium's fence: nothing.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Daemon, Driver, Group, Settings, Stage, eventually, group, webdriver};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            only_judged_switches_reach_the_browser,
            every_process_is_of_use,
            no_page_puts_other_policies_in_place,
            an_extension_runs_no_program_and_keeps_the_proxy_and_a_download_sets_no_policy,
        ],
    )
}

/// Another Chromium may know these switches by other names, and would take more memory and time without a word.
async fn every_process_is_of_use(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let lines = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done";
    let found = daemon.docker().inspect(&container, &["sh", "-c", lines]).await?;
    // A service with a sandbox, which keeps its process.
    ensure!(found.contains("--utility-sub-type=storage.mojom.StorageService"), "{found}");
    for not_there in ["--utility-sub-type=network.mojom.NetworkService", "chrome_crashpad_handler"] {
        ensure!(!found.contains(not_there), "{not_there}: {found}");
    }
    daemon.assert_idle().await
}

/// A page of Chromium's own, for who tests policies, puts others in place of all that the image has.
async fn no_page_puts_other_policies_in_place(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.session(json!({"headless": true})).await?;
    let mut cdp = session.cdp().await?;
    for (address, title) in [("chrome://policy", "Policies"), ("chrome://policy/test", "chrome://policy/test")] {
        let page = cdp.open(address).await?;
        eventually!(format!("{address} is called {title}"), 20, cdp.evaluate(&page, "document.title").await? == title)?;
    }
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn only_judged_switches_reach_the_browser(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("WORKER_CHROMIUM_SWITCHES", "wanted-by-the-operator")).await?;
    let session = daemon.webdriver(json!({"headless": true})).await?;
    let options = |options: Value| json!({"goog:chromeOptions": options});
    for (misspelled, said) in [
        ("--no-sandbox ", "--no-sandbox "),
        ("--single-process\t", "--single-process\\t"),
        ("\u{2013}no-sandbox", "no-sandbox"),
        ("--zygote-cmd-prefix=/bin/sh", "--zygote-cmd-prefix"),
        ("--enable-blink-features=MojoJS", "MojoJS"),
    ] {
        let always = json!({"alwaysMatch": options(json!({"args": [misspelled]}))});
        let reply = webdriver::new_session(session.connect_url()?, always).await?;
        let (_, message) = webdriver::fault(&reply, 500).or_else(|_| webdriver::fault(&reply, 400))?;
        ensure!(message.contains(said), "{misspelled:?} is named: {reply}");
    }
    // As a client's downloads could leave them where the driver's browser is to have its profile.
    let container = daemon.only_container().await?;
    let seed = "for n in 1 2 3 4 5 6 7 8; do mkdir /home/worker/profile-$n && : > /home/worker/profile-$n/seeded; done";
    daemon.docker().inspect(&container, &["sh", "-c", seed]).await?;
    let always = options(json!({
        "args": ["-LANG=de", "--unheard-of=1", "--wanted-by-the-operator=2", "--js-flags=--expose-gc,--allow-natives-syntax"],
        // The driver leaves out what it would add itself, and nothing of the agent's.
        "excludeSwitches": ["enable-automation", "disable-quic", "disable-features"],
        "prefs": {"download.default_directory": "/tmp/own", "custom_handlers": {"enabled": true}},
    }));
    let driver = Driver::start(session.connect_url()?, always).await?;
    let said = driver.capabilities["warmpool:options"]["warnings"].to_string();
    for name in [
        "args: unheard-of",
        "js-flags=allow-natives-syntax",
        "worker.chromium_switches",
        "prefs.custom_handlers.enabled",
    ] {
        ensure!(said.contains(name), "{name}: {said}");
    }
    ensure!(!said.contains("wanted-by-the-operator"), "{said}");
    let browsers = "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/cmdline; done; find /home/worker -name Preferences -exec cat {} +";
    let found = daemon.docker().inspect(&container, &["sh", "-c", browsers]).await?;
    let switches: Vec<&str> = found.lines().collect();
    for there in [
        "--lang=de",
        "--wanted-by-the-operator=2",
        "--js-flags=--expose-gc",
        "--disable-quic",
        "--proxy-server=socks5://127.0.0.1:1080",
        "--proxy-bypass-list=<-loopback>",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    ] {
        ensure!(switches.contains(&there), "{there} is missing: {found}");
    }
    for not_there in ["--unheard-of", "--no-sandbox", "--enable-automation", "/tmp/own", "allow-natives-syntax"] {
        ensure!(!found.contains(not_there), "{not_there}: {found}");
    }
    let profile = switches.iter().find_map(|switch| switch.strip_prefix("--user-data-dir=")).context("a profile")?;
    let inside = daemon.docker().inspect(&container, &["ls", profile]).await?;
    ensure!(inside.contains("Default") && !inside.contains("seeded"), "the profile is the driver's alone: {inside}");
    driver.quit().await?;
    daemon.assert_idle().await
}

/// DevTools loads an extension from a folder of the container, and a client writes such a folder by downloads.
async fn an_extension_runs_no_program_and_keeps_the_proxy_and_a_download_sets_no_policy(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.session(json!({"headless": true, "url": "about:blank"})).await?;
    let container = daemon.only_container().await?;
    let mut cdp = session.cdp().await?;
    for (name, permissions) in
        [("plain", json!([])), ("programs", json!(["nativeMessaging"])), ("proxies", json!(["proxy"]))]
    {
        let manifest = json!({
            "manifest_version": 3, "name": name, "version": "1",
            "permissions": permissions, "background": {"service_worker": "background.js"},
        });
        let write = "mkdir /tmp/$0 && printf %s \"$1\" > /tmp/$0/manifest.json && : > /tmp/$0/background.js";
        daemon.docker().inspect(&container, &["sh", "-c", write, name, &manifest.to_string()]).await?;
        let loaded = load(&mut cdp, name).await;
        ensure!(loaded.is_ok() == (name == "plain"), "{name}: {loaded:?}");
    }
    let page = cdp.first_page().await?;
    for folder in ["/tmp/warmpool-policies", "/run/warmpool"] {
        let behavior = json!({"behavior": "allow", "downloadPath": folder, "eventsEnabled": true});
        cdp.call("Browser.setDownloadBehavior", behavior).await?;
        let policy = r#"Object.assign(document.createElement("a"), {
            download: "ca-certificates.json", href: URL.createObjectURL(new Blob(['{"HomepageLocation": "http://x/"}'])),
        }).click()"#;
        cdp.evaluate(&page, policy).await?;
        let ended = cdp.event("Browser.downloadProgress", |params| params["state"] != "inProgress").await?;
        ensure!(ended["state"] == "canceled", "{folder}: {ended}");
    }
    let there = daemon.docker().inspect(&container, &["sh", "-c", "cat /etc/chromium/policies/managed/ca*"]).await?;
    ensure!(there.trim() == "{}", "{there}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn load(cdp: &mut Cdp, name: &str) -> Result<String> {
    let loaded = cdp.call("Extensions.loadUnpacked", json!({"path": format!("/tmp/{name}")})).await?;
    loaded["id"].as_str().map(str::to_owned).context("no id")
}
