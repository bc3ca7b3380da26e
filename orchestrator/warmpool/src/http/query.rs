//! What stands behind the question mark. A route declares a type; from its fields and their documentation follow which
//! parameters there are, what their values may be, how faults are worded, and the description for OpenAPI.
//!
//! Beside the usual attributes a field may have these extensions of its schema: `x-alias`, another name of the parameter
//! (which serde has to know, too); `x-name`, how the description writes the name of a list; and `x-problem`, what is wrong
//! with a value that is none, where a list of those that there are would not say it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::App;
use super::route::Route;
use crate::http::error::Error;
use warmpool_core::error::{FieldFault as _, ServiceFault as _};

/// The longest name of a parameter that an error repeats, in characters.
const MAX_NAME: usize = 100;

/// What may stand behind a route's question mark.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    fields: fn() -> Vec<Parameter>,
    others: Others,
}

/// What is done with a parameter that no field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// It is refused.
    Refused,
    /// It may be there once: the handler, or who opened the page, knows it.
    Once,
    /// The query is not ours to check.
    Unchecked,
}

impl Rule {
    /// No parameters.
    pub(crate) const NONE: Self = Self { fields: Vec::new, others: Others::Refused };
    /// Whatever there is: a driver reads it, or nobody does.
    pub(crate) const UNCHECKED: Self = Self { fields: Vec::new, others: Others::Unchecked };

    /// The fields of `T` and no others.
    pub(crate) const fn only<T: DeserializeOwned + JsonSchema>() -> Self {
        Self { fields: fields::<T>, others: Others::Refused }
    }

    /// The fields of `T`, and others, each once.
    pub(crate) const fn at_least<T: DeserializeOwned + JsonSchema>() -> Self {
        Self { fields: fields::<T>, others: Others::Once }
    }

    pub(super) fn parameters(self) -> Parameters {
        Parameters { fields: (self.fields)(), others: self.others }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parameters().fmt(f)
    }
}

/// The query of a request, read as the type that its route declares.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Error> {
        let route = parts.extensions.get::<Arc<Route>>().ok_or_else(|| Error::internal("a route without an entry"))?;
        route.parameters.read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// The parameters of a route.
#[derive(Debug)]
pub(super) struct Parameters {
    fields: Vec<Parameter>,
    others: Others,
}

impl Parameters {
    /// Checks the names: of two values one would be passed over in silence, and so would a parameter that nobody reads.
    /// Errors: `Field` for a parameter that is given twice, and for one that the route does not have.
    pub(super) fn check(&self, query: &str) -> Result<(), Error> {
        // A set: a query may have thousands of names that its route takes and does not know.
        let mut seen = HashSet::new();
        for (name, _) in form_urlencoded::parse(query.as_bytes()).filter(|_| self.others != Others::Unchecked) {
            let field = self.field(&name);
            if field.is_none() && self.others == Others::Refused {
                return Err(self.unknown(&name));
            }
            if field.is_some_and(|field| field.is_list) {
                continue;
            }
            let own = field.map_or_else(|| name.to_string(), |field| field.name.to_owned());
            if !seen.insert(own) {
                return Err(Error::invalid(cut(&name), "is given twice: send one value"));
            }
        }
        Ok(())
    }

    /// Reads the values of a query whose names are checked.
    /// Errors: `Field`, with the name that the client used.
    pub(super) fn read<T: DeserializeOwned>(&self, query: &str) -> Result<T, Error> {
        let mut values = Map::new();
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            let Some(field) = self.field(&name) else { continue };
            let value = field.value(&name, &text)?;
            // Alone, so that an error is this parameter's.
            let alone = Map::from_iter([(field.name.to_owned(), value.clone())]);
            serde_json::from_value::<T>(Value::Object(alone)).map_err(|_| field.wrong(&name))?;
            match (values.get_mut(field.name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
                (_, value) => drop(values.insert(field.name.to_owned(), value)),
            }
        }
        for field in &self.fields {
            let given = values.get(field.name).and_then(Value::as_array).map_or(0, Vec::len);
            if let Some(most) = field.most.filter(|most| given as u64 > *most) {
                return Err(Error::invalid(field.name, format!("may be given {most} times at most")));
            }
        }
        serde_json::from_value(Value::Object(values)).map_err(Error::internal)
    }

    fn field(&self, name: &str) -> Option<&Parameter> {
        self.fields.iter().find(|field| match field.is_list {
            true => field.name == list_name(name),
            false => field.name == name || field.alias.as_deref() == Some(name),
        })
    }

