//! `GET /console/api/log`: the last requests, and for operators the last lines of the daemon's log.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::super::App;
use super::super::auth::Scope;
use super::super::reply::json_reply;
use crate::telemetry;

/// `GET /console/api/log`, oldest first.
pub(super) async fn show(State(app): State<App>, scope: Scope) -> Response {
    let mut requests = app.console.requests().all();
    requests.retain(|entry| scope.sees(entry.key_id.as_ref()));
    let lines = if scope == Scope::All { telemetry::lines().all() } else { Vec::new() };
    let requests: Vec<_> = requests.iter().map(|entry| &**entry).collect();
    let lines: Vec<_> = lines.iter().map(|line| &**line).collect();
    let kept = app.config.console.log_entries;
    json_reply(StatusCode::OK, &json!({"requests": requests, "lines": lines, "kept": kept}))
}
