//! Heads of requests for the fuzzer: as a connection brings them, through the server's own parser, to the checks of path,
//! Host, Origin and query.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::header::{HOST, ORIGIN};
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::guard::{check as check_head, check_path};
use super::peer::SeenAs;
use super::query::Rule;
use super::request_target::single_slash;
use crate::http::error::Error;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::error::{Code, Fault as _};
use warmpool_heads::{HeadGuard, HeadLimits};
use warmpool_sessions::session::SessionQuery;
use warmpool_tasks::task::TaskQuery;

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let settings = [
        ("WARMPOOL_SERVER_ALLOWED_HOSTS", "pool.example"),
        ("WARMPOOL_SERVER_ALLOWED_ORIGINS", "https://app.example"),
        ("WARMPOOL_SERVER_PUBLIC_URL", "https://public.example/base"),
    ];
    let env = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, env, &Flags::default(), &host)
        .unwrap_or_else(|error| panic!("without settings, there is nothing to check: {error}"))
});

/// Has the clock that [`HeadGuard`] asks for.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let built = Builder::new_current_thread().enable_time().build();
    built.unwrap_or_else(|error| panic!("without a runtime, there is nothing to check: {error}"))
});

/// Longer than any input takes.
const LIMITS: HeadLimits = HeadLimits { head: Duration::from_secs(3600), idle: None };

/// Connections' first bytes. The first byte of an input is the length of the pieces.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        &b"\x40GET /sessions?limit=5&status[]=running&status%5B1%5D=failure HTTP/1.1\r\nHost: localhost:4444\r\n\r\n"[..],
        b"\x05GET ?token=T HTTP/1.1\r\nHost: [::1]:4444\r\nOrigin: http://[::1]:4444\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"\xffPOST /sessions/s/webdriver/T//session HTTP/1.1\r\nHost: POOL.example:80\r\nOrigin: https://app.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: public.example\r\n\r\n",
        b"\x10GET http://10.0.0.7/wd/hub//session?executionType[]=run&page=2 HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 3\r\n\r\nabc",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// Panics when a request passes that should not, or is our own fault.
pub(crate) fn check(bytes: &[u8]) {
    let [step, stream @ ..] = bytes else { return };
    let config = &*CONFIG;
    let step = usize::from(*step).max(1);
    let seen = served(stream, step, config);
    // The bytes of one request may come in any pieces. A bare query gets its path where there is room beside its first piece.
    if step > b"GET ?".len() && stream.len() < 1 << 12 {
        assert_eq!(seen, served(stream, stream.len().max(8), config), "it depends on the pieces");
    }
}

/// The requests that a server makes of these bytes, each with whether it passes.
fn served(stream: &[u8], step: usize, config: &Config) -> Vec<(String, bool)> {
    let _inside = RUNTIME.enter();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let passes = passes(&request, config);
        seen.lock().push((format!("{} {}", request.method(), request.uri()), passes));
        async {
            // Where a body is left unread, what hyper makes of its connection depends on how much of it has come.
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Empty::<hyper::body::Bytes>::new()))
        }
    });
    let pieces = Pieces { rest: stream.to_vec(), step };
    let connection = hyper::server::conn::http1::Builder::new()
        .max_headers(100)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(HeadGuard::new(pieces, LIMITS).adding_path()), service);
    // Hyper yields now and then, so one look may not be enough.
    let mut connection = std::pin::pin!(connection);
    for _ in 0..100 {
        if connection.as_mut().now_or_never().is_some() {
            break;
        }
    }
    let seen = seen.lock();
    seen.clone()
}

fn passes(request: &Request<Incoming>, config: &Config) -> bool {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if let Some(mended) = single_slash(path) {
        assert!(mended.len() < path.len() && single_slash(&mended).is_none(), "{path:?} becomes {mended:?}");
    }
    for (rule, read) in [
        (Rule::only::<SessionQuery>(), read::<SessionQuery> as fn(Rule, &str) -> Option<Error>),
        (Rule::only::<TaskQuery>(), read::<TaskQuery>),
    ] {
        if let Some(error) = read(rule, query) {
            assert_ne!(error.code(), Code::Internal, "{error:?} is our fault");
            assert!(error.field().is_some(), "{error:?} names no parameter");
        }
    }
    let seen = SeenAs::of(config, None, request.headers());
    let passes = check_head(config, request.version(), request.headers(), seen).is_ok() && check_path(path).is_ok();
    if passes {
        passed(request);
    }
    passes
}

fn read<T: serde::de::DeserializeOwned>(rule: Rule, query: &str) -> Option<Error> {
    let parameters = rule.parameters();
    parameters.check(query).and_then(|()| parameters.read::<T>(query)).err()
}

/// What a page of somebody else could have sent has not passed: read by a parser of authorities, and not of URLs.
fn passed(request: &Request<Incoming>) {
    let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
    let may_lack_one = request.version() == Version::HTTP_10;
    assert!(hosts.len() == 1 || (hosts.is_empty() && may_lack_one), "{hosts:?} are not one");
    let text = hosts.first().map_or("", |host| host.to_str().unwrap_or_default());
    // A browser sends names as it resolves them: in lower case, and without escapes.
    if let Ok(authority) = text.parse::<http::uri::Authority>() {
        let name = authority.host().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let is_name = name.bytes().all(is_plain) && !name.rsplit('.').next().is_some_and(is_number);
        let is_ours = matches!(name, "pool.example" | "public.example" | "localhost") || name.ends_with(".localhost");
        assert!(!is_name || is_ours, "{text:?} is served");
    }
    for origin in request.headers().get_all(ORIGIN) {
        let url = origin.to_str().ok().and_then(|origin| Url::parse(origin).ok());
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let own = Url::parse(&format!("http://{text}/")).ok();
        let is_own = own.as_ref().and_then(Url::host_str) == Some(host);
        assert!(is_own || matches!(host, "app.example" | "public.example"), "{origin:?} may call");
    }
}

/// Whether a name's last label makes it an address, as URLs read it.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A connection that brings its bytes in pieces, and then ends; what is written to it is dropped.
struct Pieces {
    rest: Vec<u8>,
    step: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = self.step.min(buf.remaining()).min(self.rest.len());
        buf.put_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_requests_of_which_some_pass() {
        let seen: Vec<(String, bool)> =
            seeds().iter().flat_map(|seed| served(&seed[1..], seed[0].into(), &CONFIG)).collect();
        let passing = seen.iter().filter(|(_, passes)| *passes).count();
        assert!(seen.len() >= 4 && passing >= 3 && passing < seen.len(), "{seen:?}");
    }
}
