//! Chromium's command-line switches: what a client may do with each of them.
//!
//! Three places ask these tables: other services' addresses, whose clients send switches for a browser that runs already;
//! WebDriver's `goog:chromeOptions.args`, which may have a browser started for them; and the agent, which starts it.
//!
//! The tables say what is allowed. A switch that they do not have reaches no browser, unless the operator names it in
//! `worker.chromium_switches`; those that are known to weaken the fence stay refused even then.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod items;
mod names;

use thiserror::Error;

pub use items::List;
use items::Lists;
use names::{Form, STANDING, class_of, form_of};

/// How pages' connections find their way, and the way that every browser here has been given.
const WEBRTC: &str = "force-webrtc-ip-handling-policy";
/// See [`WEBRTC`].
pub const WEBRTC_POLICY: &str = "disable_non_proxied_udp";

/// What becomes of a switch that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Pages see nothing of it. A browser that runs already has it or does without; a browser that is started gets it.
    Harmless,
    /// The same, and no browser is started for it: the worker has done the right thing already.
    Fulfilled,
    /// The same, and a client never sets it: whether there is a sandbox, and which processes it holds, is for the operator to say.
    Ours,
    /// It would reach around the worker's isolation: it takes the sandbox away, starts programs, names files of the
    /// container, or opens the browser to others.
    Refused,
    /// A browser that is started gets it.
    Free,
    /// Nobody has judged it. No browser gets it, unless the operator allows it by name.
    Unknown,
}

impl Class {
    /// Whether a browser that runs already may do without the switch.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Harmless | Self::Fulfilled | Self::Ours)
    }
}

/// Why a text is no switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misspelling {
    /// There is no name.
    #[error("is no command-line switch")]
    Empty,
    /// Chromium would take another name than the one that was judged.
    #[error(
        "has more than two dashes, a blank, a control character or one beyond ASCII in its name: write it as in --lang=de"
    )]
    Name,
    /// A control character.
    #[error("has a control character in its value")]
    Value,
}

/// A switch as Chromium reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch<'a> {
    /// Without dashes, in lower case.
    pub name: String,
    /// What stands after the equals sign.
    pub value: Option<&'a str>,
}

impl<'a> Switch<'a> {
    /// Reads a switch as clients write it: with two dashes, with one or without any.
    /// Errors: why it is none.
    pub fn read(text: &'a str) -> Result<Self, Misspelling> {
        let bare = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or(text);
        let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value)));
        if name.is_empty() {
            return Err(Misspelling::Empty);
        }
        if name.starts_with('-') || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Misspelling::Name);
        }
        if value.is_some_and(|value| value.chars().any(char::is_control)) {
            return Err(Misspelling::Value);
        }
        // Chromium takes blanks from the end of an argument.
        Ok(Self { name: name.to_ascii_lowercase(), value: value.map(str::trim_end) })
    }

    /// What becomes of it.
    #[must_use]
    pub fn class(&self) -> Class {
        class_of(&self.name)
    }

    /// Whether every browser that runs already is as this list would have it.
    #[must_use]
    pub fn is_standing(&self) -> bool {
        let standing = STANDING.iter().find(|(name, _)| *name == self.name).map(|(_, items)| items);
        let mut items = self.value.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty());
        standing.is_some_and(|standing| items.all(|item| standing.contains(&item)))
    }

    fn written(&self) -> String {
        match self.value {
            Some(value) => format!("--{}={value}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

/// What becomes of one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchVerdict {
    /// A browser that is started gets this. It goes without the parts in the list, each as an operator would allow it.
    Taken(String, Vec<String>),
    /// The worker has done the right thing already.
    Fulfilled,
    /// No browser gets anything of it. The list has what an operator would have to allow.
    LeftOut(Vec<String>),
    /// It would weaken the fence.
    Refused,
    /// It is no switch.
    Misspelled(Misspelling),
}

/// Judges an argument of a client's. `allowed` has what the operator allows beyond the tables: names of switches, and items
/// of lists such as `enable-features=WebMCP`.
#[must_use]
pub fn judge(argument: &str, allowed: &[String]) -> SwitchVerdict {
    let switch = match Switch::read(argument) {
        Ok(switch) => switch,
        Err(misspelling) => return SwitchVerdict::Misspelled(misspelling),
    };
    if switch.name == WEBRTC && switch.value == Some(WEBRTC_POLICY) {
        return SwitchVerdict::Fulfilled;
    }
    match switch.class() {
        Class::Fulfilled | Class::Ours => return SwitchVerdict::Fulfilled,
        Class::Refused => return SwitchVerdict::Refused,
        Class::Harmless | Class::Free => {}
        Class::Unknown if allowed.contains(&switch.name) => return SwitchVerdict::Taken(switch.written(), Vec::new()),
        Class::Unknown => return SwitchVerdict::LeftOut(vec![switch.name]),
    }
    let list = match form_of(&switch.name) {
        Form::Flag => return SwitchVerdict::Taken(format!("--{}", switch.name), Vec::new()),
        Form::Text => return SwitchVerdict::Taken(switch.written(), Vec::new()),
        Form::List(list) => list,
    };
    let Lists { kept, left_out, has_refused } =
        list.judge_items(&switch.name, switch.value.unwrap_or_default(), allowed);
    if has_refused {
        SwitchVerdict::Refused
    } else if kept.is_empty() && left_out.is_empty() {
        SwitchVerdict::Fulfilled
    } else if kept.is_empty() {
        SwitchVerdict::LeftOut(left_out)
    } else {
        SwitchVerdict::Taken(format!("--{}={}", switch.name, kept.join(list.separator())), left_out)
    }
}

/// How the values of a switch add up, if they are a list.
#[must_use]
pub fn list(name: &str) -> Option<List> {
    match form_of(name) {
        Form::List(list) => Some(list),
        Form::Flag | Form::Text => None,
    }
}

/// Whether an operator may allow this: the name of a switch, or a switch and one item of its list.
/// Errors: why not.
pub fn check_allowed(entry: &str) -> Result<(), &'static str> {
    let (name, item) = entry.split_once('=').map_or((entry, None), |(name, item)| (name, Some(item)));
    let is_plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if !is_plain(name) || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("is not the name of a switch");
    }
    match (class_of(name), list(name), item) {
        (Class::Refused | Class::Ours, ..) => Err("would weaken the fence"),
        (_, Some(list), Some(item)) if is_plain(item) && !list.refuses(item) => Ok(()),
        (_, Some(_), Some(_)) => Err("names an item that would weaken the fence, or that is none"),
        (_, None, Some(_)) => Err("has a value, and the switch takes no list"),
        (_, _, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
