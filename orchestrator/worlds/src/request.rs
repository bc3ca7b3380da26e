//! What a request to generate a world may say, checked: pure.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;
use warmpool_api::world::{Environment, ItemKind};

use super::record::{Content, ContentItem, upload_file};
use crate::Error;
use warmpool_core::error::{FieldFault as _, ServiceFault as _};

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most images.
    pub images: usize,
    /// Most videos.
    pub videos: usize,
    /// Most belongings.
    pub belongings: usize,
}

/// The longest patient id or name, in characters.
const MAX_NAME: usize = 200;
/// The longest label, in characters.
const MAX_LABEL: usize = 120;
/// The longest URL, in bytes.
const MAX_URL: usize = 1000;
/// The longest variation, in characters.
const MAX_VARIATION: usize = 64;
/// The bytes that a world's content may take as JSON: it stands encrypted and in base64 in a record of which the store takes 64 KiB.
const MAX_CONTENT: usize = 46 << 10;
/// The bytes of labels that a row of the log repeats: one label always fits. A row is a summary, and the world has all labels; with
/// them the rows of a log would have fifteen times this size.
const MAX_LOGGED: usize = 512;
/// What an item's content grows by until its scene is rendered: the name of its file, its place and four corners, as twelve numbers of
/// at most 24 characters.
const ITEM_GROWTH: usize = 460;

/// A request as it comes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    rename = "GenerateWorld",
    extend("required" = ["patient_id", "patient_name", "environment_type"])
)]
pub struct GenerateRequest {
    /// The integration key; the header `x-api-key` may carry it instead.
    api_key: Option<String>,
    #[schemars(with = "String", length(min = 1, max = 200))]
    patient_id: Option<String>,
    #[schemars(with = "String", length(min = 1, max = 200))]
    patient_name: Option<String>,
    #[schemars(with = "Environment")]
    environment_type: Option<String>,
    /// Another number or text gives another scene.
    variation: Option<Variation>,
    images: Option<Vec<Attached>>,
    videos: Option<Vec<Attached>>,
    belongings: Option<Vec<Attached>>,
    /// Seconds that the answer may wait for the world's end.
    #[schemars(extend("default" = 0))]
    pub wait: Option<u64>,
}

/// A number or a short text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Variation {
    Number(u64),
    Text(#[schemars(length(max = MAX_VARIATION))] String),
}

/// One image, video or belonging as it comes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Attachment")]
struct Attached {
    /// Where its picture is: an address of `http` or `https`, of 1000 bytes at most. Either this or `data`; a belonging may do without.
    #[schemars(length(max = MAX_URL))]
    url: Option<String>,
    /// Its picture: JPEG, PNG or WebP in base64.
    data: Option<String>,
    #[schemars(length(max = 120))]
    label: Option<String>,
}

/// The name of a request's list of such items.
const fn field_of(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Image => "images",
        ItemKind::Video => "videos",
        ItemKind::Belonging => "belongings",
    }
}

/// Where the picture of an item comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// It has none: a belonging that is modelled by its label.
    None,
    /// These bytes, not decoded yet.
    Data(Bytes),
    /// This address.
    Url(Url),
}

/// One item, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub kind: ItemKind,
    pub label: String,
    pub source: Source,
    /// Its place in the request, as in `images[2]`.
    pub field: String,
}

/// A request, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldRequest {
    pub(crate) patient_id: String,
    pub(crate) patient_name: String,
    pub(crate) environment: Environment,
    pub(crate) variation: String,
    pub(crate) items: Vec<Item>,
}

impl WorldRequest {
    /// Checks a request.
    /// Errors: `InvalidField`, which names the field and the remedy.
    pub fn check(request: GenerateRequest, limits: Limits) -> Result<Self, Error> {
        let patient_id = name("patient_id", request.patient_id)?;
        let patient_name = name("patient_name", request.patient_name)?;
        let known = Environment::ALL.map(Environment::as_str).join(", ");
        let environment = request
            .environment_type
            .as_deref()
            .and_then(Environment::named)
            .ok_or_else(|| Error::invalid("environment_type", format!("must be one of {known}")))?;
        let variation = match request.variation {
            None => String::new(),
            Some(Variation::Number(number)) => number.to_string(),
            Some(Variation::Text(text)) if text.chars().count() <= MAX_VARIATION => text,
            Some(Variation::Text(_)) => {
                let message = format!("must be a number or a text of at most {MAX_VARIATION} characters");
                return Err(Error::invalid("variation", message));
            }
        };
        let mut items = Vec::new();
        for (kind, list, most) in [
            (ItemKind::Image, request.images, limits.images),
            (ItemKind::Video, request.videos, limits.videos),
            (ItemKind::Belonging, request.belongings, limits.belongings),
        ] {
            let list = list.unwrap_or_default();
            let field = field_of(kind);
            if list.len() > most {
                let message = format!(
                    "has {} entries, and {most} are allowed: send fewer, or raise `world.max_{field}`",
                    list.len()
                );
                return Err(Error::invalid(field, message));
            }
            for (number, attached) in list.into_iter().enumerate() {
                items.push(item(kind, format!("{field}[{number}]"), attached)?);
            }
        }
        let request = Self { patient_id, patient_name, environment, variation, items };
        request.check_content()?;
        Ok(request)
    }

