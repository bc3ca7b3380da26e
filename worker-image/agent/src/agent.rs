//! The agent's life: wait for a claim, boot, wait for a client, end.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use warmpool_protocol::{Claim, Event, Identity, Launch, Launched, Settings, State};

use crate::engine::Engine;
use crate::error::{ApiError, BootError};
use crate::files::Files;
use crate::freeze;
use crate::process::Processes;
use crate::status::Status;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// The home directory where the environment names none.
const HOME: &str = "/home/worker";
/// What the first tab of a warm browser shows.
const BLANK_PAGE: &str = "about:blank";
/// Time a warm browser gets to finish what it does after its start, before it is stopped.
const SETTLE: Duration = Duration::from_secs(2);

/// The agent, claimed or not.
pub(crate) struct Agent {
    processes: Processes,
    claimed: OnceLock<Arc<Claimed>>,
    claim: Notify,
}

/// The agent once a daemon has claimed it.
pub(crate) struct Claimed {
    /// What all parts share.
    pub(crate) shared: Arc<Worker>,
    /// The browser.
    pub(crate) engine: Engine,
    /// Whether everything is stopped. The lock also keeps stopping and handing out apart.
    frozen: Mutex<bool>,
    /// The preset's settings once they hold, with what holds only in part.
    preset: OnceLock<(Settings, Vec<String>)>,
}

impl Agent {
    /// An agent nobody has claimed.
    pub(crate) fn new(processes: Processes) -> Self {
        Self { processes, claimed: OnceLock::new(), claim: Notify::new() }
    }

    /// Fails when the worker has an owner already.
    pub(crate) fn check_unclaimed(&self) -> Result<(), ApiError> {
        match self.claimed.get() {
            Some(_) => Err(ApiError::conflict("claimed", "this worker has been claimed already")),
            None => Ok(()),
        }
    }

    /// `POST /claim`: takes the one claim there can be.
    pub(crate) fn claim(&self, claim: Claim) -> Result<(), ApiError> {
        self.check_unclaimed()?;
        claim.check().map_err(ApiError::bad_request)?;
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from(HOME), PathBuf::from);
        let shared = Arc::new(Worker {
            claim,
            status: Arc::new(Status::new()),
            processes: self.processes.clone(),
            files: Files::new(home.join("files"))?,
            home,
            upstream: Upstream::new(),
        });
        let engine = Engine::new(Arc::clone(&shared))?;
        let claimed = Claimed { shared, engine, frozen: Mutex::new(false), preset: OnceLock::new() };
        let claimed = Arc::new(claimed);
        if self.claimed.set(claimed).is_err() {
            return self.check_unclaimed();
        }
        self.claim.notify_one();
        Ok(())
    }

    /// The worker, for who knows its secret.
    pub(crate) fn open(&self, authorization: Option<&[u8]>) -> Result<&Arc<Claimed>, ApiError> {
        self.claimed
            .get()
            .filter(|claimed| authorization.is_some_and(|value| claimed.shared.claim.secret.opens(value)))
            .ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "the worker's secret is wanted"))
    }

    /// Waits for the claim, boots, and returns when nobody needs the worker any more.
    pub(crate) async fn run(&self) {
        let claimed = loop {
            if let Some(claimed) = self.claimed.get() {
                break claimed;
            }
            self.claim.notified().await;
        };
        tokio::spawn(Arc::clone(claimed).boot());
        claimed.orphaned().await;
    }

    /// Whether a daemon has claimed it.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.get().is_some()
    }
}

impl Claimed {
    async fn boot(self: Arc<Self>) {
        let status = &self.shared.status;
        match self.boot_preset().await {
            Ok(identity) => status.warm(identity),
            Err(error) => {
                self.shared.processes.kill_all();
                return status.failed(error.to_string());
            }
        }
        if self.shared.claim.freeze {
            sleep(SETTLE).await;
            self.freeze();
        }
    }

    /// Boots the engine and makes the settings true with which this worker waits.
    async fn boot_preset(&self) -> Result<Identity, BootError> {
        let identity = self.engine.boot().await?;
        let preset = self.shared.claim.preset.clone();
        preset.check().map_err(|error| BootError::Undriveable(error.to_string()))?;
        if !preset.is_empty() {
            let warnings = self.engine.apply(preset.clone()).await;
            let warnings = warnings.map_err(|error| BootError::Undriveable(error.to_string()))?;
            let _ = self.preset.set((preset, warnings));
        }
        Ok(identity)
    }

    fn freeze(&self) {
        let mut frozen = self.frozen.lock();
        if self.shared.status.state() == State::Warm {
            *frozen = freeze::stop();
        }
    }

    /// `POST /launch`: hands the worker to a client.
    pub(crate) async fn launch(self: &Arc<Self>, launch: Launch) -> Result<Launched, ApiError> {
        let Launch { url, settings } = launch;
        settings.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        let was_frozen = {
            let mut frozen = self.frozen.lock();
            if !self.shared.status.activate() {
                return Err(ApiError::conflict("not_warm", "only a warm worker can be launched"));
            }
            std::mem::take(&mut *frozen)
        };
        let preset = self.preset.get();
        let mut warnings = preset.map(|(_, warnings)| warnings.clone()).unwrap_or_default();
        // What a preset made true needs no second time.
        let holds = preset.map_or_else(|| settings.is_empty(), |(preset, _)| *preset == settings);
        if !holds {
            if was_frozen {
                freeze::resume();
            }
            warnings = self.engine.apply(settings).await?;
        } else if was_frozen {
            // A dozen processes that wake up want the processor at once, so the answer goes first.
            tokio::spawn(async {
                tokio::task::yield_now().await;
                freeze::resume();
            });
        }
        tokio::spawn(Arc::clone(self).watch_for_hangs());
        // The first tab shows the blank page already.
        if let Some(url) = url.filter(|url| url != BLANK_PAGE) {
            let engine = self.engine.clone();
            tokio::spawn(async move {
                if let Err(error) = engine.navigate(&url).await {
                    tracing::info!(%error, "the first page could not be opened");
                }
            });
        }
        Ok(Launched { warnings })
    }

    /// `POST /context`: a window in a browser context of its own, in the place of the one there was.
    pub(crate) async fn open_context(&self) -> Result<String, ApiError> {
        self.close_context().await?;
        self.engine.open_context().await
    }

    /// `DELETE /context`: closes that context, with its files.
    pub(crate) async fn close_context(&self) -> Result<(), ApiError> {
        self.engine.close_context().await?;
        self.shared.files.clear().await
    }

    /// Tells once each time the browser stops answering.
    async fn watch_for_hangs(self: Arc<Self>) {
        let limit = self.shared.claim.unresponsive_timeout();
        while self.shared.status.state() == State::Active {
            sleep(limit / 4).await;
            let mut ping = std::pin::pin!(self.engine.ping());
            if tokio::time::timeout(limit, &mut ping).await.is_err() {
                self.shared.status.publish(&Event::Unresponsive);
                ping.await;
            }
        }
    }

    /// Returns when nobody has listened to the events for the claimed time.
    async fn orphaned(&self) {
        let mut readers = self.shared.status.readers();
        let limit = self.shared.claim.orphan_timeout();
        loop {
            if readers.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(limit) => return tracing::info!("nobody has listened for too long"),
                _ = readers.wait_for(|count| *count > 0) => {}
            }
        }
    }
}
