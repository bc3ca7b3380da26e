//! `settings` are true in every page, context and popup, as the page itself sees them; the client's own overrides win.
//!
//! One table: engine, mode and endpoint; the places a page can be in; the facts that a page can see. What an engine
//! cannot do is in [`LIMITS`], and its create reply must say so.

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Driver, Group, Session, Settings, Stage, eventually, group, webdriver};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.1";

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!(Some(settings),
        quick: [hold_in_headless_chromium],
        full: [
            hold_in_headed_chromium,
            hold_in_chromium_under_webdriver,
            hold_in_headless_firefox,
            hold_in_headed_firefox,
            hold_in_firefox_under_webdriver,
            hold_in_webkit,
            hold_in_webkit_under_webdriver,
            each_setting_holds_alone,
            no_preference_is_told_to_the_browser,
            session_timeout_ends_every_engine,
            the_clients_own_override_wins,
            settings_outlive_a_page_and_a_client,
            reading_the_state_changes_no_page,
            what_an_engine_cannot_do_is_refused,
            without_settings_nothing_is_overridden,
        ],
    )
}

/// Tabs that Chromium may open until one has its settings: on a busy machine it may run a page's first script before it has
/// attached anybody to the process that the page runs in. Plain Chromium with one client does so in some 5 of 100 tabs.
const CHROMIUM_ATTEMPTS: u32 = 3;

/// Where a page can be. Each report covers the page itself, a frame in it and a worker of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The tab that the session opens with `url`.
    First,
    /// A tab that the client opens.
    Tab,
    /// A window that a page opens.
    Popup,
    /// The first page of a new browser context.
    Context,
}

pub(crate) const EVERYWHERE: &[Place] = &[Place::First, Place::Tab, Place::Popup, Place::Context];
/// WebDriver knows no contexts.
pub(crate) const OF_DRIVERS: &[Place] = &[Place::First, Place::Tab, Place::Popup];
/// What a client of WebKit's inspector can have: it opens no pages.
pub(crate) const OF_INSPECTORS: &[Place] = &[Place::First];

/// A row of the table: a kind of browser, and the places that its clients can reach.
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    pub(crate) headless: bool,
    pub(crate) webdriver: bool,
    pub(crate) places: &'static [Place],
}

/// What an engine cannot do.
struct Limit {
    engine: &'static str,
    /// Which requests it applies to.
    of: fn(&Requested) -> bool,
    /// The fact, such as `viewport`, wherever it is seen.
    fact: &'static str,
    /// Words of the warning.
    warning: &'static str,
}

const LIMITS: &[Limit] = &[Limit {
    engine: "webkit",
    of: |requested| requested.locales.is_some_and(|locales| locales.len() > 1),
    fact: "languages",
    warning: "navigator.languages",
}];

/// What is asked for, and so what every page must see.
#[derive(Clone, Default)]
struct Requested {
    locales: Option<&'static [&'static str]>,
    user_agent: Option<&'static str>,
    viewport: Option<(u64, u64)>,
    /// A zone without summer time, and its offset as dates have it.
    timezone: Option<(&'static str, i64)>,
    color_scheme: Option<&'static str>,
    reduced_motion: Option<&'static str>,
}

const ALL: Requested = Requested {
    locales: Some(&["de-DE", "fr-FR"]),
    user_agent: Some(AGENT),
    viewport: Some((1000, 640)),
    timezone: Some(("Asia/Tokyo", -540)),
    color_scheme: Some("dark"),
    reduced_motion: Some("reduce"),
};

impl Requested {
    fn settings(&self) -> Value {
        let viewport = self.viewport.map(|(width, height)| json!({"width": width, "height": height}));
        json!({
            "locales": self.locales, "user_agent": self.user_agent, "viewport": viewport,
            "timezone": self.timezone.map(|(name, _)| name),
            "color_scheme": self.color_scheme, "reduced_motion": self.reduced_motion,
        })
    }

