//! Each step of a recording, on every engine, by what the page saw of it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::task::{artifact, engines, fails, succeeds};
use warmpool_tests::{Group, Settings, Stage, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [pointers_and_keys, fields_take_their_values, windows_frames_and_dialogs, files_go_in_and_come_out,
            what_a_task_leaves_behind],
    )
}

fn css(selector: &str) -> Value {
    json!([[selector]])
}

fn extract(schema: Value) -> Value {
    json!({"type": "customStep", "name": "lam:extract", "parameters": {"schema": schema}})
}

/// Plays steps on a page of the site, on every engine; gives each engine's task to `check`.
async fn play(
    stage: &Stage,
    page: &str,
    steps: &[Value],
    mut check: impl FnMut(&str, &Value) -> Result<()>,
) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let mut all = vec![json!({"type": "navigate", "url": format!("{site}{page}")})];
    all.extend_from_slice(steps);
    for engine in engines() {
        let body = json!({"steps": all, "browser_type": engine, "inputs": {"site": site}});
        let task = succeeds(&daemon.api(), "/lam/run", &body).await?;
        check(&engine, &task).with_context(|| format!("{engine}: {task:#}"))?;
    }
    Ok(())
}

async fn pointers_and_keys(stage: Stage) -> Result<()> {
    let click = |more: Value| {
        let mut step = json!({"type": "click", "selectors": css("#pad"), "offsetX": 20.4, "offsetY": 30});
        step.as_object_mut().into_iter().for_each(|step| step.extend(more.as_object().cloned().unwrap_or_default()));
        step
    };
    let steps = [
        click(json!({})),
        json!({"type": "keyDown", "key": "ShiftLeft"}),
        click(json!({"duration": 30, "offsetX": 200})),
        json!({"type": "keyUp", "key": "ShiftLeft"}),
        json!({"type": "keyDown", "key": "KeyA"}),
        json!({"type": "keyUp", "key": "KeyA"}),
        json!({"type": "keyDown", "key": "ArrowDown"}),
        json!({"type": "keyUp", "key": "ArrowDown"}),
        json!({"type": "keyDown", "key": "CapsLock"}),
        click(json!({"button": "secondary"})),
        json!({"type": "customStep", "name": "lam:sleep", "parameters": {"ms": 700}}),
        json!({"type": "doubleClick", "selectors": css("#pad"), "offsetX": 100, "offsetY": 40}),
        json!({"type": "click", "selectors": css("#late"), "offsetX": 5, "offsetY": 5, "deviceType": "touch"}),
        json!({"type": "scroll", "selectors": css("#scroller"), "x": 30, "y": 70}),
        json!({"type": "click", "selectors": [["#nothing"], ["#hidden"], ["#far"]], "offsetX": 4, "offsetY": 4}),
        json!({"type": "scroll", "x": 0, "y": 250}),
        json!({"type": "waitForExpression", "expression": "new Promise(done => setTimeout(() => done(scrollY === 250), 30))"}),
        json!({"type": "waitForElement", "selectors": css("#scroller"), "properties": {"scrollTop": 70, "scrollLeft": 30}}),
        json!({"type": "waitForElement", "selectors": css("#moved"), "properties": {"textContent": "0,250"}}),
        json!({"type": "waitForElement", "selectors": css("#hidden"), "visible": false}),
        json!({"type": "waitForElement", "selectors": css("button"), "operator": "==", "count": 4}),
        extract(json!({"log": "#log"})),
    ];
    play(&stage, "/stage", &steps, |_, task| {
        let log = task["output"][0]["log"].as_str().context("log")?;
        // Hovering and the number of events between are the engines' own; what was done is not.
        let done: Vec<&str> = log.split(' ').filter(|word| *word != "enter" && *word != "key:Shift").collect();
        let expected = "down0@20,30 down0@200,30+shift key:a key:ArrowDown down2@20,30 menu down0@100,40 down0@100,40 double late far";
        ensure!(done.join(" ") == expected, "{log}");
        ensure!(log.contains("enter"), "{log}");
        Ok(())
    })
    .await
}

async fn fields_take_their_values(stage: Stage) -> Result<()> {
    let change = |selector: &str, value: &str| json!({"type": "change", "selectors": css(selector), "value": value});
    let long = "tea ".repeat(400);
    let steps = [
        change("#text", "first"),
        change("#text", "thé, 茶 & 🍵"),
        change("#area", "two\nlines"),
        change("#area", long.trim()),
        change("#day", "2024-02-29"),
        change("#range", "7"),
        change("#rich", "new"),
        extract(json!({"text": "#text", "area": "#area", "day": "#day", "range": "#range", "rich": "#rich"})),
    ];
    play(&stage, "/stage", &steps, |_, task| {
        let expected =
            json!({"text": "thé, 茶 & 🍵", "area": long.trim(), "day": "2024-02-29", "range": "7", "rich": "new"});
        ensure!(task["output"][0] == expected);
        Ok(())
    })
    .await
}

