//! Capabilities with a vendor's prefix: those of Selenium Grid (`se:`), Selenoid and Moon are understood, and all others
//! are left to `webdriver`, which knows those of the drivers.

use serde_json::{Map, Value, json};
use warmpool_protocol::Size;

use super::refused;
use crate::dropin::{CreateBody, duration};
use warmpool_sessions::Error;
use warmpool_sessions::webdriver::is_known;

/// The sides of a screen, in pixels.
const SCREEN: std::ops::RangeInclusive<u32> = 200..=10_000;

/// Capabilities that hold Selenoid's or Moon's options.
const OBJECTS: [&str; 2] = ["selenoid:options", "moon:options"];

/// Selenoid's options that may stand among the plain capabilities of `desiredCapabilities` too.
const BARE: [&str; 22] = [
    "additionalNetworks",
    "applicationContainers",
    "containerHostname",
    "dnsServers",
    "enableLog",
    "enableVNC",
    "enableVideo",
    "env",
    "hostsEntries",
    "labels",
    "logName",
    "name",
    "s3KeyPattern",
    "screenResolution",
    "sessionTimeout",
    "skin",
    "timeZone",
    "videoCodec",
    "videoFrameRate",
    "videoName",
    "videoScreenSize",
    "volumes",
];

/// What a vendor's capabilities ask beside the fields of a create call.
#[derive(Debug, Default)]
pub(super) struct VendorOptions {
    /// To fetch downloads.
    pub(super) downloads: bool,
    /// A window of this size.
    pub(super) screen: Option<Size>,
}

/// Takes the capabilities that concern the service out of `caps` and into the create call's body.
pub(super) fn read(
    create_body: &mut CreateBody,
    asked: &mut VendorOptions,
    caps: &mut Map<String, Value>,
) -> Result<(), Error> {
    for (name, value) in std::mem::take(caps) {
        if is_selenoids(&name) {
            read_selenoids(create_body, asked, name, value)?;
        } else if let Some(option) = name.strip_prefix("se:") {
            read_grid(create_body, asked, option, &name, value)?;
        } else if is_known(&name) {
            caps.insert(name, value);
        } else {
            return Err(refused(name, "is not a capability of the W3C standard: leave it out"));
        }
    }
    Ok(())
}

/// Reads Selenoid's and Moon's options in the `desiredCapabilities` that stand beside `capabilities`: some clients send what has
/// no prefix only there. Everything else in them is said by the standard's way as well.
pub(super) fn read_desired(
    create_body: &mut CreateBody,
    asked: &mut VendorOptions,
    desired: &Map<String, Value>,
) -> Result<(), Error> {
    for (name, value) in desired.iter().filter(|(name, value)| is_selenoids(name) && !value.is_null()) {
        read_selenoids(create_body, asked, name.clone(), value.clone())?;
    }
    Ok(())
}

/// Whether a capability holds Selenoid's or Moon's options, or is one of them.
fn is_selenoids(name: &str) -> bool {
    OBJECTS.contains(&name) || BARE.contains(&name)
}

/// A capability for which [`is_selenoids`] holds.
fn read_selenoids(
    create_body: &mut CreateBody,
    asked: &mut VendorOptions,
    name: String,
    value: Value,
) -> Result<(), Error> {
    if !OBJECTS.contains(&name.as_str()) {
        return read_option(create_body, asked, &name.clone(), name, value);
    }
    let Value::Object(options) = value else { return Err(refused(name, "must be an object")) };
    for (option, value) in options {
        let place = format!("{name}.{option}");
        read_option(create_body, asked, &option, place, value)?;
    }
    Ok(())
}

/// One of the grid's own capabilities. Any other that begins with `se:` is a note for its console.
fn read_grid(
    create_body: &mut CreateBody,
    asked: &mut VendorOptions,
    option: &str,
    name: &str,
    value: Value,
) -> Result<(), Error> {
    match option {
        "downloadsEnabled" => asked.downloads = grid_flag(name, &value)?,
        "screenResolution" => asked.screen = Some(screen(name.to_owned(), &value)?),
        "timeZone" => time_zone(create_body, name, value)?,
        "name" => create_body.set("app_name", name, text(name, value)?),
        "recordVideo" => create_body.set("recording", name, json!(grid_flag(name, &value)?)),
        _ => {}
    }
    Ok(())
}

