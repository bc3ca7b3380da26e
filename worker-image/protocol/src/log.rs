use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How bad a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Something went wrong.
    Error,
    /// Something may go wrong.
    Warning,
    /// Anything else.
    Info,
    /// For whoever looks for a fault.
    Debug,
}

/// A line of `GET /log`: something that happened in the browser. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogLine {
    /// A page, or the browser about a page, wrote to the console.
    Console {
        /// When.
        time: u64,
        /// How bad it is.
        level: LogLevel,
        /// The words.
        text: String,
        /// The address of the script or resource, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The line in it, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
    },
    /// A page's script threw an error that nobody caught.
    PageError {
        /// When.
        time: u64,
        /// The error, with its stack where it has one.
        text: String,
        /// The address of the script, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The line in it, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
    },
    /// A request of a page is done.
    Request(Box<DoneRequest>),
    /// The browser saves a file.
    Download {
        /// When.
        time: u64,
        /// The name of the file.
        name: String,
        /// Where it comes from, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// So many more things happened that came too fast.
    Missed {
        /// How many.
        count: u64,
    },
}

/// A request that is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DoneRequest {
    /// Its method.
    pub method: String,
    /// Its address.
    pub url: String,
    /// What it was for, as DevTools names it.
    pub resource: String,
    /// Its headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether it had a body.
    #[serde(default)]
    pub had_body: bool,
    /// When it began, in Unix milliseconds.
    pub began_ms: f64,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
    /// The answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RequestAnswer>,
    /// Why there is no answer, or no whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Bytes of the answer on the wire, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestAnswer {
    /// Its status.
    pub status: u16,
    /// The words beside the status.
    #[serde(default)]
    pub reason: String,
    /// The version of the protocol.
    #[serde(default)]
    pub protocol: String,
    /// Its media type.
    #[serde(default)]
    pub media_type: String,
    /// Its headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How long the parts of the exchange took.
    #[serde(default)]
    pub timing: RequestTiming,
}

/// How long the parts of an exchange took, in milliseconds; none where there was no such part, or it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestTiming {
    /// Looking the name up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<f64>,
    /// Connecting, TLS included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<f64>,
    /// TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl: Option<f64>,
    /// From the request to the beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// From the beginning to the beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_headers: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_the_form_that_every_daemon_reads() {
        let said = json!({"type": "console", "time": 7, "level": "warning", "text": "a", "url": null, "line": null});
        let line = LogLine::Console { time: 7, level: LogLevel::Warning, text: "a".into(), url: None, line: None };
        assert_eq!(serde_json::from_value::<LogLine>(said).unwrap(), line);
        assert_eq!(
            serde_json::to_value(line).unwrap(),
            json!({"type": "console", "time": 7, "level": "warning", "text": "a"})
        );
        let request = json!({
            "type": "request", "method": "GET", "url": "http://a.example/", "resource": "Image", "headers": {"accept": "*/*"},
            "had_body": false, "began_ms": 1.5, "took_ms": 2.0, "failure": "refused",
        });
        let line: LogLine = serde_json::from_value(request.clone()).unwrap();
        assert_eq!(serde_json::to_value(&line).unwrap(), request);
        let LogLine::Request(done) = line else { panic!("{line:?}") };
        assert_eq!((done.answer, done.failure.as_deref()), (None, Some("refused")));
        assert_eq!(serde_json::to_value(LogLine::Missed { count: 3 }).unwrap(), json!({"type": "missed", "count": 3}));
    }
}
