//! Profiles: what one session's browser keeps for sites, the next one's has, whatever came in between.

use anyhow::{Context, Result, ensure};
use http::Method;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::wire::Refused;
use warmpool_tests::{
    Api, Cdp, Daemon, Driver, Fault, FaultyEngine, Group, Session, Settings, Stage, eventually, group,
};

use crate::live::{say, socket};

pub(crate) fn group() -> Group {
    group!(Some(Settings::on_demand()),
        quick: [outlive_a_webdriver_session],
        full: [
            pass_from_engine_to_engine,
            are_saved_before_a_client_closes_the_browser,
            are_saved_when_a_client_just_goes,
            are_saved_before_the_last_window_closes,
            are_saved_soon_after_a_person_did_something,
            forget_a_login_that_was_ended,
            keep_what_of_a_site_cannot_be_read,
            keep_the_rest_of_a_site_with_much_text,
            keep_what_the_browser_cannot_take,
            have_one_writer_and_many_readers,
            outlive_the_daemon,
            are_saved_though_the_engine_answers_late,
            keep_their_last_whole_save_when_the_worker_dies,
            are_made_changed_and_deleted_by_rest,
            serve_tasks,
            have_the_names_of_other_services,
            outlive_a_browser_with_a_name,
            of_a_wrong_shape_are_refused,
        ],
    )
}

const ENGINES: [(&str, &str); 3] = [("chromium", "chrome"), ("firefox", "firefox"), ("webkit", "MiniBrowser")];

/// What a page does when its user signs in. It keeps a text as well that ends in the middle of a character.
const SIGN_IN: &str = "document.cookie = 'login=' + arguments[0] + '; path=/; max-age=10000'; \
     localStorage.login = arguments[0]; localStorage.torn = '\\ud83d'; void 0";
/// Who is signed in, by both.
const WHO: &str = "return [document.cookie, localStorage.login ?? null]";

fn signed_in(name: &str) -> Value {
    json!([format!("login={name}"), name])
}

fn body(engine: &str, profile: &str, mode: &str) -> Value {
    json!({"browser_type": engine, "headless": true, "url": "about:blank", "profile": {"name": profile, "mode": mode}})
}

async fn drive(session: &Session, name: &str) -> Result<Driver> {
    Driver::start(session.connect_url()?, json!({"browserName": name})).await
}

async fn execute(driver: &Driver, script: &str, argument: &str) -> Result<Value> {
    let body = json!({"script": script, "args": [argument]});
    Ok(driver.command(Method::POST, "/execute/sync", &body).await?.ok()?["value"].clone())
}

/// A tab that shows the site.
async fn open(cdp: &mut Cdp, site: &str) -> Result<String> {
    let page = cdp.open(&format!("{site}/")).await?;
    // It shows its blank page first, which may keep nothing.
    eventually!("the site is there", 20, cdp.evaluate(&page, "location.protocol").await? == "http:")?;
    Ok(page)
}

/// A session that signs in and quits, and saves all of it.
async fn sign_in(daemon: &Daemon, site: &str, engine: (&str, &str), profile: &str, user: &str) -> Result<()> {
    let ended = sign_in_with(daemon, site, engine, profile, user).await?;
    ensure!(ended["profile"]["error"].is_null(), "{ended}");
    Ok(())
}

/// The same; returns the session's record, which may say that not all of it was saved.
async fn sign_in_with(
    daemon: &Daemon,
    site: &str,
    (engine, driver): (&str, &str),
    profile: &str,
    user: &str,
) -> Result<Value> {
    let session = daemon.webdriver(body(engine, profile, "write")).await?;
    let driver = drive(&session, driver).await?;
    driver.goto(&format!("{site}/")).await?;
    execute(&driver, SIGN_IN, user).await?;
    driver.quit().await?;
    let ended = session.becomes("terminated", 20).await?;
    ensure!(ended["profile"]["saved_at"].is_u64(), "{ended}");
    Ok(ended)
}

