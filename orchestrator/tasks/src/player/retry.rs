//! Trying again until something holds or its time is over.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::script::{FailureCode, StepError};

/// The first pause; each is longer than the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// No pause is longer.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// A run of attempts.
#[derive(Debug)]
pub(super) struct Retry {
    deadline: Instant,
    pause: Duration,
    last: Option<StepError>,
}

impl Retry {
    /// Attempts until `deadline`.
    pub(super) const fn until(deadline: Instant) -> Self {
        Self { deadline, pause: FIRST_PAUSE, last: None }
    }

    /// Makes an attempt. `None` when another is worth making, which is after a pause.
    pub(crate) async fn attempt<T>(
        &mut self,
        work: impl Future<Output = Result<T, StepError>>,
    ) -> Option<Result<T, StepError>> {
        match timeout_at(self.deadline, work).await {
            Ok(Ok(value)) => Some(Ok(value)),
            Ok(Err(error)) if !error.is_passing => Some(Err(error)),
            Ok(Err(error)) => {
                if Instant::now() + self.pause >= self.deadline {
                    return Some(Err(error));
                }
                self.last = Some(error);
                sleep(self.pause).await;
                self.pause = (self.pause * 3 / 2).min(LAST_PAUSE);
                None
            }
            // What the last attempt that ended found is a better reason than that this one did not.
            Err(_) => Some(Err(self.last.take().unwrap_or_else(|| {
                StepError::new(FailureCode::Timeout, "the page did not answer in time: it may be busy for ever")
            }))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn passing_errors_are_retried_until_the_deadline() {
        let begun = Instant::now();
        let mut retry = Retry::until(begun + Duration::from_secs(1));
        let mut attempts = 0;
        let error = loop {
            attempts += 1;
            let work = async { Err::<(), _>(StepError::passing(FailureCode::NoMatch, "not there")) };
            if let Some(result) = retry.attempt(work).await {
                break result.unwrap_err();
            }
        };
        assert_eq!(error.code, FailureCode::NoMatch);
        assert!(attempts > 5 && begun.elapsed() <= Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_ends_with_what_was_known_before() {
        let mut retry = Retry::until(Instant::now() + Duration::from_secs(1));
        let first = retry.attempt(async { Err::<(), _>(StepError::passing(FailureCode::NotReady, "it moves")) }).await;
        assert!(first.is_none());
        let second = retry.attempt(std::future::pending::<Result<(), StepError>>()).await;
        assert_eq!(second.unwrap().unwrap_err().code, FailureCode::NotReady);
    }

    #[tokio::test]
    async fn lasting_errors_end_the_retries() {
        let mut retry = Retry::until(Instant::now() + Duration::from_secs(60));
        let work = async { Err::<(), _>(StepError::new(FailureCode::InvalidSelector, "")) };
        assert!(retry.attempt(work).await.is_some());
    }
}
