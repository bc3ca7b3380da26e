//! What an extraction reads: fields by name, with a type and a selector each.

mod compiled;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::allowance::Allowance;
use super::fields::{join, read, wrong};
use super::selector::Selectors;
use crate::Error;
use compiled::check;
pub(crate) use compiled::{Check, regex};
use warmpool_api::null_is_default;

/// How deep fields may be nested.
const MAX_DEPTH: usize = 10;
/// No schema has more fields.
const MAX_FIELDS: usize = 500;

/// The members that [`parse`] reads.
pub(crate) const MEMBERS: [&str; 4] = ["schema", "rows", "builtins", "validate"];

/// What to read from a page.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The elements of which each gives one result; the page itself gives one when there is none.
    pub(crate) rows: Option<Selectors>,
    /// What each result has.
    pub(crate) fields: Vec<(String, Field)>,
    /// What each result must be.
    pub(crate) validate: Option<Check>,
}

/// One field.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Where it is; where its parent is when there is none.
    pub(crate) selectors: Option<Selectors>,
    pub(crate) shape: Shape,
    /// Whether it is a failure that there is none.
    pub(crate) required: bool,
    /// What stands for it when there is none.
    pub(crate) default: Value,
}

impl Field {
    /// Whether it is the page's main content, which is made of the page's HTML.
    pub(crate) const fn is_article(&self) -> bool {
        matches!(self.shape, Shape::Builtin(Builtin::Article))
    }
}

/// What a field is.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// One value, read and turned into its type.
    Value(Source, Conversion),
    /// One value for each element.
    List(Box<Field>),
    /// The rows of a table; by the names in its head, or as lists.
    Table { by_name: bool },
    /// An object with fields of its own.
    Nested(Vec<(String, Field)>),
    /// What every page has.
    Builtin(Builtin),
}

/// What is read of an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub(crate) enum Source {
    Text,
    /// Its state, if it can be checked, else its text.
    State,
    /// Its moment, if it has one, else its text.
    Moment,
    /// Its markup.
    Html {
        /// Without the element's own tags.
        inner: bool,
    },
    /// An attribute; an address is made whole.
    Attribute {
        name: String,
    },
}

/// What is made of what was read.
#[derive(Debug, Clone)]
pub(crate) enum Conversion {
    Keep,
    Number {
        /// What stands before its fraction; found out when it is not said.
        decimal: Option<char>,
    },
    /// True or false.
    Boolean {
        /// What a true text matches.
        pattern: Option<Regex>,
    },
    /// A day, or a moment, in the form of ISO 8601.
    Date {
        /// As in `strptime`; the common forms when there is none.
        format: Option<String>,
    },
    /// What a regular expression finds.
    Regex {
        /// The expression; `None` while its template is not filled.
        pattern: Option<Regex>,
        /// Which group.
        group: Group,
        /// Every match, not the first alone.
        all: bool,
    },
}

/// A group of a regular expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    /// The first group there is, else the whole match.
    First,
    Number(usize),
    Name(String),
}

/// What every page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Builtin {
    /// The objects in its JSON-LD.
    JsonLd,
    /// Its Open Graph properties.
    OpenGraph,
    /// Title, language, address, and what its meta elements say.
    Meta,
    Links,
    Tables,
    /// Its main content as Markdown, with title, byline, links and metadata.
    Article,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanMembers {
    schema: Option<Map<String, Value>>,
    rows: Option<Value>,
    builtins: Option<Vec<Builtin>>,
    validate: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldMembers {
    selector: Option<Value>,
    selectors: Option<Value>,
    xpath: Option<String>,
    r#type: Option<String>,
    attribute: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    required: bool,
    #[serde(default)]
    default: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    inner: bool,
    decimal: Option<char>,
    format: Option<String>,
    pattern: Option<String>,
    group: Option<Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    all: bool,
    item: Option<Value>,
    headers: Option<bool>,
    fields: Option<Map<String, Value>>,
}

/// Reads what to extract: an object with [`MEMBERS`] alone.
/// Errors: `Field`.
pub(crate) fn parse(at: &str, value: &Value, allowance: &mut Allowance) -> Result<Plan, Error> {
    let given: PlanMembers = read(at, value)?;
    let mut left = Left { fields: MAX_FIELDS, allowance };
    let mut fields = object(&join(at, "schema"), &given.schema.unwrap_or_default(), 0, &mut left)?;
    for builtin in given.builtins.unwrap_or_default() {
        let name = json!(builtin).as_str().unwrap_or_default().to_owned();
        fields.push((
            name,
            Field { selectors: None, shape: Shape::Builtin(builtin), required: false, default: Value::Null },
        ));
    }
    if fields.is_empty() {
        return Err(wrong(&join(at, "schema"), "must name at least one field, unless there are `builtins`"));
    }
    let rows = given.rows.map(|rows| Selectors::parse(&join(at, "rows"), &rows)).transpose()?;
    if rows.is_some() && fields.iter().any(|(_, field)| field.is_article()) {
        return Err(wrong(&join(at, "rows"), "cannot be given together with `article`, which is of the whole page"));
    }
    let validate = given.validate.map(|schema| check(&join(at, "validate"), &schema, allowance)).transpose()?;
    Ok(Plan { rows, fields, validate })
}

/// What is left for the fields that are still to be read.
struct Left<'a> {
    /// Of this schema.
    fields: usize,
    /// Of the whole body.
    allowance: &'a mut Allowance,
}

