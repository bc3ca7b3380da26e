//! Sets the parts to work, and waits for what ends them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Daemon, End, Shutdown, StartError};
use crate::control;
use crate::doctor;
use crate::http::{self, App, Listener, Parts};
use crate::telemetry;
use warmpool_core::clock::Now;
use warmpool_core::drain::{DrainTask, Phase};
use warmpool_core::panics::keep_running;
use warmpool_core::tls;
use warmpool_keys::Keys;
use warmpool_profiles::Profiles;
use warmpool_sessions::session::{Reclaimed, Sessions};
use warmpool_store::run_backups;
use warmpool_tasks::task::Tasks;

/// Time between two tries to reach a container runtime that was not there at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);
/// Time between two checks whether the pool is warm.
const WARM_POLL: Duration = Duration::from_millis(20);
/// Time between two checks whether a newer program may take over.
const IDLE_POLL: Duration = Duration::from_millis(200);

/// Time between two looks for profiles that nobody has used for too long.
const PROFILE_LOOK: Duration = Duration::from_secs(3600);

/// Work whose end somebody waits for.
pub(super) struct Started {
    /// Ends well once the pool is warm, or the daemon drains.
    pub(super) warming: DrainTask<Result<(), StartError>>,
    /// Writes when keys were last used.
    pub(super) last_used: JoinHandle<()>,
}

impl Daemon {
    /// Serves, and lets each part do its own work. What must end before the daemon does is the drain's.
    pub(super) async fn start(&self, listener: Listener) -> Result<Started, StartError> {
        let Self { app, stop, .. } = self;
        let Parts { config, keys, pool, sessions, tasks, worlds, store, drain, .. } = &**app;
        // Before the first key can be revoked.
        tokio::spawn(follow_revocations(keys.clone(), sessions.clone(), tasks.clone()));
        let integration_keys = worlds.keys().clone();
        let data_dir = &config.store.data_dir;
        control::listen(data_dir, keys.clone(), integration_keys, store.clone(), pool.clone(), drain.clone())
            .await
            .map_err(StartError::Control)?;
        if let Some(tls) = &listener.tls {
            let (tls, stop) = (Arc::clone(tls), stop.clone());
            tokio::spawn(keep_running("reload certificates", async move || {
                Arc::clone(&tls).watch(tls::RELOAD_INTERVAL, stop.clone()).await;
            }));
        }
        let metrics = app.metrics.clone();
        tokio::spawn(keep_running("fold metrics", async move || telemetry::upkeep(metrics.clone()).await));
        let (saved, stopped) = (store.clone(), stop.clone());
        tokio::spawn(keep_running("make backups", async move || run_backups(saved.clone(), stopped.clone()).await));
        let (keys, stopped) = (keys.clone(), stop.clone());
        let last_used =
            keep_running("write when keys were used", async move || keys.run_last_used(stopped.clone()).await);
        let last_used = tokio::spawn(last_used);
        let (sessions, tasks) = (sessions.clone(), tasks.clone());
        drain.spawn(keep_running("forget sessions", async move || sessions.sweep().await));
        drain.spawn(keep_running("forget tasks", async move || tasks.sweep().await));
        let (profiles, stopped) = (app.profiles.clone(), stop.clone());
        drain.spawn(keep_running("forget profiles", async move || forget_unused(&profiles, &stopped).await));
        let (worlds, rendering) = (worlds.clone(), worlds.clone());
        drain.spawn(keep_running("forget worlds", async move || worlds.sweep().await));
        drain.spawn(async move { rendering.run().await });
        let sampled = app.clone();
        drain.spawn(keep_running("take samples", async move || http::take_samples(sampled.clone()).await));
        let (router, config, phases) = (http::router(app.clone()), Arc::clone(config), drain.clone());
        drain.spawn(keep_running("serve", async move || http::serve(&listener, &router, &config, &phases).await));
        Ok(Started { warming: drain.spawn(warm_up(app.clone())), last_used })
    }

    /// Waits until the daemon is to end, and returns how.
    /// Errors: when the workers' network is not fit for them.
    pub(super) async fn wait(&self, started: &mut Started, shutdown: &Shutdown) -> Result<End, StartError> {
        tokio::select! {
            () = shutdown.drain.cancelled() => {
                Ok(if self.app.config.drain.keep_sessions { End::SessionsKept } else { End::Drained })
            }
            () = replaceable(shutdown, || self.is_idle()) => Ok(End::Replaced),
            end = self.superseded() => Ok(end),
            Some(error) = failure(&mut started.warming) => Err(error),
        }
    }

