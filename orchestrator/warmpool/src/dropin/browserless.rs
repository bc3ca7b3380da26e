//! The query of a browserless URL: `ws://host/?token=…&timeout=60000&launch={"headless":false}`. Beside what browserless has it
//! takes `options`, the body of a create call.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::{CreateBody, OPTIONS, switches};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_profiles::check_name;
use warmpool_sessions::Error;
use warmpool_sessions::session::{Options, SessionKind};

/// The longest `trackingId`.
const MAX_TRACKING_ID: usize = 32;
/// The longest name of a session.
const MAX_NAME: usize = 64;

/// What a browserless client asks for, its key left out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Query {
    /// The key, where the URL has one.
    pub token: Option<String>,
    /// The name of the session to join, or to make.
    pub session: Option<String>,
    /// The id of the session to connect to.
    pub session_id: Option<String>,
    /// The fields of a create call.
    pub create_body: CreateBody,
}

impl Query {
    /// The options of the session that the client wants: of one connection unless it is to be kept or has a name.
    /// Errors: those of [`CreateBody::options`].
    pub(crate) fn options(&self, config: &Config) -> Result<Options, Error> {
        let options = self.create_body.options(SessionKind::DevTools, config)?;
        let one_connection = self.session.is_none() && !options.keep_alive;
        Ok(Options { one_connection, name: self.session.clone(), ..options })
    }

    /// Checks that a client who wants `wanted` may join a session that was asked to be `has`: an existing browser takes no
    /// settings.
    /// Errors: `Conflict`, which names what differs as the client does.
    pub(crate) fn check_joins(&self, wanted: &Options, has: &Options) -> Result<(), Error> {
        let differs = |what: &str| Error::Conflict {
            message: format!(
                "the session `{}` exists, and `{what}` is another there: leave it out, or choose another name",
                has.name.as_deref().unwrap_or_default()
            ),
        };
        if wanted.engine != has.engine {
            return Err(differs("browser"));
        }
        // The other's kind is known by now.
        let profile = |options: &Options| options.profile.as_ref().map(|profile| (profile.name.clone(), profile.mode));
        let (ours, theirs) = (&wanted.launch.settings, &has.launch.settings);
        for (field, same) in [
            ("headless", wanted.mode == has.mode),
            ("settings.locales", ours.locales == theirs.locales),
            ("settings.user_agent", ours.user_agent == theirs.user_agent),
            ("settings.viewport", ours.viewport == theirs.viewport),
            ("settings.timezone", ours.timezone == theirs.timezone),
            ("settings.color_scheme", ours.color_scheme == theirs.color_scheme),
            ("settings.reduced_motion", ours.reduced_motion == theirs.reduced_motion),
            ("settings.geolocation", ours.geolocation == theirs.geolocation),
            ("settings.permissions", ours.permissions == theirs.permissions),
            ("advanced.block_ads", wanted.launch.block_ads == has.launch.block_ads),
            ("advanced.solve_captchas", wanted.launch.captchas == has.launch.captchas),
            ("advanced.proxy", wanted.proxy == has.proxy),
            ("advanced.extension_ids", wanted.extensions == has.extensions),
            ("kiosk", wanted.launch.kiosk == has.launch.kiosk),
            ("recording", wanted.recording == has.recording),
            ("profile", profile(wanted) == profile(has)),
        ] {
            if let Some(given) = self.create_body.given(field).filter(|_| !same) {
                return Err(differs(&given));
            }
        }
        Ok(())
    }
}

/// Reads the query of a URL for a browser of `engine`.
/// Errors: `Field`, with the parameter's name.
pub(crate) fn read(query: &str, engine: Engine) -> Result<Query, Error> {
    let (mut query, options) = parameters(query, engine)?;
    query.create_body.take_options(options)?;
    if query.session_id.is_some()
        && let Some(given) = query.session.as_ref().map(|_| "session").or_else(|| query.create_body.any_given())
    {
        let problem = format!("names a session that is there already: leave `{given}` out");
        return Err(Error::invalid("sessionId", problem));
    }
    Ok(query)
}

