//! The one error type that leaves the daemon's inner layers. Each variant knows its code (`class`), and that what follows from
//! it (`code`). `Display` is what the client may read; the `source` goes to the log. `http::reply` makes the response.

mod class;
mod code;
mod fault;
mod field;
mod words;

use std::time::Duration;

use crate::browser::Engine;
pub use code::{Blame, Code};
pub use fault::Fault;
pub use field::{FieldError, join};
pub use words::closest;

pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Everything that can go wrong, as the client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is not the JSON that the route takes.
    #[error("{message}")]
    InvalidBody {
        /// What is wrong and what would be right.
        message: String,
    },
    /// A field of the request cannot be used.
    #[error("{0}")]
    Field(FieldError),
    /// A capability that would weaken the worker's isolation, or that names another browser.
    #[error("capability {capability}: {message}")]
    Capability {
        /// The capability or argument, as the client wrote it.
        capability: String,
        /// Why it is refused.
        message: String,
    },
    /// No key was sent.
    #[error("no key: send it in the header `service-secret-key`")]
    MissingKey,
    /// The key stands where this route does not read it.
    #[error("no key in the header `service-secret-key`: {place} is not read here, so send the key in that header")]
    MisplacedKey {
        /// Where it stands.
        place: &'static str,
    },
    /// The key is unknown, revoked or malformed.
    #[error(
        "the key is not valid: send one of `warmpool key list` in the header `service-secret-key`, whole and unchanged"
    )]
    InvalidKey,
    /// The key may do this to nothing but its own.
    #[error("this takes an operator's key: make one with `warmpool key create NAME --operator`")]
    OperatorOnly,
    /// As many pages follow the daemon as may.
    #[error("{limit} pages of the console follow the daemon already: close one, or raise `console.max_streams`")]
    StreamLimit {
        /// `console.max_streams`.
        limit: usize,
    },
    /// There is no such key.
    #[error("no key `{id}`: it is unknown, or was removed")]
    UnknownKey {
        /// The id that was sent.
        id: String,
    },
    /// The token in a session's URL is wrong.
    #[error("the token in the URL does not open this session: use the URL that its create call returned")]
    InvalidToken,
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
    /// No route has this path.
    #[error("there is no {method} {path} here{}", meant.map(|path| format!(": did you mean {path}?")).unwrap_or_default())]
    UnknownPath {
        /// The request's method.
        method: String,
        /// The request's path.
        path: String,
        /// The path that may be meant.
        meant: Option<&'static str>,
    },
    /// The path exists, the method does not.
    #[error("{method} is not allowed on this path")]
    MethodNotAllowed {
        /// The request's method.
        method: String,
    },
    /// There is no such session, or it is another key's.
    #[error("no session `{id}`: it is unknown, or belongs to another key")]
    UnknownSession {
        /// The id that was sent.
        id: String,
    },
    /// The session is over.
    #[error("session `{id}` has ended: {status} ({reason})")]
    SessionEnded {
        /// The session.
        id: String,
        /// How it ended.
        status: &'static str,
        /// Why it ended.
        reason: String,
    },
    /// There is no such task, or it is another key's.
    #[error("no task `{id}`: it is unknown, forgotten, or belongs to another key")]
    UnknownTask {
        /// The id that was sent.
        id: String,
    },
    /// The task made no such file, or the file is gone.
    #[error("no artifact `{name}` of this task: GET /lam/tasks/<id>/artifacts for a list")]
    UnknownArtifact {
        /// The artifact's name.
        name: String,
    },
    /// An idempotency key came again with another body.
    #[error("this Idempotency-Key came with another request before: use a new one for a new task")]
    KeyReused,
    /// As many tasks wait as may.
    #[error("{length} tasks wait already: try again later, or raise `tasks.queue_length`")]
    TaskQueueFull {
        /// `tasks.queue_length`.
        length: usize,
    },
    /// No integration key was sent.
    #[error("no integration key: send it as `api_key` in the body, or in the header `x-api-key`")]
    MissingApiKey,
    /// The integration key is unknown or revoked.
    #[error("the integration key is not valid: list the valid ones with `warmpool integration-key list`")]
    InvalidApiKey,
    /// The address has failed to sign in too often.
    #[error(
        "too many sign-ins from this address have failed (`server.failed_sign_ins`): try again in {} seconds",
        seconds(retry_after)
    )]
    SignInLimit {
        /// When it may try again.
        retry_after: Duration,
    },
    /// There is no such integration key, or it is another service key's.
    #[error("no integration key `{id}`: it is unknown, or belongs to another service key")]
    UnknownIntegrationKey {
        /// The id that was sent.
        id: String,
    },
    /// There is no such world, or it is another key's.
    #[error("no world `{id}`: it is unknown, deleted, or belongs to another key")]
    UnknownWorld {
        /// The id that was sent.
        id: String,
    },
    /// The URL of a viewer opens nothing, or nothing any more.
    #[error("this address shows no world: its viewer was closed, renewed or deleted, or never was")]
    UnknownViewer,
    /// Nothing is kept of the patient.
    #[error("nothing is kept of a patient with this id, or it belongs to another key")]
    UnknownPatient,
    /// As many worlds wait as may.
    #[error("{length} worlds wait already: try again later, or raise `world.queue_length`")]
    WorldQueueFull {
        /// `world.queue_length`.
        length: usize,
    },
    /// As many worlds of the key wait as may.
    #[error("{limit} worlds of this key wait already: try again later, delete one, or raise `world.max_per_key`")]
    WorldKeyLimit {
        /// `world.max_per_key`.
        limit: usize,
    },
    /// Scenes cannot be rendered on this host.
    #[error("worlds need the image `{image}`, which is not on this host: make it with `scripts/images --scene`")]
    NoRenderer {
        /// `world.image`.
        image: String,
    },
    /// The browser has no such target.
    #[error("no such target in this session's browser: it has closed, or never was")]
    UnknownTarget,
    /// None of the caller's sessions has such a target.
    #[error("no browser of yours has this target: `GET /json/list` names those that there are, with their URLs")]
    ForeignTarget,
    /// No such file in the session.
    #[error("no file `{name}` in this session: GET the folder for a list")]
    UnknownFile {
        /// The file's name.
        name: String,
    },
    /// The route is a websocket and the request is not an upgrade.
    #[error("this path is a websocket: connect with a websocket client")]
    UpgradeRequired,
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
        "the body has too many values: with what is made of them it takes more than {limit} bytes; send less, or raise `server.body_memory`"
    )]
    BodyTooHeavy {
        /// `server.body_memory`, in bytes.
        limit: u64,
    },
    /// The bodies of other requests take the memory that there is for bodies.
    #[error(
        "the bodies of other requests take all the memory that there is for them: try again later, or raise `server.body_memory`"
    )]
    BodyMemory,
    /// The body did not arrive in time.
    #[error("the body did not arrive: nothing, or not all of it, came within {} seconds (`server.body_timeout`)", after.as_secs())]
    BodyTimeout {
        /// `server.body_timeout`.
        after: Duration,
    },
    /// The client's address has as many connections as it may have.
    #[error(
        "this address has {limit} connections open already: close one first, or raise `server.max_connections_per_address`"
    )]
    AddressLimit {
        /// `server.max_connections_per_address`.
        limit: usize,
    },
    /// A body of another type than JSON.
    #[error("send the body as `Content-Type: application/json`")]
    MediaType,
    /// The waiting room is full.
    #[error("all {sessions} sessions are in use and {waiting} callers wait already: try again later")]
    QueueFull {
        /// The maximum number of sessions.
        sessions: usize,
        /// How many wait.
        waiting: usize,
    },
    /// The key has as many sessions as it may have.
    #[error("this key has {limit} sessions, running or asked for, and may not have more: end one first")]
    KeyLimit {
        /// `session.max_per_key`.
        limit: usize,
    },
    /// The session has as many sockets as it may have.
    #[error("this session has {limit} sockets open already: close one first")]
    SocketLimit {
        /// `relay.max_sockets`.
        limit: usize,
    },
    /// No worker came free in time.
    #[error("no browser came free within {} seconds: try again later", waited.as_secs())]
    NoWorker {
        /// How long the request waited.
        waited: Duration,
    },
    /// The image of that engine is not on this host.
    #[error("{engine} is not installed here: {}", remedy_for_image(*engine, image, build.as_deref()))]
    NoEngine {
        /// The engine that was asked for.
        engine: Engine,
        image: String,
        /// What the build of the image does now, where one runs.
        build: Option<String>,
    },
    /// Workers of this kind fail to start, again and again.
    #[error("no browser of {kind} starts here: {reason}")]
    NoStart {
        /// The engine and mode.
        kind: String,
        /// Why the last one did not.
        reason: String,
    },
    /// The daemon is going down.
    #[error("the service is shutting down and takes no new work")]
    Draining,
    /// The container runtime does not answer.
    #[error("the container runtime cannot be reached at the moment: try again later")]
    RuntimeDown,
    /// The daemon has not looked for its sessions and workers yet.
    #[error("the service has just started, and is looking for its sessions and browsers: try again in a moment")]
    Starting,
    /// The store did not answer in time, and nothing was written.
    #[error("the store does not answer at the moment, and nothing was changed: try again later")]
    StoreBusy,
    /// The store did not answer in time, and may still take the task.
    #[error(
        "the store has not answered yet, so it is not known whether task `{task}` is accepted: ask for it later, or send \
         the request again with the same Idempotency-Key"
    )]
    OutcomeUnknown {
        /// The task's id, should it be accepted.
        task: String,
    },
    /// A cancelled task has not ended yet.
    #[error(
        "task `{task}` is being cancelled, and after {} its end is not written yet: it begins nothing new, and ends once the \
         store or its worker answers; look at it later, or cancel it again",
        humantime::format_duration(*waited)
    )]
    TaskStopping {
        /// The task's id.
        task: String,
        /// `tasks.cancel_timeout`
        waited: Duration,
    },
    /// The disk is nearly full.
    #[error("the disk is nearly full, so nothing new can be recorded: free space under the data directory")]
    DiskNearlyFull,
    /// The session's own files fill its directory.
    #[error("the session has no room left for this file: delete others first, or raise `worker.tmp`")]
    NoSpace,
    /// The session's worker, browser or driver failed.
    #[error("{message}")]
    Worker {
        /// What failed.
        message: String,
        /// The cause, for the log.
        #[source]
        source: Option<Cause>,
    },
    /// The driver did not answer in time.
    #[error("the browser did not answer within {} seconds", after.as_secs())]
    WorkerTimeout {
        /// How long the daemon waited.
        after: Duration,
    },
    /// No upstream proxy answers of those that would do.
    #[error("no upstream proxy answers there at the moment: try again later")]
    NoUpstream,
    /// A fault of the daemon itself.
    #[error("internal error: the log has the cause under this request id")]
    Internal {
        /// The cause, for the log.
        #[source]
        source: Cause,
    },
}

