//! `/v1/world/generate`, `/v1/worlds`, `/v1/patients`: asking for worlds, looking after them, deleting them.

use std::net::IpAddr;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::App;
use super::auth::Caller;
use super::body;
use super::credential::Credential;
use super::headers::{self, wants};
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::peer::ClientAddress;
use super::public_url::PublicUrl;
use super::reply::json_reply;
use super::revocation::while_held;
use super::route::{Policy, Segment};
use super::sse;
use crate::http::error::Error;
use warmpool_api::world::World;
use warmpool_core::error::Code;
use warmpool_core::secret::Secret;
use warmpool_worlds::{
    AcceptedWorld, GenerateRequest, RequestEntry, WorldCaller, WorldRecord, WorldRequest, WorldView,
};

/// The header that may carry an integration key.
pub(super) const API_KEY: &str = "x-api-key";

const WORLD: Policy = Policy::rest(Access::Integration, &[Segment::new("id", "The world's id.")]);
const PATIENT: Policy =
    Policy::rest(Access::Integration, &[Segment::new("id", "The patient's id, as the requests for worlds had it.")]);

pub(super) fn routes(routes: Routes) -> Routes {
    let generate_policy = WORLD.access(Access::IntegrationBody).suggested();
    let world = |id, summary| Operation::new(id, summary, WORLD).fails(&[Code::UnknownWorld, Code::StoreBusy]);
    let patient = |id, summary| Operation::new(id, summary, PATIENT).fails(&[Code::UnknownPatient, Code::StoreBusy]);
    let example = json!({"patient_id": "p-1", "patient_name": "Ann", "environment_type": "garden"});
    routes
        .post(
            "/v1/world/generate",
            generate,
            Operation::new("generate_world", "Ask for a world", generate_policy)
                .about("The key may stand in the body as `api_key`. The same request again answers the world that is there.")
                .reads::<GenerateRequest>(example)
                .header("Prefer", "`wait=N`: wait up to N seconds for the world's end.", json!({"type": "string"}))
                .writes::<World>("The world, as far as it is.")
                .fails(&[
                    Code::Conflict,
                    Code::WorldQueueFull,
                    Code::WorldLimit,
                    Code::RendererNotInstalled,
                    Code::UnknownWorld,
                    Code::Draining,
                    Code::StoreBusy,
                    Code::DiskNearlyFull,
                ]),
        )
        .get(
            "/v1/worlds/{id}",
            show,
            world("get_world", "Look at a world")
                .writes::<World>("The world.")
                .writes_text(EVENTS, "The world now, and whenever it changes, until its end."),
        )
        .delete(
            "/v1/worlds/{id}",
            delete,
            world("delete_world", "Delete a world").writes_nothing("Nothing of it is left.").fails(&[Code::DiskNearlyFull]),
        )
        .get(
            "/v1/worlds/{id}/events",
            follow,
            world("follow_world", "Follow a world").writes_text(EVENTS, "The world now, and whenever it changes, until its end."),
        )
        .post(
            "/v1/worlds/{id}/viewer",
            renew_viewer,
            world("renew_viewer", "Give a world another viewer URL")
                .about("The one before opens nothing any more.")
                .writes::<World>("The world with its new URL.")
                .fails(&[Code::DiskNearlyFull]),
        )
        .delete(
            "/v1/worlds/{id}/viewer",
            close_viewer,
            world("close_viewer", "Close the viewer of a world")
                .writes_nothing("No URL shows the world any more.")
                .fails(&[Code::DiskNearlyFull]),
        )
        .delete(
            "/v1/patients/{id}",
            delete_patient,
            patient("delete_patient", "Forget a patient")
                .writes::<DeletedPatient>("What was deleted.")
                .fails(&[Code::DiskNearlyFull]),
        )
        .get(
            "/v1/patients/{id}/export",
            export,
            patient("export_patient", "Export all that is kept of a patient")
                .writes_bytes("application/zip", "The data and the worlds.")
                .fails(&[Code::Conflict]),
        )
}

/// What was deleted of a patient.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ForgottenPatient")]
struct DeletedPatient {
    worlds: usize,
    patients: usize,
}

impl FromRequestParts<App> for WorldCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        match sent_key(&parts.headers) {
            Some(secret) => {
                let key = app.worlds.keys().verify(secret)?;
                app.worlds.keys().touch(&key.id);
                Credential::IntegrationKey(Secret::new(secret.to_owned())).note();
                Ok(Self::Integration(Box::new(key)))
            }
            None => Caller::from_request_parts(parts, app).await.map(|Caller(key)| Self::Operator(key)),
        }
    }
}

/// An integration key in a header.
fn sent_key(headers: &HeaderMap) -> Option<&str> {
    headers::text(headers, API_KEY).or_else(|| headers::bearer(headers).filter(|key| key.starts_with("wk_")))
}

