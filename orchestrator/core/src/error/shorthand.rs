//! Shorthands for the errors that every crate's own holds.

use super::{Cause, FieldError, ServiceError};

/// Makes an error of any crate that holds those of fields.
pub trait FieldFault: From<FieldError> {
    /// A wrong value in the field `path`; `problem` continues its name, as in "must be a string".
    fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        FieldError::invalid(path, problem).into()
    }

    /// A field that the route does not have; `hint` says where there is one.
    fn unknown(path: impl Into<String>, hint: impl Into<String>) -> Self {
        FieldError::unknown(path, hint).into()
    }

    /// A field that the route does not have, which has those of `known`.
    fn none_of<S: Into<String>>(path: impl Into<String>, known: impl IntoIterator<Item = S>) -> Self {
        FieldError::none_of(path, known).into()
    }

    /// A field of the contract that this build, or this pool, does not serve; `problem` continues its name.
    fn not_supported(path: impl Into<String>, problem: impl Into<String>) -> Self {
        FieldError::not_supported(path, problem).into()
    }
}

impl<E: From<FieldError>> FieldFault for E {}

/// Makes an error of any crate that holds those of the daemon.
pub trait ServiceFault: From<ServiceError> {
    /// A failure of the daemon itself.
    fn internal(source: impl Into<Cause>) -> Self {
        ServiceError::internal(source).into()
    }
}

impl<E: From<ServiceError>> ServiceFault for E {}
