//! Tasks that go wrong: each ends once, says where and why, and gives its worker back.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::task::{artifact, ended, engines, fails};
use warmpool_tests::upstream::{Scheme, Upstream};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("TASKS_STEP_TIMEOUT", "1500ms").set("TASKS_MAX_OUTPUT", "64KiB");
    group!(Some(settings),
        quick: [what_cannot_be_read_is_refused],
        full: [steps_fail_with_a_picture_in_chromium, steps_fail_with_a_picture_in_firefox,
            steps_fail_with_a_picture_in_webkit, a_page_that_did_not_come_is_no_data, a_page_that_never_loads_is_left, a_browser_that_dies_ends_its_task,
            a_closed_shadow_root_stays_closed, secrets_stay_secret, too_much_output_fails, a_slow_pattern_fails,
            a_task_with_long_names_ends, a_cancelled_task_ends],
    )
}

fn click(selector: &str) -> Value {
    json!({"type": "click", "selectors": [[selector]], "offsetX": 2, "offsetY": 2})
}

async fn what_cannot_be_read_is_refused(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for (path, body, field) in [
        ("/lam/run", json!({"steps": [{"type": "dance"}]}), "steps[0].type"),
        (
            "/lam/run",
            json!({"recording": {"title": "x", "steps": [click("#a"), {"type": "click"}]}}),
            "recording.steps[1].selectors",
        ),
        ("/lam/run", json!({"steps": [{"type": "customStep", "name": "lam:dance"}]}), "steps[0].name"),
        ("/lam/run", json!({"steps": [{"type": "navigate", "url": "file:///etc/passwd"}]}), "steps[0].url"),
        (
            "/lam/extract",
            json!({"url": "http://a.test", "schema": {"a": {"type": "regex", "pattern": "("}}}),
            "schema.a.pattern",
        ),
        ("/lam/extract", json!({"url": "http://a.test"}), "schema"),
    ] {
        let fault = api.post(path, &body).await?.fault(400)?;
        ensure!(fault.field.ends_with(field), "{body}: {fault:?}");
    }
    Ok(())
}

async fn steps_fail_with_a_picture_in_chromium(stage: Stage) -> Result<()> {
    steps_fail_with_a_picture(&stage, "chromium").await
}

async fn steps_fail_with_a_picture_in_firefox(stage: Stage) -> Result<()> {
    steps_fail_with_a_picture(&stage, "firefox").await
}

async fn steps_fail_with_a_picture_in_webkit(stage: Stage) -> Result<()> {
    steps_fail_with_a_picture(&stage, "webkit").await
}

/// Steps that cannot be done, each with the code of its error.
async fn steps_fail_with_a_picture(stage: &Stage, engine: &str) -> Result<()> {
    if !engines().iter().any(|tested| tested == engine) {
        return Ok(());
    }
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let open = json!({"type": "navigate", "url": format!("{site}/stage")});
    for (step, code) in [
        (click("#nothing"), "no_match"),
        (click("#hidden"), "not_ready"),
        (click("h1["), "invalid_selector"),
        (json!({"type": "waitForElement", "selectors": ["button"], "count": 99}), "timeout"),
        (json!({"type": "waitForExpression", "expression": "nonsense.at.all"}), "script_error"),
        (
            json!({"type": "customStep", "name": "lam:assertText", "parameters": {"text": "not there"}}),
            "assertion_failed",
        ),
        (json!({"type": "navigate", "url": "http://nowhere.invalid/"}), "navigation_failed"),
        // A port that browsers refuse to speak to; WebKit asks for it.
        (
            json!({"type": "navigate", "url": "http://127.0.0.1:9/"}),
            if engine == "webkit" { "refused_by_policy" } else { "navigation_failed" },
        ),
        (json!({"type": "scroll", "selectors": ["body"], "frame": [7]}), "no_match"),
    ] {
        let body = json!({"steps": [open, step], "browser_type": engine});
        let task = fails(&api, "/lam/run", &body, code).await?;
        ensure!(task["error"]["step"] == 1, "{task:#}");
        ensure!(artifact(&api, &task, "failure-step-1.png").await?.starts_with(b"\x89PNG"), "{step}");
    }
    Ok(())
}

