//! Who may make a call, and how they show it.

use serde_json::{Value, json};

use crate::dropin::hosted::{self, Service};
use warmpool_core::error::Code;

/// Who may make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody.
    Open,
    /// Anybody, unless `server.status_needs_key` asks for a service key; basic authentication may carry it, since clients of a
    /// grid send it so.
    Status,
    /// Who has a service key.
    Key,
    /// The same; the client of another service sends it in a header of its own.
    Hosted(Service),
    /// The same; basic authentication may carry the key, since clients of a grid send it so.
    Grid,
    /// The same; the query may carry the key, since websocket clients cannot always set a header.
    Socket,
    /// Who has a service key, or signed in to the console with one.
    Operator,
    /// Who has an integration key or a service key, or signed in to the console.
    Integration,
    /// Who has an integration key. It may stand in the body.
    IntegrationBody,
    /// Who knows the URL: it holds a token.
    Address,
}

impl Access {
    /// As OpenAPI has it: any of these will do.
    pub(super) fn document(self) -> Value {
        let schemes: &[&str] = match self {
            Self::Open | Self::Address => &[],
            Self::Key | Self::Hosted(Service::Kernel) => &["serviceKey", "bearer"],
            // The empty object: none of them is needed. A route that reads the key in the query has it among its parameters.
            Self::Status => return json!([{}, {"serviceKey": []}, {"bearer": []}, {"basic": []}]),
            Self::Hosted(Service::Steel) => &["steelKey", "serviceKey", "bearer"],
            Self::Hosted(Service::Browserbase) => &["browserbaseKey", "serviceKey", "bearer"],
            Self::Grid => &["serviceKey", "bearer", "basic"],
            Self::Socket => &["serviceKey", "bearer", "basic", "queryToken"],
            Self::Operator => &["serviceKey", "bearer", "consoleCookie"],
            Self::Integration => &["integrationKey", "serviceKey", "bearer", "consoleCookie"],
            Self::IntegrationBody => return json!([{}, {"integrationKey": []}, {"bearer": []}]),
        };
        schemes.iter().map(|scheme| json!({*scheme: []})).collect()
    }

    pub(super) const fn codes(self) -> &'static [Code] {
        match self {
            Self::Open => &[],
            Self::Address => &[Code::InvalidToken],
            Self::Status | Self::Key | Self::Hosted(_) | Self::Grid | Self::Socket | Self::Operator => {
                &[Code::MissingKey, Code::InvalidKey]
            }
            Self::Integration => &[Code::MissingKey, Code::InvalidKey, Code::InvalidApiKey],
            Self::IntegrationBody => &[Code::MissingApiKey, Code::InvalidApiKey],
        }
    }
}

/// Every scheme, as OpenAPI has it.
pub(super) fn schemes() -> Value {
    json!({
        "serviceKey": {
            "type": "apiKey", "in": "header", "name": "service-secret-key",
            "description": "A service key: the first one is in `first-key` of the data directory, `warmpool key create` makes more.",
        },
        "bearer": {"type": "http", "scheme": "bearer", "description": "The same key as `Authorization: Bearer KEY`."},
        "browserbaseKey": {
            "type": "apiKey", "in": "header", "name": hosted::BROWSERBASE_KEY,
            "description": "The same key, as Browserbase's clients send theirs.",
        },
        "steelKey": {
            "type": "apiKey", "in": "header", "name": hosted::STEEL_KEY,
            "description": "The same key, as Steel's clients send theirs.",
        },
        "basic": {"type": "http", "scheme": "basic", "description": "The same key as user or password."},
        "queryToken": {
            "type": "apiKey", "in": "query", "name": "token",
            "description": "The same key in the URL, for websocket clients. Logs of proxies may keep it.",
        },
        "integrationKey": {
            "type": "apiKey", "in": "header", "name": "x-api-key",
            "description": "An integration key: it asks for worlds, and sees those that it asked for.",
        },
        "consoleCookie": {
            "type": "apiKey", "in": "cookie", "name": "warmpool_console",
            "description": "The console's sign-in. Each call has the header `x-warmpool-console` as well; with the value `follow` it is no use of the sign-in.",
        },
    })
}
