//! Opening pages, and seeing that a step led to one.

use tokio::time::Instant;
use url::Url;

use super::browser::DriverCommand;
use super::page::{DocumentState, Page};
use super::retry::Retry;
use crate::script::step::Navigation;
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;

/// Opens an address, and waits until the page has loaded.
pub(super) async fn open(page: &mut Page, url: &str) -> Result<(), StepError> {
    let gone = page.client.issue_cmd(DriverCommand::navigate(url)).await.map_err(StepError::from);
    let gone = match gone {
        Ok(_) => check_for_error_page(page, url).await,
        gone => gone.map(drop),
    };
    let Err(error) = gone else { return Ok(()) };
    let error = page.reason(url, error).await;
    let (code, what) = match error.code {
        FailureCode::BrowserDied => return Err(error),
        FailureCode::Timeout => (FailureCode::Timeout, format!("`{url}` did not load in time")),
        code if code.is_of_the_way() => (code, format!("`{url}` could not be opened")),
        _ => (FailureCode::NavigationFailed, format!("`{url}` could not be opened")),
    };
    Err(StepError { code, is_passing: false, ..error }.about(&what))
}

/// WebKit's driver accepts all error pages as pages, and Chromium's some of them. All accept the daemon's.
async fn check_for_error_page(page: &Page, url: &str) -> Result<(), StepError> {
    match page.any_document_state().await {
        Ok(state) if page.engine != Engine::Webkit || url != state.href => page.check_opened(&state).await,
        // A page that has loaded and is leaving again, or asks something, is not one that could not be opened.
        Err(error) if page.engine == Engine::Webkit || !error.is_passing => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the page is where a step that opened it says.
pub(super) async fn arrived(page: &Page, asserted: &[Navigation], deadline: Instant) -> Result<(), StepError> {
    let mut retry = Retry::until(deadline);
    let look = async || {
        let now = page.document_state().await?;
        as_asserted(&now, asserted)
    };
    loop {
        if let Some(result) = retry.attempt(look()).await {
            return result;
        }
    }
}

/// Waits until the page, or the page around its frame, has gone where the step says.
pub(crate) async fn happened(
    page: &mut Page,
    before: &DocumentState,
    asserted: &[Navigation],
    deadline: Instant,
) -> Result<(), StepError> {
    let around = page.around().cloned();
    let mut retry = Retry::until(deadline);
    loop {
        let attempt = async {
            let here = page.document_state().await;
            match (&here, &around) {
                (Ok(now), _) if now.differs_from(before) => return settled(now, asserted),
                // The frame stayed or is gone: the page around it may have moved.
                (_, Some(around)) => {
                    page.leave_frames().await?;
                    let now = page.document_state().await?;
                    if now.differs_from(around) {
                        return settled(&now, asserted);
                    }
                }
                (Err(_), None) => return here.map(drop),
                (Ok(_), None) => {}
            }
            Err(StepError::passing(FailureCode::Timeout, "the step led to no other page in time"))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

fn settled(now: &DocumentState, asserted: &[Navigation]) -> Result<(), StepError> {
    if now.ready != "complete" {
        return Err(StepError::passing(FailureCode::Timeout, format!("`{}` did not load in time", now.href)));
    }
    as_asserted(now, asserted)
}

/// Where a step leads over several pages, the last is where it must end.
fn as_asserted(now: &DocumentState, asserted: &[Navigation]) -> Result<(), StepError> {
    let Some(last) = asserted.last() else { return Ok(()) };
    let wrong = |what: &str, is: &str, should: &str| {
        let message = format!(
            "the page's {what} is `{is}`, and the recording asserts `{should}`: put `*` for what may differ, or remove it"
        );
        Err(StepError::passing(FailureCode::NavigationMismatch, message))
    };
    if let Some(url) = &last.url
        && !is_address(url, &now.href)
    {
        return wrong("address", &now.href, url);
    }
    if let Some(title) = &last.title
        && !matches_pattern(title.trim(), now.title.trim())
    {
        return wrong("title", &now.title, title);
    }
    Ok(())
}

/// Whether an address is the asserted one; its fragment counts only where the assertion has one.
fn is_address(asserted: &str, is: &str) -> bool {
    if asserted.contains('*') {
        return matches_pattern(asserted, is);
    }
    match (Url::parse(asserted), Url::parse(is)) {
        (Ok(asserted), Ok(mut is)) => {
            if asserted.fragment().is_none() {
                is.set_fragment(None);
            }
            asserted == is
        }
        _ => asserted == is,
    }
}

/// Whether a text fits a pattern in which `*` stands for anything.
pub(crate) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_compared_as_addresses() {
        for (asserted, is, same) in [
            ("http://a.test", "http://a.test/", true),
            ("http://a.test/x", "http://a.test/x#part", true),
            ("http://a.test/x#part", "http://a.test/x", false),
            ("http://a.test/x?q=1", "http://a.test/x?q=2", false),
            ("http://a.test/x?q=*", "http://a.test/x?q=2", true),
            ("*/x", "http://a.test/x", true),
            ("*/x", "http://a.test/xy", false),
        ] {
            assert_eq!(is_address(asserted, is), same, "{asserted} {is}");
        }
    }

    proptest! {
        #[test]
        fn a_star_fits_anything(a in "[ab]{0,4}", b in "[ab]{0,4}", c in "[ab]{0,4}") {
            let text = format!("{a}{b}{c}");
            let pattern = format!("{a}*{c}");
            prop_assert!(matches_pattern(&pattern, &text));
            prop_assert!(matches_pattern("*", &text) && matches_pattern(&text, &text));
            let suffixed = format!("{text}x");
            prop_assert!(!matches_pattern(&text, &suffixed));
        }
    }
}
