//! Results for other programs, as the bodies of answers.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::headers::wants;
use crate::http::error::Error;
use warmpool_tasks::task::{ExportFormat, Lines};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Json,
    Ndjson,
    Csv,
}

impl Format {
    /// The form of an export that the parameter `format` asks for, or else the header `Accept`; none for JSON.
    pub(super) fn export(headers: &HeaderMap, format: Option<Self>) -> Option<ExportFormat> {
        match format {
            Some(Self::Json) => None,
            Some(Self::Ndjson) => Some(ExportFormat::Ndjson),
            Some(Self::Csv) => Some(ExportFormat::Csv),
            None if wants(headers, "application/x-ndjson") => Some(ExportFormat::Ndjson),
            None if wants(headers, "text/csv") => Some(ExportFormat::Csv),
            None => None,
        }
    }
}

/// The answer that sends these lines as they are read.
pub(super) fn respond(lines: Lines<Error>, format: ExportFormat) -> Response {
    let media_type = match format {
        ExportFormat::Ndjson => "application/x-ndjson",
        ExportFormat::Csv => "text/csv; charset=utf-8",
    };
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
