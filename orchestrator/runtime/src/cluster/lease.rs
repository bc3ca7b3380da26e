//! The lease that keeps a second daemon from the same workers: an object of the cluster that changes by compare and swap.
//!
//! Its holder renews it. One that could not for two thirds of the lease's time stops itself; a watcher takes over once it saw no
//! renewal for the whole of it. Each judges by its own clock, which never jumps, and no clocks are compared. A holder's clock runs on while its
//! machine sleeps.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::ownership_term::{ClockReadings, OwnershipTerm};
use crate::RuntimeError;
use warmpool_core::clock;
use warmpool_core::ids::random_bytes;
use warmpool_core::panics::contained;

/// Locked while a process holds the lease or waits for it.
const LOCK: &str = "lease.lock";
/// Renewals in the time of a lease.
const RENEWALS: u32 = 6;
/// Between two looks at a lease that somebody else holds, and of a holder at its clock.
const LOOK: Duration = Duration::from_secs(1);

/// Where a lease is kept.
#[async_trait]
pub(crate) trait LeaseStore: Send + Sync + 'static {
    /// The lease as it is; none where there is none.
    async fn look(&self) -> Result<Option<LeaseRecord>, RuntimeError>;

    /// Makes the lease this candidate's, if it is still as it was seen.
    async fn take(&self, candidate: &LeaseClaim, seen: Option<&LeaseRecord>) -> Result<(), RuntimeError>;

    /// Releases it, so that the next daemon need not wait.
    async fn release(&self) -> Result<(), RuntimeError>;
}

/// A lease that this process holds, until it is lost.
pub(crate) struct Lease {
    store: Arc<dyn LeaseStore>,
    term: OwnershipTerm,
    lost: watch::Receiver<Option<String>>,
    renewing: tokio::task::JoinHandle<()>,
    _lock: Flock<File>,
}

/// What a lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Changes with each renewal.
    pub version: String,
    /// The process that holds it; empty where it was given up.
    pub holder: String,
    /// Its host's name, for people.
    pub host: String,
    /// The kernel that it runs on and its data directory, as that kernel knows it.
    pub place: String,
    /// How often it was renewed.
    pub beat: u64,
}

/// This process, and what it writes into the lease that it wants.
pub(crate) struct LeaseClaim {
    /// Changes with each process.
    pub holder: String,
    /// This host's name.
    pub host: String,
    /// This kernel and the data directory.
    pub place: String,
}

