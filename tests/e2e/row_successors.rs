//! Row 23: a session leaves all that a page and a process can leave, and the next one finds none of it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use warmpool_tests::private_site::PrivateSite;
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, evidence, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [nothing_is_left_to_the_next_session]).hours(5)
}

/// Leaves something in each place where a page can; names the places.
const LEAVE: &str = "
const [done] = arguments;
(async () => {
  const left = [];
  const leave = async (name, make) => { try { await make(); left.push(name) } catch {} };
  await leave('cookie', () => { document.cookie = 'left=1; max-age=3600; secure'; if (!document.cookie) throw 0 });
  await leave('local storage', () => localStorage.setItem('left', '1'));
  await leave('session storage', () => sessionStorage.setItem('left', '1'));
  await leave('database', () => new Promise((resolve, reject) => {
    const open = indexedDB.open('left', 1);
    open.onupgradeneeded = () => open.result.createObjectStore('left');
    open.onsuccess = () => { open.result.close(); resolve() };
    open.onerror = reject;
  }));
  await leave('cache', async () => { await (await caches.open('left')).put('/left', new Response('left')) });
  await leave('service worker', () => navigator.serviceWorker.register('/left.js'));
  await leave('file system', async () => { await (await navigator.storage.getDirectory()).getFileHandle('left', {create: true}) });
  await (await fetch('/cached')).text();
  await leave('clipboard', async () => {
    await Promise.race([navigator.clipboard.writeText('left'), new Promise((_, late) => setTimeout(late, 3000))]);
    if (await navigator.clipboard.readText() !== 'left') throw 0;
  });
  await leave('window', () => { window.name = 'left' });
  const link = document.createElement('a');
  link.href = 'data:application/octet-stream,left';
  link.download = 'left.bin';
  document.body.append(link);
  link.click();
  return left;
})().then(done, error => done('failed: ' + error))";

/// Names the places where something is.
const FIND: &str = "
const [done] = arguments;
(async () => {
  const found = [];
  const find = async (name, is) => { try { if (await is()) found.push(name) } catch {} };
  await find('cookie', () => document.cookie !== '');
  await find('local storage', () => localStorage.length > 0);
  await find('session storage', () => sessionStorage.length > 0);
  await find('database', async () => (await indexedDB.databases()).length > 0);
  await find('cache', async () => (await caches.keys()).length > 0);
  await find('service worker', async () => (await navigator.serviceWorker.getRegistrations()).length > 0);
  await find('file system', async () => {
    for await (const name of (await navigator.storage.getDirectory()).keys()) return true;
  });
  await (await fetch('/cached')).text();
  await find('clipboard', async () => {
    const late = new Promise(done => setTimeout(done, 3000, ''));
    return await Promise.race([navigator.clipboard.readText(), late]) !== '';
  });
  await find('window', () => window.name !== '');
  return found;
})().then(done, error => done('failed: ' + error))";

async fn answer(driver: &Driver, script: &str) -> Result<Vec<String>> {
    let body = json!({"script": script, "args": []});
    let reply = driver.command(Method::POST, "/execute/async", &body).await?.ok()?;
    serde_json::from_value(reply["value"].clone()).with_context(|| reply.to_string())
}

/// What processes run in a container, and what lies in its folders that may be written to.
async fn inside(daemon: &Daemon, container: &str) -> Result<String> {
    let processes = daemon.docker().run(&["top", container, "-eo", "pid,args"]).await?;
    let listed = "find /tmp /home /dev/shm -name 'left*' 2>/dev/null; true";
    Ok(processes + "\n" + &daemon.docker().inspect(container, &["sh", "-c", listed]).await?)
}

/// A session with a driver, in the worker that was warm.
async fn next(daemon: &Daemon, engine: &str) -> Result<(String, Session, Driver)> {
    daemon.warm().await?;
    let container = daemon.only_container().await?;
    // WebKit has no permission for the clipboard.
    let permissions: &[&str] = if engine == "webkit" { &[] } else { &["clipboard-read", "clipboard-write"] };
    let settings = json!({"permissions": permissions});
    let session = daemon.webdriver(json!({"browser_type": engine, "settings": settings})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    Ok((container, session, driver))
}

async fn nothing_is_left_to_the_next_session(_: Stage) -> Result<()> {
    let rounds = evidence::rounds(200);
    let site = PrivateSite::start("theirs").await?;
    for engine in ["chromium", "firefox", "webkit"] {
        let warm = format!("POOL_{}_HEADLESS", engine.to_uppercase());
        let settings = Settings::on_demand().set(&warm, "1").set("EGRESS_CA_CERTIFICATES", site.authority().display());
        let daemon = Daemon::start(settings).await?;
        let (mut containers, mut places) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..rounds {
            let visit = visit(&daemon, engine, &site, &mut containers).await;
            places.extend(visit.with_context(|| format!("{engine}, round {round}"))?);
        }
        let all: BTreeSet<&str> =
            ["cookie", "local storage", "database", "cache", "service worker", "download", "http cache", "clipboard"]
                .into();
        let missed: Vec<&&str> = all.iter().filter(|place| !places.contains(**place)).collect();
        evidence::saw(format!(
            "{engine}: {} containers for {rounds} sessions, left in {} places",
            containers.len(),
            places.len()
        ));
        // WebKit's service workers are off in the container.
        ensure!(
            missed.is_empty() || (engine == "webkit" && places.len() > 4),
            "{engine}: {missed:?} was not left, so not tried"
        );
        daemon.assert_idle().await?;
    }
    Ok(())
}

/// One session, which finds nothing and leaves all that it can; returns the places.
async fn visit(
    daemon: &Daemon,
    engine: &str,
    site: &PrivateSite,
    before: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    let (container, session, driver) = next(daemon, engine).await?;
    ensure!(before.insert(container.clone()), "the container was somebody's before");
    driver.goto(site.url()).await?;
    let asked = site.asked();
    let found = answer(&driver, FIND).await?;
    ensure!(found.is_empty(), "left by the one before: {found:?}");
    ensure!(site.asked() == asked + 1, "the cache of the one before had an answer");
    let seen = inside(daemon, &container).await?;
    ensure!(!seen.contains("left") && !seen.contains("sleep 4711"), "{seen}");
    let files: Value = session.get_file("").await?.ok()?;
    ensure!(files.as_array().is_some_and(Vec::is_empty), "{files}");

    let mut places = answer(&driver, LEAVE).await?;
    if site.asked() == asked + 1 {
        places.push("http cache".to_owned());
    }
    let leave = "setsid sleep 4711 > /dev/null 2>&1 & touch /tmp/left ~/left /dev/shm/left; true";
    daemon.docker().inspect(&container, &["sh", "-c", leave]).await?;
    let left = inside(daemon, &container).await?;
    let is_left =
        left.contains("sleep 4711") && ["/tmp/left\n", "/dev/shm/left"].iter().all(|file| left.contains(file));
    ensure!(is_left, "nothing was left, so nothing is tried: {left}");
    let downloaded =
        eventually!("the download is there", 5, session.get_file("").await?.ok()?.to_string().contains("left.bin"));
    if downloaded.is_ok() {
        places.push("download".to_owned());
    }
    session.put_file("left.txt", b"left".to_vec()).await?.ok()?;
    session.delete().await?.ok()?;
    Ok(places)
}
