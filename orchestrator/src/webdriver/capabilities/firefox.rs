//! `moz:firefoxOptions`, and what else a Firefox worker has to look at.

use serde_json::{Map, Value};

use super::{Fault, refused};
use crate::worker::DriverMode;

/// Checks one alternative for Firefox, takes out what is true already, and says which browser it needs.
pub(super) fn check(caps: &mut Map<String, Value>, _warm_args: &[String]) -> Result<DriverMode, Fault> {
    match caps.get("moz:firefoxOptions") {
        None => Ok(DriverMode::Warm),
        Some(_) => Err(refused("moz:firefoxOptions", "is not an option that can be honoured here: leave it out")),
    }
}
