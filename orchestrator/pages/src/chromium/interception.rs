//! Requests of a page that wait for the daemon's word: rejected, answered by the client, or sent on their way; and sites
//! that ask for a password.

use std::collections::HashSet;

use regex::Regex;
use serde_json::{Value, json};

use crate::request::{PageRequest, Source};

/// The most requests of which it is remembered that they were given the password.
const MOST_TRIED: usize = 1000;

/// What is done with requests.
pub(super) struct Rules {
    types: Vec<String>,
    rejected: Vec<Regex>,
    answers: Vec<(Regex, Value)>,
    credentials: Option<(String, String)>,
    /// The host that gets the password; any, where the page is the client's own.
    host: Option<String>,
    /// Requests that were given the password: it is wrong when they ask again.
    tried: HashSet<String>,
}

/// A command that lets a request go on.
pub(super) struct Reply {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Rules {
    pub(super) fn new(request: &PageRequest) -> Self {
        Self {
            types: request.rejected_types.clone(),
            rejected: request.rejected_patterns.clone(),
            answers: request.interceptors.clone(),
            credentials: request.authenticate.as_ref().map(|it| (it.username.clone(), it.password.clone())),
            host: match &request.source {
                Source::Url(url) => Some(url.host_str().unwrap_or_default().to_owned()),
                Source::Html(_) => None,
            },
            tried: HashSet::new(),
        }
    }

    /// What becomes of a request.
    pub(super) fn reply(&mut self, method: &str, event: &Value) -> Reply {
        let id = event["requestId"].as_str().unwrap_or_default();
        if method == "Fetch.authRequired" {
            let answer = self.credentials(id, event);
            let params = json!({"requestId": id, "authChallengeResponse": answer});
            return Reply { method: "Fetch.continueWithAuth", params };
        }
        let url = event["request"]["url"].as_str().unwrap_or_default();
        let kind = event["resourceType"].as_str().unwrap_or_default().to_lowercase();
        if self.types.contains(&kind) || self.rejected.iter().any(|pattern| pattern.is_match(url)) {
            let params = json!({"requestId": id, "errorReason": "BlockedByClient"});
            return Reply { method: "Fetch.failRequest", params };
        }
        if let Some((_, answer)) = self.answers.iter().find(|(pattern, _)| pattern.is_match(url)) {
            let mut params = answer.clone();
            params["requestId"] = json!(id);
            return Reply { method: "Fetch.fulfillRequest", params };
        }
        Reply { method: "Fetch.continueRequest", params: json!({"requestId": id}) }
    }

    /// The answer to a site that asks for a password. Another site than the page's own gets none, nor does a proxy.
    fn credentials(&mut self, id: &str, event: &Value) -> Value {
        let challenge = &event["authChallenge"];
        let origin = challenge["origin"].as_str().and_then(|origin| url::Url::parse(origin).ok());
        let host = origin.as_ref().and_then(|origin| origin.host_str());
        let is_its_own = challenge["source"] != "Proxy" && self.host.as_deref().is_none_or(|own| host == Some(own));
        let is_first = self.tried.len() < MOST_TRIED && self.tried.insert(id.to_owned());
        match &self.credentials {
            Some((name, password)) if is_its_own && is_first => {
                json!({"response": "ProvideCredentials", "username": name, "password": password})
            }
            _ => json!({"response": "CancelAuth"}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ContentBody;
    use warmpool_core::browser::Engine;

    fn rules(body: Value) -> Rules {
        let mut body: ContentBody = serde_json::from_value(body).unwrap();
        Rules::new(&PageRequest::new(body.take_fields(), Engine::Chromium).unwrap())
    }

    fn asked(rules: &mut Rules, kind: &str, url: &str) -> &'static str {
        rules
            .reply("Fetch.requestPaused", &json!({"requestId": "1", "resourceType": kind, "request": {"url": url}}))
            .method
    }

    #[test]
    fn requests_are_rejected_answered_or_sent() {
        let mut rules = rules(json!({
            "url": "https://a.example/",
            "rejectResourceTypes": ["image"],
            "rejectRequestPattern": ["/ads/"],
            "requestInterceptors": [{"pattern": "data\\.json$", "response": {"body": "{}", "contentType": "application/json"}}],
        }));
        assert_eq!(asked(&mut rules, "Image", "https://a.example/a.png"), "Fetch.failRequest");
        assert_eq!(asked(&mut rules, "Script", "https://a.example/ads/x.js"), "Fetch.failRequest");
        assert_eq!(asked(&mut rules, "XHR", "https://a.example/data.json"), "Fetch.fulfillRequest");
        assert_eq!(asked(&mut rules, "Document", "https://a.example/"), "Fetch.continueRequest");
    }

    #[test]
    fn a_password_goes_once_and_to_its_own_site() {
        let mut rules = rules(json!({"url": "https://a.example/", "authenticate": {"username": "u", "password": "p"}}));
        let mut answer = |id: &str, source: &str, origin: &str| {
            let event = json!({"requestId": id, "authChallenge": {"source": source, "origin": origin}});
            rules.reply("Fetch.authRequired", &event).params["authChallengeResponse"]["response"].take()
        };
        assert_eq!(answer("1", "Server", "https://a.example"), "ProvideCredentials");
        assert_eq!(answer("1", "Server", "https://a.example"), "CancelAuth", "it is wrong");
        assert_eq!(answer("2", "Server", "https://b.example"), "CancelAuth");
        assert_eq!(answer("3", "Proxy", "https://a.example"), "CancelAuth");
    }
}