async fn windows_frames_and_dialogs(stage: Stage) -> Result<()> {
    let click = |selector: &str| json!({"type": "click", "selectors": css(selector), "offsetX": 5, "offsetY": 5});
    let on = |mut step: Value, target: &str| {
        step["target"] = json!(target);
        step
    };
    let mut part = click("#part");
    part["assertedEvents"] = json!([{"type": "navigation", "url": "{{input.site}}/stage#part", "title": "Stage"}]);
    let steps = [
        part,
        click("#ask"),
        json!({"type": "waitForElement", "selectors": css("#log"), "properties": {"textContent": "true "}}),
        click("#window"),
        on(json!({"type": "waitForElement", "selectors": [["text/opened by the other page"]]}), "{{input.site}}/child"),
        on(extract(json!({"child": "#child"})), "{{input.site}}/child"),
        on(json!({"type": "close"}), "{{input.site}}/child"),
        extract(json!({"log": "#log"})),
        json!({"type": "navigate", "url": "{{input.site}}/shop/checkout"}),
        json!({"type": "change", "selectors": css("#number"), "value": "12345678", "frame": [0, 0]}),
        on(
            json!({"type": "waitForExpression", "expression": "!document.querySelector('#pay').disabled"}),
            "{{input.site}}/shop/payment",
        ),
        json!({"type": "close"}),
        json!({"type": "navigate", "url": "{{input.site}}/tab/2"}),
        extract(json!({"tab": "h1"})),
    ];
    play(&stage, "/stage", &steps, |_, task| {
        ensure!(task["output"] == json!([{"child": "opened by the other page"}, {"log": "true"}, {"tab": "Tab 2"}]));
        Ok(())
    })
    .await
}

async fn files_go_in_and_come_out(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let files = json!([{"name": "a.txt", "text": "{{input.site}}"}, {"name": "b.bin", "base64": "AAEC"}]);
    let steps = [
        json!({"type": "customStep", "name": "lam:upload", "parameters": {"selectors": "#files", "files": files}}),
        extract(json!({"chosen": "#chosen"})),
        json!({"type": "navigate", "url": "{{input.site}}/downloads"}),
        json!({"type": "click", "selectors": css("#file"), "offsetX": 4, "offsetY": 4}),
        json!({"type": "customStep", "name": "lam:waitForDownload", "parameters": {"name": "file*.bin"}}),
    ];
    let site = stage.site_for(daemon).await?;
    let mut tasks = Vec::new();
    play(&stage, "/stage", &steps, |_, task| {
        ensure!(task["output"][0]["chosen"] == format!("a.txt:{} b.bin:3", site.len()));
        tasks.push(task.clone());
        Ok(())
    })
    .await?;
    for task in tasks {
        let file = artifact(&api, &task, "file.bin").await?;
        ensure!(file == warmpool_tests::site::file_bytes(), "{} bytes", file.len());
    }
    Ok(())
}

async fn what_a_task_leaves_behind(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let custom = |name: &str, parameters: Value| json!({"type": "customStep", "name": name, "parameters": parameters});
    let viewport = json!({"type": "setViewport", "width": 640, "height": 480, "deviceScaleFactor": 1, "isMobile": false,
        "hasTouch": false, "isLandscape": false});
    let steps = [
        viewport,
        custom("lam:screenshot", json!({"name": "view"})),
        custom("lam:screenshot", json!({"selectors": "#pad", "name": "pad"})),
        custom("lam:screenshot", json!({"fullPage": true, "name": "all"})),
        custom("lam:assertText", json!({"selectors": "#pad", "matches": "^P.d$"})),
        custom(
            "lam:ifExists",
            json!({"selectors": "#nothing", "steps": [custom("lam:sleep", json!({"ms": 600_000}))],
            "else": [custom("lam:screenshot", json!({}))]}),
        ),
    ];
    let mut tasks = Vec::new();
    play(&stage, "/stage", &steps, |engine, task| {
        tasks.push((engine.to_owned(), task.clone()));
        Ok(())
    })
    .await?;
    for (engine, task) in tasks {
        for (name, width, height) in [
            ("view.png", 640..=640, 480..=480),
            ("pad.png", 300..=300, 120..=120),
            ("screenshot.png", 640..=640, 480..=480),
            ("all.png", 600..=660, 3000..=5000),
        ] {
            let picture = artifact(&api, &task, name).await?;
            let side = |from: usize| {
                u32::from_be_bytes([picture[from], picture[from + 1], picture[from + 2], picture[from + 3]])
            };
            let size = (side(16), side(20));
            ensure!(width.contains(&size.0) && height.contains(&size.1), "{engine}: {name} is {size:?}");
        }
    }
    let print = json!({"steps": [{"type": "navigate", "url": "data:text/html,<h1>Paper"},
        {"type": "customStep", "name": "lam:pdf", "parameters": {"landscape": true, "name": "sheet"}}]});
    for engine in engines() {
        let mut body = print.clone();
        body["browser_type"] = json!(engine);
        if engine == "webkit" {
            // Its driver has no word for it.
            fails(&api, "/lam/run", &body, "not_supported").await?;
            continue;
        }
        let task = succeeds(&api, "/lam/run", &body).await?;
        ensure!(artifact(&api, &task, "sheet.pdf").await?.starts_with(b"%PDF"), "{engine}");
    }
    Ok(())
}
