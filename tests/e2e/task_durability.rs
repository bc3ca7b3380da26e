//! Accepted tasks are not lost: tasks through kill -9 and drain, idempotency, cancelling, waiting, events, secrets.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::{Api, Daemon, Group, Reply, Settings, Stage, eventually, group};

use crate::history::{becomes, finished, id, task, visit, with};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("TASKS_WORKERS", "1")),
        quick: [an_idempotency_key_makes_one_task, a_stream_tells_how_it_goes, cancelling_ends_a_task_once],
        full: [
            waiting_ends_with_the_task_or_the_time,
            the_queue_has_an_end,
            kill_9_in_each_state,
            a_drain_interrupts_and_keeps_the_queue,
            a_second_sigterm_keeps_the_queue,
            a_stop_that_keeps_sessions_lets_tasks_end,
            secrets_are_not_stored_in_the_clear,
            the_command_line_runs_tasks,
        ],
    )
}

/// Stays on a page until it is stopped.
pub(crate) fn endless(site: &str) -> Value {
    let wait = json!({"type": "waitForElement", "selectors": [["#never"]], "timeout": 30_000});
    let steps = json!([{"type": "navigate", "url": format!("{site}/")}, wait]);
    json!({"recording": {"title": "Endless", "steps": steps}, "timeout": 120_000})
}

async fn post(api: &Api, path: &str, headers: &[(&'static str, &'static str)], body: &Value) -> Result<Reply> {
    let all = headers.iter().chain(&[("content-type", "application/json")]);
    let headers: HeaderMap =
        all.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    api.send(Method::POST, path, headers, Bytes::from(body.to_string())).await
}

async fn an_idempotency_key_makes_one_task(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let body = visit(&format!("{site}/"));
    let key = [("idempotency-key", "order 66")];
    let (first, second) = tokio::join!(post(&api, "/lam/run", &key, &body), post(&api, "/lam/run", &key, &body));
    let first = id(&first?.ok()?)?;
    ensure!(first == id(&second?.ok()?)?, "two at once are one task");
    becomes(&api, &first, "success", 60).await?;
    let again = post(&api, "/lam/run", &key, &body).await?;
    ensure!(again.status == 200 && id(&again.json()?)? == first, "one that has ended is answered as it is: {again}");
    let fault = post(&api, "/lam/run", &key, &visit(&format!("{site}/form"))).await?.fault(422)?;
    ensure!(fault.code == "idempotency_key_reused", "{fault:?}");
    let other = api.with_key(daemon.cli_ok(&["key", "create", "another"]).await?.trim().to_owned());
    let theirs = id(&post(&other, "/lam/run", &key, &body).await?.ok()?)?;
    ensure!(theirs != first, "another API key's idempotency keys are its own");
    becomes(&other, &theirs, "success", 60).await?;
    Ok(())
}

async fn a_stream_tells_how_it_goes(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let stream = post(&api, "/lam/run", &[("accept", "text/event-stream")], &visit(&format!("{site}/"))).await?;
    ensure!(stream.header("content-type") == Some("text/event-stream"), "{stream}");
    let text = stream.text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    ensure!(names.first() == Some(&"task") && names.last() == Some(&"end"), "{names:?}");
    ensure!(names.contains(&"progress"), "{names:?}");
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).context("data")?;
    let ended: Value = serde_json::from_str(last)?;
    ensure!(ended["status"] == "success", "{ended}");
    // A task that has ended is one event.
    let accept = HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("text/event-stream"))]);
    let again = api.send(Method::GET, &format!("/lam/tasks/{}", id(&ended)?), accept, Bytes::new()).await?;
    ensure!(again.text().matches("event: ").count() == 1, "{again}");
    Ok(())
}

async fn cancelling_ends_a_task_once(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 30).await?;
    let queued = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    ensure!(task(&api, &queued).await?["status"] == "queued", "tasks.workers is 1");
    for id in [&queued, &running] {
        let cancelled = api.delete(&format!("/lam/tasks/{id}")).await?.ok()?;
        ensure!(cancelled["status"] == "cancelled" && cancelled["error"]["code"] == "cancelled", "{cancelled}");
        let again = api.delete(&format!("/lam/tasks/{id}")).await?.ok()?;
        ensure!(again["endedAt"] == cancelled["endedAt"], "it ended once: {again}");
    }
    api.post(&format!("/lam/tasks/{running}/retry"), &json!({})).await?.ok().map(|retried| id(&retried))??;
    let newest = api.get("/lam/tasks?limit=1").await?.ok()?;
    ensure!(newest["tasks"][0]["retryOf"] == running, "{newest}");
    api.delete(&format!("/lam/tasks/{}", id(&newest["tasks"][0])?)).await?.ok()?;
    Ok(())
}

