//! `/webhooks/secret`: by what clients verify the messages that their sessions and tasks send.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::App;
use super::auth::Caller;
use super::openapi::{Access, Operation, Routes};
use super::reply::json_reply;
use super::route::Policy;
use warmpool_api::webhook::WebhookSecret;

/// Calls about the webhooks of a key.
const OF_KEY: Policy = Policy::rest(Access::Key, &[]);

pub(super) fn routes() -> Routes {
    Routes::new("Webhooks").get(
        "/webhooks/secret",
        secret,
        Operation::new("get_webhook_secret", "The secret that signs messages", OF_KEY)
            .about(
                "Sessions and tasks with a `webhook_url` post JSON to it: `session.ended`, `session.waiting`, `task.ended` and \
                 `task.waiting`, each with `type`, `timestamp` and `data`. Messages are signed as Standard Webhooks specifies, in \
                 the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, with this secret of the key that made the \
                 session or sent the task. They are sent again until an answer has a status from 200 to 299.",
            )
            .writes::<WebhookSecret>("The secret, as libraries for Standard Webhooks take it."),
    )
}

/// `GET /webhooks/secret`
async fn secret(State(app): State<App>, Caller(key): Caller) -> Response {
    json_reply(StatusCode::OK, &WebhookSecret { secret: app.webhooks.secret(&key) })
}