/// Who is signed in, in a session that reads the profile.
async fn who(daemon: &Daemon, site: &str, (engine, driver): (&str, &str), profile: &str) -> Result<Value> {
    let session = daemon.webdriver(body(engine, profile, "read")).await?;
    let driver = drive(&session, driver).await?;
    driver.goto(&format!("{site}/")).await?;
    let who = execute(&driver, WHO, "").await?;
    session.delete().await?.ok()?;
    Ok(who)
}

async fn versions(api: &Api, profile: &str) -> Result<usize> {
    let reply = api.get(&format!("/profiles/{profile}")).await?;
    Ok(reply.json()?["versions"].as_array().map_or(0, Vec::len))
}

async fn outlive_a_webdriver_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    sign_in(daemon, &site, ENGINES[0], "quick", "ann").await?;
    ensure!(who(daemon, &site, ENGINES[0], "quick").await? == signed_in("ann"));
    ensure!(versions(&daemon.api(), "quick").await? == 1, "a reader saves nothing");
    Ok(())
}

async fn pass_from_engine_to_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (number, from) in ENGINES.into_iter().enumerate() {
        let user = format!("user{number}");
        sign_in(daemon, &site, from, "shared", &user).await.with_context(|| format!("by {}", from.0))?;
        for to in ENGINES {
            let who = who(daemon, &site, to, "shared").await.with_context(|| format!("{} after {}", to.0, from.0))?;
            ensure!(who == signed_in(&user), "{} after {}: {who}", to.0, from.0);
        }
    }
    ensure!(versions(&daemon.api(), "shared").await? == 3);
    Ok(())
}

/// Puppeteer's `browser.close()`: the command reaches the browser after the save.
async fn are_saved_before_a_client_closes_the_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(body("chromium", "closed", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'eve'")).await?;
    let _ = cdp.call("Browser.close", json!({})).await;
    let ended = session.becomes("completed", 20).await?;
    ensure!(ended["profile"]["error"].is_null() && ended["profile"]["saved_at"].is_u64(), "{ended}");
    ensure!(who(daemon, &site, ENGINES[0], "closed").await? == signed_in("eve"));

    let session = daemon.session(body("firefox", "closed", "write")).await?;
    let mut bidi = session.cdp().await?;
    bidi.call("session.new", json!({"capabilities": {}})).await?;
    let tree = bidi.call("browsingContext.getTree", json!({"maxDepth": 0})).await?;
    let context = tree["contexts"][0]["context"].clone();
    let url = format!("{site}/");
    bidi.call("browsingContext.navigate", json!({"context": context, "url": url, "wait": "complete"})).await?;
    let expression = SIGN_IN.replace("arguments[0]", "'fay'");
    let script = json!({"expression": expression, "target": {"context": context}, "awaitPromise": false});
    bidi.call("script.evaluate", script).await?;
    let _ = bidi.call("browser.close", json!({})).await;
    let ended = session.becomes("completed", 20).await?;
    ensure!(ended["profile"]["error"].is_null(), "{ended}");
    ensure!(who(daemon, &site, ENGINES[1], "closed").await? == signed_in("fay"));
    Ok(())
}

async fn are_saved_when_a_client_just_goes(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SESSION_RECONNECT_WINDOW", "1s")).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(body("chromium", "gone", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'gus'")).await?;
    // The tab has left the site by then.
    cdp.evaluate(&page, "void (location.href = 'about:blank')").await?;
    drop(cdp);
    let ended = eventually!("it is saved", 20, {
        Some(session.record().await?)
            .filter(|record| record["ended_at"].is_u64() && record["profile"]["saved_at"].is_u64())
    })?;
    ensure!(ended["reason"] == "disconnected" && ended["profile"]["error"].is_null(), "{ended}");
    ensure!(who(&daemon, &site, ENGINES[0], "gone").await? == signed_in("gus"));
    daemon.assert_idle().await
}

