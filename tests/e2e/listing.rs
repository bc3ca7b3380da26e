//! The list of sessions: filters, order, pages.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Api, Cdp, Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [filters_orders_and_pages],
        full: [
            shows_nothing_that_opens_a_session,
            sessions_that_an_address_made_are_found,
            the_oldest_records_are_forgotten,
        ],
    )
}

/// The list for a query.
async fn list(api: &Api, query: &str) -> Result<Value> {
    api.get(&format!("/sessions?{query}")).await?.ok()
}

fn ids(list: &Value) -> Result<Vec<String>> {
    let sessions = list["sessions"].as_array().context("sessions")?;
    Ok(sessions.iter().filter_map(|session| session["session_id"].as_str()).map(ToOwned::to_owned).collect())
}

async fn filters_orders_and_pages(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let mut made = Vec::new();
    for (passcode, timeout) in [("ann", 61), ("ann", 62), ("bob", 63)] {
        let session = daemon.session(json!({"service_passcode": passcode, "session_timeout": timeout})).await?;
        session.delete().await?.ok()?;
        made.push(session.id);
    }
    let metadata = json!({"team": "search", "run": "7"});
    let live = daemon.session(json!({"service_passcode": "bob", "metadata": metadata})).await?;
    ensure!(live.record().await?["metadata"] == metadata, "{}", live.record().await?);
    made.push(live.id.clone());
    let newest_first: Vec<String> = made.iter().rev().cloned().collect();

    let all = list(&api, "").await?;
    ensure!(ids(&all)? == newest_first, "newest first is the default: {all}");
    ensure!(all["meta"] == json!({"totalPages": 1, "totalRecords": 4, "currentPage": 1}), "{all}");
    ensure!(ids(&list(&api, "sort_order=ascend").await?)? == made);
    let mut by_id = made.clone();
    by_id.sort();
    ensure!(ids(&list(&api, "sort_by=session_id&sort_order=ascend").await?)? == by_id);
    let by_status = list(&api, "sort_by=status&sort_order=ascend&limit=1").await?;
    ensure!(by_status["sessions"][0]["status"] == "running", "{by_status}");

    ensure!(ids(&list(&api, "service_passcode=ann").await?)? == newest_first[2..]);
    ensure!(ids(&list(&api, "raccoon_passcode=ann").await?)? == newest_first[2..], "the filter's other name");
    ensure!(ids(&list(&api, "status=running").await?)? == newest_first[..1]);
    ensure!(ids(&list(&api, "status=terminated&service_passcode=bob").await?)? == newest_first[1..2]);
    ensure!(ids(&list(&api, "status=running&status=terminated").await?)? == newest_first);
    ensure!(all["sessions"][0]["metadata"] == metadata && all["sessions"][1].get("metadata").is_none(), "{all}");
    ensure!(ids(&list(&api, "metadata[]=team=search").await?)? == newest_first[..1]);
    ensure!(ids(&list(&api, "metadata[]=team%3Dsearch&metadata=run=7").await?)? == newest_first[..1]);
    ensure!(ids(&list(&api, "metadata[]=team=search&metadata[]=run=8").await?)?.is_empty());
    let fault = api.get("/sessions?metadata[]=team").await?.fault(400)?;
    ensure!(fault.field == "metadata[]" && fault.message.contains("team=search"), "{}", fault.message);
    ensure!(ids(&list(&api, &format!("session_id={}", made[0])).await?)? == made[..1]);
    let second = all["sessions"][2]["timestamp"].as_u64().context("timestamp")?;
    ensure!(ids(&list(&api, &format!("start_time={second}")).await?)? == newest_first[..2]);
    ensure!(ids(&list(&api, &format!("end_time={second}")).await?)? == newest_first[3..]);

    let page = list(&api, "limit=3&page=2").await?;
    ensure!(ids(&page)? == newest_first[3..], "{page}");
    ensure!(page["meta"] == json!({"totalPages": 2, "totalRecords": 4, "currentPage": 2}), "{page}");
    let beyond = list(&api, "limit=3&page=9").await?;
    ensure!(ids(&beyond)?.is_empty() && beyond["meta"]["totalRecords"] == 4, "{beyond}");
    live.delete().await?.ok()?;
    Ok(())
}

async fn shows_nothing_that_opens_a_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let token = session.websocket_url()?.split_once("token=").context("token")?.1;
    let view = session.url("livestream_url")?.split_once("token=").context("token")?.1;
    // Only a request by id with its owner's key shows the URLs that open it.
    for text in [list(&daemon.api(), "limit=100").await?.to_string(), daemon.log_text()] {
        ensure!(!text.contains(token) && !text.contains(view), "a token is shown: {text}");
        ensure!(!text.contains(daemon.key()), "the key is shown");
    }
    session.delete().await?.ok()?;
    Ok(())
}

/// Their clients know no id of ours, and find them by the name that they gave them.
async fn sessions_that_an_address_made_are_found(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let options = json!({"args": ["--headless"]});
    let capabilities = json!({"browserName": "chrome", "se:name": "shop", "goog:chromeOptions": options});
    let made = api.post("/session", &json!({"capabilities": {"alwaysMatch": capabilities}})).await?.ok()?;
    let own = made["value"]["capabilities"]["warmpool:options"]["session_id"].as_str().context("session_id")?;
    let socket = format!("{}/?token={}&session=work", daemon.url().replacen("http", "ws", 1), daemon.key());
    let cdp = Cdp::connect(&socket).await?;
    let named = list(&api, "app_name=shop").await?;
    ensure!(ids(&named)? == [own] && named["sessions"][0].get("name").is_none(), "{named}");
    let shared = list(&api, "name=work").await?;
    ensure!(ids(&shared)?.len() == 1 && shared["sessions"][0]["name"] == "work", "{shared}");
    ensure!(ids(&list(&api, "app_name=work").await?)?.is_empty());
    let (_, said, problem) = crate::command_line::in_pipe(daemon, &["sessions", "list", "--app-name", "shop"]).await?;
    ensure!(ids(&said)? == [own], "{said} {problem}");
    cdp.disconnect().await?;
    for id in [ids(&named)?, ids(&shared)?].concat() {
        api.delete(&format!("/sessions/{id}")).await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn the_oldest_records_are_forgotten(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand().set("SESSION_KEEP_RECORDS", "2")).await?;
    daemon.warm().await?;
    let mut made = Vec::new();
    for _ in 0..3 {
        let session = daemon.session(json!({})).await?;
        session.delete().await?.ok()?;
        made.push(session.id.clone());
    }
    daemon.kill9().await?;
    // Records are swept at the start, and then every few minutes.
    daemon.restart().await?;
    eventually!("the oldest record is gone", 20, {
        let left = ids(&list(&daemon.api(), "sort_order=ascend").await?)?;
        (left == made[1..]).then_some(())
    })?;
    daemon.warm().await?;
    daemon.assert_idle().await
}
