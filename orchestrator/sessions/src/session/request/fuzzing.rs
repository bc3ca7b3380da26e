//! Create calls for the fuzzer: the options of a session that is made can be read again from the disk, and no body is our
//! own fault.

use std::sync::LazyLock;

use serde_json::Value;

use super::{CreateRequest, Options, SessionKind};
use crate::Error;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::error::{Code, Fault as _, read_json};

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, std::iter::empty(), &Flags::default(), &host)
        .unwrap_or_else(|error| panic!("without settings, there is nothing to check: {error}"))
});

/// Bodies of both calls. The first byte of an input sets which.
pub fn seeds() -> Vec<Vec<u8>> {
    let full = r#"{"service_passcode":"ann","metadata":{"a":"b"},"url":"https://a.test/","browser_type":"firefox","settings":{"locales":["de-DE","en"],"user_agent":"x","viewport":{"width":800,"height":600},"timezone":"Europe/Berlin","color_scheme":"dark","reduced_motion":"reduce","geolocation":{"latitude":52.5,"longitude":13.4},"permissions":["geolocation"]},"advanced":{"block_ads":true},"headless":true,"session_timeout":60,"idle_timeout":30,"keep_alive":false,"recording":false}"#;
    let state = r#"{"state":{"cookies":[{"name":"a","value":"b","domain":"a.test","path":"/","expires":-1,"httpOnly":false,"secure":false,"sameSite":"Lax"}],"origins":[{"origin":"https://a.test","localStorage":[{"name":"k","value":"v"}]}]},"url":"about:blank","kiosk":true,"app_name":"x"}"#;
    let profile = r#"{"profile":{"name":"p","mode":"write"},"url":"data:text/html,x","browser_type":"webkit"}"#;
    [(0, full), (1, state), (0, profile)].map(|(kind, body)| [&[kind], body.as_bytes()].concat()).into()
}

/// Panics when options are others after they were written, or a body is an internal error.
pub fn check(bytes: &[u8]) {
    if let Some(Err(error)) = accepted(bytes) {
        assert_ne!(error.code(), Code::Internal, "{error:?} is our fault");
    }
}

/// Whether a body makes a session; nothing for bytes that are no such body.
fn accepted(bytes: &[u8]) -> Option<Result<(), Error>> {
    let [kind, body @ ..] = bytes else { return None };
    let kind = if kind & 1 == 0 { SessionKind::DevTools } else { SessionKind::WebDriver };
    let request = read_json::<CreateRequest, _>(serde_json::from_slice::<Value>(body).ok()?).ok()?;
    Some(request.options(kind, &CONFIG).map(|options: Options| {
        let stored = serde_json::to_vec(&options).unwrap_or_default();
        let again = serde_json::from_slice::<Options>(&stored).ok().and_then(|again| serde_json::to_vec(&again).ok());
        assert!(again == Some(stored), "{options:?} are others from the disk");
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_makes_a_session() {
        for seed in seeds() {
            let made = accepted(&seed);
            assert!(matches!(made, Some(Ok(()))), "{}: {made:?}", String::from_utf8_lossy(&seed));
        }
    }
}
