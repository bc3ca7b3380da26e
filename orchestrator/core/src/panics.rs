//! Panics beside requests: one that ends a piece of the daemon's own work must neither stop that work for good nor leave somebody
//! waiting for it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep};

/// The first pause after a panic. Each later one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A piece of work has panicked. `Display` is for the log: it has what the panic said.
#[derive(Debug, thiserror::Error)]
#[error("panic: {0}")]
pub struct Panicked(String);

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> Self {
        Self(said(panic).to_owned())
    }
}

/// What a panic said.
#[must_use]
pub fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Does a piece of work whose panic concerns nothing else.
/// Errors: when it panicked.
pub async fn contained<F: Future>(work: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| Panicked::of(panic.as_ref()))
}

/// Does a piece of work that awaits nothing, and whose panic concerns nothing else.
/// Errors: when it panicked.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::of(panic.as_ref()))
}

/// Does work that goes on until the end of the daemon or of a session, and returns what the work returns. After a panic the work begins
/// again. `name` says in the log which it is.
pub async fn keep_running<T>(name: &'static str, work: impl AsyncFn() -> T) -> T {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        if let Ok(done) = contained(async { work().await }).await {
            return done;
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::error!(
            work = name,
            seconds = pause.as_secs(),
            "work of the daemon's own has panicked, and begins again"
        );
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_begins_again_after_growing_pauses() {
        let (turns, began) = (AtomicU32::new(0), Instant::now());
        let done = keep_running("a test", async || {
            let turn = turns.fetch_add(1, Ordering::Relaxed);
            assert!(turn >= 8, "as planned");
            turn
        });
        assert_eq!(done.await, 8);
        assert_eq!(turns.into_inner(), 9);
        // 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60
        assert_eq!(began.elapsed().as_secs(), 183);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_short_again_after_a_long_turn() {
        let (turns, began) = (AtomicU32::new(0), Instant::now());
        keep_running("a test", async || {
            let turn = turns.fetch_add(1, Ordering::Relaxed);
            if turn == 3 {
                sleep(LONGEST_PAUSE * 2).await;
            }
            assert!(turn >= 4, "as planned");
        })
        .await;
        // 1 + 2 + 4, the long turn, 1
        assert_eq!(began.elapsed().as_secs(), 128);
    }

    #[test]
    fn what_a_panic_said_is_its_text() {
        let caught = |panic: fn()| std::panic::catch_unwind(panic).unwrap_err();
        assert_eq!(said(caught(|| panic!("as planned")).as_ref()), "as planned");
        assert_eq!(said(caught(|| panic!("as {}", black_box("planned"))).as_ref()), "as planned");
        assert_eq!(said(caught(|| std::panic::panic_any(7)).as_ref()), "without a message");
    }

    #[tokio::test]
    async fn a_panic_is_contained() {
        assert_eq!(contained(async { 7 }).await.unwrap(), 7);
        let panicked = contained(async { assert!(black_box(false), "as planned") }).await.unwrap_err();
        assert_eq!(panicked.to_string(), "panic: as planned");
    }

    #[test]
    fn a_panic_of_work_that_awaits_nothing_is_caught() {
        assert_eq!(caught(|| 7).unwrap(), 7);
        let panicked = caught(|| assert!(black_box(false), "as planned")).unwrap_err();
        assert_eq!(panicked.to_string(), "panic: as planned");
    }
}