/// `POST /v1/world/generate`. The log records every answer.
pub(super) async fn generate(
    State(app): State<App>,
    base: PublicUrl,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut entry = RequestEntry::begin();
    let answer = answer(&app, &base, address, &headers, body, &mut entry).await;
    let response = answer.unwrap_or_else(|error| error.into_response());
    app.worlds.log().add(entry, response.status().as_u16()).await;
    response
}

async fn answer(
    app: &App,
    base: &PublicUrl,
    address: IpAddr,
    headers: &HeaderMap,
    body: Body,
    entry: &mut RequestEntry,
) -> Result<Response, Error> {
    let limit = app.config.world.max_body.bytes();
    let is_known = sent_key(headers).is_some_and(|key| app.worlds.keys().verify(key).is_ok());
    let read = match is_known {
        true => body::json_text(app, headers, body, limit, "world.max_body").await,
        false => body::keyless_text(app, address, headers, body, limit, "world.max_body").await,
    };
    let mut text = match read {
        Ok(text) => text,
        Err(error) => {
            // The log says whose it was, as far as the headers do.
            let _ = app.worlds.identify(b"", sent_key(headers), entry);
            return Err(error);
        }
    };
    let (key, secret) = app.worlds.identify(&text, sent_key(headers), entry)?;
    Credential::IntegrationKey(secret).note();
    if !is_known {
        text.key_is_known(app)?;
    }
    let request: GenerateRequest = text.parse()?;
    let wait = headers::wait(headers, request.wait, app.config.world.max_wait)?;
    let request = WorldRequest::check(request, app.worlds.limits())?;
    let AcceptedWorld { mut record, cached } = app.worlds.generate(&key, request, entry, text).await?;
    let begun = Instant::now();
    if let Some(wait) = wait {
        while_held(app, app.worlds.wait_for_end(&record.world_id, wait)).await?;
        let caller = WorldCaller::Integration(Box::new(key));
        record = app.worlds.find(record.world_id.as_str(), &caller).await?;
    }
    entry.leave_out(begun.elapsed());
    let view = app.worlds.view(record, cached).await?;
    let mut response = json_reply(StatusCode::OK, &view.rest(&base.http()));
    if let Some(wait) = wait {
        headers::note_wait(response.headers_mut(), wait);
    }
    Ok(response)
}

/// `GET /v1/worlds/<id>`: as JSON, or as server-sent events until its end.
pub(super) async fn show(
    State(app): State<App>,
    caller: WorldCaller,
    base: PublicUrl,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let record = app.worlds.find(&id, &caller).await?;
    if wants(&headers, "text/event-stream") {
        return Ok(events(&app, record, "world", move |view| view.rest(&base.http())));
    }
    let view = app.worlds.view(record, false).await?;
    Ok(json_reply(StatusCode::OK, &view.rest(&base.http())))
}

/// `GET /v1/worlds/<id>/events`
pub(super) async fn follow(
    State(app): State<App>,
    caller: WorldCaller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let record = app.worlds.find(&id, &caller).await?;
    Ok(events(&app, record, "world", move |view| view.rest(&base.http())))
}

/// A world as it is now, and whenever it changes, until its end.
pub(super) fn events<T: Serialize>(
    app: &App,
    record: WorldRecord,
    name: &'static str,
    show: impl Fn(WorldView) -> T + Send + 'static,
) -> Response {
    let views = app.worlds.follow(record);
    let events = views.map(move |view| Event::default().event(name).json_data(show(view.map_err(axum::Error::new)?)));
    let end = Event::default().event("end").data("{}");
    sse::respond(events.chain(stream::once(async { Ok(end) })))
}

/// `DELETE /v1/worlds/<id>`
pub(super) async fn delete(
    State(app): State<App>,
    caller: WorldCaller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    app.worlds.delete(&id, &caller).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /v1/worlds/<id>/viewer`: another URL for the viewer; the one before opens nothing any more.
pub(super) async fn renew_viewer(
    State(app): State<App>,
    caller: WorldCaller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let record = app.worlds.renew_viewer(&id, &caller, true).await?;
    let view = app.worlds.view(record, false).await?;
    Ok(json_reply(StatusCode::OK, &view.rest(&base.http())))
}

/// `DELETE /v1/worlds/<id>/viewer`: no URL shows the world any more.
pub(super) async fn close_viewer(
    State(app): State<App>,
    caller: WorldCaller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    app.worlds.renew_viewer(&id, &caller, false).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `DELETE /v1/patients/<id>`
pub(super) async fn delete_patient(
    State(app): State<App>,
    caller: WorldCaller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let forgotten = app.worlds.delete_patient(&id, &caller).await?;
    Ok(json_reply(StatusCode::OK, &DeletedPatient { worlds: forgotten.worlds, patients: forgotten.patients }))
}

/// `GET /v1/patients/<id>/export`
pub(super) async fn export(
    State(app): State<App>,
    caller: WorldCaller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let mut response = Response::new(Body::from_stream(app.worlds.export(&id, &caller).await?));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"patient.zip\""));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
