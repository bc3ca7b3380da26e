//! What browsers want to hear before they let a page of another site call the service and read its answers: the sites that
//! `server.allowed_origins` names. [`guard`] refuses all others.

use std::time::Duration;

use axum::{Router, middleware};
use http::header::{
    AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RANGE, RETRY_AFTER,
};
use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::CorsLayer;
use url::Url;

use super::auth::KEY_HEADERS;
use super::browserless::SESSION;
use super::guard::{self, X_REQUEST_ID};
use super::worlds::API_KEY;
use warmpool_config::Config;

/// How long a browser remembers what it was told.
const REMEMBERED: Duration = Duration::from_secs(600);
/// What calls read that a page may not send unasked, beside keys.
const SENT: [&str; 5] = ["idempotency-key", "prefer", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
/// What answers have that a page may not read unasked.
const TOLD: [&str; 9] = [
    "mcp-session-id",
    "preference-applied",
    "x-has-more",
    "x-next-offset",
    "x-response-code",
    "x-response-ip",
    "x-response-port",
    "x-response-status",
    "x-response-url",
];

/// Lets pages of allowed sites call these routes and read every answer: also what the guard refuses, and what becomes of a panic.
pub(super) fn readable<S: Clone + Send + Sync + 'static>(router: Router<S>, config: &Config) -> Router<S> {
    let router = router.layer(middleware::from_fn(guard::answer));
    match layer(config) {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

/// The answers to such pages; none where no site is allowed. A page sends its key itself: it gets no cookie of the console's to
/// use.
fn layer(config: &Config) -> Option<CorsLayer> {
    let origin = |allowed: &String| {
        let url = Url::parse(allowed).ok()?;
        HeaderValue::try_from(url.origin().ascii_serialization()).ok()
    };
    let origins: Vec<HeaderValue> = config.server.allowed_origins.iter().filter_map(origin).collect();
    let named = KEY_HEADERS.into_iter().chain([API_KEY]).chain(SENT).map(HeaderName::from_static);
    let sent = named.chain([AUTHORIZATION, CONTENT_TYPE, IF_NONE_MATCH, RANGE]);
    let told = TOLD.map(HeaderName::from_static).into_iter().chain([
        X_REQUEST_ID,
        SESSION,
        RETRY_AFTER,
        LOCATION,
        ETAG,
        CONTENT_DISPOSITION,
        CONTENT_RANGE,
    ]);
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(sent.collect::<Vec<_>>())
            .expose_headers(told.collect::<Vec<_>>())
            .max_age(REMEMBERED)
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::post;
    use http::{Request, StatusCode};
    use tower::ServiceExt as _;

    use super::*;
    use warmpool_config::{Flags, Host};

    fn config(origins: &str) -> Config {
        let env = [("WARMPOOL_SERVER_ALLOWED_ORIGINS".to_owned(), origins.to_owned())];
        Config::resolve(
            None,
            env,
            &Flags::default(),
            &Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() },
        )
        .unwrap()
    }

    #[tokio::test]
    async fn pages_of_allowed_sites_may_call_with_a_key() {
        let layer = layer(&config("https://app.example/,https://other.example:8443")).unwrap();
        let app = Router::new().route("/sessions/create", post(async || "made")).layer(layer);
        let preflight = |origin: &str| {
            Request::options("/sessions/create")
                .header("origin", origin)
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "content-type,service-secret-key")
                .body(Body::empty())
                .unwrap()
        };
        for origin in ["https://app.example", "https://other.example:8443"] {
            let answer = app.clone().oneshot(preflight(origin)).await.unwrap();
            let told = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!((answer.status(), told("access-control-allow-origin")), (StatusCode::OK, origin));
            let allowed: Vec<&str> = told("access-control-allow-headers").split(',').collect();
            for header in ["service-secret-key", "x-api-key", "authorization", "content-type", "if-none-match"] {
                assert!(allowed.contains(&header), "{header}: {allowed:?}");
            }
            assert!(told("access-control-allow-methods").contains("POST"));
            assert_eq!(told("access-control-allow-credentials"), "");
        }
        let call =
            Request::post("/sessions/create").header("origin", "https://app.example").body(Body::empty()).unwrap();
        let answer = app.clone().oneshot(call).await.unwrap();
        assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example");
        let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
        for header in ["x-request-id", "retry-after", "etag", "preference-applied", "x-response-code"] {
            assert!(exposed.split(',').any(|name| name == header), "{header}: {exposed}");
        }
        let answer = app.oneshot(preflight("https://evil.test")).await.unwrap();
        assert!(!answer.headers().contains_key("access-control-allow-origin"));
    }

    #[test]
    fn nobody_is_told_anything_where_no_site_is_allowed() {
        let config = Config::resolve(
            None,
            [],
            &Flags::default(),
            &Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() },
        );
        assert!(layer(&config.unwrap()).is_none());
    }
}
