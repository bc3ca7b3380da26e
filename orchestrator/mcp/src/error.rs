//! What can go wrong with a request before it reaches a tool.

use http::StatusCode;
use warmpool_core::error::{Code, Fault, ServiceError};

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// There is no such MCP session, or it is another key's.
    #[error("no MCP session `{id}`: it has ended, or belongs to another key; begin a new one by `initialize`")]
    UnknownSession {
        /// The id that was sent.
        id: String,
    },
    /// MCP's transport does not take the request.
    #[error("{message}")]
    Refused {
        /// The status that the transport has for it.
        status: StatusCode,
        /// What is wrong, as the transport says it.
        message: String,
    },
    /// The key has as many MCP sessions as it may.
    #[error("this key has {limit} MCP sessions already: end one by DELETE, or raise `mcp.max_sessions_per_key`")]
    Limit {
        /// `mcp.max_sessions_per_key`.
        limit: usize,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Service(error) => return Ok(error),
            Self::UnknownSession { .. } | Self::Refused { status: StatusCode::NOT_FOUND, .. } => {
                Code::UnknownMcpSession
            }
            Self::Refused { status: StatusCode::NOT_ACCEPTABLE, .. } => Code::NotAcceptable,
            Self::Refused { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, .. } => Code::UnsupportedMediaType,
            Self::Refused { .. } => Code::InvalidMcpRequest,
            Self::Limit { .. } => Code::McpSessionLimit,
        })
    }
}
