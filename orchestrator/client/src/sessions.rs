//! `warmpool sessions`: the sessions of a key on the command line.

use ::http::Method;
use clap::{Args, Subcommand};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::arguments::Service;
use super::error::ClientError;
use super::http::Caller;
use super::list::ListArguments;
use super::output::print;
use super::show;
use crate::exit::Exit;

/// A command about sessions.
#[derive(Debug, Clone, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, newest first.
    List {
        /// Which ones.
        #[command(flatten)]
        filter: SessionFilter,
        /// Which page of the list.
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show one session, with the URLs that open it while it lives.
    Show {
        /// The session's id.
        id: String,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// End sessions.
    End {
        /// Their ids.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
}

/// Which sessions to list.
#[derive(Debug, Clone, Args)]
pub struct SessionFilter {
    /// Only those of this status, such as running; may be repeated.
    #[arg(long = "status", value_name = "STATUS")]
    pub statuses: Vec<String>,
    /// Only those on this engine: chromium, firefox or webkit; may be repeated.
    #[arg(long = "browser-type", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// Only those of this end user.
    #[arg(long, value_name = "TEXT")]
    pub service_passcode: Option<String>,
}

impl SessionFilter {
    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        query
            .extend_pairs(self.statuses.iter().map(|status| ("status", status)))
            .extend_pairs(self.engines.iter().map(|engine| ("browser_type", engine)))
            .extend_pairs(self.service_passcode.iter().map(|passcode| ("service_passcode", passcode)));
        query
    }
}

pub(super) async fn carry_out(command: SessionsCommand) -> Result<Exit, ClientError> {
    match command {
        SessionsCommand::List { filter, list } => list.print("/sessions", filter.query(), show::sessions).await?,
        SessionsCommand::Show { id, service } => print(&Caller::new(&service)?.get::<Value>(&path(&id)).await?),
        SessionsCommand::End { ids, service } => {
            let caller = Caller::new(&service)?;
            for id in ids {
                print(&caller.json::<Value>(Method::DELETE, &path(&id), None).await?);
            }
        }
    }
    Ok(Exit::Success)
}

fn path(id: &str) -> String {
    format!("/sessions/{}", warmpool_core::address::path_segment(id))
}