    /// Every fact of one report that is not as requested: its name, and what was seen.
    fn faults(&self, report: &Value, place: Place) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut expect = |fact: &'static str, seen: &Value, wanted: Value| {
            if *seen != wanted {
                faults.push((fact, format!("{fact} is {seen} and should be {wanted}")));
            }
        };
        let top = &report["top"];
        for part in [top, &report["frame"], &report["worker"]] {
            if let Some(locales) = self.locales {
                expect("languages", &part["languages"], json!(locales));
                expect("language", &part["language"], json!(locales[0]));
                expect("intl", &part["intl"], json!(locales[0]));
            }
            if let Some(agent) = self.user_agent {
                expect("user_agent", &part["userAgent"], json!(agent));
            } else {
                expect("user_agent", &part["userAgent"], top["userAgent"].clone());
            }
        }
        let (zone, offset) = self.timezone.unwrap_or(("UTC", 0));
        for part in [top, &report["frame"], &report["worker"], &report["shared"]] {
            expect("timezone", &part["timezone"], json!(zone));
            expect("offset", &part["offset"], json!(offset));
        }
        for part in [top, &report["frame"]] {
            let is_dark = self.color_scheme == Some("dark");
            let is_reduced = self.reduced_motion == Some("reduce");
            expect("media", &part["media"], json!({"dark": is_dark, "light": !is_dark, "reduced": is_reduced}));
        }
        for headers in [&report["headers"], &report["worker"]["headers"]] {
            expect("user_agent header", &headers["user-agent"], top["userAgent"].clone());
            if let Some(locales) = self.locales {
                let sent = headers["accept-language"].as_str().unwrap_or_default();
                let tags: Vec<&str> = sent.split(',').filter_map(|item| item.trim().split(';').next()).collect();
                // Engines add the bare language of a region's tag, as in `de-DE,de;q=0.9`.
                let kept: Vec<&&str> = tags.iter().filter(|tag| locales.contains(tag)).collect();
                expect("accept-language header", &json!(kept), json!(locales));
                let foreign =
                    |tag: &&&str| !locales.iter().any(|locale| locale.split('-').next() == tag.split('-').next());
                expect("accept-language header", &json!(tags.iter().find(foreign)), Value::Null);
            }
        }
        // A popup has the size that its opener gave it.
        if let Some((width, height)) = self.viewport.filter(|_| place != Place::Popup) {
            expect("viewport", &top["inner"], json!({"width": width, "height": height}));
            expect("pixel ratio", &top["ratio"], json!(1));
            // Not the outer size: while a viewport is emulated, Chromium reports the real window's, or 0 at first.
            let holds =
                top["screen"]["width"].as_u64() >= Some(width) && top["screen"]["height"].as_u64() >= Some(height);
            expect("screen holds the page", &json!(holds), json!(true));
        }
        faults
    }
}

/// The client that drives the session's browser.
pub(crate) enum Client {
    /// DevTools, and WebDriver BiDi, which has the same messages.
    Socket(Box<Cdp>),
    Driver(Driver),
}

impl Client {
    pub(crate) async fn attach(row: &Row, session: &Session) -> Result<Self> {
        if row.webdriver {
            let name = match row.engine {
                "chromium" => "chrome",
                "webkit" => "MiniBrowser",
                other => other,
            };
            return Ok(Self::Driver(Driver::start(session.connect_url()?, json!({"browserName": name})).await?));
        }
        let mut socket = session.cdp().await?;
        if row.engine == "firefox" {
            socket.call("session.new", json!({"capabilities": {}})).await?;
        }
        Ok(Self::Socket(Box::new(socket)))
    }

