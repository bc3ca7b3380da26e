//! What the `settings` of a create call may say.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use warmpool_api::Object;
use warmpool_protocol::{ColorScheme, Permission, ReducedMotion};

/// Members of [`Settings`], and under which other names serde takes them.
const ALIASES: [(&str, &[&str]); 4] = [
    ("user_agent", &["userAgent"]),
    ("timezone", &["timezoneId", "timeZone"]),
    ("color_scheme", &["colorScheme"]),
    ("reduced_motion", &["reducedMotion"]),
];

/// What pages see of the browser. Overrides of the client's own win. The names that Playwright's options have are taken as well.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = add_aliases)]
pub struct Settings {
    /// Language tags, the preferred one first, for the navigator, `Intl` and `Accept-Language`.
    #[schemars(length(min = 1, max = 16), inner(length(max = 35)), extend("examples" = [["de-DE", "en-US"]]))]
    pub(super) locales: Option<Vec<String>>,
    /// The user agent in the request header and in the page: printable ASCII, without a space at either end.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^[!-~]([ -~]*[!-~])?$"))]
    #[serde(alias = "userAgent")]
    pub(super) user_agent: Option<String>,
    pub(super) viewport: Option<Object<Viewport>>,
    /// The time zone of dates and `Intl`, by its name in the IANA database.
    #[schemars(extend("examples" = ["Europe/Berlin"]))]
    #[serde(alias = "timezoneId", alias = "timeZone")]
    pub(super) timezone: Option<String>,
    /// The media feature `prefers-color-scheme`; browsers take `no-preference` for `light`, as the standard says.
    #[schemars(with = "Option<String>", extend("enum" = ["light", "dark", "no-preference", null]))]
    #[serde(alias = "colorScheme")]
    pub(super) color_scheme: Option<ColorScheme>,
    /// The media feature `prefers-reduced-motion`.
    #[schemars(with = "Option<String>", extend("enum" = ["reduce", "no-preference", null]))]
    #[serde(alias = "reducedMotion")]
    pub(super) reduced_motion: Option<ReducedMotion>,
    /// Where pages find themselves, once they may know it: see `permissions`.
    pub(super) geolocation: Option<Object<Geolocation>>,
    /// What pages of all origins may do without asking.
    #[schemars(with = "Option<Vec<PermissionName>>")]
    pub(super) permissions: Option<Vec<Permission>>,
}

/// Where pages find themselves.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Geolocation {
    /// Degrees north of the equator.
    #[schemars(range(min = -90, max = 90))]
    pub(super) latitude: f64,
    /// Degrees east of Greenwich.
    #[schemars(range(min = -180, max = 180))]
    pub(super) longitude: f64,
    /// How far off both may be, in metres.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub(super) accuracy: Option<f64>,
}

/// The schema of a permission.
struct PermissionName;

impl JsonSchema for PermissionName {
    fn schema_name() -> Cow<'static, str> {
        "Permission".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What pages may do without asking, as `navigator.permissions` names it.",
            "type": "string",
            "enum": Permission::ALL.map(Permission::as_str),
        })
    }
}

/// The size of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Viewport {
    #[schemars(range(min = 1, max = 8192))]
    pub(super) width: u32,
    #[schemars(range(min = 1, max = 8192))]
    pub(super) height: u32,
}

/// Describes members under their other names as well, of which schemars knows nothing.
fn add_aliases(schema: &mut Schema) {
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, aliases) in ALIASES {
        let Some(mut member) = members.get(name).cloned() else { continue };
        member["description"] = json!(format!("Another name of `{name}`."));
        members.extend(aliases.iter().map(|alias| ((*alias).to_owned(), member.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_protocol::{self as protocol, check_locales};

    fn described() -> Value {
        schemars::schema_for!(Settings).to_value()
    }

    #[test]
    fn each_name_that_is_described_is_taken_and_no_other() {
        let described = described();
        assert_eq!(described["additionalProperties"], false);
        let members = described["properties"].as_object().unwrap();
        for name in members.keys() {
            let read = serde_json::from_value::<Settings>(json!({name.as_str(): null}));
            assert!(read.is_ok(), "{name}: {read:?}");
        }
        for (name, aliases) in ALIASES {
            for alias in aliases {
                let [own, other] = [&members[name], &members[*alias]].map(|member| {
                    let mut member = member.clone();
                    member.as_object_mut().unwrap().remove("description");
                    member
                });
                assert_eq!(own, other, "{alias}");
            }
        }
        // Serde names all of them where it meets one that it does not know.
        let unknown = serde_json::from_value::<Settings>(json!({"no_such": 1})).unwrap_err().to_string();
        for name in unknown.split('`').skip(3).step_by(2) {
            assert!(members.contains_key(name), "{name} is taken and not described");
        }
        assert!(unknown.contains("`timeZone`"), "{unknown}");
    }

    #[test]
    fn the_description_has_the_limits() {
        let members = &described()["properties"];
        let limit = |name: &str, keyword: &str| usize::try_from(members[name][keyword].as_u64().unwrap()).unwrap();
        let fits = |settings: protocol::Settings| settings.check().is_ok();
        let locales = |count: usize| check_locales(&vec!["de".to_owned(); count]).is_ok();
        let most = limit("locales", "maxItems");
        assert!(locales(limit("locales", "minItems")) && locales(most) && !locales(most + 1));
        let agent = |text: String| fits(protocol::Settings { user_agent: Some(text), ..protocol::Settings::default() });
        let longest = limit("user_agent", "maxLength");
        assert!(agent("x".repeat(longest)) && !agent("x".repeat(longest + 1)) && !agent(String::new()));
        assert!(agent("~ !".to_owned()) && !agent(" x".to_owned()) && !agent("é".to_owned()));
    }
}
