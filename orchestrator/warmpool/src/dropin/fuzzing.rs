//! What clients of other services send, for the fuzzer: it becomes a session or an error that names what is wrong in the
//! client's own words, and never a fault of ours.

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::hosted::{browserbase, kernel, steel};
use super::{CreateBody, browserless, grid, playwright};
use crate::http::error as http_error;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, Fault as _, read_json};
use warmpool_sessions::Error;
use warmpool_sessions::session::SessionKind;

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, std::iter::empty(), &Flags::default(), &host)
        .unwrap_or_else(|error| panic!("without settings, there is nothing to check: {error}"))
});

/// The first byte of an input sets whose client it is.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let inputs: [(u8, &str); 11] = [
        (
            0,
            "token=k&timeout=60000&launch=%7B%22headless%22%3Afalse%2C%22args%22%3A%5B%22--lang%3Dde%22%5D%7D&blockAds&trackingId=a",
        ),
        (0, "session=a&keep_alive=true&idle_timeout=9&--window-size=800,600&stealth=false&launch=eyJhcmdzIjpbXX0="),
        (0, "sessionId=ses_1&apiKey=k"),
        (
            0,
            "token=k&options=%7B%22recording%22%3Atrue%2C%22settings%22%3A%7B%22timezoneId%22%3A%22Europe%2FBerlin%22%7D%7D&--lang=de",
        ),
        (
            5,
            "token=k&browser=chromium&slowMo=5&launch-options=%7B%22channel%22%3A%22chrome%22%2C%22args%22%3A%5B%22--lang%3Dde%22%5D%2C%22proxy%22%3A%7B%22server%22%3A%22socks5%3A%2F%2Fp.example%22%2C%22bypass%22%3A%22.a%2Cb%22%7D%7D",
        ),
        (
            1,
            r#"{"capabilities":{"alwaysMatch":{"browserName":"firefox","se:screenResolution":"800x600","selenoid:options":{"enableVNC":true,"sessionTimeout":"1m30s","name":"n"},"se:downloadsEnabled":true}}}"#,
        ),
        (
            1,
            r#"{"desiredCapabilities":{"browserName":"Chrome","platform":"ANY","enableVideo":true,"moon:options":{"sessionTimeout":"5m"},"warmpool:options":{"headless":true}}}"#,
        ),
        (
            1,
            r#"{"desiredCapabilities":{"browserName":"chrome","enableVideo":true,"name":"n"},"capabilities":{"firstMatch":[{"browserName":"chrome"}]}}"#,
        ),
        (
            2,
            r#"{"projectId":"p","browserSettings":{"viewport":{"width":800,"height":600},"blockAds":true,"context":{"id":"c","persist":true}},"timeout":60,"keepAlive":true,"userMetadata":{"a":"b"},"proxies":[{"type":"browserbase","geolocation":{"country":"DE"}}]}"#,
        ),
        (
            3,
            r#"{"dimensions":{"width":800,"height":600},"timeout":60000,"blockAds":true,"useProxy":false,"userAgent":"x","profileId":"p"}"#,
        ),
        (
            4,
            r#"{"headless":true,"stealth":false,"timeout_seconds":60,"viewport":{"width":800,"height":600},"profile":{"name":"p","save_changes":true}}"#,
        ),
    ];
    inputs.map(|(whose, text)| [&[whose], text.as_bytes()].concat()).into()
}

/// Panics when a client's request is our own fault.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(Err(error)) = accepted(bytes) {
        assert_ne!(error.code(), Code::Internal, "{error:?} is our fault");
    }
}

/// Whether a request makes a session; nothing for bytes that are no such request.
fn accepted(bytes: &[u8]) -> Option<Result<(), http_error::Error>> {
    let [whose, text @ ..] = bytes else { return None };
    let config = &*CONFIG;
    let made = match whose % 6 {
        0 => String::from_utf8(text.to_vec()).ok().map(|query| {
            let query = browserless::read(&query, Engine::Chromium)?;
            query.options(config).map(drop)
        }),
        1 => serde_json::from_slice::<Value>(text).ok().map(|body| {
            let wanted = grid::read(&body, |_| Some("130.0".to_owned()))?;
            wanted.options(config).map(drop)
        }),
        2 => made(text, config, browserbase::CreateSession::create_body),
        3 => made(text, config, steel::CreateSession::create_body),
        4 => made(text, config, |body: kernel::CreateBrowser| body.create_body(config)),
        _ => {
            return String::from_utf8(text.to_vec()).ok().map(|query| {
                let wanted = playwright::read(None, &query, &http::HeaderMap::new())?;
                wanted.options("1.65".to_owned(), config).map(drop)
            });
        }
    };
    made.map(|made| Ok(made?))
}

fn made<T: DeserializeOwned>(
    text: &[u8],
    config: &Config,
    create_body: impl FnOnce(T) -> Result<CreateBody, Error>,
) -> Option<Result<(), Error>> {
    let body: T = read_json(serde_json::from_slice::<Value>(text).ok()?).ok()?;
    Some(create_body(body).and_then(|body| body.options(SessionKind::DevTools, config).map(drop)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_makes_a_session() {
        for seed in seeds() {
            let made = accepted(&seed).expect("a request");
            // There is no upstream proxy.
            let lacks = made.as_ref().is_err_and(|error| error.field() == Some("proxies"));
            assert!(made.is_ok() || lacks, "{}: {made:?}", String::from_utf8_lossy(&seed));
        }
    }
}
