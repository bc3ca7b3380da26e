//! `POST /graphql`: what Selenium Grid tells KEDA's scaler and dashboards of itself.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::auth::StatusCaller;
use super::body;
use super::openapi::{Access, AnyObject, Operation, Routes};
use super::peer::ClientAddress;
use super::route::{Policy, Traffic};
use super::status::grid_status;
use crate::http::error::Error;
use warmpool_core::browser::Engine;

/// A question in GraphQL.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "GridQuery")]
struct GridQuestion {
    /// What is wanted of `grid`, `nodesInfo` and `sessionsInfo`.
    query: Option<String>,
}

pub(super) fn routes() -> Routes {
    let policy = Policy::rest(Access::Status, &[]).of(Traffic::Probes);
    Routes::new("Selenium Grid").post(
        "/graphql",
        answer,
        Operation::new("query_grid", "What Selenium Grid tells of itself", policy)
            .about(
                "The one answer that KEDA's scaler `selenium-grid` and dashboards read: `grid`, `nodesInfo` and `sessionsInfo`, \
                 whole, whatever the query selects. The ids of sessions in it are made up and open nothing.",
            )
            .reads::<GridQuestion>(json!({"query": "{ grid { sessionCount, maxSession, totalSlots } }"}))
            .writes::<AnyObject>("The grid."),
    )
}

/// `POST /graphql`
async fn answer(
    State(app): State<App>,
    _: StatusCaller,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (_, _text) = body::keyless_json::<GridQuestion>(&app, address, &headers, body).await?;
    let engines: Vec<Engine> = app.sessions.all_live().iter().map(|session| session.options.engine).collect();
    let mut waiting = Vec::new();
    let mut browsers: BTreeMap<Engine, usize> = BTreeMap::new();
    for kind in app.pool.kinds().into_iter().filter(|kind| kind.installed) {
        waiting.extend(std::iter::repeat_n(kind.engine, kind.counts.waiting));
        *browsers.entry(kind.engine).or_default() += kind.counts.ready + kind.counts.leased;
    }
    let status = grid_status(&app);
    let node = &status.nodes[0];
    let grid = Grid {
        availability: &node.availability,
        version: &node.version,
        max: node.max_sessions,
        engines,
        waiting,
        browsers,
    };
    Ok(super::reply::json_reply(StatusCode::OK, &grid.answer()))
}

/// The daemon as a grid of one node.
struct Grid<'a> {
    availability: &'a str,
    version: &'a str,
    max: usize,
    /// Of the live sessions.
    engines: Vec<Engine>,
    /// Of those who wait for a worker.
    waiting: Vec<Engine>,
    /// How many browsers of each installed engine there are, used or ready. The scaler takes these for the slots: were they as many as
    /// sessions are allowed, it would see room for those who wait on a cluster that is full, and add none.
    browsers: BTreeMap<Engine, usize>,
}

impl Grid<'_> {
    fn answer(&self) -> Value {
        let sessions: Vec<Value> = (1..).zip(&self.engines).map(|(number, engine)| session(number, *engine)).collect();
        let stereotypes: Vec<Value> = self
            .browsers
            .iter()
            .map(|(engine, browsers)| json!({"slots": browsers, "stereotype": capabilities(*engine)}))
            .collect();
        let slots: usize = self.browsers.values().sum();
        let requests: Vec<String> = self.waiting.iter().map(|engine| capabilities(*engine).to_string()).collect();
        let (count, version) = (sessions.len(), self.version);
        json!({"data": {
            "grid": {
                "uri": "",
                "version": version,
                "nodeCount": 1,
                "sessionCount": count,
                "maxSession": self.max,
                "totalSlots": slots,
                "sessionQueueSize": requests.len(),
            },
            "nodesInfo": {"nodes": [{
                "id": "warmpool",
                "uri": "",
                "status": self.availability,
                "version": version,
                "sessionCount": count,
                "maxSession": self.max,
                "slotCount": slots,
                "stereotypes": Value::from(stereotypes).to_string(),
                "sessions": sessions,
            }]},
            "sessionsInfo": {"sessionQueueRequests": requests, "sessions": sessions},
        }})
    }
}

/// A session. Its number is made up: what a grid calls a session opens it.
fn session(number: usize, engine: Engine) -> Value {
    let stereotype = capabilities(engine).to_string();
    json!({
        "id": format!("session-{number}"),
        "capabilities": stereotype,
        "nodeId": "warmpool",
        "slot": {"id": format!("slot-{number}"), "stereotype": stereotype},
    })
}

/// What a client of a grid asks for to get this engine. In GraphQL's answer it is JSON in a string.
fn capabilities(engine: Engine) -> Value {
    json!({"browserName": engine.browser_name(), "platformName": "linux"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scaler_finds_what_it_reads() {
        let grid = Grid {
            availability: "UP",
            version: "1",
            max: 4,
            engines: vec![Engine::Chromium],
            waiting: vec![Engine::Firefox, Engine::Firefox],
            browsers: BTreeMap::from([(Engine::Chromium, 3), (Engine::Firefox, 0)]),
        };
        let data = grid.answer()["data"].clone();
        assert_eq!((&data["grid"]["sessionCount"], &data["grid"]["maxSession"]), (&json!(1), &json!(4)));
        assert_eq!(data["grid"]["sessionQueueSize"], 2);
        let node = &data["nodesInfo"]["nodes"][0];
        let stereotypes: Value = serde_json::from_str(node["stereotypes"].as_str().unwrap()).unwrap();
        assert_eq!((&stereotypes[0]["slots"], &data["grid"]["totalSlots"]), (&json!(3), &json!(3)));
        // Nobody who waits finds a free slot, so the scaler asks for room.
        assert_eq!(
            (&stereotypes[1]["slots"], &stereotypes[1]["stereotype"]["browserName"]),
            (&json!(0), &json!("firefox"))
        );
        let capabilities: Value = serde_json::from_str(node["sessions"][0]["capabilities"].as_str().unwrap()).unwrap();
        assert_eq!(capabilities, json!({"browserName": "chrome", "platformName": "linux"}));
        let request = data["sessionsInfo"]["sessionQueueRequests"][0].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(request).unwrap()["browserName"], "firefox");
    }
}
