//! A client cannot tell Warmpool from the driver: what is asked through it and what is asked beside it, of the same
//! driver, is answered alike.

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, Result, ensure};
use http::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Cdp, Driver, Group, Reply, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    let settings = Settings::on_demand();
    group!(Some(settings),
        quick: [chromiums_driver_answers_alike],
        full: [
            firefoxs_driver_answers_alike,
            webkits_driver_answers_alike,
            the_last_answer_outlives_the_browser,
            a_new_session_describes_itself,
            windows_answer_as_those_of_a_plain_browser,
            a_page_has_its_size_and_focus_and_knows_its_driver,
            other_ways_to_a_page_give_it_the_same_size,
            popups_are_as_large_as_their_openers_want,
            a_kiosk_shows_pages_alone,
            screenshots_show_what_was_asserted,
            a_missing_file_is_refused,
            errors_of_the_network_have_their_names,
            responses_have_the_address_that_they_came_from,
            keys_reach_a_page_that_is_not_painted_yet,
        ],
    )
}

fn headless(engine: &str) -> Value {
    json!({"browser_type": engine, "headless": true})
}

/// Runs the commands of WebDriver twice: through a `connect_url`, and in another worker directly at its driver.
async fn compare(stage: &Stage, engine: &str, driver: u16, capabilities: Value) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let bare = daemon.webdriver(headless(engine)).await?;
    let socket = daemon.docker().port_socket(&daemon.only_container().await?, driver).await?;
    let session = daemon.webdriver(headless(engine)).await?;
    let through = Program::node(&programs::clients(), "webdriver_commands.mjs").await?;
    let through = through.env("DRIVER_URL", session.connect_url()?).env("SITE_URL", &site);
    let beside = Program::node(&programs::clients(), "webdriver_commands.mjs").await?;
    let beside = beside.env("DRIVER_URL", format!("http://127.0.0.1:{driver}")).env("SITE_URL", &site);
    let beside = beside.env("DRIVER_SOCKET", socket.to_string_lossy()).env("CAPABILITIES", capabilities.to_string());
    let (through, beside) = tokio::try_join!(through.results(), beside.results())?;
    let (through, beside) = (through.as_array().context("a list")?, beside.as_array().context("a list")?);
    let differ: Vec<String> = through
        .iter()
        .zip(beside)
        .filter(|(ours, theirs)| ours != theirs && !answers_itself(engine, ours))
        .map(|(ours, theirs)| format!("through: {ours}\n beside: {theirs}"))
        .collect();
    ensure!(through.len() == beside.len() && through.len() > 200, "{} and {} answers", through.len(), beside.len());
    ensure!(differ.is_empty(), "{} answers differ:\n{}", differ.len(), differ.join("\n"));
    let broken: Vec<&Value> = through.iter().filter(|answer| !answer["broken"].is_null()).collect();
    ensure!(broken.is_empty(), "{broken:?}");
    // The last command closed the last window.
    session.becomes("terminated", 20).await?;
    bare.delete().await?.ok()?;
    Ok(())
}

/// Whether Warmpool answers in the driver's place: an attached driver would take the path of a missing file.
fn answers_itself(engine: &str, answer: &Value) -> bool {
    engine == "chromium" && answer["name"].as_str().is_some_and(|name| name.starts_with("a file that is not there"))
}

async fn chromiums_driver_answers_alike(stage: Stage) -> Result<()> {
    let attach = json!({"goog:chromeOptions": {"debuggerAddress": "127.0.0.1:9222"}});
    compare(&stage, "chromium", 9515, attach).await
}

async fn firefoxs_driver_answers_alike(stage: Stage) -> Result<()> {
    compare(&stage, "firefox", 4445, json!({})).await
}

async fn webkits_driver_answers_alike(stage: Stage) -> Result<()> {
    compare(&stage, "webkit", 9515, json!({})).await
}

async fn the_last_answer_outlives_the_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(headless("chromium")).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let container = daemon.only_container().await?;
    let process = Pid::from_raw(daemon.docker().driver_pid(&container).await?);
    let mut cdp = Cdp::connect(driver.capabilities["se:cdp"].as_str().context("se:cdp")?).await?;
    // The driver is slow to answer, and meanwhile its browser ends.
    kill(process, Signal::SIGSTOP)?;
    let asking = tokio::spawn(async move { driver.command(Method::GET, "/title", &Value::Null).await });
    cdp.call("Browser.getVersion", json!({})).await?;
    let _ = cdp.call("Browser.close", json!({})).await;
    session.becomes("terminated", 10).await?;
    kill(process, Signal::SIGCONT)?;
    let answer = asking.await??;
    let fault = &answer.json()?["value"];
    // An error of Warmpool's own would have `data`.
    ensure!(fault["error"].is_string() && fault["data"].is_null(), "the driver's own answer: {answer}");
    Ok(())
}