async fn waiting_ends_with_the_task_or_the_time(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let done = post(&api, "/lam/run", &[("prefer", "wait=60")], &visit(&format!("{site}/"))).await?;
    ensure!(done.status == 200 && done.json()?["status"] == "success", "{done}");
    ensure!(done.header("preference-applied") == Some("wait=60"), "{:?}", done.headers);
    let late = post(&api, "/lam/run", &[("prefer", "wait=1")], &endless(&site)).await?;
    ensure!(late.status == 202, "{late}");
    let location = late.header("location").context("location")?.to_owned();
    ensure!(api.delete(&location).await?.ok()?["status"] == "cancelled");
    Ok(())
}

async fn the_queue_has_an_end(stage: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("TASKS_WORKERS", "1").set("TASKS_QUEUE_LENGTH", "1");
    let daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 30).await?;
    let queued = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    let refused = api.post("/lam/run", &endless(&site)).await?;
    ensure!(refused.fault(429)?.code == "task_queue_full" && refused.header("retry-after").is_some(), "{refused}");
    for id in [running, queued] {
        api.delete(&format!("/lam/tasks/{id}")).await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn kill_9_in_each_state(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new().set("TASKS_WORKERS", "2")).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();
    let ended = finished(&api, "/lam/run", visit(&format!("{site}/"))).await?;
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    let repeatable = with(endless(&site), json!({"safe_to_repeat": true, "timeout": 20_000}));
    let repeatable = id(&api.post("/lam/run", &repeatable).await?.ok()?)?;
    for id in [&running, &repeatable] {
        becomes(&api, id, "running", 60).await?;
    }
    let queued = id(&api.post("/lam/run", &visit(&format!("{site}/form"))).await?.ok()?)?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.ready().await?;
    let interrupted = becomes(&api, &running, "failure", 60).await?;
    ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
    let done = becomes(&api, &queued, "success", 90).await?;
    ensure!(done["output"].is_array(), "{done}");
    // It was started again, and exceeded its time.
    let again = becomes(&api, &repeatable, "failure", 90).await?;
    ensure!(again["error"]["code"] == "task_timeout", "{again}");
    let kept = task(&api, &id(&ended)?).await?;
    ensure!(kept == ended, "{kept}\n{ended}");
    let list = api.get("/lam/tasks").await?.ok()?;
    ensure!(list["meta"]["totalRecords"] == 4, "{list}");
    daemon.warm().await?;
    daemon.assert_idle().await
}

async fn a_drain_interrupts_and_keeps_the_queue(stage: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("TASKS_WORKERS", "1").set("DRAIN_TIMEOUT", "2s");
    let mut daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    // A task whose session is still being made waits for the next start, as those in the queue do.
    let pages = stage.site().hits("/").len();
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 30).await?;
    eventually!("the task has its page", 30, stage.site().hits("/").len() > pages)?;
    let queued = id(&api.post("/lam/run", &visit(&format!("{site}/"))).await?.ok()?)?;
    daemon.signal(Signal::SIGTERM)?;
    let status = daemon.wait(60).await?;
    ensure!(status.success(), "{status}");
    daemon.restart().await?;
    let interrupted = becomes(&api, &running, "failure", 60).await?;
    ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
    becomes(&api, &queued, "success", 90).await?;
    daemon.warm().await?;
    daemon.assert_idle().await
}

/// After the first signal the daemon would wait for its sessions and for the task that runs.
async fn a_second_sigterm_keeps_the_queue(stage: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("TASKS_WORKERS", "1").set("DRAIN_TIMEOUT", "10m");
    let mut daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let kept = json!({"keep_alive": true});
    let live = [daemon.session(kept.clone()).await?, daemon.session(kept).await?];
    let pages = stage.site().hits("/").len();
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    eventually!("the task has its page", 60, stage.site().hits("/").len() > pages)?;
    let mut queued = Vec::new();
    for _ in 0..4 {
        queued.push(id(&api.post("/lam/run", &visit(&format!("{site}/form"))).await?.ok()?)?);
    }
    daemon.signal(Signal::SIGTERM)?;
    eventually!("the first is taken", 10, api.get("/readyz").await?.status == 503)?;
    daemon.signal(Signal::SIGTERM)?;
    // On a busy machine the three browsers may take longer than it has for them: then it says that they are left.
    let status = daemon.wait(30).await?;
    ensure!(matches!(status.code(), Some(0 | 74)), "{status}");
    daemon.set("TASKS_WORKERS", "3");
    daemon.restart().await?;
    for session in live {
        let record = session.becomes("terminated", 30).await?;
        ensure!(record["reason"] == "drained", "{record}");
    }
    let interrupted = becomes(&api, &running, "failure", 60).await?;
    ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
    for task in &queued {
        becomes(&api, task, "success", 120).await?;
    }
    daemon.assert_idle().await
}

