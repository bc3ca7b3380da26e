//! What each route says of itself beside its handler, and the table by which a request finds it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use http::Method;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::openapi::Access;
use super::query::{Parameters, Rule};
use super::reply::Form;
use crate::dropin::hosted::Service;
use warmpool_core::error::closest;

/// The most segments of a path that logs and messages show.
const MAX_SHOWN: usize = 3;

/// What a route says of itself. A new route has to say who may call it, which form its errors have and what its path holds;
/// it takes no parameters unless it says which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(super) access: Access,
    pub(super) query: Rule,
    pub(super) form: Form,
    pub(super) segments: &'static [Segment],
    pub(super) traffic: Traffic,
    suggested: bool,
}

/// A parameter of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// The name in braces.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) names: Names,
}

/// What a parameter of a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// A session. An operator acts as the key that made it.
    Session,
    /// A task. An operator acts as the key that sent it.
    Task,
    /// Something that opens what it names: no log shows it, nor what follows it.
    Secret,
    /// Anything else.
    Other,
}

/// What kind of requests come to a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Calls that begin work, which traces show.
    Work,
    /// Other calls.
    Calls,
    /// Monitoring polls the route.
    Probes,
    /// Calls that come all the time, such as a driver's commands.
    Commands,
    /// The console reads its own pages.
    Console,
    /// Pages of the console ask whether they are signed in.
    SignedIn,
}

impl Segment {
    pub(crate) const fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, names: Names::Other }
    }

    pub(crate) const fn secret(name: &'static str, about: &'static str) -> Self {
        Self { name, about, names: Names::Secret }
    }
}

/// A route that a request has found.
#[derive(Debug)]
pub(crate) struct Route {
    /// `None` where it answers whatever no other route of its path does.
    method: Option<Method>,
    /// As the router has it.
    pub(super) path: String,
    pub(super) policy: Policy,
    pub(super) parameters: Parameters,
}

impl Route {
    /// The session or the task that this path of the route names.
    pub(super) fn owned<'a>(&self, path: &'a str) -> Option<(Names, &'a str)> {
        self.path.split('/').zip(path.split('/')).find_map(|(part, value)| match self.policy.names(part)? {
            names @ (Names::Session | Names::Task) => Some((names, value)),
            Names::Secret | Names::Other => None,
        })
    }
}

impl Policy {
    /// A route for callers of this service. `segments` are the parameters of its path, and of others that share the policy.
    pub(crate) const fn rest(access: Access, segments: &'static [Segment]) -> Self {
        Self { access, query: Rule::NONE, form: Form::Rest, segments, traffic: Traffic::Calls, suggested: false }
    }

    /// A route for clients of WebDriver, whose errors have the form of the W3C standard.
    pub(crate) const fn webdriver(access: Access, segments: &'static [Segment]) -> Self {
        Self::rest(access, segments).form(Form::WebDriver)
    }

    /// A route for clients of another service.
    pub(crate) const fn hosted(service: Service, segments: &'static [Segment]) -> Self {
        Self::rest(Access::Hosted(service), segments).form(Form::Hosted(service))
    }

    /// The same for other callers.
    pub(crate) const fn access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// The same with another form of errors.
    pub(crate) const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// It takes the fields of `T` as parameters, and no others.
    pub(crate) const fn takes<T: DeserializeOwned + JsonSchema>(self) -> Self {
        Self { query: Rule::only::<T>(), ..self }
    }

    /// It takes the fields of `T` as parameters, and others, each once.
    pub(crate) const fn takes_at_least<T: DeserializeOwned + JsonSchema>(self) -> Self {
        Self { query: Rule::at_least::<T>(), ..self }
    }

    /// Its query is a driver's to check, or nobody's.
    pub(crate) const fn takes_anything(self) -> Self {
        Self { query: Rule::UNCHECKED, ..self }
    }

    /// It takes no parameters.
    pub(crate) const fn takes_nothing(self) -> Self {
        Self { query: Rule::NONE, ..self }
    }

    /// What kind of requests come, for logs and traces.
    pub(crate) const fn of(self, traffic: Traffic) -> Self {
        Self { traffic, ..self }
    }

    /// Clients often mean it by a path that there is not.
    pub(crate) const fn suggested(self) -> Self {
        Self { suggested: true, ..self }
    }

    /// What a part of the route's path names; `None` when it stands for itself.
    fn names(&self, part: &str) -> Option<Names> {
        let name = parameter(part)?;
        let segment = self.segments.iter().find(|segment| segment.name == name);
        // What is not described may be anything.
        Some(segment.map_or(Names::Secret, |segment| segment.names))
    }
}

/// The name in braces, if the part of a path is one.
pub(super) fn parameter(part: &str) -> Option<&str> {
    let name = part.strip_prefix('{')?.strip_suffix('}')?;
    Some(name.strip_prefix('*').unwrap_or(name))
}

/// Every route, by its path.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    routes: HashMap<String, Vec<Arc<Route>>>,
    /// How many segments may be shown of paths that begin with this one.
    shown: HashMap<String, usize>,
    suggestions: Vec<String>,
}

impl RouteTable {
    /// Adds a route that answers this method, or where it is `None` all that no other route of the path answers.
    pub(super) fn add(&mut self, method: Option<Method>, path: &str, policy: Policy) {
        if policy.suggested && !path.contains('{') {
            self.suggestions.push(path.to_owned());
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let until_secret = parts.iter().position(|part| policy.names(part) == Some(Names::Secret));
        let shown = self.shown.entry(parts[0].to_owned()).or_insert(MAX_SHOWN);
        *shown = until_secret.map_or(*shown, |until| until.min(*shown));
        let route = Route { method, path: path.to_owned(), parameters: policy.query.parameters(), policy };
        self.routes.entry(path.to_owned()).or_default().push(Arc::new(route));
    }

    /// The route that a request leads to, and whether it answers the request's method.
    pub(super) fn find(&self, request: &Request) -> Option<(Arc<Route>, bool)> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        self.at(path, request.method())
    }

