//! Fleets: many items, their failures and tries, their limits, and what they leave to others.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use warmpool_tests::daemon::QUEUE_LENGTH;
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, group, host_address, poll};

use crate::history::{becomes, finished, heading, id, task, with};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("TASKS_WORKERS", "2")),
        quick: [items_succeed_and_fail_each_for_itself],
        full: [
            failed_items_are_tried_again,
            it_stops_after_failures,
            cancelling_leaves_nothing_running,
            it_goes_on_after_kill_9,
            clients_go_first,
            it_ends_where_clients_always_wait,
        ],
    )
}

/// A fleet that reads the heading of each page.
fn headings(pages: &[String]) -> Value {
    json!({"extract": heading("{{input.url}}"), "urls": pages})
}

/// A page where nobody listens, which may pass.
async fn nowhere(_daemon: &Daemon) -> Result<String> {
    let free = std::net::TcpListener::bind("0.0.0.0:0")?.local_addr()?.port();
    Ok(format!("http://{}:{free}/", host_address()))
}

async fn items_succeed_and_fail_each_for_itself(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let extract = json!({"url": "{{input.url}}", "schema": {"title": {"selector": "h1", "required": true}}});
    let urls = [format!("{site}/tab/1"), format!("{site}/button"), format!("{site}/tab/2")];
    let body = json!({"extract": extract, "urls": urls, "timeout": 30_000});
    let fleet = finished(&api, "/lam/fleet", body).await?;
    ensure!(fleet["status"] == "failure" && fleet["error"]["code"] == "items_failed", "{fleet}");
    ensure!(
        fleet["items"]["total"] == 3 && fleet["items"]["success"] == 2 && fleet["items"]["failure"] == 1,
        "{fleet}"
    );
    let path = format!("/lam/tasks/{}", id(&fleet)?);
    let items = api.get(&format!("{path}/items")).await?.ok()?;
    let rows = items["items"].as_array().context("items")?;
    ensure!(rows.len() == 3 && rows[2]["output"][0]["title"] == "Tab 2", "{items}");
    ensure!(rows[0]["inputs"]["url"] == urls[0].as_str() && rows[0]["attempts"] == 1, "{items}");
    let failed = api.get(&format!("{path}/items?status=failure")).await?.ok()?;
    ensure!(
        failed["items"][0]["index"] == 1 && failed["items"].as_array().is_some_and(|rows| rows.len() == 1),
        "{failed}"
    );
    let error = &failed["items"][0]["error"];
    ensure!(error["code"].is_string() && error["message"].is_string(), "{failed}");
    let name = error["screenshot"].as_str().with_context(|| format!("its picture: {failed}"))?;
    let shot = api.get(&format!("{path}/artifacts/{name}")).await?;
    ensure!(shot.body.starts_with(b"\x89PNG"), "{shot}");
    let first = api.get(&format!("{path}/items?limit=2")).await?.ok()?;
    let rest = api.get(&format!("{path}/items?after={}", first["next"])).await?.ok()?;
    ensure!(rest["items"][0]["index"] == 2 && rest["next"].is_null(), "{first} {rest}");
    for query in ["status=lost", "limit=0", "after=x", "colour=1", "format=csv"] {
        api.get(&format!("{path}/items?{query}")).await?.fault(400)?;
    }
    let retried = finished(&api, &format!("/lam/tasks/{}/retry", id(&fleet)?), json!({})).await?;
    ensure!(retried["items"]["total"] == 1 && retried["retryOf"] == fleet["taskId"], "{retried}");
    Ok(())
}

async fn failed_items_are_tried_again(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let nowhere = [nowhere(daemon).await?];
    let body = with(headings(&nowhere), json!({"retry": {"max": 2, "backoff": 10}}));
    let fleet = finished(&api, "/lam/fleet", body).await?;
    ensure!(fleet["output"][0]["attempts"] == 3, "one try and two more: {fleet}");
    let body = with(headings(&nowhere), json!({"retry": {"max": 2, "backoff": 10, "on": ["no_match"]}}));
    let fleet = finished(&api, "/lam/fleet", body).await?;
    ensure!(fleet["output"][0]["attempts"] == 1, "not for another cause: {fleet}");
    Ok(())
}

async fn it_stops_after_failures(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let nowhere = vec![nowhere(daemon).await?; 5];
    let rules = json!({"retry": {"max": 0}, "stop_after_failures": 1, "concurrency": 1});
    let fleet = finished(&daemon.api(), "/lam/fleet", with(headings(&nowhere), rules)).await?;
    ensure!(fleet["status"] == "failure" && fleet["error"]["code"] == "stopped", "{fleet}");
    ensure!(fleet["items"]["failure"] == 1 && fleet["items"]["cancelled"] == 4, "{fleet}");
    Ok(())
}

