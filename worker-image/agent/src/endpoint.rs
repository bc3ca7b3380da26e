//! Where a client's websocket goes, and what the agent reads of it.

use std::future::Future;
use std::pin::Pin;

use crate::net_errors::NamedErrors;
use crate::ports::LocalPort;
use crate::remote_addresses::TrueAddresses;

/// Where a websocket of a client goes.
pub(crate) struct Endpoint {
    pub(crate) port: LocalPort,
    /// Path and query.
    pub(crate) path: String,
    /// What the agent reads along with and changes. It understands no compressed messages, so there are none then.
    pub(crate) interception: Option<Interception>,
}

/// What is read of a websocket, in each direction.
pub(crate) struct Interception {
    pub(crate) up: Box<dyn Interceptor>,
    pub(crate) addresses: TrueAddresses,
    pub(crate) errors: NamedErrors,
}

/// Reads what a client sends. It lives as long as the client's websocket.
pub(crate) trait Interceptor: Send {
    /// Called with bytes on their way to the browser; returns those that go there.
    fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'a>>;
}
