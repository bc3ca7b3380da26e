//! What a program sees of an error.

use std::time::Duration;

use super::field::Problem;
use super::{Code, Error, Fault, seconds};

impl Fault for Error {
    fn code(&self) -> Code {
        match self {
            Self::Field(error) => match error.problem() {
                Problem::Invalid(_) => Code::InvalidField,
                Problem::Unknown(_) | Problem::NoneOf(_) => Code::UnknownField,
                Problem::NotSupported(_) => Code::NotSupported,
            },
            Self::InvalidBody { .. } => Code::InvalidBody,
            Self::Capability { .. } => Code::CapabilityRefused,
            Self::MissingKey | Self::MisplacedKey { .. } => Code::MissingKey,
            Self::InvalidKey => Code::InvalidKey,
            Self::OperatorOnly => Code::OperatorOnly,
            Self::StreamLimit { .. } => Code::StreamLimit,
            Self::UnknownKey { .. } => Code::UnknownKey,
            Self::InvalidToken => Code::InvalidToken,
            Self::ForeignHost { .. } => Code::ForeignHost,
            Self::ForeignOrigin { .. } => Code::ForeignOrigin,
            Self::UnknownPath { .. } => Code::UnknownPath,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::UnknownSession { .. } => Code::UnknownSession,
            Self::SessionEnded { .. } => Code::SessionEnded,
            Self::UnknownTask { .. } => Code::UnknownTask,
            Self::UnknownArtifact { .. } => Code::UnknownArtifact,
            Self::KeyReused => Code::IdempotencyKeyReused,
            Self::TaskQueueFull { .. } => Code::TaskQueueFull,
            Self::MissingApiKey => Code::MissingApiKey,
            Self::InvalidApiKey => Code::InvalidApiKey,
            Self::SignInLimit { .. } => Code::SignInLimit,
            Self::UnknownIntegrationKey { .. } => Code::UnknownIntegrationKey,
            Self::UnknownWorld { .. } => Code::UnknownWorld,
            Self::UnknownViewer => Code::UnknownViewer,
            Self::UnknownPatient => Code::UnknownPatient,
            Self::WorldQueueFull { .. } | Self::WorldKeyLimit { .. } => Code::WorldQueueFull,
            Self::NoRenderer { .. } => Code::RendererNotInstalled,
            Self::UnknownTarget | Self::ForeignTarget => Code::UnknownTarget,
            Self::UnknownFile { .. } => Code::UnknownFile,
            Self::UpgradeRequired => Code::UpgradeRequired,
            Self::Conflict { .. } => Code::Conflict,
            Self::BodyTooLarge { .. } => Code::BodyTooLarge,
            Self::BodyTooHeavy { .. } => Code::BodyTooHeavy,
            Self::BodyMemory => Code::BodyMemory,
            Self::BodyTimeout { .. } => Code::BodyTimeout,
            Self::AddressLimit { .. } => Code::AddressLimit,
            Self::MediaType => Code::UnsupportedMediaType,
            Self::QueueFull { .. } => Code::QueueFull,
            Self::KeyLimit { .. } => Code::KeyLimit,
            Self::SocketLimit { .. } => Code::SocketLimit,
            Self::NoWorker { .. } => Code::NoWorker,
            Self::NoEngine { .. } => Code::EngineNotInstalled,
            Self::NoStart { .. } => Code::BrowserNotStarting,
            Self::NoUpstream => Code::ProxyUnavailable,
            Self::Draining => Code::Draining,
            Self::RuntimeDown => Code::RuntimeDown,
            Self::Starting => Code::Starting,
            Self::StoreBusy => Code::StoreBusy,
            Self::OutcomeUnknown { .. } => Code::OutcomeUnknown,
            Self::TaskStopping { .. } => Code::TaskStopping,
            Self::DiskNearlyFull => Code::DiskNearlyFull,
            Self::NoSpace => Code::NoSpace,
            Self::Worker { .. } => Code::WorkerFailed,
            Self::WorkerTimeout { .. } => Code::WorkerTimeout,
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { .. }
            | Self::TaskQueueFull { .. }
            | Self::WorldQueueFull { .. }
            | Self::WorldKeyLimit { .. }
            | Self::KeyLimit { .. }
            | Self::StreamLimit { .. }
            | Self::SocketLimit { .. } => Some(Duration::from_secs(5)),
            Self::Starting => Some(Duration::from_secs(2)),
            Self::BodyMemory
            | Self::AddressLimit { .. }
            | Self::StoreBusy
            | Self::OutcomeUnknown { .. }
            | Self::TaskStopping { .. } => Some(Duration::from_secs(5)),
            Self::NoWorker { .. } | Self::NoStart { .. } | Self::RuntimeDown => Some(Duration::from_secs(10)),
            Self::SignInLimit { retry_after } => Some(Duration::from_secs(seconds(retry_after))),
            Self::Draining | Self::DiskNearlyFull => Some(Duration::from_secs(30)),
            _ => None,
        }
    }
    fn field(&self) -> Option<&str> {
        match self {
            Self::Field(error) => Some(error.path()),
            Self::Capability { capability, .. } => Some(capability),
            Self::NoEngine { .. } => Some("browser_type"),
            _ => None,
        }
    }
}
