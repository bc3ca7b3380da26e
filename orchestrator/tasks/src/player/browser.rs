//! The browser that a task drives: the driver of an ordinary session, spoken to by fantoccini.

mod command;
mod context;
mod files;
mod link;

use std::sync::Arc;
use std::time::Duration;

use fantoccini::Client;
use serde_json::{Value, json};
use url::Url;

pub(crate) use command::DriverCommand;
pub(crate) use context::DriverContext;

use self::context::DriverState;
use self::link::Dial;
use crate::script::template::Redactor;
use crate::script::{FailureCode, StepError};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_sessions::session::{Session, Sessions};
use warmpool_sessions::webdriver;
use warmpool_workers::Hide;
use warmpool_workers::egress::NoConnection;

/// Room for results beyond a task's output, in bytes: above all, a screenshot of a large window in base64.
const ANSWER_ROOM: u64 = 64 << 20;

/// One session's browser, to be driven by one task, or by one item of a fleet after another. Clones share it.
#[derive(Clone)]
pub(crate) struct Browser {
    sessions: Sessions,
    session: Arc<Session>,
    config: Arc<Config>,
    state: Arc<tokio::sync::Mutex<DriverState>>,
    manner: Manner,
}

/// Who decides what a page leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Dialogs are accepted when the next command meets them, and pages are waited for to their end: a recording does not
    /// say what its maker did, and who recorded something mostly agreed.
    Recorded,
    /// Somebody watches, answers dialogs, and begins before the last picture is there where the engine lets them.
    Watched,
}

impl Manner {
    /// How long pages are waited for, and what becomes of dialogs, in the words of WebDriver.
    const fn words(self, engine: Engine) -> (&'static str, &'static str) {
        match (self, engine) {
            (Self::Recorded, _) => ("normal", "accept"),
            // With "eager", WebKit 2.50 mostly misses that the first page of a fresh browser has come.
            (Self::Watched, Engine::Webkit) => ("normal", "ignore"),
            (Self::Watched, Engine::Chromium | Engine::Firefox) => ("eager", "ignore"),
        }
    }
}

impl Browser {
    /// The browser of `session`, which nobody else drives and whose `Launch` names no page.
    pub(crate) fn new(sessions: Sessions, session: Arc<Session>, config: Arc<Config>) -> Self {
        Self { sessions, session, config, state: Arc::default(), manner: Manner::Recorded }
    }

    /// The same for somebody who sees what happens and answers dialogs.
    pub(crate) fn watched(self) -> Self {
        Self { manner: Manner::Watched, ..self }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.session.options.engine
    }

    /// Why the last connection to the site of an address failed, if it did.
    pub(crate) fn failure_at(&self, url: &Url) -> Option<NoConnection> {
        self.session.egress.outcomes().failure_at(url)
    }

    /// What a page stands for that carries this mark, if the daemon made it.
    pub(crate) fn refusal(&self, mark: &str) -> Option<NoConnection> {
        self.session.egress.outcomes().shown_with(mark)
    }

    /// Takes the secrets of the work out of what is kept and told of its session: the addresses of pages may have them.
    pub(crate) fn hide(&self, redactor: Arc<Redactor>) {
        let hide: Hide = Arc::new(move |text| redactor.text(text));
        self.session.hide(&hide);
    }

    /// Waits until it is gone, and says how that came.
    pub(crate) async fn gone(&self) -> String {
        self.session.ended().await.message()
    }

    /// Makes the driver session by the same ways as a client, and a fantoccini that drives it.
    async fn new_client(&self, timeouts: Timeouts, max_output: u64) -> Result<Client, StepError> {
        let (strategy, dialogs) = self.manner.words(self.engine());
        let requested = json!({"capabilities": {"alwaysMatch": {
            "pageLoadStrategy": strategy,
            "unhandledPromptBehavior": dialogs,
            "timeouts": timeouts.value(),
        }}});
        // Nobody hears of the websockets beside it.
        let made = webdriver::new_session(&self.sessions, &self.session, &self.config, "", &requested).await;
        let (status, body) = made.map_err(|error| StepError::new(FailureCode::DriverError, error.to_string()))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(id) = body["value"]["sessionId"].as_str().filter(|_| status.is_success()) else {
            let reason = body["value"]["message"].as_str().unwrap_or("it gave no reason");
            return Err(StepError::new(FailureCode::DriverError, format!("the driver made no session: {reason}")));
        };
        let max_answer = usize::try_from(max_output.saturating_mul(2).saturating_add(ANSWER_ROOM));
        let dial = Dial {
            session: Arc::clone(&self.session),
            config: Arc::clone(&self.config),
            max_answer: max_answer.unwrap_or(usize::MAX),
        };
        Client::with_existing_session(link::ADDRESS, id, dial).await.map_err(|error| StepError::internal(&error))
    }
}

/// How long the driver itself waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// For a page to load.
    pub(crate) page_load: Duration,
    /// For a script to end.
    pub(crate) script: Duration,
}

impl Timeouts {
    /// In the words of WebDriver.
    pub(crate) fn value(self) -> Value {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        json!({"implicit": 0, "pageLoad": ms(self.page_load), "script": ms(self.script)})
    }
}
