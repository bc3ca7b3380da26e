//! How many folders clients send at once. Each takes a thread that reads it while it arrives, and what files need otherwise must not
//! wait for slow clients.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use warmpool_config::ProfileSettings;
use warmpool_core::error::ServiceError;
use warmpool_keys::KeyId;

use crate::Error;

/// The imports that run, and those that wait.
#[derive(Debug)]
pub(crate) struct Imports {
    all: Arc<Semaphore>,
    keys: Mutex<HashMap<KeyId, Arc<Semaphore>>>,
}

/// The right to import a folder until a moment; given back when dropped.
#[derive(Debug)]
pub(crate) struct ImportPermit {
    until: Instant,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Imports {
    pub(crate) fn new(limits: &ProfileSettings) -> Self {
        Self { all: permits(limits.max_imports), keys: Mutex::default() }
    }

    /// Waits for its turn: after the key's own imports, and then after those of all.
    /// Errors: `ImportTimeout` when none comes within `profiles.import_timeout`.
    pub(crate) async fn begin(&self, owner: &KeyId, limits: &ProfileSettings) -> Result<ImportPermit, Error> {
        let after = limits.import_timeout;
        let until = Instant::now() + after;
        let turns = async {
            let own = self.of_key(owner, limits.max_imports_per_key).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>([own, Arc::clone(&self.all).acquire_owned().await?])
        };
        let permits = timeout_at(until, turns).await.map_err(|_| Error::ImportTimeout { after })?;
        Ok(ImportPermit { until, _permits: permits.map_err(ServiceError::internal)? })
    }

    fn of_key(&self, owner: &KeyId, most: usize) -> Arc<Semaphore> {
        let mut keys = self.keys.lock();
        // An import and whoever waits for one hold the semaphore of their key.
        keys.retain(|_, of_key| Arc::strong_count(of_key) > 1);
        Arc::clone(keys.entry(owner.clone()).or_insert_with(|| permits(most)))
    }
}

fn permits(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

impl ImportPermit {
    /// What arrives, until the time is over.
    pub(crate) fn timed<R>(&self, from: R) -> TimedReader<R> {
        TimedReader { from, over: Box::pin(sleep_until(self.until)) }
    }
}

/// What arrives until the time is over.
pub(crate) struct TimedReader<R> {
    from: R,
    over: Pin<Box<Sleep>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for TimedReader<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.from).poll_read(cx, buffer)
    }
}
