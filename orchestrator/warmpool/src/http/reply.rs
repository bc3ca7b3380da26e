//! Errors as responses: the one place where they get a status and a body.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use fantoccini::error::ErrorStatus;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer;
use super::budget::Budget;
use super::credential::Credential;
use super::hosted;
use super::route::{Route, RouteTable};
use crate::dropin::hosted::Service;
use crate::http::error::Error;
use warmpool_api::error::{ErrorBody, ErrorDetail};
use warmpool_core::error::{Blame, Code, Fault, ServiceFault as _};
use warmpool_core::ids::RequestId;
use warmpool_core::panics::Panicked;
use warmpool_keys::KeyId;
use warmpool_protocol::text::shortened;

/// The longest message of an error, in bytes. The daemon's own are shorter: those that repeat a client's text have a limit below this.
const MAX_MESSAGE: usize = 8 << 10;

/// What an answer has to know of its request.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    pub(super) id: RequestId,
    /// Which form its errors have.
    pub(super) form: Form,
    /// Its path, as far as it may be repeated.
    pub(super) path: String,
    /// The address of its client.
    pub(super) address: IpAddr,
    /// The memory for its answer.
    pub(super) answers: Budget,
    /// What the log of requests is to know of it.
    pub(super) notes: Arc<RequestNotes>,
}

/// What is found out about a request while it is answered.
#[derive(Debug, Default)]
pub(super) struct RequestNotes {
    /// Whose key it has, and how that came.
    pub(super) caller: OnceLock<(KeyId, AuthMethod)>,
    /// What it was admitted by.
    pub(super) credential: OnceLock<Credential>,
    /// The code of the error that it got.
    pub(super) code: OnceLock<&'static str>,
}

/// How a request showed whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthMethod {
    /// By the key itself.
    Key,
    /// By a sign-in to the console.
    SignIn,
    /// By the token in a session's URL.
    Url,
}

/// Notes whose key the request has. The first one holds.
pub(super) fn note_caller(key: &KeyId, by: AuthMethod) {
    let _ = REQUEST.try_with(|asked| asked.notes.caller.set((key.clone(), by)));
}

/// The form of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The one of this service.
    Rest,
    /// The one of the W3C WebDriver standard.
    WebDriver,
    /// Plain text, which clients show as it is.
    Text,
    /// The one of another service.
    Hosted(Service),
}

tokio::task_local! {
    /// The request that this task answers.
    pub(super) static REQUEST: RequestContext;
}

fn request_id() -> String {
    REQUEST.try_with(|asked| asked.id.to_string()).unwrap_or_default()
}

/// The status of the REST form.
pub(super) fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The status of the W3C form.
pub(super) fn webdriver_status(code: Code) -> StatusCode {
    match status(code) {
        // The standard has no word for a missing key or a foreign page, and clients look for the status.
        StatusCode::UNAUTHORIZED if code != Code::InvalidToken => StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN => StatusCode::FORBIDDEN,
        _ => code.webdriver().parse().unwrap_or(ErrorStatus::UnknownError).http_status(),
    }
}

fn log(error: &dyn Fault) {
    let code = error.code().as_str();
    let _ = REQUEST.try_with(|asked| asked.notes.code.set(code));
    // Spans without such a field let it pass.
    tracing::Span::current().record("error.type", code);
    metrics::counter!("warmpool_refusals_total", "code" => code).increment(1);
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match error.code().blame() {
        Blame::Client => tracing::debug!(code, %error, "refused"),
        Blame::Worker => tracing::warn!(code, %error, cause, "a worker failed"),
        Blame::Daemon => tracing::error!(code, %error, cause, "failed"),
    }
}

/// What an answer says of an error. A worker, its browser or a page may have chosen the words.
pub(super) fn message(error: &dyn Fault) -> String {
    shortened(error.to_string(), MAX_MESSAGE)
}

