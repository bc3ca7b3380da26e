//! The last requests: who asked for what, and the outcome. They contain no secrets.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use http::{Method, StatusCode};

use super::super::App;
use super::super::reply::{AuthMethod, RequestNotes};
use super::request_entry::RequestEntry;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::RequestId;

/// The routes that monitoring polls.
const PROBES: [&str; 7] = ["/healthz", "/readyz", "/status", "/metrics", "/ping", "/wd/hub/status", "/pressure"];

/// A request that is being answered.
pub(crate) struct RequestLine {
    at: u64,
    begun: Instant,
    id: RequestId,
    method: Method,
    route: Option<String>,
    named: Option<String>,
}

impl RequestLine {
    pub(crate) fn begin(request: &Request, id: RequestId) -> Self {
        let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
        let part = match route.as_deref() {
            Some(route) if route.starts_with("/sessions/{id}") => Some(2),
            Some(route) if route.starts_with("/lam/tasks/{id}") => Some(3),
            _ => None,
        };
        let named = part.and_then(|part| request.uri().path().split('/').nth(part)).map(str::to_owned);
        Self { at: unix_ms(), begun: Instant::now(), id, method: request.method().clone(), route, named }
    }

    /// Enters it into the log, unless it is noise.
    pub(crate) fn end(self, app: &App, status: StatusCode, notes: &RequestNotes) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (key, by) = notes.caller.get().cloned().unzip();
        let failed = status.as_u16() >= 400;
        let of_console = self.route.as_deref().is_some_and(|route| route.starts_with("/console"));
        if failed && !of_console {
            app.console.count_refusal();
        }
        let route = self.route.as_deref().unwrap_or("…");
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        if !is_worth_noting(route, reads, failed, by) {
            return;
        }
        // Only known values are shown: anything else may be a secret in the wrong place.
        let owner = self.named.as_deref().and_then(|id| app.sessions.owner(id));
        let session = self.named.clone().filter(|_| owner.is_some());
        let task = self.named.filter(|_| route.starts_with("/lam")).and_then(|id| id.parse().ok());
        let of_url = owner.filter(|_| !failed && key.is_none());
        let by = if of_url.is_some() { Some(AuthMethod::Url) } else { by };
        app.console.requests().add(RequestEntry {
            at: self.at,
            id: self.id,
            method: self.method.to_string(),
            route: route.to_owned(),
            session,
            task,
            key_id: key.or(of_url),
            by,
            status: status.as_u16(),
            code: notes.code.get().copied(),
            micros,
        });
    }
}

/// Requests that would push all others out of the log: reads of the console's own pages, probes, files of pages, and
/// thumbnails and driver commands that succeed.
fn is_worth_noting(route: &str, reads: bool, failed: bool, by: Option<AuthMethod>) -> bool {
    let quiet = reads && (by == Some(AuthMethod::SignIn) || PROBES.contains(&route) || route.starts_with("/console"));
    let command = route.contains("/session/{driver}") || route == "/sessions/{id}/thumbnail";
    // A page that is not signed in asks for its state.
    let asks = reads && route == "/console/sign-in";
    (failed || !(quiet || command)) && !asks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_all_the_time_is_noted_only_where_it_fails() {
        for (route, reads, failed, by, noted) in [
            ("/sessions/create", false, false, Some(AuthMethod::Key), true),
            ("/sessions", true, false, Some(AuthMethod::Key), true),
            ("/sessions", true, false, Some(AuthMethod::SignIn), false),
            ("/sessions/{id}", false, false, Some(AuthMethod::SignIn), true),
            ("/status", true, false, None, false),
            ("/status", true, true, None, true),
            ("/console/{file}", true, false, None, false),
            ("/console/sign-in", true, true, None, false),
            ("/console/sign-in", false, true, None, true),
            ("/sessions/{id}/webdriver/{token}/session/{driver}/{*command}", false, false, None, false),
            ("/session/{driver}/{*command}", false, true, Some(AuthMethod::Key), true),
        ] {
            assert_eq!(is_worth_noting(route, reads, failed, by), noted, "{route} {reads} {failed}");
        }
    }
}
