//! `POST /performance`: a page that Lighthouse audits.
//!
//! Lighthouse runs where code of a caller's would, in a page of the browser itself, and audits another one.

use std::sync::Arc;

use http::HeaderValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use crate::Error;
use crate::answer::{Outcome, OutcomeBody};
use crate::chromium::reason;
use crate::code::{Runner, Script};
use crate::request::PerformanceBody;
use crate::response::PageResponse;
use crate::tab::TabError;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::session::Session;

/// A call that audits a page, checked.
#[derive(Debug)]
pub struct AuditCall {
    url: Url,
    config: Value,
    script: Script,
}

impl AuditCall {
    /// `POST /performance`. `script` is Lighthouse.
    /// Errors: `Field`.
    pub fn new(body: PerformanceBody, script: Script, engine: Engine) -> Result<Self, Error> {
        if engine != Engine::Chromium {
            return Err(Error::not_supported("browser", "must be chromium here: Lighthouse audits pages by DevTools"));
        }
        let (url, config) = body.checked()?;
        Ok(Self { url, config, script })
    }

    /// Audits the page in a browser that nobody has used.
    pub(crate) async fn work(&self, session: &Arc<Session>, config: &Config, until: Instant) -> Result<Outcome, Error> {
        let limit = config.pages.max_answer.bytes();
        let runner = Runner::open(session, config, limit, until).await?;
        let given = [json!(self.url.as_str()), self.config.clone(), json!(limit)];
        let mut value = runner.run(&self.script, Value::Null, &given, until, audit_error).await?;
        if let Some(why) = value["refused"].as_str() {
            return Err(Error::invalid("config", format!("cannot be used: {why}")));
        }
        if let Some(words) = value["failed"].as_str() {
            let outcomes = session.egress.outcomes();
            let shown = value["mark"].as_str().and_then(|mark| outcomes.shown_with(mark));
            return Err(match (shown, value["network"].as_str()) {
                (Some(why), _) => Error::NotOpened { reason: why.to_string() },
                (None, Some(error)) => Error::NotOpened { reason: reason(outcomes, &self.url, error) },
                (None, None) => Error::NotAudited { reason: words.to_owned() },
            });
        }
        match value["text"].take() {
            Value::String(text) if text.len() as u64 <= limit => Ok(Outcome {
                response: PageResponse::default(),
                media_type: Some(HeaderValue::from_static("application/json")),
                file_name: None,
                body: OutcomeBody::Whole(text.into()),
            }),
            _ => Err(Error::TooLarge { limit }),
        }
    }
}

/// What went wrong while Lighthouse was at work.
fn audit_error(error: TabError) -> Error {
    match error {
        TabError::Threw(reason) => Error::NotAudited { reason },
        TabError::Refused(_) => Error::NotAudited { reason: "the page in which Lighthouse runs was lost".to_owned() },
        TabError::Late => Error::Late { message: "Lighthouse did not come to its end in time".to_owned(), field: None },
        TabError::Gone | TabError::TooLarge => {
            let reason = "its browser was lost, or a message was longer than three times `pages.max_answer`";
            Error::NotAudited { reason: reason.to_owned() }
        }
    }
}
