//! Where a client's websocket goes, and what the agent reads of it.

use std::future::Future;
use std::pin::Pin;

use crate::ports::LocalPort;

/// Where a websocket of a client goes.
pub(crate) struct Endpoint {
    pub(crate) port: LocalPort,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) interceptor: Option<Box<dyn Interceptor>>,
}

/// Reads what a client sends. It lives as long as the client's websocket.
pub(crate) trait Interceptor: Send {
    /// Called with bytes on their way to the browser, which get there once the future is done.
    fn before<'a>(&'a mut self, bytes: &'a [u8]) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Whether it has to understand every message, so that none may be compressed.
    fn needs_plain(&self) -> bool {
        true
    }
}
