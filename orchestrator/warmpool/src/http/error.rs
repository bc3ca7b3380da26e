//! What can go wrong with a request before it reaches what it asks for, and all that may come back from there.

use std::time::Duration;

use warmpool_core::error::{Code, Fault, FieldError, ServiceError};
use warmpool_store::StoreError;

/// Everything that a handler may fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] warmpool_keys::Error),
    /// No worker, or no way out for its pages.
    #[error(transparent)]
    Pool(#[from] warmpool_workers::Error),
    /// The session cannot be used.
    #[error(transparent)]
    Session(#[from] warmpool_sessions::Error),
    /// The call on a page failed.
    #[error(transparent)]
    Page(#[from] warmpool_pages::Error),
    /// The MCP session cannot be used.
    #[error(transparent)]
    Mcp(#[from] warmpool_mcp::Error),
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] warmpool_profiles::Error),
    /// The extension cannot be used.
    #[error(transparent)]
    Extension(#[from] warmpool_extensions::Error),
    /// The task cannot be used.
    #[error(transparent)]
    Task(#[from] warmpool_tasks::Error),
    /// The world cannot be used.
    #[error(transparent)]
    World(#[from] warmpool_worlds::Error),
    /// The body is not the JSON that the route takes.
    #[error("{message}")]
    InvalidBody {
        /// What is wrong and what would be right.
        message: String,
    },
    /// No key was sent.
    #[error("no key: send one in the header `service-secret-key`; `warmpool key create NAME` makes one")]
    MissingKey,
    /// No key was sent to an address of a grid.
    #[error(
        "no key: write it into the grid's address, `http://KEY:x@HOST` (Selenium for Java and .NET send no user without a \
         password), or send it in the header `service-secret-key`; `warmpool key create NAME` makes one"
    )]
    MissingGridKey,
    /// The key stands where this route does not read it.
    #[error("no key in the header `service-secret-key`: {place} is not read here, so send the key in that header")]
    MisplacedKey {
        /// Where it stands.
        place: &'static str,
    },
    /// The key may do this to nothing but its own.
    #[error("this takes an operator's key: make one with `warmpool key create NAME --operator`")]
    OperatorOnly,
    /// As many pages follow the daemon as may.
    #[error("{limit} pages of the console follow the daemon already: close one, or raise `console.max_streams`")]
    StreamLimit {
        /// `console.max_streams`.
        limit: usize,
    },
    /// As many pages of one key follow the daemon as may.
    #[error("{limit} pages of this key follow the daemon already: close one, or raise `console.max_streams_per_key`")]
    KeyStreamLimit {
        /// `console.max_streams_per_key`.
        limit: usize,
    },
    /// The Host header names a host that this daemon is not.
    #[error("host `{host}` is not served here: add it to `server.allowed_hosts`, or set `server.public_url`")]
    ForeignHost {
        /// The host that was sent.
        host: String,
    },
    /// A web page of another origin sent the request.
    #[error("origin `{origin}` may not call this service: add it to `server.allowed_origins`")]
    ForeignOrigin {
        /// The origin that was sent.
        origin: String,
    },
    /// The address would open a browser, and the request is no websocket handshake.
    #[error(
        "nothing is wrong with this address, which is a websocket's: write it with ws: or wss:, as in {example}{}",
        idle(warnings)
    )]
    NoHandshake {
        /// How clients attach to it.
        example: &'static str,
        /// What it says and has no effect.
        warnings: Vec<String>,
    },
    /// No route has this path.
    #[error("there is no {method} {path} here{}", meant.as_ref().map(|path| format!(": did you mean {path}?")).unwrap_or_default())]
    UnknownPath {
        /// The request's method.
        method: String,
        /// The request's path.
        path: String,
        /// The path that may be meant.
        meant: Option<String>,
    },
    /// The path exists, the method does not.
    #[error("{method} is not allowed on this path")]
    MethodNotAllowed {
        /// The request's method.
        method: String,
    },
    /// A call of another service's clients, on a path that has other calls.
    #[error("{call}")]
    CallNotServed {
        /// Which call, and what to do.
        call: String,
    },
    /// The address has failed to sign in too often.
    #[error(
        "too many sign-ins from this address have failed (`server.failed_sign_ins`): try again in {} seconds",
        seconds(retry_after)
    )]
    SignInLimit {
        /// When it may try again.
        retry_after: Duration,
    },
    /// No server of Playwright has the client's version.
    #[error(
        "Playwright version mismatch: the client is v{client}, and the server has {versions}: use one of these, or have the \
         operator add v{client} (`playwright.versions`)"
    )]
    PlaywrightVersion {
        /// The client's version, without its patch.
        client: String,
        /// Those that there are.
        versions: String,
    },
    /// The session is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// What is in the way.
        message: String,
    },
    /// The body is longer than the limit.
    #[error("the body is longer than {limit} bytes: send less, or raise `{setting}`")]
    BodyTooLarge {
        /// The limit, in bytes.
        limit: u64,
        /// The setting that holds the limit.
        setting: &'static str,
    },
    /// The body would take more memory than there is for all bodies together.
    #[error(
        "the body has too many values: with what is made of them it takes more than {limit} bytes; send less, or raise `{setting}`"
    )]
    BodyTooHeavy {
        /// The limit, in bytes.
        limit: u64,
        /// The setting that holds the limit.
        setting: &'static str,
    },
    /// The bodies of other requests take the memory that there is for bodies.
    #[error(
        "the bodies of other requests take all the memory that there is for them: try again later, or raise `server.body_memory`"
    )]
    BodyMemory,
    /// The bodies of other requests of the same key, or of its address where its key is not known yet, take all that one may have.
    #[error(
        "the bodies of your other requests take all the memory that one key may have for them: try again later, or raise \
         `server.body_share`"
    )]
    KeyBodyMemory,
    /// The bodies of other requests without a key in a header take the memory that there is for such bodies.
    #[error(
        "the bodies of other requests without a key in a header take all the memory that there is for them: send a key in a header, \
         where the call has one; try again later; or raise `server.keyless_body_memory` and `server.keyless_body_share`"
    )]
    KeylessBodyMemory,
    /// Answers that their clients have not taken yet take the memory that there is for answers.
    #[error(
        "answers that their clients have not read yet take all the memory that there is for them: read yours, try again later, or \
         raise `server.answer_memory` and `server.answer_share`"
    )]
    AnswerMemory,
    /// The body did not arrive in time.
    #[error("the body did not arrive: nothing, or not all of it, came within {} seconds (`server.body_timeout`)", after.as_secs())]
    BodyTimeout {
        /// `server.body_timeout`.
        after: Duration,
    },
    /// The client's address has as many connections as it may have.
    #[error(
        "this address has {limit} connections open already: close one first, or raise `server.max_connections_per_address`; a reverse proxy belongs into `server.trusted_proxies`"
    )]
    AddressLimit {
        /// `server.max_connections_per_address`.
        limit: usize,
    },
    /// A body of another type than JSON.
    #[error("send the body as `Content-Type: application/json`")]
    MediaType,
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::Key(error) => return Ok(error),
            Self::Pool(error) => return Ok(error),
            Self::Session(error) => return Ok(error),
            Self::Page(error) => return Ok(error),
            Self::Mcp(error) => return Ok(error),
            Self::Profile(error) => return Ok(error),
            Self::Extension(error) => return Ok(error),
            Self::Task(error) => return Ok(error),
            Self::World(error) => return Ok(error),
            Self::InvalidBody { .. } => Code::InvalidBody,
            Self::MissingKey | Self::MissingGridKey | Self::MisplacedKey { .. } => Code::MissingKey,
            Self::OperatorOnly => Code::OperatorOnly,
            Self::StreamLimit { .. } | Self::KeyStreamLimit { .. } => Code::StreamLimit,
            Self::ForeignHost { .. } => Code::ForeignHost,
            Self::ForeignOrigin { .. } => Code::ForeignOrigin,
            Self::NoHandshake { .. } => Code::UpgradeRequired,
            Self::UnknownPath { .. } => Code::UnknownPath,
            Self::MethodNotAllowed { .. } | Self::CallNotServed { .. } => Code::MethodNotAllowed,
            Self::SignInLimit { .. } => Code::SignInLimit,
            Self::PlaywrightVersion { .. } => Code::PlaywrightVersion,
            Self::Conflict { .. } => Code::Conflict,
            Self::BodyTooLarge { .. } => Code::BodyTooLarge,
            Self::BodyTooHeavy { .. } => Code::BodyTooHeavy,
            Self::BodyMemory | Self::KeyBodyMemory | Self::KeylessBodyMemory | Self::AnswerMemory => Code::BodyMemory,
            Self::BodyTimeout { .. } => Code::BodyTimeout,
            Self::AddressLimit { .. } => Code::AddressLimit,
            Self::MediaType => Code::UnsupportedMediaType,
        })
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::SignInLimit { retry_after } => Some(Duration::from_secs(seconds(retry_after))),
            other => other.inner().map_or_else(Code::retry_after, Fault::retry_after),
        }
    }
}

impl Error {
    /// The same error, with its field error changed.
    #[must_use]
    pub(crate) fn map_field(self, change: impl FnOnce(FieldError) -> FieldError) -> Self {
        match self {
            Self::Field(error) => Self::Field(change(error)),
            Self::Session(error) => Self::Session(error.map_field(change)),
            Self::Page(error) => Self::Page(error.map_field(change)),
            Self::Task(error) => Self::Task(error.map_field(change)),
            other => other,
        }
    }
}

/// What has no effect, behind what is said.
fn idle(warnings: &[String]) -> String {
    if warnings.is_empty() { String::new() } else { format!("; {}", warnings.join("; ")) }
}

/// The first whole number of seconds that is not too short.
const fn seconds(time: &Duration) -> u64 {
    time.as_secs() + 1
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}
