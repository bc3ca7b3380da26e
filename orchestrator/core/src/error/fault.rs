//! What the outside learns of an error, whichever crate it belongs to.

use std::time::Duration;

use super::Code;

/// An error that a client may be told of. `Display` is what the client reads; the source goes to the log. The code decides
/// the status, whose fault it is, when to try again, and the word of the W3C standard.
pub trait Fault: std::error::Error + Send + Sync {
    /// The error that this one wraps, which answers for it. Where it wraps none, the `Err` is its own code.
    fn inner(&self) -> Result<&dyn Fault, Code>;

    /// What programs match on.
    fn code(&self) -> Code {
        self.inner().map_or_else(|code| code, Fault::code)
    }

    /// The time after which the same request is worth trying again.
    fn retry_after(&self) -> Option<Duration> {
        self.inner().map_or_else(Code::retry_after, Fault::retry_after)
    }

    /// The field, parameter or capability at fault, by its path.
    fn field(&self) -> Option<&str> {
        self.inner().ok()?.field()
    }

    /// Whether the store did not take something that it may take a little later, and has nothing of it: it is busy, or the disk is
    /// nearly full.
    fn is_shortage(&self) -> bool {
        matches!(self.code(), Code::StoreBusy | Code::DiskNearlyFull)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FieldError, ServiceError};
    use super::*;

    /// An error of one crate.
    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error(transparent)]
        Field(#[from] FieldError),
        #[error(transparent)]
        Service(#[from] ServiceError),
        #[error("too many")]
        Limit,
    }

    impl Fault for Error {
        fn inner(&self) -> Result<&dyn Fault, Code> {
            Err(match self {
                Self::Field(error) => return Ok(error),
                Self::Service(error) => return Ok(error),
                Self::Limit => Code::SignInLimit,
            })
        }

        fn retry_after(&self) -> Option<Duration> {
            match self {
                Self::Limit => Some(Duration::from_secs(77)),
                other => other.inner().map_or_else(Code::retry_after, Fault::retry_after),
            }
        }
    }

    /// That of another crate, which uses the first one.
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Outer(#[from] Error);

    impl Fault for Outer {
        fn inner(&self) -> Result<&dyn Fault, Code> {
            Ok(&self.0)
        }
    }

    #[test]
    fn an_error_answers_for_those_that_wrap_it() {
        let wrong = Outer(FieldError::invalid("a.b", "is wrong").into());
        assert_eq!((wrong.code(), wrong.field(), wrong.retry_after()), (Code::InvalidField, Some("a.b"), None));
        let limit = Outer(Error::Limit);
        assert_eq!((limit.code(), limit.field()), (Code::SignInLimit, None));
        assert_eq!(limit.retry_after(), Some(Duration::from_secs(77)), "its own time, and not its code's");
        let draining = Outer(ServiceError::Draining.into());
        assert_eq!(draining.retry_after(), Code::Draining.retry_after());
        assert!(draining.retry_after().is_some());
    }

    #[test]
    fn a_busy_store_and_a_full_disk_are_shortages() {
        for shortage in [ServiceError::StoreBusy, ServiceError::DiskNearlyFull] {
            assert!(Outer(shortage.into()).is_shortage());
        }
        for lasting in [ServiceError::Draining, ServiceError::RuntimeDown, ServiceError::internal("x")] {
            assert!(!Outer(lasting.into()).is_shortage());
        }
        assert!(!Outer(Error::Limit).is_shortage());
    }
}