    /// Has a page loaded at a place.
    pub(crate) async fn open(&mut self, row: &Row, place: Place, url: &str) -> Result<()> {
        let popup = format!("void window.open('{url}', 'p', 'width=500,height=400')");
        match (self, row.engine, place) {
            (_, _, Place::First) => {}
            (Self::Driver(driver), _, Place::Tab) => {
                let opened = driver.command(Method::POST, "/window/new", &json!({"type": "tab"})).await?.ok()?;
                let window = json!({"handle": opened["value"]["handle"]});
                driver.command(Method::POST, "/window", &window).await?.ok()?;
                driver.goto(url).await?;
            }
            (Self::Driver(driver), _, Place::Popup) => drop(driver.execute(&popup).await?),
            (Self::Socket(cdp), "chromium", Place::Tab) => drop(cdp.open(url).await?),
            (Self::Socket(cdp), "chromium", Place::Popup) => {
                let page = cdp.first_page().await?;
                cdp.evaluate(&page, &popup).await?;
            }
            (Self::Socket(cdp), "chromium", Place::Context) => {
                let context = cdp.call("Target.createBrowserContext", json!({})).await?;
                let target = json!({"url": url, "browserContextId": context["browserContextId"]});
                cdp.call("Target.createTarget", target).await?;
            }
            (Self::Socket(bidi), "firefox", Place::Tab) => open_in_firefox(bidi, json!({"type": "tab"}), url).await?,
            (Self::Socket(bidi), "firefox", Place::Context) => {
                let context = bidi.call("browser.createUserContext", json!({})).await?;
                open_in_firefox(bidi, json!({"type": "tab", "userContext": context["userContext"]}), url).await?;
            }
            (Self::Socket(bidi), "firefox", Place::Popup) => {
                let tree = bidi.call("browsingContext.getTree", json!({"maxDepth": 0})).await?;
                let target = json!({"context": tree["contexts"][0]["context"]});
                let script =
                    json!({"expression": popup, "target": target, "awaitPromise": false, "userActivation": true});
                bidi.call("script.evaluate", script).await?;
            }
            (_, engine, place) => bail!("no client of {engine} opens a {place:?}"),
        }
        Ok(())
    }
}

async fn open_in_firefox(bidi: &mut Cdp, how: Value, url: &str) -> Result<()> {
    let tab = bidi.call("browsingContext.create", how).await?;
    bidi.call("browsingContext.navigate", json!({"context": tab["context"], "url": url, "wait": "none"})).await?;
    Ok(())
}

async fn report(stage: &Stage, name: &str) -> Result<Value> {
    let report = eventually!(format!("the page {name} reports"), 30, stage.site().report(name));
    let asked = || stage.site().hits(&format!("/probe/{name}")).len();
    report.with_context(|| format!("the page was asked for {} times", asked()))
}

/// Runs one row of the table.
async fn hold(stage: Stage, row: Row, requested: Requested) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let kind = if row.webdriver { "webdriver" } else { "socket" };
    let tag = format!(
        "{}-{}-{}-{}-{}-{}",
        requested.locales.map_or("own", |locales| locales[0]),
        requested.user_agent.is_some(),
        requested.viewport.map_or(0, |(width, _)| width),
        requested.timezone.map_or(0, |(_, offset)| offset),
        requested.color_scheme.unwrap_or("own"),
        requested.reduced_motion.unwrap_or("own"),
    );
    let name = |place: Place, attempt: u32| format!("{}-{}-{kind}-{tag}-{place:?}-{attempt}", row.engine, row.headless);
    let probe = |place: Place, attempt: u32| format!("{site}/probe/{}", name(place, attempt));
    let body = json!({
        "browser_type": row.engine, "headless": row.headless, "settings": requested.settings(), "url": probe(Place::First, 1),
    });
    let session = if row.webdriver { daemon.webdriver(body).await? } else { daemon.session(body).await? };
    ensure!(session.record().await?["headless"] == row.headless);
    let warnings = session.body["warnings"].to_string();
    let limits: Vec<&Limit> =
        LIMITS.iter().filter(|limit| limit.engine == row.engine && (limit.of)(&requested)).collect();
    for limit in &limits {
        ensure!(warnings.contains(limit.warning), "{} is not warned of: {warnings}", limit.fact);
    }
    ensure!(!limits.is_empty() || warnings == "null", "what is warned of is a limit: {warnings}");

    // The page that the session opens comes first: a driver's session may change its window.
    let mut wrong = Vec::new();
    let mut client = None;
    for place in row.places {
        let attempts = if row.engine == "chromium" && *place != Place::First { CHROMIUM_ATTEMPTS } else { 1 };
        let mut faults = Vec::new();
        for attempt in 1..=attempts {
            if *place != Place::First {
                if client.is_none() {
                    client = Some(Client::attach(&row, &session).await?);
                }
                let client = client.as_mut().context("a client")?;
                let opened = client.open(&row, *place, &probe(*place, attempt)).await;
                opened.with_context(|| format!("open {place:?}"))?;
            }
            let report = report(&stage, &name(*place, attempt)).await?;
            faults = requested.faults(&report, *place);
            faults.retain(|(fact, _)| !limits.iter().any(|limit| limit.fact == *fact));
            if faults.is_empty() {
                break;
            }
        }
        wrong.extend(faults.into_iter().map(|(_, fault)| format!("{place:?}: {fault}")));
    }
    ensure!(wrong.is_empty(), "{} {kind}:\n{}", row.engine, wrong.join("\n"));
    session.delete().await?.ok()?;
    Ok(())
}

