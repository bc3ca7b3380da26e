//! A call: what it asks for, and the session that serves it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Error;
use crate::answer::{Answer, Outcome, OutcomeBody, RunningCall, Stored};
use crate::audit::AuditCall;
use crate::chromium::ChromiumTab;
use crate::code::CodeCall;
use crate::driver::DriverTab;
use crate::perform::{self, Waiting, left};
use crate::read::{Extract, Read};
use crate::request::screenshot::{Encoding, ScreenshotOptions};
use crate::request::wire::unwrap;
use crate::request::{
    ContentBody, PageRequest, Pdf, PdfBody, ReadBody, Robots, Scrape, ScrapeBody, Screenshot, ScreenshotBody,
    checked_reader,
};
use crate::tab::{Document, Tab, TabError};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::{FieldError, ServiceError};
use warmpool_keys::KeyId;
use warmpool_protocol::Size;
use warmpool_sessions::session::{Ending, Options, Session, SessionKind, Sessions};

/// How long the session may outlive the call, in seconds: its own end is for a daemon that died in mid-call.
const AFTER: u64 = 5;
/// How long to wait for the news of why a browser does not answer.
const VERDICT: Duration = Duration::from_secs(3);

/// Carries calls out.
#[derive(Clone)]
pub struct Pages {
    sessions: Sessions,
    config: Arc<Config>,
}

/// A call, checked.
#[derive(Debug)]
pub struct PageCall {
    request: PageRequest,
    work: Work,
}

/// A call of any kind.
#[derive(Debug)]
pub enum Call {
    /// It names a page, and what is wanted of it.
    Page(Box<PageCall>),
    /// It brings code of its own.
    Code(CodeCall),
    /// It has a page audited.
    Audit(AuditCall),
}

impl From<PageCall> for Call {
    fn from(call: PageCall) -> Self {
        Self::Page(Box::new(call))
    }
}

impl From<CodeCall> for Call {
    fn from(call: CodeCall) -> Self {
        Self::Code(call)
    }
}

impl From<AuditCall> for Call {
    fn from(call: AuditCall) -> Self {
        Self::Audit(call)
    }
}

/// What is wanted of the page.
#[derive(Debug)]
enum Work {
    Content,
    Read(Read),
    Pdf(Pdf),
    Screenshot(Screenshot),
    Scrape(Scrape),
}

impl PageCall {
    /// `POST /content`.
    /// Errors: `Field`.
    pub fn content(mut body: ContentBody, engine: Engine) -> Result<Self, Error> {
        Ok(Self { request: PageRequest::new(body.take_fields(), engine)?, work: Work::Content })
    }

    /// `POST /read`, with what reads its `extract`.
    /// Errors: `Field`.
    pub fn read(mut body: ReadBody, extract: Option<Box<dyn Extract>>, engine: Engine) -> Result<Self, Error> {
        let robots = body.robots.take().and_then(Robots::reader).map(checked_reader).transpose()?;
        let request = PageRequest { robots, ..PageRequest::new(body.take_fields(), engine)? };
        Ok(Self { request, work: Work::Read(Read { extract, screenshot: body.screenshot == Some(true) }) })
    }

    /// `POST /pdf`.
    /// Errors: `Field`.
    pub fn pdf(mut body: PdfBody, engine: Engine) -> Result<Self, Error> {
        let request = PageRequest::new(body.take_fields(), engine)?;
        let work = Work::Pdf(unwrap(body.options).unwrap_or_default().checked(engine)?);
        Ok(Self { request, work })
    }

    /// `POST /screenshot`.
    /// Errors: `Field`.
    pub fn screenshot(mut body: ScreenshotBody, engine: Engine) -> Result<Self, Error> {
        let request = PageRequest::new(body.take_fields(), engine)?;
        let options: ScreenshotOptions = unwrap(body.options).unwrap_or_default();
        let work = Work::Screenshot(options.checked(body.selector, body.scroll_page == Some(true), engine)?);
        Ok(Self { request, work })
    }

    /// `POST /scrape`.
    /// Errors: `Field`.
    pub fn scrape(mut body: ScrapeBody, engine: Engine) -> Result<Self, Error> {
        let request = PageRequest::new(body.take_fields(), engine)?;
        Ok(Self { request, work: Work::Scrape(Scrape::new(body.elements, body.debug_opts)?) })
    }

