//! How long a connection waits for a request, and how long the request's head may take once it has begun. hyper has one
//! limit for both. But an idle connection of the daemon's clients must outlast a load balancer's patience, or the balancer sends a
//! request into a connection that is just being closed, and one of the daemon's with an agent is there for the launch, however late
//! that comes. A client that sends its head byte by byte, however, only holds a place.
//!
//! | module | what it holds |
//! |---|---|
//! | `guard` | the connection, which ends when a head does not come in time |
//! | `count` | which head the connection waits for |
//! | `answer` | the body of an answer, behind which the next wait begins |
//! | `bare_target` | requests without a path, which get one |
//!
//! The crate uses none of our others.

mod answer;
mod bare_target;
mod count;
mod guard;

pub use answer::AnswerBody;
pub use count::HeadCount;
pub use guard::{HeadGuard, HeadLimits};
