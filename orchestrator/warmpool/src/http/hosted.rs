//! The calls of browsers as a service: what the SDKs of `browserbase`, `steel` and `kernel` ask for, below a path for each service.
//!
//! An SDK whose base address is that of the daemon sends its own paths; `dropin::hosted` knows by the headers whose they are, and
//! the path gets the service's prefix before it is routed. The handlers do what our own calls do and write it in the service's
//! shape. `uploads` stores the files that come in forms, and `extensions` has what all three of them share. What has no counterpart
//! is refused in words.

mod browserbase;
mod extensions;
mod kernel;
mod steel;
mod uploads;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, Method, Uri};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::App;
use super::body;
use super::openapi::Routes;
use super::public_url::PublicUrl;
use super::reply::{self, download, json_reply, status};
use super::route::{Names, Segment};
use crate::dropin::hosted::Service;
use crate::http::error::Error;
use warmpool_api::profile::ProfileView;
use warmpool_api::session::SessionView;
use warmpool_core::error::{Code, Fault, FieldFault as _, ServiceFault as _};
use warmpool_core::ids::{SessionId, random_text};
use warmpool_keys::KeyId;
use warmpool_protocol::{File, FileSource};
use warmpool_sessions::session::{Options, Session, SessionQuery};
use warmpool_sessions::targets::Targets;
use warmpool_sessions::video::Part;
use warmpool_sessions::zipped_files;

/// A session's id in a path.
const ID: Segment = Segment { name: "id", about: "The session's id, `ses_…`.", names: Names::Session };
/// An extension's id in a path.
const EXTENSION: Segment = Segment::new("extension", "The extension's id, `ext_…`.");
/// Whatever else a client may ask for.
const REST: Segment = Segment::new("rest", "What is not served.");
/// The most sessions that a list has.
const MAX_LISTED: usize = 100;
/// The last millisecond of the year 9999, in Unix milliseconds: RFC 3339 writes no later one.
const LAST_MOMENT: u64 = 253_402_300_799_999;
/// What a call may fail with that needs a live session, beside what every call about a session may.
const LIVE: [Code; 5] =
    [Code::SessionEnded, Code::RuntimeDown, Code::Starting, Code::WorkerFailed, Code::WorkerTimeout];

pub(super) fn routes() -> Routes {
    browserbase::routes().merge(steel::routes()).merge(kernel::routes())
}

/// The body of a call of Browserbase's that failed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseError")]
pub(super) struct BrowserbaseFailure {
    status_code: u16,
    /// The status in words.
    error: &'static str,
    /// What to do, for people.
    message: String,
    code: Code,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The id under which the daemon's log has the cause.
    request_id: String,
}

/// The body of a call of Steel's that failed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelError")]
pub(super) struct SteelFailure {
    success: bool,
    /// What to do, for people.
    message: String,
    code: Code,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The id under which the daemon's log has the cause.
    request_id: String,
}

/// The body of a call of Kernel's that failed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KernelError")]
pub(super) struct KernelFailure {
    code: Code,
    /// What to do, for people.
    message: String,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The id under which the daemon's log has the cause.
    request_id: String,
}

/// The answer to a call that failed, as the service's clients read it.
pub(super) fn failure(service: Service, error: &dyn Fault, request_id: String) -> Response {
    let (code, message, field) = (error.code(), reply::message(error), error.field().map(str::to_owned));
    let status = status(code);
    match service {
        Service::Browserbase => {
            let (status_code, error) = (status.as_u16(), status.canonical_reason().unwrap_or_default());
            json_reply(status, &BrowserbaseFailure { status_code, error, message, code, field, request_id })
        }
        Service::Kernel => json_reply(status, &KernelFailure { code, message, field, request_id }),
        Service::Steel => json_reply(status, &SteelFailure { success: false, message, code, field, request_id }),
    }
}

/// Refuses a call that a service has and the daemon has not.
pub(super) fn missing(service: Service, method: &Method, uri: &Uri) -> Error {
    Error::not_supported("path", format!("leads to {}", not_served(service, method, uri)))
}

