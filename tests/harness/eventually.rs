//! Waiting for a condition, bounded.

use std::time::{Duration, Instant};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What a polled expression may return: `bool`, or an `Option` whose content `eventually!` returns.
pub trait Condition {
    /// What `eventually!` returns.
    type Found;
    /// The content, if the condition holds.
    fn met(self) -> Option<Self::Found>;
}

impl Condition for bool {
    type Found = ();
    fn met(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Found = T;
    fn met(self) -> Option<T> {
        self
    }
}

/// Waits for a moment before something is looked at again.
pub async fn poll() {
    tokio::time::sleep(PAUSE).await;
}

/// Waits before [`eventually!`](crate::eventually!) evaluates its expression again: the longer, the longer it has waited. Each
/// attempt takes time of the processors on which the browsers run that it waits for.
pub async fn poll_since(began: Instant) {
    tokio::time::sleep((began.elapsed() / 16).clamp(PAUSE, LONGEST_PAUSE)).await;
}

/// `eventually!("what is awaited", seconds, expression)` evaluates the expression until it is `true` or `Some`; answers
/// `Ok` with what it found, or an error that names what was awaited. The expression may await and may use `?`.
#[macro_export]
macro_rules! eventually {
    ($what:expr, $seconds:expr, $probe:expr) => {{
        let began = std::time::Instant::now();
        let deadline = began + std::time::Duration::from_secs($seconds);
        loop {
            if let Some(found) = $crate::Condition::met($probe) {
                break anyhow::Ok(found);
            }
            if std::time::Instant::now() > deadline {
                break Err(anyhow::anyhow!("not within {} s: {}", $seconds, $what));
            }
            $crate::poll_since(began).await;
        }
    }};
}
