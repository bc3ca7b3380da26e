//! Chromium's command-line switches: what a client may do with each of them.
//!
//! Three places ask this one table: other services' addresses, whose clients send switches for a browser that runs already;
//! WebDriver's `goog:chromeOptions.args`, which may have a browser started for them; and the agent, which starts it.

/// What becomes of a switch that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Pages see nothing of it. A browser that runs already has it or does without; a browser that is started gets it.
    Harmless,
    /// The same, and no browser is started for it: the worker has done the right thing already.
    Fulfilled,
    /// The same, and a client never sets it: whether there is a sandbox is for the operator to say.
    Ours,
    /// It would reach around the worker's isolation: it takes the sandbox away, starts programs or opens the browser to
    /// others.
    Refused,
    /// A browser that is started gets it.
    Free,
}

impl Class {
    /// Whether a browser that runs already may do without the switch.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Harmless | Self::Fulfilled | Self::Ours)
    }

    /// Whether the switch asks for nothing that a worker's browser is not.
    #[must_use]
    pub const fn is_fulfilled(self) -> bool {
        matches!(self, Self::Fulfilled | Self::Ours)
    }

    /// Whether a browser that is started for a client may get the switch from it.
    #[must_use]
    pub const fn is_the_clients(self) -> bool {
        !matches!(self, Self::Ours | Self::Refused)
    }
}

/// Beginnings of the names of refused switches.
const REFUSED_PREFIX: &str = "remote-";

/// Every switch that has a class of its own, by name.
const CLASSES: [(&str, Class); 74] = [
    ("allow-pre-commit-input", Class::Harmless),
    ("allow-sandbox-debugging", Class::Refused),
    ("browser-subprocess-path", Class::Refused),
    ("crash-dumps-dir", Class::Refused),
    ("disable-back-forward-cache", Class::Harmless),
    ("disable-background-networking", Class::Harmless),
    ("disable-background-timer-throttling", Class::Harmless),
    ("disable-backgrounding-occluded-windows", Class::Harmless),
    ("disable-breakpad", Class::Harmless),
    ("disable-client-side-phishing-detection", Class::Harmless),
    ("disable-component-extensions-with-background-pages", Class::Harmless),
    ("disable-component-update", Class::Harmless),
    ("disable-crash-reporter", Class::Harmless),
    ("disable-default-apps", Class::Harmless),
    ("disable-dev-shm-usage", Class::Fulfilled),
    ("disable-domain-reliability", Class::Harmless),
    ("disable-extensions", Class::Harmless),
    ("disable-field-trial-config", Class::Harmless),
    ("disable-gpu", Class::Harmless),
    ("disable-gpu-sandbox", Class::Refused),
    ("disable-hang-monitor", Class::Harmless),
    ("disable-infobars", Class::Harmless),
    ("disable-ipc-flooding-protection", Class::Harmless),
    ("disable-namespace-sandbox", Class::Refused),
    ("disable-notifications", Class::Harmless),
    ("disable-popup-blocking", Class::Harmless),
    ("disable-print-preview", Class::Harmless),
    ("disable-prompt-on-repost", Class::Harmless),
    ("disable-quic", Class::Fulfilled),
    ("disable-renderer-backgrounding", Class::Harmless),
    ("disable-search-engine-choice-screen", Class::Harmless),
    ("disable-seccomp-filter-sandbox", Class::Refused),
    ("disable-session-crashed-bubble", Class::Harmless),
    ("disable-setuid-sandbox", Class::Ours),
    ("disable-software-rasterizer", Class::Harmless),
    ("disable-speech-api", Class::Harmless),
    ("disable-sync", Class::Harmless),
    ("disk-cache-dir", Class::Refused),
    ("enable-automation", Class::Harmless),
    ("export-tagged-pdf", Class::Harmless),
    ("force-webrtc-ip-handling-policy", Class::Refused),
    ("generate-pdf-document-outline", Class::Harmless),
    ("gpu-launcher", Class::Refused),
    ("headless", Class::Fulfilled),
    ("hide-crash-restore-bubble", Class::Harmless),
    ("hide-scrollbars", Class::Harmless),
    ("host-resolver-rules", Class::Refused),
    ("host-rules", Class::Refused),
    ("ignore-gpu-blacklist", Class::Harmless),
    ("ignore-gpu-blocklist", Class::Harmless),
    ("load-extension", Class::Refused),
    ("metrics-recording-only", Class::Harmless),
    ("mute-audio", Class::Harmless),
    ("no-default-browser-check", Class::Harmless),
    ("no-first-run", Class::Harmless),
    ("no-pings", Class::Harmless),
    ("no-proxy-server", Class::Refused),
    ("no-sandbox", Class::Ours),
    ("no-service-autorun", Class::Harmless),
    ("no-startup-window", Class::Harmless),
    ("no-zygote", Class::Refused),
    ("no-zygote-sandbox", Class::Refused),
    ("password-store", Class::Harmless),
    ("profile-directory", Class::Refused),
    ("proxy-auto-detect", Class::Refused),
    ("proxy-bypass-list", Class::Refused),
    ("proxy-pac-url", Class::Refused),
    ("proxy-server", Class::Refused),
    ("renderer-cmd-prefix", Class::Refused),
    ("single-process", Class::Refused),
    ("start-maximized", Class::Harmless),
    ("use-mock-keychain", Class::Harmless),
    ("user-data-dir", Class::Refused),
    ("utility-cmd-prefix", Class::Refused),
];

