//! The calls on pages, at the addresses of browserless's REST: `/content`, `/pdf`, `/screenshot` and `/scrape`, also below
//! the prefixes of Chromium's calls; and `/read`, which is Warmpool's own.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::form_urlencoded;

use super::App;
use super::answer;
use super::auth::verify;
use super::body;
use super::create;
use super::openapi::{Access, Operation, Routes};
use super::query::Query;
use super::reply::download;
use super::route::{Policy, Traffic};
use crate::dropin::browserless;
use crate::http::error::Error;
use warmpool_core::blocking;
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_keys::KeyId;
use warmpool_pages::{
    AnswerBody, Call, ContentBody, Extract, PageCall, PdfBody, ReadAnswer, ReadBody, ScrapeBody, ScreenshotBody,
};
use warmpool_sessions::session::Options;
use warmpool_tasks::extraction::{Extraction, Limit};

/// What a query may say. `dropin::browserless` reads what it has in common with a websocket's, and refuses all others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct PageQuery {
    /// A service key, where the client can set no header.
    token: Option<String>,
    /// How long the call may take from the moment that it has a browser, in milliseconds: `pages.timeout` where it is left out.
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// The browser that opens the page.
    browser: Option<Engine>,
    /// `advanced.block_ads` of the call's session.
    #[serde(rename = "blockAds")]
    block_ads: Option<bool>,
    /// `app_name` of the call's session: 1 to 31 letters, digits, `-` or `_`.
    #[serde(rename = "trackingId")]
    tracking_id: Option<String>,
    /// An object of launch options as JSON, or that in base64.
    launch: Option<String>,
    /// The body of `POST /sessions/create` as JSON, or that in base64, without `recording` and `keep_alive`.
    options: Option<String>,
}

/// The setting that limits a body.
pub(super) const MAX_BODY: &str = "pages.max_body";
/// Other names of Chromium's calls, for clients that know them.
pub(super) const PREFIXES: [&str; 3] = ["/chromium", "/chrome", "/edge"];
/// Calls on pages, each of which makes a session.
pub(super) const POLICY: Policy = Policy::rest(Access::Socket, &[]).takes_at_least::<PageQuery>().of(Traffic::Work);

/// Why a call on a page may fail.
pub(super) const FAILURES: &[Code] = &[Code::PageTimeout, Code::PageFailed, Code::SessionEnded];

/// A call on a page: how its body becomes one.
trait PageBody: DeserializeOwned {
    /// Checks the body for a browser of this engine.
    fn call(self, engine: Engine, app: &App) -> Result<PageCall, Error>;
}

/// The language of extractions, for calls on pages.
#[derive(Debug)]
struct TaskLanguage {
    extraction: Extraction,
    max_elements: usize,
}

impl Extract for TaskLanguage {
    fn function(&self) -> String {
        Extraction::function()
    }

    fn arguments(&self, limit: u64) -> Vec<Value> {
        self.extraction.arguments(limit)
    }

    fn results(&self, answer: Value, bytes: u64, until: Instant) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(self.extraction.data(answer, Limit { bytes, elements: self.max_elements, until }))
    }
}

impl PageBody for ContentBody {
    fn call(self, engine: Engine, _: &App) -> Result<PageCall, Error> {
        Ok(PageCall::content(self, engine)?)
    }
}

impl PageBody for ReadBody {
    fn call(mut self, engine: Engine, app: &App) -> Result<PageCall, Error> {
        let extraction = self.take_extract().map(|members| Extraction::parse("extract", members)).transpose()?;
        let max_elements = app.config.pages.max_elements;
        let extract = extraction.map(|extraction| Box::new(TaskLanguage { extraction, max_elements }) as Box<_>);
        Ok(PageCall::read(self, extract, engine)?)
    }
}

impl PageBody for PdfBody {
    fn call(self, engine: Engine, _: &App) -> Result<PageCall, Error> {
        Ok(PageCall::pdf(self, engine)?)
    }
}

impl PageBody for ScreenshotBody {
    fn call(self, engine: Engine, _: &App) -> Result<PageCall, Error> {
        Ok(PageCall::screenshot(self, engine)?)
    }
}

impl PageBody for ScrapeBody {
    fn call(self, engine: Engine, _: &App) -> Result<PageCall, Error> {
        Ok(PageCall::scrape(self, engine)?)
    }
}

