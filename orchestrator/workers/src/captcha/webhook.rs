//! Notifies the operator's service when a challenge waits for a person, and when it ends. Messages are signed as
//! [Standard Webhooks](https://www.standardwebhooks.com) specifies, and sent again when they do not arrive.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::sleep;
use url::Url;

use super::client::Client;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::random_bytes;
use warmpool_core::secret::Secret;
use warmpool_core::signature::sign;

/// How many times a message is sent at most.
const TRIES: u32 = 5;
/// The pause before the second attempt; each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// Where messages go. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Webhook(Arc<Endpoint>);

#[derive(Debug)]
struct Endpoint {
    client: Client,
    url: Url,
    secret: Secret,
}

impl Webhook {
    pub(super) fn new(client: Client, url: Url, secret: Secret) -> Self {
        Self(Arc::new(Endpoint { client, url, secret }))
    }

    /// Sends a message in the background. A message that is sent again keeps its id.
    pub(super) fn send(&self, body: &Value) {
        let (hook, body) = (self.clone(), body.to_string());
        tokio::spawn(async move {
            let id = format!("msg_{}", hex::encode(random_bytes::<12>()));
            for attempt in 1..=TRIES {
                let headers = hook.headers(&id, unix_ms() / 1000, &body);
                let problem = match hook.0.client.post(&hook.0.url, headers, body.clone().into()).await {
                    Ok((status, _)) if status.is_success() => {
                        metrics::counter!("warmpool_captcha_webhooks_total", "result" => "taken").increment(1);
                        return;
                    }
                    Ok((status, _)) => format!("it answered {status}"),
                    Err(error) => error.to_string(),
                };
                tracing::warn!(attempt, problem, "captcha.webhook_url does not take a message");
                if attempt < TRIES {
                    sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
                }
            }
            metrics::counter!("warmpool_captcha_webhooks_total", "result" => "lost").increment(1);
        });
    }

    fn headers(&self, id: &str, seconds: u64, body: &str) -> HeaderMap {
        let signature = format!("v1,{}", sign(self.0.secret.expose(), id, seconds, body));
        let pairs = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signature),
        ];
        let header = |(name, value): (&'static str, String)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        };
        pairs.into_iter().filter_map(header).collect()
    }
}
