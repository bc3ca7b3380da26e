//! `/profiles`: what browsers keep for sites, under names.

use std::io;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::Response;
use futures_util::TryStreamExt as _;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::io::StreamReader;

use super::App;
use super::auth::{Caller, Scope};
use super::body;
use super::forwarded_body::forwarded_body;
use super::openapi::{Access, Operation, Routes};
use super::query::Query;
use super::reply::{download, json_reply};
use super::route::{Policy, Segment};
use crate::http::error::Error;
use warmpool_api::profile::{ProfileDetail, ProfileKind, ProfileList, ProfileView};
use warmpool_api::{AnyObject, Object, null_is_default};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_keys::KeyId;
use warmpool_protocol::StorageState;
use warmpool_protocol::folder::FOLDER_TYPE;
use warmpool_sessions::session::GivenState;

/// A profile's name in a path.
const NAME: Segment = Segment::new("name", "The profile's name.");
const POLICY: Policy = Policy::rest(Access::Key, &[NAME]);
/// Of calls about one profile.
const OF_ONE: Policy = POLICY.takes::<OwnerQuery>();
/// The setting that limits a state.
const LIMIT: &str = "profiles.max_size";
/// The setting that limits a folder.
const FOLDER_LIMIT: &str = "profiles.max_folder";
/// How much longer an archive may be than its files.
const SLACK: u64 = 1 << 20;

/// A profile that is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateProfile {
    /// 1 to 64 letters, digits, `.`, `_` and `-`.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// What it keeps: a state that every engine takes, or the folder of one engine's browser.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<ProfileKind>")]
    kind: ProfileKind,
    /// What it holds at first, in the shape of Playwright's `storageState`.
    #[serde(default)]
    #[schemars(with = "Option<AnyObject>")]
    state: Option<Object<StorageState>>,
}

/// A change of a profile: one of the two.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ChangeProfile {
    /// What it is to hold, as a new version.
    #[schemars(with = "Option<AnyObject>")]
    state: Option<Object<StorageState>>,
    /// The version to roll back to, as a new version.
    version: Option<u64>,
}

/// Whose profile.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct OwnerQuery {
    /// The key that the profile belongs to, where that is another's: in the console an operator may name any.
    #[schemars(extend("x-problem" = KeyId::PROBLEM))]
    key_id: Option<KeyId>,
}

/// Which version of whose profile.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct VersionQuery {
    /// A version's number; the newest where it is left out.
    version: Option<u64>,
    /// The key that the profile belongs to, where that is another's: in the console an operator may name any.
    #[schemars(extend("x-problem" = KeyId::PROBLEM))]
    key_id: Option<KeyId>,
}

/// Who asks for a profile.
struct Asking {
    key: KeyId,
    scope: Scope,
}

impl FromRequestParts<App> for Asking {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Caller(key) = Caller::from_request_parts(parts, app).await?;
        Ok(Self { key, scope: Scope::from_request_parts(parts, app).await? })
    }
}

impl Asking {
    /// The key that the profile belongs to: that which asks, or another that it may name.
    /// Errors: `UnknownProfile`.
    fn owner(self, wanted: Option<KeyId>, name: &str) -> Result<KeyId, Error> {
        match wanted {
            None => Ok(self.key),
            Some(wanted) if self.scope.has(&wanted) => Ok(wanted),
            Some(_) => Err(warmpool_profiles::Error::UnknownProfile { name: name.to_owned() }.into()),
        }
    }
}

pub(super) fn routes() -> Routes {
    let example = json!({"name": "shop"});
    let failures = [
        Code::UnknownProfile,
        Code::ProfileInUse,
        Code::ProfileLimit,
        Code::Conflict,
        Code::DiskNearlyFull,
        Code::StoreBusy,
    ];
    Routes::new("Profiles")
        .get(
            "/profiles",
            list,
            Operation::new("list_profiles", "List profiles", POLICY.suggested())
                .about("The profiles of the key, by their names. What they hold is not in the list.")
                .writes::<ProfileList>("The profiles."),
        )
        .post(
            "/profiles",
            create,
            Operation::new("create_profile", "Make a profile", POLICY)
                .about("Empty, or with a state. What it keeps stays so. A session that begins with the mode `write` makes one too.")
                .reads::<CreateProfile>(example)
                .writes_at::<ProfileView>(201, "The profile.")
                .fails(&[Code::ProfileExists])
                .fails(&failures[1..]),
        )
        .get(
            "/profiles/{name}",
            show,
            Operation::new("get_profile", "Look at a profile", OF_ONE)
                .about("Its versions, and what the newest one holds: hosts, origins, numbers and sizes, and no values.")
                .writes::<ProfileDetail>("The profile.")
                .fails(&[Code::UnknownProfile, Code::Conflict]),
        )
        .put(
            "/profiles/{name}",
            change,
            Operation::new("change_profile", "Import a state, or roll back", OF_ONE)
                .about("Either makes a new version. A profile that is not there is made by a state.")
                .reads::<ChangeProfile>(json!({"version": 1}))
                .writes::<ProfileView>("The profile.")
                .fails(&failures),
        )
        .delete(
            "/profiles/{name}",
            delete,
            Operation::new("delete_profile", "Delete a profile for good", OF_ONE)
                .about("With all its versions. No backup brings it back.")
                .writes_nothing("It is gone.")
                .fails(&[Code::UnknownProfile, Code::ProfileInUse, Code::StoreBusy]),
        )
        .get(
            "/profiles/{name}/state",
            state,
            Operation::new("get_profile_state", "Export a profile", POLICY.takes::<VersionQuery>())
                .about("The state of a version, in the shape of Playwright's `storageState`. It holds logins, so keep it as a password.")
                .writes::<StorageState>("The state.")
                .fails(&[Code::UnknownProfile, Code::Conflict]),
        )
        .get(
            "/profiles/{name}/folder",
            folder,
            Operation::new("get_profile_folder", "Export a profile that is a folder", POLICY.takes::<VersionQuery>())
                .about("The packed folder of a version. It holds logins, so keep it as a password.")
                .writes_bytes(FOLDER_TYPE, "The folder: a tar in zstd, whose first entry says which browser's it is.")
                .fails(&[Code::UnknownProfile, Code::Conflict]),
        )
        .put(
            "/profiles/{name}/folder",
            put_folder,
            Operation::new("put_profile_folder", "Import a folder", OF_ONE)
                .about("As a new version. A profile that is not there is made. An archive with any file that such a profile may not have is refused. `profiles.max_folder` bounds its files.")
                .reads_bytes("application/octet-stream")
                .writes::<ProfileView>("The profile.")
                .fails(&failures)
                .fails(&[Code::InvalidBody]),
        )
}

