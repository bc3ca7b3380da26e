//! The harness of the end-to-end tests. It knows nothing of the daemon's code but the types of its API: it starts the real
//! program, speaks to it as its users do, and asks the container engine what is left.
//!
//! # Layout
//! - [`suite`]: cases in groups, one at a time, a group sharing one daemon; prints the daemon's log of a failed case.
//! - [`daemon`]: the `warmpool` process: start, kill, restart, and check that it has given everything back.
//! - [`api`]: REST client and replies; [`wire`]: raw connections, TLS and websockets.
//! - [`session`]: one session as a caller holds it; [`cdp`] and [`webdriver`]: just enough of both protocols.
//! - [`disk`]: a small disk that a case may fill. [`swap`]: swap that it brings.
//! - [`docker`]: the container engine by its command line; [`engine`]: the test's own engine, [`podman`]: its own Podman; [`swarm`]: a swarm of
//!   three; [`kubernetes`]: a cluster of two nodes.
//! - [`captcha`]: a service that solves challenges, and one that takes webhooks.
//! - [`upstream`]: proxies that carry sessions. [`names`]: a name server. [`proxy`]: a reverse proxy in front of the daemon.
//! - [`site`]: the web site under test; [`programs`]: Node and Python clients as processes.
//! - [`flows`]: whole flows of real clients, the same for each engine.
//! - [`task`]: tasks as a caller orders them.
//! - [`thread_end`]: a thread of the daemon's that ends by itself.
//! - [`evidence`]: what a case notes for RELIABILITY.md. [`clock`]: a wall clock that a case sets.
//! - [`metrics`]: Prometheus text, read back. [`secrecy`]: what the daemon may show nobody.
//! - [`eventually!`]: the only way to wait.

pub mod api;
pub mod captcha;
pub mod cdp;
pub mod clock;
pub mod daemon;
pub mod disk;
pub mod docker;
pub mod engine;
mod eventually;
pub mod evidence;
pub mod faulty_engine;
pub mod flows;
pub mod kubernetes;
pub mod metrics;
pub mod names;
pub mod podman;
pub mod private_site;
pub mod programs;
pub mod proxy;
pub mod registry;
pub mod secrecy;
mod seed;
pub mod session;
pub mod site;
pub mod suite;
pub mod swap;
pub mod swarm;
pub mod task;
pub mod thread_end;
pub mod upstream;
pub mod webdriver;
pub mod wire;

pub use api::{Api, Reply};
pub use cdp::Cdp;
pub use daemon::{Daemon, Settings};
pub use docker::{Docker, host_address};
pub use engine::{Engine, REMAPPED};
pub use eventually::{Condition, poll, poll_since};
pub use faulty_engine::{Fault, FaultyEngine};
pub use kubernetes::Kubernetes;
pub use podman::Podman;
pub use proxy::Proxy;
pub use registry::Registry;
pub use session::Session;
pub use site::Site;
pub use suite::{Group, Stage};
pub use swarm::{Nodes, Swarm};
pub use webdriver::Driver;