async fn are_saved_before_the_last_window_closes(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let saved = async |session: &Session, profile: &str, user: &str| {
        let ended = eventually!("the session ends", 30, {
            Some(session.record().await?).filter(|record| record["ended_at"].is_u64())
        })?;
        ensure!(ended["profile"]["error"].is_null() && ended["profile"]["saved_at"].is_u64(), "{ended}");
        let state = daemon.api().get(&format!("/profiles/{profile}/state")).await?.text();
        ensure!(state.contains(user), "{state}");
        Ok(())
    };
    for (engine, name) in &ENGINES[..2] {
        let session = daemon.webdriver(body(engine, &format!("window-{engine}"), "write")).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        execute(&driver, SIGN_IN, engine).await?;
        driver.command(Method::DELETE, "/window", &Value::Null).await?.ok()?;
        saved(&session, &format!("window-{engine}"), engine).await.with_context(|| format!("{engine} by WebDriver"))?;
    }
    let shown = json!({"browser_type": "chromium", "headless": false, "url": "about:blank",
        "profile": {"name": "window", "mode": "write"}});
    let session = daemon.session(shown).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'zoe'")).await?;
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    for target in targets["targetInfos"].as_array().into_iter().flatten().filter(|target| target["type"] == "page") {
        let _ = cdp.call("Target.closeTarget", json!({"targetId": target["targetId"]})).await;
    }
    saved(&session, "window", "zoe").await.context("on a display")
}

