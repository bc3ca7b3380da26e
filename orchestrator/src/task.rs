//! Tasks: recorded runs and extractions, carried out in sessions like any client's.
//!
//! `work` is what a task is to do and what comes of it; `recording`, `step`, `selector`, `template` and `schema` read
//! it, and say by `fields` what is wrong. `execute` carries it out on a `browser`: it sets a `stage` on which `steps` and
//! `extract` act, by the hand that is `page` and with the `patience` that pages need. A `fault` becomes a failure there.

pub mod browser;
pub mod execute;
mod extract;
mod fault;
mod fields;
mod page;
mod patience;
mod recording;
mod schema;
mod selector;
mod stage;
mod step;
mod steps;
mod template;
pub mod work;
