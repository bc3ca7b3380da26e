//! Finding a session again by a name, a target or a grid's id.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::wire::{self, Refused};
use warmpool_tests::{Api, Cdp, Daemon, Driver, Group, Settings, Stage, eventually, group, webdriver};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [a_name_leads_to_one_browser],
        full: [
            a_target_is_found_without_its_session,
            the_id_of_a_grid_opens_its_session,
            the_last_window_is_closed_and_the_session_quit,
            an_address_needs_no_slash,
        ],
    )
}

fn sockets(daemon: &Daemon) -> String {
    daemon.url().replace("http:", "ws:")
}

async fn other_key(daemon: &Daemon, name: &str) -> Result<String> {
    let said = daemon.cli_ok(&["key", "create", name]).await?;
    let key = said.split_whitespace().find(|word| word.starts_with("wp_") && word.len() > 40).context("a key")?;
    Ok(key.to_owned())
}

async fn running(api: &Api) -> Result<Vec<Value>> {
    let listed = api.get("/sessions?status=running").await?.ok()?;
    Ok(listed["sessions"].as_array().context("sessions")?.clone())
}

async fn nothing_runs(api: &Api) -> Result<()> {
    eventually!("no session runs", 20, running(api).await?.is_empty())
}

async fn refusal(url: &str) -> Result<Refused> {
    match wire::websocket(url, &HeaderMap::new(), None).await {
        Ok(_) => anyhow::bail!("{url} was opened"),
        Err(error) => error.downcast::<Refused>(),
    }
}

async fn a_name_leads_to_one_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, hosts) = (daemon.api(), sockets(daemon));
    let work = format!("{hosts}/?token={}&session=work", daemon.key());
    // At the same time, when there is none yet.
    let other = format!("{hosts}/edge?token={}&session=work", daemon.key());
    let (one, two) = tokio::join!(Cdp::connect(&work), Cdp::connect(&other));
    let (mut one, mut two) = (one?, two?);
    let made = running(&api).await?;
    ensure!(made.len() == 1, "{made:?}");
    one.open("data:text/html,<title>shared</title>").await?;
    let pages =
        async |cdp: &mut Cdp| anyhow::Ok(cdp.call("Target.getTargets", json!({})).await?["targetInfos"].to_string());
    eventually!("the second sees the page of the first", 10, pages(&mut two).await?.contains("shared"))?;

    // Another key's session of that name is another.
    let key = other_key(daemon, "namesake").await?;
    let mut namesake = Cdp::connect(&format!("{hosts}/?token={key}&session=work")).await?;
    ensure!(!pages(&mut namesake).await?.contains("shared"));
    namesake.disconnect().await?;

    for (differs, word) in [("/firefox?", "browser"), ("/?headless=false&", "headless"), ("/?--lang=de-DE&", "--lang")]
    {
        let refused = refusal(&format!("{hosts}{differs}token={}&session=work", daemon.key())).await?;
        ensure!(refused.status == 409 && refused.body.contains(word), "{differs}: {refused}");
    }
    let refused = refusal(&format!("{hosts}/?token={}&session=a%2Fb", daemon.key())).await?;
    ensure!(refused.status == 400 && refused.body.contains("session"), "{refused}");

    // It waits for clients to come back, as other sessions do, and then ends.
    one.disconnect().await?;
    two.disconnect().await?;
    let list = format!("/json/list?token={}&session=", daemon.key());
    let listed = async |name: &str| api.without_key().get(&format!("{list}{name}")).await;
    ensure!(listed("work").await?.text().contains("shared") && listed("play").await?.ok()? == json!([]));
    let mut again = Cdp::connect(&work).await?;
    ensure!(pages(&mut again).await?.contains("shared"), "the same browser");
    // Playwright's `close` leaves the browser to those who are connected, and to those who come back.
    Cdp::connect_as_playwright(&work).await?.disconnect().await?;
    ensure!(pages(&mut again).await?.contains("shared"), "one client's close is not the other's");
    again.disconnect().await?;
    Cdp::connect_as_playwright(&work).await?.disconnect().await?;
    let mut again = Cdp::connect_as_playwright(&work).await?;
    ensure!(pages(&mut again).await?.contains("shared"), "nor that of the last one the end");
    again.disconnect().await?;
    nothing_runs(&api).await?;
    let record =
        api.get(&format!("/sessions/{}", made[0]["session_id"].as_str().context("session_id")?)).await?.ok()?;
    ensure!(record["status"] == "completed" && record["reason"] == "disconnected", "{record}");
    Ok(())
}