async fn cancelling_leaves_nothing_running(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let pages = vec![format!("{site}/slow?ms=20000"); 4];
    let fleet = id(&api.post("/lam/fleet", &headings(&pages)).await?.ok()?)?;
    eventually!("an item runs", 60, task(&api, &fleet).await?["items"]["running"].as_u64() > Some(0))?;
    let cancelled = api.delete(&format!("/lam/tasks/{fleet}")).await?.ok()?;
    ensure!(cancelled["status"] == "cancelled" && cancelled["items"]["cancelled"] == 4, "{cancelled}");
    ensure!(cancelled["items"]["running"] == 0 && cancelled["items"]["queued"] == 0, "{cancelled}");
    Ok(())
}

async fn it_goes_on_after_kill_9(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand().set("TASKS_WORKERS", "1")).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();
    let pages: Vec<String> =
        [1, 2].map(|tab| format!("{site}/tab/{tab}")).into_iter().chain([format!("{site}/slow?ms=8000")]).collect();
    let pages = [pages, vec![format!("{site}/tab/4")]].concat();
    let fleet = id(&api.post("/lam/fleet", &headings(&pages)).await?.ok()?)?;
    eventually!("two items are done and the third runs", 90, {
        let items = &task(&api, &fleet).await?["items"];
        items["success"] == 2 && items["running"] == 1
    })?;
    daemon.kill9().await?;
    daemon.restart().await?;
    let ended = becomes(&api, &fleet, "failure", 120).await?;
    ensure!(ended["items"]["success"] == 3 && ended["items"]["failure"] == 1, "{ended}");
    let rows = ended["output"].as_array().context("output")?;
    ensure!(rows[2]["error"]["code"] == "interrupted", "{ended}");
    ensure!(rows.iter().all(|row| row["attempts"] == 1), "no item was carried out twice: {ended}");
    daemon.warm().await?;
    daemon.assert_idle().await
}

async fn clients_go_first(stage: Stage) -> Result<()> {
    // One for a client and one for the fleet, which another client has to wait for.
    let settings = Settings::new().set("POOL_MAX_WORKERS", "2").set("TASKS_WORKERS", "1");
    let daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let first = daemon.session(json!({})).await?;
    let pages = vec![format!("{site}/slow?ms=1500"); 4];
    let fleet = with(headings(&pages), json!({"concurrency": 4}));
    let fleet = id(&api.post("/lam/fleet", &fleet).await?.ok()?)?;
    let items = async || Ok::<_, anyhow::Error>(task(&api, &fleet).await?["items"].clone());
    eventually!("an item runs", 60, items().await?["running"].as_u64() > Some(0))?;
    let waiting = async {
        eventually!("a client waits", 30, daemon.metrics().await?.sum(QUEUE_LENGTH, &[]) > Some(0.0))?;
        items().await?["success"].as_u64().context("items that have ended")
    };
    let (second, before) = tokio::try_join!(daemon.session(json!({})), waiting)?;
    let after = items().await?;
    ensure!(
        after["success"].as_u64() <= Some(before + 1),
        "the fleet keeps its worker from a client: {before}, {after}"
    );
    for session in [first, second] {
        session.delete().await?.ok()?;
    }
    eventually!("the fleet is done", 120, {
        let fleet = task(&api, &fleet).await?;
        let running = &fleet["items"]["running"];
        ensure!(running.as_u64() <= Some(1), "a fleet stays within tasks.workers: {running}");
        fleet["status"] == "success"
    })?;
    daemon.warm().await?;
    daemon.assert_idle().await
}

async fn it_ends_where_clients_always_wait(stage: Stage) -> Result<()> {
    let settings = Settings::new().set("POOL_MAX_WORKERS", "2").set("TASKS_WORKERS", "1");
    let daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    // More than there are workers, each of which comes back as soon as it was served.
    let mut clients = JoinSet::new();
    for _ in 0..6 {
        let api = api.clone();
        clients.spawn(async move {
            loop {
                // A queue that is too long, or a wait, sends a client away.
                if let Ok(session) = Session::create(&api, &json!({"headless": true})).await {
                    drop(session.delete().await);
                }
                poll().await;
            }
        });
    }
    eventually!("somebody waits", 60, daemon.metrics().await?.sum("warmpool_queue_length", &[]) > Some(3.0))?;
    let pages: Vec<String> = (0..3).map(|tab| format!("{site}/tab/{tab}")).collect();
    let fleet = id(&api.post("/lam/fleet", &headings(&pages)).await?.ok()?)?;
    let after = id(&api.post("/lam/extract", &heading(&pages[0])).await?.ok()?)?;
    becomes(&api, &after, "success", 120).await.context("a task behind the fleet")?;
    becomes(&api, &fleet, "success", 120).await?;
    clients.shutdown().await;
    daemon.end_all().await?;
    daemon.warm().await?;
    daemon.assert_idle().await
}
