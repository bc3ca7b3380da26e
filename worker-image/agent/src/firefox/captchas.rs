//! Finds challenges in Firefox's documents, over the control channel.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::captchas::Document;

use super::control::Control;

/// A document whose script has begun.
#[derive(Deserialize)]
pub(super) struct BegunDocument {
    /// The browser's own number of it.
    document: u64,
    page: Option<String>,
}

/// A document, and the way to the script in it.
pub(super) struct Window {
    control: Control,
    begun: BegunDocument,
}

impl Window {
    pub(super) const fn new(control: Control, begun: BegunDocument) -> Self {
        Self { control, begun }
    }

    async fn ask(&self, method: &str, arguments: Value) -> Option<String> {
        let params = json!({"document": self.begun.document, "method": method, "arguments": arguments});
        self.control.call("askCaptchas", params).await.ok()?.as_str().map(str::to_owned)
    }
}

impl Document for Window {
    fn page(&self) -> Option<String> {
        self.begun.page.clone()
    }

    async fn call(&self, method: &'static str, argument: Option<&str>) -> Option<String> {
        self.ask(method, json!([argument])).await
    }

    async fn tell_page(&self, arguments: [Value; 3]) {
        self.ask("page", json!(arguments)).await;
    }
}