async fn hold_in_headless_chromium(stage: Stage) -> Result<()> {
    let row = Row { engine: "chromium", headless: true, webdriver: false, places: EVERYWHERE };
    hold(stage.clone(), row, ALL).await?;
    // Another client changes nothing, and the settings stay when the first one leaves.
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"settings": ALL.settings()})).await?;
    session.cdp().await?.disconnect().await?;
    let mut again = session.cdp().await?;
    again.open(&format!("{site}/probe/again")).await?;
    let faults = ALL.faults(&report(&stage, "again").await?, Place::Tab);
    ensure!(faults.is_empty(), "after another attach: {faults:?}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn hold_in_headed_chromium(stage: Stage) -> Result<()> {
    let row = Row { engine: "chromium", headless: false, webdriver: false, places: EVERYWHERE };
    hold(stage, row, ALL).await
}

async fn hold_in_chromium_under_webdriver(stage: Stage) -> Result<()> {
    let row = Row { engine: "chromium", headless: true, webdriver: true, places: OF_DRIVERS };
    hold(stage, row, ALL).await
}

async fn hold_in_headless_firefox(stage: Stage) -> Result<()> {
    let row = Row { engine: "firefox", headless: true, webdriver: false, places: EVERYWHERE };
    hold(stage, row, ALL).await
}

async fn hold_in_headed_firefox(stage: Stage) -> Result<()> {
    let row = Row { engine: "firefox", headless: false, webdriver: false, places: EVERYWHERE };
    hold(stage, row, ALL).await
}

async fn hold_in_firefox_under_webdriver(stage: Stage) -> Result<()> {
    let row = Row { engine: "firefox", headless: true, webdriver: true, places: OF_DRIVERS };
    hold(stage, row, ALL).await
}

async fn hold_in_webkit(stage: Stage) -> Result<()> {
    for headless in [true, false] {
        let row = Row { engine: "webkit", headless, webdriver: false, places: OF_INSPECTORS };
        hold(stage.clone(), row, ALL).await?;
    }
    Ok(())
}

async fn hold_in_webkit_under_webdriver(stage: Stage) -> Result<()> {
    let row = Row { engine: "webkit", headless: true, webdriver: true, places: OF_DRIVERS };
    hold(stage, row, ALL).await
}

/// Other locales, and each setting without the others, which then stay the browser's own.
async fn each_setting_holds_alone(stage: Stage) -> Result<()> {
    for engine in ["chromium", "firefox", "webkit"] {
        for requested in [
            Requested { locales: Some(&["pt-BR"]), ..Requested::default() },
            Requested { locales: Some(&["ja-JP", "zh-Hant-TW", "en-US"]), ..Requested::default() },
            Requested { user_agent: Some(AGENT), ..Requested::default() },
            Requested { viewport: Some((640, 900)), ..Requested::default() },
            Requested { timezone: Some(("America/Phoenix", 420)), ..Requested::default() },
            Requested { color_scheme: Some("dark"), ..Requested::default() },
            Requested { color_scheme: Some("no-preference"), ..Requested::default() },
            Requested { reduced_motion: Some("reduce"), ..Requested::default() },
            Requested { reduced_motion: Some("no-preference"), ..Requested::default() },
        ] {
            let row = Row { engine, headless: true, webdriver: false, places: &[Place::First] };
            hold(stage.clone(), row, requested).await?;
        }
    }
    Ok(())
}

