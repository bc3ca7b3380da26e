//! Just enough of WebDriver: what the daemon's own behaviour needs; real clients are in `clients/`.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use crate::api::{Api, Reply};

/// One WebDriver session behind a `connect_url`.
pub struct Driver {
    api: Api,
    id: String,
    /// The capabilities that the server answered.
    pub capabilities: Value,
}

/// `POST <connect_url>/session` with these W3C capabilities, whatever the answer.
pub async fn new_session(connect_url: &str, capabilities: Value) -> Result<Reply> {
    Api::new(connect_url).post("/session", &json!({"capabilities": capabilities})).await
}

/// Checks that an answer is a W3C error with this status, and returns its error code and message.
pub fn fault(reply: &Reply, status: u16) -> Result<(String, String)> {
    ensure!(reply.status == status, "expected {status}: {reply}");
    let value = &reply.json()?["value"];
    let part = |name: &str| value[name].as_str().map(ToOwned::to_owned).with_context(|| format!("{name}: {reply}"));
    ensure!(value["stacktrace"].is_string(), "a W3C error has a stacktrace: {reply}");
    Ok((part("error")?, part("message")?))
}

impl Driver {
    /// A new WebDriver session with these `alwaysMatch` capabilities.
    pub async fn start(connect_url: &str, always: Value) -> Result<Self> {
        let value = new_session(connect_url, json!({"alwaysMatch": always})).await?.ok()?["value"].clone();
        let id = value["sessionId"].as_str().context("sessionId")?.to_owned();
        Ok(Self { api: Api::new(connect_url), id, capabilities: value["capabilities"].clone() })
    }

    /// The id that the driver gave.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// One command, whatever the answer. A `path` begins with a slash; the body of a POST is the JSON given.
    pub async fn command(&self, method: Method, path: &str, body: &Value) -> Result<Reply> {
        let bytes = if method == Method::POST { Bytes::from(body.to_string()) } else { Bytes::new() };
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        self.api.send(method, &format!("/session/{}{path}", self.id), headers, bytes).await
    }

    /// A POST with a body that is sent as it is, whatever the answer.
    pub async fn command_bytes(&self, path: &str, body: Bytes) -> Result<Reply> {
        self.api.post_bytes(&format!("/session/{}{path}", self.id), "application/json", body).await
    }

    /// Navigates the current window.
    pub async fn goto(&self, url: &str) -> Result<()> {
        self.command(Method::POST, "/url", &json!({"url": url})).await?.ok()?;
        Ok(())
    }

    /// The value of a script, without arguments.
    pub async fn execute(&self, script: &str) -> Result<Value> {
        let reply = self.command(Method::POST, "/execute/sync", &json!({"script": script, "args": []})).await?.ok()?;
        Ok(reply["value"].clone())
    }

    /// Ends the WebDriver session.
    pub async fn quit(&self) -> Result<()> {
        self.command(Method::DELETE, "", &Value::Null).await?.ok()?;
        Ok(())
    }
}