    fn unknown(&self, name: &str) -> Error {
        if self.fields.is_empty() {
            return Error::unknown(cut(name), "this path takes no parameters");
        }
        let known = self.fields.iter().map(|field| format!("{}{}", field.name, if field.is_list { "[]" } else { "" }));
        Error::none_of(cut(name), known)
    }

    /// As OpenAPI has them.
    pub(super) fn document(&self) -> impl Iterator<Item = Value> {
        self.fields.iter().flat_map(Parameter::document)
    }
}

/// One parameter.
#[derive(Debug)]
struct Parameter {
    name: &'static str,
    alias: Option<String>,
    /// Whether it may be given as often as wanted, also as `name[]` or `name[0]`.
    is_list: bool,
    /// How often, if that has a limit.
    most: Option<u64>,
    /// As the description writes it.
    shown: String,
    about: String,
    problem: Option<String>,
    /// Of one value.
    schema: Value,
}

impl Parameter {
    fn new(name: &'static str, property: &Value) -> Self {
        let text = |keyword: &str| property[keyword].as_str().map(str::to_owned);
        let is_list = property["type"] == "array";
        Self {
            name,
            alias: text("x-alias"),
            is_list,
            most: property["maxItems"].as_u64(),
            shown: text("x-name").unwrap_or_else(|| name.to_owned()),
            about: text("description").unwrap_or_default(),
            problem: text("x-problem"),
            schema: value_schema(if is_list { &property["items"] } else { property }),
        }
    }

    /// A value as JSON has it; that of a list is a list of one.
    fn value(&self, name: &str, text: &str) -> Result<Value, Error> {
        let value = match self.schema["type"].as_str() {
            Some("integer") => json!(self.number(name, text)?),
            // Python writes `True`.
            Some("boolean") => match text.to_ascii_lowercase().as_str() {
                "true" | "1" => json!(true),
                "false" | "0" | "" => json!(false),
                _ => return Err(Error::invalid(name, "must be true or false")),
            },
            _ => json!(text),
        };
        Ok(if self.is_list { json!([value]) } else { value })
    }

    fn number(&self, name: &str, text: &str) -> Result<u64, Error> {
        let least = self.schema["minimum"].as_u64().unwrap_or(0);
        let most = self.schema["maximum"].as_u64();
        let number = text.parse().ok().filter(|number| (least..=most.unwrap_or(u64::MAX)).contains(number));
        number.ok_or_else(|| {
            let range = most.map_or_else(|| format!("of at least {least}"), |most| format!("from {least} to {most}"));
            Error::invalid(name, format!("must be a whole number {range}"))
        })
    }

    fn wrong(&self, name: &str) -> Error {
        let names = self.schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let one_of = || format!("must be one of {}", names.collect::<Vec<_>>().join(", "));
        Error::invalid(name, self.problem.clone().unwrap_or_else(one_of))
    }

    fn document(&self) -> Vec<Value> {
        let schema = if self.is_list { json!({"type": "array", "items": self.schema}) } else { self.schema.clone() };
        let alias = self.alias.as_ref().map(|alias| (alias, format!("Another name of `{}`.", self.name)));
        let names = [(&self.shown, self.about.clone())].into_iter().chain(alias);
        let document = |(name, about)| json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema});
        names.map(document).collect()
    }
}

/// What a schema says of a value that is there, without its description.
fn value_schema(schema: &Value) -> Value {
    let mut value = Map::new();
    let alternatives = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    let mut names = Vec::new();
    for part in alternatives.into_iter().flatten().map(value_schema) {
        names.extend(part["enum"].as_array().cloned().unwrap_or_default());
        if part["type"] != "null" {
            value.extend(part.as_object().cloned().unwrap_or_default());
        }
    }
    for keyword in ["type", "minimum", "maximum", "default"] {
        let found = &schema[keyword];
        let found = found.as_array().and_then(|types| types.iter().find(|of| **of != "null")).unwrap_or(found);
        // An empty text is what is left out.
        if !found.is_null() && found != "" {
            value.insert(keyword.to_owned(), found.clone());
        }
    }
    names.extend(schema.get("const").cloned());
    names.extend(schema["enum"].as_array().into_iter().flatten().filter(|name| !name.is_null()).cloned());
    if !names.is_empty() {
        value.insert("enum".to_owned(), json!(names));
    }
    Value::Object(value)
}

/// The parameters that a type has, in the order of its fields.
fn fields<T: DeserializeOwned + JsonSchema>() -> Vec<Parameter> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut names: &[&str] = &[];
    let _ = T::deserialize(FieldNames(&mut names));
    let property = |name: &&'static str| schema["properties"].get(*name).map(|found| Parameter::new(name, found));
    names.iter().filter_map(property).collect()
}

