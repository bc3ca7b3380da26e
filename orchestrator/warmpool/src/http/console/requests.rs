//! The last requests: who asked for what, and the outcome. They contain no secrets.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use http::{Method, StatusCode};

use super::super::App;
use super::super::reply::{AuthMethod, RequestNotes};
use super::super::route::{Names, Route, Traffic};
use super::request_entry::RequestEntry;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::RequestId;

/// A request that is being answered.
pub(crate) struct RequestLine {
    at: u64,
    begun: Instant,
    id: RequestId,
    method: Method,
    route: Option<Arc<Route>>,
    /// The session or the task that its path names.
    named: Option<(Names, String)>,
}

impl RequestLine {
    pub(crate) fn begin(request: &Request, route: Option<&Arc<Route>>, id: RequestId) -> Self {
        let named = route.and_then(|route| route.owned(request.uri().path()));
        let named = named.map(|(names, value)| (names, value.to_owned()));
        Self {
            at: unix_ms(),
            begun: Instant::now(),
            id,
            method: request.method().clone(),
            route: route.cloned(),
            named,
        }
    }

    /// Enters it into the log, unless it is noise.
    pub(crate) fn end(self, app: &App, status: StatusCode, notes: &RequestNotes) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (key, by) = notes.caller.get().cloned().unzip();
        let failed = status.as_u16() >= 400;
        let traffic = self.route.as_ref().map_or(Traffic::Calls, |route| route.policy.traffic);
        if failed && !matches!(traffic, Traffic::Console | Traffic::SignedIn) {
            app.console.count_refusal();
        }
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        if !is_worth_noting(traffic, reads, failed, by) {
            return;
        }
        // Only known values are shown: anything else may be a secret in the wrong place.
        let (owner, session, task) = match self.named {
            Some((Names::Session, id)) => {
                let owner = app.sessions.owner(&id);
                (owner.clone(), owner.map(|_| id), None)
            }
            Some((_, id)) => (None, None, id.parse().ok()),
            None => (None, None, None),
        };
        let of_url = owner.filter(|_| !failed && key.is_none());
        let by = if of_url.is_some() { Some(AuthMethod::Url) } else { by };
        app.console.requests().add(RequestEntry {
            at: self.at,
            id: self.id,
            method: shown_method(&self.method),
            route: self.route.map_or_else(|| "…".to_owned(), |route| route.path.clone()),
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

/// A method of the standard's. Any other is a text of the caller's, as long as a head may be.
fn shown_method(method: &Method) -> String {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ];
    if known.contains(method) { method.to_string() } else { "…".to_owned() }
}

/// Requests that would push all others out of the log: reads of the console's own pages, probes, files of pages, and
/// thumbnails and driver commands that succeed.
fn is_worth_noting(traffic: Traffic, reads: bool, failed: bool, by: Option<AuthMethod>) -> bool {
    match traffic {
        // A page that is not signed in asks for its state.
        Traffic::SignedIn if reads => false,
        _ if failed => true,
        Traffic::Commands => false,
        Traffic::Probes | Traffic::Console => !reads,
        Traffic::Work | Traffic::Calls | Traffic::SignedIn => !reads || by != Some(AuthMethod::SignIn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_the_callers_own_is_not_kept() {
        assert_eq!(shown_method(&Method::DELETE), "DELETE");
        assert_eq!(shown_method(&Method::from_bytes(&[b'A'; 60_000]).unwrap()), "…");
    }

    #[test]
    fn what_comes_all_the_time_is_noted_only_where_it_fails() {
        let routes = super::super::super::routes().table();
        for (path, method, failed, by, noted) in [
            ("/sessions/create", Method::POST, false, Some(AuthMethod::Key), true),
            ("/sessions", Method::GET, false, Some(AuthMethod::Key), true),
            ("/sessions", Method::GET, false, Some(AuthMethod::SignIn), false),
            ("/sessions/{id}", Method::DELETE, false, Some(AuthMethod::SignIn), true),
            ("/status", Method::GET, false, None, false),
            ("/status", Method::GET, true, None, true),
            ("/console/{file}", Method::GET, false, None, false),
            ("/console/sign-in", Method::GET, true, None, false),
            ("/console/sign-in", Method::POST, true, None, true),
            ("/sessions/{id}/webdriver/{token}/session/{driver}/{*command}", Method::POST, false, None, false),
            ("/session/{id}/{*command}", Method::POST, true, Some(AuthMethod::Key), true),
        ] {
            let traffic = routes.at(path, &method).unwrap().0.policy.traffic;
            let reads = method == Method::GET;
            assert_eq!(is_worth_noting(traffic, reads, failed, by), noted, "{method} {path} {failed}");
        }
    }
}