/// Reads the parameters, and leaves those in `options` to be taken once everything else is read.
/// Errors: `Field`, with the parameter's name.
pub(super) fn parameters(query: &str, engine: Engine) -> Result<(Query, Map<String, Value>), Error> {
    let (mut read, mut options) = (Query::default(), Map::new());
    let create_body = &mut read.create_body;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let name = name.as_ref();
        match name {
            // The second name is that of addresses which users of Steel and Browserbase build by hand.
            "token" | "apiKey" if read.token.is_some() => {
                return Err(Error::invalid(name, "is a second key: send `token` or `apiKey`"));
            }
            "token" | "apiKey" => read.token = Some(value.into_owned()),
            "sessionId" => read.session_id = Some(value.into_owned()),
            "session" => {
                if value.is_empty() || value.len() > MAX_NAME || !value.bytes().all(is_plain) {
                    return Err(Error::invalid(name, format!("must be 1 to {MAX_NAME} letters, digits, `-` or `_`")));
                }
                read.session = Some(value.into_owned());
            }
            "launch" => launch(create_body, &value)?,
            OPTIONS => {
                options = object(name, &value)?;
                let named = options.get("browser_type").filter(|named| !named.is_null());
                if named.is_some_and(|named| *named != json!(engine)) {
                    let problem = format!("must be the browser that the address leads to, which is {engine}");
                    return Err(Error::invalid("options.browser_type", problem));
                }
            }
            "userDataDir" => profile(create_body, name, &json!(value), "write")?,
            "profile" => profile(create_body, name, &json!(value), "read")?,
            "timeout" => {
                let millis: u64 =
                    value.parse().map_err(|_| Error::invalid(name, "must be a whole number of milliseconds"))?;
                create_body.set("session_timeout", name, json!(millis.div_ceil(1000)));
            }
            "headless" => headless(create_body, name, &json!(value))?,
            "trackingId" => {
                if value.is_empty() || value.len() >= MAX_TRACKING_ID || !value.bytes().all(is_plain) {
                    return Err(Error::invalid(name, "must be 1 to 31 letters, digits, `-` or `_`"));
                }
                create_body.set("app_name", name, json!(value));
            }
            "blockAds" => {
                if flag(name, &value)? {
                    create_body.set("advanced.block_ads", name, json!(true));
                }
            }
            "logs" => {
                let wanted = flag(name, &value)?;
                create_body.set("logs", name, json!(wanted));
            }
            "keep_alive" => {
                let keep = flag(name, &value)?;
                create_body.set("keep_alive", name, json!(keep));
            }
            "idle_timeout" => {
                let seconds: u64 =
                    value.parse().map_err(|_| Error::invalid(name, "must be a whole number of seconds"))?;
                create_body.set("idle_timeout", name, json!(seconds));
            }
            // What the connection's own client does by itself.
            "slowMo" => {}
            "stealth" | "ignoreHTTPSErrors" | "acceptInsecureCerts" => {
                let set = flag(name, &value)?;
                launch_option(create_body, name, name, &json!(set))?;
            }
            _ if name.starts_with("--") => {
                let switch = if value.is_empty() { name.to_owned() } else { format!("{name}={value}") };
                switches::read(create_body, name, &switch)?;
            }
            "proxy" | "proxyCountry" | "proxySticky" | "externalProxyServer" => {
                let problem = format!("is not served here: leave it out, or {}", switches::PROXY);
                return Err(Error::not_supported(name, problem));
            }
            "solveCaptchas" => {
                let problem =
                    r#"is not served here: send `options={"advanced": {"solve_captchas": true}}`, URL-encoded"#;
                return Err(Error::not_supported(name, problem));
            }
            "record" | "replay" => {
                let problem = r#"is not served here: send `options={"recording": true}`, URL-encoded"#;
                return Err(Error::not_supported(name, problem));
            }
            "humanlike" | "blockConsentModals" => {
                return Err(Error::not_supported(name, "is not served here: leave it out"));
            }
            _ => {
                let known = "expected token, session, timeout, launch, options, headless, trackingId, blockAds, slowMo, \
                             idle_timeout, keep_alive, logs, userDataDir, profile, sessionId, or a browser's switch \
                             such as --lang";
                return Err(Error::unknown(name, known));
            }
        }
    }
    create_body.set_default("headless", json!(true));
    create_body.set_default("url", json!("about:blank"));
    create_body.set_default("browser_type", json!(engine));
    Ok((read, options))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn flag(name: &str, value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Error::invalid(name, "must be true or false")),
    }
}