async fn a_new_session_describes_itself(stage: Stage) -> Result<()> {
    for engine in ["chromium", "firefox", "webkit"] {
        let session = stage.daemon()?.webdriver(headless(engine)).await?;
        let driver = Driver::start(session.connect_url()?, json!({"platformName": "linux"})).await?;
        let found = &driver.capabilities;
        ensure!(found["platformName"] == "linux" && found["setWindowRect"] == true, "{engine}: {found}");
        driver.quit().await?;
    }
    Ok(())
}

/// Every engine with a driver, and whether it is headless.
const BROWSERS: [(&str, bool); 5] =
    [("chromium", true), ("chromium", false), ("firefox", true), ("firefox", false), ("webkit", true)];

async fn windows_answer_as_those_of_a_plain_browser(stage: Stage) -> Result<()> {
    // As measured on a plain headless Firefox with its own geckodriver, and on a plain headless Chromium with its own
    // chromedriver: command, what it says, the place of the window afterwards, and whether its page is hidden. Without a
    // place it fills the screen.
    let (small, none) = (Some([100, 50, 700, 500]), json!({}));
    let rect = |x: i32, y: i32, width: i32, height: i32| json!({"x": x, "y": y, "width": width, "height": height});
    let table = [
        ("rect", rect(100, 50, 700, 500), small, false),
        ("minimize", none.clone(), small, true),
        ("minimize", none.clone(), small, true),
        ("rect", rect(100, 50, 700, 500), small, false),
        ("maximize", none.clone(), None, false),
        ("minimize", none.clone(), small, true),
        ("maximize", none.clone(), None, false),
        ("fullscreen", none.clone(), None, false),
        ("fullscreen", none.clone(), None, false),
        ("maximize", none.clone(), None, false),
        ("rect", json!({"width": 700, "height": 500}), small, false),
        ("fullscreen", none.clone(), None, false),
        ("minimize", none.clone(), small, true),
        ("fullscreen", none, None, false),
        ("rect", json!({"x": 100, "y": 50}), small, false),
        ("rect", json!({"x": -8, "y": -8}), Some([-8, -8, 700, 500]), false),
        ("rect", rect(0, 0, 2000, 1500), Some([0, 0, 2000, 1500]), false),
        ("rect", rect(1000, 600, 700, 500), Some([1000, 600, 700, 500]), false),
    ];
    let filling = [0, 4, 0, 7].map(|at| table[at].clone());
    for (engine, is_headless) in BROWSERS {
        let session = stage.daemon()?.webdriver(json!({"browser_type": engine, "headless": is_headless})).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        // WebKit's driver has answers of its own, and hangs when a hidden window is to fill the screen.
        let table = if engine == "webkit" { &filling[..] } else { &table[..] };
        let screen = driver.execute("return [0, 0, screen.width, screen.height]").await?;
        let mut differ = Vec::new();
        for (at, (command, body, place, hidden)) in table.iter().enumerate() {
            let path = format!("/window/{command}");
            let answer = driver.command(Method::POST, &path, body).await?.ok()?["value"].clone();
            let answer = json!([answer["x"], answer["y"], answer["width"], answer["height"]]);
            let wanted = place.map_or_else(|| screen.clone(), |place| json!(place));
            let seen = driver.execute("return document.hidden").await?;
            if answer != wanted || seen != *hidden {
                differ.push(format!("{at} {command} {body}: {answer}, hidden: {seen}"));
            }
        }
        ensure!(differ.is_empty(), "{engine}, headless: {is_headless}, on {screen}:\n{}", differ.join("\n"));
        if engine == "webkit" {
            // As MiniBrowser's, its windows cannot be made to vanish. Headless Chromium's can.
            let tiny = json!({"width": 10, "height": 10});
            let answer = driver.command(Method::POST, "/window/rect", &tiny).await?.ok()?["value"].clone();
            ensure!(["width", "height"].iter().all(|side| answer[side].as_u64() > Some(10)), "{answer}");
        }
        driver.quit().await?;
    }
    Ok(())
}

