//! The tools: their names, arguments and answers.
//!
//! `page` acts on a page and shows it afterwards, `look` only reads it, `session` has tabs, dialogs and the browser
//! itself, and `task` has work in other browsers.

mod look;
mod page;
mod session;
mod task;

use std::sync::Arc;

use rmcp::model::{ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::mcp_session::{Browsing, McpSession};
use warmpool_core::error::{FieldError, closest, read_json};
use warmpool_core::panics::contained;
use warmpool_tasks::control::{ControlError, PageLocation, PageSnapshot};

/// What a tool answers.
pub(crate) type Reply = Result<Vec<ContentBlock>, ToolError>;

/// Why a tool did not do its work. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// There is no such tool.
    #[error("{message}")]
    Unknown { message: String },
    /// An argument cannot be used.
    #[error("wrong arguments: {0}")]
    Argument(#[from] FieldError),
    /// No browser could be had.
    #[error("no browser: {0}")]
    Session(#[from] warmpool_sessions::Error),
    /// The browser has ended.
    #[error("the browser has ended ({message}): call a tool again for a fresh one, and open the page anew")]
    Ended { message: String },
    /// The browser did not do what was asked for.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A page could not be read.
    #[error(transparent)]
    Page(#[from] warmpool_reading::ReadError),
    /// A profile could not be saved.
    #[error(transparent)]
    Profile(#[from] warmpool_profiles::Error),
    /// A task could not be begun, or not be found.
    #[error(transparent)]
    Task(#[from] warmpool_tasks::Error),
    /// Something else did not work.
    #[error("{message}")]
    Failed { message: String },
}

impl ToolError {
    fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into() }
    }
}

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Acts,
}

macro_rules! tools {
    ($($name:literal, $effect:ident, $arguments:ty, $work:path, $about:literal;)+) => {
        /// Every tool, as clients list them.
        pub(crate) fn all() -> Vec<Tool> {
            vec![$(described::<$arguments>($name, Effect::$effect, $about)),+]
        }

        const NAMES: &[&str] = &[$($name),+];

        async fn dispatch(mcp: &Arc<McpSession>, name: &str, arguments: JsonObject) -> Reply {
            match name {
                $($name => $work(mcp, read::<$arguments>(arguments)?).await,)+
                _ => Err(ToolError::Unknown { message: unknown(name) }),
            }
        }
    };
}

tools! {
    "browser_navigate", Acts, page::Navigate, page::navigate, "Open an address in the current tab.";
    "browser_navigate_back", Acts, page::Nothing, page::navigate_back, "Go back to the page before.";
    "browser_snapshot", Reads, look::Snapshot, look::snapshot, "Show the page as a tree of roles, names and states, with references to act on. Better than a screenshot.";
    "browser_click", Acts, page::Click, page::click, "Click on an element.";
    "browser_type", Acts, page::Type, page::type_text, "Set the text of a field.";
    "browser_fill_form", Acts, page::FillForm, page::fill_form, "Fill several fields of a form.";
    "browser_select_option", Acts, page::SelectOption, page::select_option, "Choose options of a list.";
    "browser_hover", Acts, page::Hover, page::hover, "Move the pointer onto an element.";
    "browser_drag", Acts, page::Drag, page::drag, "Drag one element onto another.";
    "browser_press_key", Acts, page::PressKey, page::press_key, "Press a key, such as Enter or Control+a.";
    "browser_take_screenshot", Reads, look::Screenshot, look::screenshot, "Take a picture of what is seen, of the whole page or of an element. To act, take a snapshot instead.";
    "browser_tabs", Acts, session::Tabs, session::tabs, "List tabs; open, choose or close one.";
    "browser_wait_for", Reads, look::WaitFor, look::wait_for, "Wait for a text to come or to go, or for a time.";
    "browser_handle_dialog", Acts, session::HandleDialog, session::handle_dialog, "Answer the dialog that a page shows.";
    "browser_file_upload", Acts, session::FileUpload, session::file_upload, "Hand files to the file input that was clicked.";
    "browser_evaluate", Acts, look::Evaluate, look::evaluate, "Run a JavaScript function in the page.";
    "browser_console_messages", Reads, look::ConsoleMessages, look::console_messages, "List what the page wrote to its console.";
    "browser_network_requests", Reads, look::NetworkRequests, look::network_requests, "List the requests of the page.";
    "browser_pdf_save", Reads, look::PdfSave, look::pdf_save, "Print the page as a PDF into the session's files.";
    "browser_resize", Acts, session::Resize, session::resize, "Make the page larger or smaller.";
    "browser_close", Acts, page::Nothing, session::close, "Give the browser back. The next tool gets a fresh one.";
    "read", Reads, look::Read, look::read, "Read the main content of the page as Markdown, with title, links and metadata.";
    "run_task", Acts, task::RunTask, task::run, "Have Warmpool play a recording, read a page by a schema, or do either for many inputs, in browsers of its own, and wait for the result.";
    "live_view_url", Reads, session::LiveViewUrl, session::live_view_url, "Make a link by which a person watches this browser, and helps where `enable_actions` says so.";
    "save_profile", Acts, session::SaveProfile, session::save_profile, "Keep the logins of this browser as a profile, with which later sessions begin.";
}

/// Carries a tool call out. A panic in it is that call's alone: whoever asks gets an answer.
pub(crate) async fn call(mcp: &Arc<McpSession>, name: &str, arguments: JsonObject) -> Reply {
    let done = contained(dispatch(mcp, name, arguments)).await;
    done.unwrap_or_else(|_| Err(ToolError::failed("an internal error: the daemon's log has the cause")))
}

fn described<T: JsonSchema>(name: &'static str, effect: Effect, about: &'static str) -> Tool {
    // Some models' interfaces take no references.
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let settings = settings.with_transform(RecursiveTransform(leave_out_null));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    let schema = match schema.to_value() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let annotations = ToolAnnotations::new().read_only(effect == Effect::Reads).open_world(true);
    Tool::new(name, about, schema).with_annotations(annotations)
}

/// Says of what may be left out only what it is otherwise. `null` is taken, too; but some models' interfaces take one type for a
/// value and no more.
fn leave_out_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice["type"] != "null");
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        schema.remove("anyOf");
        for (name, value) in only {
            // What the field says of itself is more than what its type says.
            schema.ensure_object().entry(name).or_insert(value);
        }
    }
}

