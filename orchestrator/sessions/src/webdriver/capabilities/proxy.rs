//! The capability `proxy`: no browser gets it. The daemon opens the browser's connections, and sends them through that proxy.

use serde_json::{Map, Value};

use super::{Rejection, refused};
use warmpool_workers::egress::ClientProxy;

/// The most hosts in `noProxy`. Each connection of the browser is compared with all of them, and the session keeps them.
const MOST_HOSTS: usize = 1000;
/// The most bytes of these hosts together.
const MOST_OF_HOSTS: usize = 16 << 10;
/// The most bytes of any other member: more than an address with its credentials has.
const LONGEST: usize = 4 << 10;

/// Takes the proxy out of one alternative.
/// Errors: for a kind that cannot be honoured, and for more than a session keeps.
pub(super) fn take(caps: &mut Map<String, Value>) -> Result<Option<ClientProxy>, Rejection> {
    let Some(Value::Object(members)) = caps.remove("proxy") else { return Ok(None) };
    match members.get("proxyType").and_then(Value::as_str) {
        Some("direct" | "system") => Ok(None),
        None if members.is_empty() => Ok(None),
        Some("manual") => {
            check_size(&members)?;
            ClientProxy::read(&members)
                .map(Some)
                .map_err(|(member, problem)| refused(format!("proxy.{member}"), problem))
        }
        _ => Err(refused(
            "proxy.proxyType",
            "can be `manual`, `direct` or `system`: no browser here reads a script for proxies",
        )),
    }
}

fn check_size(members: &Map<String, Value>) -> Result<(), Rejection> {
    for (member, value) in members {
        match value {
            Value::Array(hosts) => {
                let bytes: usize = hosts.iter().filter_map(Value::as_str).map(str::len).sum();
                if hosts.len() > MOST_HOSTS || bytes > MOST_OF_HOSTS {
                    let limits = format!("can have {MOST_HOSTS} hosts at most, of {MOST_OF_HOSTS} bytes together");
                    return Err(refused(format!("proxy.{member}"), &limits));
                }
            }
            Value::String(text) if text.len() > LONGEST => {
                return Err(refused(format!("proxy.{member}"), &format!("can have {LONGEST} bytes at most")));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Error;

    /// The member that is refused, if one is.
    fn refused_of(members: Value) -> Option<String> {
        match take(json!({"proxy": members}).as_object_mut().unwrap()) {
            Ok(proxy) => {
                assert!(proxy.is_some());
                None
            }
            Err(Rejection::Refused(Error::Capability { capability, .. })) => Some(capability),
            Err(_) => panic!("another refusal"),
        }
    }

    #[test]
    fn a_proxy_has_a_size_that_a_session_keeps() {
        let hosts =
            |count: usize, bytes: usize| json!({"proxyType": "manual", "noProxy": vec!["x".repeat(bytes); count]});
        assert_eq!((refused_of(hosts(1000, 16)), refused_of(hosts(1, 16 << 10))), (None, None));
        for (count, bytes) in [(1001, 1), (2, 10_000), (1, (16 << 10) + 1)] {
            assert_eq!(refused_of(hosts(count, bytes)).as_deref(), Some("proxy.noProxy"), "{count} of {bytes}");
        }
        for member in ["httpProxy", "sslProxy", "ftpProxy", "socksUsername", "socksPassword", "proxyAutoconfigUrl"] {
            let long = json!({"proxyType": "manual", member: "x".repeat(LONGEST + 1)});
            assert_eq!(refused_of(long), Some(format!("proxy.{member}")));
        }
    }
}