/// One of Selenoid's or Moon's options; `place` is where the client wrote it.
fn read_option(
    create_body: &mut CreateBody,
    asked: &mut VendorOptions,
    option: &str,
    place: String,
    value: Value,
) -> Result<(), Error> {
    if value.is_null() {
        return Ok(());
    }
    match option {
        // The live view is there always.
        "enableVNC" => {
            flag(&place, &value)?;
        }
        "enableVideo" => {
            let wanted = flag(&place, &value)?;
            create_body.set("recording", place, json!(wanted));
        }
        "enableLog" => {
            let wanted = flag(&place, &value)?;
            create_body.set("logs", place, json!(wanted));
        }
        "videoName" | "videoScreenSize" | "videoFrameRate" | "videoCodec" | "logName" | "logLevel" | "s3KeyPattern"
        | "pattern" | "labels" | "skin" => {}
        "name" => {
            let value = text(&place, value)?;
            create_body.set("app_name", place, value);
        }
        "screenResolution" => asked.screen = Some(screen(place, &value)?),
        "sessionTimeout" => {
            let parsed = value.as_str().and_then(duration::parse);
            let Some(parsed) = parsed else {
                return Err(refused(place, "must be a duration such as \"90s\" or \"1m30s\""));
            };
            create_body.set("idle_timeout", place, json!(duration::seconds(parsed)));
        }
        "timeZone" => time_zone(create_body, &place, value)?,
        "env"
        | "hostsEntries"
        | "hosts"
        | "dnsServers"
        | "additionalNetworks"
        | "applicationContainers"
        | "volumes"
        | "containerHostname"
        | "mobileDevice"
        | "additionalFonts"
        | "context" => {
            let empty = match &value {
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            if !empty {
                return Err(refused(
                    place,
                    "would change the worker's container, which every client gets alike: leave it out",
                ));
            }
        }
        _ => return Err(refused(place, "is not known: leave it out")),
    }
    Ok(())
}

/// `1920x1080x24`; the colour depth counts for nothing. The window gets this size: the worker's display keeps its own,
/// and a fixed viewport would not follow when the client resizes its window.
fn screen(place: String, value: &Value) -> Result<Size, Error> {
    let size = value.as_str().and_then(|text| {
        let mut parts = text.split('x').map(|part| part.trim().parse::<u32>().ok());
        let (width, height) = (parts.next()??, parts.next()??);
        let fits = SCREEN.contains(&width) && SCREEN.contains(&height);
        (fits && parts.next() != Some(None) && parts.next().is_none()).then_some(Size { width, height })
    });
    size.ok_or_else(|| {
        let message =
            format!("must be a size such as \"1920x1080x24\", from {} to {} pixels", SCREEN.start(), SCREEN.end());
        refused(place, message)
    })
}

fn flag(place: &str, value: &Value) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| refused(place, "must be true or false"))
}

/// A flag of the grid's own, whose nodes also read it as a word in upper or lower case.
fn grid_flag(place: &str, value: &Value) -> Result<bool, Error> {
    match value.as_str() {
        Some(word) if word.eq_ignore_ascii_case("true") => Ok(true),
        Some(word) if word.eq_ignore_ascii_case("false") => Ok(false),
        _ => flag(place, value),
    }
}

fn text(place: &str, value: Value) -> Result<Value, Error> {
    if value.is_string() { Ok(value) } else { Err(refused(place, "must be a string")) }
}

/// An empty name asks for nothing, as with Selenoid.
fn time_zone(create_body: &mut CreateBody, place: &str, value: Value) -> Result<(), Error> {
    let name = text(place, value)?;
    if name != "" {
        create_body.set("settings.timezone", place, name);
    }
    Ok(())
}
