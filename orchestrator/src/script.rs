//! The language of tasks: what a client writes, read and checked. It is pure: it knows no session, no worker and no I/O.
//!
//! `work` is what a task is to do. `recording`, `step`, `selector`, `template` and `schema` read it, and say by `fields`
//! what is wrong. `fault` names what may go wrong with it.

pub(crate) mod fault;
mod fields;
pub(crate) mod recording;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod step;
pub(crate) mod template;
pub(crate) mod work;

pub(crate) use fault::FailureCode;
pub(crate) use work::Work;
