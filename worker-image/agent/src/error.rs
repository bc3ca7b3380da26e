//! What can go wrong: while the browser starts, and in answering a request.

use std::io;

use http::StatusCode;

/// Why a browser could not be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootError {
    /// A program could not be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// Which one.
        program: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Chromium found no sandbox it could use.
    #[error(
        "no usable sandbox: the container runtime forbids user namespaces; allow them in its \
         seccomp profile, or have the operator give the sandbox up"
    )]
    NoSandbox,
    /// A program ended instead of becoming ready.
    #[error("{program} ended while it was starting: {output}")]
    Ended {
        /// Which one.
        program: &'static str,
        /// The last it printed.
        output: String,
    },
    /// A program did not become ready in time.
    #[error("{program} was not ready in time: {output}")]
    Slow {
        /// Which one.
        program: &'static str,
        /// The last it printed.
        output: String,
    },
    /// The browser runs but a page cannot be driven.
    #[error("the browser runs but no page can be driven: {0}")]
    Undriveable(String),
}

/// Why a request is refused or fails, as the daemon sees it.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl ApiError {
    /// An error with any status.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// 400: the request itself is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 404: no such path, file or page.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 409: right request, wrong moment.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// 413: more bytes than allowed.
    pub(crate) fn too_large(limit: u64) -> Self {
        let message = format!("more than the {limit} bytes allowed");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// 422: a setting that this browser cannot have, as its name, a colon and the reason.
    pub(crate) fn not_supported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not_supported", message)
    }

    /// 502: the browser or its driver did not answer.
    pub(crate) fn upstream(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "browser_unreachable", message)
    }

    /// 500: something in the container itself.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::not_found("no such file"),
            io::ErrorKind::StorageFull => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", "the worker has no room left for this file")
            }
            _ => Self::internal(error.to_string()),
        }
    }
}
