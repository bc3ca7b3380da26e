//! The codes of errors, which programs match on: what each means, its HTTP status, its W3C name, and whose fault it is.

use fantoccini::error::ErrorStatus;
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The request was wrong or came at a wrong time.
    Client,
    /// A container or the browser in it failed.
    Worker,
    /// The daemon, its store or its container runtime failed.
    Daemon,
}

macro_rules! codes {
    ($(#[doc = $about:literal] $name:ident = $text:literal, $status:ident, $word:ident, $blame:ident;)+) => {
        /// What is wrong, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub(crate) enum Code { $(#[doc = $about] #[serde(rename = $text)] $name),+ }

        impl Code {
            /// Every code.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as text.
            #[must_use]
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub(crate) const fn about(self) -> &'static str {
                match self { $(Self::$name => $about),+ }
            }

            /// The HTTP status of the REST form.
            #[must_use]
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),+ }
            }

            /// The W3C error that a WebDriver client sees.
            #[must_use]
            pub(crate) const fn webdriver(self) -> ErrorStatus {
                match self { $(Self::$name => ErrorStatus::$word),+ }
            }

            /// Whose fault it is.
            #[must_use]
            pub(crate) const fn blame(self) -> Blame {
                match self { $(Self::$name => Blame::$blame),+ }
            }
        }
    };
}

codes! {
    /// A field or parameter has a wrong type or value; `field` names it.
    InvalidField = "invalid_field", BAD_REQUEST, InvalidArgument, Client;
    /// A field or parameter that this call does not have; `field` names it.
    UnknownField = "unknown_field", BAD_REQUEST, InvalidArgument, Client;
    /// A field that this release, engine or pool does not serve; `field` names it.
    NotSupported = "not_supported", BAD_REQUEST, InvalidArgument, Client;
    /// The body is not a JSON object.
    InvalidBody = "invalid_body", BAD_REQUEST, InvalidArgument, Client;
    /// A capability would weaken the isolation of the worker, or names another browser.
    CapabilityRefused = "capability_refused", BAD_REQUEST, SessionNotCreated, Client;
    /// No key was sent.
    MissingKey = "missing_key", UNAUTHORIZED, UnknownError, Client;
    /// The key is unknown or was revoked.
    InvalidKey = "invalid_key", UNAUTHORIZED, UnknownError, Client;
    /// The token in the URL does not open this.
    InvalidToken = "invalid_token", UNAUTHORIZED, InvalidSessionId, Client;
    /// The header `Host` names a host that this daemon is not.
    ForeignHost = "foreign_host", FORBIDDEN, UnknownError, Client;
    /// A web page of another origin sent the call.
    ForeignOrigin = "foreign_origin", FORBIDDEN, UnknownError, Client;
    /// The call takes an operator's key.
    OperatorOnly = "operator_only", FORBIDDEN, UnknownError, Client;
    /// As many pages follow the daemon as may (`console.max_streams`).
    StreamLimit = "stream_limit", TOO_MANY_REQUESTS, UnknownError, Client;
    /// There is no such key.
    UnknownKey = "unknown_key", NOT_FOUND, UnknownError, Client;
    /// There is no such path.
    UnknownPath = "unknown_path", NOT_FOUND, UnknownCommand, Client;
    /// The path does not have this method.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, UnknownMethod, Client;
    /// There is no such session, or it belongs to another key.
    UnknownSession = "unknown_session", NOT_FOUND, InvalidSessionId, Client;
    /// The session is over.
    SessionEnded = "session_ended", NOT_FOUND, InvalidSessionId, Client;
    /// There is no such task, or it belongs to another key.
    UnknownTask = "unknown_task", NOT_FOUND, UnknownError, Client;
    /// The task has no such artifact.
    UnknownArtifact = "unknown_artifact", NOT_FOUND, UnknownError, Client;
    /// The header `Idempotency-Key` came with another request before.
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, UnknownError, Client;
    /// As many tasks wait as may (`tasks.queue_length`).
    TaskQueueFull = "task_queue_full", TOO_MANY_REQUESTS, UnknownError, Client;
    /// No integration key was sent.
    MissingApiKey = "missing_api_key", UNAUTHORIZED, UnknownError, Client;
    /// The integration key is unknown or was revoked.
    InvalidApiKey = "invalid_api_key", UNAUTHORIZED, UnknownError, Client;
    /// This address has failed to sign in too often (`server.failed_sign_ins`).
    SignInLimit = "sign_in_limit", TOO_MANY_REQUESTS, UnknownError, Client;
    /// There is no such integration key, or it belongs to another service key.
    UnknownIntegrationKey = "unknown_integration_key", NOT_FOUND, UnknownError, Client;
    /// There is no such world, or it belongs to another key.
    UnknownWorld = "unknown_world", NOT_FOUND, UnknownError, Client;
    /// This address shows no world, or does so no more.
    UnknownViewer = "unknown_viewer", NOT_FOUND, UnknownError, Client;
    /// Nothing is kept of such a patient.
    UnknownPatient = "unknown_patient", NOT_FOUND, UnknownError, Client;
    /// As many worlds wait as may, in all or of this key (`world.queue_length`, `world.max_per_key`).
    WorldQueueFull = "world_queue_full", TOO_MANY_REQUESTS, UnknownError, Client;
    /// This host has no image of the renderer.
    RendererNotInstalled = "renderer_not_installed", SERVICE_UNAVAILABLE, UnknownError, Client;
    /// The browser has no such target.
    UnknownTarget = "unknown_target", NOT_FOUND, UnknownError, Client;
    /// There is no such file.
    UnknownFile = "unknown_file", NOT_FOUND, UnknownError, Client;
    /// The path is a websocket.
    UpgradeRequired = "upgrade_required", UPGRADE_REQUIRED, UnknownError, Client;
    /// The state of things does not allow this now.
    Conflict = "conflict", CONFLICT, SessionNotCreated, Client;
    /// The body is longer than its limit.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, InvalidArgument, Client;
    /// The body would take more memory than there is for all bodies (`server.body_memory`).
    BodyTooHeavy = "body_too_heavy", PAYLOAD_TOO_LARGE, InvalidArgument, Client;
    /// Other bodies take the memory that there is for them (`server.body_memory`).
    BodyMemory = "body_memory", SERVICE_UNAVAILABLE, UnknownError, Client;
    /// The body did not arrive in time (`server.body_timeout`).
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, InvalidArgument, Client;
    /// This address has too many connections (`server.max_connections_per_address`).
    AddressLimit = "address_limit", TOO_MANY_REQUESTS, UnknownError, Client;
    /// The body must be sent as `application/json`.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, InvalidArgument, Client;
    /// Every session is in use, and every place in the queue (`session.queue_length`).
    QueueFull = "queue_full", TOO_MANY_REQUESTS, SessionNotCreated, Client;
    /// The key has as many sessions as it may have (`session.max_per_key`).
    KeyLimit = "key_limit", TOO_MANY_REQUESTS, SessionNotCreated, Client;
    /// The session has as many sockets as it may have.
    SocketLimit = "socket_limit", TOO_MANY_REQUESTS, UnknownError, Client;
    /// No browser came free in time.
    NoWorker = "no_worker", SERVICE_UNAVAILABLE, SessionNotCreated, Client;
    /// This host has no image of the engine.
    EngineNotInstalled = "engine_not_installed", SERVICE_UNAVAILABLE, SessionNotCreated, Client;
    /// Browsers of this kind fail to start.
    BrowserNotStarting = "browser_not_starting", SERVICE_UNAVAILABLE, SessionNotCreated, Worker;
    /// No upstream proxy answers of those that would do.
    ProxyUnavailable = "proxy_unavailable", SERVICE_UNAVAILABLE, SessionNotCreated, Client;
    /// The daemon is shutting down.
    Draining = "draining", SERVICE_UNAVAILABLE, SessionNotCreated, Client;
    /// The container runtime does not answer.
    RuntimeDown = "runtime_down", SERVICE_UNAVAILABLE, SessionNotCreated, Daemon;
    /// The daemon has just started, and has not found its sessions and browsers yet.
    Starting = "starting", SERVICE_UNAVAILABLE, SessionNotCreated, Daemon;
    /// The store did not answer in time, and nothing was changed.
    StoreBusy = "store_busy", SERVICE_UNAVAILABLE, SessionNotCreated, Daemon;
    /// The store has not answered yet, so the task may or may not be accepted.
    OutcomeUnknown = "outcome_unknown", SERVICE_UNAVAILABLE, SessionNotCreated, Daemon;
    /// The task is being cancelled, and its end is not written yet (`tasks.cancel_timeout`).
    TaskStopping = "task_stopping", SERVICE_UNAVAILABLE, UnknownError, Daemon;
    /// The disk is nearly full.
    DiskNearlyFull = "disk_nearly_full", INSUFFICIENT_STORAGE, SessionNotCreated, Daemon;
    /// The session has no room left for the file.
    NoSpace = "no_space", INSUFFICIENT_STORAGE, UnknownError, Client;
    /// The worker, its browser or its driver failed.
    WorkerFailed = "worker_failed", BAD_GATEWAY, UnknownError, Worker;
    /// The browser did not answer in time.
    WorkerTimeout = "worker_timeout", GATEWAY_TIMEOUT, Timeout, Worker;
    /// A fault of the daemon; its log has the cause under the request id.
    Internal = "internal", INTERNAL_SERVER_ERROR, UnknownError, Daemon;
}

