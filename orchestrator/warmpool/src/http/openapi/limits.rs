//! Limits and defaults that are settings, as this daemon has them.

use std::time::Duration;

use serde_json::{Map, Value, json};

use warmpool_config::Config;

/// Writes the settings' values into the schemas that they limit.
pub(super) fn apply(schemas: &mut Map<String, Value>, config: &Config) {
    let (session, tasks, world) = (&config.session, &config.tasks, &config.world);
    let longest = session.max_timeout.as_secs();
    for (schema, member, keyword, value) in [
        ("GenerateWorld", "wait", "maximum", json!(world.max_wait.as_secs())),
        ("GenerateWorld", "images", "maxItems", json!(world.max_images)),
        ("GenerateWorld", "videos", "maxItems", json!(world.max_videos)),
        ("GenerateWorld", "belongings", "maxItems", json!(world.max_belongings)),
        ("SubmitFleet", "concurrency", "default", json!(tasks.workers)),
        ("RetryTask", "wait", "maximum", json!(tasks.max_wait.as_secs())),
    ] {
        set(schemas, schema, member, keyword, value);
    }
    for schema in ["Advanced", "WebDriverAdvanced"] {
        set(schemas, schema, "extension_ids", "maxItems", json!(config.extensions.max_per_session));
    }
    for schema in ["SubmitRun", "SubmitExtract", "SubmitFleet"] {
        set(schemas, schema, "timeout", "default", millis(tasks.timeout));
        set(schemas, schema, "timeout", "maximum", millis(tasks.max_timeout));
        set(schemas, schema, "wait", "maximum", json!(tasks.max_wait.as_secs()));
    }
    for schema in ["CreateSession", "CreateWebDriverSession"] {
        let idle = session.idle_timeout.map(|idle| idle.as_secs());
        set(schemas, schema, "url", "default", json!(session.default_url.as_str()));
        set(schemas, schema, "session_timeout", "default", json!(session.default_timeout.as_secs()));
        set(schemas, schema, "session_timeout", "maximum", json!(longest));
        set(schemas, schema, "idle_timeout", "default", json!(idle));
        set(schemas, schema, "idle_timeout", "maximum", json!(longest));
    }
}

fn millis(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn set(schemas: &mut Map<String, Value>, schema: &str, member: &str, keyword: &str, value: Value) {
    let found = schemas.get_mut(schema).and_then(|schema| schema["properties"].get_mut(member));
    debug_assert!(found.is_some(), "no member {member} of {schema}");
    if let Some(found) = found {
        found[keyword] = value;
    }
}
