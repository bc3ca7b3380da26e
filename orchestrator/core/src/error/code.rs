//! The codes of errors, which programs match on: what each means, its HTTP status, its W3C name, and whose fault it is.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request was wrong or came at a wrong time.
    Client,
    /// A container or the browser in it failed.
    Worker,
    /// The daemon, its store or its container runtime failed.
    Daemon,
}

const fn after(seconds: &[u64]) -> Option<Duration> {
    match seconds {
        [seconds] => Some(Duration::from_secs(*seconds)),
        _ => None,
    }
}

macro_rules! codes {
    ($(#[doc = $about:literal] $name:ident = $text:literal, $status:literal, $webdriver:literal, $blame:ident $(, $retry:literal)?;)+) => {
        /// What is wrong, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code { $(#[doc = $about] #[serde(rename = $text)] $name),+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => $about),+ }
            }

            /// The HTTP status of the REST form.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),+ }
            }

            /// The error of the W3C standard that a WebDriver client sees.
            #[must_use]
            pub const fn webdriver(self) -> &'static str {
                match self { $(Self::$name => $webdriver),+ }
            }

            /// The time after which the same request is worth trying again, where that is known.
            #[must_use]
            pub const fn retry_after(self) -> Option<Duration> {
                match self { $(Self::$name => { let seconds: &[u64] = &[$($retry)?]; after(seconds) })+ }
            }

            /// Whose fault it is.
            #[must_use]
            pub const fn blame(self) -> Blame {
                match self { $(Self::$name => Blame::$blame),+ }
            }
        }
    };
}

