//! `warmpool integration-key`: the keys of those who ask for worlds.

use anyhow::bail;
use clap::Subcommand;

use super::any_key::{KeyArgument, ListArguments, RotateArguments, last_used, print_secret};
use super::{date, order};
use crate::control::{ControlReply, ControlRequest};
use warmpool_client::exit::Exit;
use warmpool_client::{Column, note};
use warmpool_config::Config;
use warmpool_keys::{IntegrationKey, IntegrationKind};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Create an integration key and print it; it is shown only once.
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
    List(ListArguments),
    /// Give an integration key a new secret and print it; it is shown only once.
    Rotate(RotateArguments),
    /// Make an integration key useless. Its worlds stay.
    Revoke(KeyArgument),
}

pub(super) async fn carry_out(command: Command, config: &Config) -> anyhow::Result<Exit> {
    let mut list = None;
    let request = match command {
        Command::Create { name, test, owner } => {
            let kind = if test { IntegrationKind::Test } else { IntegrationKind::Live };
            ControlRequest::CreateIntegrationKey { name, owner, kind }
        }
        Command::List(arguments) => {
            list = Some(arguments);
            ControlRequest::ListIntegrationKeys
        }
        Command::Rotate(arguments) => {
            ControlRequest::RotateIntegrationKey { keep_old_for: arguments.seconds(), id: arguments.key.id }
        }
        Command::Revoke(key) => ControlRequest::RevokeIntegrationKey { id: key.id },
    };
    match (order(request, config).await?, list) {
        (ControlReply::IntegrationKeys(keys), Some(list)) => {
            let columns = [
                Column::new("ID"),
                Column::new("STATE"),
                Column::new("KEY").optional(3),
                Column::new("CREATED").optional(4),
                Column::new("LAST USED").optional(1),
                Column::new("WORLDS").right().optional(2),
                Column::new("NAME").cut(),
            ];
            list.print(&keys, columns, cells, summary)?;
        }
        (ControlReply::Secret { id, name, secret }, _) => print_secret("integration key", &id, &name, &secret)?,
        (ControlReply::IntegrationRevoked(key), _) => {
            note(format_args!("integration key {} ({}) is revoked; its worlds stay", key.id, key.name));
        }
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

fn cells(key: &IntegrationKey) -> [String; 7] {
    let (state, shown) = (key.state.as_str().to_owned(), key.details.shown.clone());
    let (used, worlds) = (last_used(key.last_used_ms), key.details.worlds.to_string());
    [key.id.to_string(), state, shown, date(key.created_ms), used, worlds, key.name.clone()]
}

fn summary(key: &IntegrationKey) -> serde_json::Value {
    serde_json::json!({
        "id": key.id,
        "name": key.name,
        "owner": key.details.owner,
        "state": key.state.as_str(),
        "kind": key.details.kind,
        "key": key.details.shown,
        "created": key.created_ms,
        "last_used": key.last_used_ms,
        "worlds_generated": key.details.worlds,
    })
}