fn unknown(name: &str) -> String {
    let name: String = name.chars().take(100).collect();
    let meant = closest(&name, NAMES.iter().copied()).map(|meant| format!(": did you mean {meant}?"));
    format!("there is no tool `{name}`{}", meant.unwrap_or_default())
}

/// Reads the arguments of a tool; an error names the one that is wrong.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ToolError> {
    Ok(read_json(Value::Object(arguments))?)
}

/// What is told of the page behind an action: where it is, what it waits for, and what it shows.
async fn shown(browsing: &mut Browsing, said: &str) -> Reply {
    let mut text = format!("{said}\n");
    match browsing.control.look(None, None, false).await {
        Ok(look) => text.push_str(&told(browsing, &look).await),
        Err(ControlError::Dialog { message }) => {
            text.push_str(&format!("The page shows the dialog {message:?}: answer it by browser_handle_dialog."));
        }
        Err(error) => {
            let place = browsing.control.place().await;
            text.push_str(&place_told(browsing, &place).await);
            text.push_str(&format!("\nThere is no snapshot: {error}"));
        }
    }
    Ok(vec![ContentBlock::text(text)])
}

/// A page as it was seen.
async fn told(browsing: &mut Browsing, look: &PageSnapshot) -> String {
    let place = place_told(browsing, &look.place).await;
    format!("{place}\n```yaml\n{}```", look.snapshot)
}

/// Looks where the chosen tab is, so that its log is known; returns the tab's name.
async fn look_now(browsing: &mut Browsing) -> String {
    let tab = browsing.control.tab_id();
    let origin = browsing.control.place().await.origin;
    browsing.log.look(&tab, origin);
    tab
}

/// The page's address and title, and how many tabs there are.
async fn place_told(browsing: &mut Browsing, place: &PageLocation) -> String {
    browsing.log.look(&browsing.control.tab_id(), place.origin);
    let mut text = format!("Page URL: {}\nPage title: {}", place.url, Value::from(place.title.as_str()));
    let tabs = browsing.control.count_tabs().await;
    if tabs > 1 {
        text.push_str(&format!("\nOpen tabs: {tabs} (browser_tabs lists them)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_tool_has_a_schema_of_an_object() {
        for tool in all() {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert!(tool.description.is_some_and(|about| !about.is_empty()));
        }
    }

    #[test]
    fn schemas_are_those_that_every_model_takes() {
        for tool in all() {
            let schema = Value::from((*tool.input_schema).clone());
            let text = schema.to_string();
            for rare in ["null", "$ref", "anyOf"] {
                assert!(!text.contains(&format!("\"{rare}\"")), "{}: {text}", tool.name);
            }
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{}: {name}", tool.name);
            }
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        for (arguments, name) in
            [(json!({}), "url"), (json!({"url": 1}), "url"), (json!({"url": "http://a/", "wrong": 1}), "wrong")]
        {
            let error = read::<page::Navigate>(object(arguments)).err().unwrap().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
        assert!(unknown("browser_navigat").contains("browser_navigate"));
    }
}
