//! `warmpool profiles`: logins that are kept from one session to the next.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use warmpool_api::profile::{ProfileDetail, ProfileKind, ProfileView};

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, read_json, save};
use super::kept::{ListArguments, delete, open, path, show};
use super::output::{note, print};
use super::show::{moment, plain};
use super::submit::read;
use super::table::{Column, table};
use super::values;

/// A command about profiles.
#[derive(Debug, Clone, Subcommand)]
pub enum ProfilesCommand {
    /// List the profiles of your key.
    List(ListArguments),
    /// Show the versions of a profile, and what the newest one holds, without its values.
    Show {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
    },
    /// Make an empty profile.
    Create {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// What it keeps: a state, which every engine takes, or the whole folder of one engine's browser.
        #[arg(long, value_name = "KIND", default_value = "state", value_parser = values::profile_kind())]
        kind: ProfileKind,
    },
    /// Print a profile: a state in the shape of Playwright's storageState, or a packed folder. It holds logins: keep it as a
    /// password.
    Export {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// Write it to this new file, which nobody else may read; standard output otherwise.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// A version's number; the newest otherwise.
        #[arg(long = "of", value_name = "VERSION")]
        version: Option<u64>,
    },
    /// Add a version from a file, a state or a packed folder; a profile that is not there is made.
    Import {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// File with the state or the folder, as an export has it; - or a pipe brings a state.
        file: PathBuf,
    },
    /// Add a version that is as an earlier one was.
    RollBack {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// The version's number.
        version: u64,
    },
    /// Delete a profile for good: no backup brings it back.
    Delete {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
    },
}

/// A profile, and whom to ask for it.
#[derive(Debug, Clone, Args)]
pub struct ProfileReference {
    /// The profile's name.
    name: String,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

impl ProfileReference {
    fn path(&self) -> String {
        path("profiles", &self.name)
    }

    /// Makes a new version, and says so.
    async fn change(&self, body: &Value) -> Result<(), ClientError> {
        told(&Caller::new(&self.service)?.json(Method::PUT, &self.path(), Some(body)).await?);
        Ok(())
    }

    /// Makes a new version of a file.
    async fn import(&self, file: &Path) -> Result<(), ClientError> {
        if !is_packed(file)? {
            return self.change(&json!({"state": read(file)?})).await;
        }
        let path = format!("{}/folder", self.path());
        let reply = Caller::new(&self.service)?.upload(Method::PUT, &path, open(file).await?).await?;
        told(&read_json(reply).await?);
        Ok(())
    }

    /// Writes a version to a file, or prints it.
    async fn export(&self, version: Option<u64>, output: Option<&Path>) -> Result<(), ClientError> {
        let caller = Caller::new(&self.service)?;
        let detail: ProfileDetail = caller.get(&self.path()).await?;
        let is_folder = detail.profile.kind == ProfileKind::Folder;
        if is_folder && output.is_none() && std::io::stdout().is_terminal() {
            let problem = "this profile is a packed folder, which is nothing for a terminal: name a file by --output";
            return Err(ClientError::Usage(problem.to_owned()));
        }
        let query = version.map(|version| format!("?version={version}")).unwrap_or_default();
        let reply = caller.open(&format!("{}/{}{query}", self.path(), detail.profile.kind.as_str())).await?;
        if let Some(output) = output {
            let shown = output.display();
            let unwritten = |error| ClientError::Usage(format!("cannot write {shown}, so name a new file: {error}"));
            let mut file = create_private(output).map_err(unwritten)?;
            save(reply, &mut file).await
        } else if is_folder {
            save(reply, &mut std::io::stdout().lock()).await
        } else {
            print(&read_json(reply).await?);
            Ok(())
        }
    }
}

/// What the files of packed folders begin with: zstd's mark.
const PACKED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file holds a packed folder. What standard input or a pipe has is a state: it can be read only once.
fn is_packed(path: &Path) -> Result<bool, ClientError> {
    if path == Path::new("-") || !path.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PACKED.len() as u64).read_to_end(&mut beginning));
    read.map_err(|error| ClientError::unread(path, &error))?;
    Ok(beginning == PACKED)
}

/// A new file that its owner alone can read. An earlier export stays as it is: it may be the only one.
fn create_private(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Says which version there is now.
fn told(changed: &ProfileView) {
    let version = changed.versions.first().map_or(0, |version| version.version);
    note(format_args!("profile {} is at version {version}", changed.name));
}

pub(super) async fn carry_out(command: ProfilesCommand) -> Result<(), ClientError> {
    match command {
        ProfilesCommand::List(arguments) => arguments.print("profiles", listed).await,
        ProfilesCommand::Show { profile, json } => {
            show(&Caller::new(&profile.service)?.get(&profile.path()).await?, json, described)
        }
        ProfilesCommand::Create { profile, kind } => {
            let body = json!({"name": profile.name, "kind": kind});
            let made: ProfileView = Caller::new(&profile.service)?.json(Method::POST, "/profiles", Some(&body)).await?;
            note(format_args!("profile {} created", made.name));
            Ok(())
        }
        ProfilesCommand::Export { profile, version, output } => profile.export(version, output.as_deref()).await,
        ProfilesCommand::Import { profile, file } => profile.import(&file).await,
        ProfilesCommand::RollBack { profile, version } => profile.change(&json!({"version": version})).await,
        ProfilesCommand::Delete { profile } => {
            delete(&profile.service, &profile.path(), &format!("profile {}", profile.name)).await
        }
    }
}

fn listed(profiles: &[ProfileView]) -> String {
    let columns = [
        Column::new("PROFILE").cut(),
        Column::new("KIND").optional(3),
        Column::new("VERSION"),
        Column::new("SAVED (UTC)").optional(1),
        Column::new("BYTES").optional(2),
        Column::new("WRITTEN BY").cut(),
    ];
    let cells = |profile: &ProfileView| {
        let newest = profile.versions.first();
        [
            plain(&profile.name),
            profile.engine.map_or_else(
                || profile.kind.as_str().to_owned(),
                |engine| format!("{} of {engine}", profile.kind.as_str()),
            ),
            newest.map(|version| version.version.to_string()).unwrap_or_default(),
            newest.map(|version| moment(version.saved)).unwrap_or_default(),
            newest.map(|version| version.size.to_string()).unwrap_or_default(),
            profile.writer.as_deref().map(plain).unwrap_or_default(),
        ]
    };
    table(columns, profiles.iter().map(cells))
}

fn described(detail: &ProfileDetail) -> String {
    let versions = table(
        [Column::new("VERSION"), Column::new("SAVED (UTC)"), Column::new("BYTES"), Column::new("BY SESSION").cut()],
        detail.profile.versions.iter().map(|version| {
            let session = version.session_id.as_ref().map(ToString::to_string).unwrap_or_default();
            [version.version.to_string(), moment(version.saved), version.size.to_string(), session]
        }),
    );
    let cookies = table(
        [Column::new("COOKIES OF").cut(), Column::new("NUMBER")],
        detail.cookies.iter().map(|count| [plain(&count.domain), count.cookies.to_string()]),
    );
    let origins = table(
        [Column::new("ORIGIN").cut(), Column::new("ENTRIES"), Column::new("DATABASES"), Column::new("BYTES")],
        detail.origins.iter().map(|origin| {
            let entries = origin.local_storage + origin.session_storage;
            [plain(&origin.origin), entries.to_string(), origin.databases.len().to_string(), origin.size.to_string()]
        }),
    );
    [versions, cookies, origins].join("\n")
}