/// Browsers begin without a preference, so these begin with one.
async fn no_preference_is_told_to_the_browser(stage: Stage) -> Result<()> {
    let switches = json!({"goog:chromeOptions": {"args": ["--force-dark-mode", "--force-prefers-reduced-motion"]}});
    let seen =
        "return ['(prefers-color-scheme: dark)', '(prefers-reduced-motion: reduce)'].map(it => matchMedia(it).matches)";
    for (settings, wanted) in [
        (json!({}), [true, true]),
        (json!({"color_scheme": "no-preference"}), [false, true]),
        (json!({"reduced_motion": "no-preference"}), [true, false]),
    ] {
        let session = stage.daemon()?.webdriver(json!({"settings": settings})).await?;
        let driver = Driver::start(session.connect_url()?, switches.clone()).await?;
        let found = driver.execute(seen).await?;
        ensure!(found == json!(wanted), "{settings}: {found}");
        driver.quit().await?;
    }
    Ok(())
}

async fn session_timeout_ends_every_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for engine in ["chromium", "firefox", "webkit"] {
        let session = daemon.session(json!({"browser_type": engine, "session_timeout": 2})).await?;
        let record = session.becomes("terminated", 30).await?;
        ensure!(record["reason"] == "session_timeout", "{engine}: {record}");
        // Longer than a driver takes to start, so that the time of a session in use is over.
        let session = daemon.webdriver(json!({"browser_type": engine, "session_timeout": 8})).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        ensure!(driver.execute("return 6 * 7").await? == 42, "{engine}");
        let record = session.becomes("terminated", 30).await?;
        ensure!(record["reason"] == "session_timeout", "{engine}: {record}");
        let late = driver.command(Method::GET, "/title", &Value::Null).await?;
        let (error, _) = webdriver::fault(&late, 404)?;
        ensure!(error == "invalid session id", "{engine}: {late}");
    }
    Ok(())
}

async fn the_clients_own_override_wins(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"settings": ALL.settings()})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open("about:blank").await?;
    cdp.call_in(&page, "Network.setUserAgentOverride", json!({"userAgent": "Own/1", "acceptLanguage": "it-IT"}))
        .await?;
    let size = json!({"width": 333, "height": 222, "deviceScaleFactor": 1, "mobile": false});
    cdp.call_in(&page, "Emulation.setDeviceMetricsOverride", size).await?;
    cdp.call_in(&page, "Emulation.setTimezoneOverride", json!({"timezoneId": "America/Phoenix"})).await?;
    let media = json!({"features": [{"name": "prefers-color-scheme", "value": "light"}]});
    cdp.call_in(&page, "Emulation.setEmulatedMedia", media).await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/probe/own")})).await?;
    let report = report(&stage, "own").await?;
    ensure!(report["top"]["userAgent"] == "Own/1", "{report}");
    ensure!(report["top"]["languages"] == json!(["it-IT"]), "{report}");
    ensure!(report["top"]["inner"] == json!({"width": 333, "height": 222}), "{report}");
    ensure!(report["headers"]["user-agent"] == "Own/1", "{report}");
    ensure!(report["top"]["offset"] == 420 && report["top"]["media"]["light"] == true, "{report}");
    session.delete().await?.ok()?;
    Ok(())
}

