//! Calls that bring code of their own, at the addresses of browserless's REST: `/function` and `/download`, also below the prefixes
//! of Chromium's calls. An operator has to enable them.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use http::request::Parts;
use serde_json::json;

use super::App;
use super::body::{self, Text};
use super::console;
use super::create;
use super::headers::media_type;
use super::openapi::{Operation, Routes};
use super::pages::{CallParameters, FAILURES, MAX_BODY, POLICY, PREFIXES, PageQuery};
use super::query::Query;
use crate::http::error::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_pages::{CodeBody, CodeCall, Script};

/// What a body is that has the code alone.
const SCRIPTS: [&str; 2] = ["application/javascript", "text/javascript"];
/// The script that runs code and gives it Puppeteer.
const RUNNER: &str = "function.js";

/// How a body becomes a call.
type Checked = fn(CodeBody, Script, Engine) -> Result<CodeCall, warmpool_pages::Error>;

pub(super) fn routes(routes: Routes) -> Routes {
    let about = "The body is an ECMAScript module, or JSON with it as `code`. Its default export gets `{page, context}`: a page of \
                 Puppeteer's in a fresh browser, which ends with the call. The setting `pages.functions` enables it.";
    let operation = |id, summary| {
        Operation::new(id, summary, POLICY.suggested())
            .about(about)
            .reads::<CodeBody>(json!({
                "code": "export default async ({ page, context }) => {\n  await page.goto(context.url);\n  return await page.title();\n};",
                "context": {"url": "https://example.com/"},
            }))
            .reads_also(SCRIPTS[0])
            .fails(FAILURES)
            .fails(create::FAILURES)
            .fails(create::PROFILE_FAILURES)
    };
    let routes = routes
        .post(
            "/function",
            function,
            operation("run_function", "Run code in a browser")
                .writes_bytes("*/*", "What the code returns. `{data, type}` is data of that media type."),
        )
        .post(
            "/download",
            downloads,
            operation("download_by_function", "What a browser downloads while code runs")
                .writes_bytes("*/*", "The file, or a zip of several."),
        );
    PREFIXES.into_iter().fold(routes, |routes, prefix| {
        routes.undescribed(&format!("{prefix}/function"), post(function), POLICY).undescribed(
            &format!("{prefix}/download"),
            post(downloads),
            POLICY,
        )
    })
}

/// `POST /function`
async fn function(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
    parts: Parts,
    body: Body,
) -> Result<Response, Error> {
    run(app, query, parts, body, CodeCall::function).await
}

/// `POST /download`
async fn downloads(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
    parts: Parts,
    body: Body,
) -> Result<Response, Error> {
    run(app, query, parts, body, CodeCall::download).await
}

async fn run(app: App, query: PageQuery, parts: Parts, body: Body, checked: Checked) -> Result<Response, Error> {
    let asked = CallParameters::read(&app, &query, &parts)?;
    if !app.config.pages.functions {
        let problem = format!(
            "leads to `{}`, which runs code of its caller's and is off: set `pages.functions` to true",
            parts.uri.path()
        );
        return Err(Error::not_supported("path", problem));
    }
    let runner = Script::Text(console::script(RUNNER).ok_or_else(without_script)?);
    let most = app.config.pages.max_body.bytes();
    let is_script = SCRIPTS.iter().any(|script| media_type(&parts.headers).eq_ignore_ascii_case(script));
    let (code, text) = match is_script {
        true => {
            let text = body::read(&app, body, most, MAX_BODY).await?;
            script(text)?
        }
        false => body::json_within(&app, &parts.headers, body, most, MAX_BODY).await?,
    };
    let call = checked(code, runner, asked.engine)?;
    let _kept = text.kept();
    asked.carry_out(&app, call).await
}

/// What a call is told that needs a script which the daemon does not have.
pub(super) fn without_script() -> Error {
    let problem = "needs a script that this daemon was built without: run scripts/console and build it again";
    Error::not_supported("path", problem)
}

/// A body that has the code alone.
fn script(mut text: Text) -> Result<(CodeBody, Text), Error> {
    text.reserve_copy()?;
    let code = std::str::from_utf8(&text)
        .map_err(|_| Error::InvalidBody { message: "the code must be UTF-8".to_owned() })?
        .to_owned();
    Ok((CodeBody::of_script(code), text))
}