    /// Returns once another daemon has the workers, or may have.
    pub(super) async fn superseded(&self) -> End {
        let why = self.ownership.lost().await;
        tracing::error!(why, "the daemon stops, and leaves its workers to another one");
        End::Superseded
    }

    fn is_idle(&self) -> bool {
        let Parts { pool, sessions, tasks, worlds, .. } = &*self.app;
        let (queued, running, _) = tasks.counts();
        pool.is_idle() && sessions.live_count() == 0 && queued + running == 0 && worlds.counts() == (0, 0)
    }
}

/// Why the pool never becomes warm; none where it did.
async fn failure(warming: &mut DrainTask<Result<(), StartError>>) -> Option<StartError> {
    match warming.await {
        Ok(warm) => warm.err(),
        Err(panic) => Some(StartError::Panic(panic)),
    }
}

/// Deletes profiles that nobody uses, until the daemon stops.
async fn forget_unused(profiles: &Profiles, stop: &CancellationToken) {
    loop {
        profiles.forget_unused(Now::read().unix_ms_for_ages()).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(PROFILE_LOOK) => {}
        }
    }
}

/// Returns once a newer program may take this one's place.
async fn replaceable(shutdown: &Shutdown, idle: impl Fn() -> bool) {
    shutdown.replace.cancelled().await;
    if !idle() {
        tracing::info!("a newer program takes over once no session, task or rendering is left");
    }
    while !idle() {
        tokio::select! {
            () = shutdown.replace_now.cancelled() => return,
            () = sleep(IDLE_POLL) => {}
        }
    }
}

/// Finds what an earlier process left, then keeps the pool filled. Waits for the runtime as long as it takes.
/// Errors: `Unfit` when the engine or the workers' network is not fit for them: somebody has to mend that.
async fn warm_up(app: App) -> Result<(), StartError> {
    let Parts { config, pool, sessions, tasks, recorder, drain, .. } = &*app;
    let mut told = false;
    loop {
        let error = match sessions.reclaim().await {
            Ok(Reclaimed::Found) => break,
            Ok(Reclaimed::LeftToTheNext) => return Ok(()),
            Err(error) if error.is_unfit() => return Err(StartError::Unfit(error)),
            Err(error) => error,
        };
        if !std::mem::replace(&mut told, true) {
            tracing::error!(%error, "waiting for the container runtime; `warmpool doctor` names the remedy");
        }
        tokio::select! {
            () = drain.reached(Phase::Draining) => return Ok(()),
            () = sleep(RUNTIME_RETRY) => {}
        }
    }
    tokio::spawn(doctor::log_silent_flaws(Arc::clone(config)));
    tasks.resume();
    for session in sessions.all_live().into_iter().filter(|session| session.options.recording) {
        let recorder = recorder.clone();
        drain.spawn(async move {
            if session.worker.ready().await.is_ok() {
                recorder.record(session).await;
            }
        });
    }
    // Only now is it known which recordings go on, and so which ones may give way.
    let (recorder, ended) = (recorder.clone(), drain.clone());
    drain.spawn(keep_running("remove recordings", async move || recorder.keep_recordings(ended.clone()).await));
    let follow = pool.clone();
    drain.spawn(keep_running("follow the container runtime", async move || follow.follow_runtime().await));
    let compare = pool.clone();
    drain.spawn(keep_running("compare containers", async move || compare.keep_in_step().await));
    let run = pool.clone();
    drain.spawn(keep_running("fill the pool", async move || run.run().await));
    while !pool.is_warm() {
        tokio::select! {
            () = drain.reached(Phase::Draining) => return Ok(()),
            () = sleep(WARM_POLL) => {}
        }
    }
    drain.advance(Phase::Serving);
    Ok(())
}

/// Ends the sessions and tasks of keys as they are revoked.
async fn follow_revocations(keys: Keys, sessions: Sessions, tasks: Tasks) {
    keep_running("end what revoked keys have", async move || {
        let mut changes = keys.changes();
        loop {
            // Before the first wait as well: a key may have been revoked while nobody looked.
            tasks.end_revoked();
            sessions.end_revoked();
            if changes.changed().await.is_err() {
                return;
            }
        }
    })
    .await;
}
