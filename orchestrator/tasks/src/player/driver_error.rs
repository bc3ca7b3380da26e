//! What a driver says went wrong, as an error.

use fantoccini::error::{CmdError, ErrorStatus};

use crate::script::{FailureCode, StepError};

impl StepError {
    /// An error of the way to the browser, not of page or recording. The cause goes to the log.
    pub(crate) fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::debug!(%cause, "a task's browser cannot be spoken to");
        Self::new(FailureCode::DriverError, "the browser's driver cannot be spoken to")
    }
}

impl From<CmdError> for StepError {
    fn from(error: CmdError) -> Self {
        let CmdError::Standard(error) = error else {
            return Self::internal(&error);
        };
        let words = match error.error {
            // The next command would have accepted one dialog: this page shows another each time.
            ErrorStatus::UnexpectedAlertOpen => "the page shows one dialog after the other".to_owned(),
            _ => plain_words(&error.message),
        };
        let (code, is_passing) = match error.error {
            ErrorStatus::InvalidSessionId => (FailureCode::BrowserDied, false),
            ErrorStatus::Timeout | ErrorStatus::ScriptTimeout => (FailureCode::Timeout, true),
            // A page that leaves takes the scripts that run in it along.
            ErrorStatus::JavascriptError => (FailureCode::ScriptError, true),
            ErrorStatus::InvalidSelector => (FailureCode::InvalidSelector, false),
            ErrorStatus::ElementNotInteractable
            | ErrorStatus::ElementClickIntercepted
            | ErrorStatus::InvalidElementState
            | ErrorStatus::MoveTargetOutOfBounds => (FailureCode::NotReady, true),
            ErrorStatus::NoSuchElement
            | ErrorStatus::StaleElementReference
            | ErrorStatus::DetachedShadowRoot
            | ErrorStatus::NoSuchShadowRoot
            | ErrorStatus::NoSuchFrame
            | ErrorStatus::NoSuchWindow => (FailureCode::NoMatch, true),
            ErrorStatus::InsecureCertificate => (FailureCode::TlsFailed, false),
            ErrorStatus::UnknownCommand
            | ErrorStatus::UnknownMethod
            | ErrorStatus::UnknownPath
            | ErrorStatus::UnsupportedOperation => (FailureCode::NotSupported, false),
            // Drivers say so, among other things, when a page leaves in mid-command.
            ErrorStatus::UnknownError | ErrorStatus::UnexpectedAlertOpen => (FailureCode::DriverError, true),
            _ => (FailureCode::DriverError, false),
        };
        Self { is_passing, ..Self::new(code, "").quoting(&words) }
    }
}

/// What a driver says, without its address book.
fn plain_words(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let mut words = first;
    while let Some(rest) =
        ["javascript error: ", "unknown error: ", "Error: "].iter().find_map(|it| words.strip_prefix(it))
    {
        words = rest;
    }
    // Firefox gives the address of its error page, which has the reason in it.
    if let Some(reason) = neterror(words) {
        return reason;
    }
    words.to_owned()
}

/// The reason in the address of Firefox's error page.
pub(super) fn neterror(text: &str) -> Option<String> {
    let (_, page) = text.split_once("about:neterror?").or_else(|| text.split_once("about:certerror?"))?;
    let reason = url::form_urlencoded::parse(page.as_bytes()).find(|(name, _)| name == "e");
    reason.map(|(_, reason)| reason.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_driver_messages_are_removed() {
        for (message, words) in [
            ("unknown error: net::ERR_NAME_NOT_RESOLVED\n  (Session info: chrome=1)", "net::ERR_NAME_NOT_RESOLVED"),
            ("Reached error page: about:neterror?e=dnsNotFound&u=http%3A//nowhere.invalid/", "dnsNotFound"),
            ("javascript error: x is not defined", "x is not defined"),
            ("", ""),
        ] {
            assert_eq!(plain_words(message), words);
        }
    }
}
