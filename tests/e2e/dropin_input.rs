//! The addresses of other services without their clients: what they answer, and what they refuse.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::wire::{self, Refused};
use warmpool_tests::{Api, Cdp, Daemon, Group, Reply, Settings, Stage, eventually, group, webdriver};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1").set("SESSION_MAX_SESSIONS", "2");
    group!(Some(settings),
        quick: [
            a_grid_refuses_in_its_own_form,
            a_socket_refuses_by_name,
            curl_reads_why_an_address_is_refused,
            status_is_that_of_a_grid,
        ],
        full: [
            a_key_opens_a_grid_session_and_another_does_not,
            options_of_selenoid_take_effect,
            a_window_can_be_maximized,
            a_full_grid_says_so,
            a_refused_session_costs_nothing,
            json_describes_the_browser,
            no_session_says_what_devtools_are,
            pressure_tells_the_load,
            a_socket_session_is_a_session,
            options_of_an_address_are_those_of_a_create_call,
            keep_alive_outlives_its_socket,
        ],
    )
}

fn always(capabilities: Value) -> Value {
    json!({"capabilities": {"alwaysMatch": capabilities}})
}

/// Capabilities of a headless session, with others beside.
fn headless(mut others: Value) -> Value {
    others["goog:chromeOptions"] = json!({"args": ["--headless"]});
    always(others)
}

/// A new session of the grid's; returns its value.
async fn opened(api: &Api, body: &Value) -> Result<Value> {
    Ok(api.post("/session", body).await?.ok()?["value"].clone())
}

fn id_of(value: &Value) -> Result<&str> {
    value["sessionId"].as_str().with_context(|| format!("sessionId in {value}"))
}

async fn a_grid_refuses_in_its_own_form(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let refused = [
        (always(json!({"browserName": "opera"})), "browserName"),
        (always(json!({"browserName": "MicrosoftEdge"})), "browserName"),
        (always(json!({"browserVersion": "12"})), "browserVersion"),
        (always(json!({"platformName": "windows"})), "platformName"),
        (always(json!({"selenoid:options": {"env": ["A=b"]}})), "selenoid:options.env"),
        (always(json!({"selenoid:options": {"colour": 1}})), "selenoid:options.colour"),
        (always(json!({"moon:options": {"hostsEntries": ["a:b"]}})), "moon:options.hostsEntries"),
        (always(json!({"selenoid:options": {"screenResolution": "0x0x24"}})), "screenResolution"),
        (json!({"desiredCapabilities": {"colour": "red"}}), "colour"),
        (always(json!({"goog:chromeOptions": {"args": ["--user-data-dir=/x"]}})), "user-data-dir"),
        (always(json!({"browserName": "firefox", "goog:chromeOptions": {"args": ["--x"]}})), "goog:chromeOptions"),
    ];
    for path in ["/session", "/wd/hub/session"] {
        for (body, name) in &refused {
            let reply = api.post(path, body).await?;
            let (error, message) = webdriver::fault(&reply, 500)?;
            ensure!(error == "session not created" && message.contains(name), "{body}: {reply}");
        }
    }
    let malformed = [
        json!([]),
        json!({}),
        json!({"capabilities": 1}),
        json!({"capabilities": {"firstMatch": []}}),
        always(json!({"warmpool:options": {"settings": {"user_agent": "a\r\nX-Evil: 1"}}})),
        always(json!({"colour": "red"})),
        always(json!({"timeouts": {"script": "soon"}})),
        always(json!({"warmpool:options": {"session_timeout": 0}})),
        always(json!({"warmpool:options": {"settings": {"viewport": {"width": 0, "height": 1}}}})),
    ];
    for body in malformed {
        let (error, _) = webdriver::fault(&api.post("/session", &body).await?, 400)?;
        ensure!(error == "invalid argument", "{body}: {error}");
    }
    let (error, _) = webdriver::fault(&api.post_bytes("/session", "application/json", "{\"capa").await?, 400)?;
    ensure!(error == "invalid argument", "{error}");
    let (error, _) = webdriver::fault(&api.get("/session").await?, 405)?;
    ensure!(error == "unknown method", "{error}");
    let (error, _) = webdriver::fault(&api.get("/wd/hub/nonsense").await?, 404)?;
    ensure!(error == "unknown command", "{error}");
    for path in ["/session/00000000/url", "/wd/hub/session/..%2f..%2fetc/url", "/session/%00/title"] {
        let (error, _) = webdriver::fault(&api.get(path).await?, 404)?;
        ensure!(error == "invalid session id", "{path}: {error}");
    }
    // A page of another origin can send this content type without a preflight.
    let (error, _) = webdriver::fault(&api.post_bytes("/session", "text/plain", "{}").await?, 400)?;
    ensure!(error == "invalid argument", "{error}");
    no_session_lives(daemon).await
}

