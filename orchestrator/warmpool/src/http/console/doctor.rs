//! `GET /console/api/doctor`: what `warmpool doctor` finds on this host, for operators.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::App;
use super::super::reply::json_reply;
use super::super::sign_in::Operator;
use crate::doctor::{self, Facts, Port, RuntimeFacts};
use crate::http::error::Error;
use warmpool_core::clock::unix_ms;
use warmpool_core::error::ServiceFault as _;

/// Time between two examinations. Requests in between get the last result.
const FRESH: Duration = Duration::from_secs(5);

/// `GET /console/api/doctor`
pub(super) async fn show(State(app): State<App>, _: Operator) -> Result<Response, Error> {
    // Concurrent requests wait for the same examination.
    let mut last = app.console.findings().lock().await;
    if let Some((_, found)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        return Ok(json_reply(StatusCode::OK, found));
    }
    let config = Arc::clone(&app.config);
    let said = RuntimeFacts::ask(&config).await;
    let gathering = tokio::task::spawn_blocking(move || Facts::gather(&config, said));
    let mut facts = gathering.await.map_err(Error::internal)?;
    // This daemon itself has the port, whatever its file is called.
    facts.port = Port::Taken(Some(("warmpool".to_owned(), std::process::id())));
    let findings = doctor::check(&facts);
    let found = json!({"ok": doctor::healthy(&findings), "findings": findings, "at": unix_ms()});
    *last = Some((Instant::now(), found.clone()));
    Ok(json_reply(StatusCode::OK, &found))
}
