//! What the HTTP API reads and writes, as plain data: the daemon serialises these types and describes them in
//! `/openapi.json`, the domains build them from their records, and the command line and the tests read them back.
//!
//! | module | what it holds |
//! |---|---|
//! | [`captcha`] | challenges of a session's pages |
//! | [`error`] | the body of a call that failed |
//! | [`extension`] | browser extensions |
//! | [`integration`] | integration keys, and the log of their requests |
//! | [`list`] | where in a list a page of it is |
//! | [`log`] | what happened in a session |
//! | `member` | a member of a body that may be null |
//! | `object` | a part of a body that is an object and nothing else |
//! | [`profile`] | profiles, their versions and what these hold |
//! | [`session`] | sessions: created, listed and one by one |
//! | [`status`] | how the daemon is |
//! | [`task`] | tasks, the items of fleets, and the files that they made |
//! | [`webhook`] | webhooks |
//! | [`world`] | worlds |
//!
//! It depends on core and on the worker image's protocol, and on nothing else of the daemon. Three decisions hold for all
//! types:
//!
//! - Every answer can be written and read. A reader tolerates members that it does not know, because answers may get further
//!   members in later releases; bodies that the daemon reads refuse them.
//! - `#[schemars(rename)]` pins the name that a type has in `/openapi.json`, so that renaming it here changes nothing outside.
//! - Types hold data and its names, no rules: what a request may say is checked where it is carried out.

pub mod captcha;
pub mod error;
pub mod extension;
pub mod integration;
pub mod list;
pub mod log;
mod member;
mod object;
pub mod profile;
pub mod session;
pub mod status;
pub mod task;
pub mod webhook;
pub mod world;

pub use member::null_is_default;
pub use object::{Members, Object};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Any JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AnyObject(pub Map<String, Value>);