/// Nothing of what was refused became a session.
async fn no_session_lives(daemon: &Daemon) -> Result<()> {
    let listed = daemon.api().get("/sessions?status=running").await?.ok()?;
    ensure!(listed["meta"]["totalRecords"] == 0, "{listed}");
    Ok(())
}

fn basic(value: &str) -> Result<HeaderMap> {
    Ok(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(value)?)]))
}

async fn a_key_opens_a_grid_session_and_another_does_not(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, stranger) = (daemon.api(), daemon.api().without_key());
    let reply = stranger.post("/session", &headless(json!({}))).await?;
    let (_, message) = webdriver::fault(&reply, 401)?;
    ensure!(message.contains("http://KEY:x@HOST"), "{message}");
    ensure!(reply.header("www-authenticate").is_some_and(|value| value.starts_with("Basic")), "{reply}");
    for malformed in ["Basic", "Basic !!!!", "Basic ////", "Basic OjpA", "Bearer", "Digest x", "Bearer wp_x_y"] {
        let reply = stranger.send(Method::POST, "/session", basic(malformed)?, Bytes::from("{}")).await?;
        webdriver::fault(&reply, 401)?;
    }
    let value = opened(&api, &headless(json!({}))).await?;
    let id = id_of(&value)?;
    let title = format!("/session/{id}/title");
    webdriver::fault(&stranger.get("/session/none/title").await?, 401)?;
    let other = daemon.cli_ok(&["key", "create", "other"]).await?;
    let other = other.split_whitespace().find(|word| word.starts_with("wp_") && word.len() > 40).context("a key")?;
    let (error, _) = webdriver::fault(&daemon.api().with_key(other).get(&title).await?, 404)?;
    ensure!(error == "invalid session id", "{error}");
    api.get(&title).await?.ok()?;
    api.get(&format!("/wd/hub{title}")).await?.ok()?;
    // The websocket URL that DevTools clients build themselves.
    let hosts = daemon.url().replace("http:", "ws:");
    ensure!(wire::refusal(&format!("{hosts}/session/none/se/cdp"), &HeaderMap::new()).await? == 401);
    let mut cdp = Cdp::connect(&format!("{hosts}/session/{id}/se/cdp?token={}", daemon.key())).await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    cdp.disconnect().await?;
    api.get(&title).await?.ok().context("a socket that closes beside it leaves a WebDriver session alone")?;
    api.delete(&format!("/session/{id}")).await?.ok()?;
    let (error, _) = webdriver::fault(&api.get(&title).await?, 404)?;
    ensure!(error == "invalid session id", "{error}");
    Ok(())
}

async fn options_of_selenoid_take_effect(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let capabilities = headless(json!({
        "browserName": "chrome",
        "platformName": "LINUX",
        "se:buildNumber": "1",
        "selenoid:options": {
            "enableVNC": true, "enableVideo": true, "name": "shop", "screenResolution": "900x700x24",
            "sessionTimeout": "1m1s", "timeZone": "Europe/Berlin", "labels": {"a": "b"},
        },
        "warmpool:options": {"session_timeout": 77, "settings": {"locales": ["de-DE"]}},
    }));
    let value = opened(&api, &capabilities).await?;
    let (id, own) = (id_of(&value)?, &value["capabilities"]["warmpool:options"]);
    ensure!(own["warnings"] == json!([]), "{own}");
    let record = api.get(&format!("/sessions/{}", own["session_id"].as_str().context("session_id")?)).await?.ok()?;
    ensure!(record["app_name"] == "shop" && record["headless"] == true, "{record}");
    ensure!(record["session_timeout"] == 77 && record["idle_timeout"] == 61, "{record}");
    let script = json!({"script": "return [outerWidth, outerHeight, navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone]", "args": []});
    let command = format!("/session/{id}/execute/sync");
    let seen = async || anyhow::Ok(api.post(&command, &script).await?.ok()?["value"].clone());
    ensure!(seen().await? == json!([900, 700, "de-DE", "Europe/Berlin"]), "{}", seen().await?);
    // The client may still resize its window, and the page follows.
    let rect = json!({"width": 640, "height": 500});
    api.post(&format!("/session/{id}/window/rect"), &rect).await?.ok()?;
    ensure!(seen().await? == json!([640, 500, "de-DE", "Europe/Berlin"]), "{}", seen().await?);
    api.delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    Ok(())
}