/// Chromium drops an override with the page or the client that brought it, also where others rely on it.
async fn settings_outlive_a_page_and_a_client(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"settings": ALL.settings()})).await?;
    let mut cdp = session.cdp().await?;
    let opener = cdp.open(&format!("{site}/popup")).await?;
    cdp.evaluate(&opener, "void window.open('/probe/popup', 'kept', 'width=500,height=400')").await?;
    let first = report(&stage, "popup").await?;
    ensure!(ALL.faults(&first, Place::Popup).is_empty(), "{first}");
    cdp.call_in(&opener, "Page.close", json!({})).await?;
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    let is_popup = |target: &&Value| target["url"].as_str().is_some_and(|url| url.ends_with("/probe/popup"));
    let popup = targets["targetInfos"].as_array().and_then(|all| all.iter().find(is_popup)).context("the popup")?;
    let attach = json!({"targetId": popup["targetId"], "flatten": true});
    let popup = cdp.call("Target.attachToTarget", attach.clone()).await?;
    let popup = popup["sessionId"].as_str().context("a session")?.to_owned();
    let light = json!({"features": [{"name": "prefers-color-scheme", "value": "light"}]});
    cdp.call_in(&popup, "Emulation.setEmulatedMedia", light).await?;
    ensure!(cdp.evaluate(&popup, "matchMedia('(prefers-color-scheme: light)').matches").await? == true);
    cdp.disconnect().await?;

    let mut again = session.cdp().await?;
    let popup = again.call("Target.attachToTarget", attach).await?;
    let popup = popup["sessionId"].as_str().context("a session")?.to_owned();
    let seen = "`${new Date().getTimezoneOffset()} ${matchMedia('(prefers-color-scheme: dark)').matches} ${Intl.NumberFormat().resolvedOptions().locale}`";
    let is_restored = |seen: Value| seen == "-540 true de-DE";
    eventually!("the popup has the settings again", 10, is_restored(again.evaluate(&popup, seen).await?))?;
    session.delete().await?.ok()?;
    Ok(())
}

/// Chromium undoes for a whole page what anybody has set in it when any DevTools session leaves it.
async fn reading_the_state_changes_no_page(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let (width, height) = (1000, 640);
    let settings = json!({"color_scheme": "dark", "viewport": {"width": width, "height": height}});
    for body in [json!({"settings": settings}), json!({})] {
        let session = daemon.session(body.clone()).await?;
        let mut cdp = session.cdp().await?;
        let page = cdp.open(&format!("{site}/form")).await?;
        if body["settings"].is_null() {
            let media = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
            cdp.call_in(&page, "Emulation.setEmulatedMedia", media).await?;
            let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
            cdp.call_in(&page, "Emulation.setDeviceMetricsOverride", size).await?;
        }
        let touch = json!({"enabled": true, "maxTouchPoints": 3});
        cdp.call_in(&page, "Emulation.setTouchEmulationEnabled", touch).await?;
        let seen = "`${matchMedia('(prefers-color-scheme: dark)').matches} ${innerWidth} ${navigator.maxTouchPoints}`";
        let is_set = |seen: Value| seen == "true 1000 3";
        eventually!("the page has all of it", 10, is_set(cdp.evaluate(&page, seen).await?))?;
        // The second one uses what the first one has left.
        for time in ["first", "second"] {
            daemon.api().get(&format!("/sessions/{}/state", session.id)).await?.ok()?;
            let after = cdp.evaluate(&page, seen).await?;
            ensure!(is_set(after.clone()), "{body}, after the {time} reading: {after}");
        }
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn what_an_engine_cannot_do_is_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    // The library of WebKit's image is of a year before there was this zone.
    for (engine, settings, field, words) in
        [("webkit", json!({"timezone": "America/Coyhaique"}), "settings.timezone", "chromium and firefox")]
    {
        let body = json!({"browser_type": engine, "settings": settings});
        let fault = daemon.api().post("/sessions/create", &body).await?.fault(400)?;
        ensure!(fault.code == "not_supported" && fault.field == field, "{} {}", fault.code, fault.field);
        ensure!(fault.message.contains(words), "{}", fault.message);
    }
    Ok(())
}

async fn without_settings_nothing_is_overridden(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": format!("{site}/probe/plain")})).await?;
    let report = report(&stage, "plain").await?;
    let agent = report["top"]["userAgent"].as_str().context("userAgent")?;
    ensure!(agent.contains("Chrome/") && report["headers"]["user-agent"] == agent, "{report}");
    ensure!(report["top"]["webdriver"] != true, "no client drives this page: {report}");
    session.delete().await?.ok()?;
    Ok(())
}
