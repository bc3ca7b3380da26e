//! The history of tasks: every parameter of its list, and its forms.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::{Api, Daemon, Group, Settings, Stage, eventually, group};

use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [filters_orders_and_pages, bad_parameters_are_named],
        full: [
            another_key_sees_nothing,
            results_come_as_lines_and_tables,
            artifacts_are_files,
            the_oldest_tasks_are_forgotten,
            a_key_gives_way_to_itself_alone,
        ],
    )
}

/// A recording that opens this page.
pub(crate) fn visit(page: &str) -> Value {
    json!({"steps": [{"type": "navigate", "url": page}]})
}

/// An extract of the page's heading.
pub(crate) fn heading(page: &str) -> Value {
    json!({"url": page, "schema": {"title": "h1"}})
}

/// The object with more members.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}

/// Sends a task and waits for its end.
pub(crate) async fn finished(api: &Api, path: &str, body: Value) -> Result<Value> {
    let reply = api.post(path, &with(body, json!({"wait": 120}))).await?;
    ensure!(reply.status == 200, "{reply}");
    reply.json()
}

/// A task's record.
pub(crate) async fn task(api: &Api, id: &str) -> Result<Value> {
    api.get(&format!("/lam/tasks/{id}")).await?.ok()
}

/// Waits until a task has this status, and returns its record.
pub(crate) async fn becomes(api: &Api, id: &str, status: &str, seconds: u64) -> Result<Value> {
    let mut seen;
    let reached = eventually!(format!("task {id} is {status}"), seconds, {
        seen = task(api, id).await?;
        seen["status"] == status
    });
    reached.with_context(|| seen.to_string())?;
    Ok(seen)
}

/// The id of a task in a reply.
pub(crate) fn id(task: &Value) -> Result<String> {
    Ok(task["taskId"].as_str().with_context(|| format!("taskId in {task}"))?.to_owned())
}

async fn list(api: &Api, query: &str) -> Result<Value> {
    api.get(&format!("/lam/tasks?{query}")).await?.ok()
}

fn ids(list: &Value) -> Result<Vec<String>> {
    list["tasks"].as_array().context("tasks")?.iter().map(id).collect()
}

