//! Chromium's command-line switches, as clients of other services send them for a browser that runs already.

use serde_json::{Value, json};
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::switches::{Class, Switch};

use super::CreateBody;
use warmpool_sessions::Error;

/// How an address asks for a proxy instead.
pub(super) const PROXY: &str = "take one of the operator's: `options={\"advanced\": {\"proxy\": true}}`, URL-encoded";
/// How it asks for extensions.
const EXTENSIONS: &str = "upload the extension to `POST /extensions`, and name it in \
                          `options={\"advanced\": {\"extension_ids\": [...]}}`, URL-encoded";
/// How a client has certificates accepted that nobody vouches for.
pub(super) const CERTIFICATES: &str = "cannot be given on the URL: give `acceptInsecureCerts` to your client's connect, or a \
                                       context's `ignoreHTTPSErrors`";

/// Reads one switch into the create call's body. `place` is where the client wrote it.
/// Errors: `Field`, for a switch that a running browser cannot take and for one with a wrong value.
pub(super) fn read(create_body: &mut CreateBody, place: &str, switch: &str) -> Result<(), Error> {
    let shown = switch.escape_debug();
    let wrong = |problem: &str| Err(Error::invalid(place, format!("has `{shown}`, which {problem}")));
    let read = match Switch::read(switch) {
        Ok(read) => read,
        Err(problem) => return wrong(&problem.to_string()),
    };
    let (class, value) = (read.class(), read.value.map(unquoted));
    match (read.name.as_str(), value) {
        ("headless", _) => {
            create_body.set("headless", place, json!(value != Some("false")));
            Ok(())
        }
        ("user-agent", Some(agent)) => {
            create_body.set("settings.user_agent", place, json!(agent));
            Ok(())
        }
        ("lang" | "accept-lang", Some(tags)) => {
            let tags: Vec<&str> = tags.split(',').map(|tag| tag.split(';').next().unwrap_or_default().trim()).collect();
            create_body.set("settings.locales", place, json!(tags));
            Ok(())
        }
        ("window-size", Some(size)) => {
            match size.split_once([',', 'x']).map(|(w, h)| (w.trim().parse(), h.trim().parse())) {
                Some((Ok(width), Ok(height))) => {
                    let (width, height): (u32, u32) = (width, height);
                    create_body.set("settings.viewport", place, json!({"width": width, "height": height}));
                    Ok(())
                }
                _ => wrong("must be as in --window-size=1280,720"),
            }
        }
        ("user-data-dir", Some(name)) => super::browserless::profile(create_body, place, &json!(name), "write"),
        ("user-agent" | "lang" | "accept-lang" | "window-size" | "user-data-dir", None) => wrong("needs a value"),
        _ if class == Class::Ours => {
            let idle = format!("`--{}` has no effect: the operator alone says whether there is a sandbox", read.name);
            // A URL may have it a thousand times.
            if !create_body.warnings.contains(&idle) {
                create_body.warnings.push(idle);
            }
            Ok(())
        }
        _ if class.is_harmless() || read.is_standing() => Ok(()),
        ("proxy-server" | "proxy-bypass-list" | "proxy-pac-url", _) => Err(Error::not_supported(
            place,
            format!("has `{shown}`, and a proxy of your own cannot be given on this URL: leave it out, or {PROXY}"),
        )),
        ("load-extension" | "disable-extensions-except", _) => {
            Err(Error::not_supported(place, format!("has `{shown}`, a folder that is not here: {EXTENSIONS}")))
        }
        ("ignore-certificate-errors" | "ignore-certificate-errors-spki-list", _) => {
            Err(Error::not_supported(place, format!("has `{shown}`, which {CERTIFICATES}")))
        }
        _ if class == Class::Refused => Err(Error::not_supported(
            place,
            format!("has `{shown}`, which would reach around the worker's isolation: leave it out"),
        )),
        _ => Err(Error::not_supported(
            place,
            format!(
                "has `{shown}`, which cannot be given to a browser that runs already: leave it out, or use WebDriver at \
                 /session, whose `goog:chromeOptions.args` start a browser of their own"
            ),
        )),
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Whether a switch asks for a browser without a display; `None` when it is about something else.
pub(super) fn headless(switch: &Value) -> Option<bool> {
    let switch = Switch::read(switch.as_str()?).ok()?;
    (switch.name == "headless").then_some(switch.value != Some("false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    /// What tutorials have for containers, for servers without a display, and against questions on the screen.
    const HABITS: [&str; 31] = [
        "--no-sandbox",
        "--disable-setuid-sandbox",
        "--no-zygote",
        "--single-process",
        "--headless=new",
        "--incognito",
        "--no-first-run",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-accelerated-2d-canvas",
        "--disable-gpu-compositing",
        "--disable-software-rasterizer",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--disable-infobars",
        "--disable-extensions",
        "--disable-notifications",
        "--disable-popup-blocking",
        "--disable-translate",
        "--disable-sync",
        "--mute-audio",
        "--hide-scrollbars",
        "--log-level=3",
        "--start-maximized",
        "--memory-pressure-off",
        "--disable-blink-features=AutomationControlled",
        "--disable-features=Translate,BackForwardCache",
        "--enable-features=NetworkService,NetworkServiceInProcess",
    ];

    #[test]
    fn what_tutorials_write_is_accepted_and_changes_nothing() {
        let mut create_body = CreateBody::default();
        for habit in HABITS.iter().chain(&HABITS) {
            read(&mut create_body, "launch.args[0]", habit).unwrap_or_else(|error| panic!("{habit}: {error}"));
        }
        assert_eq!(create_body.fields.len(), 1, "headless alone: {:?}", create_body.fields);
        // Each that would weaken the sandbox is named once.
        let warnings = create_body.warnings.join("; ");
        assert_eq!(create_body.warnings.len(), 4, "{warnings}");
        for name in ["--no-sandbox", "--disable-setuid-sandbox", "--no-zygote", "--single-process"] {
            assert!(warnings.contains(&format!("`{name}` has no effect")), "{name}: {warnings}");
        }
    }

    #[test]
    fn what_is_refused_is_named_with_the_remedy() {
        for (switch, remedy) in [
            ("--proxy-server=http://x", "\"proxy\": true"),
            ("--load-extension=/x", "POST /extensions"),
            ("--ignore-certificate-errors", "`acceptInsecureCerts`"),
            ("--disable-web-security", "use WebDriver"),
            ("--disable-features=Translate,PaintHolding", "use WebDriver"),
            ("--remote-debugging-port=9222", "leave it out"),
            ("--unheard-of", "leave it out"),
        ] {
            let error = read(&mut CreateBody::default(), "launch.args[2]", switch).unwrap_err();
            assert_eq!(error.field(), Some("launch.args[2]"), "{switch}");
            let text = error.to_string();
            assert!(text.contains(switch) && text.contains(remedy), "{text}");
        }
    }
}
