//! The live view's page on screens of every size, and what it says once its session has ended.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [
            the_page_fits_every_screen,
            two_fingers_zoom,
            a_large_page_comes_in_full_size,
            an_ended_view_says_by_whom_and_links_its_recording,
            a_time_limit_is_no_failure,
            a_crash_is_a_failure,
        ],
    )
}

async fn session(stage: &Stage, more: Value) -> Result<Session> {
    let daemon = stage.daemon()?;
    let mut body = json!({"url": format!("{}/turn", stage.site_for(daemon).await?), "headless": true});
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    daemon.session(body).await
}

async fn screens(stage: &Stage, session: &Session, flow: &str) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = Program::node(&programs::clients(), "screens.mjs").await?.of(daemon);
    Ok(program
        .env("FLOW", flow)
        .env("STREAM_URL", session.url("livestream_url")?)
        .env("SITE_URL", stage.site_for(daemon).await?))
}

async fn the_page_fits_every_screen(stage: Stage) -> Result<()> {
    for headless in [true, false] {
        let session = session(&stage, json!({"headless": headless})).await?;
        screens(&stage, &session, "layout").await?.results().await?;
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn two_fingers_zoom(stage: Stage) -> Result<()> {
    for headless in [true, false] {
        let session = session(&stage, json!({"headless": headless})).await?;
        screens(&stage, &session, "touch").await?.results().await?;
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn a_large_page_comes_in_full_size(stage: Stage) -> Result<()> {
    let settings = json!({"viewport": {"width": 2400, "height": 1400}});
    let session = session(&stage, json!({"settings": settings})).await?;
    screens(&stage, &session, "wide").await?.results().await?;
    session.delete().await?.ok()?;
    Ok(())
}

/// `end` ends the session; its view then shows this heading and these words.
async fn ends(stage: &Stage, session: &Session, end: &str, heading: &str, words: &str) -> Result<()> {
    let program = screens(stage, session, "ended").await?;
    let program = program
        .env("END", end)
        .env("HEADING", heading)
        .env("WORDS", words)
        .env("RECORDED", if end == "delete" { "true" } else { "false" })
        .env("WEBSOCKET_URL", session.websocket_url()?)
        .env("SESSION_URL", format!("{}/sessions/{}", stage.daemon()?.url(), session.id));
    program.results().await.map(drop)
}

async fn an_ended_view_says_by_whom_and_links_its_recording(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = session(&stage, json!({"recording": true})).await?;
    let path = format!("/sessions/{}", session.id);
    let share = daemon.api().post(&format!("{path}/share"), &json!({})).await?.ok()?;
    eventually!("something is recorded", 20, {
        let listed = daemon.api().get(&format!("{path}/recording")).await?.ok()?;
        listed["parts"][0]["size"].as_u64() > Some(0)
    })?;
    ends(&stage, &session, "delete", "The session has ended", "The session's owner ended it.").await?;
    // Neither a link for somebody else nor the client's token opens the recording, or says that there was a session.
    let token = |url: &str| url.split_once("token=").map(|(_, token)| token.to_owned()).context("token");
    let linked = token(share["url"].as_str().context("url")?)?;
    for token in [linked, token(session.websocket_url()?)?, String::new()] {
        let address = format!("{path}/stream/recording?token={token}");
        daemon.api().without_key().get(&address).await?.fault(404)?;
    }
    Ok(())
}

async fn a_time_limit_is_no_failure(stage: Stage) -> Result<()> {
    let session = session(&stage, json!({"session_timeout": 15})).await?;
    ends(&stage, &session, "limit", "The session has ended", "The session reached its time limit.").await
}

async fn a_crash_is_a_failure(stage: Stage) -> Result<()> {
    let session = session(&stage, json!({})).await?;
    ends(&stage, &session, "crash", "The session has failed", "Browser crashed").await
}
