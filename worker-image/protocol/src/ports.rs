use serde::{Deserialize, Serialize};

/// The name, in an upgrade, of a connection to one port of the browser or its driver: `GET /ports/{number}`. Where the daemon
/// reaches the agent through a Unix socket it then sends one byte, and gets one byte and the connected socket itself; else
/// the agent carries the bytes.
pub const PORT_PROTOCOL: &str = "port";
/// The name, in an upgrade, of a client's attachment: `GET /attach/devtools/…` and `GET /attach/bidi/…`. The agent sends a
/// line with [`Attached`]. Then the daemon sends lines with [`ClientMessage`], and the agent answers each with [`ListenVerdict`].
pub const ATTACH_PROTOCOL: &str = "attach";
/// The longest command of a client that the agent may want to see, in bytes. Most are far shorter; one may list many hosts that
/// need no proxy.
pub const LONGEST_COMMAND: usize = 64 << 10;
/// The longest line of an attachment, in bytes: such a command with every character escaped.
pub const LONGEST_LINE: usize = 8 * LONGEST_COMMAND;

/// Answer to `GET /ports/driver`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct DriverPort {
    /// The port on which the driver believes it listens.
    pub port: u16,
}

/// Where a client's websocket leads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attached {
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// What the agent has to hear before the browser does; none where it is nothing.
    #[serde(default, rename = "heeds")]
    pub listen_rules: Option<ListenRules>,
}

/// What the agent has to hear of a client's messages, beside commands that name something of the client's machine or network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenRules {
    /// Every message, as the first page is on its way.
    pub first_page: bool,
    /// Those that set a locale or a time zone, or hold new targets.
    pub overrides: bool,
}

/// One message of a client, before the browser has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientMessage {
    /// It opens a page.
    #[serde(default)]
    pub navigates: bool,
    /// It asks to hold new targets until the client lets them go.
    #[serde(default)]
    pub holds_targets: bool,
    /// It sets a locale or a time zone.
    #[serde(default)]
    pub sets_locale: bool,
    /// Its text, where it may name something of the client's machine or network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The agent's answer: the browser may have the message, unless the client has an answer already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenVerdict {
    /// What the browser gets in the message's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// What the client gets at once. The browser does not get the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Whether the first page is still on its way.
    #[serde(default)]
    pub first_page: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker outlives the daemon that started it, and the next one may be newer.
    #[test]
    fn an_agent_of_an_earlier_release_is_heard() {
        let said = r#"{"port": 9, "path": "/", "heeds": {"first_page": true, "overrides": false}}"#;
        let attached: Attached = serde_json::from_str(said).unwrap();
        assert!(attached.listen_rules.is_some_and(|rules| rules.first_page));
    }
}
