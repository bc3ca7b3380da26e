//! The routes, each with its description: what is served and what is described come from one list.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, middleware};
use http::Method;

use super::super::App;
use super::super::guard::check_query;
use super::operation::Operation;

/// Routes and their descriptions.
pub(crate) struct Routes {
    router: Router<App>,
    tag: &'static str,
    described: Vec<Described>,
    undescribed: Vec<(String, OmissionReason)>,
}

/// One method of one path.
pub(super) struct Described {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) tag: &'static str,
    pub(super) operation: Operation,
}

/// Why the description omits a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OmissionReason {
    /// It serves a page for people, a part of one, or what only such a page asks for.
    Page,
    /// It is another spelling of one that is described.
    Alias,
    /// It always refuses, and says what to do instead.
    Refusal,
}

impl Routes {
    /// No routes yet; those that are added stand under this heading.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { router: Router::new(), tag, described: Vec::new(), undescribed: Vec::new() }
    }

    pub(crate) fn get<H, T>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.route(path, checked(on(MethodFilter::GET, handler))).describe(Method::GET, path, operation)
    }

    pub(crate) fn post<H, T>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.route(path, checked(on(MethodFilter::POST, handler))).describe(Method::POST, path, operation)
    }

    pub(crate) fn put<H, T>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.route(path, checked(on(MethodFilter::PUT, handler))).describe(Method::PUT, path, operation)
    }

    pub(crate) fn delete<H, T>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.route(path, checked(on(MethodFilter::DELETE, handler))).describe(Method::DELETE, path, operation)
    }

    /// Answers the methods that the description does not name: what comes of them is a browser's driver's to say.
    pub(crate) fn other_methods<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let others = MethodFilter::PUT.or(MethodFilter::PATCH).or(MethodFilter::OPTIONS).or(MethodFilter::TRACE);
        self.route(path, checked(on(others, handler)))
    }

    /// Describes a method of a path.
    fn describe(mut self, method: Method, path: &str, operation: Operation) -> Self {
        self.described.push(Described { method, path: documented(path), tag: self.tag, operation });
        self
    }

    fn route(mut self, path: &str, handler: MethodRouter<App>) -> Self {
        self.router = self.router.route(path, handler);
        self
    }

    /// Adds a route that the description leaves out.
    pub(crate) fn undescribed(mut self, why: OmissionReason, path: &str, handler: MethodRouter<App>) -> Self {
        self.undescribed.push((path.to_owned(), why));
        // What always refuses has nothing to say of parameters.
        let handler = if why == OmissionReason::Refusal { handler } else { checked(handler) };
        self.route(path, handler)
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.described.extend(other.described);
        self.undescribed.extend(other.undescribed);
        self
    }

    /// Adds routes below a path.
    pub(crate) fn nest(mut self, path: &str, other: Self) -> Self {
        self.router = self.router.nest(path, other.router);
        let described = other.described.into_iter();
        self.described.extend(described.map(|route| Described { path: format!("{path}{}", route.path), ..route }));
        let undescribed = other.undescribed.into_iter();
        self.undescribed.extend(undescribed.map(|(below, why)| (format!("{path}{below}"), why)));
        self
    }

    /// What answers where no route matches.
    pub(crate) fn fallback<H, T>(mut self, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.router = self.router.fallback(handler);
        self
    }

    pub(super) fn described(&self) -> &[Described] {
        &self.described
    }

    pub(crate) fn into_router(self) -> Router<App> {
        self.router
    }
}

/// The same handlers, behind a check of the query.
fn checked(handlers: MethodRouter<App>) -> MethodRouter<App> {
    handlers.route_layer(middleware::from_fn(check_query))
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
    fn every_route_is_described_or_left_out_for_a_reason() {
        let routes = super::super::super::routes();
        let described: BTreeSet<String> = routes.described.iter().map(|route| route.path.clone()).collect();
        let left_out: BTreeSet<String> = routes.undescribed.iter().map(|(path, _)| documented(path)).collect();
        let routed = routed(&routes);
        assert!(routed.len() > 60, "{routed:?}");
        let known: BTreeSet<String> = described.union(&left_out).cloned().collect();
        let missing: Vec<_> = routed.difference(&known).collect();
        assert!(missing.is_empty(), "neither described nor left out: {missing:?}");
        let unrouted: Vec<_> = known.difference(&routed).collect();
        assert!(unrouted.is_empty(), "described, but not served: {unrouted:?}");
        assert!(described.is_disjoint(&left_out));
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let routes = super::super::super::routes();
        let mut seen = BTreeSet::new();
        for route in &routes.described {
            assert!(seen.insert((route.path.clone(), route.method.to_string())), "{} {}", route.method, route.path);
        }
    }
}
