//! The language of tasks: parses and checks what a client writes. This module does no I/O and knows no session.
//!
//! `work` is what a task is to do: a `recording` of `step`s, or an extraction by a `schema`. `selector` finds elements,
//! and `template` fills inputs and secrets in. `fields` reads JSON so that errors name the member by its path, `allowance` says
//! what all parts of a body may take together, and `failure` lists the codes with which a task can fail. `members` describes what is
//! read.

mod allowance;
mod failure;
mod fields;
mod members;
pub(crate) mod recording;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod step;
pub(crate) mod template;
pub(crate) mod work;

pub(crate) use allowance::Allowance;
pub(crate) use failure::FailureCode;
pub(crate) use failure::StepError;
pub(crate) use members::{ExtractMembers, RunMembers};
pub(crate) use template::Values;
pub(crate) use work::TaskWork;
