//! What extracts read of a page, the same on every engine.

use anyhow::{Result, ensure};
use serde_json::json;
use warmpool_tests::task::{engines, fails, succeeds};
use warmpool_tests::{Group, Settings, Stage, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [
            every_type_on_every_engine,
            every_selector_on_every_engine,
            pages_are_turned_by_a_button,
            results_that_do_not_fit_fail,
        ],
    )
}

async fn every_type_on_every_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let schema = json!({
        "title": "h1",
        "by": {"selector": ".by", "type": "text"},
        "when": {"selector": "time", "type": "date"},
        "intro": ".intro",
        "markup": {"selector": ".by b", "type": "html"},
        "inner": {"selector": ".intro", "type": "html", "inner": true},
        "words": {"selector": ".count", "type": "number", "decimal": ","},
        "codes": {"selector": ".count", "type": "regex", "pattern": "SKU-(\\d+)", "all": true},
        "yes": {"selector": "#yes", "type": "boolean"},
        "no": {"selector": "#no", "type": "boolean"},
        "gone": {"selector": ".gone", "type": "number", "default": 0},
        "hrefs": {"selector": "article a", "type": "list", "item": {"attribute": "href"}},
        "table": {"selector": "table", "type": "table"},
        "person": {"selector": "article", "type": "nested", "fields": {"name": ".by b", "link": {"xpath": "//a[1]"}}},
        "note": "my-note",
        "graph": {"type": "json_ld"},
        "graphs": {"type": "open_graph"},
    });
    for engine in engines() {
        let body = json!({"url": format!("{site}/article"), "schema": schema, "builtins": ["meta", "links", "tables"],
            "browser_type": engine});
        let task = succeeds(&daemon.api(), "/lam/extract", &body).await?;
        let table = json!([{"Both": "a", "Both_2": "b", "One": "c"}, {"Both": "a", "Both_2": "d", "One": "e"}]);
        let expected = json!({
            "title": "On tea",
            "by": "By Ada, last winter",
            "when": "2024-02-29T10:30:00+01:00",
            "intro": "Boil water.",
            "markup": "<b>Ada</b>",
            "inner": "Boil<br>water.<!-- a comment -->",
            "words": 1234,
            "codes": ["77", "78"],
            "yes": true,
            "no": false,
            "gone": 0,
            "hrefs": [format!("{site}/form#x"), "https://other.test/x?y=1&z=2"],
            "table": table,
            "person": {"name": "Ada", "link": "Form"},
            "note": "Shaded light",
            "graph": [{"@type": "Article", "headline": "On tea", "@context": "https://schema.org"}],
            "graphs": {"og:title": "On tea", "og:image": ["/a.png", "/b.png"]},
            "meta": {"title": "On tea", "url": format!("{site}/article"), "language": "en", "charset": "UTF-8",
                "canonical": format!("{site}/article"), "author": "Ada", "keywords": "tea, water"},
            "links": [{"url": format!("{site}/form#x"), "text": "Form", "rel": ""},
                {"url": "https://other.test/x?y=1&z=2", "text": "Other", "rel": "nofollow"}],
            "tables": [table],
        });
        for (name, value) in expected.as_object().into_iter().flatten() {
            ensure!(task["output"][0][name] == *value, "{engine}: {name} is {:#}", task["output"][0][name]);
        }
    }
    Ok(())
}

async fn every_selector_on_every_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let schema = json!({
        "css": "article > h1",
        "aria": "aria/On tea",
        "role": "aria/Form[role=\"link\"]",
        "text": "text/Boil",
        "xpath": "xpath//html/body/article/a[2]",
        "pierce": "pierce/slot",
        "chain": {"selectors": [["my-note", "p"]]},
        "alternatives": {"selectors": ["#nothing", "aria/Nothing", "b"]},
    });
    for engine in engines() {
        let body = json!({"url": format!("{site}/article"), "schema": schema, "browser_type": engine});
        let task = succeeds(&daemon.api(), "/lam/extract", &body).await?;
        let expected = json!({"css": "On tea", "aria": "On tea", "role": "Form", "text": "Boil water.", "xpath": "Other",
            "pierce": "light", "chain": "Shaded light", "alternatives": "Ada"});
        ensure!(task["output"] == json!([expected]), "{engine}: {:#}", task["output"]);
    }
    Ok(())
}

/// The address stays, what the page shows comes late, and at the end the button is gone or of no use.
async fn pages_are_turned_by_a_button(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for engine in engines() {
        for (end, pages, expected) in [
            ("", 10, json!(["Emma", "Ulysses", "Dune", "Solaris", "Momo"])),
            ("?gone", 10, json!(["Emma", "Ulysses", "Dune", "Solaris", "Momo"])),
            ("", 2, json!(["Emma", "Ulysses", "Dune", "Solaris"])),
        ]
        .into_iter()
        .filter(|(_, pages, _)| *pages == 10 || engine == "chromium")
        {
            let body = json!({"url": format!("{site}/shelf{end}"), "rows": ".book", "schema": {"name": "b"},
                "next": {"selector": "aria/More[role=\"button\"]", "pages": pages}, "browser_type": engine});
            let task = succeeds(&daemon.api(), "/lam/extract", &body).await?;
            let names: Vec<_> =
                task["output"].as_array().into_iter().flatten().map(|row| row["name"].clone()).collect();
            ensure!(json!(names) == expected, "{engine}, {pages} pages{end}: {names:?}");
        }
    }
    Ok(())
}

async fn results_that_do_not_fit_fail(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let with = |schema| json!({"url": format!("{site}/article"), "schema": schema});
    let mut body = with(json!({"title": "h1"}));
    body["validate"] = json!({"properties": {"title": {"maxLength": 3}}});
    let task = fails(&api, "/lam/extract", &body, "invalid_result").await?;
    ensure!(task["error"]["message"].as_str().is_some_and(|text| text.contains("/title")), "{task:#}");
    let body = with(json!({"price": {"selector": "h1", "type": "number", "required": true}}));
    let task = fails(&api, "/lam/extract", &body, "missing_field").await?;
    ensure!(task["error"]["message"].as_str().is_some_and(|text| text.contains("`price`")), "{task:#}");
    fails(&api, "/lam/extract", &with(json!({"a": "#nothing", "b": ".nothing"})), "no_match").await?;
    fails(&api, "/lam/extract", &with(json!({"a": "h1["})), "invalid_selector").await?;
    Ok(())
}
