//! One step of a recording.

mod custom;
mod emulation;
mod key;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::{ParseError, Url};

pub(crate) use custom::File;
pub(crate) use custom::{Assertion, Custom, Pdf, Screenshot};
use emulation::viewport;
pub(crate) use emulation::{Network, Viewport};
pub(crate) use key::Key;
pub(crate) use key::is_special;

use super::allowance::Allowance;
use super::fields::{join, read, wrong};
use super::selector::Selectors;
use super::template;
use crate::Error;

/// How deep steps may be nested.
const MAX_DEPTH: usize = 8;

/// What the Recorder allows a step, in milliseconds.
const TIMEOUTS: std::ops::RangeInclusive<f64> = 1.0..=30_000.0;

/// One step.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its type, or the name of a custom step.
    pub(crate) kind: String,
    /// How long it may take, where it says so.
    pub(crate) timeout: Option<Duration>,
    /// The address of the window it is for, where that is not the first one.
    pub(crate) target: Option<String>,
    /// The way through frames, by index.
    pub(crate) frame: Vec<usize>,
    /// The navigations that it must lead to.
    pub(crate) asserted: Vec<Navigation>,
    /// What it does.
    pub(crate) action: Action,
}

/// A navigation that must happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Navigation {
    /// The address it must lead to; `*` stands for anything.
    pub(crate) url: Option<String>,
    /// The title that the page must have; `*` stands for anything.
    pub(crate) title: Option<String>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Navigate {
        url: String,
    },
    SetViewport(Viewport),
    Click(Click),
    Hover {
        selectors: Selectors,
    },
    Change {
        selectors: Selectors,
        value: String,
    },
    KeyDown {
        key: Key,
    },
    KeyUp {
        key: Key,
    },
    Scroll {
        selectors: Option<Selectors>,
        x: f64,
        y: f64,
    },
    EmulateNetwork(Network),
    Close,
    WaitForElement(WaitForElement),
    WaitForExpression {
        expression: String,
    },
    /// `lam:ifExists`: the first list of steps if the element is there, otherwise the second.
    IfExists {
        selectors: Selectors,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Custom(Custom),
}

/// A click, or two.
#[derive(Debug, Clone)]
pub(crate) struct Click {
    pub(crate) selectors: Selectors,
    /// Where, from the element's left upper corner, in CSS pixels; in its middle where there is none.
    pub(crate) offset: Option<(f64, f64)>,
    /// With which button, as the Pointer Events count them.
    pub(crate) button: u64,
    pub(crate) device: Device,
    /// How long the button stays down.
    pub(crate) duration: Duration,
    /// 1, or 2 for a double click.
    pub(crate) count: usize,
}

/// What points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Device {
    #[default]
    Mouse,
    Pen,
    Touch,
}

/// A condition on the number of elements.
#[derive(Debug, Clone)]
pub(crate) struct WaitForElement {
    pub(crate) selectors: Selectors,
    /// How their number compares to `count`.
    pub(crate) operator: Operator,
    /// How many.
    pub(crate) count: f64,
    /// Whether the condition must hold; where not, it must not hold of those that can be seen.
    pub(crate) visible: bool,
    /// Properties that each must have.
    pub(crate) properties: Map<String, Value>,
    /// Attributes that each must have.
    pub(crate) attributes: Map<String, Value>,
}

/// How two numbers compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Operator {
    #[default]
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "==")]
    Exactly,
    #[serde(rename = "<=")]
    AtMost,
}

impl Operator {
    /// As it is written.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::Exactly => "==",
            Self::AtMost => "<=",
        }
    }
}

/// What every step may say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Common {
    timeout: Option<f64>,
    target: Option<String>,
    frame: Option<Vec<usize>>,
    asserted_events: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepMembers {
    offset_x: Option<f64>,
    offset_y: Option<f64>,
    duration: Option<f64>,
    button: Option<String>,
    device_type: Option<Device>,
    url: Option<String>,
    value: Option<String>,
    key: Option<String>,
    expression: Option<String>,
    x: Option<f64>,
    y: Option<f64>,
    operator: Option<Operator>,
    count: Option<f64>,
    visible: Option<bool>,
    properties: Option<Map<String, Value>>,
    attributes: Option<Map<String, Value>>,
}