async fn a_window_can_be_maximized(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let requests = [
        (always(json!({})), (1280, 807)),
        (always(json!({"selenoid:options": {"screenResolution": "1400x900x24"}})), (1400, 900)),
    ];
    for (capabilities, (width, height)) in requests {
        let value = opened(&api, &capabilities).await?;
        let id = id_of(&value)?;
        api.post(&format!("/session/{id}/window/rect"), &json!({"width": 640, "height": 500})).await?.ok()?;
        let rect = api.post(&format!("/session/{id}/window/maximize"), &json!({})).await?.ok()?;
        ensure!(json!([rect["value"]["width"], rect["value"]["height"]]) == json!([width, height]), "{rect}");
        let script = json!({"script": "return [outerWidth, outerHeight]", "args": []});
        let seen = api.post(&format!("/session/{id}/execute/sync"), &script).await?.ok()?;
        ensure!(seen["value"] == json!([width, height]), "{seen}");
        api.delete(&format!("/session/{id}")).await?.ok()?;
    }
    Ok(())
}

async fn a_full_grid_says_so(_: Stage) -> Result<()> {
    // The two that have a browser need not wait for it.
    let settings = Settings::new().set("POOL_CHROMIUM_HEADLESS", "2").set("SESSION_MAX_SESSIONS", "2");
    let daemon = Daemon::start(settings.set("SESSION_QUEUE_WAIT", "2s").set("WEBDRIVER_GRID_QUEUE_WAIT", "2s")).await?;
    let api = daemon.api();
    let first = opened(&api, &headless(json!({}))).await?;
    let second = opened(&api, &headless(json!({}))).await?;
    // Both wait in the queue, as a grid's clients do, and get an error when it takes too long.
    let socket = format!("{}/?token={}", daemon.url().replace("http:", "ws:"), daemon.key());
    let none = HeaderMap::new();
    let third = headless(json!({}));
    let (reply, refusal) = tokio::join!(api.post("/session", &third), wire::refusal(&socket, &none));
    let reply = reply?;
    let (error, message) = webdriver::fault(&reply, 500)?;
    ensure!(error == "session not created" && message.contains("no browser came free"), "{reply}");
    ensure!(reply.header("retry-after").is_some(), "{reply}");
    ensure!(refusal? == 503);
    for value in [first, second] {
        api.delete(&format!("/session/{}", id_of(&value)?)).await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_refused_session_costs_nothing(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let before = api.get("/sessions").await?.ok()?["meta"]["totalRecords"].clone();
    for capability in [json!({"browserVersion": "1.2"}), json!({"goog:chromeOptions": {"args": ["--in-process-gpu"]}})]
    {
        webdriver::fault(&api.post("/session", &always(capability)).await?, 500)?;
    }
    let after = api.get("/sessions").await?.ok()?["meta"]["totalRecords"].clone();
    ensure!(before == after, "{before} {after}");
    // Where only the driver can refuse, the refusal ends the session that was made for it.
    let options = json!({"args": ["--headless"], "perfLoggingPrefs": 1});
    let wrong = always(json!({"goog:chromeOptions": options}));
    webdriver::fault(&api.post("/session", &wrong).await?, 400)?;
    eventually!("it is over", 15, no_session_lives(daemon).await.is_ok())?;
    let listed = api.get("/sessions?limit=1").await?.ok()?;
    ensure!(listed["sessions"][0]["reason"] == "driver_refused", "{listed}");
    Ok(())
}

async fn status_is_that_of_a_grid(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api().without_key();
    for path in ["/status", "/wd/hub/status"] {
        let status = api.get(path).await?.ok()?;
        let value = &status["value"];
        ensure!(value["ready"] == true && value["message"].is_string(), "{status}");
        ensure!(value["nodes"][0]["availability"] == "UP", "{status}");
    }
    let status = api.get("/status").await?.ok()?;
    ensure!(status["total"] == 2 && status["used"].is_u64() && status["queued"] == 0, "{status}");
    ensure!(api.get("/ping").await?.ok()?["uptime"].is_string());
    Ok(())
}

async fn refused(daemon: &Daemon, path: &str, headers: &HeaderMap) -> Result<Refused> {
    let url = format!("{}{path}", daemon.url().replace("http:", "ws:"));
    match wire::websocket(&url, headers, None).await {
        Ok(_) => anyhow::bail!("{path} was opened"),
        Err(error) => error.downcast::<Refused>(),
    }
}

async fn a_socket_refuses_by_name(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let none = HeaderMap::new();
    for path in ["/", "/chromium", "/?token=", "/?token=wp_0_x", "/chromium?token=%00"] {
        let refusal = refused(daemon, path, &none).await?;
        ensure!(refusal.status == 401, "{path}: {refusal}");
    }
    let key = daemon.key();
    for (query, name) in [
        ("colour=red", "colour"),
        ("stealth=true", "stealth"),
        ("blockAds=perhaps", "blockAds"),
        ("timeout=0", "timeout"),
        ("timeout=soon", "timeout"),
        ("trackingId=a%20b", "trackingId"),
        ("launch=nonsense", "launch"),
        ("launch=%7B%22args%22:%5B%22--load-extension=/x%22%5D%7D", "--load-extension"),
        ("launch=%7B%22args%22:%5B%22--user-agent=a%5Cr%5CnX-Evil:1%22%5D%7D", "launch.args[0]"),
        ("--window-size=0,0", "--window-size"),
        ("--lang=not_a_locale", "--lang"),
        ("--proxy-server=http://x", "--proxy-server"),
    ] {
        let refusal = refused(daemon, &format!("/chromium?token={key}&{query}"), &none).await?;
        ensure!(refusal.status == 400 && refusal.body.contains(name), "{query}: {refusal}");
    }
    for path in
        ["/chromium/playwright", "/firefox/playwright", "/webkit/playwright", "/playwright/chromium", "/playwright"]
    {
        let refusal = refused(daemon, &format!("{path}?token={key}"), &none).await?;
        ensure!(refusal.status == 400 && refusal.body.contains("`playwright.versions`"), "{path}: {refusal}");
    }
    let playwright =
        HeaderMap::from_iter([(HeaderName::from_static("x-playwright-browser"), HeaderValue::from_static("chromium"))]);
    let refusal = refused(daemon, &format!("/?token={key}"), &playwright).await?;
    ensure!(refusal.status == 400 && refusal.body.contains("connectOverCDP"), "{refusal}");
    let api = daemon.api();
    api.get("/chromium").await?.fault(426)?;
    api.get("/").await?.fault(404)?;
    for helper in ["/function", "/edge/function", "/download", "/unblock"] {
        let fault = api.post(helper, &json!({"url": "about:blank"})).await?.fault(400)?;
        ensure!(fault.message.contains(helper), "{fault:?}");
    }
    no_session_lives(daemon).await
}

/// Clients of websockets show the status alone. A request that is no handshake gets the same error.
async fn curl_reads_why_an_address_is_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (key, none, stranger) = (daemon.key(), HeaderMap::new(), daemon.api().without_key());
    let proxy = encoded(&json!({"advanced": {"proxy": {"zip": "1"}}}));
    let twice = encoded(&json!({"headless": true}));
    for (path, status, field) in [
        ("/chromium".to_owned(), 401, ""),
        ("/?token=wp_0_x".to_owned(), 401, ""),
        (format!("/?token={key}&colour=red"), 400, "colour"),
        (format!("/?token={key}&launch=%7B%22args%22:%5B%22--load-extension=/x%22%5D%7D"), 400, "launch.args[0]"),
        (format!("/chromium?token={key}&timeout=0"), 400, "timeout"),
        (format!("/firefox?token={key}&--lang=not_a_locale"), 400, "--lang"),
        (format!("/chromium?token={key}&options={proxy}"), 400, "options.advanced.proxy.zip"),
        (format!("/chromium?token={key}&headless=false&options={twice}"), 400, "options.headless"),
        (format!("/chromium?token={key}&sessionId=ses_none"), 404, ""),
        (format!("/devtools/page/none?token={key}x"), 401, ""),
    ] {
        let read = stranger.get(&path).await?.fault(status)?;
        ensure!(read.field == field, "{path}: {read:?}");
        let refusal = refused(daemon, &path, &none).await?;
        let told: Value = serde_json::from_str(&refusal.body)?;
        let same = refusal.status == status && told["error"]["code"] == read.code;
        ensure!(same && told["error"]["message"] == read.message, "{path}: {read:?} {refusal}");
    }
    // What tutorials write is accepted, and what has no effect is said.
    let launch = json!({"args": ["--no-sandbox", "--no-zygote", "--disable-blink-features=AutomationControlled"]});
    let habits = format!("?token={key}&launch={}", encoded(&launch));
    for (path, example) in [
        ("/", "chromium.connectOverCDP("),
        ("/chromium", "puppeteer.connect("),
        ("/firefox", "webDriverBiDi"),
        ("/webkit", "webkit.connectOverCDP("),
    ] {
        let sound = stranger.get(&format!("{path}{habits}")).await?.fault(426)?;
        ensure!(sound.code == "upgrade_required" && sound.message.contains(example), "{path}: {sound:?}");
        ensure!(sound.message.contains("`--no-zygote` has no effect"), "{path}: {sound:?}");
    }
    // Where Selenoid and Moon have VNC.
    for path in ["/vnc", "/vnc/0123456789abcdef", "/vnc/0123456789abcdef/"] {
        let fault = stranger.get(path).await?.fault(400)?;
        ensure!(fault.code == "not_supported" && fault.message.contains("`livestream_url`"), "{path}: {fault:?}");
    }
    let refusal = refused(daemon, &format!("/playwright/chromium/playwright-1.65.0?token={key}"), &none).await?;
    ensure!(refusal.status == 400 && refusal.body.contains("`playwright.versions`"), "{refusal}");
    no_session_lives(daemon).await
}

/// JSON in a query.
fn encoded(value: &Value) -> String {
    value.to_string().bytes().fold(String::new(), |encoded, byte| format!("{encoded}%{byte:02X}"))
}

async fn json_describes_the_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, stranger) = (daemon.api(), daemon.api().without_key());
    for path in ["/json/version", "/json/version/", "/json/list", "/json"] {
        stranger.get(path).await?.fault(401)?;
    }
    let version = api.get("/json/version/").await?.ok()?;
    let headed = api.get("/json/version?headless=false").await?.ok()?;
    let own = api.get("/json/version?--user-agent=Me/1").await?.ok()?;
    for (said, product) in [(&version, "HeadlessChrome/"), (&headed, "Chrome/")] {
        ensure!(said["Browser"].as_str().is_some_and(|name| name.starts_with("Chrome/")), "{said}");
        ensure!(said["User-Agent"].as_str().is_some_and(|name| name.contains(&format!(" {product}"))), "{said}");
    }
    ensure!(own["User-Agent"] == "Me/1", "{own}");
    ensure!(
        version["webSocketDebuggerUrl"] == format!("{}/chromium", daemon.url().replace("http:", "ws:")),
        "{version}"
    );
    let by_url = stranger.get(&format!("/json/version?token={}&timeout=9000", daemon.key())).await?.ok()?;
    let socket = by_url["webSocketDebuggerUrl"].as_str().context("webSocketDebuggerUrl")?;
    ensure!(socket.ends_with(&format!("/chromium?token={}&timeout=9000", daemon.key())), "{by_url}");
    api.get("/json/version?colour=red").await?.fault(400)?;
    no_session_lives(daemon).await?;

    let mut cdp = Cdp::connect(socket).await?;
    let browser = cdp.call("Browser.getVersion", json!({})).await?;
    ensure!(
        by_url["Browser"] == browser["product"] && by_url["User-Agent"] == browser["userAgent"],
        "{by_url} {browser}"
    );
    let targets = api.get("/json/list").await?.ok()?;
    let target = targets[0]["webSocketDebuggerUrl"].as_str().with_context(|| targets.to_string())?;
    let mut page = Cdp::connect(target).await?;
    let sum = page.call("Runtime.evaluate", json!({"expression": "6 * 7"})).await?;
    ensure!(sum["result"]["value"] == 42, "{sum}");
    page.disconnect().await?;
    let protocol = stranger.get("/json/protocol").await?.ok()?;
    ensure!(protocol["domains"].as_array().is_some_and(|domains| domains.len() > 20), "domains");
    api.send(Method::PUT, "/json/new", HeaderMap::new(), Bytes::new()).await?.fault(400)?;
    cdp.disconnect().await?;
    eventually!("it is over", 15, no_session_lives(daemon).await.is_ok())
}

