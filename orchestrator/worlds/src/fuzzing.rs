//! The parsers of this crate, for the fuzzer.

pub use crate::attachment::fuzzing as attachment;
pub use crate::request::fuzzing as request;
