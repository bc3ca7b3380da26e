//! Panics: in the log, in its form, and among the metrics. A panic ends a task or a thread that perhaps nobody waits for.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::thread;

use metrics::counter;

use super::flush_log;
use warmpool_core::panics::said;

/// Logs and counts every panic of this process from now on. To be called once the log and the metrics have started.
pub(crate) fn report_panics() {
    // A metric that is there before it counts lets an alarm see the first one.
    counter!("warmpool_panics_total").increment(0);
    panic::set_hook(Box::new(tell));
}

fn tell(panic: &PanicHookInfo<'_>) {
    counter!("warmpool_panics_total").increment(1);
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = thread::current();
    // Only where RUST_BACKTRACE asks for one.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread = thread.name(), place, backtrace, "panic: {}", said(panic.payload()));
    // It may end the process.
    flush_log();
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tracing_subscriber::prelude::*;

    use super::super::recent::{self, RecentFilter};
    use super::*;

    #[test]
    fn a_panic_is_in_the_log_and_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let log = tracing_subscriber::registry().with(RecentFilter);
        let before = panic::take_hook();
        report_panics();
        let ended = metrics::with_local_recorder(&recorder, || {
            tracing::subscriber::with_default(log, || panic::catch_unwind(|| panic!("as planned {}", 1)))
        });
        panic::set_hook(before);
        assert!(ended.is_err());
        assert!(recorder.handle().render().contains("warmpool_panics_total 1"), "{}", recorder.handle().render());
        let lines = recent::lines().all();
        let line = lines.iter().find(|line| line.message.contains("panic: as planned 1")).expect("a line");
        assert!(line.fields["place"].as_str().is_some_and(|place| place.contains("panics.rs")), "{line:?}");
    }
}