/// A stranger's page may have taken the browser of a session over, and everybody gets the answer.
async fn no_session_says_what_devtools_are(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.session(json!({})).await?;
    let started = async || {
        let started = daemon.metrics().await?.sum("warmpool_worker_boot_seconds_count", &[]);
        started.context("workers have started")
    };
    let before = started().await?;
    daemon.api().without_key().get("/json/protocol").await?.ok()?;
    ensure!(started().await? > before, "a browser that nobody has used is asked");
    ensure!(session.status().await? == "running");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn pressure_tells_the_load(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let pressure = api.get("/pressure").await?.ok()?["pressure"].clone();
    for name in ["cpu", "date", "maxConcurrent", "maxQueued", "memory", "queued", "recentlyRejected", "running"] {
        ensure!(pressure[name].is_u64(), "{name}: {pressure}");
    }
    ensure!(pressure["isAvailable"] == true && pressure["reason"] == "" && pressure["message"] == "", "{pressure}");
    let text = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/plain"))]);
    let reply: Reply = api.send(Method::GET, "/pressure", text, Bytes::new()).await?;
    ensure!(reply.status == 200 && reply.text() == "ok\n", "{reply}");
    ensure!(api.get("/active").await?.status == 204);
    Ok(())
}

async fn a_socket_session_is_a_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let url = format!("{}/?token={}&timeout=61000", daemon.url().replace("http:", "ws:"), daemon.key());
    let mut cdp = Cdp::connect(&url).await?;
    let listed = api.get("/sessions?status=running").await?.ok()?;
    let record = &listed["sessions"][0];
    ensure!(record["session_timeout"] == 61 && record["kind"] == "devtools" && record["headless"] == true, "{listed}");
    let id = record["session_id"].as_str().context("session_id")?;
    let shown = api.get(&format!("/sessions/{id}")).await?.ok()?;
    ensure!(shown["livestream_url"].is_string(), "{shown}");
    api.delete(&format!("/sessions/{id}")).await?.ok()?;
    let (code, _) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1001, "{code}");
    Ok(())
}

