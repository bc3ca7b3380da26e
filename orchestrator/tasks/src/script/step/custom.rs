//! Custom steps under the prefix `lam:`, for actions that the Recorder cannot record.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::super::allowance::Allowance;
use super::super::fields::{join, read, wrong};
use super::super::schema::{self, Plan};
use super::super::selector::Selectors;
use super::super::template;
use crate::Error;
use warmpool_api::null_is_default;

/// The longest pause, in milliseconds.
const MAX_SLEEP: f64 = 600_000.0;

/// A custom step.
#[derive(Debug, Clone)]
pub(crate) enum Custom {
    /// Reads from the page into the output.
    Extract {
        /// What.
        plan: Box<Plan>,
        /// The member of the output object that holds the result; the result itself when there is none.
        member: Option<String>,
    },
    /// Takes a picture.
    Screenshot(Screenshot),
    /// Prints the page.
    Pdf(Pdf),
    /// Fails unless a text is there.
    AssertText {
        /// Where; anywhere in the page when there is none.
        selectors: Option<Selectors>,
        /// What.
        assertion: Assertion,
    },
    /// Hands files to a file input.
    Upload {
        /// Which.
        selectors: Selectors,
        /// What.
        files: Vec<File>,
    },
    /// Waits until the browser has downloaded a file.
    WaitForDownload {
        /// Its name, in which `*` stands for anything; any file when there is none.
        name: Option<String>,
    },
    /// Waits.
    Sleep(Duration),
}

/// A picture to take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Screenshot {
    /// The artifact's name, without its ending.
    pub(crate) name: Option<String>,
    /// Whether to take all of the page, not only what is in view.
    pub(crate) full_page: bool,
    /// The element to take, if not the page.
    pub(crate) selectors: Option<Selectors>,
}

/// How to print.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pdf {
    /// The artifact's name, without its ending.
    pub(crate) name: Option<String>,
    /// Whether the sheets lie on their side.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) landscape: bool,
    /// Whether backgrounds are printed.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) background: bool,
    /// How large, 1 being as large as it is.
    pub(crate) scale: Option<f64>,
    /// Width of a sheet, in centimetres.
    pub(crate) width: Option<f64>,
    /// Height of a sheet, in centimetres.
    pub(crate) height: Option<f64>,
    /// All four margins, in centimetres.
    pub(crate) margin: Option<f64>,
}

/// What a text must be.
#[derive(Debug, Clone)]
pub(crate) enum Assertion {
    /// It holds this.
    Contains(String),
    Equals(String),
    /// It matches this; `None` while the template is not filled.
    Matches(Option<Regex>),
}