/// The class of a switch, as a client writes it: with or without leading dashes and a value.
#[must_use]
pub fn class(switch: &str) -> Class {
    let (name, _) = parts(switch);
    let name = name.to_ascii_lowercase();
    if name.starts_with(REFUSED_PREFIX) {
        return Class::Refused;
    }
    CLASSES.binary_search_by_key(&name.as_str(), |(name, _)| name).map_or(Class::Free, |at| CLASSES[at].1)
}

/// A switch's name without dashes, and its value.
#[must_use]
pub fn parts(switch: &str) -> (&str, Option<&str>) {
    let bare = switch.trim_start_matches('-');
    bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: Class) -> Vec<&'static str> {
        CLASSES.iter().filter(|(_, is)| *is == class).map(|(name, _)| *name).collect()
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(CLASSES.is_sorted_by(|(one, _), (next, _)| one < next));
    }

    #[test]
    fn what_touches_the_isolation_is_pinned() {
        assert_eq!(of(Class::Ours), ["disable-setuid-sandbox", "no-sandbox"]);
        assert_eq!(of(Class::Fulfilled), ["disable-dev-shm-usage", "disable-quic", "headless"]);
        let refused = [
            "allow-sandbox-debugging",
            "browser-subprocess-path",
            "crash-dumps-dir",
            "disable-gpu-sandbox",
            "disable-namespace-sandbox",
            "disable-seccomp-filter-sandbox",
            "disk-cache-dir",
            "force-webrtc-ip-handling-policy",
            "gpu-launcher",
            "host-resolver-rules",
            "host-rules",
            "load-extension",
            "no-proxy-server",
            "no-zygote",
            "no-zygote-sandbox",
            "profile-directory",
            "proxy-auto-detect",
            "proxy-bypass-list",
            "proxy-pac-url",
            "proxy-server",
            "renderer-cmd-prefix",
            "single-process",
            "user-data-dir",
            "utility-cmd-prefix",
        ];
        assert_eq!(of(Class::Refused), refused);
        assert_eq!(of(Class::Harmless).len(), 45);
        assert!(of(Class::Free).is_empty());
    }

    #[test]
    fn a_switch_has_one_class_however_it_is_written() {
        for (switch, wanted) in [
            ("--no-sandbox", Class::Ours),
            ("NO-SANDBOX", Class::Ours),
            ("-headless=new", Class::Fulfilled),
            ("--mute-audio", Class::Harmless),
            ("password-store=basic", Class::Harmless),
            ("--Remote-Debugging-Port=1", Class::Refused),
            ("user-data-dir=/x", Class::Refused),
            ("--lang=de", Class::Free),
            ("", Class::Free),
        ] {
            assert_eq!(class(switch), wanted, "{switch}");
        }
        let classes = [Class::Harmless, Class::Fulfilled, Class::Ours, Class::Refused, Class::Free];
        let answers = classes.map(|class| (class.is_harmless(), class.is_fulfilled(), class.is_the_clients()));
        let wanted =
            [(true, false, true), (true, true, true), (true, true, false), (false, false, false), (false, false, true)];
        assert_eq!(answers, wanted);
    }
}