/// The same, where the path has calls of other methods.
pub(super) fn missing_method(service: Service, method: &Method, uri: &Uri) -> Error {
    Error::CallNotServed { call: not_served(service, method, uri) }
}

fn not_served(service: Service, method: &Method, uri: &Uri) -> String {
    let path: String = uri.path().trim_start_matches(service.prefix()).chars().take(100).collect();
    let remedy = "the guide on migrating lists the calls that are";
    format!("{method} {path}, a call of {} that is not served: {remedy}", service.name())
}

/// Reads the body of a create call, which may hold a state.
async fn read<T: DeserializeOwned>(app: &App, headers: &HeaderMap, body: Body) -> Result<(T, body::Text), Error> {
    let limit = app.config.server.max_body.bytes().max(app.config.session.max_state.bytes());
    body::json_within(app, headers, body, limit, "session.max_state").await
}

/// Makes the session that is wanted. It is the client's from here on: the caller only writes the reply.
async fn create(app: &App, key: KeyId, options: Options) -> Result<Arc<Session>, Error> {
    let session = app.sessions.create(key, options).await?.confirm()?;
    app.recorder.start(&session, &app.drain);
    Ok(session)
}

/// The sessions of a key that match, the newest first.
fn listed(app: &App, key: &KeyId, is_wanted: impl Fn(&SessionView) -> bool) -> Vec<SessionView> {
    let every = SessionQuery { limit: u64::MAX, ..SessionQuery::default() };
    let (sessions, _) = app.sessions.list(&every, Some(key));
    sessions.into_iter().filter(is_wanted).collect()
}

/// A name for a profile whose client gives it none.
fn profile_id() -> String {
    format!("profile_{}", random_text::<16>())
}

/// When a profile was changed last: when it was saved, or made.
fn changed(profile: &ProfileView) -> u64 {
    profile.versions.first().map_or(profile.created, |version| version.saved)
}

/// The pages of a session's browser: the id, the title and the address of each.
async fn pages(session: &Arc<Session>) -> Result<Vec<(String, String, String)>, Error> {
    let targets = Targets::of_session(session).await?;
    let text = |target: &Value, name: &str| target[name].as_str().unwrap_or_default().to_owned();
    let pages = targets.iter().filter(|target| target["type"] == "page");
    Ok(pages.map(|page| (text(page, "id"), text(page, "title"), text(page, "url"))).collect())
}

/// The parts of a session's recording, also after its end.
async fn parts(app: &App, id: &SessionId) -> Result<Vec<Part>, Error> {
    let (recordings, id) = (app.recorder.recordings().clone(), id.clone());
    tokio::task::spawn_blocking(move || recordings.parts(&id)).await.map_err(Error::internal)?.map_err(Error::internal)
}

/// Where a part of a recording is, with a token that opens it.
fn part_url(app: &App, base: &PublicUrl, id: &SessionId, part: &Part) -> String {
    format!("{}/sessions/{id}/stream/recording/{}?token={}", base.http(), part.name, app.sessions.view_token(id))
}

/// The address of a live view in which a person can act, as the services have it.
fn acting_view(base: &PublicUrl, session: &Session) -> String {
    format!("{}&enable_actions=true", base.livestream_url(session))
}

/// The name of a file, of which the path may be known as well.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// What a session's browser has downloaded, as a zip.
async fn downloads(session: &Arc<Session>) -> Result<Response, Error> {
    zip(session, |file| file.source == FileSource::Download).await
}

async fn zip(session: &Arc<Session>, wanted: fn(&File) -> bool) -> Result<Response, Error> {
    let content = Body::from_stream(zipped_files(session, wanted).await?);
    Ok(download(content, "application/zip"))
}

/// A point in time as the services write it, which ends with the year 9999. A worker names any for its files.
fn time(unix_ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MOMENT))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_that_a_worker_names_can_be_written() {
        for (moment, written) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (LAST_MOMENT, "9999-12-31T23:59:59.999Z"),
            (LAST_MOMENT + 1, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(time(moment), written);
        }
    }
}
