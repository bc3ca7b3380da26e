//! What the description says of the commands that drivers answer, at a session's own address and at a grid's.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::super::devtools;
use super::super::openapi::Operation;
use super::super::reply::{W3cAnswer, W3cValue};
use super::super::route::Policy;
use warmpool_core::error::Code;

/// What any command of a driver may fail with.
const COMMAND_FAILURES: &[Code] = &[
    Code::UnknownSession,
    Code::SessionEnded,
    Code::UnknownPath,
    Code::MethodNotAllowed,
    Code::RuntimeDown,
    Code::Starting,
    Code::WorkerFailed,
    Code::WorkerTimeout,
];

pub(in crate::http) fn operation(id: &'static str, summary: &'static str, policy: Policy) -> Operation {
    Operation::new(id, summary, policy).fails(COMMAND_FAILURES)
}

/// A command that the driver answers, and may refuse with any status of the standard.
pub(in crate::http) fn any_command(id: &'static str, policy: Policy) -> Operation {
    operation(id, "A command of the W3C WebDriver standard", policy.takes_anything())
        .about("The daemon passes it to the driver, and its answer back.")
        .writes::<W3cAnswer>("The driver's answer.")
        .fails(&[Code::InvalidBody, Code::BodyTooLarge, Code::BodyTooHeavy, Code::BodyMemory, Code::BodyTimeout])
        .fails(&[Code::UnsupportedMediaType, Code::CapabilityRefused])
}

/// The websocket at the standard's own path.
pub(in crate::http) fn bidi_operation(id: &'static str, policy: Policy) -> Operation {
    Operation::new(id, "WebDriver BiDi beside WebDriver", policy)
        .about("A new session that asks for `webSocketUrl` gets this address.")
        .upgrades("The websocket is open.")
        .fails(&[Code::MethodNotAllowed])
        .fails(devtools::SOCKET_FAILURES)
}

pub(in crate::http) fn upload_operation(id: &'static str, policy: Policy) -> Operation {
    operation(id, "Selenium's upload of a file", policy)
        .reads::<Upload>(json!({"file": "UEsDBA=="}))
        .writes::<W3cValue<String>>("Where the file is, inside the container.")
        .fails(&[Code::NoSpace])
}

pub(in crate::http) fn list_downloads(id: &'static str, policy: Policy) -> Operation {
    operation(id, "List the downloads", policy).writes::<W3cAnswer>("Their names.")
}

pub(in crate::http) fn get_download(id: &'static str, policy: Policy) -> Operation {
    operation(id, "Fetch a download", policy)
        .reads::<DownloadName>(json!({"name": "tea.txt"}))
        .writes::<W3cAnswer>("The file as a zip, in base64.")
        .fails(&[Code::UnknownFile])
}

pub(in crate::http) fn read_download(id: &'static str, policy: Policy) -> Operation {
    operation(id, "Read a download", policy)
        .writes_bytes("application/octet-stream", "The file.")
        .fails(&[Code::UnknownFile])
}

pub(in crate::http) fn delete_downloads(id: &'static str, policy: Policy) -> Operation {
    operation(id, "Remove all downloads", policy).writes::<W3cAnswer>("They are gone.")
}

/// Capabilities, as the standard has them.
#[derive(JsonSchema)]
#[schemars(rename = "NewWebDriverSession")]
#[expect(dead_code, reason = "only its schema is needed: `webdriver::capabilities` reads it")]
pub(in crate::http) struct NewSessionBody {
    /// `alwaysMatch` and `firstMatch` of the W3C standard.
    capabilities: Option<Map<String, Value>>,
    /// What older clients send.
    #[schemars(rename = "desiredCapabilities")]
    desired_capabilities: Option<Map<String, Value>>,
}

pub(in crate::http) fn new_session_example() -> Value {
    json!({"capabilities": {"alwaysMatch": {"browserName": "chrome"}}})
}

/// A file to upload.
#[derive(JsonSchema)]
#[schemars(rename = "UploadFile")]
#[expect(dead_code, reason = "only its schema is needed: the agent reads it")]
struct Upload {
    /// A zip with the file, in base64.
    file: String,
}

/// A file to fetch.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct DownloadName {
    name: String,
}