/// They may close the last tab by hand, which nothing announces.
async fn are_saved_soon_after_a_person_did_something(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(body("chromium", "by-hand", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'kim'")).await?;
    let mut person = socket(&session, "&enable_actions=true").await?;
    say(&mut person, json!({"type": "control", "take": true})).await?;
    say(&mut person, json!({"type": "open", "url": format!("{site}/tab/2")})).await?;
    // It is long before the next save would be due.
    let api = daemon.api();
    eventually!("it is saved", 30, {
        let state = api.get("/profiles/by-hand/state").await?;
        state.status == 200 && state.text().contains("kim")
    })?;
    session.delete().await?.ok()?;
    Ok(())
}

/// What a site has deleted does not come back from the save before.
async fn forget_a_login_that_was_ended(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    sign_in(daemon, &site, ENGINES[0], "left", "liz").await?;
    // On a display, closing the last tab ends the browser, so that each closing waits for a save.
    let mut shown = body("chromium", "left", "write");
    shown["headless"] = json!(false);
    let session = daemon.session(shown).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    ensure!(cdp.evaluate(&page, "localStorage.login").await? == "liz");
    cdp.evaluate(&page, "localStorage.clear(); document.cookie = 'login=; path=/; max-age=0'").await?;
    let shown = page_target(&mut cdp, &site).await?;
    cdp.call("Target.closeTarget", json!({"targetId": shown})).await?;
    let state = async || Ok::<_, anyhow::Error>(daemon.api().get("/profiles/left/state").await?.text());
    eventually!("the login is forgotten", 20, !state().await?.contains("liz"))?;
    session.delete().await?.ok()?;
    ensure!(!state().await?.contains("liz"), "{}", state().await?);
    Ok(())
}

/// The target of the tab that shows the site.
async fn page_target(cdp: &mut Cdp, site: &str) -> Result<String> {
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    let mut all = targets["targetInfos"].as_array().into_iter().flatten();
    let shown = all.find(|target| target["url"].as_str().is_some_and(|url| url.starts_with(site)));
    Ok(shown.context("a tab of the site")?["targetId"].as_str().context("an id")?.to_owned())
}

/// DevTools has six bytes for a character that is not ASCII: what an origin may keep can be too long for a message.
async fn keep_the_rest_of_a_site_with_much_text(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(body("chromium", "wordy", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    let script = "document.cookie = 'login=max; path=/; max-age=10000'; new Promise((kept, failed) => {
        const opening = indexedDB.open('books', 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore('pages').put('ж'.repeat(6e6), 1);
        opening.onsuccess = () => kept('kept');
        opening.onerror = () => failed(opening.error);
    })";
    ensure!(cdp.evaluate(&page, script).await? == "kept");
    session.delete().await?.ok()?;
    let ended = session.record().await?;
    let error = ended["profile"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains(&site) && error.contains("larger than a state may be"), "{ended}");
    let state = daemon.api().get("/profiles/wordy/state").await?.text();
    ensure!(state.contains("max"), "{state}");
    Ok(())
}

/// WebKit has neither partitioned cookies nor private files here: those of another browser come out as they went in.
async fn keep_what_the_browser_cannot_take(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let api = daemon.api();
    let cookie = json!({"name": "chip", "value": "dip", "domain": "shop.example", "path": "/", "secure": true, "expires": -1,
        "sameSite": "None", "partitionKey": "https://top.example"});
    let files = json!([{"path": "a.bin", "type": "file", "base64": "AAEC"}]);
    let kept = json!({"cookies": [cookie], "origins": [{"origin": site, "localStorage": [], "opfs": files}]});
    let put = json!({"state": kept}).to_string();
    api.send(Method::PUT, "/profiles/foreign", json_headers(), put.into()).await?.ok()?;
    sign_in_with(daemon, &site, ENGINES[2], "foreign", "ned").await?;
    let state = api.get("/profiles/foreign/state").await?.json()?;
    ensure!(
        state["cookies"].as_array().is_some_and(|all| all.iter().any(|at| at["partitionKey"] == "https://top.example"))
    );
    let origin =
        state["origins"].as_array().into_iter().flatten().find(|at| at["origin"] == *site).context("the site")?;
    ensure!(origin["opfs"][0]["path"] == "a.bin" && origin.to_string().contains("ned"), "{origin}");
    Ok(())
}

/// An origin that is larger than a profile may be stays as it was saved before, and the session says so.
async fn keep_what_of_a_site_cannot_be_read(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("PROFILES_MAX_SIZE", "64KiB")).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();
    for (engine, name) in ENGINES {
        let before = json!({"origins": [{"origin": site, "localStorage": [{"name": "login", "value": "ann"}]}]});
        let path = format!("/profiles/{engine}");
        api.send(Method::PUT, &path, json_headers(), json!({"state": before}).to_string().into()).await?.ok()?;
        let session = daemon.webdriver(body(engine, engine, "write")).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        let fill = "document.cookie = 'later=1; max-age=10000'; localStorage.large = 'x'.repeat(arguments[0])";
        execute(&driver, fill, "80000").await?;
        driver.quit().await?;
        let ended = session.becomes("terminated", 20).await?;
        let error = ended["profile"]["error"].as_str().unwrap_or_default();
        ensure!(error.contains(&site) && error.contains("larger than"), "{engine}: {ended}");
        ensure!(ended["profile"]["saved_at"].is_u64(), "{engine}: {ended}");
        let state = api.get(&format!("{path}/state")).await?.text();
        ensure!(state.contains("ann") && state.contains("later"), "{engine}: {state}");
    }
    daemon.assert_idle().await
}

async fn have_one_writer_and_many_readers(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    sign_in(daemon, &site, ENGINES[0], "busy", "ivy").await?;
    let writer = daemon.session(body("chromium", "busy", "write")).await?;
    let refused = daemon.api().post("/sessions/create", &body("chromium", "busy", "write")).await?;
    ensure!(refused.status == 409 && refused.text().contains(&writer.id), "{}", refused.text());
    ensure!(refused.text().contains("profile_in_use"), "{}", refused.text());
    let deleted = daemon.api().delete("/profiles/busy").await?;
    ensure!(deleted.status == 409, "{}", deleted.text());
    ensure!(daemon.api().get("/profiles/busy").await?.ok()?["writer"] == writer.id);
    ensure!(who(daemon, &site, ENGINES[0], "busy").await? == signed_in("ivy"));
    writer.delete().await?.ok()?;
    eventually!("the next may write", 20, {
        let next = daemon.api().post("/sessions/create", &body("chromium", "busy", "write")).await?;
        if next.status == 200 {
            daemon
                .api()
                .delete(&format!("/sessions/{}", next.json()?["session_id"].as_str().unwrap_or_default()))
                .await?;
        }
        next.status == 200
    })?;
    daemon.end_all().await
}

async fn outlive_the_daemon(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand().set("PROFILES_SAVE_INTERVAL", "1s")).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.webdriver(body("chromium", "kill", "write")).await?;
    let driver = drive(&session, "chrome").await?;
    driver.goto(&format!("{site}/")).await?;
    execute(&driver, SIGN_IN, "kim").await?;
    let api = daemon.api();
    eventually!("it is saved while the session lives", 20, {
        api.get("/profiles/kill/state").await?.text().contains("kim")
    })?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.ready().await?;
    let api = daemon.api();
    // Nobody else may write in between.
    let refused = api.post("/sessions/create", &body("chromium", "kill", "write")).await?;
    ensure!(refused.status == 409, "{}", refused.text());
    execute(&driver, SIGN_IN, "lea").await?;
    let session = Session::from_body(&api, session.body.clone())?;
    session.delete().await?.ok()?;
    let ended = session.becomes("terminated", 20).await?;
    ensure!(ended["profile"]["error"].is_null(), "{ended}");
    ensure!(who(&daemon, &site, ENGINES[0], "kill").await? == signed_in("lea"));
    ensure!(versions(&api, "kill").await? == 1, "one session, one version");

    // Its worker is gone as well.
    let session = daemon.session(body("chromium", "kill", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'pia'")).await?;
    eventually!("it is saved while the session lives", 20, {
        api.get("/profiles/kill/state").await?.text().contains("pia")
    })?;
    let container = daemon.only_container().await?;
    daemon.kill9().await?;
    daemon.docker().run(&["rm", "--force", "--volumes", &container]).await?;
    daemon.restart().await?;
    daemon.ready().await?;
    let session = Session::from_body(&daemon.api(), session.body.clone())?;
    let ended = session.becomes("failure", 20).await?;
    ensure!(ended["profile"]["error"].as_str().is_some_and(|error| error.contains("gone")), "{ended}");
    ensure!(ended["profile"]["saved_at"].is_u64(), "{ended}");
    daemon.assert_idle().await
}

/// Its session is deleted after a restart of the daemon, before that has found the worker.
async fn are_saved_though_the_engine_answers_late(stage: Stage) -> Result<()> {
    let engine = FaultyEngine::start()?;
    let mut daemon =
        Daemon::start(Settings::on_demand().set("DOCKER_HOST", engine.url()).set("DOCKER_TIMEOUT", "1s")).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.webdriver(body("chromium", "late", "write")).await?;
    let driver = drive(&session, "chrome").await?;
    driver.goto(&format!("{site}/")).await?;
    execute(&driver, SIGN_IN, "noa").await?;
    daemon.kill9().await?;
    engine.all(Fault::Silence);
    daemon.restart().await?;
    let api = daemon.api();
    let session = Session::from_body(&api, session.body.clone())?;
    ensure!(session.record().await?["status"] == "unknown", "it was found already");
    let wait_and_heal = async {
        // The deletion goes first, and is not done while others look.
        for _ in 0..5 {
            let record = session.record().await?;
            ensure!(record["status"] == "unknown", "it did not wait: {record}");
        }
        engine.heal();
        Ok(())
    };
    let (deleted, waited) = tokio::join!(session.delete(), wait_and_heal);
    waited?;
    let ended = deleted?.ok()?;
    ensure!(ended["profile"]["error"].is_null() && ended["profile"]["saved_at"].is_u64(), "{ended}");
    daemon.ready().await?;
    ensure!(who(&daemon, &site, ENGINES[0], "late").await? == signed_in("noa"));
    daemon.assert_idle().await
}

async fn keep_their_last_whole_save_when_the_worker_dies(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("PROFILES_SAVE_INTERVAL", "1s")).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();
    for (engine, name) in ENGINES {
        let session = daemon.webdriver(body(engine, engine, "write")).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        execute(&driver, SIGN_IN, "mia").await?;
        eventually!(format!("{engine} is saved while the session lives"), 20, {
            api.get(&format!("/profiles/{engine}/state")).await?.text().contains("mia")
        })?;
        let container = daemon.only_container().await?;
        daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
        let ended = eventually!("the session ends", 30, {
            Some(session.record().await?).filter(|record| record["profile"]["error"].is_string())
        })?;
        ensure!(ended["profile"]["error"].as_str().is_some_and(|error| error.contains("gone")), "{engine}: {ended}");
        ensure!(who(&daemon, &site, (engine, name), engine).await? == signed_in("mia"), "{engine}");
    }
    daemon.assert_idle().await
}

async fn are_made_changed_and_deleted_by_rest(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let state = |value: &str| {
        json!({"cookies": [{"name": "a", "value": value, "domain": "shop.example", "path": "/"}],
            "origins": [{"origin": "https://shop.example", "localStorage": [{"name": "k", "value": value}]}]})
    };
    let made = api.post("/profiles", &json!({"name": "rest", "state": state("one")})).await?;
    ensure!(made.status == 201, "{}", made.text());
    let again = api.post("/profiles", &json!({"name": "rest"})).await?;
    ensure!(again.status == 409 && again.text().contains("profile_exists"), "{}", again.text());
    let put = |body: Value| {
        let api = api.clone();
        async move { api.send(Method::PUT, "/profiles/rest", json_headers(), body.to_string().into()).await }
    };
    put(json!({"state": state("two")})).await?.ok()?;
    let exported = api.get("/profiles/rest/state").await?.ok()?;
    ensure!(exported["cookies"][0]["value"] == "two", "{exported}");
    ensure!(api.get("/profiles/rest/state?version=1").await?.ok()?["cookies"][0]["value"] == "one");
    put(json!({"version": 1})).await?.ok()?;
    ensure!(api.get("/profiles/rest/state").await?.ok()?["cookies"][0]["value"] == "one");
    let missing = put(json!({"version": 9})).await?;
    ensure!(missing.status == 404, "{}", missing.text());
    let shown = api.get("/profiles/rest").await?.ok()?;
    let held = json!([{"domain": "shop.example", "cookies": 1, "list": [{"name": "a", "path": "/"}]}]);
    ensure!(shown["cookies"] == held, "{shown}");
    ensure!(shown["origins"][0]["local_storage"] == 1 && !shown.to_string().contains("\"one\""), "{shown}");
    ensure!(shown["versions"].as_array().map(Vec::len) == Some(3), "{shown}");
    let listed = api.get("/profiles").await?.ok()?;
    ensure!(listed["profiles"].as_array().is_some_and(|all| all.iter().any(|at| at["name"] == "rest")), "{listed}");
    ensure!(api.delete("/profiles/rest").await?.status == 204);
    ensure!(api.get("/profiles/rest").await?.status == 404);
    Ok(())
}

fn json_headers() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers
}

async fn serve_tasks(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    sign_in(daemon, &site, ENGINES[0], "task", "nia").await?;
    let schema = json!({"login": {"selector": "body", "type": "text"}});
    let extract = json!({"url": format!("{site}/cookies"), "schema": schema, "profile": {"name": "task"}, "wait": 60});
    let reply = daemon.api().post("/lam/extract", &extract).await?;
    ensure!(reply.text().contains("nia"), "{}", reply.text());
    // Each item begins with it, and no other context.
    let urls = [format!("{site}/cookies?1"), format!("{site}/cookies?2")];
    let fleet = json!({"urls": urls, "extract": {"url": "{{input.url}}", "schema": schema}, "profile": {"name": "task"}, "wait": 100});
    let fleet = daemon.api().post("/lam/fleet", &fleet).await?.ok()?;
    let id = fleet["taskId"].as_str().context("taskId")?;
    let items = daemon.api().get(&format!("/lam/tasks/{id}/items")).await?.ok()?;
    for at in 0..2 {
        ensure!(items["items"][at]["output"].to_string().contains("nia"), "{items}");
    }
    let fleet = json!({"urls": [site], "extract": {"schema": schema}, "profile": {"name": "task", "mode": "write"}});
    let refused = daemon.api().post("/lam/fleet", &fleet).await?;
    ensure!(refused.status == 400 && refused.text().contains("profile.mode"), "{}", refused.text());
    Ok(())
}

async fn have_the_names_of_other_services(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let sockets = daemon.url().replace("http:", "ws:");
    let mut cdp = Cdp::connect(&format!("{sockets}/?token={}&userDataDir=other", daemon.key())).await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'ola'")).await?;
    let _ = cdp.call("Browser.close", json!({})).await;
    eventually!("it is saved", 20, versions(&daemon.api(), "other").await? == 1)?;
    // A grid's client names it among our own options.
    let own = json!({"headless": true, "url": "about:blank", "profile": {"name": "other", "mode": "read"}});
    let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "warmpool:options": own}}});
    let api = daemon.api();
    let made = api.post("/session", &wanted).await?.ok()?;
    let path = format!("/session/{}", made["value"]["sessionId"].as_str().context("an id")?);
    api.post(&format!("{path}/url"), &json!({"url": format!("{site}/")})).await?.ok()?;
    let who = api.post(&format!("{path}/execute/sync"), &json!({"script": WHO, "args": []})).await?.ok()?;
    ensure!(who["value"] == signed_in("ola"), "{who}");
    api.delete(&path).await?.ok()?;
    Ok(())
}