    /// Adds to the session's options what its browser has from the beginning.
    fn complete(&self, options: &mut Options) -> Result<(), Error> {
        let settings = &mut options.launch.settings;
        if let Some(agent) = &self.request.user_agent {
            settings.user_agent = Some(agent.clone());
        }
        if options.engine != Engine::Chromium {
            options.kind = SessionKind::WebDriver;
            if let Some(viewport) = &self.request.viewport {
                settings.viewport = Some(Size { width: viewport.width, height: viewport.height });
            }
        }
        let wrong = |error| FieldError::from(error).renamed(|path| path.replace("user_agent", "userAgent"));
        settings.check().map_err(wrong)?;
        Ok(())
    }
}

impl Pages {
    /// Carries calls out in sessions of `sessions`.
    #[must_use]
    pub const fn new(sessions: Sessions, config: Arc<Config>) -> Self {
        Self { sessions, config }
    }

    /// Carries a call out, in a session of its own with these options. `limit` is the time that the call has from the moment
    /// that it has a browser. Whoever drops the future or the answer ends the session.
    /// Errors: those of [`Sessions::create`], and those of the call.
    pub async fn perform(
        &self,
        owner: KeyId,
        mut options: Options,
        call: impl Into<Call>,
        limit: Duration,
    ) -> Result<Answer, Error> {
        let call = call.into();
        if let Call::Page(call) = &call {
            call.complete(&mut options)?;
        }
        options.session_timeout = limit.as_secs() + AFTER;
        options.idle_timeout = None;
        // The connection of a script ends before its downloads are read, or its answer is taken.
        options.keep_alive = matches!(call, Call::Code(_) | Call::Audit(_));
        let unconfirmed = self.sessions.create(owner, options).await?;
        let session = Arc::clone(unconfirmed.session()?);
        let running = RunningCall::new(Arc::clone(&session), unconfirmed);
        let until = Instant::now() + limit;
        let outcome = tokio::select! {
            biased;
            ending = session.ended() => Err(lost(&session, &ending)),
            outcome = timeout_at(until, self.work(&session, &call, until)) => {
                outcome.unwrap_or(Err(Error::TimedOut { after: limit }))
            }
        };
        match outcome {
            Ok(outcome) => Ok(outcome.answer(running)),
            Err(error) => {
                // The browser's end comes as a broken connection, too, and its reason a moment later.
                let error = match &error {
                    Error::Failed { .. } | Error::NotAudited { .. } => match timeout(VERDICT, session.ended()).await {
                        Ok(ending) => lost(&session, &ending),
                        Err(_) => error,
                    },
                    _ => error,
                };
                running.end(match error {
                    Error::TimedOut { .. } => Ending::TimedOut,
                    _ => Ending::ClientFinished,
                });
                Err(error)
            }
        }
    }

    async fn work(&self, session: &Arc<Session>, call: &Call, until: Instant) -> Result<Outcome, Error> {
        match call {
            Call::Page(call) => self.page(session, call, until).await,
            Call::Code(call) => Ok(call.work(session, &self.config, until).await?.into()),
            Call::Audit(call) => call.work(session, &self.config, until).await,
        }
    }

