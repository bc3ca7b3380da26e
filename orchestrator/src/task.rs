//! Tasks: recorded runs and extractions, carried out in sessions like any client's, and their history.
//!
//! `work` is what a task is to do and what comes of it; `recording`, `step`, `selector`, `template` and `schema` read it;
//! `execute` carries it out on a `browser`; `steps` and `extract` are what it does there; `page` is its hand in the page.

pub mod browser;
pub mod execute;
mod history;
pub mod id;
pub mod query;
pub mod record;
pub mod work;