/// An object as JSON, or that in base64.
fn object(name: &str, text: &str) -> Result<Map<String, Value>, Error> {
    let parsed = serde_json::from_str(text).ok().or_else(|| {
        let engines = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
        // A plus sign in a query reads as a space.
        let text = text.trim().replace(' ', "+");
        let bytes = engines.iter().find_map(|engine| engine.decode(&text).ok())?;
        serde_json::from_slice(&bytes).ok()
    });
    match parsed {
        Some(Value::Object(members)) => Ok(members),
        _ => Err(Error::invalid(name, "must be a JSON object, URL-encoded or in base64")),
    }
}

fn launch(create_body: &mut CreateBody, text: &str) -> Result<(), Error> {
    for (name, value) in object("launch", text)? {
        launch_option(create_body, &name, &format!("launch.{name}"), &value)?;
    }
    Ok(())
}

fn launch_option(create_body: &mut CreateBody, name: &str, place: &str, value: &Value) -> Result<(), Error> {
    let empty = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let unserved = |problem: &str| Err(Error::not_supported(place, problem));
    match name {
        "headless" if !value.is_null() => headless(create_body, place, value),
        "args" if !empty => {
            let Value::Array(args) = value else { return Err(Error::invalid(place, "must be an array of strings")) };
            for (index, arg) in args.iter().enumerate() {
                let place = format!("{place}[{index}]");
                let Value::String(arg) = arg else { return Err(Error::invalid(&place, "must be a string")) };
                switches::read(create_body, &place, arg)?;
            }
            Ok(())
        }
        "defaultViewport" if !empty => viewport(create_body, place, value),
        // Of the service's own client in browserless, of which there is none here.
        "slowMo" | "dumpio" | "waitForInitialPage" | "handleSIGINT" | "handleSIGTERM" | "handleSIGHUP"
        | "protocolTimeout" | "timeout" => Ok(()),
        "stealth"
        | "devtools"
        | "userDataDir"
        | "executablePath"
        | "env"
        | "ignoreDefaultArgs"
        | "pipe"
        | "extraPrefsFirefox"
        | "debuggingPort"
        | "channel"
        | "proxy"
        | "args"
        | "defaultViewport"
        | "headless"
        | "ignoreHTTPSErrors"
        | "acceptInsecureCerts"
        | "browser"
        | "product"
            if empty =>
        {
            Ok(())
        }
        "stealth" => unserved("is not served: a browser here does not hide what it is"),
        "ignoreHTTPSErrors" | "acceptInsecureCerts" => unserved(switches::CERTIFICATES),
        "userDataDir" => profile(create_body, place, value, "write"),
        _ => unserved("is not an option that a browser which runs already can take: leave it out"),
    }
}

/// A folder for a browser's data, which is a profile here, by its name.
pub(super) fn profile(create_body: &mut CreateBody, place: &str, value: &Value, mode: &str) -> Result<(), Error> {
    let name = value.as_str().filter(|name| check_name(place, name).is_ok());
    let Some(name) = name else {
        return Err(Error::invalid(
            place,
            "must be the name of a profile: letters, digits, `.`, `-` or `_`, and no path",
        ));
    };
    create_body.set("profile", place, json!({"name": name, "mode": mode}));
    Ok(())
}

/// `true`, `"new"`, `"shell"` and `"true"` want no display; `false` and `"false"` want one.
fn headless(create_body: &mut CreateBody, place: &str, value: &Value) -> Result<(), Error> {
    let word = value.as_str().map(str::to_ascii_lowercase);
    let wanted = match (value, word.as_deref()) {
        (Value::Bool(wanted), _) => *wanted,
        (_, Some("" | "true" | "1" | "new" | "shell" | "old")) => true,
        (_, Some("false" | "0")) => false,
        _ => return Err(Error::invalid(place, "must be true, false, \"new\" or \"shell\"")),
    };
    create_body.set("headless", place, json!(wanted));
    Ok(())
}