fn object(
    at: &str,
    members: &Map<String, Value>,
    depth: usize,
    left: &mut Left<'_>,
) -> Result<Vec<(String, Field)>, Error> {
    members.iter().map(|(name, value)| Ok((name.clone(), field(&join(at, name), value, depth, left)?))).collect()
}

/// Reads a field: an object, or the selector of a text.
fn field(at: &str, value: &Value, depth: usize, left: &mut Left<'_>) -> Result<Field, Error> {
    let one_less = left.fields.checked_sub(1);
    left.fields = one_less.ok_or_else(|| wrong(at, &format!("is one field too many: {MAX_FIELDS} are the most")))?;
    if depth >= MAX_DEPTH {
        return Err(wrong(at, &format!("is nested in more than {MAX_DEPTH} fields")));
    }
    if let Value::String(_) = value {
        let selectors = Some(Selectors::parse(at, value)?);
        return Ok(Field { selectors, shape: text(), required: false, default: Value::Null });
    }
    let given: FieldMembers = read(at, value)?;
    let selectors = match (&given.selector, &given.selectors, &given.xpath) {
        (None, None, None) => None,
        (Some(one), None, None) => Some(Selectors::parse(&join(at, "selector"), one)?),
        (None, Some(list), None) => Some(Selectors::parse_list(&join(at, "selectors"), list)?),
        (None, None, Some(xpath)) => Some(Selectors::parse(&join(at, "xpath"), &json!(format!("xpath/{xpath}")))?),
        _ => return Err(wrong(at, "may have one of `selector`, `selectors` and `xpath`")),
    };
    let kind = match (given.r#type.as_deref(), &given.attribute) {
        (Some(kind), _) => kind,
        (None, Some(_)) => "attribute",
        (None, None) => "text",
    };
    check_members(at, kind, value)?;
    let shape = shape(at, kind, &given, selectors.is_some(), depth, left)?;
    Ok(Field { selectors, shape, required: given.required, default: given.default })
}

