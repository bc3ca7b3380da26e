//! What goes to standard output.

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

pub(super) fn print(value: &Value) {
    write(&if std::io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() });
}

pub(super) fn write(text: &str) {
    // The reader may have closed the pipe.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
