//! `POST /function` and `POST /download`: code of the caller's own, which drives the browser that it runs in.
//!
//! The code gets Puppeteer's `page`, as it does with browserless. Puppeteer runs beside it, in a page of its own (`runner`), and
//! speaks with the browser by a binding of that page and the daemon: no port is open to pages, and no address of the daemon's
//! has to be reachable. `popups` lets windows go on that this page opens. `files` finds what the browser has downloaded meanwhile.

mod files;
mod popups;
mod runner;

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

pub(crate) use self::files::Files;
pub(crate) use self::runner::Runner;
use crate::Error;
use crate::request::CodeBody;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::Size;
use warmpool_sessions::session::Session;

/// A script for the page of a call, as the daemon has it.
#[derive(Debug)]
pub enum Script {
    /// Its text.
    Text(Cow<'static, str>),
    /// The text, compressed by gzip.
    Gzip(Cow<'static, [u8]>),
}

/// A call that brings its own code, checked.
#[derive(Debug)]
pub struct CodeCall {
    code: String,
    context: Map<String, Value>,
    wanted: Wanted,
    script: Script,
}

/// What a call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What the code returns.
    Value,
    /// What the browser downloads meanwhile.
    Files,
}

/// What came of the code.
pub(crate) enum CodeOutcome {
    Value { media_type: HeaderValue, bytes: Bytes },
    Files(Files),
}

impl CodeCall {
    /// `POST /function`. `script` runs in the code's page and gives it Puppeteer.
    /// Errors: `Field`.
    pub fn function(body: CodeBody, script: Script, engine: Engine) -> Result<Self, Error> {
        Self::new(body, script, engine, Wanted::Value)
    }

    /// `POST /download`, with the same script.
    /// Errors: `Field`.
    pub fn download(body: CodeBody, script: Script, engine: Engine) -> Result<Self, Error> {
        Self::new(body, script, engine, Wanted::Files)
    }

    fn new(body: CodeBody, script: Script, engine: Engine, wanted: Wanted) -> Result<Self, Error> {
        if engine != Engine::Chromium {
            return Err(Error::not_supported(
                "browser",
                "must be chromium here: the code drives its browser by DevTools",
            ));
        }
        let (code, context) = body.checked()?;
        Ok(Self { code, context, wanted, script })
    }

    /// Runs the code in a browser that nobody has used.
    pub(crate) async fn work(
        &self,
        session: &Arc<Session>,
        config: &Config,
        until: Instant,
    ) -> Result<CodeOutcome, Error> {
        let limit = config.pages.max_answer.bytes();
        let size = session.options.launch.settings.viewport;
        let runner = Runner::open(session, config, limit, until).await?;
        let given = [json!(self.code), json!(self.context), json!(limit)];
        let value = runner.run(&self.script, viewport(size), &given, until, runner::code_error).await?;
        match self.wanted {
            Wanted::Value => answer(&value, limit),
            Wanted::Files => Ok(CodeOutcome::Files(Files::wait(session, config, until).await?)),
        }
    }
}

/// The viewport of the pages that the code opens, as Puppeteer has it.
fn viewport(size: Option<Size>) -> Value {
    size.map_or(Value::Null, |Size { width, height }| json!({"width": width, "height": height}))
}

/// What `answer.ts` of the pages says of the value that the code returned.
fn answer(value: &Value, limit: u64) -> Result<CodeOutcome, Error> {
    let bytes: Vec<u8> = match (&value["text"], &value["base64"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Value::String(text)) => STANDARD
            .decode(text)
            .map_err(|_| Error::Failed { message: "the code's page answered what is no base64".to_owned() })?,
        _ => return Err(Error::CodeTooLarge { limit }),
    };
    if bytes.len() as u64 > limit {
        return Err(Error::CodeTooLarge { limit });
    }
    let media_type = HeaderValue::try_from(value["type"].as_str().unwrap_or_default());
    match media_type.ok().filter(|value| !value.is_empty()) {
        Some(media_type) => Ok(CodeOutcome::Value { media_type, bytes: bytes.into() }),
        None => Err(Error::invalid("code", "returned a `type` that is no media type, such as `application/json`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: Value, engine: Engine) -> Result<CodeCall, Error> {
        CodeCall::function(serde_json::from_value(body).unwrap(), Script::Text(Cow::Borrowed("")), engine)
    }

    #[test]
    fn code_is_needed_and_chromium_alone_runs_it() {
        use warmpool_core::error::Fault as _;
        for (body, engine, field) in [
            (json!({"code": " \n"}), Engine::Chromium, "code"),
            (json!({"code": "export default () => 1"}), Engine::Firefox, "browser"),
        ] {
            assert_eq!(call(body, engine).unwrap_err().field(), Some(field));
        }
        assert!(call(json!({"code": "export default () => 1", "context": {"a": 1}}), Engine::Chromium).is_ok());
    }

    #[test]
    fn an_answer_has_a_type_and_a_limit() {
        let text = |kind: &str| answer(&json!({"type": kind, "text": "tea"}), 3);
        assert!(matches!(text("text/plain"), Ok(CodeOutcome::Value { bytes, .. }) if bytes == "tea"));
        assert!(matches!(text(""), Err(Error::Field(_))));
        assert!(matches!(text("a\r\nb"), Err(Error::Field(_))));
        let coded = json!({"type": "image/png", "base64": "dGVhIQ=="});
        assert!(matches!(answer(&coded, 4), Ok(CodeOutcome::Value { bytes, .. }) if bytes == "tea!"));
        for value in [coded, json!({"large": true}), Value::Null] {
            assert!(matches!(answer(&value, 3), Err(Error::CodeTooLarge { limit: 3 })), "{value}");
        }
    }
}
