//! What debugging ports list: the targets of browsers, and the browser's own description of DevTools.

mod asked_once;

use std::sync::Arc;

use serde_json::Value;
use warmpool_config::Trust;
use warmpool_protocol::{Launch, Settings};

use crate::Error;
use crate::session::{Session, Sessions};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::drain::Drain;
use warmpool_keys::KeyId;
use warmpool_workers::pool::{Pool, WorkerRequest};

use asked_once::{AskedOnce, Failure};

/// Asks browsers for their targets. Clones share it.
#[derive(Clone)]
pub struct Targets {
    sessions: Sessions,
    pool: Pool,
    drain: Drain,
    /// Chromium's description of DevTools, once somebody has asked for it.
    protocol: AskedOnce<Value>,
}

impl Targets {
    /// Asks the browsers of `sessions` for their targets, and one that `pool` leases for what is the same for all.
    pub fn new(sessions: Sessions, pool: Pool, drain: Drain) -> Self {
        Self { sessions, pool, drain, protocol: AskedOnce::default() }
    }

    /// The targets of a session's browser.
    /// Errors: `Worker`.
    pub async fn of_session(session: &Arc<Session>) -> Result<Vec<Value>, Error> {
        let _busy = session.busy();
        let targets = session.worker.agent.targets().await;
        targets.map_err(|error| Error::worker("the browser could not be asked for its pages", error))
    }

    /// The targets of a caller's Chromium sessions. A session whose browser ends meanwhile has none.
    pub async fn of_owner(&self, owner: &KeyId) -> Vec<(Arc<Session>, Vec<Value>)> {
        self.sessions.wait_until_all_found(owner).await;
        let mut all = Vec::new();
        for session in self.sessions.all_live() {
            if session.owner == *owner
                && session.options.engine == Engine::Chromium
                && let Ok(targets) = Self::of_session(&session).await
            {
                all.push((session, targets));
            }
        }
        all
    }

    /// Chromium's description of DevTools. It is the same for all, so a browser is asked once, and by one caller at a time.
    /// Errors: `Worker`, and those of a lease.
    pub async fn protocol(&self) -> Result<&Value, Error> {
        let ask = || {
            let pool = self.pool.clone();
            async move { ask_for_protocol(&pool).await }
        };
        self.protocol.get(&self.drain, ask).await
    }

    /// The session of `owner` whose browser has this target.
    /// Errors: `ForeignTarget` when none has it.
    pub async fn session_with(&self, owner: &KeyId, target: &str) -> Result<Arc<Session>, Error> {
        let has_it = |targets: &[Value]| targets.iter().any(|known| known["id"] == target);
        let found = self.of_owner(owner).await.into_iter().find(|(_, targets)| has_it(targets));
        found.map(|(session, _)| session).ok_or(Error::ForeignTarget)
    }
}

/// It needs no key, because it reveals nothing about anybody's sessions. Nor is any of their browsers asked: a page may have taken one
/// over, and everybody gets the answer for as long as the daemon runs.
async fn ask_for_protocol(pool: &Pool) -> Result<Value, Failure> {
    let failed = |error| Failure::costly(Error::worker("the browser could not be asked for its protocol", error));
    // Waiting browsers are frozen: one is woken for this, and goes.
    let (settings, trust) = (Settings::default(), Trust::default());
    let plain = PoolKey::plain(Engine::Chromium, Mode::Headless);
    let wanted = WorkerRequest { plain, settings: &settings, extensions: &[], trust: &trust, queue_wait: None };
    let mut lease = pool.lease(wanted, &KeyId::nobody()).await?;
    let worker = lease.use_worker();
    worker.agent.launch(&Launch::default(), None, None, None).await.map_err(failed)?;
    worker.agent.devtools_protocol().await.map_err(failed)
}
