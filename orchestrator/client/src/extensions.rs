//! `warmpool extensions`: browser extensions that are kept for sessions.

use std::path::PathBuf;

use ::http::Method;
use clap::{Args, Subcommand};
use warmpool_api::extension::ExtensionView;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, read_json};
use super::kept::{ListArguments, delete, open, path, show};
use super::show::{moment, plain};
use super::table::{Column, table};

/// A command about extensions.
#[derive(Debug, Clone, Subcommand)]
pub enum ExtensionsCommand {
    /// List the extensions of your key.
    List(ListArguments),
    /// Show an extension: what it may do, and where.
    Show {
        /// Which one.
        #[command(flatten)]
        extension: ExtensionReference,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
    },
    /// Upload an extension. Sessions that name the id that this prints, by `sessions create --extension`, load it.
    Upload {
        /// A zip, a .crx or an .xpi with a manifest.json at its root.
        file: PathBuf,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Delete an extension for good: no backup brings it back.
    Delete {
        /// Which one.
        #[command(flatten)]
        extension: ExtensionReference,
    },
}

/// An extension, and whom to ask for it.
#[derive(Debug, Clone, Args)]
pub struct ExtensionReference {
    /// The extension's id, such as ext_x6SgQn0WNwTf1kXbC2yVdA.
    id: String,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

impl ExtensionReference {
    fn path(&self) -> String {
        path("extensions", &self.id)
    }
}

pub(super) async fn carry_out(command: ExtensionsCommand) -> Result<(), ClientError> {
    match command {
        ExtensionsCommand::List(arguments) => arguments.print("extensions", listed).await,
        ExtensionsCommand::Show { extension, json } => {
            show(&Caller::new(&extension.service)?.get(&extension.path()).await?, json, described)
        }
        ExtensionsCommand::Upload { file, json, service } => {
            let content = open(&file).await?;
            let reply = Caller::new(&service)?.upload(Method::POST, "/extensions", content).await?;
            show(&read_json(reply).await?, json, described)
        }
        ExtensionsCommand::Delete { extension } => {
            delete(&extension.service, &extension.path(), &format!("extension {}", extension.id)).await
        }
    }
}

fn listed(extensions: &[ExtensionView]) -> String {
    let columns = [
        Column::new("EXTENSION"),
        Column::new("NAME").cut(),
        Column::new("VERSION").optional(3),
        Column::new("BYTES").optional(2),
        Column::new("UPLOADED (UTC)").optional(1),
    ];
    let cells = |extension: &ExtensionView| {
        [
            extension.extension_id.to_string(),
            plain(&extension.name),
            plain(&extension.version),
            extension.size.to_string(),
            moment(extension.created),
        ]
    };
    table(columns, extensions.iter().map(cells))
}

fn described(extension: &ExtensionView) -> String {
    let several = |words: &[String]| words.iter().map(|word| plain(word)).collect::<Vec<_>>().join(", ");
    let format = match &extension.store_id {
        Some(store) if store.is_verified => format!("crx, signed as {}", plain(&store.id)),
        Some(store) => format!("crx, of {} by a key that is too short to check", plain(&store.id)),
        None => format!("{:?}", extension.format).to_lowercase(),
    };
    let lines = [
        ("extension", extension.extension_id.to_string()),
        ("name", plain(&extension.name)),
        ("version", plain(&extension.version)),
        ("manifest", extension.manifest_version.to_string()),
        ("may use", several(&extension.permissions)),
        ("on sites", several(&extension.hosts)),
        ("file", format),
        ("bytes", format!("{}, {} in {} files unpacked", extension.size, extension.unpacked, extension.files)),
        ("sha256", extension.sha256.clone()),
        ("uploaded", format!("{} UTC", moment(extension.created))),
    ];
    let lines = lines.iter().filter(|(_, value)| !value.is_empty());
    lines.map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
