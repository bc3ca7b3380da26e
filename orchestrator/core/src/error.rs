//! What the outside learns of an error. Each crate has its own enum; all have the trait [`Fault`], from which http makes the response.
//! `Display` is what the client may read; the `source` goes to the log.
//!
//! Two kinds are shared: each crate's own holds [`ServiceError`], and [`FieldError`] where the crate reads fields of requests.

mod code;
mod fault;
mod field;
mod service;
mod shorthand;
mod words;

pub use code::{Blame, Code};
pub use fault::Fault;
pub use field::{FieldError, join, read_json};
pub use service::ServiceError;
pub use shorthand::{FieldFault, ServiceFault};
pub use words::closest;

/// What lies behind an error, for the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reads_never_shows_the_cause() {
        let error = ServiceError::internal("sled: /var/lib/warmpool/db");
        assert!(!error.to_string().contains("sled"));
    }

    #[test]
    fn waiting_errors_say_when_to_come_back() {
        for error in [ServiceError::Draining, ServiceError::RuntimeDown] {
            assert!(error.retry_after().is_some(), "{error}");
        }
    }
}