async fn filters_orders_and_pages(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let ann = json!({"service_passcode": "ann"});
    let first = finished(&api, "/lam/run", with(visit(&format!("{site}/")), ann.clone())).await?;
    let second = finished(&api, "/lam/extract", with(heading(&format!("{site}/tab/1")), ann)).await?;
    let missing =
        json!({"url": format!("{site}/"), "schema": {"x": {"selector": "#none", "required": true}}, "timeout": 20_000});
    let third = finished(
        &api,
        "/lam/extract",
        with(missing, json!({"service_passcode": "bob", "metadata": {"team": "search"}})),
    )
    .await?;
    let fleet = json!({"extract": heading("{{input.url}}"), "urls": [format!("{site}/tab/2")]});
    let fourth = finished(&api, "/lam/fleet", fleet).await?;
    let made = [id(&first)?, id(&second)?, id(&third)?, id(&fourth)?];
    ensure!(first["status"] == "success" && second["status"] == "success", "{first} {second}");
    ensure!(third["status"] == "failure" && third["error"]["code"].is_string(), "{third}");
    ensure!(fourth["status"] == "success" && fourth["items"]["success"] == 1, "{fourth}");
    ensure!(second["output"][0]["title"] == "Tab 1", "{second}");
    ensure!(fourth["output"][0]["output"][0]["title"] == "Tab 2", "{fourth}");
    ensure!(first["executionType"] == "run" && first["inputs"] == json!({}), "{first}");
    ensure!(first["executionTime"].as_u64().is_some_and(|ms| ms > 0), "{first}");
    ensure!(first["servicePasscode"] == "ann" && first["timestamp"].is_u64(), "{first}");
    ensure!(fourth.get("servicePasscode").is_none(), "who was not named has no name: {fourth}");
    ensure!(third["metadata"] == json!({"team": "search"}) && first.get("metadata").is_none(), "{third}");
    for (query, found) in [
        ("metadata[]=team=search", &made[2..3]),
        ("metadata[]=team=search&service_passcode=bob&executionType[]=extract&sort_by=status", &made[2..3]),
        ("metadata[]=team=search&service_passcode=ann", &[]),
        ("metadata[]=team=sales", &[]),
    ] {
        ensure!(ids(&list(&api, query).await?)? == found, "{query}");
    }
    let session = api.get(&format!("/sessions/{}", third["sessionId"].as_str().context("sessionId")?)).await?.ok()?;
    ensure!(session["metadata"] == third["metadata"], "{session}");
    let session = api.get(&format!("/sessions/{}", first["sessionId"].as_str().context("sessionId")?)).await?.ok()?;
    ensure!(session["status"] == "success" && session["kind"] == "task", "{session}");

    let newest_first: Vec<String> = made.iter().rev().cloned().collect();
    let all = list(&api, "").await?;
    ensure!(ids(&all)? == newest_first, "newest first is the default: {all}");
    ensure!(all["meta"] == json!({"totalPages": 1, "totalRecords": 4, "currentPage": 1}), "{all}");
    for key in ["timestamp", "taskId"] {
        ensure!(ids(&list(&api, &format!("sort_by={key}&sort_order=ascend")).await?)? == made, "{key}");
        ensure!(ids(&list(&api, &format!("sort_by={key}&sort_order=descend")).await?)? == newest_first, "{key}");
    }
    for key in ["executionTime", "status", "executionType"] {
        let up = list(&api, &format!("sort_by={key}&sort_order=ascend")).await?;
        let down = list(&api, &format!("sort_by={key}&sort_order=descend")).await?;
        let values: Vec<Value> =
            up["tasks"].as_array().context("tasks")?.iter().map(|task| task[key].clone()).collect();
        let ordered = values.is_sorted_by(|a, b| match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a <= b,
            _ => a.as_str() <= b.as_str(),
        });
        ensure!(ordered, "{key}: {values:?}");
        let mut reversed = ids(&up)?;
        reversed.reverse();
        ensure!(reversed == ids(&down)?, "{key}: both orders are each other's reverse");
    }
    for query in [
        "executionType[]=run&executionType[]=fleet",
        "executionType[0]=run&executionType[1]=fleet",
        "executionType%5B%5D=run&executionType%5B%5D=fleet",
        "executionType=run&executionType=fleet",
    ] {
        ensure!(ids(&list(&api, query).await?)? == [made[3].clone(), made[0].clone()], "{query}");
    }
    for name in ["service_passcode", "raccoon_passcode"] {
        ensure!(ids(&list(&api, &format!("{name}=ann")).await?)? == newest_first[2..], "{name}");
    }
    ensure!(ids(&list(&api, &format!("task_id={}", made[1])).await?)? == made[1..2]);
    ensure!(list(&api, "task_id=tsk_none").await?["meta"]["totalRecords"] == 0);
    let at = third["timestamp"].as_u64().context("timestamp")?;
    ensure!(ids(&list(&api, &format!("start_time={at}")).await?)? == made[3..], "after is not at");
    ensure!(ids(&list(&api, &format!("end_time={at}&sort_order=ascend")).await?)? == made[..2], "before is not at");
    let page = list(&api, "limit=3&page=2").await?;
    ensure!(ids(&page)? == newest_first[3..], "{page}");
    ensure!(page["meta"] == json!({"totalPages": 2, "totalRecords": 4, "currentPage": 2}), "{page}");
    let beyond = list(&api, "page=18446744073709551615&limit=100").await?;
    ensure!(ids(&beyond)?.is_empty() && beyond["meta"]["totalRecords"] == 4, "{beyond}");
    Ok(())
}

