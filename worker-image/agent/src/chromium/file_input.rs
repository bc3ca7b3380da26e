//! Paths that a client sends to an upload field. A driver that is attached to its browser takes any path and uploads
//! nothing when no file is there; one that has launched its browser refuses such a path, and so does the agent.

use std::path::Path;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::body::{Body, full};
use crate::error::ApiError;

use super::Chromium;

/// The member of a WebDriver element reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const IS_UPLOAD: &str = "return arguments[0].localName === 'input' && arguments[0].type === 'file'";

/// The driver session and the element of a path that sends keys.
pub(super) fn sends_keys(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.split('/');
    let parts = [parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    match parts {
        ["session", session, "element", element, "value"] => Some((session, element)),
        _ => None,
    }
}

impl Chromium {
    /// The answer to a command that sends the path of a missing file to an upload field.
    pub(super) async fn refuse_missing_file(
        &self,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Response<Body>>, ApiError> {
        let Some((session, element)) = sends_keys(path) else { return Ok(None) };
        let keys: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(missing) = keys["text"].as_str().and_then(missing_file) else { return Ok(None) };
        let script = json!({"script": IS_UPLOAD, "args": [{ELEMENT: element}]}).to_string();
        let mut request = Request::new(Full::new(Bytes::from(script)));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let path = format!("/session/{session}/execute/sync");
        let answer = self.worker.upstream.forward(request, self.driver()?, &path).await?;
        if answer.status() != StatusCode::OK {
            // An open dialog or a stale element, which the command would have met.
            return Ok(Some(answer));
        }
        let body = answer.into_body().collect().await;
        let body = body.map_err(|error| ApiError::upstream(error.to_string()))?.to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        Ok((answer["value"] == true).then(|| not_found(missing)))
    }
}

/// The first line that may be a path and names no file.
fn missing_file(text: &str) -> Option<&str> {
    let is_path = |line: &&str| line.contains(['/', '\\', '.']);
    text.split('\n').filter(is_path).find(|line| !Path::new(line).exists())
}

fn not_found(path: &str) -> Response<Body> {
    let message = format!(
        "invalid argument: File not found : {path}: the browser runs in a container; store the file with \
         PUT /sessions/<id>/files/<name> and send the path that it answers, or use your client's remote upload"
    );
    let error = json!({"value": {"error": "invalid argument", "message": message, "stacktrace": ""}});
    let mut response = Response::new(full(error.to_string()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_without_a_file_are_missing() {
        let here = env!("CARGO_MANIFEST_DIR");
        assert_eq!(missing_file(&format!("{here}/Cargo.toml\n{here}/none.txt")), Some(&*format!("{here}/none.txt")));
        assert_eq!(missing_file(&format!("{here}/Cargo.toml")), None);
        assert_eq!(missing_file("C:\\report.pdf"), Some("C:\\report.pdf"));
        assert_eq!(missing_file("Ada Lovelace"), None);
    }

    #[test]
    fn keys_are_sent_to_an_element() {
        assert_eq!(sends_keys("session/a/element/e/value"), Some(("a", "e")));
        assert_eq!(sends_keys("session/a/element/e/click"), None);
        assert_eq!(sends_keys("session/a/url"), None);
    }
}