async fn a_stop_that_keeps_sessions_lets_tasks_end(stage: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("TASKS_WORKERS", "2").set("POOL_MAX_WORKERS", "2");
    let mut daemon = Daemon::start(settings.set("DRAIN_KEEP_SESSIONS", "true").set("DRAIN_TIMEOUT", "1m")).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    // A client has one of the two workers.
    let held = daemon.session(json!({"keep_alive": true})).await?;
    let pages = stage.site().hits("/").len();
    let wait = json!({"type": "waitForElement", "selectors": [["#never"]], "timeout": 3_000});
    let steps = json!([{"type": "navigate", "url": format!("{site}/")}, wait]);
    let running = id(&api.post("/lam/run", &json!({"steps": steps})).await?.ok()?)?;
    eventually!("the task has its page", 60, stage.site().hits("/").len() > pages)?;
    let asking = id(&api.post("/lam/run", &visit(&format!("{site}/form"))).await?.ok()?)?;
    becomes(&api, &asking, "running", 30).await?;
    daemon.signal(Signal::SIGTERM)?;
    let status = daemon.wait(90).await?;
    ensure!(status.success(), "{status}");
    daemon.restart().await?;
    let ended = task(&api, &running).await?;
    ensure!(ended["status"] == "failure" && ended["error"]["code"] != "interrupted", "it had its time: {ended}");
    becomes(&api, &asking, "success", 90).await?;
    held.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn secrets_are_not_stored_in_the_clear(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand().set("TASKS_WORKERS", "1").set("LOG_FILTER", "debug")).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let blocker = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &blocker, "running", 30).await?;
    let secret = "swordfish-4711";
    let name = json!({"type": "change", "selectors": [["#name"]], "value": "{{secret.password}}"});
    let send = json!({"type": "click", "selectors": [["#send"]], "offsetX": 1, "offsetY": 1});
    let echo = json!({"type": "customStep", "name": "lam:assertText",
        "parameters": {"selectors": [["#echo"]], "text": "{{secret.password}}"}});
    let body = json!({"steps": [{"type": "navigate", "url": format!("{site}/form")}, name, send, echo],
        "secrets": {"password": secret}});
    let queued = id(&api.post("/lam/run", &body).await?.ok()?)?;
    // It waits encrypted, and is read again by the next process.
    daemon.kill9().await?;
    daemon.restart().await?;
    let done = becomes(&api, &queued, "success", 90).await?;
    ensure!(!done.to_string().contains(secret), "{done}");
    daemon.keeps_secret(&[secret]).await?;
    daemon.warm().await?;
    daemon.assert_idle().await
}

