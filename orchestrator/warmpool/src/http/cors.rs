//! What browsers want to hear before they let a page of another site call the service and read its answers: the sites that
//! `server.allowed_origins` names. [`guard`](super::guard) refuses all others.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::CorsLayer;
use url::Url;

use super::auth::KEY_HEADERS;
use super::browserless::SESSION;
use super::guard::X_REQUEST_ID;
use warmpool_config::Config;

/// How long a browser remembers what it was told.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The answers to such pages; none where no site is allowed. A page sends its key itself: it gets no cookie of the console's to
/// use.
pub(super) fn layer(config: &Config) -> Option<CorsLayer> {
    let origin = |allowed: &String| {
        let url = Url::parse(allowed).ok()?;
        HeaderValue::try_from(url.origin().ascii_serialization()).ok()
    };
    let origins: Vec<HeaderValue> = config.server.allowed_origins.iter().filter_map(origin).collect();
    let sent = ["idempotency-key", "prefer", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
    let headers = KEY_HEADERS.into_iter().chain(sent).map(HeaderName::from_static).chain([AUTHORIZATION, CONTENT_TYPE]);
    let told =
        [X_REQUEST_ID, SESSION, HeaderName::from_static("mcp-session-id"), RETRY_AFTER, LOCATION, CONTENT_DISPOSITION];
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(headers.collect::<Vec<_>>())
            .expose_headers(told)
            .max_age(REMEMBERED)
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
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
            assert!(told("access-control-allow-headers").contains("service-secret-key"));
            assert!(told("access-control-allow-methods").contains("POST"));
            assert_eq!(told("access-control-allow-credentials"), "");
        }
        let call =
            Request::post("/sessions/create").header("origin", "https://app.example").body(Body::empty()).unwrap();
        let answer = app.clone().oneshot(call).await.unwrap();
        assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example");
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
