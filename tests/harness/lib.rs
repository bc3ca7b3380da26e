//! What the end-to-end tests stand on. Nothing here knows the inside of the daemon: it starts the real program, speaks
//! to it as its users do, and asks the container engine what is left.
//!
//! # Layout
//! - [`suite`]: cases in groups, one at a time, a group sharing one daemon; prints the daemon's log of a failed case.
//! - [`daemon`]: the `warmpool` process: start, kill, restart, and "is everything given back".
//! - [`api`]: REST client and replies; [`wire`]: raw connections, TLS and websockets.
//! - [`session`]: one session as a caller holds it; [`cdp`] and [`webdriver`]: just enough of both protocols.
//! - [`disk`]: a small disk that a case may fill.
//! - [`docker`]: the container engine by its command line; [`engine`]: an engine of the test's own.
//! - [`proxy`]: a reverse proxy in front of the daemon.
//! - [`site`]: the web site under test; [`programs`]: Node and Python clients as processes.
//! - [`flows`]: whole flows of real clients, the same for each engine.
//! - [`task`]: tasks as a caller orders them.
//! - [`metrics`]: Prometheus text, read back.
//! - [`eventually!`]: the only way to wait.

pub mod api;
pub mod cdp;
pub mod daemon;
pub mod disk;
pub mod docker;
pub mod engine;
mod eventually;
pub mod flows;
pub mod metrics;
pub mod programs;
pub mod proxy;
pub mod session;
pub mod site;
pub mod suite;
pub mod task;
pub mod webdriver;
pub mod wire;

pub use api::{Api, Reply};
pub use cdp::Cdp;
pub use daemon::{Daemon, Settings};
pub use docker::{Docker, host_address};
pub use engine::Engine;
pub use eventually::{Settled, poll};
pub use proxy::Proxy;
pub use session::Session;
pub use site::Site;
pub use suite::{Group, Stage};
pub use webdriver::Driver;
