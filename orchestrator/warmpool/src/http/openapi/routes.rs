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
    /// The path, unless it was put together.
    literal: Option<&'static str>,
    tag: &'static str,
    about: About,
}

/// What a route says of itself.
enum About {
    Described(Box<Operation>),
    Omitted(OmissionReason, Policy),
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
    /// What comes of the method is a browser's driver's to say.
    DriverMethod,
}

impl Entry {
    const fn policy(&self) -> Policy {
        match &self.about {
            About::Described(operation) => operation.policy(),
            About::Omitted(_, policy) => *policy,
        }
    }
}

impl Routes {
    /// No routes yet; those that are added stand under this heading.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { router: Router::new(), tag, entries: Vec::new() }
    }

    pub(crate) fn get<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H, about: Operation) -> Self {
        self.describe(Method::GET, path, on(MethodFilter::GET, handler), about)
    }

    pub(crate) fn post<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H, about: Operation) -> Self {
        self.describe(Method::POST, path, on(MethodFilter::POST, handler), about)
    }

    pub(crate) fn put<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H, about: Operation) -> Self {
        self.describe(Method::PUT, path, on(MethodFilter::PUT, handler), about)
    }

    pub(crate) fn delete<H: Handler<T, App>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        about: Operation,
    ) -> Self {
        self.describe(Method::DELETE, path, on(MethodFilter::DELETE, handler), about)
    }

    fn describe(self, method: Method, path: &'static str, handler: MethodRouter<App>, about: Operation) -> Self {
        self.add(Some(method), path, Some(path), handler, About::Described(Box::new(about)))
    }

    /// Answers the methods that a driver knows and the description does not.
    pub(crate) fn other_methods<H, T>(self, path: &str, handler: H, policy: Policy) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let others = MethodFilter::PUT.or(MethodFilter::PATCH).or(MethodFilter::OPTIONS).or(MethodFilter::TRACE);
        self.add(None, path, None, on(others, handler), About::Omitted(OmissionReason::DriverMethod, policy))
    }

    /// Adds a route that the description leaves out.
    pub(crate) fn undescribed(
        self,
        why: OmissionReason,
        path: &str,
        handler: MethodRouter<App>,
        policy: Policy,
    ) -> Self {
        self.add(None, path, None, handler, About::Omitted(why, policy))
    }

    fn add(
        mut self,
        method: Option<Method>,
        path: &str,
        literal: Option<&'static str>,
        handler: MethodRouter<App>,
        about: About,
    ) -> Self {
        self.router = self.router.route(path, handler);
        self.entries.push(Entry { method, path: path.to_owned(), literal, tag: self.tag, about });
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
        let below = |entry: Entry| Entry { path: format!("{path}{}", entry.path), literal: None, ..entry };
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
        self.entries.iter().filter_map(|entry| match (&entry.method, &entry.about) {
            (Some(method), About::Described(operation)) => {
                Some((method, documented(&entry.path), entry.tag, &**operation))
            }
            _ => None,
        })
    }

    /// What all routes say of themselves, by their paths.
    pub(crate) fn table(&self) -> RouteTable {
        let mut table = RouteTable::default();
        for entry in &self.entries {
            table.add(entry.method.clone(), entry.literal, &entry.path, entry.policy());
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
    fn every_route_is_described_or_left_out_for_a_reason() {
        let routes = super::super::super::routes();
        let described: BTreeSet<String> = routes.described().map(|(_, path, ..)| path).collect();
        let left_out = |entry: &&Entry| match entry.about {
            About::Described(_) => false,
            About::Omitted(why, _) => why != OmissionReason::DriverMethod,
        };
        let left_out: BTreeSet<String> =
            routes.entries.iter().filter(left_out).map(|entry| documented(&entry.path)).collect();
        let routed = routed(&routes);
        assert!(routed.len() > 60, "{routed:?}");
        let known: BTreeSet<String> = described.union(&left_out).cloned().collect();
        assert_eq!(routed, known);
        assert!(described.is_disjoint(&left_out));
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
                let segments = entry.policy().segments;
                assert!(segments.iter().any(|segment| segment.name == name), "{name} of {}", entry.path);
            }
        }
    }
}