pub(super) fn routes(routes: Routes) -> Routes {
    let about = "The call opens the page in a fresh browser, which it does not share and which ends with it. Where the site's \
                 answer is known, the headers `x-response-code`, `-status`, `-ip`, `-port` and `-url` tell of it. Other \
                 engines than Chromium refuse by name what only DevTools can do.";
    let operation = |id, summary| {
        Operation::new(id, summary, POLICY.suggested())
            .about(about)
            .fails(FAILURES)
            .fails(create::FAILURES)
            .fails(create::PROFILE_FAILURES)
    };
    let example = |more: Value| {
        let mut example = json!({"url": "https://example.com/"});
        if let (Some(example), Value::Object(more)) = (example.as_object_mut(), more) {
            example.extend(more);
        }
        example
    };
    let routes = routes
        .post(
            "/content",
            answer::<ContentBody>,
            operation("get_content", "A page's HTML")
                .reads::<ContentBody>(example(json!({})))
                .writes_text("text/html", "The HTML as it is in the browser."),
        )
        .post(
            "/read",
            answer::<ReadBody>,
            operation("read_page", "What a page says, as Markdown")
                .reads::<ReadBody>(example(json!({})))
                .writes::<ReadAnswer>("The main content as Markdown, with title, links and metadata.")
                .fails(&[Code::RefusedByRobots]),
        )
        .post(
            "/pdf",
            answer::<PdfBody>,
            operation("print_page", "A page as a PDF")
                .reads::<PdfBody>(example(json!({"options": {"format": "A4", "printBackground": true}})))
                .writes_bytes("application/pdf", "The document."),
        )
        .post(
            "/screenshot",
            answer::<ScreenshotBody>,
            operation("picture_page", "A picture of a page")
                .reads::<ScreenshotBody>(example(json!({"options": {"fullPage": true}})))
                .writes_bytes("image/png", "The picture.")
                .writes_bytes("image/jpeg", "The picture.")
                .writes_bytes("image/webp", "The picture.")
                .writes_text("text/plain", "The picture in base64."),
        )
        .post(
            "/scrape",
            answer::<ScrapeBody>,
            operation("scrape_page", "The elements of a page")
                .reads::<ScrapeBody>(example(json!({"elements": [{"selector": "h1"}]})))
                .writes::<Scraped>("The elements."),
        );
    PREFIXES.into_iter().fold(routes, |routes, prefix| {
        routes
            .undescribed(&format!("{prefix}/content"), post(answer::<ContentBody>), POLICY)
            .undescribed(&format!("{prefix}/pdf"), post(answer::<PdfBody>), POLICY)
            .undescribed(&format!("{prefix}/screenshot"), post(answer::<ScreenshotBody>), POLICY)
            .undescribed(&format!("{prefix}/scrape"), post(answer::<ScrapeBody>), POLICY)
    })
}

/// The elements of a page.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct Scraped {
    /// One entry for each selector.
    data: Vec<ScrapedSelector>,
    /// What `debugOpts` asked for.
    debug: Option<Value>,
}

/// The elements of a selector.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct ScrapedSelector {
    /// The selector.
    selector: String,
    /// Its elements, in the page's order.
    results: Vec<ScrapedElement>,
}

/// An element.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct ScrapedElement {
    /// Its text as it is shown.
    text: String,
    /// The HTML in it.
    html: String,
    attributes: Vec<ScrapedAttribute>,
    /// In CSS pixels from the page's top.
    top: f64,
    /// In CSS pixels from the page's left.
    left: f64,
    width: f64,
    height: f64,
}

/// An attribute of an element.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct ScrapedAttribute {
    name: String,
    value: String,
}

/// Carries a call out.
async fn answer<B: PageBody + Send + 'static>(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
    parts: Parts,
    body: Body,
) -> Result<Response, Error> {
    carry_out_json(&app, &query, &parts, body, |body: B, engine| body.call(engine, &app)).await
}

/// Carries out the call that a body of JSON becomes.
pub(super) async fn carry_out_json<B: DeserializeOwned, C: Into<Call>>(
    app: &App,
    query: &PageQuery,
    parts: &Parts,
    body: Body,
    call: impl FnOnce(B, Engine) -> Result<C, Error>,
) -> Result<Response, Error> {
    let asked = CallParameters::read(app, query, parts)?;
    let most = app.config.pages.max_body.bytes();
    let mut text = body::json_text(app, &parts.headers, body, most, MAX_BODY).await?;
    // A body may be large, and the regular expressions in it take their time.
    let call = blocking::in_place(|| call(text.parse::<B>()?, asked.engine))?;
    let _kept = text.kept();
    asked.carry_out(app, call).await
}

/// What a call's key and query say.
pub(super) struct CallParameters {
    pub(super) engine: Engine,
    key: KeyId,
    options: Options,
    limit: Duration,
}

