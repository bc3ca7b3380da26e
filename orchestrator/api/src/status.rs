//! How the daemon is: `/status`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::drain::Phase;

use crate::AnyObject;

/// How the daemon is. Some members have the names that clients of Selenium Grid and Selenoid read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// What clients of a grid wait for.
    pub value: GridStatus,
    /// Sessions there may be.
    pub total: usize,
    /// Workers that sessions hold.
    pub used: usize,
    /// Callers who wait for a worker.
    pub queued: usize,
    /// Workers that are held and whose sessions are not there yet.
    pub pending: usize,
    /// The installed engines as Selenoid shows its browsers: by the name that a client asks for, by version where one is known,
    /// and by user. As users are not told, all sessions are one's, `unknown`.
    #[serde(default)]
    pub browsers: BTreeMap<String, BTreeMap<String, BTreeMap<String, BrowserUse>>>,
    /// The version of the daemon.
    pub version: String,
    /// Where in its life the daemon is.
    pub phase: Phase,
    /// The container runtime.
    pub runtime: RuntimeStatus,
    /// How many sessions there are.
    pub sessions: SessionStatusCounts,
    /// The callers that wait for a worker.
    pub queue: QueueStatus,
    /// Each kind of worker.
    pub pool: Vec<KindStatus>,
    /// The nodes of the swarm or cluster.
    pub nodes: NodeCounts,
    /// What holds for all workers.
    pub workers: WorkerStatus,
    /// How many tasks there are.
    pub tasks: TaskCounts,
    /// How many worlds are being made.
    pub worlds: WorldCounts,
    /// How the store is.
    pub store: StoreStatus,
}

/// How many sessions a user has on a version of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrowserUse {
    /// How many there are.
    pub count: usize,
    /// Always empty: a session's id opens it.
    pub sessions: Vec<AnyObject>,
}

/// What clients of a grid wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GridStatus {
    /// Whether a new session would be served.
    pub ready: bool,
    /// The same for people.
    pub message: String,
    /// The daemon as the only node.
    pub nodes: [GridNode; 1],
}

/// The daemon as a node of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GridNode {
    /// The name of the node.
    pub id: String,
    /// `UP`, `DOWN` or `DRAINING`.
    pub availability: String,
    /// Sessions there may be.
    pub max_sessions: usize,
    /// Sessions there are.
    pub session_count: usize,
    /// The version of the daemon.
    pub version: String,
    /// Always empty.
    pub slots: Vec<AnyObject>,
}

/// The container runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeStatus {
    /// Whether it answers.
    pub reachable: bool,
}

/// How many sessions there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionCounts")]
pub struct SessionStatusCounts {
    /// Sessions there are.
    pub live: usize,
    /// The most there may be.
    pub max: usize,
    /// 0 sets no limit.
    pub max_per_key: usize,
}

/// The callers that wait for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// How many wait.
    pub waiting: usize,
    /// How many may wait.
    pub length: usize,
}

/// What holds for all workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// The most there may be.
    pub max: usize,
    /// Whether browsers keep their own sandbox.
    pub sandbox: bool,
    /// Whether waiting workers are frozen.
    pub freeze: bool,
    /// The container runtime.
    pub runtime: String,
}

/// How many tasks there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    /// Accepted, and not begun.
    pub queued: usize,
    /// Being carried out.
    pub running: usize,
    /// In the history.
    pub kept: usize,
    /// How many are carried out at once.
    pub workers: usize,
    /// How many may wait before those of keys that have their share are refused.
    pub queue_length: usize,
}

/// How many worlds are being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorldCounts {
    /// Whether this host has the image of the renderer.
    pub renderer_installed: bool,
    /// The name of that image.
    pub image: String,
    /// What to do where there is no renderer.
    pub remedy: Option<String>,
    /// Which patients' data could not be read when the daemon started, and what to do about it.
    pub warning: Option<String>,
    /// Accepted, and not begun.
    pub queued: usize,
    /// Being rendered.
    pub rendering: usize,
    /// How many are rendered at once.
    pub renderers: usize,
    /// How many may wait.
    pub queue_length: usize,
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreStatus {
    /// Whether the store can be written.
    pub ok: bool,
    /// Free space on its disk, in bytes.
    pub free_bytes: Option<u64>,
    /// The free space below which it takes no more, in bytes.
    pub min_free_bytes: u64,
    /// What is wrong with the disk.
    pub warning: Option<String>,
    /// What had to be mended when the daemon started.
    pub recovered: Option<String>,
}

/// One kind of worker, as `/status` and the metrics show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolKind")]
pub struct KindStatus {
    /// The engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// The preset whose settings its workers wait with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Whether the engine's image is on this host.
    pub installed: bool,
    /// How far the build of a missing image is, while `scripts/images` makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_build: Option<String>,
    /// What it holds, and what is wanted of it.
    #[serde(flatten)]
    pub counts: KindCounts,
    /// Why the last start failed, until one succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What the pool has of one engine and mode, and what is wanted of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindCounts {
    /// How many warm workers to keep.
    pub target: usize,
    /// Being started.
    pub starting: usize,
    /// Warm, never used.
    pub ready: usize,
    /// Owned by a session.
    pub leased: usize,
    /// Being removed.
    pub removing: usize,
    /// Callers that wait for one and may have one.
    pub waiting: usize,
    /// Whether starts are held back: after failures, or because there is no image.
    pub backing_off: bool,
}

/// How many nodes the swarm or cluster has, for anyone who may ask for `/status`: their names, and what each lacks, are for the
/// operator alone. All zero on one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Nodes")]
pub struct NodeCounts {
    /// All that are known.
    pub total: usize,
    /// Those that the swarm's manager or the API server does not hear from.
    pub lost: usize,
    /// Those that get no new workers and have sessions still.
    pub draining: usize,
    /// Those that run nothing, whoever drained them.
    pub drained: usize,
    /// Those that get no workers for now, although they could take them.
    pub left_out: usize,
}
