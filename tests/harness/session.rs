//! One session as a caller holds it.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;
use warmpool_api::session::SessionDetail;

use crate::api::{Api, Reply};
use crate::cdp::Cdp;
use crate::eventually;

/// A session and the caller who made it.
pub struct Session {
    api: Api,
    /// The answer of the create call.
    pub body: Value,
    /// `session_id`.
    pub id: String,
}

impl Session {
    /// `POST /sessions/create`.
    pub async fn create(api: &Api, body: &Value) -> Result<Self> {
        Self::from_reply(api, &api.post("/sessions/create", body).await?)
    }

    /// `POST /sessions/webdriver/create`.
    pub async fn create_webdriver(api: &Api, body: &Value) -> Result<Self> {
        Self::from_reply(api, &api.post("/sessions/webdriver/create", body).await?)
    }

    /// A session from the answer of either create call.
    pub fn from_reply(api: &Api, reply: &Reply) -> Result<Self> {
        Self::from_body(api, reply.ok()?)
    }

    /// The session that a JSON object names in `session_id`.
    pub fn from_body(api: &Api, body: Value) -> Result<Self> {
        let id = body["session_id"].as_str().with_context(|| format!("session_id in {body}"))?.to_owned();
        Ok(Self { api: api.clone(), body, id })
    }

    /// A text field of the create answer.
    pub fn url(&self, field: &str) -> Result<&str> {
        self.body[field].as_str().with_context(|| format!("{field} in {}", self.body))
    }

    /// The id of its worker, as its daemon's log says.
    pub fn worker_in(&self, log: &str) -> Result<String> {
        let words = log.lines().find(|line| line.contains("session running") && line.contains(&self.id));
        let worker = words.and_then(|line| line.split("worker=").nth(1)?.split_whitespace().next());
        worker.map(str::to_owned).with_context(|| format!("the worker of {}", self.id))
    }

    /// `websocket_url`.
    pub fn websocket_url(&self) -> Result<&str> {
        self.url("websocket_url")
    }

    /// `connect_url`.
    pub fn connect_url(&self) -> Result<&str> {
        self.url("connect_url")
    }

    /// The value of an expression in the first page, over a connection of its own.
    pub async fn evaluate(&self, expression: &str) -> Result<Value> {
        let mut cdp = self.cdp().await?;
        let page = cdp.first_page().await?;
        cdp.evaluate(&page, expression).await
    }

    /// Attaches to the browser.
    pub async fn cdp(&self) -> Result<Cdp> {
        Cdp::connect_trusting(self.websocket_url()?, self.api.trusted()).await
    }

    /// `GET /sessions/<id>`.
    pub async fn record(&self) -> Result<Value> {
        self.api.get(&format!("/sessions/{}", self.id)).await?.ok()
    }

    /// The status now.
    pub async fn status(&self) -> Result<String> {
        let detail: SessionDetail = self.api.get(&format!("/sessions/{}", self.id)).await?.read()?;
        Ok(detail.session.status.as_str().to_owned())
    }

    /// Waits for the status, at most this many seconds; returns the record.
    pub async fn becomes(&self, status: &str, seconds: u64) -> Result<Value> {
        let what = format!("session {} is {status}", self.id);
        let reached = eventually!(what, seconds, {
            let record = self.record().await?;
            (record["status"] == status).then_some(record)
        });
        match reached {
            Ok(record) => Ok(record),
            Err(late) => Err(late.context(self.record().await?.to_string())),
        }
    }

    /// `DELETE /sessions/<id>`.
    pub async fn delete(&self) -> Result<Reply> {
        self.api.delete(&format!("/sessions/{}", self.id)).await
    }

    /// `PUT /sessions/<id>/files/<name>`; the name must need no escaping.
    pub async fn put_file(&self, name: &str, bytes: impl Into<Bytes>) -> Result<Reply> {
        self.api.send(Method::PUT, &format!("/sessions/{}/files/{name}", self.id), HeaderMap::new(), bytes.into()).await
    }

    /// `GET /sessions/<id>/files/<name>`, or the list for an empty name.
    pub async fn get_file(&self, name: &str) -> Result<Reply> {
        let slash = if name.is_empty() { "" } else { "/" };
        self.api.get(&format!("/sessions/{}/files{slash}{name}", self.id)).await
    }
}
