//! Tools that act on a page, and show it afterwards.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reply, ToolError, shown};
use crate::mcp_session::McpSession;
use warmpool_tasks::control::{Button, FieldKind, FormField, Modifier};

/// No arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Where to go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Navigate {
    /// The address: http, https or data.
    url: String,
}

/// What is clicked, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Click {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// A reference of a snapshot, such as e5, or a selector of one element.
    #[serde(alias = "ref")]
    target: String,
    /// Whether to click twice.
    double_click: Option<bool>,
    /// The button: the left one where it is left out.
    button: Option<ButtonName>,
    /// Keys that are held meanwhile.
    modifiers: Option<Vec<ModifierName>>,
}

/// A button of the mouse.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum ButtonName {
    Left,
    Right,
    Middle,
}

/// A key that is held.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum ModifierName {
    Alt,
    Control,
    ControlOrMeta,
    Meta,
    Shift,
}

/// What is typed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Type {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// A reference of a snapshot, such as e5, or a selector of one element.
    #[serde(alias = "ref")]
    target: String,
    /// The text. It takes the place of what the field holds.
    text: String,
    /// Whether to press Enter afterwards.
    submit: Option<bool>,
    /// Whether to type key by key behind what the field holds, for pages that watch keys.
    slowly: Option<bool>,
}

/// Fields and their values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FillForm {
    /// The fields.
    fields: Vec<Field>,
}

/// A field and its value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct Field {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// A reference of a snapshot, such as e5, or a selector of one element.
    #[serde(alias = "ref")]
    target: String,
    /// The field's name, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    name: Option<String>,
    /// What the field is.
    #[serde(rename = "type")]
    kind: FieldType,
    /// The text or the option; `true` or `false` for a checkbox or a radio button.
    value: String,
}

/// What a field is.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum FieldType {
    Textbox,
    Checkbox,
    Radio,
    Combobox,
    Slider,
}

/// The options of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelectOption {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// A reference of a snapshot, such as e5, or a selector of one element.
    #[serde(alias = "ref")]
    target: String,
    /// The options, by their values or what people read.
    values: Vec<String>,
}

/// What the pointer moves onto.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Hover {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// A reference of a snapshot, such as e5, or a selector of one element.
    #[serde(alias = "ref")]
    target: String,
}

/// What is dragged, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Drag {
    /// What the first element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    start_element: Option<String>,
    /// The element to drag: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "startRef")]
    start_target: String,
    /// What the second element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    end_element: Option<String>,
    /// Where to drop it: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "endRef")]
    end_target: String,
}

/// A key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PressKey {
    /// The key's name, such as ArrowLeft, or a character; also with others, such as Control+a.
    key: String,
}

impl From<ButtonName> for Button {
    fn from(name: ButtonName) -> Self {
        match name {
            ButtonName::Left => Self::Left,
            ButtonName::Right => Self::Right,
            ButtonName::Middle => Self::Middle,
        }
    }
}

impl From<ModifierName> for Modifier {
    fn from(name: ModifierName) -> Self {
        match name {
            ModifierName::Alt => Self::Alt,
            // The browsers run on Linux.
            ModifierName::Control | ModifierName::ControlOrMeta => Self::Control,
            ModifierName::Meta => Self::Meta,
            ModifierName::Shift => Self::Shift,
        }
    }
}

pub(super) async fn navigate(mcp: &Arc<McpSession>, given: Navigate) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.navigate(&given.url).await?;
    shown(&mut browsing, "The page is open.").await
}

pub(super) async fn navigate_back(mcp: &Arc<McpSession>, _: Nothing) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.back().await?;
    shown(&mut browsing, "The page before is open.").await
}

pub(super) async fn click(mcp: &Arc<McpSession>, given: Click) -> Reply {
    let mut browsing = mcp.browser().await?;
    let held: Vec<Modifier> = given.modifiers.unwrap_or_default().into_iter().map(Into::into).collect();
    let button = given.button.map_or(Button::Left, Into::into);
    let waits = browsing.control.click(&given.target, button, given.double_click == Some(true), &held).await?;
    let said = if waits { "It waits for files: hand them over by browser_file_upload." } else { "It was clicked." };
    shown(&mut browsing, said).await
}

pub(super) async fn type_text(mcp: &Arc<McpSession>, given: Type) -> Reply {
    let mut browsing = mcp.browser().await?;
    let (slowly, submit) = (given.slowly == Some(true), given.submit == Some(true));
    browsing.control.type_text(&given.target, &given.text, slowly, submit).await?;
    shown(&mut browsing, "The text was typed.").await
}

pub(super) async fn fill_form(mcp: &Arc<McpSession>, given: FillForm) -> Reply {
    let mut fields = Vec::with_capacity(given.fields.len());
    for (at, field) in given.fields.into_iter().enumerate() {
        let kind = match field.kind {
            FieldType::Textbox | FieldType::Slider => FieldKind::Text,
            FieldType::Combobox => FieldKind::Options,
            FieldType::Checkbox | FieldType::Radio => FieldKind::Checkbox,
        };
        if kind == FieldKind::Checkbox && !matches!(field.value.as_str(), "true" | "false") {
            return Err(ToolError::failed(format!("`fields[{at}].value` must be \"true\" or \"false\"")));
        }
        fields.push(FormField { target: field.target, kind, value: field.value });
    }
    let mut browsing = mcp.browser().await?;
    browsing.control.fill(&fields).await?;
    shown(&mut browsing, "The form was filled.").await
}

pub(super) async fn select_option(mcp: &Arc<McpSession>, given: SelectOption) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.select(&given.target, &given.values).await?;
    shown(&mut browsing, "The options were chosen.").await
}

pub(super) async fn hover(mcp: &Arc<McpSession>, given: Hover) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.hover(&given.target).await?;
    shown(&mut browsing, "The pointer is there.").await
}

pub(super) async fn drag(mcp: &Arc<McpSession>, given: Drag) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.drag(&given.start_target, &given.end_target).await?;
    shown(&mut browsing, "It was dragged.").await
}

pub(super) async fn press_key(mcp: &Arc<McpSession>, given: PressKey) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.press(&given.key).await?;
    shown(&mut browsing, "The key was pressed.").await
}
