//! `warmpool integration-key`: the keys of those who ask for worlds.

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use warmpool::control::{ControlReply, ControlRequest};
use warmpool::{Config, Exit, IntegrationKey, IntegrationKind, IntegrationState, client};

use super::{date, order};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make an integration key and show it, this once.
    Create {
        /// What to call it.
        name: String,
        /// For trying out: its scenes are small and have a watermark.
        #[arg(long)]
        test: bool,
        /// The key that it belongs to, by id or name; whoever holds that key sees its worlds and requests. Needed where there
        /// are several keys.
        #[arg(long, value_name = "KEY")]
        owner: Option<String>,
    },
    /// List all integration keys.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give an integration key a new secret and show it, this once.
    Rotate {
        /// The key's id or name, from the list.
        id: String,
        /// How long the old secret still works, as in 10m.
        #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
        keep_old_for: Duration,
    },
    /// Make an integration key useless. Its worlds stay.
    Revoke {
        /// The key's id or name, from the list.
        id: String,
    },
}

/// Carries a command out.
pub(super) async fn carry_out(command: Command, config: &Config) -> anyhow::Result<Exit> {
    let mut as_json = false;
    let wanted = match command {
        Command::Create { name, test, owner } => {
            let kind = if test { IntegrationKind::Test } else { IntegrationKind::Live };
            ControlRequest::CreateIntegrationKey { name, owner, kind }
        }
        Command::List { json } => {
            as_json = json;
            ControlRequest::ListIntegrationKeys
        }
        Command::Rotate { id, keep_old_for } => {
            ControlRequest::RotateIntegrationKey { id, keep_old_for: keep_old_for.as_secs() }
        }
        Command::Revoke { id } => ControlRequest::RevokeIntegrationKey { id },
    };
    match order(wanted, config).await? {
        ControlReply::Secret { id, name, secret } => {
            eprintln!("integration key {id} ({name}); this is the only time its secret is shown:");
            println!("{secret}");
        }
        ControlReply::IntegrationKeys(keys) if as_json => {
            let shown: Vec<_> = keys.iter().map(summary).collect();
            println!("{}", serde_json::to_string_pretty(&shown)?);
        }
        ControlReply::IntegrationKeys(keys) => {
            let names = ["ID", "STATE", "KEY", "CREATED", "LAST USED", "WORLDS", "NAME"];
            let mut rows = vec![names.map(str::to_owned).to_vec()];
            rows.extend(keys.iter().map(|key| {
                let used = key.last_used_ms.map_or_else(|| "never".to_owned(), date);
                let (id, worlds) = (key.id.to_string(), key.worlds.to_string());
                let (shown, name) = (key.shown.to_string(), key.name.clone());
                vec![id, state(key).to_owned(), shown, date(key.created_ms), used, worlds, name]
            }));
            println!("{}", client::columns(&rows));
        }
        ControlReply::IntegrationRevoked(key) => {
            eprintln!("integration key {} ({}) is revoked; its worlds stay", key.id, key.name)
        }
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

fn summary(key: &IntegrationKey) -> serde_json::Value {
    serde_json::json!({
        "id": key.id,
        "name": key.name,
        "owner": key.owner,
        "state": state(key),
        "kind": key.kind,
        "key": key.shown,
        "created": key.created_ms,
        "last_used": key.last_used_ms,
        "worlds_generated": key.worlds,
    })
}

const fn state(key: &IntegrationKey) -> &'static str {
    match key.state {
        IntegrationState::Active => "active",
        IntegrationState::Revoked { .. } => "revoked",
    }
}