    /// Checks that the content of its world fits into the world's record. It is measured as it stands there: as JSON, where a
    /// backslash takes two bytes.
    fn check_content(&self) -> Result<(), Error> {
        let content = self.content();
        let all = json_length(&content)? + content.items.len() * ITEM_GROWTH;
        let lengths = content.items.iter().map(json_length).collect::<Result<Vec<_>, _>>()?;
        match lengths.iter().zip(&content.items).max_by_key(|(length, _)| **length) {
            Some((_, longest)) if all > MAX_CONTENT => {
                let message = format!(
                    "is the longest of {} items, which take {all} bytes together, and may take {MAX_CONTENT}: shorten labels and \
                     URLs, or send pictures as `data`",
                    content.items.len()
                );
                Err(Error::invalid(longest.field.clone(), message))
            }
            _ => Ok(()),
        }
    }

    /// The content of its world before anything was fetched or rendered.
    pub(crate) fn content(&self) -> Content {
        let content = |(number, item): (usize, &Item)| {
            let (url, file) = match &item.source {
                Source::None => (None, None),
                Source::Url(address) => (Some(address.to_string()), None),
                Source::Data(_) => (None, Some(upload_file(number))),
            };
            let (kind, label, field) = (item.kind, item.label.clone(), item.field.clone());
            ContentItem { kind, label, field, url, file, placement: None, corners: None }
        };
        let items = self.items.iter().enumerate().map(content).collect();
        Content { variation: self.variation.clone(), items, ..Content::default() }
    }

    /// How many bytes its pictures have that came with it.
    pub(crate) fn attached(&self) -> u64 {
        let length = |item: &Item| if let Source::Data(bytes) = &item.source { bytes.len() as u64 } else { 0 };
        self.items.iter().map(length).sum()
    }

    /// How many of each are attached.
    pub(crate) fn counts(&self) -> Counts {
        let count = |kind| self.items.iter().filter(|item| item.kind == kind).count();
        Counts {
            images: count(ItemKind::Image),
            videos: count(ItemKind::Video),
            belongings: count(ItemKind::Belonging),
        }
    }

    /// The labels of the belongings that the log repeats: the first ones, for as long as they are short together.
    pub(crate) fn logged_belongings(&self) -> Vec<String> {
        let belongings = self.items.iter().filter(|item| item.kind == ItemKind::Belonging);
        let mut bytes = 0;
        let is_logged = |label: &&String| {
            bytes += label.len();
            bytes <= MAX_LOGGED
        };
        belongings.map(|item| &item.label).take_while(is_logged).cloned().collect()
    }
}

/// How many of each are attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub images: usize,
    pub videos: usize,
    pub belongings: usize,
}

fn name(field: &'static str, value: Option<String>) -> Result<String, Error> {
    let value = value.ok_or_else(|| Error::invalid(field, "is required"))?;
    let chars = value.chars().count();
    let plain = value.trim() == value && !value.chars().any(char::is_control);
    if !(1..=MAX_NAME).contains(&chars) || !plain {
        let message =
            format!("must have 1 to {MAX_NAME} characters, no control characters, and no space at either end");
        return Err(Error::invalid(field, message));
    }
    Ok(value)
}

fn item(kind: ItemKind, field: String, attached: Attached) -> Result<Item, Error> {
    let path = |member: &str| format!("{field}.{member}");
    let label = attached.label.unwrap_or_default().trim().to_owned();
    let needs_label = kind == ItemKind::Belonging;
    if label.chars().count() > MAX_LABEL || label.chars().any(char::is_control) || (needs_label && label.is_empty()) {
        let least = usize::from(needs_label);
        let field = path("label");
        let message = format!("must have {least} to {MAX_LABEL} characters and no control characters");
        return Err(Error::invalid(&field, message));
    }
    let source = match (attached.url, attached.data) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid(field, "has both `url` and `data`: send one of them"));
        }
        (Some(url), None) => Source::Url(address(&path("url"), &url)?),
        (None, Some(data)) => Source::Data(decode(&path("data"), &data)?),
        (None, None) if kind == ItemKind::Belonging => Source::None,
        (None, None) => {
            return Err(Error::invalid(field, "needs a picture: send `url` or `data`"));
        }
    };
    Ok(Item { kind, label, source, field })
}

fn json_length(content: &impl Serialize) -> Result<usize, Error> {
    serde_json::to_vec(content).map(|json| json.len()).map_err(Error::internal)
}