fn shape(
    at: &str,
    kind: &str,
    given: &FieldMembers,
    has_selector: bool,
    depth: usize,
    left: &mut Left<'_>,
) -> Result<Shape, Error> {
    let source = |usual: Source| given.attribute.clone().map_or(usual, |name| Source::Attribute { name });
    let fields = |left: &mut Left<'_>| {
        let field = join(at, "fields");
        let members = given.fields.as_ref().filter(|members| !members.is_empty());
        object(&field, members.ok_or_else(|| wrong(&field, "must name at least one field"))?, depth + 1, left)
    };
    if matches!(kind, "list" | "nested_list") && !has_selector {
        return Err(wrong(at, &format!("needs a `selector`: a {kind} has an entry for each element that it matches")));
    }
    let of_item = |shape| Box::new(Field { selectors: None, shape, required: false, default: Value::Null });
    Ok(match kind {
        "text" => Shape::Value(source(Source::Text), Conversion::Keep),
        "html" => Shape::Value(Source::Html { inner: given.inner }, Conversion::Keep),
        "attribute" => match &given.attribute {
            Some(name) => Shape::Value(Source::Attribute { name: name.clone() }, Conversion::Keep),
            None => return Err(wrong(&join(at, "attribute"), "is missing: it names the attribute to read")),
        },
        "number" => {
            if given.decimal.is_some_and(|mark| !matches!(mark, '.' | ',')) {
                return Err(wrong(&join(at, "decimal"), "must be `.` or `,`"));
            }
            Shape::Value(source(Source::Text), Conversion::Number { decimal: given.decimal })
        }
        "boolean" => {
            let compile = |pattern| regex(&join(at, "pattern"), pattern, left.allowance);
            let pattern = given.pattern.as_deref().map(compile).transpose()?;
            Shape::Value(source(Source::State), Conversion::Boolean { pattern: pattern.flatten() })
        }
        "date" => Shape::Value(source(Source::Moment), Conversion::Date { format: given.format.clone() }),
        "regex" => Shape::Value(source(Source::Text), finder(at, given, left.allowance)?),
        "list" => match &given.item {
            None => Shape::List(of_item(Shape::Value(source(Source::Text), Conversion::Keep))),
            Some(Value::String(kind)) => {
                Shape::List(Box::new(field(&join(at, "item"), &json!({"type": kind}), depth + 1, left)?))
            }
            Some(item) => Shape::List(Box::new(field(&join(at, "item"), item, depth + 1, left)?)),
        },
        "table" => Shape::Table { by_name: given.headers.unwrap_or(true) },
        "nested" => Shape::Nested(fields(left)?),
        "nested_list" => Shape::List(of_item(Shape::Nested(fields(left)?))),
        "json_ld" => Shape::Builtin(Builtin::JsonLd),
        "open_graph" => Shape::Builtin(Builtin::OpenGraph),
        "meta" => Shape::Builtin(Builtin::Meta),
        "links" => Shape::Builtin(Builtin::Links),
        "tables" => Shape::Builtin(Builtin::Tables),
        "article" if depth == 0 => Shape::Builtin(Builtin::Article),
        "article" => return Err(wrong(&join(at, "type"), "is of the page, and so of no field in another")),
        _ => {
            let types = "text, html, attribute, number, boolean, date, list, table, nested, nested_list, regex, json_ld, \
                open_graph, meta, links, tables or article";
            return Err(wrong(&join(at, "type"), &format!("must be {types}, and is `{kind}`")));
        }
    })
}

/// A member without effect would hide a mistake.
fn check_members(at: &str, kind: &str, value: &Value) -> Result<(), Error> {
    const OWNERS: [(&str, &[&str]); 10] = [
        ("attribute", &["text", "attribute", "number", "boolean", "date", "list", "regex"]),
        ("inner", &["html"]),
        ("decimal", &["number"]),
        ("format", &["date"]),
        ("pattern", &["boolean", "regex"]),
        ("group", &["regex"]),
        ("all", &["regex"]),
        ("item", &["list"]),
        ("headers", &["table"]),
        ("fields", &["nested", "nested_list"]),
    ];
    let is_given = |member: &str| value.get(member).is_some_and(|given| !given.is_null());
    let stray = OWNERS.iter().find(|(member, owners)| is_given(member) && !owners.contains(&kind));
    match stray {
        None => Ok(()),
        Some((member, owners)) => {
            let message = format!("means nothing for `{kind}`, only for {}", owners.join(", "));
            Err(wrong(&join(at, member), &message))
        }
    }
}

fn text() -> Shape {
    Shape::Value(Source::Text, Conversion::Keep)
}

