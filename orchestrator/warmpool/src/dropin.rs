//! What clients of other services ask for, as the body of a create call.
//!
//! `grid` reads the new-session body of Selenium Grid and Selenoid, `browserless` the query of a browserless URL, `playwright`
//! what a client of Playwright's own protocol says, and `hosted` the bodies of browsers as a service. All of them make a [`CreateBody`], which the daemon then checks as any other. What has no counterpart here is
//! refused by the name that the client used, or named in a warning. Nothing here waits or touches a worker.
//! `switches` reads Chromium's command-line switches, and `duration` the times that Selenoid's clients write.

pub(crate) mod browserless;
mod duration;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub(crate) mod grid;
pub(crate) mod hosted;
pub(crate) mod playwright;
mod switches;

use serde_json::{Map, Value};

use warmpool_config::Config;
use warmpool_core::error::{FieldError, join, read_json};
use warmpool_sessions::Error;
use warmpool_sessions::session::{CreateRequest, Options, SessionKind, check_text};

/// How the names of clients' options end that are objects with the same members as our fields.
const OBJECTS: [&str; 6] = ["defaultViewport", "viewport", "dimensions", "userMetadata", "tags", "sessionContext"];

/// The parameter that has the body of a create call.
pub(crate) const OPTIONS: &str = "options";
/// Members of `settings` that a create call takes under the names of Playwright's options too.
const ALIASES: [(&str, &str); 5] = [
    ("user_agent", "userAgent"),
    ("timezone", "timezoneId"),
    ("timezone", "timeZone"),
    ("color_scheme", "colorScheme"),
    ("reduced_motion", "reducedMotion"),
];

/// The body of a create call, made from somebody else's options.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct CreateBody {
    fields: Map<String, Value>,
    /// Our name of a field, and the client's.
    names: Vec<(&'static str, String)>,
    /// The fields that the client has given as a create call has them.
    options: Map<String, Value>,
    /// What is accepted and not honoured.
    pub warnings: Vec<String>,
}

impl CreateBody {
    /// Checks the body as that of any other create call. Errors name the fields as the client does.
    /// Errors: `Field`, and `Pool` when no upstream proxy is where the client wants it.
    pub(crate) fn options(&self, kind: SessionKind, config: &Config) -> Result<Options, Error> {
        let read = read_json::<CreateRequest, _>(Value::Object(self.fields.clone())).map_err(Error::from);
        let checked = read.and_then(|mut request| {
            // Clients of other services name their sessions, whichever the protocol.
            let app_name = check_text("app_name", request.app_name.take())?;
            Ok(Options { app_name, ..request.options(kind, config)? })
        });
        checked.map_err(|error| error.map_field(|error| self.in_client_terms(error)))
    }

    /// Sets the field `ours` (a dotted path of one or two names), which the client calls `theirs`.
    pub(crate) fn set(&mut self, ours: &'static str, theirs: impl Into<String>, value: Value) {
        match ours.split_once('.') {
            None => {
                self.fields.insert(ours.to_owned(), value);
            }
            Some((outer, inner)) => {
                let object = self.fields.entry(outer).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(object) = object {
                    object.insert(inner.to_owned(), value);
                }
            }
        }
        self.names.push((ours, theirs.into()));
    }

    /// Sets a field unless the client has set it.
    pub(crate) fn set_default(&mut self, ours: &'static str, value: Value) {
        if !self.fields.contains_key(ours) {
            self.fields.insert(ours.to_owned(), value);
        }
    }

    /// Takes fields as a create call has them, from the parameter [`OPTIONS`]. They count for more than defaults.
    /// Errors: `Field` for a field that is given in both ways.
    pub(crate) fn take_options(&mut self, mut options: Map<String, Value>) -> Result<(), FieldError> {
        // A create call takes null for a field that is left out, so it must not stand in the way of a default.
        options.retain(|_, value| !value.is_null());
        for (ours, theirs) in &self.names {
            if let Some(place) = place_in(&options, ours) {
                return Err(FieldError::invalid(place, format!("is given twice, as `{theirs}` too: send one of them")));
            }
        }
        for (name, value) in &options {
            match (self.fields.get_mut(name), value) {
                (Some(Value::Object(fields)), Value::Object(members)) => {
                    let given = members.iter().filter(|(_, value)| !value.is_null());
                    fields.extend(given.map(|(name, value)| (name.clone(), value.clone())));
                }
                (Some(Value::Object(_)), _) => {
                    return Err(FieldError::invalid(join(OPTIONS, name), "must be an object"));
                }
                _ => drop(self.fields.insert(name.clone(), value.clone())),
            }
        }
        self.options = options;
        Ok(())
    }

    /// An error about one of our fields, under the name that the client knows.
    fn in_client_terms(&self, error: FieldError) -> FieldError {
        error.renamed(|path| self.client_name(path))
    }

    /// What the client calls a field that it has set itself.
    fn given(&self, ours: &str) -> Option<String> {
        let named = self.names.iter().rev().find(|(name, _)| *name == ours).map(|(_, theirs)| theirs.clone());
        named.or_else(|| place_in(&self.options, ours))
    }

