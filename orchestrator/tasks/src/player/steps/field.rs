//! Fields of forms.

use fantoccini::elements::Element;
use serde::Deserialize;
use serde_json::json;

use super::super::page::{Page, Readiness, explain};
use super::super::playback::{Playback, StepTimeout};
use super::super::retry::Retry;
use crate::script::selector::Selectors;
use crate::script::step::{File, is_special};
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;

/// A longer value, in bytes, is set at once instead of typed.
const TYPED: usize = 500;

/// Sets the value of a field: typed where people would type it.
pub(in crate::player) async fn change(
    page: &mut Page,
    selectors: &Selectors,
    value: &str,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let mut retry = Retry::until(timeout.deadline);
    loop {
        if let Some(result) = retry.attempt(change_now(page, selectors, value)).await {
            return result;
        }
    }
}

async fn change_now(page: &Page, selectors: &Selectors, value: &str) -> Result<(), StepError> {
    #[derive(Deserialize)]
    struct Filled {
        typed: bool,
    }
    let found = page.find_now(selectors, Readiness::Enabled, None).await?;
    let by_script = value.len() > TYPED || !value.chars().all(|character| can_be_typed(page.engine, character));
    let arguments = vec![found.handle, json!(value), json!(by_script)];
    let filled: Filled = page.call("fill", arguments).await.map_err(|error| explain(error, selectors))?;
    if !filled.typed {
        found.element.send_keys(value).await?;
    }
    Ok(())
}

/// Drivers take some characters for keys, and cannot type those beyond the first plane; WebKit's types what is on its
/// keyboard, and leaves out the rest.
fn can_be_typed(engine: Engine, character: char) -> bool {
    let is_plain = !is_special(character) && !character.is_control() && u32::from(character) < 0x1_0000;
    is_plain && (engine != Engine::Webkit || character.is_ascii())
}

/// Hands files to a file input: first to the session, then to the page.
pub(super) async fn upload(
    playback: &mut Playback<'_>,
    selectors: &Selectors,
    files: &[File],
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let element = file_input(playback.page()?, selectors, files.len(), timeout).await?;
    let mut paths = Vec::with_capacity(files.len());
    for file in files {
        paths.push(playback.browser.put_file(&file.name, file.bytes.clone()).await?);
    }
    element.send_keys(&paths.join("\n")).await?;
    Ok(())
}

/// A file input that takes so many files at once.
pub(in crate::player) async fn file_input(
    page: &Page,
    selectors: &Selectors,
    files: usize,
    timeout: StepTimeout,
) -> Result<Element, StepError> {
    #[derive(Deserialize)]
    struct Input {
        multiple: bool,
    }
    let found = page.find(selectors, Readiness::Present, None, timeout.deadline).await?;
    let input: Input = page.call("file_input", vec![found.handle]).await.map_err(|error| explain(error, selectors))?;
    if files > 1 && !input.multiple {
        return Err(StepError::new(FailureCode::NotReady, format!("{selectors} takes one file only")));
    }
    Ok(found.element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_keys_of_drivers_are_not_typed() {
        let typed = |engine, text: &str| text.chars().all(|character| can_be_typed(engine, character));
        assert!(typed(Engine::Chromium, "tea, thé & 茶") && typed(Engine::Webkit, "tea & more"));
        assert!(!typed(Engine::Webkit, "thé"));
        for text in ["a\u{E007}", "line\nline", "🍵"] {
            assert!(!typed(Engine::Firefox, text), "{text:?}");
        }
    }
}
