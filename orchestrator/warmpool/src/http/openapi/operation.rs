//! What one call is: in words, and by the types that its handler reads and writes.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::hosted::{BrowserbaseFailure, KernelFailure, SteelFailure};
use super::super::reply::{Form, W3cFailure, status, webdriver_status};
use super::super::route::{Policy, Segment, Traffic, parameter};
use super::schemas::Schemas;
use crate::dropin::hosted::Service;
use warmpool_api::error::ErrorBody;
use warmpool_core::error::Code;

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The media type of server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// One method of one path.
#[derive(Clone)]
pub(crate) struct Operation {
    id: &'static str,
    summary: &'static str,
    about: &'static str,
    policy: Policy,
    body: Option<Body>,
    headers: Vec<(&'static str, &'static str, Value)>,
    answers: Vec<Answer>,
    codes: Vec<Code>,
    /// Whether people see its failures as pages.
    has_pages: bool,
}

#[derive(Clone)]
struct Body {
    media_type: &'static str,
    schema: SchemaOf,
    example: Option<Value>,
    /// Another media type, whose bodies are text.
    text: Option<&'static str>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    about: &'static str,
    contents: Vec<(&'static str, SchemaOf)>,
}

impl Operation {
    /// A call of this policy; generated clients call it `id`.
    pub(crate) const fn new(id: &'static str, summary: &'static str, policy: Policy) -> Self {
        Self {
            id,
            summary,
            about: "",
            policy,
            body: None,
            headers: Vec::new(),
            answers: Vec::new(),
            codes: Vec::new(),
            has_pages: false,
        }
    }

    pub(super) const fn policy(&self) -> Policy {
        self.policy
    }

    /// What the summary does not say.
    pub(crate) const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// It reads this type as JSON.
    pub(crate) fn reads<T: JsonSchema>(mut self, example: Value) -> Self {
        self.body =
            Some(Body { media_type: "application/json", schema: schema_of::<T>, example: Some(example), text: None });
        self.fails(&[
            Code::InvalidBody,
            Code::InvalidField,
            Code::UnknownField,
            Code::BodyTimeout,
            Code::BodyTooLarge,
            Code::BodyTooHeavy,
            Code::UnsupportedMediaType,
            Code::BodyMemory,
        ])
    }

    /// Instead of what it reads, it may get text of this media type.
    pub(crate) const fn reads_also(mut self, media_type: &'static str) -> Self {
        if let Some(body) = &mut self.body {
            body.text = Some(media_type);
        }
        self
    }

    /// It reads bytes of this media type.
    pub(crate) fn reads_bytes(mut self, media_type: &'static str) -> Self {
        self.body = Some(Body { media_type, schema: bytes, example: None, text: None });
        self.fails(&[Code::BodyTimeout, Code::BodyTooLarge])
    }

    /// It reads this header, too.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str, schema: Value) -> Self {
        self.headers.push((name, about, schema));
        self
    }

    /// It answers 200 and this type as JSON.
    pub(crate) fn writes<T: JsonSchema>(self, about: &'static str) -> Self {
        self.answers(200, about, "application/json", schema_of::<T>)
    }

