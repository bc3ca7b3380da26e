//! `webkitgtk:browserOptions`, and what else a WebKit worker has to look at.

use serde_json::{Map, Value};

use super::{Fault, refused};
use crate::worker::DriverMode;

/// Checks one alternative for WebKit, takes out what is true already, and says which browser it needs.
pub(super) fn check(caps: &mut Map<String, Value>, _warm_args: &[String]) -> Result<DriverMode, Fault> {
    match caps.get("webkitgtk:browserOptions") {
        None => Ok(DriverMode::Warm),
        Some(_) => Err(refused("webkitgtk:browserOptions", "is not an option that can be honoured here: leave it out")),
    }
}
