//! The routes, each with its description: what is served and what is described come from one list.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;

use super::super::App;
use super::super::route::{Policy, RouteTable};
use super::operation::Operation;

/// Routes and what each says of itself.
pub(crate) struct Routes {
    router: Router<App>,
    tag: &'static str,
    entries: Vec<Entry>,
}

/// One method of one path.
struct Entry {
    /// `None` where the handler answers whatever comes.
    method: Option<Method>,
    path: String,
    tag: &'static str,
    policy: Policy,
    /// `None` where the description leaves the route out.
    operation: Option<Operation>,
}

impl Routes {
    /// No routes yet; those that are added stand under this heading.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { router: Router::new(), tag, entries: Vec::new() }
    }

    pub(crate) fn get<H: Handler<T, App>, T: 'static>(self, path: &str, handler: H, about: Operation) -> Self {
        self.describe(Method::GET, path, on(MethodFilter::GET, handler), about)
    }

    pub(crate) fn post<H: Handler<T, App>, T: 'static>(self, path: &str, handler: H, about: Operation) -> Self {
        self.describe(Method::POST, path, on(MethodFilter::POST, handler), about)
    }

    pub(crate) fn put<H: Handler<T, App>, T: 'static>(self, path: &str, handler: H, about: Operation) -> Self {
        self.describe(Method::PUT, path, on(MethodFilter::PUT, handler), about)
    }

    pub(crate) fn delete<H: Handler<T, App>, T: 'static>(self, path: &str, handler: H, about: Operation) -> Self {
        self.describe(Method::DELETE, path, on(MethodFilter::DELETE, handler), about)
    }

    fn describe(self, method: Method, path: &str, handler: MethodRouter<App>, about: Operation) -> Self {
        self.add(Some(method), path, handler, about.policy(), Some(about))
    }

    /// Answers the methods that a driver knows and the description does not.
    pub(crate) fn other_methods<H, T>(self, path: &str, handler: H, policy: Policy) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let others = MethodFilter::PUT.or(MethodFilter::PATCH).or(MethodFilter::OPTIONS).or(MethodFilter::TRACE);
        self.undescribed(path, on(others, handler), policy)
    }

    /// Adds a route that the description leaves out: a page for people or what only such a page asks for, another spelling,
    /// or a path that always refuses.
    pub(crate) fn undescribed(self, path: &str, handler: MethodRouter<App>, policy: Policy) -> Self {
        self.add(None, path, handler, policy, None)
    }

    fn add(
        mut self,
        method: Option<Method>,
        path: &str,
        handler: MethodRouter<App>,
        policy: Policy,
        operation: Option<Operation>,
    ) -> Self {
        self.router = self.router.route(path, handler);
        self.entries.push(Entry { method, path: path.to_owned(), tag: self.tag, policy, operation });
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.entries.extend(other.entries);
        self
    }

    /// Adds routes below a path.
    pub(crate) fn nest(mut self, path: &str, other: Self) -> Self {
        self.router = self.router.nest(path, other.router);
        let below = |entry: Entry| Entry { path: format!("{path}{}", entry.path), ..entry };
        self.entries.extend(other.entries.into_iter().map(below));
        self
    }

    /// What answers where no route matches.
    pub(crate) fn fallback<H: Handler<T, App>, T: 'static>(mut self, handler: H) -> Self {
        self.router = self.router.fallback(handler);
        self
    }

    /// Each operation with its method, its path as OpenAPI writes it, and its heading.
    pub(super) fn described(&self) -> impl Iterator<Item = (&Method, String, &'static str, &Operation)> {
        self.entries.iter().filter_map(|entry| {
            Some((entry.method.as_ref()?, documented(&entry.path), entry.tag, entry.operation.as_ref()?))
        })
    }

    /// What all routes say of themselves, by their paths.
    pub(crate) fn table(&self) -> RouteTable {
        let mut table = RouteTable::default();
        for entry in &self.entries {
            table.add(entry.method.clone(), &entry.path, entry.policy);
        }
        table
    }

    pub(crate) fn into_router(self) -> Router<App> {
        self.router
    }
}

/// A path as OpenAPI writes it: what takes the rest of a path is a name like any other.
fn documented(path: &str) -> String {
    path.replace("{*", "{")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the router itself says that it has.
    fn routed(routes: &Routes) -> BTreeSet<String> {
        let text = format!("{:?}", routes.router);
        let paths = text.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
        // What other routes are nested below is no route itself.
        paths.filter(|path| *path != "/wd/hub" && !path.contains("{*__private__")).map(documented).collect()
    }

    #[test]
    fn every_route_has_an_entry() {
        let routes = super::super::super::routes();
        let known: BTreeSet<String> = routes.entries.iter().map(|entry| documented(&entry.path)).collect();
        assert!(known.len() > 60, "{known:?}");
        assert_eq!(routed(&routes), known);
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let routes = super::super::super::routes();
        let mut seen = BTreeSet::new();
        for (method, path, ..) in routes.described() {
            assert!(seen.insert((path.clone(), method.to_string())), "{method} {path}");
        }
    }

    #[test]
    fn every_parameter_of_a_path_is_described() {
        let routes = super::super::super::routes();
        for entry in &routes.entries {
            for name in entry.path.split('/').filter_map(super::super::super::route::parameter) {
                let segments = entry.policy.segments;
                assert!(segments.iter().any(|segment| segment.name == name), "{name} of {}", entry.path);
            }
        }
    }
}