/// The size of a page, as it sees it.
const SIZE: &str = "return [innerWidth, innerHeight]";

async fn a_page_has_its_size_and_focus_and_knows_its_driver(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (engine, is_headless) in BROWSERS {
        let body = json!({"browser_type": engine, "headless": is_headless});
        let session = daemon.webdriver(body.clone()).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        // Its bar about automated test software takes 56, as in a plain headed browser under its own driver.
        let height = if (engine, is_headless) == ("chromium", false) { 664 } else { 720 };
        let what = format!("{engine}, headless: {is_headless}");
        fills_its_window(&driver, height).await.with_context(|| what.clone())?;
        is_looked_at(&driver).await.with_context(|| what.clone())?;
        is_driven(&driver, &site).await.context(what)?;
        driver.quit().await?;
    }
    Ok(())
}

/// Pages also learn of a mouse there, as on every desktop.
async fn popups_are_as_large_as_their_openers_want(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for is_headless in [true, false] {
        let session = daemon.session(json!({"url": "about:blank", "headless": is_headless})).await?;
        let mut cdp = session.cdp().await?;
        let page = cdp.open("about:blank").await?;
        let open = "(() => { const popup = open('about:blank', 'popup', 'width=600,height=300'); \
                    return `${popup.innerWidth}x${popup.innerHeight}`; })()";
        let size = cdp.evaluate(&page, open).await?;
        // A headless browser gives the bar of a popup's address one pixel too many.
        ensure!(size == "600x300" || size == "600x299", "headless: {is_headless}: {size}");
        let context = cdp.call("Target.createBrowserContext", json!({})).await?["browserContextId"].clone();
        let window = json!({"url": "about:blank", "newWindow": true, "browserContextId": context});
        let window = cdp.call("Target.createTarget", window).await?;
        let attach = json!({"targetId": window["targetId"], "flatten": true});
        let window =
            cdp.call("Target.attachToTarget", attach).await?["sessionId"].as_str().context("sessionId")?.to_owned();
        let size = cdp.evaluate(&window, "`${innerWidth}x${innerHeight}`").await?;
        // The display's window manager places those of other contexts.
        ensure!(size == "1280x720" || !is_headless, "headless: {is_headless}: {size}");
        let mouse = cdp.evaluate(&page, "matchMedia('(hover: hover) and (pointer: fine)').matches").await?;
        ensure!(mouse == true, "headless: {is_headless}: no mouse");
        session.delete().await?.ok()?;
    }
    Ok(())
}

/// The page has this height, and its window fills its screen.
async fn fills_its_window(driver: &Driver, height: u32) -> Result<()> {
    let seen = driver.execute(SIZE).await?;
    ensure!(seen == json!([1280, height]), "{seen}");
    let seen =
        driver.execute("return [outerWidth - screen.width, outerHeight - screen.height, screenX, screenY]").await?;
    ensure!(seen == json!([0, 0, 0, 0]), "{seen}");
    Ok(())
}

async fn is_looked_at(driver: &Driver) -> Result<()> {
    ensure!(driver.execute("return document.hasFocus()").await? == true, "blank");
    driver.goto("data:text/html,<input id=field>").await?;
    let events = "const events = []; field.onfocus = () => events.push('focus'); field.focus(); \
                  return [document.hasFocus(), ...events]";
    let seen = driver.execute(events).await?;
    ensure!(seen == json!([true, "focus"]), "{seen}");
    Ok(())
}

/// Each page, frame and window says that WebDriver drives it.
async fn is_driven(driver: &Driver, site: &str) -> Result<()> {
    let frame = "const frame = document.body.appendChild(document.createElement('iframe')); \
                 return [navigator.webdriver, frame.contentWindow.navigator.webdriver]";
    for page in ["about:blank", &format!("{site}/"), "data:text/html,<p>other"] {
        driver.goto(page).await?;
        let seen = driver.execute(frame).await?;
        ensure!(seen == json!([true, true]), "{page}: {seen}");
    }
    let window = driver.command(Method::POST, "/window/new", &json!({"type": "tab"})).await?.ok()?;
    ensure!(window["value"]["type"] == "tab", "{window}");
    driver.command(Method::POST, "/window", &json!({"handle": window["value"]["handle"]})).await?.ok()?;
    // A script that runs at once sees it too.
    driver.goto("data:text/html,<script>document.title = navigator.webdriver</script>").await?;
    ensure!(driver.execute("return document.title").await? == "true", "a new window");
    Ok(())
}