async fn options_of_an_address_are_those_of_a_create_call(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let options = json!({"recording": true, "metadata": {"team": "e2e"}, "settings": {"timezone": "Europe/Berlin"}});
    let socket = daemon.url().replace("http:", "ws:");
    let url = format!("{socket}/?token={}&--lang=de-DE&options={}", daemon.key(), encoded(&options));
    let mut cdp = Cdp::connect(&url).await?;
    let listed = api.get("/sessions?status=running").await?.ok()?;
    let record = &listed["sessions"][0];
    ensure!(record["recording"] == true && record["metadata"]["team"] == "e2e", "{listed}");
    ensure!(record["headless"] == true, "defaults are those of the address: {listed}");
    let page = cdp.first_page().await?;
    let seen =
        cdp.evaluate(&page, "navigator.language + ' ' + Intl.DateTimeFormat().resolvedOptions().timeZone").await?;
    ensure!(seen == "de-DE Europe/Berlin", "{seen}");
    cdp.disconnect().await?;
    eventually!("it is over", 15, no_session_lives(daemon).await.is_ok())
}

async fn keep_alive_outlives_its_socket(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let url = format!("{}/chromium?token={}&keep_alive=true", daemon.url().replace("http:", "ws:"), daemon.key());
    let cdp = Cdp::connect(&url).await?;
    let listed = api.get("/sessions?status=running").await?.ok()?;
    let id = listed["sessions"][0]["session_id"].as_str().context("session_id")?.to_owned();
    cdp.disconnect().await?;
    let shown = api.get(&format!("/sessions/{id}")).await?.ok()?;
    let mut again = Cdp::connect(shown["websocket_url"].as_str().context("websocket_url")?).await?;
    again.call("Browser.getVersion", json!({})).await?;
    api.delete(&format!("/sessions/{id}")).await?.ok()?;
    Ok(())
}
