//! Extensions on their way to a worker.

use futures_util::TryStreamExt as _;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use warmpool_core::error::Cause;
use warmpool_extensions::OpenedExtension;

use super::{Agent, AgentError, STORAGE_TIMEOUT, within};

impl Agent {
    /// Brings extensions, which the browser loads in this order: at the launch, or before it waits where the claim names them.
    /// Fails with `Field`, as for a setting, where the worker takes none or has no room for them.
    pub async fn give_extensions(&self, extensions: &[OpenedExtension]) -> Result<(), AgentError> {
        for extension in extensions {
            let given = self.give_extension(extension).await;
            given.map_err(|error| match error {
                AgentError::Refused { status: StatusCode::NOT_FOUND, .. } => {
                    AgentError::of_extensions("needs newer images: build them anew")
                }
                AgentError::Refused { status: StatusCode::INSUFFICIENT_STORAGE, .. } => {
                    AgentError::of_extensions("is too large for the worker: name fewer, or raise `worker.tmp`")
                }
                error => error,
            })?;
        }
        Ok(())
    }

    async fn give_extension(&self, OpenedExtension { id, archive, holds }: &OpenedExtension) -> Result<(), AgentError> {
        let path = format!("/extensions/{id}?{}", holds.query());
        let frames = archive.stream().map_ok(Frame::data).map_err(Cause::from);
        let archive = StreamBody::new(frames).boxed_unsync();
        within(STORAGE_TIMEOUT, self.succeed(Method::PUT, &path, archive)).await.map(drop)
    }
}
