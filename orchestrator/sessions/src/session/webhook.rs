//! What webhooks hear of sessions: their ends, and challenges that wait for a person.

use serde_json::{Value, json};

use super::record::Record;
use super::{Session, SessionKind, Sessions};
use warmpool_api::captcha::{SolvedBy, WaitingCaptcha};
use warmpool_store::Batch;
use warmpool_webhooks::{Event, EventKind, QueuedMessages, Webhooks};

impl Sessions {
    /// What tells others of ends.
    pub fn webhooks(&self) -> &Webhooks {
        &self.shared.webhooks
    }

    /// Puts what is told of an end into the batch that writes it.
    pub(super) fn enclose_end(&self, batch: &mut Batch, record: &Record) -> QueuedMessages {
        // Who sent a task hears of the task.
        let address = record.options.webhook_url.as_deref().filter(|_| record.options.kind != SessionKind::Task);
        let Some(ended) = record.ended.as_ref().filter(|_| self.shared.webhooks.is_heard(address)) else {
            return QueuedMessages::default();
        };
        let mut data = json!(record.view(ended.status, ended.at_ms));
        if let (Some(task), Some(members)) = (&record.options.task, data.as_object_mut()) {
            members.insert("task_id".to_owned(), json!(task));
        }
        let brief = json!({
            "session_id": record.session_id,
            "status": ended.status,
            "reason": ended.reason,
            "ended_at": ended.at_ms,
        });
        let event = Event {
            kind: EventKind::SessionEnded,
            subject: record.session_id.as_str(),
            owner: &record.owner,
            address,
            data: &data,
            brief: &brief,
        };
        self.shared.webhooks.add_to_batch(batch, &event)
    }

    /// Whether somebody wants to hear when a challenge of this session waits for a person.
    pub(super) fn tells_who_waits(&self, session: &Session) -> bool {
        session.options.launch.captchas.is_some()
            && self.shared.webhooks.is_heard(session.options.webhook_url.as_deref())
    }

    /// Tells of each challenge that waits for a person, until the session ends.
    pub(super) async fn tell_who_waits(&self, session: &Session) {
        let mut waiting = session.captchas.watch();
        let mut told = None;
        loop {
            let now = waiting.borrow_and_update().clone().filter(|captcha| captcha.by == SolvedBy::Person);
            if let Some(captcha) = now.filter(|captcha| told != Some(captcha.since)) {
                told = Some(captcha.since);
                self.tell_of(session, &captcha).await;
            }
            if waiting.changed().await.is_err() {
                return;
            }
        }
    }

    async fn tell_of(&self, session: &Session, captcha: &WaitingCaptcha) {
        let options = &session.options;
        let of_task = options.task.as_ref().map(ToString::to_string);
        let (kind, subject) = match &of_task {
            Some(task) => (EventKind::TaskWaiting, format!("{task}_{}", captcha.since)),
            None => (EventKind::SessionWaiting, format!("{}_{}", session.id, captcha.since)),
        };
        let told = |captcha: Value| {
            json!({
                "session_id": session.id,
                "task_id": of_task,
                "metadata": options.metadata,
                "captcha": captcha,
                "livestream_url": self.person_view(session),
            })
        };
        let (data, brief) = (told(json!(captcha)), told(json!({"kind": captcha.kind, "since": captcha.since})));
        let address = options.webhook_url.as_deref();
        let event = Event { kind, subject: &subject, owner: &session.owner, address, data: &data, brief: &brief };
        if let Err(error) = self.shared.webhooks.announce(&event).await {
            tracing::error!(session = %session.id, %error, "nobody is told that a challenge waits");
        }
    }

    /// Where a person sees the session and can act in it: an address where the daemon knows its own, else a path.
    fn person_view(&self, session: &Session) -> String {
        let base = self.shared.config.server.public_url.as_ref();
        let base = base.map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_default();
        format!("{base}/sessions/{}/stream?token={}&enable_actions=true", session.id, session.view_token)
    }
}