fn viewport(create_body: &mut CreateBody, place: &str, value: &Value) -> Result<(), Error> {
    let Value::Object(members) = value else { return Err(Error::invalid(place, "must be an object or null")) };
    let mut size = Map::new();
    for (name, value) in members {
        let place = format!("{place}.{name}");
        match (name.as_str(), value) {
            ("width" | "height", _) => {
                size.insert(name.clone(), value.clone());
            }
            ("deviceScaleFactor", Value::Number(number)) if number.as_f64() == Some(1.0) => {}
            ("isMobile" | "hasTouch" | "isLandscape", Value::Bool(false)) | (_, Value::Null) => {}
            ("deviceScaleFactor" | "isMobile" | "hasTouch" | "isLandscape", _) => {
                let problem = "cannot be given on the URL: set it in your client, which keeps it for its pages";
                return Err(Error::not_supported(place, problem));
            }
            _ => return Err(Error::none_of(place, ["width", "height"])),
        }
    }
    create_body.set("settings.viewport", place, Value::Object(size));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;

    fn fields(query: &str) -> Value {
        Value::Object(read(query, Engine::Chromium).unwrap().create_body.fields.clone())
    }

    fn field_of(query: &str) -> String {
        let error = read(query, Engine::Chromium).unwrap_err();
        assert_eq!(error.code().status(), 400, "{query}");
        error.field().unwrap_or_default().to_owned()
    }

    #[test]
    fn parameters_become_the_fields_of_a_create_call() {
        let plain = json!({"headless": true, "url": "about:blank", "browser_type": "chromium"});
        assert_eq!(fields("token=abc"), plain);
        assert_eq!(read("token=a%2Bb", Engine::Chromium).unwrap().token.as_deref(), Some("a+b"));
        assert_eq!(read("session=agent_7", Engine::Chromium).unwrap().session.as_deref(), Some("agent_7"));
        let all = fields(
            "timeout=60001&trackingId=job-7&headless=false&--lang=de-DE,en&slowMo=20&blockAds=false&--no-sandbox",
        );
        let wanted = json!({"session_timeout": 61, "app_name": "job-7", "headless": false,
            "settings": {"locales": ["de-DE", "en"]}, "url": "about:blank", "browser_type": "chromium"});
        assert_eq!(all, wanted);
    }

    #[test]
    fn options_are_the_body_of_a_create_call() {
        let options = |options: Value| -> String {
            let coded: String = form_urlencoded::byte_serialize(options.to_string().as_bytes()).collect();
            format!("options={coded}")
        };
        let asked = options(json!({"recording": true, "headless": false, "browser_type": "chromium",
            "settings": {"timezone": "Europe/Berlin"}, "advanced": {"extension_ids": ["ext_1"]}}));
        // Wherever it stands.
        for query in [format!("{asked}&--lang=de&blockAds"), format!("--lang=de&blockAds&{asked}")] {
            let wanted = json!({"recording": true, "headless": false, "browser_type": "chromium", "url": "about:blank",
                "settings": {"locales": ["de"], "timezone": "Europe/Berlin"},
                "advanced": {"block_ads": true, "extension_ids": ["ext_1"]}});
            assert_eq!(fields(&query), wanted);
        }
        for (query, field) in [
            ("options=1".to_owned(), "options"),
            ("options={".to_owned(), "options"),
            (options(json!({"browser_type": "firefox"})), "options.browser_type"),
            (format!("headless=false&{}", options(json!({"headless": true}))), "options.headless"),
            (format!("{}&blockAds", options(json!({"advanced": {"block_ads": true}}))), "options.advanced.block_ads"),
            (
                format!("--user-agent=A&{}", options(json!({"settings": {"userAgent": "B"}}))),
                "options.settings.userAgent",
            ),
            (format!("sessionId=ses_1&{}", options(json!({"recording": true}))), "sessionId"),
        ] {
            assert_eq!(field_of(&query), field, "{query}");
        }
        let twice = format!("launch={{\"headless\":false}}&{}", options(json!({"headless": true})));
        let text = read(&twice, Engine::Chromium).unwrap_err().to_string();
        assert!(text.contains("`options.headless`") && text.contains("`launch.headless`"), "{text}");
        // The checks are those of the create call.
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        for (given, field) in [
            (json!({"recordings": true}), "options.recordings"),
            (json!({"recording": "yes"}), "options.recording"),
            (json!({"session_timeout": 0}), "options.session_timeout"),
            (json!({"settings": {"viewport": {"width": 0, "height": 1}}}), "options.settings.viewport.width"),
            (json!({"advanced": {"proxy": {"zip": "1"}}}), "options.advanced.proxy.zip"),
            (json!({"metadata": {"team": 1}}), "options.metadata.team"),
        ] {
            let error = read(&options(given), Engine::Chromium).unwrap().options(&config).unwrap_err();
            assert_eq!(error.field(), Some(field));
        }
    }

    #[test]
    fn a_truth_value_is_read_in_any_case() {
        let given = fields("blockAds=True&keep_alive=False&logs=TRUE&headless=False");
        assert_eq!(given["advanced"]["block_ads"], true);
        assert_eq!((&given["keep_alive"], &given["logs"]), (&json!(false), &json!(true)));
        assert_eq!(given["headless"], false);
        assert_eq!(field_of("logs=Yes"), "logs");
    }

    #[test]
    fn launch_is_read_as_json_and_as_base64() {
        let launch = r#"{"headless":false,"args":["--window-size=1024,768","--user-agent=Me/1","--no-sandbox"],"stealth":false}"#;
        let plain: String = form_urlencoded::byte_serialize(launch.as_bytes()).collect();
        let coded: String = form_urlencoded::byte_serialize(STANDARD.encode(launch).as_bytes()).collect();
        for launch in [plain, coded, URL_SAFE_NO_PAD.encode(launch)] {
            let fields = fields(&format!("launch={launch}"));
            assert_eq!(fields["headless"], false);
            let settings = json!({"viewport": {"width": 1024, "height": 768}, "user_agent": "Me/1"});
            assert_eq!(fields["settings"], settings);
        }
        let viewport = r#"launch={"defaultViewport":{"width":300,"height":400,"deviceScaleFactor":1}}"#;
        assert_eq!(fields(viewport)["settings"]["viewport"], json!({"width": 300, "height": 400}));
    }

    #[test]
    fn what_is_unknown_or_not_served_is_refused_by_name() {
        for (query, field) in [
            ("colour=red", "colour"),
            ("stealth", "stealth"),
            ("stealth=true", "stealth"),
            ("timeout=soon", "timeout"),
            ("trackingId=a%20b", "trackingId"),
            ("trackingId=01234567890123456789012345678901", "trackingId"),
            ("launch={", "launch"),
            ("launch=[1]", "launch"),
            (r#"launch={"args":["--load-extension=/x"]}"#, "launch.args[0]"),
            (r#"launch={"args":["--window-size=big"]}"#, "launch.args[0]"),
            (r#"launch={"args":[1]}"#, "launch.args[0]"),
            (r#"launch={"userDataDir":"/tmp/x"}"#, "launch.userDataDir"),
            (r#"launch={"args":["--user-data-dir=/tmp/x"]}"#, "launch.args[0]"),
            ("--user-data-dir=/tmp/x", "--user-data-dir"),
            ("--user-data-dir", "--user-data-dir"),
            (r#"launch={"headless":7}"#, "launch.headless"),
            (r#"launch={"defaultViewport":{"isMobile":true}}"#, "launch.defaultViewport.isMobile"),
            ("--proxy-server=http://x", "--proxy-server"),
            ("userDataDir=/x", "userDataDir"),
            ("profile=a%20b", "profile"),
            ("keep_alive=maybe", "keep_alive"),
            ("session=", "session"),
            ("session=a%20b", "session"),
        ] {
            assert_eq!(field_of(query), field, "{query}");
        }
    }
}
