//! Firefox's command-line arguments: what a client may do with each of them.

/// What becomes of an argument that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Clients give it out of habit: it is true already, or the create call decides it.
    Idle,
    /// A browser that is started gets it.
    Free,
    /// The same, with a value.
    Valued,
    /// It would open the browser to others, lead it to other files, or give clients the browser's own rights.
    Refused,
    /// Nobody has judged it. It takes effect where the operator allows it.
    Unknown,
}

/// Every argument that has been judged, by name.
const CLASSES: [(&str, Class); 52] = [
    ("allow-downgrade", Class::Idle),
    ("attach-console", Class::Idle),
    ("backgroundtask", Class::Refused),
    ("browser", Class::Idle),
    ("createprofile", Class::Refused),
    ("devtools", Class::Free),
    ("foreground", Class::Idle),
    ("greomni", Class::Refused),
    ("headless", Class::Idle),
    ("height", Class::Valued),
    ("jsconsole", Class::Free),
    ("jsdebugger", Class::Refused),
    ("kiosk", Class::Free),
    ("marionette", Class::Idle),
    ("marionette-port", Class::Refused),
    ("new-instance", Class::Idle),
    ("new-tab", Class::Refused),
    ("new-window", Class::Refused),
    ("no-remote", Class::Idle),
    ("no-sandbox", Class::Idle),
    ("override", Class::Refused),
    ("p", Class::Refused),
    ("preferences", Class::Refused),
    ("private", Class::Free),
    ("private-window", Class::Free),
    ("profile", Class::Refused),
    ("profilemanager", Class::Refused),
    ("purgecaches", Class::Idle),
    ("remote-allow-hosts", Class::Refused),
    ("remote-allow-origins", Class::Refused),
    ("remote-allow-system-access", Class::Refused),
    ("remote-debugger", Class::Refused),
    ("remote-debugging-pipe", Class::Refused),
    ("remote-debugging-port", Class::Refused),
    ("safe-mode", Class::Refused),
    ("screenshot", Class::Refused),
    ("search", Class::Refused),
    ("setdefaultbrowser", Class::Idle),
    ("silent", Class::Idle),
    ("start-debugger-server", Class::Refused),
    ("unload-module", Class::Refused),
    ("update", Class::Refused),
    ("url", Class::Refused),
    ("wait-for-browser", Class::Idle),
    ("wait-for-jsdebugger", Class::Refused),
    ("width", Class::Valued),
    ("window-size", Class::Valued),
    ("xpcshell", Class::Refused),
    ("xul", Class::Refused),
    ("xulapp", Class::Refused),
    ("xulappinfo", Class::Refused),
    ("zip", Class::Refused),
];

/// The class of an argument by its name, without dashes and value. `allowed` names what the operator allows besides.
#[must_use]
pub fn class(name: &str, allowed: &[String]) -> Class {
    match CLASSES.binary_search_by_key(&name, |(name, _)| name) {
        Ok(at) => CLASSES[at].1,
        Err(_) if allowed.iter().any(|allowed| allowed.trim_start_matches('-') == name) => Class::Free,
        Err(_) => Class::Unknown,
    }
}

/// An argument's name, in the letters that Firefox compares, and its value: as Firefox reads it, with one dash or two.
/// `None` for what is no argument but something to open, and for a name that no argument has.
#[must_use]
pub fn parts(argument: &str) -> Option<(String, Option<&str>)> {
    let bare = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value)));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_name = name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(plain);
    is_name.then(|| (name.to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(CLASSES.is_sorted_by(|(one, _), (next, _)| one < next));
    }

    #[test]
    fn an_argument_has_one_class_however_it_is_written() {
        for (argument, wanted) in [
            ("--headless", Class::Idle),
            ("-Private", Class::Free),
            ("--width=800", Class::Valued),
            ("-profile", Class::Refused),
            ("--REMOTE-allow-system-access", Class::Refused),
            ("-remote-allow-hosts=x", Class::Refused),
            ("--unheard-of", Class::Unknown),
        ] {
            let (name, _) = parts(argument).unwrap();
            assert_eq!(class(&name, &[]), wanted, "{argument}");
        }
        let allowed = ["--unheard-of".to_owned(), "profile".to_owned()];
        assert_eq!(class("unheard-of", &allowed), Class::Free);
        assert_eq!(class("profile", &allowed), Class::Refused, "nobody can allow it");
    }

    #[test]
    fn what_is_no_argument_is_seen() {
        for argument in [
            "",
            "-",
            "--",
            "---profile",
            "headless",
            "http://x",
            " -private",
            "-private ",
            "-pri\tvate",
            "-\u{2010}x",
            "\u{2013}profile",
            "-\u{17f}creenshot",
            "-=1",
            "-private\0",
        ] {
            assert_eq!(parts(argument), None, "{argument:?}");
        }
    }
}
