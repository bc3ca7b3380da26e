//! A value that is asked for once, for all who want it, whoever of them leaves.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use warmpool_core::drain::Drain;
use warmpool_core::error::ServiceFault as _;

use crate::Error;

/// The pause after a failure that has cost something.
const PAUSE: Duration = Duration::from_secs(30);

/// Why asking came to nothing.
#[derive(Debug)]
pub(super) struct Failure {
    error: Error,
    /// Whether it has cost something that others wait for, such as a worker.
    costly: bool,
}

impl Failure {
    /// It has cost something, so that nobody may ask again at once.
    pub(super) const fn costly(error: Error) -> Self {
        Self { error, costly: true }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    /// It has cost nothing.
    fn from(error: E) -> Self {
        Self { error: error.into(), costly: false }
    }
}

/// A value that is asked for once. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct AskedOnce<T>(Arc<AskedOnceParts<T>>);

#[derive(Debug)]
struct AskedOnceParts<T> {
    value: OnceLock<T>,
    /// Held while somebody asks. The value says when the last one failed who had taken something.
    turn: Arc<Mutex<Option<Instant>>>,
}

impl<T> Default for AskedOnce<T> {
    fn default() -> Self {
        Self(Arc::new(AskedOnceParts { value: OnceLock::new(), turn: Arc::default() }))
    }
}

impl<T: Send + Sync + 'static> AskedOnce<T> {
    /// The value, or what comes of asking for it. One asks at a time, and goes on when its caller leaves: strangers who hang up
    /// take as much as one who stays, and no more.
    /// Errors: `Worker` for a while after a costly failure, and those of `ask`.
    pub(super) async fn get<F>(&self, drain: &Drain, ask: impl FnOnce() -> F) -> Result<&T, Error>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        if let Some(value) = self.0.value.get() {
            return Ok(value);
        }
        let mut turn = Arc::clone(&self.0.turn).lock_owned().await;
        if let Some(value) = self.0.value.get() {
            return Ok(value);
        }
        let waits = turn.and_then(|failed| PAUSE.checked_sub(failed.elapsed())).filter(|left| !left.is_zero());
        if let Some(left) = waits {
            return Err(Error::Worker {
                message: format!(
                    "a browser failed to answer this a moment ago: try again in {} seconds",
                    left.as_secs() + 1
                ),
                source: None,
            });
        }
        let (shared, asking) = (Arc::clone(&self.0), ask());
        let asked = drain.spawn(async move {
            // In case that it never comes back.
            *turn = Some(Instant::now());
            match asking.await {
                Ok(value) => {
                    let _ = shared.value.set(value);
                    Ok(())
                }
                Err(Failure { error, costly }) => {
                    *turn = costly.then(Instant::now);
                    Err(error)
                }
            }
        });
        asked.await.map_err(Error::internal)??;
        self.0.value.get().ok_or_else(|| Error::internal("nothing came of asking"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;
    use tokio::time::advance;

    use super::*;

    /// A browser that answers when it is let, and how many were taken.
    #[derive(Clone)]
    struct Browser {
        taken: Arc<AtomicUsize>,
        answers: Arc<Semaphore>,
    }

    impl Browser {
        fn new(answers: usize) -> Self {
            Self { taken: Arc::default(), answers: Arc::new(Semaphore::new(answers)) }
        }

        fn taken(&self) -> usize {
            self.taken.load(Ordering::Relaxed)
        }

        async fn ask(self, answer: Result<u8, Failure>) -> Result<u8, Failure> {
            self.taken.fetch_add(1, Ordering::Relaxed);
            self.answers.acquire().await.map_err(Error::internal)?.forget();
            answer
        }
    }

    fn broken() -> Error {
        Error::Worker { message: "broken".to_owned(), source: None }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_who_leave_take_one_browser_together() {
        let (value, drain, browser) = (AskedOnce::default(), Drain::default(), Browser::new(0));
        for _ in 0..10 {
            let asking = value.get(&drain, || browser.clone().ask(Ok(7)));
            assert!(tokio::time::timeout(Duration::from_secs(1), asking).await.is_err());
            assert_eq!(browser.taken(), 1);
        }
        // Nobody waits any more, and the answer is kept all the same.
        browser.answers.add_permits(1);
        assert_eq!(value.get(&drain, || browser.clone().ask(Ok(8))).await.unwrap(), &7);
        assert_eq!(browser.taken(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_took_a_browser_is_followed_by_a_pause() {
        let (value, drain, browser) = (AskedOnce::default(), Drain::default(), Browser::new(9));
        let fail = || browser.clone().ask(Err(Failure::costly(broken())));
        assert_eq!(value.get(&drain, fail).await.unwrap_err().to_string(), "broken");
        for _ in 0..10 {
            assert!(value.get(&drain, fail).await.unwrap_err().to_string().contains("try again in"));
        }
        assert_eq!(browser.taken(), 1);
        advance(PAUSE).await;
        assert_eq!(value.get(&drain, || browser.clone().ask(Ok(7))).await.unwrap(), &7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_took_nothing_is_followed_by_none() {
        let (value, drain, browser) = (AskedOnce::default(), Drain::default(), Browser::new(9));
        let fail = || browser.clone().ask(Err(broken().into()));
        assert_eq!(value.get(&drain, fail).await.unwrap_err().to_string(), "broken");
        assert_eq!(value.get(&drain, || browser.clone().ask(Ok(7))).await.unwrap(), &7);
    }

    #[tokio::test(start_paused = true)]
    async fn asking_that_panics_is_followed_by_a_pause() {
        let (value, drain) = (AskedOnce::<u8>::default(), Drain::default());
        let fault = value.get(&drain, || async { panic!("broken") }).await;
        assert!(matches!(fault, Err(Error::Service(_))), "{fault:?}");
        let fault = value.get(&drain, || async { Ok(7) }).await.unwrap_err();
        assert!(fault.to_string().contains("try again in"), "{fault}");
    }
}