pub(super) fn json_reply(status: StatusCode, body: &impl serde::Serialize) -> Response {
    // An error fits always, so this goes no deeper than once.
    match serde_json::to_vec(body).map_err(Error::internal).and_then(answer::whole) {
        Ok(body) => (
            status,
            [
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            body,
        )
            .into_response(),
        Err(error) => error.into_response(),
    }
}

fn text_reply(status: StatusCode, error: &Error) -> Response {
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    let text = format!("{}\n", message(error));
    (status, [(CONTENT_TYPE, media_type), (CACHE_CONTROL, HeaderValue::from_static("no-store"))], text).into_response()
}

/// A file that pages may have made: it must never run as a page of this service.
pub(super) fn download(body: Body, media_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The body of a WebDriver command that failed, in the form of the W3C standard.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebDriverError")]
pub(super) struct W3cFailure {
    value: W3cFailureValue,
}

/// Why a WebDriver command failed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebDriverErrorValue")]
struct W3cFailureValue {
    /// The standard's own word, such as `invalid session id`.
    error: String,
    /// What to do, for people.
    message: String,
    /// Empty where the daemon answers; a driver's own answers may have one.
    stacktrace: String,
    /// Absent where the driver answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<W3cFailureData>,
}

/// What this service says beside the standard's members.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebDriverErrorData")]
struct W3cFailureData {
    code: Code,
    /// The id under which the daemon's log has the cause.
    request_id: String,
}

impl W3cFailure {
    fn new(error: &dyn Fault, request_id: String) -> Self {
        let code = error.code();
        let data = Some(W3cFailureData { code, request_id });
        let (stacktrace, message) = (String::new(), message(error));
        Self { value: W3cFailureValue { error: code.webdriver().to_owned(), message, stacktrace, data } }
    }
}

/// The body of the REST form.
fn rest(error: &dyn Fault, request_id: String) -> ErrorBody {
    let field = error.field().map(str::to_owned);
    ErrorBody {
        error: ErrorDetail { code: error.code().as_str().to_owned(), message: message(error), field, request_id },
    }
}

/// A whole answer as bytes, for a connection on which nothing is read: it is closed behind this.
pub(super) fn raw_response(error: &dyn Fault) -> Vec<u8> {
    log(error);
    let (status, body) = (status(error.code()), json!(rest(error, RequestId::random().to_string())).to_string());
    let reason = status.canonical_reason().unwrap_or_default();
    let retry = error.retry_after().map_or_else(String::new, |after| format!("retry-after: {}\r\n", after.as_secs()));
    let code = status.as_str();
    format!(
        "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry}connection: \
         close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.response()
    }
}

impl Error {
    /// The answer that says it.
    pub(super) fn response(&self) -> Response {
        let error = self;
        log(error);
        let form = REQUEST.try_with(|asked| asked.form).unwrap_or(Form::Rest);
        let mut response = match form {
            Form::Rest => json_reply(status(error.code()), &rest(error, request_id())),
            Form::WebDriver => w3c_reply(webdriver_status(error.code()), &W3cFailure::new(error, request_id())),
            Form::Text => text_reply(status(error.code()), error),
            Form::Hosted(service) => hosted::failure(service, error, request_id()),
        };
        let (status, headers) = (response.status(), response.headers_mut());
        if matches!(form, Form::Rest | Form::Text) && error.code() == Code::UpgradeRequired {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        if form == Form::WebDriver && status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"warmpool\""));
        }
        if let Some(after) = error.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        response
    }
}

/// An answer in the form of the W3C standard.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebDriverValueOf{T}")]
pub(super) struct W3cValue<T> {
    pub(super) value: T,
}

/// An answer of a driver.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebDriverAnswer")]
pub(super) struct W3cAnswer {
    /// The standard's word on the command.
    value: Value,
}

/// A response in the W3C form.
pub(super) fn w3c(status: StatusCode, value: &Value) -> Response {
    w3c_reply(status, &json!({"value": value}))
}

/// A response whose body has the W3C form already.
pub(super) fn w3c_reply(status: StatusCode, body: &impl serde::Serialize) -> Response {
    with_w3c_headers(json_reply(status, body))
}

/// Gives an answer the headers that the standard wants on each of the remote end's.
pub(super) fn with_w3c_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A handler panicked: the log has what it said.
pub(super) fn panicked(panicked: Panicked) -> Response {
    Error::internal(panicked).into_response()
}

/// No route has this path.
pub(super) async fn unknown_path(request: Request) -> Error {
    let shown = REQUEST.try_with(|asked| asked.path.clone()).unwrap_or_default();
    let mut path: String = shown.chars().take(120).collect();
    if request.uri().path().len() > path.len() {
        path.push_str("/…");
    }
    // Match the whole path; the suggestion repeats nothing of it.
    let whole: String = request.uri().path().chars().take(100).collect();
    let meant = request.extensions().get::<Arc<RouteTable>>().and_then(|routes| routes.meant(&whole, &path));
    Error::UnknownPath { method: request.method().to_string(), path, meant }
}

/// The route has no such method. To clients of another service that is a call of theirs that is not served.
pub(super) async fn method_not_allowed(request: Request) -> Error {
    if let Some(Form::Hosted(service)) = request.extensions().get::<Arc<Route>>().map(|route| route.policy.form) {
        return hosted::missing_method(service, request.method(), request.uri());
    }
    Error::MethodNotAllowed { method: request.method().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_worker_makes_an_answer_as_long_as_it_likes() {
        let error = Error::from(warmpool_sessions::Error::Conflict { message: "x".repeat(1 << 20) });
        let in_rest = rest(&error, String::new()).error.message;
        let in_webdriver = W3cFailure::new(&error, String::new()).value.message;
        for message in [in_rest, in_webdriver] {
            assert!(message.starts_with('x') && message.len() < MAX_MESSAGE + 10, "{} bytes", message.len());
        }
    }

    #[test]
    fn the_standard_knows_the_word_of_each_code() {
        for code in Code::ALL {
            assert_eq!(code.webdriver().parse::<ErrorStatus>().unwrap().description(), code.webdriver(), "{code:?}");
            assert_eq!(status(*code).as_u16(), code.status(), "{code:?}");
        }
    }
}
