//! What the routes work with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use metrics_exporter_prometheus::PrometheusHandle;
use warmpool_protocol::Snapshot;

use super::budget::Budget;
use super::console::Console;
use super::openapi::Description;
use super::sign_ins::SignIns;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::drain::Drain;
use warmpool_extensions::Extensions;
use warmpool_keys::Keys;
use warmpool_mcp::Mcp;
use warmpool_profiles::Profiles;
use warmpool_sessions::live::{Live, Thumbnails};
use warmpool_sessions::session::Sessions;
use warmpool_sessions::targets::Targets;
use warmpool_sessions::video::Recorder;
use warmpool_store::{Recovery, Store};
use warmpool_tasks::task::Tasks;
use warmpool_webhooks::Webhooks;
use warmpool_workers::pool::Pool;
use warmpool_worlds::Worlds;

/// What the routes work with. A clone is another handle, since the router makes several for each request.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The parts of an [`App`].
pub(crate) struct Parts {
    pub config: Arc<Config>,
    pub keys: Keys,
    pub pool: Pool,
    pub sessions: Sessions,
    pub profiles: Profiles,
    pub extensions: Extensions,
    pub tasks: Tasks,
    /// The MCP sessions of agents.
    pub mcp: Mcp,
    /// Messages to other people's servers.
    pub webhooks: Webhooks,
    pub worlds: Worlds,
    /// The console's sign-ins.
    pub sign_ins: SignIns,
    pub console: Console,
    /// Small pictures of sessions, for lists.
    pub thumbnails: Thumbnails,
    /// The live views of sessions.
    pub live: Live,
    /// The recordings of sessions.
    pub recorder: Recorder,
    pub store: Store,
    /// The daemon's phase.
    pub drain: Drain,
    pub metrics: PrometheusHandle,
    /// The memory that bodies of requests may take whose key is known.
    pub bodies: Budget,
    /// The memory that bodies of requests may take whose key is in them, or that need none.
    pub keyless_bodies: Budget,
    /// The memory that answers may take which are in memory as a whole.
    pub answers: Budget,
    /// What had to be mended when the store was opened.
    pub recovery: Option<Arc<Recovery>>,
    /// When the daemon started.
    pub started: Instant,
    /// What debugging ports list.
    pub targets: Targets,
    /// What `/openapi.json` says.
    pub description: Description,
}

impl Parts {
    /// The version that a browser of this engine reports, if one is at hand.
    pub(super) fn known_snapshot(&self, engine: Engine) -> Option<Snapshot> {
        self.pool.warm_snapshot(engine).or_else(|| {
            let live = self.sessions.all_live();
            let session = live.iter().find(|session| session.options.engine == engine)?;
            Some(session.worker.snapshot.borrow().clone())
        })
    }

    pub(super) fn known_version(&self, engine: Engine) -> Option<String> {
        self.known_snapshot(engine)?.version().map(str::to_owned)
    }
}
