//! The recordings and the extract of `examples/tasks`, on every engine.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::site::tasks::PASSWORD;
use warmpool_tests::task::{artifact, ended, engines, example, example_path, succeeds};
use warmpool_tests::{Group, Settings, Stage, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [search_on_chromium],
        full: [
            the_teas_on_every_engine,
            search_on_other_engines,
            checkout_on_every_engine,
            login_on_every_engine,
            hello_on_every_engine,
            a_wrong_password_fails_where_it_shows,
            the_recorders_own_player_agrees,
        ],
    )
}

/// The body of a run of an example.
async fn run(stage: &Stage, name: &str, engine: &str, more: Value) -> Result<Value> {
    let site = stage.site_for(stage.daemon()?).await?;
    let mut body = json!({"recording": example(name)?, "browser_type": engine, "inputs": {"site": site}});
    for part in ["inputs", "secrets"] {
        for (name, value) in more[part].as_object().into_iter().flatten() {
            body[part][name] = value.clone();
        }
    }
    Ok(body)
}

async fn search(stage: &Stage, engine: &str) -> Result<()> {
    let api = stage.daemon()?.api();
    let body = run(stage, "search.json", engine, json!({"inputs": {"q": "cha"}})).await?;
    let task = succeeds(&api, "/lam/run", &body).await?;
    let expected = json!([
        {"name": "Bancha", "price": 4.8, "in_stock": true, "picked": "2024-05-11", "sku": "T-0480"},
        {"name": "Genmaicha", "price": 5.4, "in_stock": true, "picked": "2024-06-30", "sku": "T-0540"},
        {"name": "Sencha", "price": 7.2, "in_stock": true, "picked": "2024-05-28", "sku": "T-0720"},
        {"name": "Matcha", "price": 19.5, "in_stock": true, "picked": "2024-05-05", "sku": "T-1950"},
    ]);
    ensure!(task["output"] == expected, "{engine}: {:#}", task["output"]);
    let picture = artifact(&api, &task, "results.png").await?;
    ensure!(picture.starts_with(b"\x89PNG"), "{engine}: {} bytes", picture.len());
    let side =
        |from: usize| u32::from_be_bytes([picture[from], picture[from + 1], picture[from + 2], picture[from + 3]]);
    ensure!((side(16), side(20)) == (1000, 600), "{engine}: {} by {}", side(16), side(20));
    Ok(())
}

async fn hello_on_every_engine(stage: Stage) -> Result<()> {
    for engine in engines() {
        let body = json!({"recording": example("hello.json")?, "browser_type": engine, "inputs": {"name": "Ada"}});
        let task = succeeds(&stage.daemon()?.api(), "/lam/run", &body).await?;
        ensure!(task["output"][0]["greeting"] == "Hello, Ada!", "{engine}: {task}");
    }
    Ok(())
}

async fn search_on_chromium(stage: Stage) -> Result<()> {
    search(&stage, "chromium").await
}

async fn search_on_other_engines(stage: Stage) -> Result<()> {
    for engine in engines().iter().skip(1) {
        search(&stage, engine).await?;
    }
    Ok(())
}

async fn checkout_on_every_engine(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for engine in &engines() {
        let more = json!({"inputs": {"street": "Rua do Chá 1"}, "secrets": {"card": "40000012"}});
        let task = succeeds(&api, "/lam/run", &run(&stage, "checkout.json", engine, more).await?).await?;
        let order =
            json!({"cart": "Assam,Sencha", "street": "Rua do Chá 1", "country": "pt", "card": "0012", "terms": "on"});
        ensure!(task["output"] == json!([{"order": order}]), "{engine}: {:#}", task["output"]);
    }
    Ok(())
}

async fn login_on_every_engine(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    for engine in &engines() {
        let more = json!({"inputs": {"user": "ada"}, "secrets": {"password": PASSWORD}});
        let task = succeeds(&api, "/lam/run", &run(&stage, "login.json", engine, more).await?).await?;
        let orders = json!([
            {"number": 1001, "day": "2024-05-01", "total": 12.9},
            {"number": 1002, "day": "2024-06-15", "total": 1049.0},
        ]);
        ensure!(task["output"] == orders, "{engine}: {:#}", task["output"]);
    }
    Ok(())
}

