//! What the commands for both kinds of keys share: their arguments, and how they print.

use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::date;
use warmpool_client::{Column, note, write_line};

/// Names one key.
#[derive(Args)]
pub(super) struct KeyArgument {
    /// The key's id or name, from the list.
    pub(super) id: String,
}

/// Names the key whose secret changes.
#[derive(Args)]
pub(super) struct RotateArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    /// How long the old secret still works, as in 10m.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
    keep_old_for: Duration,
}

impl RotateArguments {
    pub(super) const fn seconds(&self) -> u64 {
        self.keep_old_for.as_secs()
    }
}

/// How a list is printed.
#[derive(Args)]
pub(super) struct ListArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl ListArguments {
    /// Prints keys: as a table, or as JSON with what `summary` says of each.
    /// Errors: when they cannot be written.
    pub(super) fn print<K, const N: usize>(
        &self,
        keys: &[K],
        columns: [Column; N],
        cells: fn(&K) -> [String; N],
        summary: fn(&K) -> Value,
    ) -> io::Result<()> {
        if self.json {
            return write_line(&format!("{:#}", keys.iter().map(summary).collect::<Value>()));
        }
        write_line(&warmpool_client::table(columns, keys.iter().map(cells)))
    }
}

/// Shows a secret: on standard output alone, so that a script can take it.
/// Errors: when it cannot be written.
pub(super) fn print_secret(kind: &str, id: &impl std::fmt::Display, name: &str, secret: &str) -> io::Result<()> {
    note(format_args!("{kind} {id} ({name}); this is the only time its secret is shown:"));
    write_line(secret)
}

pub(super) fn last_used(unix_ms: Option<u64>) -> String {
    unix_ms.map_or_else(|| "never".to_owned(), date)
}
