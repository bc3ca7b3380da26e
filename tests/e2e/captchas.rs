//! `advanced.solve_captchas`: challenges are found, given to a service or to a person, and answered in the page.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::NamedTempFile;
use warmpool_tests::captcha::{ACCOUNT, Service};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

use crate::live::{message, say, socket};
use crate::webhooks::verified;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_service_solves_each_kind_in_chromium,
            a_service_solves_each_kind_in_firefox,
            a_service_solves_each_kind_in_webkit,
            a_services_faults_are_distinguished,
            a_picture_that_is_too_large_is_unreadable_in_firefox,
            a_person_solves_what_waits,
            a_challenge_in_webkit_ends_with_its_page,
        ],
    )
}

const SECRET: &str = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw==";

fn file_with(text: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    writeln!(file, "{text}")?;
    Ok(file)
}

/// A daemon whose sessions ask this service. The file holds the key.
async fn daemon_with_solver(service: &Service) -> Result<(Daemon, NamedTempFile)> {
    let key = file_with(ACCOUNT)?;
    let settings = Settings::on_demand()
        .set("CAPTCHA_MODE", "solver")
        .set("CAPTCHA_SOLVER_URL", service.url())
        .set("CAPTCHA_SOLVER_KEY_FILE", key.path().display())
        .set("CAPTCHA_SOLVER_INTERVAL", "100ms")
        .set("CAPTCHA_SOLVER_TIMEOUT", "3s");
    Ok((Daemon::start(settings).await?, key))
}

async fn solving(daemon: &Daemon, engine: &str) -> Result<(Session, Driver)> {
    let body = json!({"browser_type": engine, "headless": true, "advanced": {"solve_captchas": true}});
    let session = daemon.webdriver(body).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    Ok((session, driver))
}

/// Waits until this many challenges are over; returns them.
async fn ended(session: &Session, count: usize) -> Result<Vec<Value>> {
    let listed = async || -> Result<Vec<Value>> {
        Ok(session.record().await?["captchas"].as_array().cloned().unwrap_or_default())
    };
    let done = eventually!(format!("{count} challenges are over"), 30, {
        let listed = listed().await?;
        (listed.len() >= count).then_some(listed)
    });
    done.with_context(|| format!("{:?}", session.id))
}

