//! Turns a list of ads in EasyList's format into rules for the filter that Chromium itself has.
//!
//! `warmpool-ad-rules < LIST > RULES`. Chromium reads the result once, while its image is built, and keeps an index of it.
//! Rules that it cannot express are left out, and so are those for elements, which the agent hides.

mod message;
mod rule;
mod types;

use std::io::{self, Read as _, Write as _};

fn main() -> io::Result<()> {
    let mut list = Vec::new();
    io::stdin().read_to_end(&mut list)?;
    let rules: Vec<_> = String::from_utf8_lossy(&list).lines().filter_map(rule::read).collect();
    io::stdout().write_all(&message::file(&rules))?;
    eprintln!("{} rules", rules.len());
    Ok(())
}
