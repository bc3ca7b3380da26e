use serde::{Deserialize, Serialize};

use crate::captcha::{Captcha, CaptchaEnd};
use crate::text;

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// The agent starts browser and driver.
    #[default]
    Starting,
    /// A page can be driven, and no client has had the browser.
    Warm,
    /// A session has it.
    Active,
    /// The browser has ended.
    Ended,
    /// The browser never became ready.
    Failed,
}

/// What is known of browser and driver once they run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The browser's product name and version.
    #[serde(deserialize_with = "text::read_optional")]
    pub browser: Option<String>,
    /// The driver's name and version.
    #[serde(deserialize_with = "text::read_optional")]
    pub driver: Option<String>,
    /// The user agent that the browser has by itself.
    #[serde(deserialize_with = "text::read_optional")]
    pub user_agent: Option<String>,
    /// Whether the browser runs without a display.
    pub headless: bool,
    /// The switches of the warm browser that a client could have chosen.
    pub args: Vec<String>,
}

/// Body of `GET /health` and of each `state` event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Where the worker is in its life.
    pub state: WorkerState,
    /// Whether it waits and nothing that a client brought has come for a launch. An agent that does not say so may have been given
    /// something.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untouched: bool,
    /// Browser and driver.
    #[serde(flatten)]
    pub identity: Identity,
    /// Why the session's first page did not load.
    #[serde(default, deserialize_with = "text::read_optional", skip_serializing_if = "Option::is_none")]
    pub page_error: Option<String>,
    /// Requests for ads that were blocked so far, where the engine counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ads_blocked: Option<u64>,
    /// How many processes of the browser the kernel ended because memory ran out, since a session has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The challenge that waits for an answer; the oldest where there are several. One that its document is just filling in waits no
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captcha: Option<Box<Captcha>>,
    /// The challenge that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captcha_end: Option<CaptchaEnd>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Snapshot {
    /// The browser's version alone, such as `156.0.7950.2`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        let version = self.identity.browser.as_ref()?.rsplit(['/', ' ']).next()?;
        version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
    }
}

/// A line of `GET /events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The first line, and one at each change.
    State(Snapshot),
    /// Nothing is new, but the agent is alive.
    Beat,
    /// The browser has ended.
    Exited {
        /// Whether it ended by itself with code 0.
        clean: bool,
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Whether the kernel killed a process because memory ran out meanwhile.
        oom: bool,
    },
    /// The browser has answered nothing for the claimed time.
    Unresponsive,
    /// The driver has ended.
    DriverExited,
    /// The browser never became ready.
    Failed {
        /// Why, as a sentence.
        #[serde(deserialize_with = "text::read")]
        reason: String,
    },
    /// An event that this side does not know.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn events_have_the_form_that_every_daemon_reads() {
        let mut snapshot = Snapshot { state: WorkerState::Warm, ..Snapshot::default() };
        let line = json!({
            "type": "state", "state": "warm", "browser": null, "driver": null, "user_agent": null, "headless": false,
            "args": [],
        });
        assert_eq!(serde_json::to_value(WorkerEvent::State(snapshot.clone())).unwrap(), line);
        snapshot.untouched = true;
        assert_eq!(serde_json::to_value(WorkerEvent::State(snapshot.clone())).unwrap()["untouched"], true);
        snapshot.page_error = Some("no answer".to_owned());
        snapshot.oom_kills = Some(2);
        let line = serde_json::to_value(WorkerEvent::State(snapshot)).unwrap();
        assert_eq!((&line["page_error"], &line["oom_kills"]), (&json!("no answer"), &json!(2)));
        let exited = WorkerEvent::Exited { clean: false, code: None, signal: Some(9), oom: true };
        let line = json!({"type": "exited", "clean": false, "code": null, "signal": 9, "oom": true});
        assert_eq!(serde_json::to_value(exited).unwrap(), line);
    }

    #[test]
    fn no_event_has_a_text_that_fills_a_record() {
        let long = "x".repeat(100_000);
        let captcha = json!({"id": 1, "kind": "image", "url": long, "since": 1, "page": long});
        let said = json!({
            "type": "state", "state": "active", "browser": long, "driver": long, "user_agent": long, "page_error": long,
            "captcha": captcha,
        });
        let WorkerEvent::State(snapshot) = serde_json::from_value(said).unwrap() else { panic!("another event") };
        let Identity { browser, driver, user_agent, .. } = snapshot.identity;
        let captcha = snapshot.captcha.unwrap();
        let kept = text::shortened(long.as_str(), text::MAX_KEPT);
        for said in [browser, driver, user_agent, snapshot.page_error, Some(captcha.url), captcha.page] {
            assert_eq!(said.as_deref(), Some(&*kept));
        }
        let failed: WorkerEvent = serde_json::from_value(json!({"type": "failed", "reason": long})).unwrap();
        assert_eq!(failed, WorkerEvent::Failed { reason: kept.to_string() });
    }

    #[test]
    fn a_daemon_ignores_what_it_does_not_know() {
        let read = |line: Value| serde_json::from_value::<WorkerEvent>(line).unwrap();
        assert_eq!(read(json!({"type": "hiccup", "since": 3})), WorkerEvent::Unknown);
        let more = read(json!({"type": "state", "state": "active", "battery": 1, "browser": "B/1.2"}));
        let WorkerEvent::State(snapshot) = more else { panic!("{more:?}") };
        assert_eq!((snapshot.state, snapshot.version()), (WorkerState::Active, Some("1.2")));
        assert!(!snapshot.untouched, "who does not say so may be an older agent");
    }
}