/// A file for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScreenshotParameters {
    name: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    full_page: bool,
    selectors: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssertTextParameters {
    selectors: Option<Value>,
    text: Option<String>,
    equals: Option<String>,
    matches: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadParameters {
    selectors: Value,
    files: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParameters {
    name: String,
    text: Option<String>,
    base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepParameters {
    ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitForDownloadParameters {
    name: Option<String>,
}

impl Custom {
    /// Reads the custom step `name` with its parameters; `at` is the path of the step.
    pub(super) fn parse(at: &str, name: &str, parameters: &Value, allowance: &mut Allowance) -> Result<Self, Error> {
        let field = join(at, "name");
        let at = join(at, "parameters");
        let selectors = |value: &Value| Selectors::parse(&join(&at, "selectors"), value);
        Ok(match name {
            "lam:extract" => {
                let mut plan = parameters.clone();
                let member = plan.as_object_mut().and_then(|members| members.remove("as"));
                let member = match member {
                    None | Some(Value::Null) => None,
                    Some(Value::String(member)) => Some(member),
                    Some(_) => return Err(wrong(&join(&at, "as"), "must be a string")),
                };
                Self::Extract { plan: Box::new(schema::parse(&at, &plan, allowance)?), member }
            }
            "lam:screenshot" => {
                let given: ScreenshotParameters = read(&at, parameters)?;
                let selectors = given.selectors.as_ref().map(selectors).transpose()?;
                let name = given.name.map(|name| artifact(&join(&at, "name"), name)).transpose()?;
                Self::Screenshot(Screenshot { name, full_page: given.full_page, selectors })
            }
            "lam:pdf" => Self::Pdf(pdf(&at, parameters)?),
            "lam:assertText" => {
                let given: AssertTextParameters = read(&at, parameters)?;
                let selectors = given.selectors.as_ref().map(selectors).transpose()?;
                Self::AssertText { selectors, assertion: assertion(&at, given, allowance)? }
            }
            "lam:upload" => {
                let given: UploadParameters = read(&at, parameters)?;
                let files = given.files.iter().enumerate();
                let files: Vec<File> =
                    files.map(|(index, one)| file(&format!("{at}.files[{index}]"), one)).collect::<Result<_, _>>()?;
                if files.is_empty() {
                    return Err(wrong(&join(&at, "files"), "has no file"));
                }
                Self::Upload { selectors: selectors(&given.selectors)?, files }
            }
            "lam:waitForDownload" => {
                let given: WaitForDownloadParameters = read(&at, parameters)?;
                Self::WaitForDownload { name: given.name.map(|name| artifact(&join(&at, "name"), name)).transpose()? }
            }
            "lam:sleep" => {
                let given: SleepParameters = read(&at, parameters)?;
                if !(0.0..=MAX_SLEEP).contains(&given.ms) {
                    return Err(wrong(&join(&at, "ms"), "must be from 0 to 600000 milliseconds"));
                }
                Self::Sleep(Duration::from_secs_f64(given.ms / 1000.0))
            }
            _ => {
                let names = "lam:extract, lam:screenshot, lam:pdf, lam:assertText, lam:ifExists, lam:upload, \
                    lam:waitForDownload or lam:sleep";
                return Err(wrong(&field, &format!("must be {names}, and is `{name}`")));
            }
        })
    }
}

fn pdf(at: &str, parameters: &Value) -> Result<Pdf, Error> {
    let mut pdf: Pdf = read(at, parameters)?;
    pdf.name = pdf.name.map(|name| artifact(&join(at, "name"), name)).transpose()?;
    for (name, value, range) in [
        ("scale", pdf.scale, 0.1..=2.0),
        ("width", pdf.width, 2.54..=500.0),
        ("height", pdf.height, 2.54..=500.0),
        ("margin", pdf.margin, 0.0..=50.0),
    ] {
        if value.is_some_and(|value| !range.contains(&value)) {
            let message = format!("must be from {} to {}", range.start(), range.end());
            return Err(wrong(&join(at, name), &message));
        }
    }
    Ok(pdf)
}

fn assertion(at: &str, given: AssertTextParameters, allowance: &mut Allowance) -> Result<Assertion, Error> {
    match (given.text, given.equals, given.matches) {
        (Some(text), None, None) => Ok(Assertion::Contains(text)),
        (None, Some(text), None) => Ok(Assertion::Equals(text)),
        (None, None, Some(pattern)) => {
            Ok(Assertion::Matches(schema::regex(&join(at, "matches"), &pattern, allowance)?))
        }
        _ => Err(wrong(at, "must have one of `text`, `equals` and `matches`")),
    }
}

fn file(at: &str, value: &Value) -> Result<File, Error> {
    let given: FileParameters = read(at, value)?;
    let name = artifact(&join(at, "name"), given.name)?;
    let bytes = match (given.text, given.base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) if template::is_open(&text) => Vec::new(),
        (None, Some(text)) => {
            let field = join(at, "base64");
            STANDARD.decode(text).map_err(|error| wrong(&field, &format!("is not base64: {error}")))?
        }
        _ => return Err(wrong(at, "must have one of `text` and `base64`")),
    };
    Ok(File { name, bytes })
}

/// A name that is one component of a path.
fn artifact(field: &str, name: String) -> Result<String, Error> {
    let plain = !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('.')
        && !name.chars().any(|character| character.is_control() || matches!(character, '/' | '\\'));
    if plain { Ok(name) } else { Err(wrong(field, "must be a file name: 1 to 200 bytes, no slash, no dot in front")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    use super::*;

    fn parse(name: &str, parameters: Value) -> Result<Custom, Error> {
        Custom::parse("s", name, &parameters, &mut Allowance::default())
    }

    #[test]
    fn errors_name_the_wrong_member() {
        for (name, parameters, field) in [
            ("other:thing", json!({}), "s.name"),
            ("lam:dance", json!({}), "s.name"),
            ("lam:sleep", json!({}), "s.parameters"),
            ("lam:sleep", json!({"ms": -1}), "s.parameters.ms"),
            ("lam:sleep", json!({"ms": 1, "s": 1}), "s.parameters.s"),
            ("lam:assertText", json!({}), "s.parameters"),
            ("lam:assertText", json!({"text": "a", "equals": "b"}), "s.parameters"),
            ("lam:assertText", json!({"matches": "("}), "s.parameters.matches"),
            ("lam:screenshot", json!({"name": "../x"}), "s.parameters.name"),
            ("lam:waitForDownload", json!({"name": "a/*"}), "s.parameters.name"),
            ("lam:waitForDownload", json!({"file": "a"}), "s.parameters.file"),
            ("lam:screenshot", json!({"fullpage": true}), "s.parameters.fullpage"),
            ("lam:pdf", json!({"scale": 3}), "s.parameters.scale"),
            ("lam:upload", json!({"selectors": "#f", "files": []}), "s.parameters.files"),
            ("lam:upload", json!({"selectors": "#f", "files": [{"name": "a"}]}), "s.parameters.files[0]"),
            (
                "lam:upload",
                json!({"selectors": "#f", "files": [{"name": "a", "base64": "?"}]}),
                "s.parameters.files[0].base64",
            ),
            ("lam:extract", json!({"schema": {}, "as": 1}), "s.parameters.as"),
        ] {
            let error = parse(name, parameters.clone()).map(drop).unwrap_err();
            assert_eq!(error.field(), Some(field), "{name} {parameters}");
        }
    }

    #[test]
    fn parameters_may_be_null() {
        assert!(parse("lam:pdf", json!({"landscape": null, "background": null, "scale": null})).is_ok());
        assert!(parse("lam:screenshot", json!({"fullPage": null, "selectors": null})).is_ok());
        assert!(parse("lam:extract", json!({"schema": {"a": "h1"}, "as": null})).is_ok());
    }

    #[test]
    fn files_come_as_text_or_base64() {
        let files = json!([{"name": "a.txt", "text": "é"}, {"name": "b", "base64": "AAE="}]);
        let Custom::Upload { files, .. } = parse("lam:upload", json!({"selectors": "#f", "files": files})).unwrap()
        else {
            panic!("an upload")
        };
        assert_eq!((files[0].bytes.as_slice(), files[1].bytes.as_slice()), ("é".as_bytes(), &[0, 1][..]));
    }
}