async fn a_target_is_found_without_its_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, hosts) = (daemon.api(), sockets(daemon));
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    let target = targets["targetInfos"][0]["targetId"].as_str().context("a target")?.to_owned();
    let own = session.websocket_url()?.rsplit_once("token=").context("token")?.1.to_owned();
    for token in [daemon.key(), &own] {
        let mut page = Cdp::connect(&format!("{hosts}/devtools/page/{target}?token={token}")).await?;
        let sum = page.call("Runtime.evaluate", json!({"expression": "6 * 7"})).await?;
        ensure!(sum["result"]["value"] == 42, "{sum}");
        page.disconnect().await?;
    }
    // Clients that were given the websocket alone ask at its host what it leads to.
    let version = api.without_key().get(&format!("/json/version?token={own}")).await?.ok()?;
    ensure!(version["webSocketDebuggerUrl"] == session.websocket_url()?, "{version}");
    ensure!(version["Browser"].as_str().is_some_and(|name| name.starts_with("Chrome/")), "{version}");
    let listed = api.without_key().get(&format!("/json/list?token={own}")).await?.ok()?;
    ensure!(listed[0]["id"] == target.as_str(), "{listed}");
    for path in ["/json/version", "/json/list"] {
        ensure!(api.without_key().get(&format!("{path}?token=nonsense")).await?.status == 401);
    }
    let stranger = other_key(daemon, "stranger").await?;
    for (path, status) in [
        (format!("/devtools/page/{target}"), 401),
        (format!("/devtools/page/{target}?token=nonsense"), 401),
        (format!("/devtools/page/{target}?token={stranger}"), 404),
        (format!("/devtools/page/0123?token={}", daemon.key()), 404),
        (format!("/devtools/page/..%2F..%2Fsession?token={own}"), 404),
        (format!("/devtools/page/{target}?token={own}&colour=red"), 400),
    ] {
        let refused = refusal(&format!("{hosts}{path}")).await?;
        ensure!(refused.status == status, "{path}: {refused}");
    }
    cdp.disconnect().await?;
    session.delete().await?.ok()?;
    nothing_runs(&api).await
}