    async fn page(&self, session: &Arc<Session>, call: &PageCall, until: Instant) -> Result<Outcome, Error> {
        let limit = self.config.pages.max_answer.bytes();
        let tab = match session.options.engine {
            Engine::Chromium => Tab::Chromium(ChromiumTab::attach(session, &call.request, limit).await?),
            Engine::Firefox | Engine::Webkit => {
                Tab::Driver(DriverTab::attach(&self.sessions, session, &self.config, &call.request).await?)
            }
        };
        perform::open(&tab, &call.request, until).await?;
        let response = tab.response(left(until)).await;
        let whole = |media_type, bytes| (media_type, OutcomeBody::Whole(bytes));
        let (media_type, body) = match &call.work {
            Work::Content => whole("text/html; charset=utf-8", content(&tab, limit, until).await?.into()),
            Work::Read(wanted) => {
                let html = content(&tab, limit, until).await?;
                let answer = wanted.answer(&tab, html, (limit, self.config.pages.max_elements), until).await?;
                let bytes = serde_json::to_vec(&answer).map_err(ServiceError::internal)?;
                whole("application/json", bytes.into())
            }
            Work::Pdf(pdf) => match tab.print(pdf, call.request.java_script, left(until)).await? {
                Document::Pieces(printed) => ("application/pdf", OutcomeBody::Stored(Stored::Printed(printed))),
                Document::Whole(bytes) => whole("application/pdf", bytes),
            },
            Work::Screenshot(wanted) => {
                if wanted.scrolls {
                    perform::scroll(&tab, until).await?;
                }
                let picture = tab.screenshot(wanted, left(until)).await?;
                match wanted.encoding {
                    Encoding::Binary => whole(wanted.kind.media_type(), picture),
                    Encoding::Base64 => whole("text/plain; charset=utf-8", STANDARD.encode(&picture).into()),
                }
            }
            Work::Scrape(wanted) => {
                let answer = scrape(&tab, wanted, (limit, call.request.best_attempt), until).await?;
                let bytes = serde_json::to_vec(&answer).map_err(ServiceError::internal)?;
                whole("application/json", bytes.into())
            }
        };
        let media_type = Some(HeaderValue::from_static(media_type));
        Ok(Outcome { response, media_type, file_name: None, body })
    }
}

/// What the end of its session means for a call.
fn lost(session: &Session, ending: &Ending) -> Error {
    match ending {
        Ending::Drained => Error::Service(ServiceError::Draining),
        Ending::WorkerLost(loss) => {
            warmpool_sessions::Error::worker("the browser was lost: try again", loss.to_string()).into()
        }
        Ending::BrowserClosed => Error::Failed { message: "the page has closed the browser".to_owned() },
        ending => ending.error(&session.id).into(),
    }
}

/// The page's HTML.
async fn content(tab: &Tab, limit: u64, until: Instant) -> Result<String, Error> {
    let failed = |error: TabError| error.when("read the page", limit);
    let mut content = tab.call("content", &[json!(limit)], left(until)).await.map_err(failed)?;
    if let Some(why) = content["refused"].as_str() {
        return Err(failed(TabError::Refused(why.to_owned())));
    }
    match content["text"].take() {
        Value::String(text) if text.len() as u64 <= limit => Ok(text),
        _ => Err(Error::TooLarge { limit }),
    }
}

/// The elements of the page, and what else is wanted of it.
async fn scrape(tab: &Tab, wanted: &Scrape, (limit, best): (u64, bool), until: Instant) -> Result<Value, Error> {
    let failed = |error: TabError| error.when("read the elements", limit);
    for (at, (selector, time)) in wanted.elements.iter().enumerate() {
        let (field, place) = (format!("elements[{at}]"), format!("elements[{at}].selector"));
        let waiting = Waiting::within(&field, "no such element came", *time, until);
        match perform::element(tab, waiting, &place, selector).await {
            Err(Error::Late { .. }) if best => {}
            outcome => outcome?,
        }
    }
    let selectors: Vec<&str> = wanted.elements.iter().map(|(selector, _)| selector.as_str()).collect();
    let mut answer = tab.call("scrape", &[json!(selectors), json!(limit)], left(until)).await.map_err(failed)?;
    if !answer["large"].is_null() {
        return Err(Error::TooLarge { limit });
    }
    if let Some(why) = answer["refused"].as_str() {
        return Err(failed(TabError::Refused(why.to_owned())));
    }
    let mut debug = Map::new();
    if wanted.html {
        debug.insert("html".to_owned(), json!(content(tab, limit, until).await?));
    }
    if wanted.cookies {
        debug.insert("cookies".to_owned(), tab.cookies(left(until)).await.map_err(failed)?);
    }
    if wanted.screenshot {
        let plain = ScreenshotOptions::default().checked(None, false, Engine::Chromium)?;
        debug.insert("screenshot".to_owned(), json!(STANDARD.encode(tab.screenshot(&plain, left(until)).await?)));
    }
    let mut reply = json!({"data": answer["data"].take()});
    if !debug.is_empty() {
        reply["debug"] = Value::Object(debug);
    }
    Ok(reply)
}