    /// It answers this status and this type as JSON.
    pub(crate) fn writes_at<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answers(status, about, "application/json", schema_of::<T>)
    }

    /// It answers 200 and text of this media type.
    pub(crate) fn writes_text(self, media_type: &'static str, about: &'static str) -> Self {
        self.answers(200, about, media_type, text)
    }

    /// It answers 200 and bytes of this media type.
    pub(crate) fn writes_bytes(self, media_type: &'static str, about: &'static str) -> Self {
        self.answers(200, about, media_type, bytes)
    }

    /// It answers this status and bytes of this media type.
    pub(crate) fn writes_at_bytes(self, status: u16, media_type: &'static str, about: &'static str) -> Self {
        self.answers(status, about, media_type, bytes)
    }

    /// It answers 204.
    pub(crate) fn writes_nothing(self, about: &'static str) -> Self {
        self.empty(204, about)
    }

    /// It is a websocket.
    pub(crate) fn upgrades(self, about: &'static str) -> Self {
        self.empty(101, about).fails(&[Code::UpgradeRequired])
    }

    pub(crate) fn empty(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer { status, about, contents: Vec::new() });
        self
    }

    /// It answers this status and text.
    pub(crate) fn writes_text_at(self, status: u16, about: &'static str) -> Self {
        self.answers(status, about, "text/plain", text)
    }

    fn answers(mut self, status: u16, about: &'static str, media_type: &'static str, schema: SchemaOf) -> Self {
        match self.answers.iter_mut().find(|answer| answer.status == status) {
            Some(answer) => answer.contents.push((media_type, schema)),
            None => self.answers.push(Answer { status, about, contents: vec![(media_type, schema)] }),
        }
        self
    }

    /// It may fail so, beside what any call may.
    pub(crate) fn fails(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Its failures are pages for those who accept them.
    pub(crate) const fn fails_with_pages(mut self) -> Self {
        self.has_pages = true;
        self
    }

    /// As OpenAPI has it.
    pub(super) fn document(&self, path: &str, tag: &str, schemas: &mut Schemas) -> Value {
        let mut parameters = path_parameters(path, self.policy.segments);
        parameters.extend(self.policy.query.parameters().document());
        parameters.extend(self.headers.iter().map(|(name, about, schema)| {
            json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema})
        }));
        let mut operation = json!({
            "operationId": self.id,
            "tags": [tag],
            "summary": self.summary,
            "description": self.about,
            "parameters": parameters,
            "security": self.policy.access.document(),
            "responses": self.responses(schemas),
        });
        if let Some(body) = &self.body {
            let schema = schemas.read(body.schema);
            let required = schemas.requires_members(&schema) || body.media_type != "application/json";
            let mut content = json!({"schema": schema});
            if let Some(example) = &body.example {
                content["example"] = example.clone();
            }
            operation["requestBody"] = json!({"required": required, "content": {body.media_type: content}});
            if let Some(media_type) = body.text {
                operation["requestBody"]["content"][media_type] = json!({"schema": {"type": "string"}});
            }
        }
        operation
    }

    fn responses(&self, schemas: &mut Schemas) -> Value {
        let mut responses = Map::new();
        for answer in &self.answers {
            let mut response = json!({"description": answer.about, "headers": headers(false)});
            for (media_type, schema) in &answer.contents {
                response["content"][*media_type] = json!({"schema": schemas.written(*schema)});
            }
            responses.insert(answer.status.to_string(), response);
        }
        let form = self.policy.form;
        for (status, codes) in self.failures(form) {
            let lines: Vec<String> =
                codes.iter().map(|code| format!("- `{}`: {}", code.as_str(), code.about())).collect();
            let schema = match form {
                Form::Rest => schemas.written(schema_of::<ErrorBody>),
                Form::Text => schemas.written(text),
                Form::WebDriver => schemas.written(schema_of::<W3cFailure>),
                Form::Hosted(Service::Browserbase) => schemas.written(schema_of::<BrowserbaseFailure>),
                Form::Hosted(Service::Steel) => schemas.written(schema_of::<SteelFailure>),
                Form::Hosted(Service::Kernel) => schemas.written(schema_of::<KernelFailure>),
            };
            // The same request may be worth another try.
            let retry = codes.iter().any(|code| code.retry_after().is_some());
            let known = responses.entry(status.to_string()).or_insert_with(|| json!({"headers": headers(retry)}));
            known["description"] = json!(lines.join("\n"));
            let media_type = if form == Form::Text { "text/plain" } else { "application/json" };
            known["content"][media_type] = json!({"schema": schema});
            if self.has_pages {
                known["content"]["text/html"] = json!({"schema": {"type": "string"}});
            }
        }
        Value::Object(responses)
    }

    /// Every code with which the call may fail, by its status.
    fn failures(&self, form: Form) -> BTreeMap<u16, Vec<Code>> {
        let mut codes = self.codes.clone();
        codes.extend(self.policy.access.codes());
        codes.extend([Code::ForeignHost, Code::ForeignOrigin, Code::AddressLimit, Code::BodyMemory, Code::Internal]);
        // A parameter that is unknown or given twice.
        codes.extend([Code::InvalidField, Code::UnknownField]);
        if self.policy.traffic != Traffic::Probes {
            codes.push(Code::Draining);
        }
        let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
        codes.sort();
        codes.dedup();
        for code in codes {
            let status = if form == Form::WebDriver { webdriver_status(code) } else { status(code) };
            by_status.entry(status.as_u16()).or_default().push(code);
        }
        by_status
    }
}

fn headers(retry: bool) -> Value {
    let mut headers = json!({"x-request-id": {"$ref": "#/components/headers/RequestId"}});
    if retry {
        headers["retry-after"] = json!({"$ref": "#/components/headers/RetryAfter"});
    }
    headers
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn bytes(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "binary"})
}

fn text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string"})
}

fn path_parameters(path: &str, segments: &[Segment]) -> Vec<Value> {
    let document = |name: &str| {
        let about = segments.iter().find(|segment| segment.name == name).map_or("", |segment| segment.about);
        debug_assert!(!about.is_empty(), "no segment {name} of {path}");
        json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
    };
    path.split('/').filter_map(parameter).map(document).collect()
}