/// `GET /profiles`
async fn list(State(app): State<App>, scope: Scope) -> Result<Response, Error> {
    let profiles = app.profiles.list(|key| scope.has(key));
    Ok(json_reply(StatusCode::OK, &ProfileList { profiles }))
}

/// `POST /profiles`
async fn create(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (CreateProfile { name, kind, state }, _text) = read::<CreateProfile>(&app, &headers, body).await?;
    let state = state.map(checked).transpose()?;
    let view = app.profiles.create(&key, &name, kind, state.as_ref()).await?;
    Ok(json_reply(StatusCode::CREATED, &view))
}

/// `GET /profiles/<name>`
async fn show(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<OwnerQuery>,
) -> Result<Response, Error> {
    let key = asking.owner(query.key_id, &name)?;
    Ok(json_reply(StatusCode::OK, &app.profiles.detail(&key, &name).await?))
}

/// `PUT /profiles/<name>`
async fn change(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<OwnerQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let key = asking.owner(query.key_id, &name)?;
    let (ChangeProfile { state, version }, _text) = read::<ChangeProfile>(&app, &headers, body).await?;
    let view = match (state, version) {
        (Some(state), None) => app.profiles.put(&key, &name, &checked(state)?).await?,
        (None, Some(version)) => app.profiles.roll_back(&key, &name, version).await?,
        (None, None) => {
            return Err(Error::invalid(
                "state",
                "or `version` must be there: a state to import, or a version to roll back to",
            ));
        }
        (Some(_), Some(_)) => return Err(Error::invalid("version", "must be left out where there is a `state`")),
    };
    Ok(json_reply(StatusCode::OK, &view))
}

/// `DELETE /profiles/<name>`
async fn delete(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<OwnerQuery>,
) -> Result<StatusCode, Error> {
    let key = asking.owner(query.key_id, &name)?;
    app.profiles.delete(&key, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /profiles/<name>/state`
async fn state(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<VersionQuery>,
) -> Result<Response, Error> {
    let key = asking.owner(query.key_id, &name)?;
    Ok(json_reply(StatusCode::OK, &app.profiles.state(&key, &name, query.version).await?))
}

/// `GET /profiles/<name>/folder`
async fn folder(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<VersionQuery>,
) -> Result<Response, Error> {
    let key = asking.owner(query.key_id, &name)?;
    let opened = app.profiles.folder(&key, &name, query.version).await?;
    Ok(download(Body::from_stream(opened.stream()), FOLDER_TYPE))
}

/// `PUT /profiles/<name>/folder`
async fn put_folder(
    State(app): State<App>,
    asking: Asking,
    Path(name): Path<String>,
    Query(query): Query<OwnerQuery>,
    body: Body,
) -> Result<Response, Error> {
    let key = asking.owner(query.key_id, &name)?;
    let limit = app.config.profiles.max_folder.bytes().saturating_add(SLACK);
    let (packed, fault) = forwarded_body(&app, body, limit, FOLDER_LIMIT)?;
    let packed = StreamReader::new(packed.into_data_stream().map_err(io::Error::other));
    let view = fault.or(app.profiles.put_folder(&key, &name, packed)).await?;
    Ok(json_reply(StatusCode::OK, &view))
}

async fn read<T: serde::de::DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, body::Text), Error> {
    body::json_within(app, headers, body, app.config.profiles.max_size.bytes(), LIMIT).await
}

/// A state whose cookies and origins are such.
fn checked(Object(state): Object<StorageState>) -> Result<StorageState, Error> {
    Ok(GivenState::new(state)?.into_state())
}
