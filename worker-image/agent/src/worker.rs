//! What every part of a claimed worker shares.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use warmpool_protocol::{Claim, WorkerEvent, WorkerState};

use crate::egress::Egress;
use crate::files::Files;
use crate::log::Log;
use crate::oom;
use crate::process::{Process, Processes};
use crate::status::Status;
use crate::upstream::Upstream;

/// A claimed worker.
pub(crate) struct Worker {
    /// What the daemon asked for.
    pub(crate) claim: Claim,
    /// State and events.
    pub(crate) status: Arc<Status>,
    /// Child processes.
    pub(crate) processes: Processes,
    /// Uploads and downloads.
    pub(crate) files: Files,
    /// What happens in the browser, where a session asks for it.
    pub(crate) log: Arc<Log>,
    /// The home directory; profiles go below it.
    pub(crate) home: PathBuf,
    /// The client for browser and driver.
    pub(crate) upstream: Upstream,
    /// The browser's way out.
    pub(crate) egress: Arc<Egress>,
    /// The driver, and whether a client has it.
    pub(crate) driver: Mutex<DriverUse>,
}

/// What is known of the driver's process.
#[derive(Default)]
pub(crate) struct DriverUse {
    /// Whether a client has asked it for a session.
    used: bool,
    process: Option<Process>,
}

impl Worker {
    /// Tells the daemon when the browser ends by itself.
    pub(crate) fn watch_browser(&self, process: &Process) {
        let (status, process, kills) = (Arc::clone(&self.status), process.clone(), oom::kills());
        tokio::spawn(async move {
            if let Some(exit) = process.ended_by_itself().await {
                status.report_exit(exit, oom::kills() > kills);
            }
        });
    }

    /// Tells the daemon when the driver ends, unless a session has the browser that has never used its driver: the session
    /// goes on, and [`Worker::take_driver`] notices.
    pub(crate) fn watch_driver(self: &Arc<Self>, process: &Process) {
        self.driver.lock().process = Some(process.clone());
        let (worker, process) = (Arc::clone(self), process.clone());
        tokio::spawn(async move {
            let exit = process.exited().await;
            let is_missed = worker.driver.lock().used || worker.status.state() != WorkerState::Active;
            tracing::warn!(code = exit.code, signal = exit.signal, is_missed, "the driver has ended");
            if is_missed {
                worker.status.publish(&WorkerEvent::DriverExited);
            }
        });
    }

    /// A client takes the driver, and the daemon hears of its end from now on. False when it has ended unused: it has to be
    /// started anew.
    pub(crate) fn take_driver(&self) -> bool {
        let mut driver = self.driver.lock();
        let is_first = !std::mem::replace(&mut driver.used, true);
        !is_first || driver.process.as_ref().is_none_or(Process::running)
    }
}

#[cfg(test)]
impl Worker {
    /// A worker with this home, in which nothing runs.
    pub(crate) fn of_tests(home: &std::path::Path) -> Arc<Self> {
        let claim = serde_json::json!({
            "secret": "ab".repeat(32), "headless": true, "sandbox": true, "freeze": false, "rehearse": false,
            "display": {"width": 800, "height": 600}, "orphan_timeout_ms": 1, "unresponsive_timeout_ms": 1, "file_limit": 1,
        });
        Arc::new(Self {
            claim: serde_json::from_value(claim).unwrap(),
            status: Arc::new(Status::new()),
            processes: Processes::of_tests(),
            files: Files::new(home.join("files")).unwrap(),
            log: Arc::default(),
            home: home.to_owned(),
            upstream: Upstream::new(),
            egress: Arc::new(Egress::new()),
            driver: Mutex::default(),
        })
    }
}