/// A whole number of milliseconds.
pub(super) fn milliseconds(field: &str, value: f64) -> Result<Duration, Error> {
    if TIMEOUTS.contains(&value) {
        return Ok(Duration::from_secs_f64(value / 1000.0));
    }
    Err(wrong(field, "must be from 1 to 30000 milliseconds"))
}

/// Reads a list of steps. `depth` is how deep they are nested in other steps.
/// Errors: `Field`.
pub(crate) fn parse_list(at: &str, value: &Value, depth: usize, allowance: &mut Allowance) -> Result<Vec<Step>, Error> {
    let list = value.as_array().ok_or_else(|| wrong(at, "must be a list of steps"))?;
    allowance.take_steps(at, list.len())?;
    list.iter()
        .enumerate()
        .map(|(index, step)| Step::parse(&format!("{at}[{index}]"), step, depth, allowance))
        .collect()
}

impl Step {
    /// Reads one step at path `at`; `depth` is how deep it is nested in others.
    fn parse(at: &str, value: &Value, depth: usize, allowance: &mut Allowance) -> Result<Self, Error> {
        if !value.is_object() {
            return Err(wrong(at, "must be an object"));
        }
        let kind = value["type"].as_str().ok_or_else(|| wrong(&join(at, "type"), "must name the step's type"))?;
        let common: Common = read(at, value)?;
        let timeout = common.timeout.map(|value| milliseconds(&join(at, "timeout"), value)).transpose()?;
        let asserted = common.asserted_events.unwrap_or_default();
        let asserted = asserted
            .iter()
            .enumerate()
            .map(|(index, event)| navigation(&format!("{at}.assertedEvents[{index}]"), event))
            .collect::<Result<_, _>>()?;
        let mut step = Self {
            kind: kind.to_owned(),
            timeout,
            target: common.target.filter(|target| target != "main"),
            frame: common.frame.unwrap_or_default(),
            asserted,
            action: Action::Close,
        };
        if kind == "customStep" {
            let name = value["name"].as_str().ok_or_else(|| wrong(&join(at, "name"), "must name the custom step"))?;
            let none = json!({});
            let parameters = value.get("parameters").filter(|value| !value.is_null()).unwrap_or(&none);
            name.clone_into(&mut step.kind);
            step.action = match name {
                "lam:ifExists" if depth >= MAX_DEPTH => {
                    return Err(wrong(&join(at, "name"), &format!("is nested in more than {MAX_DEPTH} others")));
                }
                "lam:ifExists" => if_exists(&join(at, "parameters"), parameters, depth, allowance)?,
                _ => Action::Custom(Custom::parse(at, name, parameters, allowance)?),
            };
        } else {
            step.action = action(kind, at, value)?;
        }
        Ok(step)
    }
}

fn if_exists(at: &str, parameters: &Value, depth: usize, allowance: &mut Allowance) -> Result<Action, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct IfExistsParameters {
        selectors: Value,
        steps: Value,
        r#else: Option<Value>,
    }
    let given: IfExistsParameters = read(at, parameters)?;
    let otherwise =
        given.r#else.map(|steps| parse_list(&join(at, "else"), &steps, depth + 1, allowance)).transpose()?;
    Ok(Action::IfExists {
        selectors: Selectors::parse(&join(at, "selectors"), &given.selectors)?,
        then: parse_list(&join(at, "steps"), &given.steps, depth + 1, allowance)?,
        otherwise: otherwise.unwrap_or_default(),
    })
}

