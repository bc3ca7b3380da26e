//! Extensions on their way to a worker.

use http::Method;
use warmpool_protocol::extension::ExtensionLimits;

use super::{Agent, AgentError, Body, FOLDER_TIMEOUT, within};

impl Agent {
    /// Brings an extension's archive for a later launch, which loads those that were brought in their order.
    pub async fn put_extension(&self, name: &str, limits: ExtensionLimits, archive: Body) -> Result<(), AgentError> {
        let path = format!("/extensions/{name}?{}", limits.query());
        within(FOLDER_TIMEOUT, self.succeed(Method::PUT, &path, archive)).await.map(drop)
    }
}
