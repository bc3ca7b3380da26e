//! Lays the sources of settings over one another: file, then environment, then flags.

use std::collections::{BTreeMap, HashMap};

use super::{
    fault::{ConfigError, Source},
    file,
    flags::Flags,
    host::Host,
    layers::Layers,
    setting::Setting,
    table,
};
use warmpool_core::error::closest;

/// Variables with our prefix that are no settings: they speak to the command line, the scripts, the compose file and the tests.
const OTHER_VARIABLES: [&str; 9] = [
    "WARMPOOL_URL",
    "WARMPOOL_SECRET_KEY",
    "WARMPOOL_INTEGRATION_KEY",
    "WARMPOOL_SERVICE_PASSCODE",
    "WARMPOOL_CONFIG",
    "WARMPOOL_IMAGE_REPOSITORY",
    "WARMPOOL_IMAGE",
    "WARMPOOL_PUBLISH",
    "WARMPOOL_WORLD_NAMES_KEY",
];
const PREFIX: &str = "WARMPOOL_";
const TEST_PREFIX: &str = "WARMPOOL_TEST_";

/// Lays the sources over one another. `file` is its path, for messages, and its text.
pub(super) fn collect_layers<'a>(
    file: Option<(&str, &str)>,
    env: impl Iterator<Item = (String, String)>,
    flags: &Flags,
    host: &'a Host,
) -> Layers<'a> {
    let (mut named, mut faults) = (HashMap::new(), Vec::new());
    if let Some((path, text)) = file {
        let (entries, of_file) = file::read(path, text);
        named.extend(entries);
        faults.extend(of_file);
    }
    let env: HashMap<String, String> = env.collect();
    let (entries, of_env) = read_env(&env);
    named.extend(entries);
    faults.extend(of_env);
    named.extend(flags.values().map(|(name, text)| (name, (text.to_owned(), Source::Flag))));
    Layers::new(host, env, named, faults)
}

/// The settings that variables name, and a fault for each of our variables that names none.
fn read_env(env: &HashMap<String, String>) -> (HashMap<&'static str, (String, Source)>, Vec<ConfigError>) {
    let ours: BTreeMap<_, _> = env.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    let by_env: HashMap<String, &'static Setting> = table::all().map(|setting| (setting.env(), setting)).collect();
    let (mut named, mut faults) = (HashMap::new(), Vec::new());
    for (name, text) in ours {
        if let Some(setting) = by_env.get(name) {
            named.insert(setting.name, (text.clone(), Source::Env));
        } else if !OTHER_VARIABLES.contains(&name.as_str()) && !name.starts_with(TEST_PREFIX) {
            faults.push(ConfigError {
                source: format!("environment {name}"),
                key: String::new(),
                what: "no such setting".to_owned(),
                remedy: match suggestion(&name[PREFIX.len()..]) {
                    _ if is_of_a_service(name, env) => {
                        "Kubernetes sets it for a Service: set enableServiceLinks: false in the Pod".to_owned()
                    }
                    Some(meant) => format!("did you mean {PREFIX}{meant}?"),
                    None => "unset it; `warmpool serve --help` lists the settings".to_owned(),
                },
            });
        }
    }
    (named, faults)
}

/// Whether Kubernetes sets a variable of this name, for one of its Services.
fn is_of_a_service(name: &str, env: &HashMap<String, String>) -> bool {
    env.contains_key("KUBERNETES_SERVICE_HOST") && (name.ends_with("_SERVICE_HOST") || name.contains("_PORT"))
}

/// The variable that may have been meant by an unknown one, both without our prefix: its section may be left out,
/// or it may be misspelt.
fn suggestion(unknown: &str) -> Option<String> {
    let keyed = table::all().find(|setting| setting.key().eq_ignore_ascii_case(unknown)).map(|setting| setting.name);
    let name = unknown.to_ascii_lowercase().replacen('_', ".", 1);
    let named = keyed.or_else(|| closest(&name, table::all().map(|setting| setting.name)))?;
    Some(named.replace('.', "_").to_uppercase())
}
