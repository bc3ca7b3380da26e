//! What goes to standard output: on a terminal for people, elsewhere as JSON.

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

/// Whether people read standard output, and did not ask for JSON.
pub(super) fn for_people(json: bool) -> bool {
    !json && std::io::stdout().is_terminal()
}

pub(super) fn print(value: &Value) {
    write(&if std::io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() });
}

/// Prints an answer: on a terminal as `text` tells it, otherwise and with `json` as it is.
pub(super) fn tell(value: &Value, json: bool, text: impl FnOnce() -> String) {
    if for_people(json) { write(&text()) } else { print(value) }
}

pub(super) fn write(text: &str) {
    // The reader may have closed the pipe.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