/// What stands in the place of a page that the policy, a proxy or a certificate keeps away is neither a result nor a page without
/// what is looked for.
async fn a_page_that_did_not_come_is_no_data(stage: Stage) -> Result<()> {
    let (strict, untrusted) =
        (Upstream::start(Scheme::Http, "word").await?, Upstream::start(Scheme::Https, "word").await?);
    let table = format!("[{{ name = \"strict\", url = \"{}\", username = \"u\" }}]", strict.url());
    let settings = Settings::on_demand().set("TASKS_STEP_TIMEOUT", "1500ms").set("EGRESS_UPSTREAMS", table);
    let daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let (refused, open) = ("10.255.255.1", untrusted.address());
    let (away, tls) = (format!("https://{refused}/"), format!("https://{open}/"));
    let plain = format!("http://{refused}/");
    // A page may say what it likes.
    let fake = "data:text/html,<meta name=warmpool-refusal content=AAAAAAAAAAAAAAAAAAAAAA><h1>Refused by Warmpool</h1>";
    let redirected = [&plain, &away].map(|to| format!("{site}/redirect?to={to}"));
    let urls = json!([plain, away, redirected[0], redirected[1], tls, fake]);
    let link = json!({"type": "navigate", "url": "data:text/html,<a href='{{input.to}}' style='display:block'>go</a>"});
    let wait = json!({"type": "waitForElement", "selectors": [["#x"]]});
    let read = json!({"schema": {"title": "h1"}, "url": "{{input.url}}"});
    for engine in engines() {
        let fleet = async |mut body: Value, codes: &[&str]| -> Result<Value> {
            body["browser_type"] = json!(engine);
            let task = ended(&api, "/lam/fleet", &body).await?;
            let path = format!("/lam/tasks/{}/items", task["taskId"].as_str().context("taskId")?);
            let items = api.get(&path).await?.ok()?["items"].take();
            let found: Vec<&str> = items
                .as_array()
                .context("items")?
                .iter()
                .map(|item| item["error"]["code"].as_str().unwrap_or_default())
                .collect();
            ensure!(found == codes, "{engine}: {items:#}");
            let said = |item: &Value| item["error"]["message"].as_str().unwrap_or_default().contains("`egress.allow`");
            for item in items.as_array().into_iter().flatten() {
                ensure!(said(item) == (item["error"]["code"] == "refused_by_policy"), "{engine}: {item:#}");
                ensure!(item["error"].is_null() || item["output"] == json!([]), "{engine}: {item:#}");
            }
            Ok(items)
        };
        let mut codes = vec!["refused_by_policy"; 4];
        codes.extend(["tls_failed", ""]);
        let items = fleet(json!({"extract": read, "urls": urls}), &codes).await?;
        ensure!(items[5]["output"][0]["title"] == "Refused by Warmpool", "{engine}: {items:#}");
        let inputs = json!([{"to": plain}, {"to": away}, {"to": tls}]);
        let steps = json!({"steps": [link, click("a"), wait]});
        let codes = ["refused_by_policy", "refused_by_policy", "tls_failed"];
        fleet(json!({"run": steps, "inputs": inputs}), &codes).await?;
        let items = fleet(
            json!({"extract": read, "urls": ["http://a.example/", "https://a.example/"], "advanced": {"proxy": {}},
                "retry": {"max": 0}}),
            &["proxy_failed", "proxy_failed"],
        )
        .await?;
        let said = items[0]["error"]["message"].as_str().unwrap_or_default();
        ensure!(said.contains("the proxy does not take the credentials"), "{engine}: {items:#}");
    }
    daemon.assert_idle().await
}

/// As for the Recorder, whose own `pierce/` goes into open ones alone.
async fn a_closed_shadow_root_stays_closed(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    // In two pieces, so that the script itself does not hold the text.
    let page = "data:text/html,<p id=host></p><script>host.attachShadow({mode:'closed'}).innerHTML='<b>Hid'+'den</b>'</script>";
    let none =
        |selectors: Value| json!({"type": "waitForElement", "selectors": selectors, "operator": "==", "count": 0});
    let steps = json!([
        {"type": "navigate", "url": page},
        none(json!([["pierce/b"]])),
        none(json!([["text/Hidden"]])),
        none(json!([["xpath///b"]])),
        click("pierce/b"),
    ]);
    for engine in engines() {
        let task = fails(&api, "/lam/run", &json!({"steps": steps, "browser_type": engine}), "no_match").await?;
        ensure!(task["error"]["step"] == 4, "{engine}: {task:#}");
    }
    Ok(())
}