fn remedy_for_image(engine: Engine, image: &str, build: Option<&str>) -> String {
    match build {
        Some(build) => format!("its image, `{image}`, is being built now ({build}); try again in a few minutes"),
        None => format!("`./scripts/images --engine {engine}` makes its image, `{image}`"),
    }
}

impl Error {
    /// A failure of the session's worker.
    pub fn worker(message: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self::Worker { message: message.into(), source: Some(source.into()) }
    }

    /// A failure of the daemon itself.
    pub fn internal(source: impl Into<Cause>) -> Self {
        Self::Internal { source: source.into() }
    }

    /// Whether the store did not take something that it may take a little later, and has nothing of it.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::StoreBusy | Self::DiskNearlyFull)
    }
}

/// The first whole number of seconds that is not too short.
const fn seconds(time: &Duration) -> u64 {
    time.as_secs() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reads_never_shows_the_cause() {
        let error = Error::worker("the browser's driver failed", "connect 172.18.0.4:8400 refused");
        assert!(!error.to_string().contains("172.18"));
        let error = Error::internal("sled: /var/lib/warmpool/db");
        assert!(!error.to_string().contains("sled"));
    }

    #[test]
    fn waiting_errors_say_when_to_come_back() {
        for error in [Error::QueueFull { sessions: 1, waiting: 1 }, Error::Draining, Error::RuntimeDown] {
            assert!(error.retry_after().is_some(), "{error}");
        }
    }
}
