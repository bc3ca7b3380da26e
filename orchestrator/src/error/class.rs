//! What each error is to programs: its code, its HTTP status, its W3C name, and whose fault it is.

use fantoccini::error::ErrorStatus;
use http::StatusCode;

use super::field::Problem;
use super::{Blame, Error};

impl Error {
    /// The code that programs match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidBody { .. } => "invalid_body",
            Self::Field(error) => match error.problem() {
                Problem::Invalid(_) => "invalid_field",
                Problem::Unknown(_) | Problem::NoneOf(_) => "unknown_field",
                Problem::NotSupported(_) => "not_supported",
            },
            Self::Capability { .. } => "capability_refused",
            Self::MissingKey | Self::MisplacedKey { .. } => "missing_key",
            Self::InvalidKey => "invalid_key",
            Self::InvalidToken => "invalid_token",
            Self::ForeignHost { .. } => "foreign_host",
            Self::ForeignOrigin { .. } => "foreign_origin",
            Self::UnknownPath { .. } => "unknown_path",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::UnknownSession { .. } => "unknown_session",
            Self::SessionEnded { .. } => "session_ended",
            Self::UnknownTask { .. } => "unknown_task",
            Self::UnknownArtifact { .. } => "unknown_artifact",
            Self::KeyReused => "idempotency_key_reused",
            Self::TaskQueueFull { .. } => "task_queue_full",
            Self::MissingApiKey => "missing_api_key",
            Self::InvalidApiKey => "invalid_api_key",
            Self::SignInLimit { .. } => "sign_in_limit",
            Self::UnknownIntegrationKey { .. } => "unknown_integration_key",
            Self::UnknownWorld { .. } => "unknown_world",
            Self::UnknownViewer => "unknown_viewer",
            Self::UnknownPatient => "unknown_patient",
            Self::WorldQueueFull { .. } => "world_queue_full",
            Self::NoRenderer { .. } => "renderer_not_installed",
            Self::UnknownTarget => "unknown_target",
            Self::UnknownFile { .. } => "unknown_file",
            Self::UpgradeRequired => "upgrade_required",
            Self::Conflict { .. } => "conflict",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTooHeavy { .. } => "body_too_heavy",
            Self::BodyMemory => "body_memory",
            Self::BodyTimeout { .. } => "body_timeout",
            Self::AddressLimit { .. } => "address_limit",
            Self::MediaType => "unsupported_media_type",
            Self::QueueFull { .. } => "queue_full",
            Self::KeyLimit { .. } => "key_limit",
            Self::SocketLimit { .. } => "socket_limit",
            Self::NoWorker { .. } => "no_worker",
            Self::NoEngine { .. } => "engine_not_installed",
            Self::NoStart { .. } => "browser_not_starting",
            Self::NoUpstream => "proxy_unavailable",
            Self::Draining => "draining",
            Self::RuntimeDown => "runtime_down",
            Self::StoreBusy => "store_busy",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::DiskNearlyFull => "disk_nearly_full",
            Self::NoSpace => "no_space",
            Self::Worker { .. } => "worker_failed",
            Self::WorkerTimeout { .. } => "worker_timeout",
            Self::NotBuilt { .. } => "not_built",
            Self::Internal { .. } => "internal",
        }
    }

    /// The HTTP status of the REST form.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::InvalidBody { .. } | Self::Field(_) | Self::Capability { .. } => StatusCode::BAD_REQUEST,
            Self::MissingKey
            | Self::MisplacedKey { .. }
            | Self::InvalidKey
            | Self::MissingApiKey
            | Self::InvalidApiKey
            | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::ForeignHost { .. } | Self::ForeignOrigin { .. } => StatusCode::FORBIDDEN,
            Self::UnknownPath { .. }
            | Self::UnknownSession { .. }
            | Self::SessionEnded { .. }
            | Self::UnknownTask { .. }
            | Self::UnknownArtifact { .. }
            | Self::UnknownIntegrationKey { .. }
            | Self::UnknownWorld { .. }
            | Self::UnknownViewer
            | Self::UnknownPatient
            | Self::UnknownTarget
            | Self::UnknownFile { .. } => StatusCode::NOT_FOUND,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::BodyTooLarge { .. } | Self::BodyTooHeavy { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::QueueFull { .. }
            | Self::TaskQueueFull { .. }
            | Self::WorldQueueFull { .. }
            | Self::KeyLimit { .. }
            | Self::SocketLimit { .. }
            | Self::SignInLimit { .. }
            | Self::AddressLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoWorker { .. }
            | Self::NoEngine { .. }
            | Self::NoRenderer { .. }
            | Self::NoStart { .. }
            | Self::NoUpstream
            | Self::BodyMemory
            | Self::Draining
            | Self::RuntimeDown
            | Self::StoreBusy
            | Self::OutcomeUnknown { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::DiskNearlyFull | Self::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Self::Worker { .. } => StatusCode::BAD_GATEWAY,
            Self::WorkerTimeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::NotBuilt { .. } => StatusCode::NOT_IMPLEMENTED,
            Self::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The W3C error that a WebDriver client sees; it carries a status of its own.
    #[must_use]
    pub const fn webdriver(&self) -> ErrorStatus {
        match self {
            Self::InvalidBody { .. }
            | Self::Field(_)
            | Self::BodyTooLarge { .. }
            | Self::BodyTooHeavy { .. }
            | Self::BodyTimeout { .. }
            | Self::MediaType => ErrorStatus::InvalidArgument,
            Self::Capability { .. }
            | Self::Conflict { .. }
            | Self::QueueFull { .. }
            | Self::KeyLimit { .. }
            | Self::NoWorker { .. }
            | Self::NoEngine { .. }
            | Self::NoStart { .. }
            | Self::NoUpstream
            | Self::Draining
            | Self::RuntimeDown
            | Self::StoreBusy
            | Self::OutcomeUnknown { .. }
            | Self::DiskNearlyFull => ErrorStatus::SessionNotCreated,
            Self::InvalidToken | Self::UnknownSession { .. } | Self::SessionEnded { .. } => {
                ErrorStatus::InvalidSessionId
            }
            Self::UnknownPath { .. } => ErrorStatus::UnknownCommand,
            Self::MethodNotAllowed { .. } => ErrorStatus::UnknownMethod,
            Self::WorkerTimeout { .. } => ErrorStatus::Timeout,
            Self::MissingKey
            | Self::MisplacedKey { .. }
            | Self::InvalidKey
            | Self::ForeignHost { .. }
            | Self::ForeignOrigin { .. }
            | Self::UnknownTask { .. }
            | Self::UnknownArtifact { .. }
            | Self::KeyReused
            | Self::TaskQueueFull { .. }
            | Self::MissingApiKey
            | Self::InvalidApiKey
            | Self::SignInLimit { .. }
            | Self::UnknownIntegrationKey { .. }
            | Self::UnknownWorld { .. }
            | Self::UnknownViewer
            | Self::UnknownPatient
            | Self::WorldQueueFull { .. }
            | Self::NoRenderer { .. }
            | Self::UnknownTarget
            | Self::UnknownFile { .. }
            | Self::UpgradeRequired
            | Self::SocketLimit { .. }
            | Self::BodyMemory
            | Self::AddressLimit { .. }
            | Self::NoSpace
            | Self::Worker { .. }
            | Self::NotBuilt { .. }
            | Self::Internal { .. } => ErrorStatus::UnknownError,
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Worker { .. } | Self::WorkerTimeout { .. } | Self::NoStart { .. } => Blame::Worker,
            Self::RuntimeDown
            | Self::StoreBusy
            | Self::OutcomeUnknown { .. }
            | Self::DiskNearlyFull
            | Self::NotBuilt { .. }
            | Self::Internal { .. } => Blame::Daemon,
            _ => Blame::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    /// Every code of this file stands in the guide's table.
    #[test]
    fn the_guide_lists_every_code() {
        let source = include_str!("class.rs");
        let (_, codes) = source.split_once("pub const fn code").unwrap();
        let (codes, _) = codes.split_once("pub const fn status").unwrap();
        let guide = include_str!("../../docs/api.md");
        let codes: Vec<&str> = codes.split('"').skip(1).step_by(2).collect();
        assert!(codes.len() > 40, "{codes:?}");
        let missing: Vec<&&str> = codes.iter().filter(|code| !guide.contains(&format!("`{code}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
