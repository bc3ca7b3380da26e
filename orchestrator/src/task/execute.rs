//! One task from its first step to its one end.

use tokio_util::sync::CancellationToken;

use super::browser::Browser;
use super::work::{Limits, Outcome, Values, Watch, Work};

/// Carries `work` out. Ends once, also when cancelled, out of time, or when the browser dies; the session is left to
/// the caller, who ends it.
pub async fn execute(
    _work: &Work,
    _values: &Values,
    _browser: Browser,
    _limits: &Limits,
    _watch: &dyn Watch,
    _cancel: &CancellationToken,
) -> Outcome {
    Outcome::default()
}
