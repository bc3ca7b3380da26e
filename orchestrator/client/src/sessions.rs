//! `warmpool sessions`: the sessions of a key on the command line.

mod create;

use ::http::Method;
use clap::{Args, Subcommand};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::time::Duration;
use url::form_urlencoded::Serializer;
use warmpool_api::session::{SessionDetail, SessionPage, SessionView, Status};
use warmpool_core::address::path_segment;
use warmpool_core::browser::Engine;
use warmpool_core::metadata::Label;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, broken};
use super::list::ListArguments;
use super::naming::SetBy;
use super::output::{for_people, note, print, tell, write};
use super::{open, show, values};
use crate::exit::Exit;
use create::CreateArguments;

/// A command about sessions.
#[derive(Debug, Clone, Subcommand)]
pub enum SessionsCommand {
    /// Take a session, and print the URLs that open it.
    Create(Box<CreateArguments>),
    /// Open the live view of a session in the default browser, or print its address where there is none.
    Watch {
        /// The session's id; the newest that runs where it is left out.
        id: Option<String>,
        /// Take the session over by mouse and keyboard.
        #[arg(long)]
        act: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Make a link by which somebody else may watch a session.
    Share {
        /// The session's id.
        id: String,
        /// Let them take the session over as well.
        #[arg(long)]
        act: bool,
        /// How long the link works, such as 10m; as long as the session otherwise.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        ttl: Option<Duration>,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
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
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
}

/// Which sessions to list.
#[derive(Debug, Clone, Args)]
pub struct SessionFilter {
    /// Only those of this status; may be repeated.
    #[arg(long = "status", value_name = "STATUS", value_parser = values::session_status())]
    pub statuses: Vec<Status>,
    /// Only those on this engine; may be repeated.
    #[arg(long = "browser-type", value_name = "ENGINE", value_parser = values::engine())]
    pub engines: Vec<Engine>,
    /// Only those of this end user.
    #[arg(long, value_name = "TEXT")]
    pub service_passcode: Option<String>,
    /// Only those of this app, or that their clients gave this name.
    #[arg(long, value_name = "TEXT")]
    pub app_name: Option<String>,
    /// Only those that connections find by this name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only those with this label; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::label)]
    pub metadata: Vec<Label>,
}

/// The options of [`SessionFilter`].
const OPTIONS: &[SetBy] = &[
    ("status", "--status"),
    ("browser_type", "--browser-type"),
    ("service_passcode", "--service-passcode"),
    ("app_name", "--app-name"),
    ("name", "--name"),
    ("metadata", "--metadata"),
];

impl SessionFilter {
    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        query
            .extend_pairs(self.statuses.iter().map(|status| ("status", status.as_str())))
            .extend_pairs(self.engines.iter().map(|engine| ("browser_type", engine.as_str())))
            .extend_pairs(self.service_passcode.iter().map(|passcode| ("service_passcode", passcode)))
            .extend_pairs(self.app_name.iter().map(|app| ("app_name", app)))
            .extend_pairs(self.name.iter().map(|name| ("name", name)))
            .extend_pairs(self.metadata.iter().map(|label| ("metadata[]", label.to_string())));
        query
    }
}

pub(super) async fn carry_out(command: SessionsCommand) -> Result<Exit, ClientError> {
    match command {
        SessionsCommand::Create(arguments) => create::carry_out(*arguments).await?,
        SessionsCommand::Watch { id, act, service } => {
            let caller = Caller::new(&service)?;
            let id = match id {
                Some(id) => id,
                None => newest(&caller).await?,
            };
            watch(&caller, &id, act).await?;
        }
        SessionsCommand::Share { id, act, ttl, json, service } => {
            let body = json!({"enable_actions": act, "ttl": ttl.map(|ttl| ttl.as_secs())});
            let link = Caller::new(&service)?.json::<Value>(Method::POST, &path(&id, "/share"), Some(&body)).await;
            let link = link.map_err(|error| error.named(&[("ttl", "--ttl"), ("enable_actions", "--act")], None))?;
            let url = link["url"].as_str().unwrap_or_default().to_owned();
            tell(&link, json, || url);
        }
        SessionsCommand::List { filter, list } => {
            list.print("/sessions", filter.query(), OPTIONS, show::sessions).await?
        }
        SessionsCommand::Show { id, service } => print(&Caller::new(&service)?.get::<Value>(&path(&id, "")).await?),
        SessionsCommand::End { ids, json, service } => {
            let caller = Caller::new(&service)?;
            let mut all = Ok(());
            for id in ids {
                // The others are to end, whatever is wrong with this one.
                if let Err(error) = end(&caller, &id, json).await {
                    match all {
                        Ok(()) => all = Err(error),
                        Err(_) => note(format_args!("warmpool: {error}")),
                    }
                }
            }
            all?;
        }
    }
    Ok(Exit::Success)
}

/// The session that runs and was made last.
async fn newest(caller: &Caller) -> Result<String, ClientError> {
    let page: SessionPage = caller.get("/sessions?status=running&limit=1").await?;
    let newest = page.sessions.into_iter().next().map(|session| session.session_id.to_string());
    newest.ok_or_else(|| ClientError::gone("no session runs: take one by `warmpool sessions create`".to_owned()))
}

/// Ends a session, and tells what it came to.
async fn end(caller: &Caller, id: &str, json: bool) -> Result<(), ClientError> {
    let ended: Value = caller.json(Method::DELETE, &path(id, ""), None).await?;
    if for_people(json) {
        write(&show::ended(&SessionView::deserialize(&ended).map_err(|error| broken(&error))?));
    } else {
        print(&ended);
    }
    Ok(())
}

/// Shows the live view of a session.
async fn watch(caller: &Caller, id: &str, act: bool) -> Result<(), ClientError> {
    let session: SessionDetail = caller.get(&path(id, "")).await?;
    let Some(url) = session.livestream_url else {
        let status = session.session.status.as_str();
        return Err(ClientError::gone(format!("session {id} has no live view any more: it has ended as {status}")));
    };
    open::show(&if act { format!("{url}&enable_actions=true") } else { url });
    Ok(())
}

fn path(id: &str, rest: &str) -> String {
    format!("/sessions/{}{rest}", path_segment(id))
}