async fn solves_each_kind(stage: Stage, engine: &str) -> Result<()> {
    let service = Service::solver().await?;
    let (daemon, _key) = daemon_with_solver(&service).await?;
    let site = stage.site_for(&daemon).await?;
    let (session, driver) = solving(&daemon, engine).await?;
    let kinds = ["recaptcha_v2", "explicit", "recaptcha_v3", "hcaptcha", "turnstile", "image", "framed"];
    for (index, kind) in kinds.into_iter().enumerate() {
        let (name, key) = (format!("{engine}-{kind}"), format!("site-{kind}"));
        driver.goto(&format!("{site}/captchas/{name}?kind={kind}&key={key}")).await?;
        let token = if kind == "image" { "k7Wq".to_owned() } else { format!("token-for-{key}") };
        let report = eventually!(format!("{engine}: {kind} is solved"), 30, stage.site().report(&name));
        let report = report.with_context(|| format!("{:?}", service.requests()))?;
        ensure!(report == json!({"token": token, "traces": []}), "{engine} {kind}: {report}");
        let record = ended(&session, index + 1).await?.pop().context("a challenge")?;
        let named = match kind {
            "explicit" => "recaptcha_v2",
            "framed" => "hcaptcha",
            kind => kind,
        };
        ensure!(record["kind"] == named && record["outcome"] == "solved" && record["by"] == "solver", "{record}");
        ensure!(
            record["cost"] == 0.002_99 && record["url"].as_str().is_some_and(|url| url.starts_with(&site)),
            "{record}"
        );
    }
    ensure!(session.record().await?["captcha"].is_null(), "nothing waits");
    let tasks: Vec<Value> = service.requests().into_iter().map(|(_, body)| body["task"].clone()).collect();
    let task =
        |name: &str| tasks.iter().find(|task| task["type"] == name).with_context(|| format!("{name} in {tasks:?}"));
    ensure!(task("TurnstileTaskProxyless")?["action"] == "login");
    ensure!(task("RecaptchaV3TaskProxyless")?["websiteKey"] == "site-recaptcha_v3");
    ensure!(task("ImageToTextTask")?["body"].as_str().is_some_and(|body| body.starts_with("iVBOR")), "a PNG");
    let metrics = daemon.metrics().await?;
    let solved = metrics.sum("warmpool_captchas_total", &[("outcome", "solved"), ("by", "solver")]);
    ensure!(solved == Some(7.0), "{solved:?}");
    let cost = metrics.sum("warmpool_captcha_cost_millionths_total", &[]);
    ensure!(cost == Some(7.0 * 2990.0), "{cost:?}");
    ensure!(!daemon.log_text().contains(ACCOUNT), "the key is in the log");
    session.delete().await?.ok()?;
    ensure!(
        session.record().await?["captchas"].as_array().is_some_and(|list| list.len() == 7),
        "the record keeps them"
    );
    // A session that does not ask for it has none solved: its page is there before that of one that asks, whose challenge is solved.
    let session = daemon.webdriver(json!({"browser_type": engine, "headless": true})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/captchas/{engine}-none?kind=hcaptcha&key=site-none")).await?;
    let (asking, asks) = solving(&daemon, engine).await?;
    asks.goto(&format!("{site}/captchas/{engine}-asks?kind=hcaptcha&key=site-asks")).await?;
    ended(&asking, 1).await?;
    let is_asked = |key: &str| service.requests().iter().any(|(_, body)| body["task"]["websiteKey"] == key);
    ensure!(is_asked("site-asks") && !is_asked("site-none"), "{:?}", service.requests());
    ensure!(session.record().await?["captchas"].is_null());
    asking.delete().await?.ok()?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_service_solves_each_kind_in_chromium(stage: Stage) -> Result<()> {
    solves_each_kind(stage, "chromium").await
}

async fn a_service_solves_each_kind_in_firefox(stage: Stage) -> Result<()> {
    solves_each_kind(stage, "firefox").await
}

async fn a_service_solves_each_kind_in_webkit(stage: Stage) -> Result<()> {
    solves_each_kind(stage, "webkit").await
}

async fn a_services_faults_are_distinguished(stage: Stage) -> Result<()> {
    let service = Service::solver().await?;
    let (daemon, _key) = daemon_with_solver(&service).await?;
    let site = stage.site_for(&daemon).await?;
    let (session, driver) = solving(&daemon, "chromium").await?;
    let faults = [
        ("wrong", "solver_key"),
        ("poor", "solver_balance"),
        ("unsolvable", "unsolvable"),
        ("slow", "solver_slow"),
        ("garbage", "solver_garbage"),
    ];
    for (index, (key, error)) in faults.into_iter().enumerate() {
        driver.goto(&format!("{site}/captchas/fault-{key}?kind=turnstile&key={key}")).await?;
        let record = ended(&session, index + 1).await?.pop().context("a challenge")?;
        ensure!(record["outcome"] == "failed" && record["error"] == error, "{key}: {record}");
    }
    // One that cannot be named to the service, and one that fails no more than once.
    driver.goto(&format!("{site}/captchas/fault-none?kind=turnstile&key=")).await?;
    let record = ended(&session, 6).await?.pop().context("a challenge")?;
    ensure!(record["error"] == "unreadable", "{record}");
    drop(service);
    driver.goto(&format!("{site}/captchas/fault-gone?kind=turnstile&key=good")).await?;
    let record = ended(&session, 7).await?.pop().context("a challenge")?;
    ensure!(record["error"] == "solver_unreachable", "{record}");
    let failed = daemon.metrics().await?.sum("warmpool_captchas_total", &[("outcome", "failed")]);
    ensure!(failed == Some(7.0), "each is tried once: {failed:?}");
    ensure!(driver.execute("return document.title").await? == "turnstile", "the session goes on");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A page may have any picture, and the agent takes lines of a bounded length from Firefox.
async fn a_picture_that_is_too_large_is_unreadable_in_firefox(stage: Stage) -> Result<()> {
    const NOISE: &str = r#"
        const canvas = Object.assign(document.createElement("canvas"), { width: 1000, height: 1000 });
        const noise = new ImageData(1000, 1000);
        const { data } = noise;
        for (let at = 0; at < data.length; at += 65536) crypto.getRandomValues(data.subarray(at, at + 65536));
        canvas.getContext("2d").putImageData(noise, 0, 0);
        document.body.innerHTML = '<form><img id="captcha"><input name="code"></form>';
        document.querySelector("img").src = canvas.toDataURL();
    "#;
    let service = Service::solver().await?;
    let (daemon, _key) = daemon_with_solver(&service).await?;
    let site = stage.site_for(&daemon).await?;
    let (session, driver) = solving(&daemon, "firefox").await?;
    driver.goto(&format!("{site}/tab/1")).await?;
    // By the page itself, which reads its own bytes.
    let script = format!(
        "const script = document.createElement('script'); script.textContent = {}; document.head.append(script)",
        json!(NOISE)
    );
    driver.execute(&script).await?;
    let record = ended(&session, 1).await?.pop().context("a challenge")?;
    ensure!(record["kind"] == "image" && record["error"] == "unreadable", "{record}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_person_solves_what_waits(stage: Stage) -> Result<()> {
    let (webhook, secret) = (Service::webhook().await?, file_with(SECRET)?);
    let own = Service::webhook().await?;
    let address = format!("{}/own", own.url());
    let settings = Settings::on_demand()
        .set("CAPTCHA_MODE", "person")
        .set("WEBHOOKS_NETWORKS", "127.0.0.1/32")
        .set("WEBHOOKS_RETRY_DELAY", "100ms")
        .set("CAPTCHA_WEBHOOK_URL", format!("{}/hook", webhook.url()))
        .set("CAPTCHA_WEBHOOK_SECRET_FILE", secret.path().display())
        .set("CAPTCHA_MAX_PER_SESSION", "5")
        .set("CAPTCHA_PERSON_TIMEOUT", "60s");
    let daemon = Daemon::start(settings).await?;
    let site = stage.site_for(&daemon).await?;
    let body = json!({"headless": true, "advanced": {"solve_captchas": true}, "webhook_url": address});
    let session = daemon.session(body).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    let url = |name: &str, kind: &str| format!("{site}/captchas/person-{name}?kind={kind}&key=site");
    let mut viewer = socket(&session, "&enable_actions=true").await?;
    let waiting = async |name: &str, cdp: &mut warmpool_tests::Cdp, kind: &str| -> Result<Value> {
        cdp.call_in(&page, "Page.navigate", json!({"url": url(name, kind)})).await?;
        let found = eventually!(format!("{name} waits"), 20, {
            let captcha = session.record().await?["captcha"].clone();
            (captcha["url"] == url(name, kind)).then_some(captcha)
        });
        found.context(kind.to_owned())
    };

    // The page itself says that the person has solved it.
    let captcha = waiting("solved", &mut cdp, "hcaptcha").await?;
    ensure!(captcha["kind"] == "hcaptcha" && captcha["by"] == "person" && captcha["since"].is_u64(), "{captcha}");
    cdp.evaluate(&page, "document.querySelector('textarea').value = 'by hand'").await?;
    ensure!(ended(&session, 1).await?[0]["outcome"] == "solved");

    // Somebody in the live view says so, once they have control.
    waiting("said", &mut cdp, "image").await?;
    loop {
        let state = message(&mut viewer, "state").await?;
        if state["captcha"]["kind"] == "image" {
            ensure!(state["captcha"]["tab"].is_string(), "{state}");
            break;
        }
    }
    say(&mut viewer, json!({"type": "captcha", "act": "solved"})).await?;
    message(&mut viewer, "refused").await?;
    ensure!(session.record().await?["captcha"].is_object(), "who has no control decides nothing");
    say(&mut viewer, json!({"type": "control", "take": true})).await?;
    say(&mut viewer, json!({"type": "captcha", "act": "solved"})).await?;
    ensure!(ended(&session, 2).await?[1]["outcome"] == "solved");

    waiting("given-up", &mut cdp, "turnstile").await?;
    say(&mut viewer, json!({"type": "captcha", "act": "give_up"})).await?;
    ensure!(ended(&session, 3).await?[2]["outcome"] == "given_up");

    waiting("gone", &mut cdp, "recaptcha_v2").await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": "about:blank"})).await?;
    ensure!(ended(&session, 4).await?[3]["outcome"] == "gone");

    // After the fifth there is one too many.
    waiting("last", &mut cdp, "hcaptcha").await?;
    cdp.evaluate(&page, "document.querySelector('textarea').value = 'by hand'").await?;
    ended(&session, 5).await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": url("many", "hcaptcha")})).await?;
    ensure!(ended(&session, 6).await?[5]["error"] == "too_many");
    // Further ones are counted, and neither recorded nor logged.
    cdp.call_in(&page, "Page.navigate", json!({"url": url("more", "hcaptcha")})).await?;
    eventually!("one more is counted", 20, {
        daemon.metrics().await?.sum("warmpool_captchas_total", &[("outcome", "failed")]) == Some(2.0)
    })?;
    ensure!(ended(&session, 6).await?.len() == 6);
    let log = daemon.log_text();
    for line in ["a page shows a challenge", "a challenge ended"] {
        ensure!(log.matches(line).count() <= 6, "{line}: {log}");
    }

    // Each message is signed, and the one that was not taken came again.
    let messages = eventually!("ten messages and a repeated one", 20, {
        let messages = webhook.requests();
        (messages.len() >= 11).then_some(messages)
    })?;
    let mut waited = 0;
    for (headers, body) in &messages {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).context("a header");
        let text = body.as_str().context("a body")?;
        let key = STANDARD.decode(SECRET.trim_start_matches("whsec_"))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
        mac.update(format!("{}.{}.{text}", header("webhook-id")?, header("webhook-timestamp")?).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        ensure!(header("webhook-signature")? == signature, "{text}");
        let message: Value = serde_json::from_str(text)?;
        ensure!(message["data"]["session_id"] == session.id.as_str(), "{message}");
        let view = message["data"]["livestream_url"].as_str().context("livestream_url")?;
        ensure!(daemon.api().get(view).await?.status == 200, "{view}");
        waited += u32::from(message["type"] == "captcha.waiting");
    }
    ensure!(waited >= 5, "{messages:?}");
    session.delete().await?.ok()?;
    clients_hear_who_waits(&daemon, &own, &url("task", "turnstile"), &session).await?;
    daemon.assert_idle().await
}

/// The client of the session heard of what waited in it, and who sends a task hears of what waits there.
async fn clients_hear_who_waits(daemon: &Daemon, own: &Service, page: &str, session: &Session) -> Result<()> {
    let secret = daemon.api().get("/webhooks/secret").await?.ok()?["secret"].as_str().context("secret")?.to_owned();
    let wait = json!({"type": "waitForElement", "selectors": [["#never"]], "timeout": 30_000});
    let steps = json!([{"type": "navigate", "url": page}, wait]);
    let body = json!({"recording": {"title": "Waits", "steps": steps}, "advanced": {"solve_captchas": true},
        "webhook_url": format!("{}/own", own.url()), "timeout": 120_000});
    let task = crate::history::id(&daemon.api().post("/lam/run", &body).await?.ok()?)?;
    let message = async |kind: &str| -> Result<Value> {
        let found = eventually!(format!("{kind} arrives"), 40, {
            let messages = verified(own, &secret)?;
            messages.into_iter().map(|(_, message)| message).find(|message| message["type"] == kind)
        });
        found.context(kind.to_owned())
    };
    for kind in ["session.waiting", "session.ended"] {
        let message = message(kind).await?;
        ensure!(message["data"]["session_id"] == session.id.as_str(), "{message}");
    }
    let waiting = message("task.waiting").await?;
    ensure!(waiting["data"]["task_id"] == task && waiting["data"]["captcha"]["kind"] == "turnstile", "{waiting}");
    let view = waiting["data"]["livestream_url"].as_str().context("livestream_url")?;
    ensure!(daemon.api().get(view).await?.status == 200, "{view}");
    daemon.api().delete(&format!("/lam/tasks/{task}")).await?.ok()?;
    let ended = message("task.ended").await?;
    ensure!(ended["data"]["taskId"] == task && ended["data"]["status"] == "cancelled", "{ended}");
    let sessions = verified(own, &secret)?;
    let ends = sessions.iter().filter(|(_, message)| message["type"] == "session.ended").count();
    ensure!(ends == 1, "whoever sends a task hears of the task: {sessions:?}");
    Ok(())
}

/// WebKit's scripts say themselves that a document has gone, and come back with one that its visitor comes back to.
async fn a_challenge_in_webkit_ends_with_its_page(stage: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("CAPTCHA_MODE", "person");
    let daemon = Daemon::start(settings).await?;
    let site = stage.site_for(&daemon).await?;
    let (session, driver) = solving(&daemon, "webkit").await?;
    let url = format!("{site}/captchas/webkit-person?kind=hcaptcha&key=site");
    let waits = async || {
        let found = eventually!("the challenge waits", 20, {
            let captcha = session.record().await?["captcha"].clone();
            (captcha["url"] == url.as_str()).then_some(captcha)
        });
        found.map(drop)
    };
    driver.goto(&url).await?;
    waits().await?;
    driver.goto(&format!("{site}/tab/1")).await?;
    ensure!(ended(&session, 1).await?[0]["outcome"] == "gone");
    driver.execute("history.back()").await?;
    waits().await?;
    driver.execute("document.querySelector('textarea').value = 'by hand'").await?;
    ensure!(ended(&session, 2).await?[1]["outcome"] == "solved");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
