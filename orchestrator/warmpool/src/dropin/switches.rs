//! Chromium's command-line switches, as clients of other services send them for a browser that runs already.

use serde_json::{Value, json};
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::switches::{Class, Switch};

use super::CreateBody;
use warmpool_sessions::Error;

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
        _ if class.is_harmless() => Ok(()),
        ("proxy-server" | "proxy-bypass-list" | "proxy-pac-url", _) => Err(Error::not_supported(
            place,
            format!("has `{shown}`, and a proxy cannot be given on this URL: leave it out"),
        )),
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
