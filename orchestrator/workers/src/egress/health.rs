//! Checks whether the upstream proxies answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::upstreams::{Upstream, Upstreams};
use warmpool_dial::Lookups;

/// Time for an upstream to take a connection.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

impl Upstreams {
    /// Checks every upstream at intervals, until `stop`.
    pub async fn check(self, lookups: Lookups, interval: Duration, stop: CancellationToken) {
        if self.0.is_empty() {
            return;
        }
        let checking = async {
            loop {
                for upstream in self.0.iter() {
                    let (host, port) = (&upstream.config.host, upstream.config.port);
                    let answer = timeout(CHECK_TIMEOUT, lookups.connect(host, port, CHECK_TIMEOUT)).await;
                    upstream.set_up(matches!(answer, Ok(Ok(_))));
                }
                sleep(interval).await;
            }
        };
        stop.run_until_cancelled(checking).await;
    }
}

impl Upstream {
    /// Records whether the upstream answers, and logs a change.
    pub(super) fn set_up(&self, is_up: bool) {
        let name = self.config.table.name.as_str();
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            if is_up {
                tracing::info!(upstream = name, "an upstream proxy answers again");
            } else {
                tracing::warn!(upstream = name, "an upstream proxy does not answer");
            }
        }
        metrics::gauge!("warmpool_egress_upstream_up", "upstream" => name.to_owned()).set(f64::from(u8::from(is_up)));
    }
}
