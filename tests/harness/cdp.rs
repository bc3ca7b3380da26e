//! Just enough of the DevTools protocol: one call at a time, events kept.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;

use crate::eventually;
use crate::wire::{self, Socket, Trusted};

/// What a new tab shows at first.
const EMPTY: &str = "about:blank";

/// How long to wait for an event.
const EVENT_LIMIT: Duration = Duration::from_secs(20);
/// After this time, a command or an end that does not come counts as hung.
const HUNG: Duration = Duration::from_secs(60);
const MOST_EVENTS: usize = 1000;

/// A client of one browser.
pub struct Cdp {
    socket: Socket,
    last: u64,
    /// The browser's events that no test has waited for yet, oldest first; bounded.
    events: VecDeque<Value>,
}

/// How a socket ended: the code and the reason of the Close frame, or nothing if the connection just broke.
pub type End = Option<(u16, String)>;

impl Cdp {
    /// Attaches to a session's `websocket_url`.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_trusting(url, None).await
    }

    /// Attaches, trusting this certificate for `wss`.
    pub async fn connect_trusting(url: &str, trusted: Option<&Trusted>) -> Result<Self> {
        Ok(Self::over(wire::websocket(url, &HeaderMap::new(), trusted).await?))
    }

    /// Attaches as Playwright does, whose clean Close says that it is done with the browser.
    pub async fn connect_as_playwright(url: &str) -> Result<Self> {
        let headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static("Playwright/1.65.0 (x64)"))]);
        Ok(Self::over(wire::websocket(url, &headers, None).await?))
    }

    const fn over(socket: Socket) -> Self {
        Self { socket, last: 0, events: VecDeque::new() }
    }

    /// One command for the browser; returns its result.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.send(None, method, params).await
    }

    /// One command for a target's session; returns its result.
    pub async fn call_in(&mut self, page: &str, method: &str, params: Value) -> Result<Value> {
        self.send(Some(page), method, params).await
    }

    async fn send(&mut self, page: Option<&str>, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(page) = page {
            message["sessionId"] = page.into();
        }
        self.socket.send(Message::text(message.to_string())).await.with_context(|| method.to_owned())?;
        let answered = tokio::time::timeout(HUNG, self.answer(id, method)).await;
        answered.with_context(|| format!("{method} hung: no answer within {HUNG:?}"))?
    }

    async fn answer(&mut self, id: u64, method: &str) -> Result<Value> {
        loop {
            let Some(message) = self.socket.next().await else { bail!("{method}: socket ended") };
            let text = match message.with_context(|| method.to_owned())? {
                Message::Text(text) => text,
                Message::Close(frame) => bail!("{method}: closed with {frame:?}"),
                _ => continue,
            };
            let reply: Value = serde_json::from_str(&text)?;
            if reply["id"] != id {
                self.keep(reply);
                continue;
            }
            if let Some(error) = reply.get("error") {
                // WebDriver BiDi puts the message beside the code.
                bail!("{method}: {error} {}", reply["message"].as_str().unwrap_or_default());
            }
            return Ok(reply["result"].clone());
        }
    }

    fn keep(&mut self, event: Value) {
        if event["method"].is_string() {
            if self.events.len() == MOST_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(event);
        }
    }

    /// Waits for an event whose parameters are right, and returns them.
    pub async fn event(&mut self, method: &str, right: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            while let Some(event) = self.events.pop_front() {
                if event["method"] == method && right(&event["params"]) {
                    return Ok(event["params"].clone());
                }
            }
            let next = tokio::time::timeout(EVENT_LIMIT, self.socket.next()).await;
            let message = next.with_context(|| format!("no {method}"))?.context("socket ended")??;
            if let Message::Text(text) = message {
                let event = serde_json::from_str(&text)?;
                self.keep(event);
            }
        }
    }

    /// Waits for a Ping, which is answered with what is sent or waited for next; returns its payload.
    pub async fn pinged(&mut self) -> Result<Vec<u8>> {
        loop {
            let next = tokio::time::timeout(HUNG, self.socket.next()).await.context("no Ping")?;
            match next.context("the socket ended")?? {
                Message::Ping(payload) => return Ok(payload.to_vec()),
                Message::Text(text) => self.keep(serde_json::from_str(&text)?),
                _ => {}
            }
        }
    }

    /// Opens a page of the tests' site and reads it.
    pub async fn reads_form(&mut self, site: &str) -> Result<()> {
        let page = self.open(&format!("{site}/form")).await?;
        eventually!("the page is loaded", 20, self.evaluate(&page, "document.title").await? == "Form")
    }

    /// Opens a tab and returns the id of a session attached to it, once its page has taken the place of the empty one that
    /// each tab begins with: a script that came sooner would run there.
    pub async fn open(&mut self, url: &str) -> Result<String> {
        let target = self.call("Target.createTarget", json!({"url": url})).await?;
        let page = self.attach(&target["targetId"]).await?;
        if url != EMPTY {
            // A page that goes has no context for a moment.
            let shows = json!({"expression": format!("document.URL !== '{EMPTY}'"), "returnByValue": true});
            eventually!(format!("a tab shows {url}"), 30, {
                let answer = self.call_in(&page, "Runtime.evaluate", shows.clone()).await;
                answer.is_ok_and(|answer| answer["result"]["value"] == true)
            })?;
        }
        Ok(page)
    }

    /// Attaches to the first page there is.
    pub async fn first_page(&mut self) -> Result<String> {
        let targets = self.call("Target.getTargets", json!({})).await?;
        let pages = targets["targetInfos"].as_array().context("targetInfos")?;
        let page = pages.iter().find(|target| target["type"] == "page").context("no page is open")?;
        let id = page["targetId"].clone();
        self.attach(&id).await
    }

    async fn attach(&mut self, target: &Value) -> Result<String> {
        let attached = self.call("Target.attachToTarget", json!({"targetId": target, "flatten": true})).await?;
        Ok(attached["sessionId"].as_str().context("sessionId")?.to_owned())
    }

    /// The value of an expression in a page; promises are awaited.
    pub async fn evaluate(&mut self, page: &str, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call_in(page, "Runtime.evaluate", params).await?;
        if let Some(thrown) = result.get("exceptionDetails") {
            bail!("{expression}: {thrown}");
        }
        Ok(result["result"]["value"].clone())
    }

    /// Sends text without waiting for any answer.
    pub async fn send_text(&mut self, text: String) -> Result<()> {
        Ok(self.socket.send(Message::text(text)).await?)
    }

    /// Waits for the answer with this id.
    pub async fn message(&mut self, id: u64) -> Result<Value> {
        Ok(serde_json::from_str(&self.text_of(id).await?)?)
    }

    /// How many bytes the message has that answers with the value of an expression in a page.
    pub async fn answer_length(&mut self, page: &str, expression: &str) -> Result<usize> {
        Ok(self.answer_text(page, expression).await?.len())
    }

    /// The whole message that answers with the value of an expression in a page.
    pub async fn answer_text(&mut self, page: &str, expression: &str) -> Result<String> {
        let params = json!({"expression": expression, "returnByValue": true});
        let message = json!({"id": 8_000, "method": "Runtime.evaluate", "sessionId": page, "params": params});
        self.send_text(message.to_string()).await?;
        self.text_of(8_000).await
    }

    async fn text_of(&mut self, id: u64) -> Result<String> {
        let found = async {
            loop {
                match self.socket.next().await.context("the socket ended")?? {
                    Message::Text(text) if serde_json::from_str::<Value>(&text)?["id"] == id => {
                        return Ok(text.to_string());
                    }
                    Message::Close(frame) => bail!("closed with {frame:?}"),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(HUNG, found).await.with_context(|| format!("message {id} hung"))?
    }

    /// Waits until the other side ends the socket, and tells how.
    /// Errors: it does not, long after it should.
    pub async fn ended(&mut self) -> Result<End> {
        self.ended_within(HUNG).await
    }

    /// The same where the end may take longer.
    pub async fn ended_within(&mut self, limit: Duration) -> Result<End> {
        let ended = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Close(frame))) => return frame.map(close),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        };
        tokio::time::timeout(limit, ended).await.with_context(|| format!("the socket does not end within {limit:?}"))
    }

    /// Sends a Close frame and waits for the answer.
    pub async fn disconnect(mut self) -> Result<()> {
        self.socket.close(None).await?;
        self.ended().await.map(drop)
    }
}

fn close(frame: CloseFrame) -> (u16, String) {
    (frame.code.into(), frame.reason.to_string())
}