fn finder(at: &str, given: &FieldMembers, allowance: &mut Allowance) -> Result<Conversion, Error> {
    let field = join(at, "pattern");
    let pattern = given.pattern.as_deref().ok_or_else(|| wrong(&field, "is missing: it is the expression to find"))?;
    let pattern = regex(&field, pattern, allowance)?;
    let group = match &given.group {
        None => Group::First,
        Some(Value::String(name)) => Group::Name(name.clone()),
        Some(number) => match number.as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(number) => Group::Number(number),
            None => return Err(wrong(&join(at, "group"), "must be a group's number or name")),
        },
    };
    if let Some(pattern) = &pattern {
        let known = match &group {
            Group::First => true,
            Group::Number(number) => *number < pattern.captures_len(),
            Group::Name(name) => pattern.capture_names().flatten().any(|known| known == name),
        };
        if !known {
            return Err(wrong(&join(at, "group"), "is not in `pattern`"));
        }
    }
    Ok(Conversion::Regex { pattern, group, all: given.all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    fn parse(at: &str, value: &Value) -> Result<Plan, Error> {
        super::parse(at, value, &mut Allowance::default())
    }

    fn field_of(plan: Value) -> String {
        parse("", &plan).unwrap_err().field().unwrap_or_default().to_owned()
    }

    #[test]
    fn errors_name_the_wrong_member() {
        for (schema, field) in [
            (json!({}), "schema"),
            (json!({"a": 1}), "schema.a"),
            (json!({"a": ""}), "schema.a"),
            (json!({"a": {"selector": "h1", "xpath": "//h1"}}), "schema.a"),
            (json!({"a": {"selector": "h1", "type": "picture"}}), "schema.a.type"),
            (json!({"a": {"selector": "h1", "typ": "text"}}), "schema.a.typ"),
            (json!({"a": {"selector": "h1", "type": "attribute"}}), "schema.a.attribute"),
            (json!({"a": {"selector": "h1", "type": "number", "decimal": ";"}}), "schema.a.decimal"),
            (json!({"a": {"selector": "h1", "decimal": "."}}), "schema.a.decimal"),
            (json!({"a": {"type": "list"}}), "schema.a"),
            (json!({"a": {"type": "list", "selector": "li", "item": {"type": "x"}}}), "schema.a.item.type"),
            (json!({"a": {"type": "list", "selector": "li", "item": "x"}}), "schema.a.item.type"),
            (json!({"a": {"type": "nested_list", "selector": "li"}}), "schema.a.fields"),
            (json!({"a": {"type": "nested", "fields": {"b": {"type": "regex"}}}}), "schema.a.fields.b.pattern"),
            (json!({"a": {"type": "regex", "pattern": "(a"}}), "schema.a.pattern"),
            (json!({"a": {"type": "regex", "pattern": "(a{900}){900}"}}), "schema.a.pattern"),
            (json!({"a": {"type": "regex", "pattern": "a", "group": 1}}), "schema.a.group"),
            (json!({"a": {"type": "regex", "pattern": "(?<x>a)", "group": "y"}}), "schema.a.group"),
        ] {
            assert_eq!(field_of(json!({"schema": schema.clone()})), field, "{schema}");
        }
        assert_eq!(field_of(json!({"builtins": ["weather"]})), "builtins[0]");
        assert_eq!(field_of(json!({"schema": {"a": "h1"}, "rows": 1})), "rows");
        assert_eq!(field_of(json!({"schema": {"a": "h1"}, "validate": {"type": "nonsense"}})), "validate");
        assert_eq!(field_of(json!({"schema": {"a": "h1"}, "validate": {"$ref": "http://other/schema"}})), "validate");
        assert_eq!(field_of(json!({"schema": {"a": "h1"}, "validate": {"$ref": "file:///etc/passwd"}})), "validate");
    }

    #[test]
    fn members_of_a_field_may_be_null() {
        let field = json!({"selector": "h1", "required": null, "default": null, "inner": null, "all": null});
        let plan = parse("", &json!({"schema": {"a": field}})).unwrap();
        assert!(!plan.fields[0].1.required);
    }

    #[test]
    fn the_short_forms_mean_the_long_ones() {
        let plan = parse("", &json!({"schema": {"a": "h1", "b": {"selector": "a", "attribute": "href"}}})).unwrap();
        assert!(matches!(plan.fields[0].1.shape, Shape::Value(Source::Text, Conversion::Keep)));
        let Shape::Value(Source::Attribute { name }, Conversion::Keep) = &plan.fields[1].1.shape else {
            panic!("text")
        };
        assert_eq!(name, "href");
        assert_eq!(parse("", &json!({"builtins": ["json_ld", "meta"]})).unwrap().fields[1].0, "meta");
    }

    #[test]
    fn nesting_of_fields_is_limited() {
        let mut field = json!("h1");
        for _ in 0..20 {
            field = json!({"type": "nested", "fields": {"a": field}});
        }
        assert!(parse("", &json!({"schema": {"a": field}})).is_err());
        let many: Map<String, Value> = (0..600).map(|number| (number.to_string(), json!("h1"))).collect();
        assert!(parse("", &json!({"schema": many})).is_err());
    }
}