impl CallParameters {
    pub(super) fn read(app: &App, query: &PageQuery, parts: &Parts) -> Result<Self, Error> {
        let key = verify(app, &parts.headers, query.token.as_deref())?;
        let engine = engine(query.browser, parts.uri.path())?;
        let text = parts.uri.query().unwrap_or_default();
        let asked = browserless::read(&without_browser(text), engine)?;
        let options = asked.options(&app.config)?;
        for (name, given) in [
            ("session", asked.session.is_some()),
            ("keep_alive", options.keep_alive),
            ("options.recording", options.recording),
        ] {
            if given {
                return Err(Error::invalid(
                    name,
                    "cannot be given here: each call has a browser of its own, which ends with it",
                ));
            }
        }
        let limit = query.timeout.map_or(app.config.pages.timeout, Duration::from_millis);
        Ok(Self { engine, key, options, limit })
    }

    /// Carries the call out, and answers with what comes of it.
    pub(super) async fn carry_out(self, app: &App, call: impl Into<Call>) -> Result<Response, Error> {
        let pages = warmpool_pages::Pages::new(app.sessions.clone(), app.config.clone());
        let answer = pages.perform(self.key, self.options, call, self.limit).await?;
        let body = match answer.body {
            AnswerBody::Whole(bytes) => answer::whole(bytes)?,
            AnswerBody::Pieces(pieces) => Body::from_stream(pieces.into_stream()),
        };
        let mut response = download(body, "application/octet-stream");
        let headers = response.headers_mut();
        headers.extend(answer.response.headers());
        if let Some(media_type) = answer.media_type {
            headers.insert(CONTENT_TYPE, media_type);
        }
        if let Some(name) = &answer.file_name {
            file_headers(headers, name);
        }
        Ok(response)
    }
}

/// Names a file, and says by its name of which type it is.
fn file_headers(headers: &mut HeaderMap, name: &str) {
    let media_type = mime_guess::from_path(name).first_or_octet_stream();
    if let Ok(media_type) = HeaderValue::try_from(media_type.as_ref()) {
        headers.insert(CONTENT_TYPE, media_type);
    }
    let plain: String = name
        .chars()
        .map(
            |letter| {
                if letter.is_ascii_graphic() && !matches!(letter, '"' | '\\') || letter == ' ' { letter } else { '_' }
            },
        )
        .collect();
    let coded = utf8_percent_encode(name, NON_ALPHANUMERIC);
    let disposition = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}");
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
}

/// The browser that a call wants.
fn engine(asked: Option<Engine>, path: &str) -> Result<Engine, Error> {
    let is_chromiums =
        PREFIXES.iter().any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')));
    match asked {
        Some(other) if is_chromiums && other != Engine::Chromium => Err(Error::invalid(
            "browser",
            "names another browser than the path: leave it out, or the first part of the path",
        )),
        Some(engine) => Ok(engine),
        None => Ok(Engine::Chromium),
    }
}

/// A query without the parameter that websockets do not have.
pub(super) fn without_browser(query: &str) -> String {
    let others = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != "browser");
    form_urlencoded::Serializer::new(String::new()).extend_pairs(others).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_query_name_one_browser() {
        assert_eq!(engine(None, "/pdf").unwrap(), Engine::Chromium);
        assert_eq!(engine(Some(Engine::Firefox), "/pdf").unwrap(), Engine::Firefox);
        assert_eq!(engine(Some(Engine::Chromium), "/chrome/pdf").unwrap(), Engine::Chromium);
        assert!(engine(Some(Engine::Webkit), "/chromium/pdf").is_err());
        assert!(engine(Some(Engine::Firefox), "/edge/pdf").is_err());
    }

    #[test]
    fn a_file_has_its_name_and_its_type() {
        for (name, media_type, disposition) in [
            ("tea.csv", "text/csv", "attachment; filename=\"tea.csv\"; filename*=UTF-8''tea%2Ecsv"),
            (
                "T\u{e9}\"\r\n.pdf",
                "application/pdf",
                "attachment; filename=\"T____.pdf\"; filename*=UTF-8''T%C3%A9%22%0D%0A%2Epdf",
            ),
            ("tea", "application/octet-stream", "attachment; filename=\"tea\"; filename*=UTF-8''tea"),
        ] {
            let mut headers = HeaderMap::new();
            file_headers(&mut headers, name);
            assert_eq!(headers[CONTENT_TYPE], media_type);
            assert_eq!(headers[CONTENT_DISPOSITION], disposition);
        }
    }

    #[test]
    fn the_rest_of_a_query_stays_as_it_is() {
        assert_eq!(without_browser("token=a%20b&browser=firefox&launch=%7B%7D"), "token=a+b&launch=%7B%7D");
    }
}