/// Notes the names that a struct of serde's asks for, in their order, which a schema has not.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("only the names of fields are wanted"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The bare name of a list parameter that is written `name[]` or `name[0]`.
fn list_name(name: &str) -> &str {
    let is_index = |index: &str| index.bytes().all(|byte| byte.is_ascii_digit());
    let list = name.split_once('[').filter(|(_, rest)| rest.strip_suffix(']').is_some_and(is_index));
    list.map_or(name, |(bare, _)| bare)
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

/// Reads a query by a rule, as a request's.
#[cfg(test)]
pub(super) fn read<T: DeserializeOwned>(rule: Rule, query: &str) -> Result<T, Error> {
    let parameters = rule.parameters();
    parameters.check(query)?;
    parameters.read(query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use warmpool_api::session::Status;
    use warmpool_api::task::TaskKind;
    use warmpool_core::error::Fault as _;
    use warmpool_core::sort::SortOrder;
    use warmpool_sessions::session::{SessionQuery, SortKey};
    use warmpool_tasks::task::TaskQuery;

    fn session_query(query: &str) -> Result<SessionQuery, Error> {
        read(Rule::only::<SessionQuery>(), query)
    }

    fn task_query(query: &str) -> Result<TaskQuery, Error> {
        read(Rule::only::<TaskQuery>(), query)
    }

    fn fault(route: &str, query: &str) -> Option<String> {
        let table = super::super::routes().table();
        let (route, _) = table.at(route, &Method::GET).unwrap();
        let error = route.parameters.check(query).err()?;
        assert_eq!(error.code().status(), 400);
        Some(error.field().unwrap_or_default().to_owned())
    }

    #[test]
    fn every_route_refuses_what_is_doubled_or_unknown() {
        for (route, query, field) in [
            ("/healthz", "x=1", Some("x")),
            ("/healthz", "", None),
            ("/sessions/create", "headless=true", Some("headless")),
            ("/sessions/{id}/devtools", "token=T", None),
            ("/sessions/{id}/devtools", "token=T&token=U", Some("token")),
            ("/sessions/{id}/devtools", "token=T&t%6fken=U", Some("token")),
            ("/lam/tasks/{id}/items", "limit=1&limit=2", Some("limit")),
            ("/lam/tasks/{id}/items", "limit=1&after=2&status=success&format=json", None),
            ("/lam/tasks/{id}", "format=csv&format=json", Some("format")),
            ("/lam/tasks/{id}", "form=csv", Some("form")),
            ("/sessions", "status=running&status[]=failure&limit=1", None),
            ("/sessions", "limit[]=1", Some("limit[]")),
            ("/sessions/{id}/stream", "token=T&utm=x", None),
            ("/sessions/{id}/stream", "token=T&enable_actions=false&enable_actions=true", Some("enable_actions")),
            ("/sessions/{id}/stream/socket", "token=T&utm=x", Some("utm")),
            ("/chromium", "token=T&timeout=1&timeout=2", Some("timeout")),
            ("/wd/hub/session/{id}/se/cdp", "token=T", None),
            ("/wd/hub/session/{id}/{*command}", "a=1&a=2", None),
        ] {
            assert_eq!(fault(route, query).as_deref(), field, "{route}?{query}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let query = session_query("").unwrap();
        assert_eq!(query.key_id, None);
        assert_eq!((query.page, query.limit), (1, 10));
        assert_eq!((query.sort_by, query.sort_order), (SortKey::Timestamp, SortOrder::Descend));
    }

    #[test]
    fn lists_may_be_repeated_or_indexed() {
        let query = session_query("status=running&status[]=failure&status%5B1%5D=completed").unwrap();
        assert_eq!(query.statuses, [Status::Running, Status::Failure, Status::Completed]);
    }

    #[test]
    fn task_types_may_be_repeated_or_indexed() {
        for query in [
            "executionType[]=run&executionType[]=extract",
            "executionType%5B%5D=run&executionType%5B%5D=extract",
            "executionType[0]=run&executionType[1]=extract",
            "executionType=run&executionType=extract",
        ] {
            assert_eq!(task_query(query).unwrap().kinds, [TaskKind::Run, TaskKind::Extract], "{query}");
        }
    }

    #[test]
    fn a_task_query_has_the_contracts_defaults_and_bounds() {
        assert_eq!(task_query("").unwrap(), TaskQuery::default());
        let defaults = TaskQuery::default();
        assert_eq!((defaults.page, defaults.limit, defaults.sort_order), (1, 10, SortOrder::Descend));
        assert_eq!(task_query("page=1&limit=100&start_time=0").unwrap().limit, 100);
        for name in ["service_passcode", "raccoon_passcode"] {
            assert_eq!(task_query(&format!("{name}=ann")).unwrap().service_passcode.as_deref(), Some("ann"));
        }
        for (query, field) in [
            ("page=0", "page"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit[]=5", "limit[]"),
            ("start_time=1.5", "start_time"),
            ("end_time=-1", "end_time"),
            ("executionType[]=walk", "executionType[]"),
            ("sort_by=size", "sort_by"),
            ("sort_order=up", "sort_order"),
            ("status=running", "status"),
            ("page=1&page=2", "page"),
            ("service_passcode=a&raccoon_passcode=a", "raccoon_passcode"),
            ("executionType[x]=run", "executionType[x]"),
        ] {
            assert_eq!(task_query(query).unwrap_err().field(), Some(field), "{query}");
        }
    }

    #[test]
    fn faults_name_their_parameter() {
        for (query, field) in [
            ("page=0", "page"),
            ("limit=101", "limit"),
            ("limit=ten", "limit"),
            ("sort_by=size", "sort_by"),
            ("sort_order=up", "sort_order"),
            ("status=lost", "status"),
            ("browser_type=opera", "browser_type"),
            ("start_time=-1", "start_time"),
            ("metadata[]=team", "metadata[]"),
            ("offset=3", "offset"),
            ("key_id=ann", "key_id"),
            ("status=running&browser_type[0]=opera", "browser_type[0]"),
            ("limit=1&limit=1", "limit"),
        ] {
            assert_eq!(session_query(query).unwrap_err().field(), Some(field), "{query}");
        }
    }

    #[test]
    fn faults_say_what_would_be_right() {
        for (query, message) in [
            ("limit=101", "`limit` must be a whole number from 1 to 100"),
            ("page=0", "`page` must be a whole number of at least 1"),
            ("sort_order=up", "`sort_order` must be one of ascend, descend"),
            ("sort_by=size", "`sort_by` must be one of timestamp, executionTime, sessionId, status"),
            ("browser_type[]=opera", "`browser_type[]` must be one of chromium, firefox, webkit"),
            ("key_id=ann", "`key_id` must be a key's id: twelve hexadecimal digits in lower case"),
            (
                "offset=3",
                "unknown field `offset`: expected `start_time`, `end_time`, `session_id`, `key_id`, `service_passcode`, \
                 `app_name`, `name`, `metadata[]`, `status[]`, `browser_type[]`, `page`, `limit`, `sort_by` or `sort_order`",
            ),
        ] {
            assert_eq!(session_query(query).unwrap_err().to_string(), message);
        }
        let none = Rule::NONE.parameters().check("x=1").unwrap_err();
        assert_eq!(none.to_string(), "unknown field `x`: this path takes no parameters");
        assert_eq!(session_query("sort_by=execution_time").unwrap().sort_by, SortKey::ExecutionTime);
    }

    #[test]
    fn a_truth_value_is_read_in_any_case() {
        #[derive(Debug, Default, serde::Deserialize, JsonSchema)]
        #[serde(default)]
        struct Flags {
            follow: bool,
            forget: Option<bool>,
        }
        let flags = |query: &str| read::<Flags>(Rule::only::<Flags>(), query).map(|it| (it.follow, it.forget));
        for (query, read) in [
            ("follow=True&forget=FALSE", (true, Some(false))),
            ("follow=true&forget=1", (true, Some(true))),
            ("follow=False&forget=0", (false, Some(false))),
            ("", (false, None)),
        ] {
            assert_eq!(flags(query).unwrap(), read, "{query}");
        }
        assert_eq!(flags("follow=yes").unwrap_err().to_string(), "`follow` must be true or false");
    }

    #[test]
    fn a_list_may_have_a_limit() {
        #[derive(Debug, Default, serde::Deserialize, JsonSchema)]
        #[serde(default)]
        struct Few {
            #[schemars(length(max = 2))]
            one: Vec<String>,
        }
        assert_eq!(read::<Few>(Rule::only::<Few>(), "one=a&one[]=b").unwrap().one, ["a", "b"]);
        let error = read::<Few>(Rule::only::<Few>(), "one=a&one=b&one=c").unwrap_err();
        assert_eq!(error.to_string(), "`one` may be given 2 times at most");
    }
}
