//! What every request passes: an id and a span, the checks that keep foreign web pages out, and that of its query; what
//! becomes of a handler's panic; and what every answer passes: the question whether its caller may still have it.
//!
//! [`guard`] is the outermost layer and sees each request and each answer; [`answer`] is the innermost, so that whatever it answers
//! passes [`cors`](super::cors), which lies between the two.

use std::net::SocketAddrV4;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, HeaderName, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use percent_encoding::percent_decode_str;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use url::{Host, Origin, Url};

use super::App;
use super::console::RequestLine;
use super::peer::{ClientAddress, Peer, SeenAs};
use super::reply::{self, REQUEST, RequestContext, RequestNotes};
use super::revocation;
use super::route::{Route, RouteTable, Traffic, form_of_unknown};
use crate::http::error::Error;
use crate::telemetry::continue_trace;
use warmpool_config::Config;
use warmpool_core::address;
use warmpool_core::drain::Phase;
use warmpool_core::error::{FieldFault as _, ServiceError};
use warmpool_core::ids::RequestId;
use warmpool_core::panics::contained;
use warmpool_core::trace::TRACES;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Runs a request under an id of its own, after checking Host, Origin and the query.
pub(super) async fn guard(
    State((app, routes)): State<(App, Arc<RouteTable>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::random();
    let found = routes.find(&request);
    let route = found.as_ref().map(|(route, _)| Arc::clone(route));
    let path = routes.shown(request.uri().path());
    let form = route.as_ref().map_or_else(|| form_of_unknown(request.uri().path()), |route| route.policy.form);
    let span = tracing::info_span!("request", id = %id, method = %request.method(), route = path);
    let traced = traced(&request, route.as_deref());
    let header = HeaderValue::try_from(id.as_str());
    let notes = Arc::<RequestNotes>::default();
    let address = ClientAddress::of(&app.config, request.extensions(), request.headers());
    let answers = app.answers.clone();
    let asked = RequestContext { id: id.clone(), form, path, address, answers, notes: Arc::clone(&notes) };
    let line = RequestLine::begin(&request, route.as_ref(), id);
    request.extensions_mut().insert(routes);
    let work = async {
        let seen = SeenAs::of(&app.config, request.extensions().get::<Peer>().copied(), request.headers());
        let checked = check(&app.config, request.version(), request.headers(), seen)
            .and_then(|()| check_path(request.uri().path()))
            .and_then(|()| match (&found, request.uri().query()) {
                // A path or a method that there is not comes first.
                (Some((route, true)), Some(query)) => route.parameters.check(query),
                _ => Ok(()),
            })
            .and_then(|()| check_phase(app.drain.phase(), route.as_deref()));
        match checked {
            // No other page could read it, nor may one learn from its preflight request that it might call.
            Err(error) if !is_of_allowed_site(&app.config, request.headers()) => return error.into_response(),
            Err(error) => {
                request.extensions_mut().insert(Refusal(Arc::new(error)));
            }
            Ok(()) => {
                if let Some(route) = route {
                    request.extensions_mut().insert(route);
                }
            }
        }
        next.run(request).await
    };
    let work = async {
        let response = work.await;
        note_status(response.status());
        response
    };
    let response = REQUEST.scope(asked, work.instrument(traced).instrument(span)).await;
    let mut response = revocation::hold(&app, notes.credential.get(), response);
    if let Ok(header) = header {
        response.headers_mut().insert(X_REQUEST_ID, header);
    }
    line.end(&app, response.status(), &notes);
    response
}

/// Why a request of an allowed site's page is refused.
#[derive(Clone)]
struct Refusal(Arc<Error>);

/// Says why the request is refused, or lets its handler answer.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    if let Some(Refusal(error)) = request.extensions().get::<Refusal>() {
        return error.response();
    }
    unless_it_panics(next.run(request)).await
}

