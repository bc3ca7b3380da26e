//! The memory of workers that wait long: it goes to the host's swap, and comes back page by page as a client needs it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use warmpool_protocol::WorkerState;

use super::Pool;
use crate::worker::Worker;

impl Pool {
    /// Has a worker's memory paged out once it has waited for so long, and tries again after the same time where that fails. Ends
    /// when a client has it.
    pub(super) async fn page_out(self, worker: Arc<Worker>, after: Duration) {
        let mut snapshot = worker.snapshot.clone();
        if snapshot.wait_for(|it| it.state != WorkerState::Starting).await.is_err() {
            return;
        }
        let paged_out = async {
            loop {
                sleep(after).await;
                if self.try_to_page_out(&worker).await {
                    return;
                }
            }
        };
        tokio::select! {
            // First, for a worker that an earlier process handed out.
            biased;
            _ = snapshot.wait_for(|it| it.state != WorkerState::Warm) => {}
            () = paged_out => {}
        }
    }

    async fn try_to_page_out(&self, worker: &Worker) -> bool {
        // One after the other, since the kernel keeps a core busy with each.
        let mut failed = self.parts.paging_out.lock().await;
        let paged_out = self.parts.runtime.page_out(&worker.id).await;
        // One line for the first of many.
        let told = std::mem::replace(&mut *failed, paged_out.is_err());
        let result = match &paged_out {
            Ok(bytes) => {
                tracing::debug!(worker = %worker.id, bytes, "paged out");
                metrics::counter!("warmpool_worker_paged_out_bytes_total").increment(*bytes);
                "done"
            }
            Err(error) if told => {
                tracing::debug!(worker = %worker.id, %error, "not paged out");
                "failed"
            }
            Err(error) => {
                tracing::warn!(worker = %worker.id, %error, "`warmpool doctor` says what worker.page_out_after lacks here");
                "failed"
            }
        };
        metrics::counter!("warmpool_worker_page_outs_total", "result" => result).increment(1);
        paged_out.is_ok()
    }
}
