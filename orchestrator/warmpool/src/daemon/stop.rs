//! Takes the parts apart in order, within the time that there is.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::closing::Closing;
use super::start::Started;
use super::{Daemon, End, StartError};
use crate::http::Parts;
use warmpool_core::drain::Phase;

impl Daemon {
    /// Ends everything, or leaves the workers to the next start where `end` says so. `force` shortens the time.
    /// Errors: `end`'s own, or those of the store.
    pub(super) async fn stop(
        self,
        started: Started,
        end: Result<End, StartError>,
        force: &CancellationToken,
    ) -> Result<End, StartError> {
        if let Ok(End::Superseded) = end {
            return end;
        }
        let Parts { config, pool, sessions, tasks, store, drain, .. } = &*self.app;
        drain.advance(Phase::Draining);
        let keeps_sessions = matches!(end, Ok(End::SessionsKept | End::Replaced));
        // Who sends a second SIGUSR2 does not want to wait.
        let for_work = if let Ok(End::Replaced) = end { Duration::ZERO } else { config.drain.timeout };
        let closing = Closing::begin(&config.drain, for_work, force.clone());
        pool.stop_leasing();
        let drained = async |for_work: Duration| {
            // Tasks are interrupted a little before their sessions end, so that they hear the reason and not a dead browser.
            let of_tasks = tasks.drain(for_work.mul_f64(0.9));
            if keeps_sessions {
                of_tasks.await;
            } else {
                tokio::join!(of_tasks, sessions.drain(for_work));
            }
        };
        tokio::select! {
            _ = closing.within(drained(for_work)) => {}
            () = force.cancelled() => {
                closing.within(drained(Duration::ZERO)).await;
            }
            superseded = self.superseded() => return Ok(superseded),
        }
        if keeps_sessions {
            // From here on requests are refused: the store might not have what they were told is done.
            drain.advance(Phase::Leaving);
            closing.within(sessions.settle()).await;
            closing.close(store).await?;
            closing.within(self.ownership.give_up()).await;
            return end;
        }
        // What it has found meanwhile is in the pool then, and nothing comes to it any more.
        if started.warming.is_finished() {
            drop(started.warming);
        } else {
            closing.within(started.warming).await;
        }
        closing.within(pool.close(sessions.unfound_count() == 0)).await;
        drain.advance(Phase::Stopped);
        self.stop.cancel();
        closing.within(async { tokio::join!(started.last_used, drain.finished()) }).await;
        closing.close(store).await?;
        closing.within(self.ownership.give_up()).await;
        // The workers of sessions that were not found again are in no pool, and may well run.
        match pool.left() + sessions.unfound_count() {
            0 => end,
            workers => {
                tracing::error!(workers, "not every container could be removed: the next start finds them");
                end.map(|_| End::Left { workers })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::Arc;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::daemon::{Shutdown, run};
    use crate::http::Listener;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_keys::{KeyRole, Keys};
    use warmpool_store::{Batch, Durability, Store, StoreOptions, Table};

    /// What an earlier process left: a session that lives.
    struct Left {
        data: tempfile::TempDir,
        /// The secret of the key whose it is.
        secret: String,
    }

    impl Left {
        async fn new() -> Self {
            let data = tempfile::tempdir().unwrap();
            let store = open(data.path());
            let keys = Keys::load(store.clone()).await.unwrap();
            let made = keys.create("a", KeyRole::Client).await.unwrap();
            let record = json!({
                "session_id": "ses_a", "owner": made.record.id, "created_ms": 1, "worker": "w",
                "options": {"kind": "devtools", "engine": "chromium", "mode": "headless", "launch": {"url": null},
                    "session_timeout": 300, "idle_timeout": null},
            });
            let mut batch = Batch::new();
            batch.put_json(Table::Sessions, "ses_a", &record).unwrap();
            store.commit(batch, Durability::Process).await.unwrap();
            store.close().await.unwrap();
            Self { data, secret: made.secret.expose().to_owned() }
        }

        /// Runs a daemon, without a container engine, that is to end as soon as it serves. Returns how it ended, and where it
        /// listens.
        async fn run(&self, keeps_sessions: bool) -> (End, SocketAddr) {
            let data = self.data.path().display().to_string();
            let env = [
                ("WARMPOOL_DOCKER_HOST", format!("unix://{data}/no-engine.sock")),
                ("WARMPOOL_STORE_DATA_DIR", data),
                ("WARMPOOL_STORE_MIN_FREE", "1MiB".to_owned()),
                ("WARMPOOL_DRAIN_KEEP_SESSIONS", keeps_sessions.to_string()),
            ];
            let env = env.into_iter().map(|(name, value)| (name.to_owned(), value));
            let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
            let config = Arc::new(Config::resolve(None, env, &Flags::default(), &host).unwrap());
            let listener = Listener { socket: TcpListener::bind("127.0.0.1:0").await.unwrap(), tls: None };
            let address = listener.socket.local_addr().unwrap();
            let metrics = PrometheusBuilder::new().build_recorder().handle();
            let shutdown = Shutdown::default();
            let drain = shutdown.drain.clone();
            let announce = || {
                drain.cancel();
                Ok(())
            };
            (run(config, listener, metrics, shutdown, announce).await.unwrap(), address)
        }

        async fn asked(&self, daemon: SocketAddr, request: &str) -> String {
            let mut stream = TcpStream::connect(daemon).await.unwrap();
            let head = format!(
                "{request} HTTP/1.1\r\nHost: {daemon}\r\nservice-secret-key: {}\r\nconnection: close\r\n\r\n",
                self.secret
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    }

    fn open(data: &Path) -> Store {
        Store::open(data, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() }).unwrap().store
    }

    #[tokio::test]
    async fn a_drain_says_that_sessions_are_left_which_it_could_not_find() {
        assert_eq!(Left::new().await.run(false).await.0, End::Left { workers: 1 });
    }

    #[tokio::test]
    async fn nothing_is_acknowledged_once_sessions_are_left_to_the_next_start() {
        let left = Left::new().await;
        let (end, daemon) = left.run(true).await;
        assert_eq!(end, End::SessionsKept);
        let answer = left.asked(daemon, "DELETE /sessions/ses_a").await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"draining\""), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("retry-after"), "{answer}");
        let answer = left.asked(daemon, "GET /healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "the process is not to be killed: {answer}");
    }
}