/// In Chromium one may also come without a driver, or to a browser that the driver has started.
async fn other_ways_to_a_page_give_it_the_same_size(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for is_headless in [true, false] {
        let body = json!({"browser_type": "chromium", "headless": is_headless});
        let session = daemon.session(body.clone()).await?;
        let mut cdp = session.cdp().await?;
        let page = cdp.first_page().await?;
        let seen = cdp.evaluate(&page, "[innerWidth, innerHeight, navigator.webdriver]").await?;
        ensure!(seen == json!([1280, 720, false]), "{is_headless}, websocket: {seen}");
        session.delete().await?.ok()?;
        let session = daemon.webdriver(body).await?;
        let cold = json!({"goog:chromeOptions": {"args": ["--force-dark-mode"]}});
        let driver = Driver::start(session.connect_url()?, cold).await?;
        let seen = driver.execute(SIZE).await?;
        ensure!(seen == json!([1280, 720]), "{is_headless}, cold: {seen}");
        driver.quit().await?;
    }
    Ok(())
}

/// Waits until the page alone fills a screen of that size.
async fn fills_its_screen(driver: &Driver, what: &str, size: [u32; 2]) -> Result<()> {
    let script = "return [screen.width, screen.height, innerWidth, innerHeight]";
    let [width, height] = size;
    let wanted = json!([width, height, width, height]);
    eventually!(format!("{what}: {wanted}"), 10, driver.execute(script).await? == wanted)
}

async fn a_kiosk_shows_pages_alone(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    // Options that need a browser of the driver's own, with the switch about automation and without it.
    let [automated, plain] = [json!([]), json!(["enable-automation"])]
        .map(|excluded| json!({"goog:chromeOptions": {"args": ["--lang=de"], "excludeSwitches": excluded}}));
    for (engine, always) in [
        ("chromium", json!({})),
        ("chromium", automated),
        ("chromium", plain),
        ("firefox", json!({})),
        ("webkit", json!({})),
    ] {
        for (settings, size) in
            [(json!({}), [1280, 720]), (json!({"viewport": {"width": 900, "height": 650}}), [900, 650])]
        {
            let session = daemon
                .webdriver(json!({"browser_type": engine, "headless": false, "kiosk": true, "settings": settings}))
                .await?;
            let driver = Driver::start(session.connect_url()?, always.clone()).await?;
            fills_its_screen(&driver, &format!("{engine} {always}"), size).await?;
            let window = driver.command(Method::POST, "/window/new", &json!({"type": "window"})).await?.ok()?;
            driver.command(Method::POST, "/window", &json!({"handle": window["value"]["handle"]})).await?.ok()?;
            fills_its_screen(&driver, &format!("{engine} {always}: another window"), size).await?;
            driver.quit().await?;
        }
    }
    Ok(())
}

async fn screenshots_show_what_was_asserted(stage: Stage) -> Result<()> {
    for engine in ["webkit", "firefox", "chromium"] {
        let session = stage.daemon()?.webdriver(headless(engine)).await?;
        let program = Program::node(&programs::clients(), "screenshots.mjs").await?;
        program.env("CONNECT_URL", session.connect_url()?).results().await.context(engine)?;
        session.becomes("terminated", 20).await?;
    }
    Ok(())
}

async fn a_missing_file_is_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(headless("chromium")).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto("data:text/html,<input type=file id=file><input id=text>").await?;
    let refused = types(&driver, "#file", "/home/me/report.pdf").await?;
    let (error, message) = warmpool_tests::webdriver::fault(&refused, 400)?;
    ensure!(error == "invalid argument", "{error}");
    ensure!(message.contains("File not found") && message.contains("PUT /sessions/<id>/files/<name>"), "{message}");
    types(&driver, "#text", "/home/me/report.pdf").await?.ok()?;
    let path = session.put_file("report.pdf", "tea").await?.ok()?["path"].as_str().context("path")?.to_owned();
    types(&driver, "#file", &path).await?.ok()?;
    ensure!(driver.execute("return document.querySelector('#file').files[0].size").await? == 3);
    driver.quit().await?;
    Ok(())
}