/// A browser with a name ends when nobody has used it for a while. The next one of that name begins where it left off.
async fn outlive_a_browser_with_a_name(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SESSION_RECONNECT_WINDOW", "1s")).await?;
    let site = stage.site_for(&daemon).await?;
    let named = format!("{}/?token={}&session=agent", daemon.url().replace("http:", "ws:"), daemon.key());
    let address = format!("{named}&userDataDir=agent");
    let mut cdp = Cdp::connect(&address).await?;
    let page = open(&mut cdp, &site).await?;
    cdp.evaluate(&page, &SIGN_IN.replace("arguments[0]", "'pia'")).await?;
    // It joins with the same profile, or without naming one, and not with another.
    for joins in [&address, &named] {
        Cdp::connect(joins).await?.disconnect().await?;
    }
    let refused = Cdp::connect(&format!("{named}&userDataDir=other")).await.err().context("another profile joined")?;
    let refused = refused.downcast::<Refused>()?;
    ensure!(refused.status == 409 && refused.body.contains("userDataDir"), "{refused}");
    cdp.disconnect().await?;
    eventually!("it is saved at the end", 20, {
        let listed = daemon.api().get("/sessions?status=running").await?.ok()?;
        listed["sessions"] == json!([]) && versions(&daemon.api(), "agent").await? == 1
    })?;
    let mut cdp = Cdp::connect(&address).await?;
    let page = open(&mut cdp, &site).await?;
    let who = cdp.evaluate(&page, &WHO.replace("return ", "")).await?;
    ensure!(who == signed_in("pia"), "{who}");
    cdp.disconnect().await?;
    daemon.assert_idle().await
}

async fn of_a_wrong_shape_are_refused(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for (body, field) in [
        (json!({"profile": "shop"}), "profile"),
        (json!({"profile": {"name": "a/b"}}), "profile.name"),
        (json!({"profile": {"name": ".."}}), "profile.name"),
        (json!({"profile": {"name": "a", "mode": "append"}}), "profile.mode"),
        (json!({"profile": {"name": "a", "mode": "write"}, "state": {}}), "state"),
    ] {
        let reply = api.post("/sessions/create", &body).await?;
        ensure!(reply.status == 400 && reply.json()?["error"]["field"] == field, "{body}: {}", reply.text());
    }
    let unknown = api.post("/sessions/create", &json!({"profile": {"name": "nobody"}})).await?;
    ensure!(unknown.status == 404 && unknown.text().contains("unknown_profile"), "{}", unknown.text());
    let wrong = api.post("/profiles", &json!({"name": "x", "state": {"jar": []}})).await?;
    ensure!(wrong.status == 400 && wrong.text().contains("state.jar"), "{}", wrong.text());
    Ok(())
}
