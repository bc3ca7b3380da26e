//! The session's files: uploads to pages, and downloads.

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use warmpool_protocol::{File, FileSource};

use super::Browser;
use crate::script::{FailureCode, StepError};
use warmpool_workers::worker::{AgentError, full};

impl Browser {
    /// Puts a file into the session; returns its path there.
    pub(crate) async fn put_file(&self, name: &str, bytes: Vec<u8>) -> Result<String, StepError> {
        let _busy = self.session.busy();
        let stored = self.session.worker.agent.store_file(name, full(bytes)).await.map_err(refused)?;
        Ok(stored.path)
    }

    /// What the browser downloaded.
    pub(crate) async fn downloads(&self) -> Result<Vec<File>, StepError> {
        let _busy = self.session.busy();
        let files = self.session.worker.agent.files().await.map_err(refused)?;
        Ok(files.into_iter().filter(|file| file.source == FileSource::Download).collect())
    }

    /// The content of a file, which has `limit` bytes at most.
    pub(crate) async fn fetch_file(&self, name: &str, limit: u64) -> Result<Vec<u8>, StepError> {
        let _busy = self.session.busy();
        let content = self.session.worker.agent.read_file(name).await.map_err(refused)?;
        let content = Limited::new(content, usize::try_from(limit).unwrap_or(usize::MAX)).collect().await;
        let content =
            content.map_err(|_| StepError::new(FailureCode::TooLarge, "a file is larger than artifacts may be"))?;
        Ok(content.to_bytes().into())
    }
}

fn refused(error: AgentError) -> StepError {
    match error {
        AgentError::Refused { status: StatusCode::PAYLOAD_TOO_LARGE, message } => {
            StepError::new(FailureCode::TooLarge, message)
        }
        AgentError::Refused { message, .. } => StepError::new(FailureCode::DriverError, message),
        error => StepError::internal(&error),
    }
}
