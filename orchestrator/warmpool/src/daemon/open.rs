//! Puts the parts together. Nothing is served yet.

use std::sync::Arc;
use std::time::Instant;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Daemon, StartError};
use crate::control::{Starting, store_options};
use crate::http::{self, App, Parts};
use warmpool_config::{Config, check_ca_certificates};
use warmpool_core::drain::Drain;
use warmpool_core::instance::Instance;
use warmpool_core::panics::keep_running;
use warmpool_core::tls;
use warmpool_dial::{Resolver, ResolverLimits};
use warmpool_extensions::Extensions;
use warmpool_keys::{IntegrationKeys, Keys};
use warmpool_mcp::{Mcp, McpServices};
use warmpool_profiles::Profiles;
use warmpool_runtime::Runtime;
use warmpool_sessions::live::{Live, Thumbnails};
use warmpool_sessions::session::{SessionServices, Sessions};
use warmpool_sessions::targets::Targets;
use warmpool_sessions::video::Recorder;
use warmpool_store::{Opened, Store, StoreError, StoreOptions};
use warmpool_tasks::task::Tasks;
use warmpool_webhooks::Webhooks;
use warmpool_workers::captcha::Captchas;
use warmpool_workers::egress::{EgressContext, Upstreams};
use warmpool_workers::pool::Pool;
use warmpool_worlds::{AttachmentSources, Worlds};

