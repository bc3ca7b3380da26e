//! What webhooks hear of tasks: their ends.

use serde_json::json;

use super::record::Record;
use super::tasks::Tasks;
use super::view;
use warmpool_store::Batch;
use warmpool_webhooks::{Event, EventKind, QueuedMessages};

/// What a message leaves out of a task: it may be long, and is at the task's own address.
const LEFT_OUT: [&str; 5] = ["inputs", "output", "outputBytes", "outputUrl", "stepTimes"];

impl Tasks {
    /// Puts what is told of an end into the batch that writes it.
    pub(super) fn enclose_end(&self, batch: &mut Batch, record: &Record) -> QueuedMessages {
        let address = record.webhook_url.as_deref();
        if !self.inner.webhooks.is_heard(address) {
            return QueuedMessages::default();
        }
        let url = format!("/lam/tasks/{}", record.task_id);
        let mut data = json!(view::record(record, None));
        if let Some(members) = data.as_object_mut() {
            members.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            members.insert("url".to_owned(), json!(url));
        }
        let brief = json!({
            "taskId": record.task_id,
            "executionType": record.kind,
            "status": record.status,
            "endedAt": record.ended_ms,
            "url": url,
        });
        let event = Event {
            kind: EventKind::TaskEnded,
            subject: &record.task_id.to_string(),
            owner: &record.owner,
            address,
            data: &data,
            brief: &brief,
        };
        self.inner.webhooks.add_to_batch(batch, &event)
    }
}
