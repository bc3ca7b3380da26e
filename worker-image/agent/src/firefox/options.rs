//! The vendor capability `moz:firefoxOptions`, which the agent itself carries out.

use serde_json::{Map, Value};
use warmpool_protocol::firefox::{Allowed, arguments, prefs};

use crate::error::ApiError;

/// The vendor capability of Firefox.
const NAME: &str = "moz:firefoxOptions";

/// Variables that a client may set.
const VARIABLES: [&str; 1] = ["TZ"];

/// Members of `moz:firefoxOptions` that the daemon lets through.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    /// Switches.
    pub(super) args: Vec<String>,
    /// Preferences, by name.
    pub(super) prefs: Map<String, Value>,
    /// Variables.
    pub(super) environment: Vec<(String, String)>,
    /// A zipped profile, in Base64.
    pub(super) profile: Option<String>,
}

impl Options {
    /// Takes the options out of capabilities, which go to a driver that would not heed them: it only
    /// attaches to a browser that runs.
    /// Fails when an option is not of its type, or none that a client may have: the daemon has looked at them with the same
    /// tables.
    pub(super) fn take(capabilities: &mut Value, allowed: &Allowed) -> Result<Self, ApiError> {
        let mut taken = capabilities["alwaysMatch"].as_object_mut().and_then(|always| always.remove(NAME));
        for entry in capabilities["firstMatch"].as_array_mut().into_iter().flatten() {
            let options = entry.as_object_mut().and_then(|entry| entry.remove(NAME));
            // The first alternative that matches is the driver's choice, and all that match are Firefox.
            taken = taken.or(options);
        }
        match taken {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(options)) => {
                let options = Self::read(options)?;
                options.check(allowed)?;
                Ok(options)
            }
            Some(_) => Err(ApiError::bad_request(format!("{NAME}: an object wanted"))),
        }
    }

    fn check(&self, allowed: &Allowed) -> Result<(), ApiError> {
        let refused = |name: &str| ApiError::bad_request(format!("{NAME}: {name} is no client's to set"));
        let is_open = |arg: &str| {
            let Some((name, value)) = arguments::parts(arg) else { return false };
            match arguments::class(&name, &allowed.args) {
                arguments::Class::Free => value.is_none(),
                arguments::Class::Valued => value.is_some(),
                arguments::Class::Idle | arguments::Class::Refused | arguments::Class::Unknown => false,
            }
        };
        if let Some(arg) = self.args.iter().find(|arg| !is_open(arg)) {
            return Err(refused(arg));
        }
        let is_open = |name: &str| prefs::is_name(name) && prefs::class(name, &allowed.prefs) == prefs::Class::Free;
        match self.prefs.iter().find(|(name, value)| !is_open(name) || !prefs::is_value(value)) {
            Some((name, _)) => Err(refused(name)),
            None => Ok(()),
        }
    }

    fn read(mut options: Map<String, Value>) -> Result<Self, ApiError> {
        let wrong = |name: &str| ApiError::bad_request(format!("{NAME}.{name}: of the wrong type"));
        let mut take = |name: &str| options.remove(name).filter(|value| !value.is_null());
        let args = take("args").map(serde_json::from_value).transpose().map_err(|_| wrong("args"))?;
        let profile = take("profile").map(serde_json::from_value).transpose().map_err(|_| wrong("profile"))?;
        let prefs = take("prefs").map(serde_json::from_value).transpose().map_err(|_| wrong("prefs"))?;
        let environment: Option<Map<String, Value>> =
            take("env").map(serde_json::from_value).transpose().map_err(|_| wrong("env"))?;
        let environment = environment.into_iter().flatten().map(|(name, value)| match value {
            // Others would choose libraries, sandboxes and profiles.
            Value::String(value) if VARIABLES.contains(&name.as_str()) => Ok((name, value)),
            _ => Err(wrong("env")),
        });
        Ok(Self {
            args: args.unwrap_or_default(),
            prefs: prefs.unwrap_or_default(),
            environment: environment.collect::<Result<_, _>>()?,
            profile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn take(capabilities: &mut Value) -> Result<Options, ApiError> {
        Options::take(capabilities, &Allowed::default())
    }

    #[test]
    fn options_are_taken_from_wherever_they_are() {
        let mut capabilities = json!({
            "alwaysMatch": {},
            "firstMatch": [
                {"acceptInsecureCerts": true, NAME: {"args": ["-private"], "prefs": {"dom.a": 1}, "env": {"TZ": "UTC"}}},
                {NAME: {"args": ["-kiosk"]}},
            ],
        });
        let options = take(&mut capabilities).unwrap();
        assert_eq!(options.args, ["-private"]);
        assert_eq!(options.prefs["dom.a"], 1);
        assert_eq!(options.environment, [("TZ".to_owned(), "UTC".to_owned())]);
        assert_eq!(capabilities, json!({"alwaysMatch": {}, "firstMatch": [{"acceptInsecureCerts": true}, {}]}));
        assert_eq!(take(&mut capabilities).unwrap(), Options::default());
        assert_eq!(take(&mut json!(null)).unwrap(), Options::default());
    }

    #[test]
    fn what_no_client_may_have_is_refused() {
        for wrong in [
            json!(1),
            json!({"args": "x"}),
            json!({"prefs": []}),
            json!({"env": {"TZ": 1}}),
            json!({"env": {"LD_PRELOAD": "x"}}),
            json!({"args": ["--profile"]}),
            json!({"args": ["--remote-allow-system-access"]}),
            json!({"args": ["--private=1"]}),
            json!({"args": ["about:config"]}),
            json!({"args": ["--unheard-of"]}),
            json!({"prefs": {"security.sandbox.content.level": 0}}),
            json!({"prefs": {"extensions.experiments.enabled\0": true}}),
            json!({"prefs": {"unheard.of": 1}}),
            json!({"prefs": {"dom.a": []}}),
        ] {
            assert!(take(&mut json!({"alwaysMatch": {NAME: wrong}})).is_err());
        }
    }
}
