use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which browser a WebDriver session drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverMode {
    /// The one that is warm.
    Warm,
    /// One that is started with the client's options, in the place of the warm one.
    Cold,
}

/// Body of `POST /driver/session`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDriverSession {
    /// Which browser.
    pub mode: DriverMode,
    /// A W3C capabilities object.
    pub capabilities: Value,
}

/// Answer to `POST /context` and `POST /context/window`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Window {
    /// The window's WebDriver handle.
    pub window: String,
}

/// Whether the agent of this engine has to see a driver's command before the driver does; the others may pass it by. `command`
/// is what follows the driver session's id in a path, decoded.
#[must_use]
pub fn passes_agent(engine: &str, command: &str) -> bool {
    match engine {
        // Files that a client sends to upload fields, and commands of DevTools that concern the agent.
        "chromium" => {
            let sends_keys = command.strip_prefix("element/").is_some_and(|rest| rest.ends_with("/value"));
            sends_keys || DEVTOOLS_COMMANDS.iter().any(|name| command.ends_with(name))
        }
        // Its driver takes the picture that was painted last.
        "webkit" => command.ends_with("screenshot"),
        _ => false,
    }
}

/// The member of an element in WebDriver's JSON that has its id.
pub const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Ends of a driver's commands by which a client sends a command of DevTools.
pub const DEVTOOLS_COMMANDS: [&str; 3] =
    ["/cdp/execute", "chromium/send_command", "chromium/send_command_and_get_result"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_look_after_passes_them() {
        for (engine, command) in [
            ("chromium", "element/f.1/value"),
            ("chromium", "goog/cdp/execute"),
            ("chromium", "chromium/send_command"),
            ("chromium", "chromium/send_command_and_get_result"),
            ("webkit", "screenshot"),
            ("webkit", "element/E/screenshot"),
        ] {
            assert!(passes_agent(engine, command), "{engine} {command}");
        }
        for (engine, command) in [
            ("chromium", "execute/sync"),
            ("chromium", "screenshot"),
            ("firefox", "element/E/value"),
            ("webkit", "url"),
        ] {
            assert!(!passes_agent(engine, command), "{engine} {command}");
        }
    }
}
