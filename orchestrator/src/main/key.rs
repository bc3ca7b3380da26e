//! `warmpool key`: the keys of clients.

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use warmpool::control::{ControlReply, ControlRequest};
use warmpool::{Config, Exit, KeyRecord, KeyState, client};

use super::{date, order};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a key and show it, this once.
    Create {
        /// What to call it; no two active keys may have one name.
        name: String,
    },
    /// List all keys.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a key a new secret and show it, this once.
    Rotate {
        /// The key's id or name, from the list.
        id: String,
        /// How long the old secret still works, as in 10m.
        #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
        keep_old_for: Duration,
    },
    /// Make a key useless and end its sessions.
    Revoke {
        /// The key's id or name, from the list.
        id: String,
    },
    /// Remove a revoked key from the list.
    Remove {
        /// The key's id or name, from the list.
        id: String,
    },
}

pub(super) async fn carry_out(command: Command, config: &Config) -> anyhow::Result<Exit> {
    let as_json = matches!(command, Command::List { json: true });
    let request = match command {
        Command::Create { name } => ControlRequest::CreateKey { name },
        Command::List { .. } => ControlRequest::ListKeys,
        Command::Rotate { id, keep_old_for } => ControlRequest::RotateKey { id, keep_old_for: keep_old_for.as_secs() },
        Command::Revoke { id } => ControlRequest::RevokeKey { id },
        Command::Remove { id } => ControlRequest::RemoveKey { id },
    };
    match order(request, config).await? {
        ControlReply::Secret { id, name, secret } => {
            eprintln!("key {id} ({name}); this is the only time its secret is shown:");
            println!("{secret}");
        }
        ControlReply::Keys(keys) if as_json => {
            let shown: Vec<_> = keys.iter().map(summary).collect();
            println!("{}", serde_json::to_string_pretty(&shown)?);
        }
        ControlReply::Keys(keys) => {
            let mut rows = vec![["ID", "STATE", "CREATED", "LAST USED", "NAME"].map(str::to_owned).to_vec()];
            rows.extend(keys.iter().map(|key| {
                let used = key.last_used_ms.map_or_else(|| "never".to_owned(), date);
                vec![key.id.to_string(), state(key).to_owned(), date(key.created_ms), used, key.name.clone()]
            }));
            println!("{}", client::columns(&rows));
        }
        ControlReply::Revoked(key) => eprintln!("key {} ({}) is revoked; its sessions end", key.id, key.name),
        ControlReply::Removed(key) => eprintln!("key {} ({}) is removed", key.id, key.name),
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

/// A key without its hash, which is nobody's business.
fn summary(key: &KeyRecord) -> serde_json::Value {
    serde_json::json!({
        "id": key.id,
        "name": key.name,
        "state": state(key),
        "created": key.created_ms,
        "last_used": key.last_used_ms,
    })
}

const fn state(key: &KeyRecord) -> &'static str {
    match key.state {
        KeyState::Active => "active",
        KeyState::Revoked { .. } => "revoked",
    }
}
