//! Taking connections from a listener, also while the process has no descriptor left for one.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

/// How long others have to close a descriptor before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection that `accept` gives. Safe to cancel where `accept` is.
///
/// Where descriptors run out, accepting fails again at once, and the connection stays in the kernel's queue: so a
/// failure is followed by a pause.
pub async fn next<C, F>(mut accept: impl FnMut() -> F) -> C
where
    F: Future<Output = io::Result<C>>,
{
    let mut told = false;
    loop {
        match accept().await {
            Ok(connection) => return connection,
            Err(error) if !told => {
                told = true;
                tracing::warn!(%error, "a connection could not be accepted; trying again");
            }
            Err(error) => tracing::trace!(%error, "still no connection could be accepted"),
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_followed_by_a_pause() {
        let tries = Cell::new(0_u32);
        let no_descriptor = || {
            tries.set(tries.get() + 1);
            async { Err::<(), _>(io::Error::from_raw_os_error(24)) }
        };
        assert!(timeout(Duration::from_secs(1), next(no_descriptor)).await.is_err());
        assert!((15..=21).contains(&tries.get()), "one try every 50 ms: {}", tries.get());
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_as_soon_as_it_can() {
        let tries = Cell::new(0_u32);
        let third = || {
            tries.set(tries.get() + 1);
            let tried = tries.get();
            async move { if tried < 3 { Err(io::ErrorKind::Other.into()) } else { Ok(tried) } }
        };
        assert_eq!(next(third).await, 3);
    }
}
