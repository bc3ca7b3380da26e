//! The session's files: what pages are given, and what the browser downloaded.

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::Value;

use super::Browser;
use crate::script::{FailureCode, StepError};
use crate::worker::full;

/// Room for a list of files, in bytes.
const LIST_LIMIT: u64 = 1 << 20;

/// A file in the session.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// Its size, in bytes.
    pub(crate) size: u64,
    /// Where it comes from: `download` or `upload`.
    source: String,
    /// Whether all of it is there.
    pub(crate) complete: bool,
}

impl Browser {
    /// Puts a file into the session; gives its path there.
    pub(crate) async fn put_file(&self, name: &str, bytes: Vec<u8>) -> Result<String, StepError> {
        let answer = self.files(Method::PUT, Some(name), bytes, LIST_LIMIT).await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let path =
            answer["path"].as_str().ok_or_else(|| StepError::new(FailureCode::DriverError, "a file was lost"))?;
        Ok(path.to_owned())
    }

    /// What the browser downloaded.
    pub(crate) async fn downloads(&self) -> Result<Vec<Entry>, StepError> {
        let answer = self.files(Method::GET, None, Vec::new(), LIST_LIMIT).await?;
        let entries: Vec<Entry> = serde_json::from_slice(&answer).map_err(|error| StepError::internal(&error))?;
        Ok(entries.into_iter().filter(|entry| entry.source == "download").collect())
    }

    /// The content of a file, which has `limit` bytes at most.
    pub(crate) async fn fetch_file(&self, name: &str, limit: u64) -> Result<Vec<u8>, StepError> {
        self.files(Method::GET, Some(name), Vec::new(), limit).await
    }

    async fn files(&self, method: Method, name: Option<&str>, body: Vec<u8>, limit: u64) -> Result<Vec<u8>, StepError> {
        let _busy = self.session.busy();
        let mut request = Request::new(full(body));
        *request.method_mut() = method;
        let path = name.map_or_else(|| "/files".to_owned(), |name| format!("/files/{}", segment(name)));
        let response =
            self.session.worker.agent.send(&path, request).await.map_err(|error| StepError::internal(&error))?;
        let status = response.status();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let body = Limited::new(response.into_body(), limit).collect().await;
        let body = body.map_err(|_| StepError::new(FailureCode::TooLarge, "a file is larger than artifacts may be"))?;
        let bytes = body.to_bytes().to_vec();
        if status.is_success() {
            return Ok(bytes);
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let reason = answer["error"]["message"].as_str().unwrap_or("the worker refused the file");
        let code =
            if status == StatusCode::PAYLOAD_TOO_LARGE { FailureCode::TooLarge } else { FailureCode::DriverError };
        Err(StepError::new(code, reason))
    }
}

/// A name as one segment of a path.
fn segment(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}