fn action(kind: &str, at: &str, value: &Value) -> Result<Action, Error> {
    let given: StepMembers = read(at, value)?;
    let selectors = || Selectors::parse_list(&join(at, "selectors"), &value["selectors"]);
    let missing = |name: &str| wrong(&join(at, name), &format!("is missing: a `{kind}` step needs it"));
    let number = |name: &str, value: Option<f64>| value.ok_or_else(|| missing(name));
    let text = |name: &str, value: Option<String>| value.ok_or_else(|| missing(name));
    let click = |given: StepMembers, count: usize| -> Result<Action, Error> {
        let held = given.duration.unwrap_or_default();
        if !(0.0..=30_000.0).contains(&held) {
            return Err(wrong(&join(at, "duration"), "must be from 0 to 30000 milliseconds"));
        }
        Ok(Action::Click(Click {
            selectors: selectors()?,
            offset: Some((number("offsetX", given.offset_x)?, number("offsetY", given.offset_y)?)),
            button: button(&join(at, "button"), given.button.as_deref())?,
            device: given.device_type.unwrap_or_default(),
            duration: Duration::from_secs_f64(held / 1000.0),
            count,
        }))
    };
    Ok(match kind {
        "navigate" => Action::Navigate { url: page(&join(at, "url"), text("url", given.url)?)? },
        "setViewport" => Action::SetViewport(viewport(at, value)?),
        "click" => click(given, 1)?,
        "doubleClick" => click(given, 2)?,
        "hover" => Action::Hover { selectors: selectors()? },
        "change" => Action::Change { selectors: selectors()?, value: text("value", given.value)? },
        "keyDown" => Action::KeyDown { key: Key::parse(&join(at, "key"), &text("key", given.key)?)? },
        "keyUp" => Action::KeyUp { key: Key::parse(&join(at, "key"), &text("key", given.key)?)? },
        "scroll" => Action::Scroll {
            selectors: value.get("selectors").is_some().then(selectors).transpose()?,
            x: given.x.unwrap_or_default(),
            y: given.y.unwrap_or_default(),
        },
        "emulateNetworkConditions" => Action::EmulateNetwork(read(at, value)?),
        "close" => Action::Close,
        "waitForElement" => Action::WaitForElement(WaitForElement {
            selectors: selectors()?,
            operator: given.operator.unwrap_or_default(),
            count: given.count.unwrap_or(1.0),
            visible: given.visible.unwrap_or(true),
            properties: given.properties.unwrap_or_default(),
            attributes: attributes(&join(at, "attributes"), given.attributes)?,
        }),
        "waitForExpression" => Action::WaitForExpression { expression: text("expression", given.expression)? },
        _ => {
            let types = "navigate, setViewport, click, doubleClick, hover, change, keyDown, keyUp, scroll, \
                emulateNetworkConditions, close, waitForElement, waitForExpression or customStep";
            return Err(wrong(&join(at, "type"), &format!("must be {types}, and is `{kind}`")));
        }
    })
}

fn attributes(field: &str, value: Option<Map<String, Value>>) -> Result<Map<String, Value>, Error> {
    let attributes = value.unwrap_or_default();
    match attributes.iter().find(|(_, value)| !value.is_string()) {
        Some((name, _)) => Err(wrong(&join(field, name), "must be a string")),
        None => Ok(attributes),
    }
}

fn button(field: &str, name: Option<&str>) -> Result<u64, Error> {
    match name {
        None | Some("primary") => Ok(0),
        Some("auxiliary") => Ok(1),
        Some("secondary") => Ok(2),
        Some("back") => Ok(3),
        Some("forward") => Ok(4),
        Some(_) => Err(wrong(field, "must be primary, auxiliary, secondary, back or forward")),
    }
}

fn navigation(at: &str, value: &Value) -> Result<Navigation, Error> {
    #[derive(Deserialize)]
    struct NavigationMembers {
        r#type: String,
        url: Option<String>,
        title: Option<String>,
    }
    let given: NavigationMembers = read(at, value)?;
    if given.r#type != "navigation" {
        return Err(wrong(&join(at, "type"), "must be `navigation`"));
    }
    // The Recorder writes an empty title where it saw none yet.
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(Navigation { url: some(given.url), title: some(given.title) })
}

