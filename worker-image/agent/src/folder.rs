//! Profile folders: unpacked before a launch, and packed once their browser has ended.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::Value;
use tokio::io::duplex;
use tokio::time::{Instant, sleep};
use tokio_util::io::{ReaderStream, StreamReader, SyncIoBridge};
use warmpool_protocol::folder::{
    FOLDER_TYPE, FolderEngine, FolderError, FolderManifest, PREFERENCES, PackingList, read_folder,
};

use crate::body::Body;
use crate::error::ApiError;

/// Bytes on their way between a thread that packs and the daemon.
const BUFFER: usize = 256 << 10;

/// How long a browser's other processes may take after it: some write what it keeps.
const LAST_WRITES: Duration = Duration::from_secs(3);
/// Time between two looks for them.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until no process runs that the kernel calls so, for a moment at most.
pub(crate) async fn last_writes(name: &str) {
    let until = Instant::now() + LAST_WRITES;
    while Instant::now() < until && has_processes(name) {
        sleep(POLL_INTERVAL).await;
    }
}

fn has_processes(wanted: &str) -> bool {
    let runs = |folder: &Path| {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        name.is_some_and(|(name, state)| name == wanted && !state.trim_start().starts_with(['Z', 'X']))
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| runs(&entry.path()))
}

/// Unpacks a folder of at most `limit` bytes over a new profile of that engine.
/// Fails when it is not what it should be; then the profile is not to be used.
pub(crate) async fn unpack(
    engine: FolderEngine,
    profile: PathBuf,
    body: Incoming,
    limit: u64,
) -> Result<FolderManifest, ApiError> {
    let stream = body.into_data_stream().map_err(io::Error::other);
    let reader = SyncIoBridge::new(StreamReader::new(stream));
    let unpacked = tokio::task::spawn_blocking(move || {
        read_folder(Some(engine), limit, reader, |path, content| write(&profile, path, content))
    });
    unpacked.await.map_err(|error| ApiError::internal(error.to_string()))?.map_err(failed)
}

fn write(profile: &Path, path: &str, content: &mut dyn io::Read) -> Result<(), FolderError> {
    let place = profile.join(path);
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    if path == PREFERENCES {
        return Ok(merge(&place, &serde_json::from_reader(content).map_err(io::Error::from)?)?);
    }
    io::copy(content, &mut File::create(place)?)?;
    Ok(())
}

/// Adds to the preferences that the agent has written, which count for more.
fn merge(place: &Path, more: &Value) -> io::Result<()> {
    let mut all: Value = match fs::read(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        text => serde_json::from_slice(&text?)?,
    };
    add(&mut all, more);
    fs::write(place, all.to_string())
}

fn add(to: &mut Value, more: &Value) {
    match (to, more) {
        (Value::Object(to), Value::Object(more)) => {
            for (name, value) in more {
                add(to.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (to, more) if to.is_null() => *to = more.clone(),
        _ => {}
    }
}

/// The packed folder of a browser that has ended, as the body of an answer.
/// Fails when its files have more than `limit` bytes.
pub(crate) async fn pack(manifest: FolderManifest, profile: PathBuf, limit: u64) -> Result<Response<Body>, ApiError> {
    let list = tokio::task::spawn_blocking(move || PackingList::of(manifest, profile, limit));
    let list = list.await.map_err(|error| ApiError::internal(error.to_string()))?.map_err(failed)?;
    let (reader, writer) = duplex(BUFFER);
    let writer = io::BufWriter::with_capacity(BUFFER, SyncIoBridge::new(writer));
    tokio::task::spawn_blocking(move || {
        // An archive that ends too early is seen to be none.
        if let Err(error) = list.write(writer) {
            tracing::warn!(%error, "a profile folder was not packed");
        }
    });
    let frames = ReaderStream::with_capacity(reader, BUFFER).map_ok(Frame::data).map_err(Into::into);
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(FOLDER_TYPE));
    Ok(response)
}

fn failed(error: FolderError) -> ApiError {
    match error {
        FolderError::Io(error) => error.into(),
        FolderError::TooLarge { .. } | FolderError::TooMany => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string())
        }
        error => ApiError::bad_request(format!("the profile folder: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_agents_own_preferences_count_for_more() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("Preferences");
        fs::write(&place, json!({"download": {"directory": "/ours"}, "profile": {"a": 1}}).to_string()).unwrap();
        let more =
            json!({"download": {"directory": "/theirs"}, "profile": {"content_settings": {"exceptions": {"b": {}}}}});
        merge(&place, &more).unwrap();
        let all: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
        let wanted = json!({
            "download": {"directory": "/ours"},
            "profile": {"a": 1, "content_settings": {"exceptions": {"b": {}}}},
        });
        assert_eq!(all, wanted);
    }
}
