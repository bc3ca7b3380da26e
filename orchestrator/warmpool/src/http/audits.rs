//! Audits by Lighthouse, at the address of browserless's REST: `/performance`, also below the prefixes of Chromium's calls.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use http::request::Parts;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::App;
use super::console;
use super::create;
use super::functions::without_script;
use super::openapi::{Operation, Routes};
use super::pages::{FAILURES, POLICY, PREFIXES, PageQuery, carry_out_json};
use super::query::Query;
use crate::http::error::Error;
use warmpool_pages::{AuditCall, PerformanceBody, Script};

/// Lighthouse, as a script for pages.
const LIGHTHOUSE: &str = "audit.js.gz";

pub(super) fn routes(routes: Routes) -> Routes {
    let operation = Operation::new("audit_page", "A page's audit by Lighthouse", POLICY.suggested())
        .about(
            "Lighthouse opens the page in a fresh Chromium, which ends with the call. The call takes Lighthouse's own configuration, \
             and answers with Lighthouse's own result. An audit takes some ten seconds: allow more than `pages.timeout` by `timeout` \
             for pages that are slow to come to rest.",
        )
        .reads::<PerformanceBody>(json!({
            "url": "https://example.com/",
            "config": {"settings": {"onlyCategories": ["accessibility"], "formFactor": "desktop"}},
        }))
        .writes::<Audited>("The result.")
        .fails(FAILURES)
        .fails(create::FAILURES)
        .fails(create::PROFILE_FAILURES);
    let routes = routes.post("/performance", audit, operation);
    PREFIXES
        .into_iter()
        .fold(routes, |routes, prefix| routes.undescribed(&format!("{prefix}/performance"), post(audit), POLICY))
}

/// What Lighthouse found.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct Audited {
    /// Lighthouse's result: among others `categories` with their scores, `audits`, and `lighthouseVersion`.
    data: Map<String, Value>,
    /// `json`.
    r#type: String,
}

/// `POST /performance`
async fn audit(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
    parts: Parts,
    body: Body,
) -> Result<Response, Error> {
    let call = |body: PerformanceBody, engine| {
        let script = console::bytes(LIGHTHOUSE).ok_or_else(without_script)?;
        Ok(AuditCall::new(body, Script::Gzip(script), engine)?)
    };
    carry_out_json(&app, &query, &parts, body, call).await
}