async fn a_page_that_never_loads_is_left(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    for engine in engines() {
        let slow = json!({"type": "navigate", "url": format!("{site}/slow?ms=60000"), "timeout": 800});
        let task = fails(&api, "/lam/run", &json!({"steps": [slow], "browser_type": engine}), "timeout").await?;
        ensure!(task["error"]["step"] == 0, "{engine}: {task:#}");
        let busy = json!({"type": "waitForExpression", "expression": "(() => { for (;;); })()", "timeout": 800});
        let page = json!({"type": "navigate", "url": "data:text/html,busy"});
        let body = json!({"steps": [page, busy], "browser_type": engine, "timeout": 20_000});
        let task = fails(&api, "/lam/run", &body, "timeout").await.with_context(|| engine.clone())?;
        ensure!(task["error"]["step"] == 1, "{engine}: {task:#}");
        let sleep = json!({"type": "customStep", "name": "lam:sleep", "parameters": {"ms": 600_000}});
        let body = json!({"steps": [sleep], "browser_type": engine, "timeout": 700});
        fails(&api, "/lam/run", &body, "task_timeout").await?;
    }
    Ok(())
}

async fn a_browser_that_dies_ends_its_task(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let containers = daemon.containers().await?;
    let warm = containers.iter().find(|container| container.labels["warmpool.engine"] == "chromium");
    let container = warm.context("a warm container")?.id.clone();
    let site = stage.site_for(daemon).await?;
    let open = json!({"type": "navigate", "url": format!("{site}/tab/dies")});
    let sleep = json!({"type": "customStep", "name": "lam:sleep", "parameters": {"ms": 600_000}});
    let accepted = api.post("/lam/run", &json!({"steps": [open, sleep]})).await?.ok()?;
    let id = accepted["taskId"].as_str().context("taskId")?.to_owned();
    eventually!("its browser is driven", 20, !stage.site().hits("/tab/dies").is_empty())?;
    daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
    let task = eventually!("it has ended", 30, {
        let task = api.get(&format!("/lam/tasks/{id}")).await?.ok()?;
        (task["status"] == "failure").then_some(task)
    })?;
    ensure!(task["error"]["code"] == "browser_died" && task["error"]["step"].is_u64(), "{task:#}");
    Ok(())
}

async fn secrets_stay_secret(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let steps = json!([
        {"type": "navigate", "url": format!("{site}/form")},
        {"type": "change", "selectors": ["#name"], "value": "{{secret.name}}"},
        {"type": "click", "selectors": ["#send"], "offsetX": 3, "offsetY": 3,
            "assertedEvents": [{"type": "navigation", "title": "Echo"}]},
        {"type": "customStep", "name": "lam:extract", "parameters": {"schema": {"echo": "#echo"}}},
        {"type": "customStep", "name": "lam:screenshot", "parameters": {"name": "of {{secret.name}}"}},
        {"type": "click", "selectors": ["text/{{secret.name}} is nowhere"], "offsetX": 3, "offsetY": 3},
    ]);
    let body = json!({"steps": steps, "secrets": {"name": "Rumpelstilz"}});
    let task = fails(&api, "/lam/run", &body, "no_match").await?;
    ensure!(!task.to_string().contains("Rumpelstilz"), "{task:#}");
    ensure!(task["output"][0]["echo"].as_str().is_some_and(|echo| echo.contains("[secret]")), "{task:#}");
    // What does not fit a schema is quoted as JSON, in which the quotes are escaped.
    let parameters = json!({"schema": {"word": "h1"}, "validate": {"properties": {"word": {"type": "number"}}}});
    let steps = json!([
        {"type": "navigate", "url": "data:text/html,<h1>{{secret.word}}</h1>"},
        {"type": "customStep", "name": "lam:extract", "parameters": parameters},
    ]);
    let body = json!({"steps": steps, "secrets": {"word": "say \"sesame\" twice"}});
    let task = fails(&api, "/lam/run", &body, "invalid_result").await?;
    let said = task["error"]["message"].as_str().context("message")?;
    ensure!(said.contains("[secret]") && !said.contains("sesame"), "{task:#}");
    // A session's record lists the hosts that were refused.
    let steps = json!([{"type": "navigate", "url": "http://{{secret.host}}/"}]);
    let body = json!({"steps": steps, "secrets": {"host": "10.255.255.1"}});
    let task = fails(&api, "/lam/run", &body, "refused_by_policy").await?;
    let session = task["sessionId"].as_str().context("sessionId")?;
    let record = api.get(&format!("/sessions/{session}")).await?.ok()?;
    let refused = record["egress"]["refused"].as_array().context("refused")?;
    ensure!(refused.iter().any(|row| row["host"] == "[secret]"), "{record:#}");
    ensure!([&task, &record].iter().all(|told| !told.to_string().contains("10.255.255.1")), "{task:#} {record:#}");
    Ok(())
}