/// What a command prints that must succeed.
async fn output_of(daemon: &Daemon, mut command: std::process::Command) -> Result<String> {
    command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?} {problem}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn the_command_line_runs_tasks(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, value: Value| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string())?;
        Ok(path.to_string_lossy().into_owned())
    };
    let recording = json!({"title": "A visit", "steps": [
        {"type": "navigate", "url": "{{input.site}}/form"},
        {"type": "change", "selectors": [["#name"]], "value": "{{input.q}}"},
    ]});
    let recording = file("recording.json", recording)?;
    let schema = file("schema.json", json!({"title": "h1"}))?;
    let missing = file("missing.json", json!({"x": {"selector": "#none", "required": true}}))?;
    let run = async |arguments: &[&str]| -> Result<(Option<i32>, Value, String)> {
        let mut command = daemon.command(arguments);
        command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code(), serde_json::from_str(&said).unwrap_or_default(), problem))
    };
    let input = format!("site={site}");
    let (code, ran, problem) = run(&["run", &recording, "--input", &input, "--input", "q=tea"]).await?;
    ensure!(code == Some(0) && ran["status"] == "success" && ran["inputs"]["q"] == "tea", "{code:?} {ran} {problem}");
    let page = format!("{site}/tab/3");
    let (code, read, problem) = run(&["extract", &schema, "--page", &page]).await?;
    ensure!(code == Some(0) && read["output"][0]["title"] == "Tab 3", "{code:?} {read} {problem}");
    let (code, failed, problem) = run(&["extract", &missing, "--page", &page]).await?;
    ensure!(code == Some(1) && failed["status"] == "failure", "{code:?} {failed} {problem}");
    let (code, _, problem) = run(&["run", &recording, "--input", "q=tea"]).await?;
    ensure!(code == Some(65) && problem.contains("site"), "{code:?} {problem}");
    let (code, _, problem) = run(&["run", "nowhere.json"]).await?;
    ensure!(code == Some(64) && problem.contains("nowhere.json"), "{code:?} {problem}");
    // Who reads the error wrote options and files, and no JSON.
    let table = folder.path().join("table.csv");
    std::fs::write(&table, "q\n\"green tea\"\n\"never closed\n1\n")?;
    let table = table.to_string_lossy();
    let odd = file("odd.json", json!({"steps": [{"type": "wink"}]}))?;
    for (arguments, wanted, words) in [
        (&["run", &recording, "--timeout", "999h"][..], 65, "--timeout must"),
        (&["run", &odd], 65, "odd.json: `steps[0].type`"),
        (&["fleet", &recording, "--inputs", &table], 64, "line 3"),
        (&["tasks", "list", "--limit", "500"], 65, "--limit must"),
        (&["tasks", "list", "--key-file", "/dev/null"], 77, ".warmpool/env"),
        (&["tasks", "list", "--key-file", &odd], 77, "does not know this key"),
    ] {
        let (code, _, problem) = run(arguments).await?;
        ensure!(code == Some(wanted) && problem.contains(words), "{arguments:?} {code:?} {problem}");
        ensure!(!problem.contains("(field"), "{problem}");
    }
    let (code, _, problem) = run(&["tasks", "list", "--service", "http://127.0.0.1:9"]).await?;
    ensure!(code == Some(69), "{code:?} {problem}");
    let (code, listed, _) = run(&["tasks", "list", "--type", "extract", "--limit", "1"]).await?;
    ensure!(code == Some(0) && listed["tasks"][0]["taskId"] == failed["taskId"], "{listed}");
    let (code, one, _) = run(&["tasks", "list", "--since", "1h", "--task-id", &id(&read)?]).await?;
    ensure!(
        code == Some(0) && one["meta"]["totalRecords"] == 1 && one["tasks"][0]["taskId"] == read["taskId"],
        "{one}"
    );
    let (code, none, _) = run(&["tasks", "list", "--until", "1h"]).await?;
    ensure!(code == Some(0) && none["meta"]["totalRecords"] == 0, "{none}");
    let (code, shown, _) = run(&["tasks", "show", &id(&read)?]).await?;
    ensure!(code == Some(0) && shown == read, "{shown}");
    let stays = file("endless.json", endless(&site))?;
    let (code, left, problem) = run(&["run", &stays, "--detach"]).await?;
    ensure!(code == Some(0) && left["status"] == "queued", "{code:?} {left} {problem}");
    let (code, cancelled, _) = run(&["tasks", "cancel", &id(&left)?]).await?;
    ensure!(code == Some(0) && cancelled["status"] == "cancelled", "{cancelled}");
    eventually!("it is shown as cancelled", 5, run(&["tasks", "show", &id(&left)?]).await?.0 == Some(2))?;
    let (code, again, problem) = run(&["tasks", "cancel", &id(&left)?]).await?;
    ensure!(code == Some(0) && again["alreadyEnded"] == true && problem.contains("had ended already"), "{problem}");
    let (code, _, problem) = run(&["tasks", "delete", &id(&left)?]).await?;
    ensure!(code == Some(0) && problem.contains("is deleted"), "{code:?} {problem}");
    ensure!(run(&["tasks", "show", &id(&left)?]).await?.0 == Some(65), "it is gone");
    ensure!(ran["title"] == "A visit" && ran["page"] == "{{input.site}}/form" && ran["keyId"].is_string(), "{ran}");

    // A fleet of a table, and what came of it.
    let work =
        file("fleet.json", json!({"extract": {"url": "{{input.site}}/tab/{{input.n}}", "schema": {"title": "h1"}}}))?;
    let table = folder.path().join("items.csv");
    std::fs::write(&table, "n,note\r\n3,\"green, tea\"\r\n4,\r\n")?;
    let table = table.to_string_lossy().into_owned();
    let (code, fleet, problem) =
        run(&["fleet", &work, "--inputs", &table, "--input", &input, "--name", "tabs"]).await?;
    ensure!(code == Some(0) && problem.contains("2 of 2 succeeded"), "{code:?} {fleet} {problem}");
    ensure!(fleet["name"] == "tabs" && fleet["items"]["success"] == 2, "{fleet}");
    let fleet = id(&fleet)?;
    let results = daemon.command(&["tasks", "results", &fleet]);
    let results = output_of(daemon, results).await?;
    ensure!(results.contains("item,item.status") && results.contains("\"green, tea\""), "{results}");
    ensure!(results.lines().count() == 3 && results.contains("Tab 4"), "{results}");
    let items = output_of(daemon, daemon.command(&["tasks", "items", &fleet])).await?;
    ensure!(items.lines().count() == 2 && items.contains("\"Tab 3\""), "{items}");
    let listed = output_of(daemon, daemon.command(&["sessions", "list", "--limit", "1"])).await?;
    let listed: Value = serde_json::from_str(&listed)?;
    ensure!(listed["sessions"][0]["key_id"].is_string(), "{listed}");
    let (code, _, problem) = run(&["sessions", "end", "ses_unknown"]).await?;
    ensure!(code == Some(65), "{code:?} {problem}");
    Ok(())
}
