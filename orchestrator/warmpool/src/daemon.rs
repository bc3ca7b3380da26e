//! The daemon itself: puts the parts together, and takes them apart in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::closing::Closing;
use crate::control;
use crate::http::{self, App, Listener};
use warmpool_config::Config;
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::instance::{Instance, InstanceError};
use warmpool_core::tls;
use warmpool_dial::{Resolver, ResolverLimits};
use warmpool_keys::{KeyError, KeyId, Keys};
use warmpool_runtime::{Runtime, RuntimeError};
use warmpool_sessions::live::{Live, Thumbnails};
use warmpool_sessions::session::{ExternalServices, Sessions};
use warmpool_sessions::targets::Targets;
use warmpool_sessions::video::Recorder;
use warmpool_store::{self, Store, StoreError, StoreOptions};
use warmpool_tasks::task::Tasks;
use warmpool_workers::captcha::{CaptchaError, Captchas};
use warmpool_workers::egress::{EgressContext, Upstreams};
use warmpool_workers::pool::Pool;
use warmpool_worlds::{AttachmentSources, IntegrationKeys, PatientsError, Worlds};

/// Time between two tries to reach a container runtime that was not there at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);
/// Time between two checks whether the pool is warm.
const WARM_POLL: Duration = Duration::from_millis(20);
/// Time between two checks whether a newer program may take over.
const IDLE_POLL: Duration = Duration::from_millis(200);
/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The store cannot be opened or closed.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// Opening the store panicked.
    #[error("the store: {0}")]
    Panic(tokio::task::JoinError),
    /// The file with this daemon's identity cannot be used.
    #[error("the instance file: {0}")]
    Instance(#[from] InstanceError),
    /// The keys cannot be read, or the first one not be made.
    #[error("the keys: {0}")]
    Keys(#[from] KeyError),
    /// The records of sessions cannot be read.
    #[error("the session records: {0}")]
    Records(warmpool_sessions::Error),
    /// The records of tasks cannot be read.
    #[error("the task records: {0}")]
    Tasks(warmpool_tasks::Error),
    /// The worlds cannot be read, or the key of their patients' names is another one.
    #[error("the worlds: {0}")]
    Worlds(#[from] PatientsError),
    /// The socket for the command line cannot be made.
    #[error("the control socket: {0}")]
    Control(std::io::Error),
    /// The secrets of `captcha` cannot be used.
    #[error(transparent)]
    Captchas(#[from] CaptchaError),
    /// The system's certificates cannot be used.
    #[error("the system's certificates: {0}")]
    Certificates(std::io::Error),
    /// Workers could reach one another on the network that they are to have.
    #[error(transparent)]
    Network(RuntimeError),
    /// Somebody else has the workers, and waiting for them is pointless.
    #[error(transparent)]
    NotOwned(RuntimeError),
    /// Other hosts could use a daemon that no key protects.
    #[error("other hosts can reach {listen}, and no key is valid: make one with `warmpool key create`")]
    NoKey {
        /// `server.listen`.
        listen: SocketAddr,
    },
}

/// How the caller ends the daemon.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// Take no new sessions, let the running ones end.
    pub drain: CancellationToken,
    /// End now.
    pub force: CancellationToken,
    /// Leave everything to a newer program, once nothing runs that its clients would lose.
    pub replace: CancellationToken,
    /// Leave everything to a newer program now.
    pub replace_now: CancellationToken,
}

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing of it is left.
    Drained,
    /// It ended in time and left containers, which the next start finds. The process is to end at once.
    Left {
        /// How many workers may have one.
        workers: usize,
    },
    /// Its workers run on, for the next start. The process is to end at once: whatever still holds a session here would
    /// end it when it is dropped.
    SessionsKept,
    /// The same, and the process is to run its program anew.
    Replaced,
    /// Another daemon has its workers now, or may have. The process is to end at once, as it does when sessions are kept, and
    /// must touch nothing any more.
    Superseded,
}

/// Runs the daemon until `shutdown`; `listener` is bound already. Returns when nothing of it is left, or its time is over.
/// Errors: when the data directory, the store or the keys cannot be used, when other hosts could reach a daemon without a
/// key, or when workers could reach one another.
pub(crate) async fn run(
    config: Arc<Config>,
    listener: Listener,
    metrics: PrometheusHandle,
    shutdown: Shutdown,
) -> Result<End, StartError> {
    let drain = Drain::default();
    let stop = CancellationToken::new();
    let data_dir = config.store.data_dir.clone();
    let options = StoreOptions {
        min_free_bytes: config.store.min_free.bytes(),
        backup_interval: config.store.backup_interval,
        backups_kept: config.store.backups_kept,
        ..StoreOptions::default()
    };
    warmpool_store::create_private_dir(&data_dir)?;
    let instance = Arc::new(Instance::load_or_create(&data_dir)?);
    let runtime = Runtime::new(Arc::clone(&config), instance.id().to_owned());
    // Before the store is opened, which the other daemon may have.
    let ownership = tokio::select! {
        owned = runtime.acquire_ownership(&data_dir) => owned.map_err(StartError::NotOwned)?,
        () = shutdown.drain.cancelled() => return Ok(End::Drained),
    };
    let directory = data_dir.clone();
    let opened =
        tokio::task::spawn_blocking(move || Store::open(&directory, options)).await.map_err(StartError::Panic)?;
    let opened = opened?;
    let store = opened.store;
    let keys = Keys::load(store.clone()).await?;
    // Before the first of them can be revoked.
    let revocations = keys.revocations();
    if let Some(path) = keys.ensure_first(&data_dir).await? {
        tracing::info!(path = %path.display(), "the first key was made: take it from this file, then remove the file");
    }
    if config.needs_key() && !keys.any_active() {
        return Err(StartError::NoKey { listen: config.server.listen });
    }
    let pool = Pool::new(Arc::clone(&config), Arc::clone(&instance), runtime.clone(), drain.clone());
    let egress_context = EgressContext {
        upstreams: Upstreams::new(&config.egress.upstreams.0),
        tls: tls::client_config().map_err(StartError::Certificates)?,
        resolver: Resolver::new(ResolverLimits::from_config(&config)),
    };
    let resolver = egress_context.resolver.clone();
    let checking = egress_context.upstreams.clone();
    tokio::spawn(checking.check(resolver.share(), config.egress.health_interval, stop.clone()));
    let captchas = Captchas::new(&config, &egress_context.tls, resolver.share())?;
    let sessions = Sessions::new(
        Arc::clone(&config),
        Arc::clone(&instance),
        keys.clone(),
        pool.clone(),
        store.clone(),
        drain.clone(),
        ExternalServices { egress_context, captchas },
    );
    sessions.load().await.map_err(StartError::Records)?;
    let integration_keys = IntegrationKeys::load(store.clone()).await?;
    let worlds = Worlds::open(
        Arc::clone(&config),
        Arc::clone(&instance),
        integration_keys.clone(),
        store.clone(),
        runtime,
        drain.clone(),
        AttachmentSources { keys: keys.clone(), lookups: resolver.share() },
    )
    .await?;
    worlds.load().await?;
    let tasks = Tasks::new(
        Arc::clone(&config),
        instance,
        keys.clone(),
        sessions.clone(),
        pool.clone(),
        store.clone(),
        drain.clone(),
    );
    tasks.load().await.map_err(StartError::Tasks)?;
    control::listen(&data_dir, keys.clone(), integration_keys, store.clone(), pool.clone(), drain.clone())
        .await
        .map_err(StartError::Control)?;

    if let Some(tls) = &listener.tls {
        tokio::spawn(Arc::clone(tls).watch(tls::RELOAD_INTERVAL, stop.clone()));
    }
    tokio::spawn(crate::telemetry::upkeep(metrics.clone()));
    tokio::spawn(warmpool_store::run_backups(store.clone(), stop.clone()));
    tokio::spawn(follow_revocations(revocations, sessions.clone(), tasks.clone()));
    let last_used = tokio::spawn(keys.clone().run_last_used(stop.clone()));
    let sweeping = sessions.clone();
    drain.spawn(async move { sweeping.sweep().await });
    let sweeping = tasks.clone();
    drain.spawn(async move { sweeping.sweep().await });
    let sweeping = worlds.clone();
    drain.spawn(async move { sweeping.sweep().await });
    let rendering = worlds.clone();
    drain.spawn(async move { rendering.run().await });
    let live = Live::new(Arc::clone(&config));
    let recorder = Recorder::new(Arc::clone(&config), live.clone());
    let app = App {
        config: Arc::clone(&config),
        targets: Targets::new(sessions.clone(), pool.clone(), drain.clone()),
        keys,
        pool: pool.clone(),
        sessions: sessions.clone(),
        tasks: tasks.clone(),
        worlds: worlds.clone(),
        sign_ins: http::SignIns::load(store.clone(), config.console.sign_in_timeout).await?,
        console: http::Console::new(&config),
        thumbnails: Thumbnails::new(&config),
        live,
        recorder: recorder.clone(),
        store: store.clone(),
        drain: drain.clone(),
        metrics,
        bodies: http::Budget::new(config.server.body_memory),
        recovery: opened.recovery.map(Arc::new),
        started: std::time::Instant::now(),
    };
    drain.spawn(http::take_samples(app.clone()));
    drain.spawn(http::serve(listener, http::router(app), Arc::clone(&config), drain.clone()));
    let mut warming = drain.spawn(warm_up(pool.clone(), sessions.clone(), tasks.clone(), recorder, drain.clone()));

    let idle = || {
        let (queued, running, _) = tasks.counts();
        pool.is_idle() && sessions.live_count() == 0 && queued + running == 0 && worlds.counts() == (0, 0)
    };
    let end = tokio::select! {
        () = shutdown.drain.cancelled() => Ok(if config.drain.keep_sessions { End::SessionsKept } else { End::Drained }),
        () = replaceable(&shutdown, idle) => Ok(End::Replaced),
        why = ownership.lost() => {
            tracing::error!(why, "the daemon stops, and leaves its workers to another one");
            return Ok(End::Superseded);
        }
        Ok(Err(error)) = &mut warming => Err(error),
    };
    drain.advance(Phase::Draining);
    let closing = Closing::begin(&config.drain, shutdown.force.clone());
    if let Ok(End::SessionsKept | End::Replaced) = end {
        closing.close(&store).await?;
        closing.within(ownership.give_up()).await;
        return end;
    }
    pool.stop_leasing();
    // Tasks are interrupted a little before their sessions end, so that they hear the reason and not a dead browser.
    let for_tasks = config.drain.timeout.mul_f64(0.9);
    let drained = async |for_tasks, for_sessions| tokio::join!(tasks.drain(for_tasks), sessions.drain(for_sessions));
    tokio::select! {
        _ = closing.within(drained(for_tasks, config.drain.timeout)) => {}
        () = shutdown.force.cancelled() => {
            closing.within(drained(Duration::ZERO, Duration::ZERO)).await;
        }
        why = ownership.lost() => {
            tracing::error!(why, "the daemon stops, and leaves its workers to another one");
            return Ok(End::Superseded);
        }
    }
    closing.within(pool.close()).await;
    drain.advance(Phase::Stopped);
    stop.cancel();
    closing.within(async { tokio::join!(last_used, drain.finished()) }).await;
    closing.close(&store).await?;
    closing.within(ownership.give_up()).await;
    match pool.left() {
        0 => end,
        workers => {
            tracing::error!(workers, "not every container could be removed: the next start finds them");
            end.map(|_| End::Left { workers })
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
/// Errors: `Network` when the workers' network is not fit for them: somebody has to mend that.
async fn warm_up(
    pool: Pool,
    sessions: Sessions,
    tasks: Tasks,
    recorder: Recorder,
    drain: Drain,
) -> Result<(), StartError> {
    let mut told = false;
    while let Err(error) = sessions.reclaim().await {
        if matches!(error, RuntimeError::UnfitNetwork { .. }) {
            return Err(StartError::Network(error));
        }
        if !std::mem::replace(&mut told, true) {
            tracing::error!(%error, "waiting for the container runtime");
        }
        tokio::select! {
            () = drain.reached(Phase::Draining) => return Ok(()),
            () = sleep(RUNTIME_RETRY) => {}
        }
    }
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
    let ended = drain.clone();
    drain.spawn(async move { recorder.keep_recordings(ended).await });
    let follow = pool.clone();
    drain.spawn(async move { follow.follow_runtime().await });
    let compare = pool.clone();
    drain.spawn(async move { compare.keep_in_step().await });
    let run = pool.clone();
    drain.spawn(async move { run.run().await });
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
async fn follow_revocations(mut revocations: broadcast::Receiver<KeyId>, sessions: Sessions, tasks: Tasks) {
    // One revocation, or more than the channel could hold: look for sessions whose key no longer works.
    while let Ok(_) | Err(RecvError::Lagged(_)) = revocations.recv().await {
        tasks.end_revoked();
        sessions.end_revoked();
    }
}
