//! Addresses that people look at: opened in their browser where there is one.

use std::io::IsTerminal as _;

use super::output::{note, write};

/// Prints an address. On a terminal of a desktop, the default browser opens it as well.
pub(super) fn show(url: &str) {
    write(url);
    if std::io::stdout().is_terminal() {
        in_browser(url);
    }
}

/// Opens an address in the default browser of a desktop.
pub(super) fn in_browser(url: &str) {
    if has_desktop() && open::that_detached(url).is_err() {
        note("no browser could be opened; open the address yourself");
    }
}

/// Whether a browser would have a window: without one, Linux would start a browser for text in this terminal.
fn has_desktop() -> bool {
    cfg!(not(target_os = "linux")) || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}
