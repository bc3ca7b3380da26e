//! Tells why a page did not come: the daemon's own refusal, a proxy, a certificate, or a site that cannot be reached.
//!
//! What stands in such a page's place is no data, and nothing of it matches a selector. The daemon's own page carries a mark that
//! the session knows again; for the others the browser has a page of its own, and the session's egress the reason.

use tokio::time::{Duration, timeout};
use url::Url;

use super::driver_error::neterror;
use super::page::{DocumentState, Page};
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;
use warmpool_workers::egress::NoConnection;

/// How long it may take to find out, after a step has failed for another reason.
const LOOK: Duration = Duration::from_secs(3);

/// The address of an empty window, and of WebKit's page for one that did not come.
const EMPTY: &str = "about:blank";

/// What a browser's own page says: Chromium's name of the error, or WebKit's words.
const SCRIPT: &str =
    "return document.body?.innerText.match(/ERR_\\w+/)?.[0] ?? document.body?.textContent.trim() ?? '';";

impl From<NoConnection> for StepError {
    fn from(why: NoConnection) -> Self {
        let code = match why {
            NoConnection::Refused { .. } => FailureCode::RefusedByPolicy,
            NoConnection::Proxy(_) => FailureCode::ProxyFailed,
            NoConnection::Unreachable { .. } => FailureCode::NavigationFailed,
        };
        Self::new(code, why.to_string())
    }
}

impl DocumentState {
    /// Whether a browser may show it in place of a page that did not come.
    fn may_be_browsers_own(&self, engine: Engine) -> bool {
        match engine {
            Engine::Chromium => self.href == "chrome-error://chromewebdata/",
            Engine::Firefox => ["about:neterror?", "about:certerror?"].iter().any(|own| self.uri.starts_with(own)),
            Engine::Webkit => self.href == EMPTY,
        }
    }
}

impl Page {
    /// Checks that this document is the page, and does not stand for one to which the way is closed. A page that passes for
    /// Firefox's own about certificates makes only its own task fail.
    pub(super) async fn check_came(&self, state: &DocumentState) -> Result<(), StepError> {
        match self.absence(state).await {
            Some(error) if error.code.is_of_the_way() => Err(error),
            _ => Ok(()),
        }
    }

    /// The same of the document that is shown now, if it can be asked.
    pub(super) async fn check_shown(&self) -> Result<(), StepError> {
        match self.any_document_state().await {
            Ok(state) => self.check_came(&state).await,
            Err(_) => Ok(()),
        }
    }

    /// Checks that the document of a page that was just opened does not stand for one that did not come.
    pub(super) async fn check_opened(&self, state: &DocumentState) -> Result<(), StepError> {
        match self.absence(state).await {
            Some(error) => Err(error),
            // WebKit's window stays empty where it asks for nothing.
            None if self.engine == Engine::Webkit && state.href == EMPTY => {
                Err(StepError::new(FailureCode::NavigationFailed, ""))
            }
            None => Ok(()),
        }
    }

    /// Why the page did not come for which this document stands, if it stands for one.
    async fn absence(&self, state: &DocumentState) -> Option<StepError> {
        if let Some(why) = state.refusal.as_deref().and_then(|mark| self.browser.refusal(mark)) {
            return Some(why.into());
        }
        if !state.may_be_browsers_own(self.engine) {
            return None;
        }
        let url = self.client.current_url().await.ok()?;
        // WebKit's driver knows the address that such a page has not; an empty window has none.
        if url.as_str() == EMPTY {
            return None;
        }
        if let Some(why) = self.browser.failure_at(&url) {
            return Some(why.into());
        }
        let words = match self.engine {
            Engine::Firefox => neterror(&state.uri).unwrap_or_default(),
            Engine::Chromium | Engine::Webkit => {
                serde_json::from_value(self.client.execute(SCRIPT, Vec::new()).await.ok()?).ok()?
            }
        };
        Some(StepError::new(code_of(&words), "").quoting(&words))
    }

    /// The reason why the page at `url` could not be opened, where it is known better than by `error`.
    pub(super) async fn reason(&self, url: &str, error: StepError) -> StepError {
        if error.code == FailureCode::BrowserDied {
            return error;
        }
        // Where a redirection led, and then what was asked for.
        let now = timeout(LOOK, self.client.current_url()).await.ok().and_then(Result::ok);
        let asked = Url::parse(url).ok();
        let known = now.iter().chain(&asked).find_map(|url| self.browser.failure_at(url)).map(StepError::from);
        match known {
            Some(known) if known.code != FailureCode::NavigationFailed || error.code != FailureCode::Timeout => known,
            _ if error.code == FailureCode::NavigationFailed || error.code == FailureCode::DriverError => {
                StepError { code: code_of(&error.text()), ..error }
            }
            _ => error,
        }
    }

    /// The error of a step, or why the page did not come on which it was to act.
    pub(super) async fn explained(&self, error: StepError) -> StepError {
        use FailureCode as Code;
        let of_the_page = matches!(
            error.code,
            Code::NoMatch
                | Code::NotReady
                | Code::NavigationMismatch
                | Code::Timeout
                | Code::AssertionFailed
                | Code::ScriptError
                | Code::MissingField
                | Code::InvalidResult
        );
        if !of_the_page {
            return error;
        }
        let look = async {
            let state = self.any_document_state().await.ok()?;
            self.absence(&state).await
        };
        timeout(LOOK, look).await.ok().flatten().unwrap_or(error)
    }
}

/// The code for what a browser says of a page that did not come.
fn code_of(words: &str) -> FailureCode {
    let of_tls = ["ERR_CERT", "ERR_SSL", "ERR_BAD_SSL", "nssFailure", "nssBadCert", "TLS", "certificate"];
    if of_tls.iter().any(|name| words.contains(name)) { FailureCode::TlsFailed } else { FailureCode::NavigationFailed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_browsers_say_of_tls_is_known() {
        for words in
            ["net::ERR_CERT_AUTHORITY_INVALID", "ERR_SSL_PROTOCOL_ERROR", "nssFailure2", "Unacceptable TLS certificate"]
        {
            assert_eq!(code_of(words), FailureCode::TlsFailed, "{words}");
        }
        assert_eq!(code_of("net::ERR_NAME_NOT_RESOLVED"), FailureCode::NavigationFailed);
    }
}