/// An address to open: one that a client could open by itself, and nothing inside the container.
pub(crate) fn page(field: &str, text: String) -> Result<String, Error> {
    if template::is_open(&text) {
        return Ok(text);
    }
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https" | "data") || url.as_str() == "about:blank" => Ok(url.into()),
        Ok(_) => Err(wrong(field, "must be http, https or data, or about:blank")),
        Err(ParseError::RelativeUrlWithoutBase) => {
            Err(wrong(field, "is not a whole URL: begin it with its scheme, as in https://shop.example/"))
        }
        Err(error) => Err(wrong(field, &format!("is not a URL: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    fn parse_list(at: &str, value: &Value, depth: usize) -> Result<Vec<Step>, Error> {
        super::parse_list(at, value, depth, &mut Allowance::default())
    }

    fn field_of(step: Value) -> String {
        let error = parse_list("steps", &json!([step]), 0).unwrap_err();
        error.field().unwrap_or_default().to_owned()
    }

    fn click(more: Value) -> Value {
        let mut step = json!({"type": "click", "selectors": [["#a"]], "offsetX": 1, "offsetY": 2.5});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    }

    #[test]
    fn errors_name_the_wrong_member() {
        for (step, field) in [
            (json!(1), "steps[0]"),
            (json!({}), "steps[0].type"),
            (json!({"type": "dance"}), "steps[0].type"),
            (json!({"type": "navigate"}), "steps[0].url"),
            (json!({"type": "navigate", "url": "file:///etc/passwd"}), "steps[0].url"),
            (json!({"type": "navigate", "url": "javascript:alert(1)"}), "steps[0].url"),
            (json!({"type": "click", "selectors": ["#a"], "offsetX": 1}), "steps[0].offsetY"),
            (json!({"type": "hover"}), "steps[0].selectors"),
            (json!({"type": "hover", "selectors": []}), "steps[0].selectors"),
            (json!({"type": "hover", "selectors": ["#a"], "timeout": 0}), "steps[0].timeout"),
            (json!({"type": "hover", "selectors": ["#a"], "timeout": 30_001}), "steps[0].timeout"),
            (json!({"type": "hover", "selectors": ["#a"], "frame": [-1]}), "steps[0].frame[0]"),
            (click(json!({"button": "left"})), "steps[0].button"),
            (click(json!({"deviceType": "nose"})), "steps[0].deviceType"),
            (click(json!({"duration": -1})), "steps[0].duration"),
            (click(json!({"assertedEvents": [{"type": "alert"}]})), "steps[0].assertedEvents[0].type"),
            (json!({"type": "keyDown", "key": "Nonsense"}), "steps[0].key"),
            (json!({"type": "waitForElement", "selectors": ["#a"], "operator": "<"}), "steps[0].operator"),
            (json!({"type": "waitForElement", "selectors": ["#a"], "attributes": {"a": 1}}), "steps[0].attributes.a"),
            (json!({"type": "setViewport", "width": 0, "height": 1}), "steps[0].width"),
            (json!({"type": "emulateNetworkConditions", "download": 1, "upload": 1}), "steps[0]"),
            (json!({"type": "customStep"}), "steps[0].name"),
            (
                json!({"type": "customStep", "name": "lam:ifExists", "parameters":
                    {"selectors": "#f", "steps": [{"type": "x"}]}}),
                "steps[0].parameters.steps[0].type",
            ),
        ] {
            assert_eq!(field_of(step.clone()), field, "{step}");
        }
    }

    #[test]
    fn all_members_of_a_click_are_parsed() {
        let step = click(json!({"button": "secondary", "deviceType": "touch", "duration": 80, "target": "main",
            "frame": [0, 2], "timeout": 100, "assertedEvents": [{"type": "navigation", "url": "http://a/", "title": ""}],
            "something": "of a later Recorder"}));
        let step = parse_list("steps", &json!([step]), 0).unwrap().remove(0);
        assert_eq!((step.target, step.frame, step.timeout), (None, vec![0, 2], Some(Duration::from_millis(100))));
        assert_eq!(step.asserted, [Navigation { url: Some("http://a/".to_owned()), title: None }]);
        let Action::Click(click) = step.action else { panic!("a click") };
        assert_eq!((click.button, click.device, click.count), (2, Device::Touch, 1));
        assert_eq!((click.offset, click.duration), (Some((1.0, 2.5)), Duration::from_millis(80)));
    }

    #[test]
    fn nesting_of_steps_is_limited() {
        let mut step = json!({"type": "close"});
        for _ in 0..20 {
            step = json!({"type": "customStep", "name": "lam:ifExists", "parameters": {"selectors": "a", "steps": [step]}});
        }
        assert!(parse_list("steps", &json!([step]), 0).is_err());
    }

    #[test]
    fn addresses_may_wait_for_their_input() {
        let step = json!({"type": "navigate", "url": "{{input.site}}/form"});
        assert!(parse_list("steps", &json!([step]), 0).is_ok());
    }
}
