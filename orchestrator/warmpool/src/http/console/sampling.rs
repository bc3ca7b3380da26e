//! Takes a sample of the daemon every ten seconds.

use std::time::Duration;

use tokio::time::sleep;

use super::super::App;
use super::samples::Sample;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(10);

/// Takes samples until the daemon stops.
pub(crate) async fn run(app: App) {
    // The load is measured since an earlier measurement.
    app.console.samples().host.look();
    loop {
        tokio::select! {
            () = app.drain.reached(Phase::Stopped) => return,
            () = sleep(EVERY) => {}
        }
        app.console.samples().add(sample(&app));
    }
}

fn sample(app: &App) -> Sample {
    let kinds = app.pool.kinds();
    let (_, tasks, _) = app.tasks.counts();
    let create_times = app.sessions.take_create_times();
    let load = app.console.samples().host.look();
    Sample {
        at: unix_ms(),
        sessions: app.sessions.live_count(),
        waiting: app.pool.waiting(),
        ready: kinds.iter().map(|kind| kind.counts.ready).sum(),
        tasks,
        created: create_times.count(),
        refused: app.console.samples().take_refused(),
        p50: create_times.quantile_ms(0.5),
        p99: create_times.quantile_ms(0.99),
        cpu: load.cpu,
        memory: load.memory(),
        create_times,
    }
}