async fn bad_parameters_are_named(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for (query, field) in [
        ("page=0", "page"),
        ("page=one", "page"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("start_time=-1", "start_time"),
        ("end_time=now", "end_time"),
        ("executionType[]=walk", "executionType"),
        ("executionType[]=", "executionType"),
        ("sort_by=inputs", "sort_by"),
        ("sort_order=desc", "sort_order"),
        ("colour=red", "colour"),
        ("status=failure", "status"),
    ] {
        let fault = api.get(&format!("/lam/tasks?{query}")).await?.fault(400)?;
        ensure!(fault.field.starts_with(field), "{query}: {fault:?}");
    }
    api.without_key().get("/lam/tasks").await?.fault(401)?;
    for path in ["/lam/run", "/lam/extract", "/lam/fleet"] {
        for (body, field) in [
            (json!({"colour": 1}), "colour"),
            (json!({"timeout": 0}), "timeout"),
            (json!({"browser_type": "opera"}), "browser_type"),
            (json!({"secrets": {"pin": 1}}), "secrets.pin"),
            (json!({"settings": {"zoom": 2}}), "settings.zoom"),
            (json!({"wait": 601}), "wait"),
        ] {
            let fault = api.post(path, &body).await?.fault(400)?;
            ensure!(fault.field == field, "{path} {body}: {fault:?}");
        }
    }
    let unknown = json!({"steps": [{"type": "teleport"}]});
    let fault = api.post("/lam/run", &unknown).await?.fault(400)?;
    ensure!(fault.field.starts_with("steps[0]"), "{fault:?}");
    let lacking = json!({"steps": [{"type": "navigate", "url": "http://{{input.host}}/"}]});
    let fault = api.post("/lam/run", &lacking).await?.fault(400)?;
    ensure!(fault.message.contains("host"), "{fault:?}");
    for id in ["tsk_none", "tsk_00000000000000000000000000", "..%2fetc"] {
        api.get(&format!("/lam/tasks/{id}")).await?.fault(404)?;
        api.delete(&format!("/lam/tasks/{id}")).await?.fault(404)?;
        api.get(&format!("/lam/tasks/{id}/artifacts/x.png")).await?.fault(404)?;
    }
    Ok(())
}

async fn another_key_sees_nothing(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let mine = id(&finished(&daemon.api(), "/lam/run", visit(&format!("{site}/"))).await?)?;
    let other = daemon.api().with_key(daemon.cli_ok(&["key", "create", "other"]).await?.trim().to_owned());
    ensure!(list(&other, "").await?["meta"]["totalRecords"] == 0);
    for path in ["", "/items", "/artifacts"] {
        other.get(&format!("/lam/tasks/{mine}{path}")).await?.fault(404)?;
    }
    other.delete(&format!("/lam/tasks/{mine}")).await?.fault(404)?;
    other.post(&format!("/lam/tasks/{mine}/retry"), &json!({})).await?.fault(404)?;
    Ok(())
}

async fn results_come_as_lines_and_tables(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let links = json!({"url": format!("{site}/"), "rows": "li", "schema": {"text": "a", "to": {"selector": "a", "attribute": "href"}}});
    let single = id(&finished(&api, "/lam/extract", links).await?)?;
    let accept = |kind: &'static str| HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static(kind))]);
    let path = format!("/lam/tasks/{single}");
    let lines = api.send(Method::GET, &path, accept("application/x-ndjson"), Bytes::new()).await?;
    let rows: Vec<Value> = lines.text().lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(rows.len() == 3 && rows[1]["text"] == "one", "{lines}");
    let table = api.send(Method::GET, &path, accept("text/csv"), Bytes::new()).await?;
    ensure!(table.header("content-type").is_some_and(|kind| kind.starts_with("text/csv")), "{table}");
    ensure!(table.text().starts_with("text,to\r\nform,"), "{table}");
    ensure!(api.get(&format!("{path}?format=csv")).await?.text() == table.text());
    api.get(&format!("{path}?format=xml")).await?.fault(400)?;

    let urls = [format!("{site}/tab/1"), format!("{site}/tab/2")];
    let fleet = id(&finished(&api, "/lam/fleet", json!({"extract": heading("{{input.url}}"), "urls": &urls})).await?)?;
    let table = api.get(&format!("/lam/tasks/{fleet}?format=csv")).await?.text();
    let head = "item,item.status,item.error,item.message,input.url,title";
    let row = |index: usize| format!("{index},success,,,{},Tab {}", urls[index], index + 1);
    ensure!(table == format!("{head}\r\n{}\r\n{}\r\n", row(0), row(1)), "{table}");
    let lines = api.get(&format!("/lam/tasks/{fleet}/items?format=ndjson")).await?.text();
    ensure!(lines.lines().count() == 2 && lines.contains("\"Tab 2\""), "{lines}");
    let path = format!("/lam/tasks/{fleet}/items");
    ensure!(api.get(&format!("{path}?format=csv")).await?.fault(400)?.field == "format", "items are no table");
    let table = api.send(Method::GET, &path, accept("text/csv"), Bytes::new()).await?;
    ensure!(table.fault(400)?.field == "format", "items are no table");

    // What failed has its row, too.
    let extract = json!({"url": "{{input.url}}", "schema": {"x": {"selector": "#none", "required": true}}});
    let fleet = json!({"extract": extract, "urls": &urls[..1], "retry": {"max": 0}});
    let fleet = id(&finished(&api, "/lam/fleet", fleet).await?)?;
    let lines = api.get(&format!("/lam/tasks/{fleet}?format=ndjson")).await?.text();
    let row: Value = serde_json::from_str(&lines)?;
    ensure!(row["item"] == 0 && row["item.status"] == "failure" && row["input.url"] == urls[0], "{lines}");
    ensure!(row["item.error"].is_string() && row["item.message"].is_string(), "{lines}");
    Ok(())
}

async fn artifacts_are_files(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let shot = json!({"type": "customStep", "name": "lam:screenshot", "parameters": {"name": "shot"}});
    let body = json!({"steps": [{"type": "navigate", "url": format!("{site}/")}, shot]});
    let task = finished(&api, "/lam/run", body).await?;
    let artifact = &task["artifacts"][0];
    let file = api.get(artifact["url"].as_str().with_context(|| format!("an artifact in {task}"))?).await?;
    ensure!(file.status == 200 && file.body.starts_with(b"\x89PNG"), "{file}");
    ensure!(artifact["bytes"] == file.body.len(), "{artifact}");
    ensure!(file.header("x-content-type-options") == Some("nosniff"), "{:?}", file.headers);
    let listed = api.get(&format!("/lam/tasks/{}/artifacts", id(&task)?)).await?.ok()?;
    ensure!(listed["artifacts"] == task["artifacts"], "{listed}");
    api.get(&format!("/lam/tasks/{}/artifacts/other.png", id(&task)?)).await?.fault(404)?;
    Ok(())
}

async fn the_oldest_tasks_are_forgotten(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand().set("TASKS_KEEP", "2")).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();
    let shot = json!({"type": "customStep", "name": "lam:screenshot", "parameters": {"name": "shot"}});
    let body = json!({"steps": [{"type": "navigate", "url": format!("{site}/")}, shot]});
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(id(&finished(&api, "/lam/run", body.clone()).await?)?);
    }
    daemon.kill9().await?;
    // Tasks are swept at the start, and then every minute.
    daemon.restart().await?;
    eventually!("the oldest task is gone", 20, ids(&list(&api, "sort_order=ascend").await?)? == made[1..])?;
    api.get(&format!("/lam/tasks/{}", made[0])).await?.fault(404)?;
    let folders = std::fs::read_dir(daemon.data_dir().join("tasks"))?.count();
    ensure!(folders == 2, "the files of a forgotten task go with it: {folders}");
    daemon.warm().await?;
    daemon.assert_idle().await
}