async fn a_wrong_password_fails_where_it_shows(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let more = json!({"inputs": {"user": "ada"}, "secrets": {"password": "battery staple"}});
    let task = ended(&api, "/lam/run", &run(&stage, "login.json", "chromium", more).await?).await?;
    ensure!(task["status"] == "failure" && task["error"]["step"] == 4, "{task:#}");
    ensure!(task["error"]["code"] == "navigation_mismatch", "{task:#}");
    ensure!(!task.to_string().contains("battery"), "{task:#}");
    let picture = artifact(&api, &task, "failure-step-4.png").await?;
    ensure!(picture.starts_with(b"\x89PNG"));
    Ok(())
}

async fn the_teas_on_every_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for engine in &engines() {
        let mut body = example("teas.json")?;
        body["browser_type"] = json!(engine);
        body["inputs"] = json!({"site": site});
        let task = succeeds(&daemon.api(), "/lam/extract", &body).await?;
        let teas = task["output"].as_array().cloned().unwrap_or_default();
        ensure!(teas.len() == 12, "{engine}: {} teas", teas.len());
        let keemun = json!({"name": "Keemun", "link": format!("{site}/tea/keemun"), "sku": "0880", "price": 8.8,
            "in_stock": true, "picked": "2024-04-15", "tags": ["tea", "keemun"]});
        ensure!(teas[7] == keemun, "{engine}: {:#}", teas[7]);
        ensure!(teas[10]["in_stock"] == false, "{engine}: {:#}", teas[10]);
    }
    Ok(())
}

/// Plays each recording as a run and with `@puppeteer/replay`, and compares where that led, what the page is then, and
/// what the site was asked on the way.
async fn the_recorders_own_player_agrees(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for (name, inputs, secrets) in [
        ("search.json", json!({"q": "cha"}), json!({})),
        ("checkout.json", json!({"street": "Rua do Chá 1"}), json!({"card": "40000012"})),
        ("login.json", json!({"user": "ada"}), json!({"password": PASSWORD})),
    ] {
        let agent = |player: &str| format!("{player} of {name}");
        let mut body =
            run(&stage, name, "chromium", json!({"inputs": inputs.clone(), "secrets": secrets.clone()})).await?;
        body["settings"] = json!({"user_agent": agent("run")});
        let left = [
            json!({"type": "waitForExpression", "expression": "document.documentElement.dataset.left = location.href"}),
            json!({"type": "customStep", "name": "lam:extract", "parameters": {"as": "left", "schema": {
                "url": {"selector": "html", "type": "attribute", "attribute": "data-left"},
                "title": "title",
                "body": {"selector": "body", "type": "html", "inner": true},
            }}}),
        ];
        body["recording"]["steps"].as_array_mut().into_iter().for_each(|steps| steps.extend(left.clone()));
        let task = succeeds(&daemon.api(), "/lam/run", &body).await?;
        let output = task["output"].as_array().cloned().unwrap_or_default();
        let run = output.last().map(|last| last["left"].clone()).unwrap_or_default();

        let mut values = json!({"site": body["inputs"]["site"]});
        for (name, value) in [&inputs, &secrets].into_iter().flat_map(|part| part.as_object().into_iter().flatten()) {
            values[name] = value.clone();
        }
        let player = Program::node(&programs::clients(), "replay.mjs").await?.of(daemon);
        let player = player.env("SITE_URL", stage.site_for(daemon).await?).env("AGENT", agent("replay"));
        let player = player.env("RECORDING", example_path(name).to_string_lossy()).env("VALUES", values.to_string());
        let replay = player.results().await?;

        for part in ["url", "title", "body"] {
            ensure!(run[part].is_string() && run[part] == replay[part], "{name}: {part}:\n{run:#}\n{replay:#}");
        }
        let (ours, theirs) = (stage.site().requests_of(&agent("run")), stage.site().requests_of(&agent("replay")));
        ensure!(!ours.is_empty() && ours == theirs, "{name}: {ours:#?}\n{theirs:#?}");
    }
    Ok(())
}
