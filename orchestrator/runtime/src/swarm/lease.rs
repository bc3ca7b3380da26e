//! The lease that keeps a second daemon from the same workers: a config object of the swarm, whose labels change by compare and
//! swap.
//!
//! Its holder renews it. One that could not for two thirds of `swarm.lease` stops itself; a watcher takes over once it saw no
//! renewal for the whole of it. Each judges by its own clock, and no clocks are compared.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::models::ConfigSpec;
use bollard::query_parameters::UpdateConfigOptions;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Swarm;
use crate::client::{CallError, unless};
use crate::{RuntimeError, labels};
use warmpool_core::ids::random_bytes;

/// Label of a lease: the process that holds it; changes with each one.
const LABEL_HOLDER: &str = "warmpool.lease.holder";
/// Label: its host's name, for people.
const LABEL_HOST: &str = "warmpool.lease.host";
/// Label: the kernel that it runs on and its data directory, as that kernel knows it.
const LABEL_PLACE: &str = "warmpool.lease.place";
/// Label: how often it was renewed.
const LABEL_BEAT: &str = "warmpool.lease.beat";
/// Locked while a process holds the lease or waits for it.
const LOCK: &str = "lease.lock";
/// Names the running kernel until it ends.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Renewals in the time of a lease.
const RENEWALS: u32 = 6;
/// Between two looks at a lease that somebody else holds.
const LOOK: Duration = Duration::from_secs(1);

/// A lease that this process holds, until it is lost.
pub(crate) struct Lease {
    swarm: Swarm,
    name: String,
    lost: watch::Receiver<Option<String>>,
    renewing: tokio::task::JoinHandle<()>,
    _lock: Flock<File>,
}

/// What the labels say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    version: u64,
    holder: String,
    host: String,
    place: String,
    beat: u64,
}

/// This process, and the lease that it wants.
struct Candidate {
    name: String,
    holder: String,
    host: String,
    place: String,
}

impl Lease {
    pub(crate) async fn lost(&self) -> String {
        let mut lost = self.lost.clone();
        match lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            _ => std::future::pending().await,
        }
    }

    /// Removes it, so that the next daemon need not wait.
    pub(crate) async fn give_up(&self) {
        self.renewing.abort();
        if self.swarm.term.check().is_err() {
            return;
        }
        let name = &self.name;
        let delete = async move |engine: bollard::Docker| engine.delete_config(name).await;
        if let Err(error @ (CallError::Engine { .. } | CallError::Slow { .. })) =
            self.swarm.host.look("remove the lease", delete).await
        {
            tracing::warn!(%error, "the lease could not be removed: a daemon elsewhere waits until it is over");
        }
    }
}