/// As suites tear down: what ends the session first must not have the second fail.
async fn the_last_window_is_closed_and_the_session_quit(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(json!({"headless": true})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.command(Method::DELETE, "/window", &Value::Null).await?.ok()?;
    driver.quit().await?;
    session.becomes("terminated", 10).await?;
    driver.quit().await?;
    ensure!(driver.execute("return 1").await.is_err(), "it is over for everything else");

    let body = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": ["--headless"]}}}});
    let id = daemon.api().post("/session", &body).await?.ok()?["value"]["sessionId"].clone();
    let path = format!("/session/{}", id.as_str().context("sessionId")?);
    let api = daemon.api().without_key();
    api.delete(&format!("{path}/window")).await?.ok()?;
    nothing_runs(&daemon.api()).await?;
    ensure!(api.delete(&path).await?.ok()? == json!({"value": null}));
    Ok(())
}

async fn the_id_of_a_grid_opens_its_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, stranger) = (daemon.api(), daemon.api().without_key());
    let body = json!({"capabilities": {"alwaysMatch": {
        "goog:chromeOptions": {"args": ["--headless"]}, "webSocketUrl": true,
    }}});
    webdriver::fault(&stranger.post("/session", &body).await?, 401)?;
    let value = api.post("/session", &body).await?.ok()?["value"].clone();
    let id = value["sessionId"].as_str().context("sessionId")?;
    ensure!(is_random_uuid(id), "by the standard it is one: {id}");
    for command in ["url", "se/files"] {
        stranger.get(&format!("/session/{id}/{command}")).await?.ok()?;
        stranger.get(&format!("/wd/hub/session/{id}/{command}")).await?.ok()?;
    }
    let mut cdp = Cdp::connect(&format!("{}/session/{id}/se/cdp", sockets(daemon))).await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    cdp.disconnect().await?;
    // By the standard, BiDi has this URL and no other. Selenium Grid's own is served too.
    let bidi = value["capabilities"]["webSocketUrl"].as_str().context("webSocketUrl")?;
    ensure!(bidi == format!("{}/session/{id}", sockets(daemon)), "{bidi}");
    for url in [bidi, &format!("{bidi}/se/bidi"), &format!("{}/wd/hub/session/{id}", sockets(daemon))] {
        let mut bidi = Cdp::connect(url).await.with_context(|| url.to_owned())?;
        let tree = bidi.call("browsingContext.getTree", json!({})).await?;
        ensure!(tree["contexts"][0]["context"].is_string(), "{tree}");
        bidi.disconnect().await?;
    }
    let (error, _) = webdriver::fault(&stranger.get(&format!("/session/{id}")).await?, 405)?;
    ensure!(error == "unknown method", "without an upgrade: {error}");
    // The driver's own id, which is in the URL of DevTools, opens nothing.
    let devtools = value["capabilities"]["se:cdp"].as_str().and_then(|url| url.strip_suffix("/se/cdp"));
    let drivers = devtools.and_then(|url| url.rsplit_once('/')).context("se:cdp")?.1;
    ensure!(drivers != id);
    for path in ["", "/se/bidi"] {
        let url = format!("{}/session/{drivers}{path}", sockets(daemon));
        ensure!(wire::refusal(&url, &HeaderMap::new()).await? == 401, "{url}");
    }
    webdriver::fault(&stranger.get(&format!("/session/{drivers}/url")).await?, 401)?;
    webdriver::fault(&api.get(&format!("/session/{drivers}/url")).await?, 404)?;
    // A key that is sent has to be right.
    let other = other_key(daemon, "passer-by").await?;
    webdriver::fault(&api.with_key(&other).get(&format!("/session/{id}/url")).await?, 404)?;
    let wrong = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic d3JvbmcK"))]);
    let reply = stranger.send(Method::GET, &format!("/session/{id}/url"), wrong, Bytes::new()).await?;
    webdriver::fault(&reply, 401)?;
    // As fantoccini quits.
    stranger.delete(&format!("/session/{id}")).await?.ok()?;
    let (error, _) = webdriver::fault(&stranger.get(&format!("/session/{id}/url")).await?, 404)?;
    ensure!(error == "invalid session id", "{error}");
    // Who quits what is over, is done.
    ensure!(stranger.delete(&format!("/session/{id}")).await?.ok()? == json!({"value": null}));
    webdriver::fault(&api.with_key(&other).delete(&format!("/session/{id}")).await?, 404)?;
    webdriver::fault(&stranger.delete("/session/00000000-0000-4000-8000-000000000000").await?, 404)?;
    ensure!(!daemon.log_text().contains(id), "the id is a secret, and the log has it");
    nothing_runs(&api).await
}

/// Whether a text is a UUID of the fourth version.
fn is_random_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths = groups.iter().map(|group| group.len());
    lengths.eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
        && groups[2].starts_with('4')
        && groups[3].starts_with(['8', '9', 'a', 'b'])
}

async fn an_address_needs_no_slash(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let handshake = |token: &str| {
        format!(
            "GET ?token={token} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    let answer = wire::raw(daemon.url(), handshake(daemon.key()).as_bytes(), 12).await?;
    ensure!(answer == "HTTP/1.1 101", "{answer}");
    let answer = wire::raw(daemon.url(), handshake("nonsense").as_bytes(), 12).await?;
    ensure!(answer == "HTTP/1.1 401", "{answer}");
    nothing_runs(&daemon.api()).await
}
