//! Waiting for a condition, bounded.

use std::time::Duration;

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// What a polled expression may answer: `bool`, or an `Option` whose content is handed on.
pub trait Settled {
    /// What is handed on once the condition holds.
    type Found;
    /// The content if the condition holds.
    fn settled(self) -> Option<Self::Found>;
}

impl Settled for bool {
    type Found = ();
    fn settled(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Settled for Option<T> {
    type Found = T;
    fn settled(self) -> Option<T> {
        self
    }
}

/// The pause between two looks of [`eventually!`](crate::eventually!).
pub async fn poll() {
    tokio::time::sleep(PAUSE).await;
}

/// `eventually!("what is awaited", seconds, expression)` looks at the expression until it is `true` or `Some`; answers
/// `Ok` with what was found, or an error that names what was awaited. The expression may await and may use `?`.
#[macro_export]
macro_rules! eventually {
    ($what:expr, $seconds:expr, $probe:expr) => {{
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs($seconds);
        loop {
            if let Some(found) = $crate::Settled::settled($probe) {
                break anyhow::Ok(found);
            }
            if std::time::Instant::now() > deadline {
                break Err(anyhow::anyhow!("not within {} s: {}", $seconds, $what));
            }
            $crate::poll().await;
        }
    }};
}
