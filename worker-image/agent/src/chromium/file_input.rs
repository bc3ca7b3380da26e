//! Paths that a client sends to an upload field. A driver that is attached to its browser takes any path and uploads
//! nothing when no file is there; one that has launched its browser refuses such a path, and so does the agent. DevTools and WebDriver
//! BiDi refuse none either.

use std::path::Path;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use warmpool_protocol::ELEMENT;

use crate::body::{Body, full};
use crate::error::ApiError;

use super::translator::SET_FILES;
use super::{Chromium, driver};

const IS_UPLOAD: &str = "return arguments[0].localName === 'input' && arguments[0].type === 'file'";
/// The code of an error in DevTools that has no other.
const SERVER_ERROR: i32 = -32000;
/// What a driver says of a path that does not begin at the root.
const NOT_ABSOLUTE: &str = "path is not absolute";

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
        let Some(text) = keys["text"].as_str() else { return Ok(None) };
        let Some(missing) = missing_file(text) else { return Ok(None) };
        let script = json!({"script": IS_UPLOAD, "args": [{ELEMENT: element}]});
        let (status, answer) = self.tell_driver(&format!("/session/{session}/execute/sync"), &script).await?;
        if status != StatusCode::OK {
            // An open dialog or a stale element, which the command would have met.
            return Ok(Some(as_json(status, answer)));
        }
        if !value_is(&answer, |value| *value == true) {
            return Ok(None);
        }
        // What else is wrong the driver says before it looks for files: that the field cannot be reached, or takes one only.
        let (status, answer) = self.tell_driver(&format!("/{path}"), &json!({"text": unacceptable(text)})).await?;
        let is_unacceptable = |value: &Value| value["message"].as_str().is_some_and(|text| text.contains(NOT_ABSOLUTE));
        Ok(Some(if status == StatusCode::OK || value_is(&answer, is_unacceptable) {
            not_found(missing)
        } else {
            as_json(status, answer)
        }))
    }

    async fn tell_driver(&self, path: &str, body: &Value) -> Result<(StatusCode, Bytes), ApiError> {
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        driver::exchange(&self.worker.upstream, request, self.driver()?, path).await
    }
}

fn value_is(answer: &[u8], wanted: impl Fn(&Value) -> bool) -> bool {
    serde_json::from_slice::<Value>(answer).is_ok_and(|answer| wanted(&answer["value"]))
}

/// As many paths, none of which a driver takes: it checks the field first, and changes nothing.
fn unacceptable(text: &str) -> String {
    vec!["relative"; text.split('\n').count()].join("\n")
}

/// The first line that may be a path and names no file.
fn missing_file(text: &str) -> Option<&str> {
    let is_path = |line: &&str| line.contains(['/', '\\', '.']);
    text.split('\n').filter(is_path).find(|line| !Path::new(line).exists())
}

/// A driver's answer to a command with the path of a missing file.
pub(super) fn not_found(path: &str) -> Response<Body> {
    let message = format!(
        "invalid argument: File not found : {path}: the browser runs in a container; store the file with \
         PUT /sessions/<id>/files/<name> and send the path that it answers, or use your client's remote upload"
    );
    let error = json!({"value": {"error": "invalid argument", "message": message, "stacktrace": ""}});
    as_json(StatusCode::BAD_REQUEST, error.to_string())
}

/// The browser's answer, by DevTools or by WebDriver BiDi, to a command with the path of a missing file.
pub(super) fn refusal(command: &str, path: &str) -> String {
    let command: Value = serde_json::from_str(command).unwrap_or_default();
    let message = format!(
        "the file {path} is not on the browser's machine: upload it first with PUT /sessions/<id>/files/<name>, and name it by the \
         path that this answers, or by the same name"
    );
    let mut answer = if command["method"] == SET_FILES {
        json!({"id": command["id"], "error": {"code": SERVER_ERROR, "message": message}})
    } else {
        json!({
            "type": "error", "id": command["id"], "error": "unable to set file input", "message": message, "stacktrace": "",
        })
    };
    if let Some(session) = command.get("sessionId") {
        answer["sessionId"] = session.clone();
    }
    answer.to_string()
}

/// An answer with the headers of a driver's.
fn as_json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
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
    fn a_driver_counts_as_many_paths() {
        assert_eq!(unacceptable("/a"), "relative");
        assert_eq!(unacceptable("/a\n/b"), "relative\nrelative");
    }

    #[test]
    fn a_refusal_has_its_protocols_form() {
        let answer = |command: Value| -> Value {
            serde_json::from_str(&refusal(&command.to_string(), "/home/me/cv.pdf")).unwrap()
        };
        let mut devtools = answer(json!({"id": 7, "method": SET_FILES, "sessionId": "s"}));
        let message = devtools["error"]["message"].take();
        assert_eq!(devtools, json!({"id": 7, "sessionId": "s", "error": {"code": -32000, "message": null}}));
        let says = |words: &str| message.as_str().is_some_and(|text| text.contains(words));
        assert!(says("/home/me/cv.pdf") && says("PUT /sessions/<id>/files/<name>"), "{message}");
        for method in ["input.setFiles", "goog:cdp.sendCommand"] {
            let mut bidi = answer(json!({"id": 8, "method": method}));
            assert_eq!(bidi["message"].take(), message);
            let error = "unable to set file input";
            assert_eq!(bidi, json!({"type": "error", "id": 8, "error": error, "message": null, "stacktrace": ""}));
        }
    }

    #[test]
    fn keys_are_sent_to_an_element() {
        assert_eq!(sends_keys("session/a/element/e/value"), Some(("a", "e")));
        assert_eq!(sends_keys("session/a/element/e/click"), None);
        assert_eq!(sends_keys("session/a/url"), None);
    }
}
