//! The daemon itself: `open` puts the parts together, `start` sets them to work, and `stop` takes them apart in order.

mod closing;
mod error;
mod open;
mod start;
mod stop;

use std::io;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{App, Listener};
use warmpool_config::Config;
use warmpool_runtime::Ownership;

pub(crate) use error::StartError;

/// How the caller ends the daemon.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// Take no new sessions, let the running ones end.
    pub drain: CancellationToken,
    /// End now.
    pub force: CancellationToken,
    /// Leave everything to a newer program, once nothing runs that its clients would lose.
    pub replace: CancellationToken,
    /// Leave everything to a newer program now.
    pub replace_now: CancellationToken,
}

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing of it is left.
    Drained,
    /// It ended in time and left containers, which the next start finds. The process is to end at once.
    Left {
        /// How many workers may have one.
        workers: usize,
    },
    /// Its workers run on, for the next start. The process is to end at once: whatever still holds a session here would
    /// end it when it is dropped.
    SessionsKept,
    /// The same, and the process is to run its program anew.
    Replaced,
    /// Another daemon has its workers now, or may have. The process is to end at once, as it does when sessions are kept, and
    /// must touch nothing any more.
    Superseded,
}

/// The parts, put together.
struct Daemon {
    app: App,
    /// Holds the workers of this data directory.
    ownership: Ownership,
    /// Ends what runs beside the drain's tasks.
    stop: CancellationToken,
}

/// Runs the daemon until `shutdown`; `listener` is bound already, and `announce` says so once the data directory and the workers
/// are this daemon's. Returns when nothing of it is left, or its time is over.
/// Errors: when the data directory, the store or the keys cannot be used, when other hosts could reach a daemon without a
/// key, when workers could reach one another, or when `announce` fails.
pub(crate) async fn run(
    config: Arc<Config>,
    listener: Listener,
    metrics: PrometheusHandle,
    shutdown: Shutdown,
    announce: impl FnOnce() -> io::Result<()>,
) -> Result<End, StartError> {
    let Some((daemon, starting)) = Daemon::open(config, metrics, &shutdown.drain).await? else {
        return Ok(End::Drained);
    };
    let mut started = daemon.start(listener).await?;
    // Its control socket answers from now on.
    drop(starting);
    announce().map_err(StartError::Output)?;
    let cause = daemon.wait(&mut started, &shutdown).await;
    daemon.stop(started, cause, &shutdown.force).await
}