fn address(field: &str, text: &str) -> Result<Url, Error> {
    let parsed = Url::parse(text).ok().filter(|url| {
        text.len() <= MAX_URL
            && matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some()
            && url.username().is_empty()
            && url.password().is_none()
    });
    parsed.ok_or_else(|| {
        let message = format!("must be an http or https URL of at most {MAX_URL} bytes, without a password");
        Error::invalid(field, message)
    })
}

/// Base64, plain or as a `data:` URL.
fn decode(field: &str, text: &str) -> Result<Bytes, Error> {
    let coded = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map(|(_, coded)| coded),
        None => Some(text),
    };
    let bytes = coded.and_then(|coded| STANDARD.decode(coded.trim()).ok()).filter(|bytes| !bytes.is_empty());
    bytes.map(Bytes::from).ok_or_else(|| {
        let message = "must be a PNG, JPEG or WebP picture in base64, or a data: URL of one";
        Error::invalid(field, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use warmpool_core::error::Fault as _;

    const LIMITS: Limits = Limits { images: 2, videos: 1, belongings: 3 };

    fn check(body: Value) -> Result<WorldRequest, Error> {
        WorldRequest::check(serde_json::from_value(body).unwrap(), LIMITS)
    }

    fn with(members: Value) -> Value {
        let mut body = json!({"patient_id": "p-17", "patient_name": "Ann Lee", "environment_type": "garden"});
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    #[test]
    fn a_full_request_is_read() {
        let request = check(with(json!({
            "variation": 3,
            "images": [{"data": "AAAA", "label": " Wedding 1961 "}, {"url": "https://example.com/a.jpg"}],
            "videos": [{"data": "data:image/png;base64,AAAA", "label": "Picnic"}],
            "belongings": [{"label": "radio"}, {"label": "teapot"}],
        })))
        .unwrap();
        assert_eq!(request.variation, "3");
        assert_eq!(request.counts(), Counts { images: 2, videos: 1, belongings: 2 });
        assert_eq!(request.items[0].label, "Wedding 1961");
        assert_eq!(request.items[0].source, Source::Data(Bytes::from_static(&[0, 0, 0])));
        assert_eq!(request.items[1].field, "images[1]");
        assert_eq!(request.logged_belongings(), ["radio", "teapot"]);
        assert!(
            check(with(json!({"patient_name": "山田 花子 🌸", "patient_id": "ב-7"}))).is_ok(),
            "names in any script"
        );
    }

    #[test]
    fn each_fault_names_its_field() {
        let long = "x".repeat(10_000);
        for (members, field) in [
            (json!({"patient_id": null}), "patient_id"),
            (json!({"patient_id": ""}), "patient_id"),
            (json!({"patient_name": long}), "patient_name"),
            (json!({"patient_name": "a\nb"}), "patient_name"),
            (json!({"environment_type": "beach"}), "environment_type"),
            (json!({"environment_type": null}), "environment_type"),
            (json!({"variation": "v".repeat(65)}), "variation"),
            (json!({"images": [{"data": "AAAA"}, {"data": "AAAA"}, {"data": "AAAA"}]}), "images"),
            (json!({"images": [{"label": "no picture"}]}), "images[0]"),
            (json!({"images": [{"data": "!"}]}), "images[0].data"),
            (json!({"images": [{"data": ""}]}), "images[0].data"),
            (json!({"images": [{"data": "AAAA", "url": "http://a/"}]}), "images[0]"),
            (json!({"videos": [{"url": "file:///etc/passwd"}]}), "videos[0].url"),
            (json!({"videos": [{"url": "http://user:pass@a/"}]}), "videos[0].url"),
            (json!({"belongings": [{"label": "radio"}, {"label": " "}]}), "belongings[1].label"),
            (json!({"belongings": [{}, {}, {}, {}]}), "belongings"),
        ] {
            let error = check(with(members.clone())).unwrap_err();
            assert_eq!(error.field(), Some(field), "{members}");
        }
        let path = "x".repeat(900);
        let linked = |count: usize, path: &str| {
            let images: Vec<Value> =
                (0..count).map(|at| json!({"url": format!("https://a.example/{at}{path}")})).collect();
            let request = serde_json::from_value(with(json!({"images": images}))).unwrap();
            WorldRequest::check(request, Limits { images: 60, ..LIMITS })
        };
        assert!(linked(30, &path).is_ok());
        let error = linked(40, &path).unwrap_err();
        assert!(error.field().is_some_and(|field| field.starts_with("images[")), "{error}");
        assert!(linked(30, &"é".repeat(450)).is_err(), "what is not ASCII is longer in the record");
        assert!(linked(40, &format!("?{}", "x".repeat(450))).is_ok());
        assert!(linked(40, &format!("?{}", "\\".repeat(450))).is_err(), "so is a backslash");
        let message = check(with(json!({"environment_type": "beach"}))).unwrap_err().to_string();
        assert!(message.contains("garden, home, porch"), "{message}");
    }
}
