//! `warmpool key`: the keys of clients.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};

use super::any_key::{KeyArgument, ListArguments, RotateArguments, last_used, print_secret};
use super::{date, order};
use crate::control::{ControlReply, ControlRequest};
use warmpool_client::exit::Exit;
use warmpool_client::{ClientError, Column, note};
use warmpool_config::{CaCertificates, Config, EgressRule, EgressRules, check_certificates_of_key};
use warmpool_keys::{KeyRecord, KeyRole};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Create a key and print it; it is shown only once.
    Create {
        /// What to call it; no two active keys may have one name.
        name: String,
        /// Let its holder see and manage in the console what every key made, and the keys themselves.
        #[arg(long)]
        operator: bool,
        #[command(flatten)]
        egress: EgressArguments,
    },
    /// Set what pages of a key's sessions may reach, in place of the rules that it has; without rules, those of the daemon
    /// alone hold. Running sessions keep theirs.
    Egress {
        #[command(flatten)]
        key: KeyArgument,
        #[command(flatten)]
        egress: EgressArguments,
    },
    /// List all keys.
    List(ListArguments),
    /// Give a key a new secret and print it; it is shown only once.
    Rotate(RotateArguments),
    /// Make a key and its integration keys useless, and end its sessions.
    Revoke(KeyArgument),
    /// Remove a revoked key from the list.
    Remove(KeyArgument),
}

/// Rules of a key. They come before those of the daemon.
#[derive(Args)]
pub(super) struct EgressArguments {
    /// What pages of the key's sessions may reach, as in `egress.allow`; may be repeated.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    egress_allow: Vec<EgressRule>,
    /// What they may not reach, as in `egress.deny`; may be repeated.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    egress_deny: Vec<EgressRule>,
    /// Files with certificates of authorities, in PEM form, that its browsers trust beside the public ones and those of
    /// `egress.ca_certificates`; may be repeated.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    egress_ca_certificates: Vec<PathBuf>,
}

impl EgressArguments {
    /// The rules, with the certificates themselves in place of the files, which the daemon might not find.
    /// Errors: [`ClientError::Usage`] for a file that cannot be read or has no certificates, and for too many of them.
    fn rules(self) -> Result<EgressRules, ClientError> {
        let wrong = |problem: String| ClientError::Usage(format!("--egress-ca-certificates: {problem}"));
        let read = |file: PathBuf| -> Result<CaCertificates, ClientError> {
            let shown = file.display();
            let text = fs::read_to_string(&file).map_err(|error| wrong(format!("{shown} cannot be read: {error}")))?;
            text.parse().map_err(|error| wrong(format!("{shown}: {error}")))
        };
        let ca_certificates = self.egress_ca_certificates.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        check_certificates_of_key(&ca_certificates).map_err(wrong)?;
        Ok(EgressRules { allow: self.egress_allow, deny: self.egress_deny, ca_certificates })
    }
}

pub(super) async fn carry_out(command: Command, config: &Config) -> anyhow::Result<Exit> {
    let mut list = None;
    let request = match command {
        Command::Create { name, operator, egress } => {
            let role = if operator { KeyRole::Operator } else { KeyRole::Client };
            ControlRequest::CreateKey { name, role, egress: egress.rules()? }
        }
        Command::Egress { key, egress } => ControlRequest::SetKeyEgress { id: key.id, egress: egress.rules()? },
        Command::List(arguments) => {
            list = Some(arguments);
            ControlRequest::ListKeys
        }
        Command::Rotate(arguments) => {
            ControlRequest::RotateKey { keep_old_for: arguments.seconds(), id: arguments.key.id }
        }
        Command::Revoke(key) => ControlRequest::RevokeKey { id: key.id },
        Command::Remove(key) => ControlRequest::RemoveKey { id: key.id },
    };
    match (order(request, config).await?, list) {
        (ControlReply::Keys(keys), Some(list)) => {
            let columns = [
                Column::new("ID"),
                Column::new("STATE"),
                Column::new("ROLE").optional(3),
                Column::new("CREATED").optional(2),
                Column::new("LAST USED").optional(1),
                Column::new("NAME").cut(),
            ];
            list.print(&keys, columns, cells, summary)?;
        }
        (ControlReply::Secret { id, name, secret }, _) => print_secret("key", &id, &name, &secret)?,
        (ControlReply::Changed(key), _) => {
            note(format_args!("key {} ({}) has new rules, for sessions that begin from now on", key.id, key.name));
        }
        (ControlReply::Revoked { key, integrations }, _) => {
            note(format_args!("key {} ({}) is revoked; its sessions and tasks end", key.id, key.name));
            for ended in integrations {
                note(format_args!("integration key {} ({}) is revoked with it; its worlds stay", ended.id, ended.name));
            }
        }
        (ControlReply::Removed(key), _) => note(format_args!("key {} ({}) is removed", key.id, key.name)),
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

fn cells(key: &KeyRecord) -> [String; 6] {
    let (state, role) = (key.state.as_str().to_owned(), key.details.role.as_str().to_owned());
    [key.id.to_string(), state, role, date(key.created_ms), last_used(key.last_used_ms), key.name.clone()]
}

/// A key without its hash.
fn summary(key: &KeyRecord) -> serde_json::Value {
    serde_json::json!({
        "id": key.id,
        "name": key.name,
        "state": key.state.as_str(),
        "role": key.details.role.as_str(),
        "created": key.created_ms,
        "last_used": key.last_used_ms,
        "egress": key.details.egress,
    })
}