async fn a_key_gives_way_to_itself_alone(stage: Stage) -> Result<()> {
    let settings = Settings::new().set("TASKS_KEEP_SIZE", "1MiB").set("TASKS_KEEP_SIZE_PER_KEY", "48KiB");
    let daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let other = api.with_key(daemon.cli_ok(&["key", "create", "other"]).await?.trim().to_owned());
    // Results of this length are a file.
    let long = |length: usize| heading(&format!("data:text/html,<h1>{}</h1>", "x".repeat(length)));
    let theirs = id(&finished(&other, "/lam/extract", long(20_000)).await?)?;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(id(&finished(&api, "/lam/extract", long(20_000)).await?)?);
    }
    let left = ids(&list(&api, "sort_order=ascend").await?)?;
    ensure!(left == made[1..], "two of them are as much as a key may keep: {left:?} of {made:?}");
    api.get(&format!("/lam/tasks/{}", made[0])).await?.fault(404)?;
    let more = finished(&api, "/lam/extract", long(55_000)).await?;
    ensure!(more["status"] == "failure" && more["error"]["code"] == "task_limit", "{more}");
    for (api, id) in [(&api, &made[1]), (&api, &made[2]), (&other, &theirs)] {
        ensure!(task(api, id).await?["output"][0]["title"].is_string(), "nothing gives way in vain, or to another key");
    }

    let removal = |id: &str| format!("/lam/tasks/{id}?forget=true");
    let removed = api.delete(&removal(&made[1])).await?.ok()?;
    ensure!(removed["taskId"] == made[1] && removed["alreadyEnded"] == true, "{removed}");
    let fault = api.delete(&removal(&made[1])).await?.fault(404)?;
    ensure!(fault.code == "unknown_task", "{fault:?}");
    api.delete(&removal(&theirs)).await?.fault(404)?;
    let folders: Vec<_> = std::fs::read_dir(daemon.data_dir().join("tasks"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    ensure!(folders.len() == 2 && folders.contains(&made[2]) && folders.contains(&theirs), "{folders:?}");
    let open = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    let fault = api.delete(&removal(&open)).await?.fault(409)?;
    ensure!(fault.code == "conflict" && fault.message.contains("cancel it first"), "{fault:?}");
    for call in [format!("/lam/tasks/{open}"), removal(&open)] {
        api.delete(&call).await?.ok()?;
    }
    daemon.warm().await?;
    daemon.assert_idle().await
}