/// Chromium itself knows none but the proxy's errors.
async fn errors_of_the_network_have_their_names(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let closed = TcpListener::bind((host_address(), 0))?.local_addr()?;
    let pages = [
        ("http://no-such-host.invalid/".to_owned(), "net::ERR_NAME_NOT_RESOLVED"),
        (format!("http://{closed}/"), "net::ERR_CONNECTION_REFUSED"),
        // The policy refuses it, and an encrypted connection cannot be shown why.
        ("https://10.1.2.3/".to_owned(), "net::ERR_NETWORK_ACCESS_DENIED"),
    ];
    let attached = daemon.session(headless("chromium")).await?;
    let mut cdp = attached.cdp().await?;
    let page = cdp.first_page().await?;
    let session = daemon.webdriver(headless("chromium")).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    for (url, error) in &pages {
        let opened = cdp.call_in(&page, "Page.navigate", json!({"url": url})).await?;
        ensure!(opened["errorText"] == *error, "{url}: {opened}");
        let answer = driver.command(Method::POST, "/url", &json!({"url": url})).await?;
        let (code, message) = warmpool_tests::webdriver::fault(&answer, 500)?;
        ensure!(code == "unknown error" && message.contains(&format!("{error}\n")), "{url}: {message}");
    }
    // Nothing else changes: an error page is left for a page as in a plain browser.
    let site = stage.site_for(daemon).await?;
    let opened = cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/")})).await?;
    ensure!(opened["errorText"].is_null(), "{opened}");
    cdp.disconnect().await?;
    driver.quit().await?;
    attached.delete().await?.ok()?;
    Ok(())
}

/// Chromium itself knows none but the agent's.
async fn responses_have_the_address_that_they_came_from(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let at: SocketAddr = site.strip_prefix("http://").context("a plain site")?.parse()?;
    let attached = daemon.session(headless("chromium")).await?;
    let mut cdp = attached.cdp().await?;
    let page = cdp.first_page().await?;
    cdp.call_in(&page, "Network.enable", json!({})).await?;
    let url = format!("{site}/#top");
    cdp.call_in(&page, "Page.navigate", json!({"url": url})).await?;
    let event = cdp.event("Network.responseReceived", |event| event["type"] == "Document").await?;
    let response = &event["response"];
    ensure!(response["remoteIPAddress"] == at.ip().to_string(), "{response}");
    ensure!(response["remotePort"] == at.port(), "{response}");
    cdp.disconnect().await?;
    attached.delete().await?.ok()?;
    Ok(())
}

/// The name of an element's id in the standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

async fn element(driver: &Driver, selector: &str) -> Result<String> {
    let find = json!({"using": "css selector", "value": selector});
    let found = driver.command(Method::POST, "/element", &find).await?.ok()?;
    Ok(found["value"][ELEMENT].as_str().context("an element")?.to_owned())
}

/// Sends keys to an element.
async fn types(driver: &Driver, selector: &str, text: &str) -> Result<Reply> {
    let element = element(driver, selector).await?;
    driver.command(Method::POST, &format!("/element/{element}/value"), &json!({"text": text})).await
}

async fn keys_reach_a_page_that_is_not_painted_yet(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (engine, is_headless) in BROWSERS {
        let session = daemon.webdriver(json!({"browser_type": engine, "headless": is_headless})).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        let value = "return document.querySelector('input').value";
        for _ in 0..2 {
            // A frame has the focus while the next page comes.
            driver.goto(&format!("{site}/")).await?;
            driver.execute("document.body.appendChild(document.createElement('iframe')).src = '/form'").await?;
            let frame = element(&driver, "iframe").await?;
            driver.command(Method::POST, "/frame", &json!({"id": {ELEMENT: frame}})).await?.ok()?;
            let loaded = "return document.readyState === 'complete' && !!document.querySelector('input')";
            eventually!("the frame is loaded", 10, driver.execute(loaded).await? == true)?;
            types(&driver, "input", "foo").await?.ok()?;
            ensure!(driver.execute(value).await? == "foo", "{engine}, headless: {is_headless}: the frame");
            driver.goto(&format!("{site}/unpainted")).await?;
            types(&driver, "input", "foo").await?.ok()?;
            let seen = driver.execute(value).await?;
            ensure!(seen == "foo", "{engine}, headless: {is_headless}: {seen}");
        }
        driver.quit().await?;
    }
    Ok(())
}