    pub(super) fn at(&self, path: &str, method: &Method) -> Option<(Arc<Route>, bool)> {
        let routes = self.routes.get(path)?;
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let named = routes.iter().find(|route| route.method.as_ref() == Some(method));
        let found = named.or_else(|| routes.iter().find(|route| route.method.is_none()));
        Some((Arc::clone(found.or_else(|| routes.first())?), found.is_some()))
    }

    /// A path as far as logs and messages may show it.
    pub(super) fn shown(&self, path: &str) -> String {
        let first = path.split('/').nth(1).unwrap_or_default();
        let shown = self.shown.get(first).copied().unwrap_or(MAX_SHOWN);
        path.split('/').skip(1).take(shown).fold(String::new(), |shown, part| format!("{shown}/{part}"))
    }

    /// The path that a client may mean by one that there is not, written in either way.
    pub(super) fn meant(&self, path: &str, shown: &str) -> Option<String> {
        let closest = |path| closest(path, self.suggestions.iter().map(String::as_str));
        closest(path).or_else(|| closest(shown)).map(str::to_owned)
    }
}

/// The form of errors for a path that no route has: that of its neighbours.
pub(super) fn form_of_unknown(path: &str) -> Form {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts[..] {
        ["session", ..] | ["wd", "hub", ..] | ["sessions", _, "webdriver", _, ..] => Form::WebDriver,
        _ => Form::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(path: &str) -> Form {
        let table = super::super::routes().table();
        let route = table.at(path, &Method::GET).map(|(route, _)| route.policy.form);
        route.unwrap_or_else(|| form_of_unknown(path))
    }

    #[test]
    fn webdriver_paths_answer_in_the_standards_form() {
        for path in [
            "/session",
            "/session/",
            "/session/{id}/{*command}",
            "/session/{id}/se/files",
            "/session/{id}/se/file",
            "/session/create",
            "/wd/hub/session",
            "/wd/hub/status",
            "/wd/hub/nonsense",
            "/sessions/ses_1/webdriver/token",
            "/sessions/{id}/webdriver/{token}/session",
            "/sessions/{id}/webdriver/{token}/status",
            "/sessions/{id}/webdriver/{token}/{*rest}",
        ] {
            assert_eq!(form(path), Form::WebDriver, "{path}");
        }
        for path in [
            "/",
            "/sessions",
            "/sessions/create",
            "/sessions/webdriver/create",
            "/sessions/{id}",
            "/sessions/ses_1/webdriver",
            "/sessions/{id}/bidi/{token}/{driver}",
            "/session/{id}/se/cdp",
            "/session/{id}/se/bidi",
            "/wd/hub/session/{id}/se/cdp",
            "/sessions/{id}/webdriver/{token}/session/{driver}/se/cdp",
            "/wd",
        ] {
            assert_eq!(form(path), Form::Rest, "{path}");
        }
    }

    #[test]
    fn what_is_shown_of_a_path_has_no_tokens() {
        let table = super::super::routes().table();
        for (path, shown) in [
            ("/sessions/ses_1/webdriver/TOKEN/session", "/sessions/ses_1/webdriver"),
            ("/sessions/ses_1/webdriver/TOKEN", "/sessions/ses_1/webdriver"),
            ("/sessions/ses_1/bidi/TOKEN/1", "/sessions/ses_1/bidi"),
            ("/session/ID/title", "/session"),
            ("/session/ID", "/session"),
            ("/wd/hub/session/ID/title", "/wd/hub/session"),
            ("/w/TOKEN/scene.json", "/w"),
            ("/w/TOKEN/no/such/file", "/w"),
            ("/nonsense/a/b/c", "/nonsense/a/b"),
            ("/status", "/status"),
            ("/", "/"),
        ] {
            assert_eq!(table.shown(path), shown, "{path}");
        }
    }

    #[test]
    fn an_operator_acts_as_the_owner_of_what_a_path_names() {
        let table = super::super::routes().table();
        for (path, request, owned) in [
            ("/sessions/{id}/files/{name}", "/sessions/ses_1/files/a", Some((Names::Session, "ses_1"))),
            ("/lam/tasks/{id}/retry", "/lam/tasks/tsk_1/retry", Some((Names::Task, "tsk_1"))),
            ("/session/{id}", "/session/ID", None),
            ("/v1/worlds/{id}", "/v1/worlds/1", None),
            ("/sessions", "/sessions", None),
        ] {
            let (route, _) = table.at(path, &Method::GET).unwrap();
            assert_eq!(route.owned(request), owned, "{path}");
        }
    }

    #[test]
    fn a_path_that_is_meant_is_one_of_the_services_own() {
        let table = super::super::routes().table();
        for (path, meant) in [
            ("/sesions", Some("/sessions")),
            ("/lam/taks", Some("/lam/tasks")),
            ("/json/versoin", Some("/json/version")),
            ("/doc", Some("/docs")),
            ("/consol/", Some("/console/")),
            ("/console/api/overviw", None),
            ("/nothing/like/it", None),
        ] {
            assert_eq!(table.meant(path, path).as_deref(), meant, "{path}");
        }
    }
}
