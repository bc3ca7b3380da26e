//! What a client will do, done once before: the second time takes less.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::ports::LocalPort;

/// A WebDriver BiDi session of the agent's own, for a moment only: Firefox has one at a time.
struct BidiSession {
    socket: WebSocketStream<UnixStream>,
    next: u64,
}

/// Opens a session and a tab, runs a script, takes a picture, and leaves all as it was.
pub(super) async fn rehearse(port: LocalPort) -> Result<(), String> {
    let stream = port.connect().await.map_err(|e| e.to_string())?;
    let url = format!("ws://{}/session", port.authority());
    let (socket, _) = tokio_tungstenite::client_async(url, stream).await.map_err(|e| e.to_string())?;
    let mut rehearsal = BidiSession { socket, next: 1 };
    rehearsal.call("session.new", json!({"capabilities": {}})).await?;
    rehearsal.call("session.subscribe", json!({"events": ["browsingContext", "network", "script", "log"]})).await?;
    let tree = rehearsal.call("browsingContext.getTree", json!({})).await?;
    let first = tree["contexts"][0]["context"].clone();
    rehearsal.drive(&first).await?;
    let tab = rehearsal.call("browsingContext.create", json!({"type": "tab"})).await?;
    rehearsal.drive(&tab["context"]).await?;
    rehearsal.call("browsingContext.close", json!({"context": tab["context"]})).await?;
    rehearsal.call("session.end", json!({})).await?;
    let _ = rehearsal.socket.close(None).await;
    while let Some(Ok(_)) = rehearsal.socket.next().await {}
    Ok(())
}

impl BidiSession {
    async fn drive(&mut self, context: &Value) -> Result<(), String> {
        let navigate = json!({"context": context, "url": "about:blank", "wait": "complete"});
        self.call("browsingContext.navigate", navigate).await?;
        let evaluate = json!({"expression": "1 + 1", "target": {"context": context}, "awaitPromise": true});
        self.call("script.evaluate", evaluate).await?;
        self.call("browsingContext.captureScreenshot", json!({"context": context})).await.map(drop)
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next;
        self.next += 1;
        let command = json!({"id": id, "method": method, "params": params}).to_string();
        self.socket.send(Message::text(command)).await.map_err(|e| e.to_string())?;
        while let Some(message) = self.socket.next().await {
            let Message::Text(text) = message.map_err(|e| e.to_string())? else { continue };
            let mut answer: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if answer["id"] != id {
                continue;
            }
            return match answer["type"].as_str() {
                Some("success") => Ok(answer["result"].take()),
                _ => Err(format!("{method}: {}", answer["message"].as_str().unwrap_or("refused"))),
            };
        }
        Err("the browser closed the connection".to_owned())
    }
}
