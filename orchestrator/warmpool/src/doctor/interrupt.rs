//! What a person who does not want to wait leaves behind: nothing.

use tokio::signal::unix::{SignalKind, signal};

/// Does the work, unless the process is asked to end first: then nothing.
pub(super) async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    let asked = async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = kinds.into_iter().filter_map(|kind| signal(kind).ok());
        let asked = signals.map(|mut signal| Box::pin(async move { signal.recv().await }));
        futures_util::future::select_all(asked).await;
    };
    tokio::select! {
        done = work => Some(done),
        () = asked => None,
    }
}
