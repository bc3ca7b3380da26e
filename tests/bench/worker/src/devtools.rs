//! As much of DevTools as the clients of `scripts/bench` ask for.

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Answers commands until the client has gone.
pub(crate) async fn converse(connection: Upgraded) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let Ok(command) = serde_json::from_str::<Value>(&text) else { return };
        if socket.send(Message::text(answer(&command).to_string())).await.is_err() {
            return;
        }
    }
}

fn answer(command: &Value) -> Value {
    let result = match command["method"].as_str() {
        Some("Target.createTarget") => json!({"targetId": "page"}),
        Some("Target.attachToTarget") => json!({"sessionId": "page"}),
        Some("Runtime.evaluate") => {
            let expression = command["params"]["expression"].as_str().unwrap_or_default();
            let value = repeated(expression).unwrap_or_else(|| expression.to_owned());
            json!({"result": {"type": "string", "value": value}})
        }
        _ => json!({}),
    };
    let mut answer = json!({"id": command["id"], "result": result});
    if let Some(session) = command.get("sessionId") {
        answer["sessionId"] = session.clone();
    }
    answer
}

/// The value of `'x'.repeat(N * 1e6)`.
fn repeated(expression: &str) -> Option<String> {
    let count: usize = expression.strip_prefix("'x'.repeat(")?.strip_suffix(" * 1e6)")?.parse().ok()?;
    Some("x".repeat(count * 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_its_own_value() {
        let evaluate = |expression| {
            let command =
                json!({"id": 7, "sessionId": "s", "method": "Runtime.evaluate", "params": {"expression": expression}});
            answer(&command)
        };
        let wanted = json!({"id": 7, "sessionId": "s", "result": {"result": {"type": "string", "value": "1"}}});
        assert_eq!(evaluate("1"), wanted);
        let long = evaluate("'x'.repeat(2 * 1e6)");
        assert_eq!(long["result"]["result"]["value"].as_str().map(str::len), Some(2_000_000));
        assert_eq!(answer(&json!({"id": 1, "method": "Runtime.enable"})), json!({"id": 1, "result": {}}));
    }
}