    /// A name under which the client has set a field, if it has set any.
    fn any_given(&self) -> Option<&str> {
        let named = self.names.first().map(|(_, theirs)| theirs.as_str());
        named.or_else(|| (!self.options.is_empty()).then_some(OPTIONS))
    }

    fn client_name(&self, field: &str) -> String {
        let known = self.names.iter().rev().find_map(|(ours, theirs)| {
            let rest = field.strip_prefix(ours)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((theirs, rest))
        });
        match known {
            // A part of the field is a part of the client's option only where that is an object as well.
            Some((theirs, rest)) if OBJECTS.iter().any(|object| theirs.ends_with(object)) => format!("{theirs}{rest}"),
            Some((theirs, _)) => theirs.clone(),
            None if self.options.contains_key(field.split(['.', '[']).next().unwrap_or_default()) => {
                join(OPTIONS, field)
            }
            None => field.to_owned(),
        }
    }
}

/// Where a field, a dotted path of one or two names, stands in [`OPTIONS`].
fn place_in(options: &Map<String, Value>, ours: &str) -> Option<String> {
    let (outer, inner) = ours.split_once('.').map_or((ours, None), |(outer, inner)| (outer, Some(inner)));
    let value = options.get(outer).filter(|value| !value.is_null())?;
    let Some(inner) = inner else { return Some(join(OPTIONS, outer)) };
    let aliases = ALIASES.iter().filter(|(name, _)| *name == inner).map(|(_, alias)| *alias);
    let is_given = |name: &&str| value.get(*name).is_some_and(|value| !value.is_null());
    std::iter::once(inner).chain(aliases).find(is_given).map(|name| join(OPTIONS, &format!("{outer}.{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    #[test]
    fn faults_are_reported_in_the_clients_terms() {
        let mut create_body = CreateBody::default();
        create_body.set("settings.viewport", "selenoid:options.screenResolution", json!({"width": 0, "height": 1}));
        create_body.set("session_timeout", "timeout", json!(0));
        assert_eq!(create_body.fields["settings"]["viewport"]["height"], 1);
        let named = |field: &str| {
            let error = create_body.in_client_terms(FieldError::invalid(field, "is wrong"));
            (error.field().unwrap_or_default().to_owned(), error.to_string())
        };
        assert_eq!(named("session_timeout"), ("timeout".to_owned(), "`timeout` is wrong".to_owned()));
        assert_eq!(named("settings.viewport.width").0, "selenoid:options.screenResolution");
        assert_eq!(named("url").0, "url");
        create_body.set_default("headless", json!(true));
        assert_eq!(create_body.given("session_timeout").as_deref(), Some("timeout"));
        assert_eq!(create_body.given("headless"), None);
    }

    #[test]
    fn fields_of_a_create_call_stand_beside_the_clients_own() {
        let mut create_body = CreateBody::default();
        create_body.set("settings.locales", "--lang", json!(["de"]));
        create_body.set("profile", "userDataDir", json!({"name": "shop", "mode": "write"}));
        create_body.set_default("headless", json!(true));
        create_body.set_default("url", json!("about:blank"));
        let options = json!({"settings": {"timezoneId": "Europe/Berlin", "locales": null}, "headless": false, "url": null,
            "recording": true, "advanced": {"proxy": {"country": "de"}}});
        create_body.take_options(options.as_object().unwrap().clone()).unwrap();
        let wanted = json!({"settings": {"locales": ["de"], "timezoneId": "Europe/Berlin"}, "headless": false,
            "url": "about:blank", "recording": true, "advanced": {"proxy": {"country": "de"}},
            "profile": {"name": "shop", "mode": "write"}});
        assert_eq!(Value::Object(create_body.fields.clone()), wanted);
        for (ours, theirs) in [
            ("settings.locales", Some("--lang")),
            ("settings.timezone", Some("options.settings.timezoneId")),
            ("recording", Some("options.recording")),
            ("advanced.proxy", Some("options.advanced.proxy")),
            ("advanced.block_ads", None),
            ("url", None),
        ] {
            assert_eq!(create_body.given(ours).as_deref(), theirs, "{ours}");
        }
        for (ours, theirs) in [
            ("settings.locales[0]", "--lang"),
            ("settings.timezone", "options.settings.timezone"),
            ("advanced.proxy.country", "options.advanced.proxy.country"),
            ("url", "url"),
        ] {
            assert_eq!(create_body.client_name(ours), theirs);
        }
        for (twice, place, other) in [
            (json!({"settings": {"locales": ["fr"]}}), "options.settings.locales", "--lang"),
            (json!({"profile": {"name": "bank"}}), "options.profile", "userDataDir"),
        ] {
            let error = create_body.clone().take_options(twice.as_object().unwrap().clone()).unwrap_err();
            assert_eq!(error.field(), Some(place));
            assert!(error.to_string().contains(&format!("`{other}`")), "{error}");
        }
        let wrong = json!({"settings": 1});
        let error = create_body.take_options(wrong.as_object().unwrap().clone()).unwrap_err();
        assert_eq!(error.field(), Some("options.settings"));
    }
}