impl Lease {
    /// Waits until this process has the lease, whose time is `duration`.
    /// Errors: `NotOwned` where a process on this host uses the same directory.
    pub(crate) async fn acquire(
        store: Arc<dyn LeaseStore>,
        term: OwnershipTerm,
        duration: Duration,
        data_dir: &Path,
    ) -> Result<Self, RuntimeError> {
        let lock = lock(data_dir)?;
        let place = place(&lock);
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let candidate = LeaseClaim { holder: hex::encode(random_bytes::<8>()), host, place };
        let mut watched: Option<(LeaseRecord, Instant)> = None;
        // What the log says already: another failure is news.
        let mut told: Option<String> = None;
        let mut is_news = |error: &RuntimeError| {
            let words = Some(error.to_string());
            words != std::mem::replace(&mut told, words.clone())
        };
        loop {
            let begun = term.now();
            let seen = match store.look().await {
                Ok(seen) => seen,
                Err(error) => {
                    if is_news(&error) {
                        tracing::error!(%error, "waiting for the cluster, which keeps the lease of this instance");
                    }
                    sleep(LOOK).await;
                    continue;
                }
            };
            let free = match (&seen, &watched) {
                (None, _) => true,
                // The lock shows that the process that held it here has ended.
                (Some(seen), _) if seen.holder.is_empty() || seen.place == candidate.place => true,
                (Some(seen), Some((before, since))) if seen == before => since.elapsed() > duration,
                (Some(seen), _) => {
                    if watched.is_none() {
                        tracing::warn!(
                            host = seen.host,
                            "another daemon has the workers of this instance: this one waits until that one ends, or has not renewed its lease for {} s",
                            duration.as_secs()
                        );
                    }
                    watched = Some((seen.clone(), Instant::now()));
                    false
                }
            };
            if free {
                match store.take(&candidate, seen.as_ref()).await {
                    Ok(()) => {
                        let from = seen.filter(|seen| !seen.holder.is_empty() && seen.place != candidate.place);
                        if let Some(LeaseRecord { host, .. }) = from {
                            tracing::warn!(host, "taking over: the daemon there did not renew its lease");
                        }
                        return Ok(Self::hold(store, term, duration, candidate, lock, begun));
                    }
                    Err(error) if is_news(&error) => {
                        tracing::warn!(%error, "the lease could not be taken: trying again");
                    }
                    Err(error) => tracing::debug!(%error, "the lease could not be taken"),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Renews a lease from now on that was asked for at `since`.
    fn hold(
        store: Arc<dyn LeaseStore>,
        term: OwnershipTerm,
        duration: Duration,
        candidate: LeaseClaim,
        lock: Flock<File>,
        since: ClockReadings,
    ) -> Self {
        term.set(since, holds_for(duration));
        let until = since.instant + holds_for(duration);
        let (tell, lost) = watch::channel(None);
        let renewing = tokio::spawn({
            let (store, term) = (Arc::clone(&store), term.clone());
            async move {
                let renewing = contained(renew(&*store, &term, duration, &candidate, until)).await;
                let why = renewing.unwrap_or_else(|_| "the renewal of its lease panicked".to_owned());
                // Whatever is still under way here must change nothing any more.
                term.end();
                tell.send_replace(Some(why));
            }
        });
        Self { store, term, lost, renewing, _lock: lock }
    }

    pub(crate) async fn lost(&self) -> String {
        let mut lost = self.lost.clone();
        match lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            _ => std::future::pending().await,
        }
    }

    /// Releases it, so that the next daemon need not wait.
    pub(crate) async fn give_up(&self) {
        self.renewing.abort();
        if self.term.check().is_err() {
            return;
        }
        if let Err(error) = self.store.release().await {
            tracing::warn!(%error, "the lease could not be given up: a daemon elsewhere waits until it is over");
        }
    }
}

/// How long a renewal holds for its holder: others wait longer.
fn holds_for(duration: Duration) -> Duration {
    duration.mul_f64(2.0 / 3.0)
}

/// Renews the lease for as long as that works, and says why it does not any more.
async fn renew(
    store: &dyn LeaseStore,
    term: &OwnershipTerm,
    duration: Duration,
    candidate: &LeaseClaim,
    mut until: Instant,
) -> String {
    let mut failure = None;
    loop {
        let next = until.min(Instant::now() + duration / RENEWALS);
        // By short steps: a machine that slept is to hear soon that its time is over.
        while Instant::now() < next && term.check().is_ok() {
            sleep_until(next.min(Instant::now() + LOOK)).await;
        }
        let begun = term.now();
        // A process that was stopped for a while comes here too.
        if begun.instant >= until || term.check().is_err() {
            let why =
                failure.map_or_else(|| "this process did not run".to_owned(), |error: RuntimeError| error.to_string());
            return format!("its lease could not be renewed in time: {why}");
        }
        let renewal = async {
            match store.look().await? {
                Some(seen) if seen.holder != candidate.holder => Ok(Some(seen.host)),
                seen => store.take(candidate, seen.as_ref()).await.map(|()| None),
            }
        };
        match timeout_at(until, renewal).await {
            Ok(Ok(None)) => {
                failure = None;
                term.set(begun, holds_for(duration));
                until = begun.instant + holds_for(duration);
            }
            Ok(Ok(Some(host))) => return format!("another daemon, on {host}, has taken its workers over"),
            Ok(Err(error)) => failure = Some(error),
            Err(_) => failure = Some(RuntimeError::Unreachable("the cluster does not answer".to_owned())),
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

/// The place of whoever holds the lease with this data directory, on this host; none where nobody ever did.
pub(crate) fn place_of(data_dir: &Path) -> Option<String> {
    File::open(data_dir.join(LOCK)).ok().map(|lock| place(&lock))
}

/// Names the locked file among all hosts, for as long as this kernel runs.
fn place(lock: &File) -> String {
    let file = lock.metadata().map(|file| format!("{}:{}", file.dev(), file.ino())).unwrap_or_default();
    format!("{}/{file}", clock::boot().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_log::TestLog;

    #[test]
    fn one_process_at_a_time_has_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path()).unwrap();
        assert!(matches!(lock(directory.path()), Err(RuntimeError::NotOwned(_))));
        let known = place(&first);
        drop(first);
        assert_eq!(place(&lock(directory.path()).unwrap()), known, "the next process finds that it was here");
    }

    /// A lease in memory.
    #[derive(Default)]
    struct Kept(parking_lot::Mutex<(Option<LeaseRecord>, bool)>);

    #[async_trait]
    impl LeaseStore for Kept {
        async fn look(&self) -> Result<Option<LeaseRecord>, RuntimeError> {
            let kept = self.0.lock();
            if kept.1 { Err(RuntimeError::Unreachable("away".to_owned())) } else { Ok(kept.0.clone()) }
        }

        async fn take(&self, candidate: &LeaseClaim, seen: Option<&LeaseRecord>) -> Result<(), RuntimeError> {
            let mut kept = self.0.lock();
            if kept.0.as_ref() != seen {
                return Err(RuntimeError::refused("renew the lease", "it has changed"));
            }
            let beat = seen.map_or(0, |seen| seen.beat + 1);
            let LeaseClaim { holder, host, place } = candidate;
            kept.0 = Some(LeaseRecord {
                version: beat.to_string(),
                holder: holder.clone(),
                host: host.clone(),
                place: place.clone(),
                beat,
            });
            Ok(())
        }

        async fn release(&self) -> Result<(), RuntimeError> {
            if let Some(seen) = &mut self.0.lock().0 {
                seen.holder.clear();
            }
            Ok(())
        }
    }

    const TIME: Duration = Duration::from_secs(60);

    async fn acquire(store: &Arc<Kept>, data_dir: &Path) -> Lease {
        Lease::acquire(Arc::clone(store) as _, OwnershipTerm::default(), TIME, data_dir).await.unwrap()
    }

    fn elsewhere() -> LeaseRecord {
        let text = str::to_owned;
        LeaseRecord { version: text("7"), holder: text("another"), host: text("east"), place: text("there"), beat: 7 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nobody_renews_is_taken_over_and_one_that_is_renewed_is_not() {
        let store = Arc::new(Kept::default());
        store.0.lock().0 = Some(elsewhere());
        let data = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let waiting = acquire(&store, data.path());
        tokio::pin!(waiting);
        // Its holder renews it once, after half of the time.
        assert!(timeout_at(begun + TIME / 2, &mut waiting).await.is_err());
        store.0.lock().0 = Some(LeaseRecord { version: "8".to_owned(), beat: 8, ..elsewhere() });
        let lease = waiting.await;
        let waited = begun.elapsed();
        assert!(waited > TIME * 3 / 2 && waited < TIME * 2, "{waited:?}");
        // What was given up is free at once.
        lease.give_up().await;
        drop(lease);
        let begun = Instant::now();
        let other = tempfile::tempdir().unwrap();
        let _lease = acquire(&store, other.path()).await;
        assert!(begun.elapsed() < LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_panics_loses_the_lease() {
        let store = Arc::new(Kept::default());
        let data = tempfile::tempdir().unwrap();
        let lease = acquire(&store, data.path()).await;
        // The next beat cannot be counted.
        store.0.lock().0.as_mut().unwrap().beat = u64::MAX;
        let why = tokio::time::timeout(TIME * 2, lease.lost()).await.unwrap();
        assert!(why.contains("panicked"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_outlives_a_short_outage_and_stops_before_others_take_over() {
        let store = Arc::new(Kept::default());
        let data = tempfile::tempdir().unwrap();
        let lease = acquire(&store, data.path()).await;
        store.0.lock().1 = true;
        assert!(tokio::time::timeout(TIME / 3, lease.lost()).await.is_err());
        store.0.lock().1 = false;
        assert!(tokio::time::timeout(TIME * 10, lease.lost()).await.is_err());
        store.0.lock().1 = true;
        let begun = Instant::now();
        let why = lease.lost().await;
        assert!(why.contains("away") && begun.elapsed() < TIME * 5 / 6, "{why} {:?}", begun.elapsed());
        assert!(matches!(lease.term.check(), Err(RuntimeError::NotOwned(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_whose_machine_slept_stops_at_once() {
        let store = Arc::new(Kept::default());
        let data = tempfile::tempdir().unwrap();
        let slept = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let term = OwnershipTerm::by({
            let slept = Arc::clone(&slept);
            move || warmpool_core::clock::Now::at(0, "boot", slept.load(std::sync::atomic::Ordering::Relaxed))
        });
        let lease = Lease::acquire(Arc::clone(&store) as _, term, TIME, data.path()).await.unwrap();
        assert!(tokio::time::timeout(TIME / 2, lease.lost()).await.is_err());
        slept.store(3_600_000, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(lease.term.check(), Err(RuntimeError::NotOwned(_))), "nothing is changed from now on");
        let begun = Instant::now();
        let why = lease.lost().await;
        assert!(why.contains("could not be renewed in time") && begun.elapsed() <= LOOK, "{why} {:?}", begun.elapsed());
    }

    /// Fails for another reason at each look, and lets itself be taken at the last.
    struct Failing(parking_lot::Mutex<Vec<RuntimeError>>);

    #[async_trait]
    impl LeaseStore for Failing {
        async fn look(&self) -> Result<Option<LeaseRecord>, RuntimeError> {
            self.0.lock().pop().map_or(Ok(None), Err)
        }

        async fn take(&self, _: &LeaseClaim, _: Option<&LeaseRecord>) -> Result<(), RuntimeError> {
            Ok(())
        }

        async fn release(&self) -> Result<(), RuntimeError> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_other_reason_to_wait_is_told_once() {
        let (log, _guard) = TestLog::listen();
        let away = || RuntimeError::Unreachable("connection refused".to_owned());
        let refused = || RuntimeError::refused("create a lease", "no rule allows it");
        let store = Arc::new(Failing(parking_lot::Mutex::new(vec![refused(), refused(), away(), away()])));
        let data = tempfile::tempdir().unwrap();
        let _lease = Lease::acquire(store, OwnershipTerm::default(), TIME, data.path()).await.unwrap();
        assert_eq!(log.lines_with("connection refused").len(), 1);
        assert_eq!(log.lines_with("no rule allows it").len(), 1, "another reason after the first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_hears_who_took_over() {
        let store = Arc::new(Kept::default());
        let data = tempfile::tempdir().unwrap();
        let lease = acquire(&store, data.path()).await;
        store.0.lock().0 = Some(elsewhere());
        assert_eq!(lease.lost().await, "another daemon, on east, has taken its workers over");
    }
}
