//! `warmpool profiles`: logins that are kept from one session to the next.

use std::path::PathBuf;

use ::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use warmpool_api::profile::{ProfileDetail, ProfileView};
use warmpool_core::address::path_segment;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, broken};
use super::output::{print, tell};
use super::show::{moment, plain};
use super::submit::read;
use super::table::{Column, table};

/// A command about profiles.
#[derive(Debug, Clone, Subcommand)]
pub enum ProfilesCommand {
    /// List the profiles of your key.
    List {
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Show the versions of a profile, and what the newest one holds, without its values.
    Show {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
    },
    /// Print a profile as a state in the shape of Playwright's storageState. It holds logins: keep it as a password.
    Export {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// A version's number; the newest otherwise.
        #[arg(long = "of", value_name = "VERSION")]
        version: Option<u64>,
    },
    /// Add a version with a state from a file; a profile that is not there is made.
    Import {
        /// Which one.
        #[command(flatten)]
        profile: ProfileReference,
        /// File with the state; - reads standard input.
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
        format!("/profiles/{}", path_segment(&self.name))
    }

    /// Makes a new version, and says so.
    async fn change(&self, body: &Value) -> Result<(), ClientError> {
        let changed: ProfileView = Caller::new(&self.service)?.json(Method::PUT, &self.path(), Some(body)).await?;
        let version = changed.versions.first().map_or(0, |version| version.version);
        eprintln!("profile {} is at version {version}", changed.name);
        Ok(())
    }
}

pub(super) async fn carry_out(command: ProfilesCommand) -> Result<(), ClientError> {
    match command {
        ProfilesCommand::List { json, service } => {
            let list: Value = Caller::new(&service)?.get("/profiles").await?;
            let profiles: Vec<ProfileView> =
                serde_json::from_value(list["profiles"].clone()).map_err(|error| broken(&error))?;
            tell(&list, json, || listed(&profiles));
        }
        ProfilesCommand::Show { profile, json } => {
            let shown: Value = Caller::new(&profile.service)?.get(&profile.path()).await?;
            let detail: ProfileDetail = serde_json::from_value(shown.clone()).map_err(|error| broken(&error))?;
            tell(&shown, json, || described(&detail));
        }
        ProfilesCommand::Export { profile, version } => {
            let query = version.map(|version| format!("?version={version}")).unwrap_or_default();
            let state: Value = Caller::new(&profile.service)?.get(&format!("{}/state{query}", profile.path())).await?;
            print(&state);
        }
        ProfilesCommand::Import { profile, file } => profile.change(&json!({"state": read(&file)?})).await?,
        ProfilesCommand::RollBack { profile, version } => profile.change(&json!({"version": version})).await?,
        ProfilesCommand::Delete { profile } => {
            let caller = Caller::new(&profile.service)?;
            caller.send(Method::DELETE, &profile.path(), Default::default(), None).await?;
            eprintln!("profile {} is deleted", profile.name);
        }
    }
    Ok(())
}

fn listed(profiles: &[ProfileView]) -> String {
    let columns = [
        Column::new("PROFILE").cut(),
        Column::new("VERSION"),
        Column::new("SAVED (UTC)").optional(1),
        Column::new("BYTES").optional(2),
        Column::new("WRITTEN BY").cut(),
    ];
    let cells = |profile: &ProfileView| {
        let newest = profile.versions.first();
        [
            plain(&profile.name),
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
