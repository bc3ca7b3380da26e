//! What the outside learns of an error, whichever crate it belongs to.

use std::time::Duration;

use super::Code;

/// An error that a client may be told of. `Display` is what the client reads; the source goes to the log. The code decides
/// the status, whose fault it is, when to try again, and the word of the W3C standard.
pub trait Fault: std::error::Error + Send + Sync {
    /// What programs match on.
    fn code(&self) -> Code;

    /// The time after which the same request is worth trying again.
    fn retry_after(&self) -> Option<Duration> {
        self.code().retry_after()
    }

    /// The field, parameter or capability at fault, by its path.
    fn field(&self) -> Option<&str> {
        None
    }
}
