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
use warmpool_core::error::{FieldError, read_json};
use warmpool_sessions::Error;
use warmpool_sessions::session::{CreateRequest, Options, SessionKind, check_text};

/// How the names of clients' options end that are objects with the same members as our fields.
const OBJECTS: [&str; 6] = ["defaultViewport", "viewport", "dimensions", "userMetadata", "tags", "sessionContext"];

/// The body of a create call, made from somebody else's options.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct CreateBody {
    fields: Map<String, Value>,
    /// Our name of a field, and the client's.
    names: Vec<(&'static str, String)>,
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

    /// An error about one of our fields, under the name that the client knows.
    fn in_client_terms(&self, error: FieldError) -> FieldError {
        error.renamed(|path| self.client_name(path))
    }

    /// What the client calls a field that it has set itself.
    fn given(&self, ours: &str) -> Option<&str> {
        self.names.iter().rev().find(|(name, _)| *name == ours).map(|(_, theirs)| theirs.as_str())
    }

    /// A name under which the client has set a field, if it has set any.
    fn any_given(&self) -> Option<&str> {
        self.names.first().map(|(_, theirs)| theirs.as_str())
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
            None => field.to_owned(),
        }
    }
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
        assert_eq!((create_body.given("session_timeout"), create_body.given("headless")), (Some("timeout"), None));
    }
}