impl Code {
    /// The HTTP status of the W3C form.
    #[must_use]
    pub(crate) fn webdriver_status(self) -> StatusCode {
        match self.status() {
            // The standard has no word for a missing key or a foreign page, and clients look for the status.
            StatusCode::UNAUTHORIZED if self != Self::InvalidToken => StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN => StatusCode::FORBIDDEN,
            _ => self.webdriver().http_status(),
        }
    }
}

impl JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes: Vec<&str> = Self::ALL.iter().map(|code| code.as_str()).collect();
        let lines = Self::ALL.iter().map(|code| format!("- `{}` ({}): {}", code.as_str(), code.status(), code.about()));
        json_schema!({
            "type": "string",
            "enum": codes,
            "description": format!("What is wrong, for programs.\n\n{}", lines.collect::<Vec<_>>().join("\n")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code stands in the guide's table, in the row of its status.
    #[test]
    fn the_guide_lists_every_code() {
        let guide = include_str!("../../../docs/api.md");
        for code in Code::ALL {
            let row = format!("| {} |", code.status().as_u16());
            let row = guide.lines().find(|line| line.starts_with(&row)).unwrap_or_default();
            assert!(row.contains(&format!("`{}`", code.as_str())), "{code:?} is missing in the row {row:?}");
        }
    }

    #[test]
    fn a_code_reads_the_same_everywhere() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
