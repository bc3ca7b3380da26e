//! The daemon's view of one worker: a container with one browser that nobody has used, or that one session owns.
//!
//! `agent` speaks with the program inside the container, in the terms of `warmpool_protocol`; `watch` follows its events and
//! decides when a worker is lost. `attachment` leads a client's websocket to the browser, and `driver` WebDriver's commands to
//! the driver, both over the sockets of `port`.
//! `connection` reaches the agent, `connected` fits streams to pooled clients, `upgrade` turns a request into another protocol, `lines`
//! reads the agent's streams, and `idle` limits the pauses in bodies.

mod agent;
mod attachment;
mod connected;
mod connection;
mod driver;
mod idle;
mod lines;
mod port;
mod upgrade;
mod watch;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch as channel;

pub use agent::{Agent, AgentError, Body, full};
pub use attachment::{AgentListener, BrowserSide};
pub use connected::Connected;
pub use connection::{AgentStream, ReadHalf, WriteHalf};
pub use driver::Driver;
pub use idle::{Content, unless_silent};
pub use lines::Lines;
pub use port::{HandedSocket, PortReadHalf, PortStream, PortWriteHalf};
pub use upgrade::Upgrade;
pub use watch::watch;

use warmpool_protocol::{Secret, Size, Snapshot};

use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;
use warmpool_runtime::{NodeLoss, WorkerLocation};

/// The size of pages that nobody has sized, on every engine, with a display and without.
pub const PAGE: Size = Size { width: 1280, height: 720 };

/// Why a worker cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossReason {
    /// The browser ended by itself, with exit code 0: a client closed it.
    BrowserClosed,
    /// The browser crashed.
    BrowserExited {
        /// The exit code, where the browser ended by itself.
        code: Option<i32>,
        /// The signal that ended it, where one did.
        signal: Option<i32>,
    },
    /// The kernel ended the browser, or the whole container, because memory ran out.
    OutOfMemory,
    /// The WebDriver driver crashed.
    DriverExited,
    /// The container ended by itself.
    ContainerExited {
        /// The exit code of its first process.
        code: i64,
    },
    /// The container engine stopped, and its containers with it.
    EngineStopped,
    /// Somebody else removed the container.
    ContainerGone,
    /// Its container went with its node, or by the cluster's will.
    Node(NodeLoss),
    /// The browser or the agent does not answer any more.
    Unresponsive,
    /// It never became ready.
    BootFailed {
        /// Why, in the agent's words.
        reason: String,
    },
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BrowserClosed => f.write_str("browser closed"),
            Self::BrowserExited { code: _, signal: Some(signal) } => {
                write!(f, "browser crashed: ended by signal {signal}")
            }
            Self::BrowserExited { code: Some(code), signal: None } => write!(f, "browser crashed: exit code {code}"),
            Self::BrowserExited { code: None, signal: None } => f.write_str("browser crashed"),
            Self::OutOfMemory => f.write_str("out of memory: raise worker.memory"),
            Self::DriverExited => f.write_str("driver crashed"),
            Self::ContainerExited { code } => write!(f, "worker exited with code {code}"),
            Self::EngineStopped => f.write_str("the container engine stopped, and the worker with it"),
            Self::ContainerGone => f.write_str("worker was removed"),
            Self::Node(loss) => write!(f, "{loss}"),
            Self::Unresponsive => f.write_str("browser stopped answering"),
            Self::BootFailed { reason } => write!(f, "worker did not start: {reason}"),
        }
    }
}

impl std::error::Error for LossReason {}

impl LossReason {
    /// The short name in metrics and records.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BrowserClosed => "browser_closed",
            Self::BrowserExited { .. } => "browser_crashed",
            Self::OutOfMemory => "out_of_memory",
            Self::DriverExited => "driver_crashed",
            Self::ContainerExited { .. } | Self::ContainerGone => "worker_exited",
            Self::EngineStopped => "engine_stopped",
            Self::Node(loss) => loss.code(),
            Self::Unresponsive => "unresponsive",
            Self::BootFailed { .. } => "boot_failed",
        }
    }
}