impl Daemon {
    /// Takes the workers and the data directory, and reads what is on the disk. Meanwhile it shows that it is starting, and
    /// returns that with the daemon. None when `cancelled` comes before the workers are this daemon's, or its database is open; then the
    /// process is to end.
    /// Errors: when another daemon is starting on the data directory, when the data is another instance's, when one of the parts cannot
    /// be opened, or no key protects a daemon that other hosts can reach.
    pub(super) async fn open(
        config: Arc<Config>,
        metrics: PrometheusHandle,
        cancelled: &CancellationToken,
    ) -> Result<Option<(Self, Starting)>, StartError> {
        let (drain, stop) = (Drain::default(), CancellationToken::new());
        check_ca_certificates(&config).map_err(StartError::CaCertificates)?;
        let data_dir = &config.store.data_dir;
        warmpool_store::create_private_dir(data_dir)?;
        let starting = Starting::begin(data_dir).await.map_err(StartError::Starting)?;
        let starting = starting.ok_or_else(|| StoreError::Locked { dir: data_dir.clone() })?;
        let instance = Arc::new(Instance::load_or_create(data_dir)?);
        let runtime = Runtime::new(Arc::clone(&config), instance.id().to_owned());
        // Before the store is opened, which the other daemon may have.
        let ownership = tokio::select! {
            owned = runtime.acquire_ownership(data_dir) => owned.map_err(StartError::NotOwned)?,
            () = cancelled.cancelled() => return Ok(None),
        };
        let opened = open_store(&config, cancelled).await?;
        let Some(Opened { store, recovery }) = opened else {
            let _ = timeout(config.drain.close_timeout, ownership.give_up()).await;
            return Ok(None);
        };
        // Before anything is tidied: another instance can read none of what this one encrypted.
        store.claim(instance.id()).await?;
        let keys = load_keys(&config, &store).await?;
        let min_free = config.store.min_free.bytes();
        let limits = config.extensions.clone();
        let extensions = Extensions::open(limits, data_dir, min_free, instance.extensions_key(), store.clone()).await;
        let extensions = extensions.map_err(StartError::Extensions)?;
        let (config_too, instance_too) = (Arc::clone(&config), Arc::clone(&instance));
        let pool = Pool::new(config_too, instance_too, runtime.clone(), drain.clone(), extensions.clone());
        let egress_context = EgressContext {
            upstreams: Upstreams::new(&config.egress.upstreams.0),
            tls: tls::client_config().map_err(StartError::Certificates)?,
            resolver: Resolver::new(ResolverLimits::from_config(&config)),
        };
        let resolver = egress_context.resolver.clone();
        let (upstreams, lookups) = (egress_context.upstreams.clone(), resolver.share());
        let (interval, stopped) = (config.egress.health_interval, stop.clone());
        tokio::spawn(keep_running("check upstream proxies", async move || {
            upstreams.clone().check(lookups.clone(), interval, stopped.clone()).await;
        }));
        let tls = Arc::clone(&egress_context.tls);
        let captchas = Captchas::new(&config, &tls, resolver.share())?;
        let limits = config.profiles.clone();
        let profiles = Profiles::open(limits, data_dir, min_free, instance.profiles_key(), store.clone()).await;
        let profiles = profiles.map_err(StartError::Profiles)?;
        let (config_too, instance_too) = (Arc::clone(&config), Arc::clone(&instance));
        let webhooks =
            Webhooks::open(config_too, instance_too, keys.clone(), store.clone(), resolver.share(), Arc::clone(&tls))?;
        webhooks.resume().await?;
        let sessions = Sessions::new(
            Arc::clone(&config),
            Arc::clone(&instance),
            keys.clone(),
            pool.clone(),
            store.clone(),
            drain.clone(),
            SessionServices {
                egress_context,
                captchas,
                profiles: profiles.clone(),
                extensions: extensions.clone(),
                webhooks: webhooks.clone(),
            },
        );
        sessions.load().await.map_err(StartError::Records)?;
        let integration_keys = load_integration_keys(&keys, &store).await?;
        let worlds = Worlds::open(
            Arc::clone(&config),
            Arc::clone(&instance),
            integration_keys,
            store.clone(),
            runtime,
            drain.clone(),
            AttachmentSources { keys: keys.clone(), lookups: resolver.share(), tls },
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
        let live = Live::new(Arc::clone(&config));
        let recorder = Recorder::new(Arc::clone(&config), live.clone(), sessions.clone());
        let mcp = Mcp::new(McpServices {
            config: Arc::clone(&config),
            keys: keys.clone(),
            sessions: sessions.clone(),
            profiles: profiles.clone(),
            tasks: tasks.clone(),
            drain: drain.clone(),
        });
        let (console, server) = (&config.console, &config.server);
        let (timeout, max_per_key) = (console.sign_in_timeout, console.max_sign_ins_per_key);
        let sign_ins = http::SignIns::load(store.clone(), keys.clone(), timeout, max_per_key).await?;
        let app = App::new(Parts {
            mcp,
            targets: Targets::new(sessions.clone(), pool.clone(), drain.clone()),
            keys,
            pool,
            sessions,
            profiles,
            extensions,
            tasks,
            webhooks,
            worlds,
            sign_ins,
            console: http::Console::new(&config),
            thumbnails: Thumbnails::new(&config),
            recorder,
            live,
            store,
            drain,
            metrics,
            bodies: http::Budget::new(http::Purpose::Bodies, server.body_memory, server.body_share),
            keyless_bodies: http::Budget::new(
                http::Purpose::KeylessBodies,
                server.keyless_body_memory,
                server.keyless_body_share,
            ),
            answers: http::Budget::new(http::Purpose::Answers, server.answer_memory, server.answer_share),
            recovery: recovery.map(Arc::new),
            started: Instant::now(),
            description: http::describe(&config),
            config,
        });
        Ok(Some((Self { app, ownership, stop }, starting)))
    }
}

/// None when `cancelled` comes before the database is open.
async fn open_store(config: &Config, cancelled: &CancellationToken) -> Result<Option<Opened>, StartError> {
    let directory = config.store.data_dir.clone();
    let options = StoreOptions { cancelled: cancelled.clone(), ..store_options(config) };
    let opened = tokio::task::spawn_blocking(move || Store::open(&directory, options)).await;
    match opened.map_err(StartError::Panic)? {
        Err(StoreError::Cancelled) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

async fn load_keys(config: &Config, store: &Store) -> Result<Keys, StartError> {
    let keys = Keys::load(store.clone()).await?;
    if let Some(path) = keys.ensure_first(&config.store.data_dir).await? {
        tracing::info!(path = %path.display(), "the first key was made: take it from this file, then remove the file");
    }
    if config.needs_key() && !keys.any_active() {
        return Err(StartError::NoKey { listen: config.server.listen });
    }
    Ok(keys)
}

async fn load_integration_keys(keys: &Keys, store: &Store) -> Result<IntegrationKeys, StoreError> {
    let integration_keys = IntegrationKeys::load(store.clone()).await?;
    match integration_keys.end_orphans(keys).await {
        Ok(ended) => {
            for key in ended {
                tracing::warn!(integration_key = %key.id, name = key.name, "an integration key ends, as its service key was revoked");
            }
        }
        Err(error) => tracing::error!(%error, "that integration keys end with their service keys was not written"),
    }
    Ok(integration_keys)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::time::sleep;

    use super::*;
    use crate::control::{ControlRequest, ControlRequestError, DaemonHealth, ask_daemon, check_daemon, perform};
    use warmpool_config::{Flags, Host};

    /// Ends only where the daemon waits: for a swarm whose engine is away.
    #[tokio::test]
    async fn a_daemon_that_waits_for_its_workers_is_well() {
        let data = tempfile::tempdir().unwrap();
        let flags = [
            ("swarm.enabled", "true".to_owned()),
            ("docker.host", format!("unix://{}", data.path().join("no-engine.sock").display())),
            ("store.data_dir", data.path().display().to_string()),
        ];
        let flags = flags.into_iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, text));
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        let config = Arc::new(Config::resolve(None, [], &flags, &host).unwrap());
        let cancelled = CancellationToken::new();
        let open = || Daemon::open(Arc::clone(&config), PrometheusBuilder::new().build_recorder().handle(), &cancelled);
        let waits = async {
            while !matches!(check_daemon(data.path()).await, Ok(DaemonHealth::Starting)) {
                sleep(Duration::from_millis(10)).await;
            }
            for refused in [
                perform(ControlRequest::ListKeys, data.path(), &config).await,
                ask_daemon(&ControlRequest::ListNodes, data.path()).await,
            ] {
                assert!(matches!(refused, Err(ControlRequestError::Starting(_))), "{refused:?}");
            }
            let second = open().await.map(|opened| opened.is_some());
            assert!(matches!(second, Err(StartError::Store(StoreError::Locked { .. }))), "{second:?}");
            assert_eq!(check_daemon(data.path()).await.unwrap(), DaemonHealth::Starting, "the first one waits on");
            cancelled.cancel();
        };
        let (opened, ()) = timeout(Duration::from_secs(60), async { tokio::join!(open(), waits) }).await.unwrap();
        assert!(opened.unwrap().is_none());
        let health = check_daemon(data.path()).await;
        assert!(matches!(health, Err(ControlRequestError::NoDaemon(..))), "{health:?}");
    }
}