impl Swarm {
    /// Waits until this process has the lease.
    /// Errors: `NotOwned` where a process on this host uses the same directory.
    pub(super) async fn acquire_lease(&self, data_dir: &Path) -> Result<Lease, RuntimeError> {
        let lock = lock(data_dir)?;
        let place = place(&lock);
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let holder = hex::encode(random_bytes::<8>());
        let name = format!("warmpool-lease-{}", self.instance);
        let candidate = Candidate { name, holder, host, place };
        let duration = self.config.swarm.lease;
        let mut watched: Option<(Seen, Instant)> = None;
        let mut told = false;
        loop {
            let begun = Instant::now();
            let seen = match self.look(&candidate.name).await {
                Ok(seen) => seen,
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::error!(%error, "waiting for the manager, which keeps the lease of this instance");
                    }
                    sleep(LOOK).await;
                    continue;
                }
            };
            let free = match (&seen, &watched) {
                (None, _) => true,
                // The lock shows that the process that held it here has ended.
                (Some(seen), _) if seen.place == candidate.place => true,
                (Some(seen), Some((before, since))) if seen == before => since.elapsed() > duration,
                (Some(seen), _) => {
                    if watched.is_none() {
                        tracing::warn!(
                            host = seen.host,
                            "another daemon has the workers of this instance: waiting until it ends, or did not renew its lease for {} s",
                            duration.as_secs()
                        );
                    }
                    watched = Some((seen.clone(), Instant::now()));
                    false
                }
            };
            if free {
                match self.take(&candidate, seen.as_ref()).await {
                    Ok(()) => {
                        let from = seen.filter(|seen| seen.place != candidate.place);
                        if let Some(Seen { host, .. }) = from {
                            tracing::warn!(host, "taking over: the daemon there did not renew its lease");
                        }
                        return Ok(self.hold(candidate, lock, begun));
                    }
                    Err(error) => tracing::debug!(%error, "the lease could not be taken"),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// The lease as it is; none where there is none.
    async fn look(&self, name: &str) -> Result<Option<Seen>, RuntimeError> {
        let found = self.host.look("read the lease", async move |engine| engine.inspect_config(name).await).await;
        let Some(config) = unless(&[404], found)? else { return Ok(None) };
        let labels = config.spec.and_then(|spec| spec.labels).unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        Ok(Some(Seen {
            version: config.version.and_then(|version| version.index).unwrap_or_default(),
            holder: label(LABEL_HOLDER),
            host: label(LABEL_HOST),
            place: label(LABEL_PLACE),
            beat: label(LABEL_BEAT).parse().unwrap_or_default(),
        }))
    }

    /// Makes the lease ours, if it is still as it was seen.
    async fn take(&self, candidate: &Candidate, seen: Option<&Seen>) -> Result<(), RuntimeError> {
        let beat = seen.map_or(0, |seen| seen.beat + 1);
        let spec = ConfigSpec {
            name: Some(candidate.name.clone()),
            labels: Some(labels::labels([
                (labels::INSTANCE, &self.instance),
                (LABEL_HOLDER, &candidate.holder),
                (LABEL_HOST, &candidate.host),
                (LABEL_PLACE, &candidate.place),
                (LABEL_BEAT, &beat.to_string()),
            ])),
            // It must not be empty, and never changes.
            data: Some(STANDARD.encode("lease")),
            ..Default::default()
        };
        match seen {
            None => {
                self.host.look("make the lease", async move |engine| engine.create_config(spec).await).await?;
            }
            Some(seen) => {
                let options = UpdateConfigOptions { version: seen.version.try_into().unwrap_or_default() };
                let name = &candidate.name;
                let update = async move |engine: bollard::Docker| engine.update_config(name, spec, options).await;
                self.host.look("renew the lease", update).await?;
            }
        }
        Ok(())
    }

    /// Renews a lease from now on that was asked for at `since`.
    fn hold(&self, candidate: Candidate, lock: Flock<File>, since: Instant) -> Lease {
        let until = since + self.holds_for();
        self.term.set(until);
        let name = candidate.name.clone();
        let (tell, lost) = watch::channel(None);
        let swarm = self.clone();
        let renewing = tokio::spawn(async move {
            let why = swarm.renew(&candidate, until).await;
            // Whatever is still under way here must change nothing any more.
            swarm.term.set(Instant::now());
            tell.send_replace(Some(why));
        });
        Lease { swarm: self.clone(), name, lost, renewing, _lock: lock }
    }

    /// How long a renewal holds for its holder: others wait longer.
    fn holds_for(&self) -> Duration {
        self.config.swarm.lease.mul_f64(2.0 / 3.0)
    }

    /// Renews the lease for as long as that works, and says why it does not any more.
    async fn renew(&self, candidate: &Candidate, mut until: Instant) -> String {
        let mut failure = None;
        loop {
            sleep_until(until.min(Instant::now() + self.config.swarm.lease / RENEWALS)).await;
            let begun = Instant::now();
            // A process that was stopped for a while comes here too.
            if begun >= until {
                let why = failure
                    .map_or_else(|| "this process did not run".to_owned(), |error: RuntimeError| error.to_string());
                return format!("its lease could not be renewed in time: {why}");
            }
            let renewal = async {
                match self.look(&candidate.name).await? {
                    Some(seen) if seen.holder != candidate.holder => Ok(Some(seen.host)),
                    seen => self.take(candidate, seen.as_ref()).await.map(|()| None),
                }
            };
            match timeout_at(until, renewal).await {
                Ok(Ok(None)) => {
                    failure = None;
                    until = begun + self.holds_for();
                    self.term.set(until);
                }
                Ok(Ok(Some(host))) => return format!("another daemon, on {host}, has taken its workers over"),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(RuntimeError::Unreachable("the manager does not answer".to_owned())),
            }
        }
    }
}

/// Locks the data directory against other processes of this host.
fn lock(data_dir: &Path) -> Result<Flock<File>, RuntimeError> {
    let path = data_dir.join(LOCK);
    let failed = |error: std::io::Error| RuntimeError::Folder(format!("{}: {error}", path.display()));
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => RuntimeError::NotOwned(format!("it runs on this host, on {}", data_dir.display())),
        errno => failed(errno.into()),
    })
}

/// Names the locked file among all hosts, for as long as this kernel runs.
fn place(lock: &File) -> String {
    let kernel = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    let file = lock.metadata().map(|file| format!("{}:{}", file.dev(), file.ino())).unwrap_or_default();
    format!("{}/{file}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_has_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path()).unwrap();
        assert!(matches!(lock(directory.path()), Err(RuntimeError::NotOwned(_))));
        let known = place(&first);
        drop(first);
        assert_eq!(place(&lock(directory.path()).unwrap()), known, "the next process finds that it was here");
    }
}