/// Once the daemon leaves its sessions to the next start, it closes the store, and nothing may be told done that the store might not
/// have. Probes only look.
fn check_phase(phase: Phase, route: Option<&Route>) -> Result<(), Error> {
    let is_probe = route.is_some_and(|route| route.policy.traffic == Traffic::Probes);
    if phase >= Phase::Leaving && !is_probe { Err(ServiceError::Draining.into()) } else { Ok(()) }
}

/// A handler's answer. One that panicked answers with an internal error, and its connection lives.
async fn unless_it_panics(handler: impl Future<Output = Response>) -> Response {
    contained(handler).await.unwrap_or_else(reply::panicked)
}

/// The request's span in a trace, if it is one of those that traces have. It names the route, whose path has no token.
fn traced(request: &Request, route: Option<&Route>) -> Span {
    // Commands of drivers, lists and probes would hide what matters.
    let begins_work = |route: &&Route| route.policy.traffic == Traffic::Work || request.headers().contains_key(UPGRADE);
    let Some(route) = route.filter(begins_work) else { return Span::none() };
    let (method, route) = (request.method(), route.path.as_str());
    let span = tracing::info_span!(
        target: TRACES,
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %method,
        http.route = route,
        http.response.status_code = Empty,
        error.type = Empty,
    );
    continue_trace(&span, request.headers());
    span
}

fn note_status(status: StatusCode) {
    let span = Span::current();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// Whether a browser could not have been led here by a page of somebody else.
///
/// A name that is not ours in `Host` is what DNS rebinding sends; an address is not, since a page that can make the
/// browser say it is already served from it. Browsers always send `Host`; load balancers' probes by HTTP/1.0 do not. `Origin` is
/// sent by web pages only: they must be ours.
pub(super) fn check(config: &Config, version: Version, headers: &HeaderMap, seen: SeenAs<'_>) -> Result<(), Error> {
    // A proxy in front may trust the other one.
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(Error::invalid("Host", "is given twice: send one value"));
    }
    let named = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
    match named {
        Some(host) if host_is_ours(config, host) => {}
        Some(host) => return Err(Error::ForeignHost { host: host.chars().take(100).collect() }),
        None if version == Version::HTTP_10 => {}
        None => return Err(Error::invalid("Host", "is missing, and HTTP/1.1 needs it: send the host's name and port")),
    }
    // A proxy that passes a client's own word on may name anything.
    let host = seen.host.filter(|host| host_is_ours(config, host)).or(named).unwrap_or_default();
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().unwrap_or("?");
        if !origin_is_ours(config, origin, host, seen.secure) {
            return Err(Error::ForeignOrigin { origin: origin.chars().take(100).collect() });
        }
    }
    Ok(())
}

/// What is no text can name nothing here.
pub(super) fn check_path(path: &str) -> Result<(), Error> {
    match percent_decode_str(path).decode_utf8() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::invalid("path", "must be UTF-8, percent-encoded")),
    }
}

