//! What the runtimes of many nodes share, whatever runs them.
//!
//! `admission` knows which nodes may have workers: `probe` looks at one from inside, and `requirements` judges what it finds;
//! `avoided` are those that could not start an image lately. `lease` keeps a second daemon out, and `ownership_term` this one
//! from what is not its own any more.

pub(crate) mod admission;
pub(crate) mod avoided;
pub(crate) mod lease;
pub(crate) mod ownership_term;
pub(crate) mod probe;
pub(crate) mod requirements;