/// What the daemon knows of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is being started.
    Booting,
    /// Its browser can be driven.
    Alive,
    /// Neither the agent nor the container runtime can be asked, or the agent of an earlier process's worker has not
    /// answered yet.
    Unknown,
    /// It cannot be used any more.
    Lost(LossReason),
}

/// One worker, shared by the pool and the session that owns it.
#[derive(Debug)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// Its kind: engine, mode and preset.
    pub key: PoolKey,
    /// The way to its agent.
    pub agent: Agent,
    /// The driver inside it.
    pub driver: Driver,
    /// The id of the node that it runs on; none on this host.
    pub node: Option<String>,
    /// The agent's last report.
    pub snapshot: channel::Receiver<Snapshot>,
    /// Whether it lives; follows its watch.
    pub health: channel::Receiver<Health>,
}

/// The writing ends of a worker's channels, held by its watch.
#[derive(Debug)]
pub struct Reports {
    snapshot: channel::Sender<Snapshot>,
    health: channel::Sender<Health>,
}

impl Worker {
    /// Returns a worker that is being started in this place, and the ends through which its watch reports.
    pub fn new(id: WorkerId, key: PoolKey, place: WorkerLocation, secret: &Secret) -> (Arc<Self>, Reports) {
        Self::with_health(id, key, place, secret, Health::Booting)
    }

    /// A worker that an earlier process started, and of which nothing is known yet.
    pub fn found(id: WorkerId, key: PoolKey, place: WorkerLocation, secret: &Secret) -> (Arc<Self>, Reports) {
        Self::with_health(id, key, place, secret, Health::Unknown)
    }

    fn with_health(
        id: WorkerId,
        key: PoolKey,
        place: WorkerLocation,
        secret: &Secret,
        health: Health,
    ) -> (Arc<Self>, Reports) {
        let (snapshot_in, snapshot) = channel::channel(Snapshot::default());
        let (health_in, health) = channel::channel(health);
        let agent = Agent::new(place.address, secret);
        let driver = Driver::new(agent.clone());
        let worker = Self { id, key, agent, driver, node: place.node, snapshot, health };
        (Arc::new(worker), Reports { snapshot: snapshot_in, health: health_in })
    }

    /// Returns what the daemon knows of it now.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    pub(crate) fn is_alive(&self) -> bool {
        *self.health.borrow() == Health::Alive
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(*self.health.borrow(), Health::Lost(_))
    }

    /// Waits until the worker is lost, and returns the reason. Also resolves when its watch was stopped.
    pub async fn lost(&self) -> LossReason {
        let mut health = self.health.clone();
        match health.wait_for(|health| matches!(health, Health::Lost(_))).await.as_deref() {
            Ok(Health::Lost(loss)) => loss.clone(),
            _ => LossReason::ContainerGone,
        }
    }

    /// Waits until its browser can be driven.
    /// Errors: the [`LossReason`] when it never will.
    pub async fn ready(&self) -> Result<(), LossReason> {
        let mut health = self.health.clone();
        match health.wait_for(|health| matches!(health, Health::Alive | Health::Lost(_))).await.as_deref() {
            Ok(Health::Alive) => Ok(()),
            Ok(Health::Lost(loss)) => Err(loss.clone()),
            _ => Err(LossReason::ContainerGone),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Worker {
    /// A worker that counts as alive, and whose agent nobody is.
    pub(crate) fn nobody(key: PoolKey) -> Arc<Self> {
        let address = warmpool_runtime::AgentAddress::Tcp(([127, 0, 0, 1], 1).into());
        let place = WorkerLocation { address, node: None };
        Self::with_health(WorkerId::random(), key, place, &Secret::new(String::new()), Health::Alive).0
    }
}

#[cfg(test)]
impl Reports {
    /// Says how the worker is, as its watch would.
    pub fn say(&self, health: Health) {
        self.health.send_replace(health);
    }

    /// Shows what the agent has reported, as its watch would.
    pub fn show(&self, snapshot: Snapshot) {
        self.snapshot.send_replace(snapshot);
    }
}