fn host_is_ours(config: &Config, host: &str) -> bool {
    // What most clients send, without the cost of a URL.
    if host.parse::<SocketAddrV4>().is_ok() {
        return true;
    }
    let Ok(url) = Url::parse(&format!("http://{host}/")) else { return false };
    if url.username() != "" || url.password().is_some() || url.path() != "/" || url.query().is_some() {
        return false;
    }
    let name = match url.host_str().and_then(address::host) {
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => return true,
        Some(Host::Domain(name)) => name,
        None => return false,
    };
    address::is_localhost(&name)
        || config.server.public_url.as_ref().and_then(Url::host_str) == Some(name.as_str())
        || config.server.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

/// Whether a page of a site in `server.allowed_origins` sent the request, as its browser says.
fn is_of_allowed_site(config: &Config, headers: &HeaderMap) -> bool {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.and_then(|origin| Url::parse(origin).ok()).is_some_and(|url| is_allowed(config, &url.origin()))
}

fn is_allowed(config: &Config, origin: &Origin) -> bool {
    let allowed = &config.server.allowed_origins;
    allowed.iter().any(|allowed| Url::parse(allowed).is_ok_and(|allowed| allowed.origin() == *origin))
}

fn origin_is_ours(config: &Config, origin: &str, host: &str, secure: bool) -> bool {
    let Ok(url) = Url::parse(origin) else { return false };
    let origin = url.origin();
    if !origin.is_tuple() {
        return false;
    }
    let scheme = if secure { "https" } else { "http" };
    let own = Url::parse(&format!("{scheme}://{host}/")).ok();
    own.is_some_and(|own| own.origin() == origin)
        || config.server.public_url.as_ref().is_some_and(|public| public.origin() == origin)
        || is_allowed(config, &origin)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::super::cors;
    use super::*;
    use warmpool_config::{Flags, Host as Machine};
    use warmpool_core::error::Fault as _;

    fn config(env: &[(&str, &str)]) -> Config {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::resolve(
            None,
            env,
            &Flags::default(),
            &Machine { memory: 8 << 30, cores: 2, root: true, ..Machine::default() },
        )
        .unwrap()
    }

    #[tokio::test]
    async fn a_handler_that_panics_answers_without_what_it_said() {
        let answer = unless_it_panics(async { panic!("the secret is {}", std::hint::black_box("WP-1")) }).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains("internal") && !text.contains("WP-1"), "{text}");
        let whole = unless_it_panics(async { StatusCode::NO_CONTENT.into_response() }).await;
        assert_eq!(whole.status(), StatusCode::NO_CONTENT);
    }

    #[tokio::test]
    async fn a_page_of_an_allowed_site_reads_why_it_gets_nothing() {
        async fn fails() -> StatusCode {
            assert!(!std::hint::black_box(true), "as it should");
            StatusCode::OK
        }
        let config = config(&[("WARMPOOL_SERVER_ALLOWED_ORIGINS", "https://app.example")]);
        let app: Router = cors::readable(Router::new().route("/", get(fails)), &config);
        let refusal = Refusal(Arc::new(Error::invalid("limit", "is given twice")));
        for (refusal, status) in [(Some(refusal), StatusCode::BAD_REQUEST), (None, StatusCode::INTERNAL_SERVER_ERROR)] {
            let mut request = Request::new(Body::empty());
            request.headers_mut().insert(ORIGIN, HeaderValue::from_static("https://app.example"));
            if let Some(refusal) = refusal {
                request.extensions_mut().insert(refusal);
            }
            let answer = app.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example", "{status}");
        }
        let allowed = |origin: &'static str| {
            is_of_allowed_site(&config, &HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]))
        };
        assert!(allowed("https://app.example"));
        assert!(!allowed("http://localhost:4444") && !allowed("https://evil.test") && !allowed("null"));
        assert!(!is_of_allowed_site(&config, &HeaderMap::new()));
    }

    #[test]
    fn a_path_is_text() {
        for path in ["/", "/sessions/ses_1/files/b%C3%BCro", "/a%2fb", "/100%", "/%zz", "/%2", "/%00"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in ["/%ff", "/a%C3", "/%C3%28"] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_daemon_that_leaves_its_sessions_answers_probes_alone() {
        let routes = super::super::routes().table();
        let checked = |phase, path| {
            let route = routes.at(path, &http::Method::GET).map(|(route, _)| route);
            check_phase(phase, route.as_deref())
        };
        for path in ["/healthz", "/readyz", "/sessions", "/no/such/path"] {
            assert!(checked(Phase::Draining, path).is_ok(), "{path}");
        }
        for path in ["/healthz", "/readyz", "/status", "/metrics"] {
            assert!(checked(Phase::Leaving, path).is_ok(), "{path}");
        }
        for path in ["/sessions", "/lam/tasks", "/no/such/path"] {
            let refused = checked(Phase::Leaving, path);
            assert!(matches!(refused, Err(Error::Service(ServiceError::Draining))), "{path}");
        }
    }

    #[test]
    fn only_our_own_names_are_served() {
        let config = config(&[("WARMPOOL_SERVER_ALLOWED_HOSTS", "pool.example")]);
        for host in ["localhost:4444", "127.0.0.1:4444", "[::1]:4444", "10.0.0.7", "pool.example", "POOL.example:80"] {
            assert!(host_is_ours(&config, host), "{host}");
        }
        for host in ["", "evil.test", "127.0.0.1.evil.com", "pool.example.evil.com", "a@localhost", "localhost/x", "?"]
        {
            assert!(!host_is_ours(&config, host), "{host}");
        }
    }

    #[test]
    fn containers_beside_the_daemons_call_it_by_its_service() {
        let compose = include_str!("../../../../deploy/compose.yaml");
        let stack = include_str!("../../../../deploy/swarm.yml");
        for (file, service, hosts) in
            [(compose, "  warmpool:", &["warmpool"][..]), (stack, "  daemon:", &["daemon", "warmpool_daemon"][..])]
        {
            assert!(file.lines().any(|line| line == service), "{file}");
            let mut lines = file.lines().map(str::trim);
            let allowed = lines.find_map(|line| line.strip_prefix("WARMPOOL_SERVER_ALLOWED_HOSTS: ")).unwrap();
            let config = config(&[("WARMPOOL_SERVER_ALLOWED_HOSTS", allowed)]);
            for host in hosts {
                assert!(host_is_ours(&config, &format!("{host}:4444")), "{host}");
            }
        }
    }

    #[test]
    fn a_host_may_be_missing_where_no_browser_is() {
        let config = config(&[]);
        let nobody = SeenAs { secure: false, host: None };
        let missing = |version| check(&config, version, &HeaderMap::new(), nobody);
        assert!(missing(Version::HTTP_10).is_ok());
        assert_eq!(missing(Version::HTTP_11).unwrap_err().field(), Some("Host"));
        let named = HeaderMap::from_iter([(HOST, HeaderValue::from_static(""))]);
        assert!(check(&config, Version::HTTP_10, &named, SeenAs { secure: false, host: Some("") }).is_err());
        let page = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://evil.test"))]);
        assert!(check(&config, Version::HTTP_10, &page, nobody).is_err());
    }

    #[test]
    fn pages_behind_a_trusted_proxy_are_ours_as_their_readers_see_them() {
        let config = config(&[
            ("WARMPOOL_SERVER_ALLOWED_HOSTS", "pool.example,inner.example"),
            ("WARMPOOL_SERVER_TRUSTED_PROXIES", "10.0.0.0/8"),
        ]);
        let peer = |address: &str| Some(Peer { address: address.parse().unwrap(), secure: false });
        let headers = |origin: &'static str, forwarded: &'static str| {
            HeaderMap::from_iter([
                (HOST, HeaderValue::from_static("inner.example:4444")),
                (ORIGIN, HeaderValue::from_static(origin)),
                (HeaderName::from_static("x-forwarded-proto"), HeaderValue::from_static("https")),
                (HeaderName::from_static("x-forwarded-host"), HeaderValue::from_static(forwarded)),
            ])
        };
        let passes = |from: &str, headers: &HeaderMap| {
            check(&config, Version::HTTP_11, headers, SeenAs::of(&config, peer(from), headers)).is_ok()
        };
        let (proxy, stranger) = ("10.0.0.9:1234", "192.0.2.9:1234");
        assert!(passes(proxy, &headers("https://pool.example", "pool.example")));
        assert!(!passes(proxy, &headers("http://pool.example", "pool.example")), "not by TLS");
        assert!(!passes(proxy, &headers("https://evil.test", "evil.test")), "the client's own word");
        assert!(!passes(stranger, &headers("https://pool.example", "pool.example")));
    }

    #[test]
    fn only_our_own_pages_may_call() {
        let config = config(&[("WARMPOOL_SERVER_ALLOWED_ORIGINS", "https://app.example")]);
        let ours = |origin| origin_is_ours(&config, origin, "localhost:4444", false);
        assert!(ours("http://localhost:4444"));
        assert!(ours("https://app.example"));
        for origin in [
            "http://localhost:4445",
            "https://localhost:4444",
            "http://localhost:4444.evil.com",
            "https://app.example.evil.com",
            "null",
            "file://",
            "?",
        ] {
            assert!(!ours(origin), "{origin}");
        }
    }
}
