//! The capability `proxy`: no browser gets it. The daemon opens the browser's connections, and sends them through that proxy.

use serde_json::{Map, Value};

use super::{Rejection, refused};
use warmpool_workers::egress::ClientProxy;

/// Takes the proxy out of one alternative.
/// Errors: for a kind that cannot be honoured.
pub(super) fn take(caps: &mut Map<String, Value>) -> Result<Option<ClientProxy>, Rejection> {
    let Some(Value::Object(members)) = caps.remove("proxy") else { return Ok(None) };
    match members.get("proxyType").and_then(Value::as_str) {
        Some("direct" | "system") => Ok(None),
        None if members.is_empty() => Ok(None),
        Some("manual") => ClientProxy::read(&members)
            .map(Some)
            .map_err(|(member, problem)| refused(format!("proxy.{member}"), problem)),
        _ => Err(refused(
            "proxy.proxyType",
            "can be `manual`, `direct` or `system`: no browser here reads a script for proxies",
        )),
    }
}