codes! {
    /// A field or parameter has a wrong type or value; `field` names it.
    InvalidField = "invalid_field", 400, "invalid argument", Client;
    /// A field or parameter that this call does not have; `field` names it.
    UnknownField = "unknown_field", 400, "invalid argument", Client;
    /// A field that this release, engine or pool does not serve; `field` names it.
    NotSupported = "not_supported", 400, "invalid argument", Client;
    /// The body is not a JSON object.
    InvalidBody = "invalid_body", 400, "invalid argument", Client;
    /// The message is none that MCP's transport takes here.
    InvalidMcpRequest = "invalid_mcp_request", 400, "invalid argument", Client;
    /// A capability would weaken the isolation of the worker, or names another browser.
    CapabilityRefused = "capability_refused", 400, "session not created", Client;
    /// No key was sent.
    MissingKey = "missing_key", 401, "unknown error", Client;
    /// The key is unknown or was revoked.
    InvalidKey = "invalid_key", 401, "unknown error", Client;
    /// The token in the URL does not open this.
    InvalidToken = "invalid_token", 401, "invalid session id", Client;
    /// The header `Host` names a host that this daemon is not.
    ForeignHost = "foreign_host", 403, "unknown error", Client;
    /// A web page of another origin sent the call.
    ForeignOrigin = "foreign_origin", 403, "unknown error", Client;
    /// The call takes an operator's key.
    OperatorOnly = "operator_only", 403, "unknown error", Client;
    /// As many pages follow the daemon as may (`console.max_streams`, `console.max_streams_per_key`).
    StreamLimit = "stream_limit", 429, "unknown error", Client, 5;
    /// The site's `robots.txt` does not let the page be read.
    RefusedByRobots = "refused_by_robots", 403, "unknown error", Client;
    /// There is no such MCP session, or it belongs to another key.
    UnknownMcpSession = "unknown_mcp_session", 404, "unknown error", Client;
    /// The key has as many MCP sessions as it may (`mcp.max_sessions_per_key`).
    McpSessionLimit = "mcp_session_limit", 429, "unknown error", Client, 5;
    /// There is no such key.
    UnknownKey = "unknown_key", 404, "unknown error", Client;
    /// There is no such path.
    UnknownPath = "unknown_path", 404, "unknown command", Client;
    /// The path does not have this method.
    MethodNotAllowed = "method_not_allowed", 405, "unknown method", Client;
    /// The header `Accept` names nothing that the path answers with.
    NotAcceptable = "not_acceptable", 406, "invalid argument", Client;
    /// What a call on a page waited for did not come in time, or the whole call took too long.
    PageTimeout = "page_timeout", 408, "timeout", Client;
    /// The page did not open, or the browser could not do with it what was asked for.
    PageFailed = "page_failed", 500, "unknown error", Client;
    /// There is no such session, or it belongs to another key.
    UnknownSession = "unknown_session", 404, "invalid session id", Client;
    /// The session is over.
    SessionEnded = "session_ended", 404, "invalid session id", Client;
    /// There is no such profile, or it belongs to another key.
    UnknownProfile = "unknown_profile", 404, "invalid argument", Client;
    /// There is a profile of this name already.
    ProfileExists = "profile_exists", 409, "invalid argument", Client;
    /// A session writes the profile; the message names it.
    ProfileInUse = "profile_in_use", 409, "session not created", Client, 5;
    /// The key has as many profiles as it may (`profiles.max_per_key`, `profiles.max_total`).
    ProfileLimit = "profile_limit", 409, "session not created", Client;
    /// The upload is no browser extension.
    InvalidExtension = "invalid_extension", 400, "invalid argument", Client;
    /// There is no such browser extension, or it belongs to another key.
    UnknownExtension = "unknown_extension", 404, "invalid argument", Client;
    /// The key has as many browser extensions as it may (`extensions.max_per_key`, `extensions.max_total`).
    ExtensionLimit = "extension_limit", 409, "session not created", Client;
    /// There is no such task, or it belongs to another key.
    UnknownTask = "unknown_task", 404, "unknown error", Client;
    /// The task has no such artifact.
    UnknownArtifact = "unknown_artifact", 404, "unknown error", Client;
    /// The header `Idempotency-Key` came with another request before.
    IdempotencyKeyReused = "idempotency_key_reused", 422, "unknown error", Client;
    /// As many tasks wait as may (`tasks.queue_length`), and of these the key has its share.
    TaskQueueFull = "task_queue_full", 429, "unknown error", Client, 5;
    /// The tasks of the key, or of all keys, keep as much as they may (`tasks.keep_size_per_key`, `tasks.keep_size`).
    TaskLimit = "task_limit", 409, "unknown error", Client;
    /// No integration key was sent.
    MissingApiKey = "missing_api_key", 401, "unknown error", Client;
    /// The integration key is unknown or was revoked.
    InvalidApiKey = "invalid_api_key", 401, "unknown error", Client;
    /// This address has failed to sign in too often (`server.failed_sign_ins`).
    SignInLimit = "sign_in_limit", 429, "unknown error", Client;
    /// There is no such integration key, or it belongs to another service key.
    UnknownIntegrationKey = "unknown_integration_key", 404, "unknown error", Client;
    /// There is no such world, or it belongs to another key.
    UnknownWorld = "unknown_world", 404, "unknown error", Client;
    /// This address shows no world, or does so no more.
    UnknownViewer = "unknown_viewer", 404, "unknown error", Client;
    /// Nothing is kept of such a patient.
    UnknownPatient = "unknown_patient", 404, "unknown error", Client;
    /// The service key has as many integration keys as it may (`world.max_keys`).
    IntegrationKeyLimit = "integration_key_limit", 409, "unknown error", Client;
    /// As many worlds wait as may, in all or of this service key (`world.queue_length`, `world.max_per_key`).
    WorldQueueFull = "world_queue_full", 429, "unknown error", Client, 5;
    /// The service key's worlds, or its patients, are as much as they may be (`world.max_total`, `world.max_patients`).
    WorldLimit = "world_limit", 409, "unknown error", Client;
    /// This host has no image of the renderer.
    RendererNotInstalled = "renderer_not_installed", 503, "unknown error", Client;
    /// The browser has no such target.
    UnknownTarget = "unknown_target", 404, "unknown error", Client;
    /// There is no such file.
    UnknownFile = "unknown_file", 404, "unknown error", Client;
    /// The path is a websocket.
    UpgradeRequired = "upgrade_required", 426, "unknown error", Client;
    /// No server of Playwright has the client's version (`playwright.versions`).
    PlaywrightVersion = "playwright_version", 428, "session not created", Client;
    /// The state of things does not allow this now.
    Conflict = "conflict", 409, "session not created", Client;
    /// The body is longer than its limit.
    BodyTooLarge = "body_too_large", 413, "invalid argument", Client;
    /// The body would take more memory than one key or address may have for bodies (`server.body_share`, `server.keyless_body_share`).
    BodyTooHeavy = "body_too_heavy", 413, "invalid argument", Client;
    /// Other bodies, or answers that are not read yet, take the memory that there is (`server.body_memory`, `server.answer_memory`, and more).
    BodyMemory = "body_memory", 503, "unknown error", Client, 5;
    /// The body did not arrive in time (`server.body_timeout`).
    BodyTimeout = "body_timeout", 408, "invalid argument", Client;
    /// This address has too many connections (`server.max_connections_per_address`).
    AddressLimit = "address_limit", 429, "unknown error", Client, 5;
    /// The body must be sent as `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415, "invalid argument", Client;
    /// Every session is in use, and every place in the queue (`session.queue_length`).
    QueueFull = "queue_full", 429, "session not created", Client, 5;
    /// The key has as many sessions as it may have (`session.max_per_key`).
    KeyLimit = "key_limit", 429, "session not created", Client, 5;
    /// The session has as many sockets as it may have.
    SocketLimit = "socket_limit", 429, "unknown error", Client, 5;
    /// No browser came free in time.
    NoWorker = "no_worker", 503, "session not created", Client, 10;
    /// This host has no image of the engine.
    EngineNotInstalled = "engine_not_installed", 503, "session not created", Client;
    /// Browsers of this kind fail to start.
    BrowserNotStarting = "browser_not_starting", 503, "session not created", Worker, 10;
    /// No upstream proxy answers of those that would do.
    ProxyUnavailable = "proxy_unavailable", 503, "session not created", Client;
    /// The daemon is shutting down.
    Draining = "draining", 503, "session not created", Client, 30;
    /// The container runtime does not answer.
    RuntimeDown = "runtime_down", 503, "session not created", Daemon, 10;
    /// The daemon has just started, and has not found its sessions and browsers yet.
    Starting = "starting", 503, "session not created", Daemon, 2;
    /// The store did not answer in time, and nothing was changed.
    StoreBusy = "store_busy", 503, "session not created", Daemon, 5;
    /// The store has not answered yet, so the task may or may not be accepted.
    OutcomeUnknown = "outcome_unknown", 503, "session not created", Daemon, 5;
    /// The task is being cancelled, and its end is not written yet (`tasks.cancel_timeout`).
    TaskStopping = "task_stopping", 503, "unknown error", Daemon, 5;
    /// The disk is nearly full.
    DiskNearlyFull = "disk_nearly_full", 507, "session not created", Daemon, 30;
    /// The session has no room left for the file.
    NoSpace = "no_space", 507, "unknown error", Client;
    /// The worker, its browser or its driver failed.
    WorkerFailed = "worker_failed", 502, "unknown error", Worker;
    /// The browser did not answer in time.
    WorkerTimeout = "worker_timeout", 504, "timeout", Worker;
    /// A fault of the daemon; its log has the cause under the request id.
    Internal = "internal", 500, "unknown error", Daemon;
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
            let row = format!("| {} |", code.status());
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