/// Nothing interrupts a search, which would go on long after its step's time.
async fn a_slow_pattern_fails(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let steps = json!([
        {"type": "navigate", "url": "data:text/html,<p>"},
        {"type": "waitForExpression", "expression": "document.body.textContent = 'ab'.repeat(1 << 20)"},
        {"type": "customStep", "name": "lam:assertText", "parameters": {"matches": "a[ab]{5000}[c-z]"}},
    ]);
    let task = fails(&api, "/lam/run", &json!({"steps": steps}), "timeout").await?;
    ensure!(task["error"]["step"] == 2, "{task:#}");
    Ok(())
}

/// A record has the names of all files, beside inputs, labels and output.
async fn a_task_with_long_names_ends(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let screenshot = json!({"type": "customStep", "name": "lam:screenshot", "parameters": {"name": "\"".repeat(190)}});
    let mut steps = vec![
        json!({"type": "navigate", "url": "data:text/html,<p>"}),
        json!({"type": "waitForExpression", "expression": "document.body.innerHTML = '<p>' + 'x'.repeat(15000)"}),
        json!({"type": "customStep", "name": "lam:extract", "parameters": {"schema": {"p": "p"}}}),
    ];
    steps.resize(3 + 50, screenshot);
    let labels: serde_json::Map<String, Value> =
        (0..16).map(|at| (format!("label{at}"), json!("\"".repeat(256)))).collect();
    let inputs = json!({"unused": "x".repeat(16_000)});
    let body = json!({"steps": steps, "inputs": inputs, "metadata": labels, "timeout": 120_000});
    let task = ended(&api, "/lam/run", &body).await?;
    ensure!(task["status"] == "success", "{task:#}");
    ensure!(task["artifacts"].as_array().is_some_and(|artifacts| artifacts.len() == 50), "{task:#}");
    Ok(())
}

async fn too_much_output_fails(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let fill = "document.body.innerHTML = '<p>' + 'x'.repeat(200000)";
    let steps = json!([
        {"type": "navigate", "url": "data:text/html,<p>"},
        {"type": "waitForExpression", "expression": fill},
        {"type": "customStep", "name": "lam:extract", "parameters": {"schema": {"p": "p"}}},
    ]);
    let task = fails(&api, "/lam/run", &json!({"steps": steps}), "too_large").await?;
    ensure!(task["error"]["step"] == 2, "{task:#}");
    Ok(())
}

async fn a_cancelled_task_ends(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let sleep = json!({"type": "customStep", "name": "lam:sleep", "parameters": {"ms": 600_000}});
    let accepted = api.post("/lam/run", &json!({"steps": [sleep]})).await?.ok()?;
    let id = accepted["taskId"].as_str().context("taskId")?.to_owned();
    eventually!("it runs", 20, api.get(&format!("/lam/tasks/{id}")).await?.ok()?["status"] == "running")?;
    api.delete(&format!("/lam/tasks/{id}")).await?.ok()?;
    eventually!("it is cancelled", 20, api.get(&format!("/lam/tasks/{id}")).await?.ok()?["status"] == "cancelled")?;
    daemon.assert_idle().await
}
