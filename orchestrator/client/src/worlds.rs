//! `warmpool worlds`: scenes for patients on the command line.

mod generate;

use std::collections::BTreeSet;
use std::path::PathBuf;

use ::http::Method;
use clap::{Args, Subcommand};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;
use warmpool_api::integration::{RequestPage, RequestView};
use warmpool_api::world::{Environment, World};
use warmpool_core::address::path_segment;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, broken};
use super::list::{ListArguments, OPTIONS};
use super::output::{for_people, note, print, write};
use super::show::{moment, place, plain};
use super::table::{Column, table};
use super::{open, values};
use crate::exit::Exit;
use generate::GenerateArguments;

/// A command about worlds.
#[derive(Debug, Clone, Subcommand)]
pub enum WorldsCommand {
    /// Ask for a world, and wait until it is made.
    Generate(Box<GenerateArguments>),
    /// List the worlds that were asked for, the latest requests first.
    List {
        /// Only those of this environment.
        #[arg(long, value_name = "ENVIRONMENT", value_parser = values::environment())]
        environment: Option<Environment>,
        /// Only those of this patient, by their id.
        #[arg(long, value_name = "ID")]
        patient_id: Option<String>,
        /// Which page of the log of requests, and how.
        #[command(flatten)]
        list: ListArguments,
    },
    /// Open the viewer of a world in the default browser, or print its address where there is none.
    Open(WorldReference),
    /// Delete a world with its pictures.
    Delete(WorldReference),
}

/// A world, and whom to ask for it.
#[derive(Debug, Clone, Args)]
pub struct WorldReference {
    /// The world's id.
    id: String,
    /// Who asks.
    #[command(flatten)]
    integration: Integration,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

/// An integration's key.
#[derive(Debug, Clone, Args)]
pub(crate) struct Integration {
    /// File that holds an integration key; WARMPOOL_INTEGRATION_KEY holds it otherwise.
    #[arg(long, value_name = "PATH")]
    integration_key_file: Option<PathBuf>,
}

impl Integration {
    /// The integration key, if there is one.
    fn key(&self) -> Result<Option<String>, ClientError> {
        match &self.integration_key_file {
            Some(path) => std::fs::read_to_string(path).map(Some).map_err(|error| ClientError::unread(path, &error)),
            None => Ok(std::env::var("WARMPOOL_INTEGRATION_KEY").ok().filter(|key| !key.trim().is_empty())),
        }
    }

    /// A caller with the integration key, or else with the service key.
    fn caller(&self, service: &Service) -> Result<Caller, ClientError> {
        match self.key()? {
            Some(key) => Caller::of_integration(service, &key),
            None => Caller::new(service),
        }
    }
}

pub(super) async fn carry_out(command: WorldsCommand) -> Result<Exit, ClientError> {
    match command {
        WorldsCommand::Generate(arguments) => return generate::carry_out(*arguments).await,
        WorldsCommand::List { environment, patient_id, list } => {
            let mut query = Serializer::new(String::new());
            query
                .append_pair("status", "2xx")
                .extend_pairs(environment.map(|environment| ("environment_type", environment.as_str())))
                .extend_pairs(patient_id.map(|id| ("patient_id", id)));
            print_worlds(&Caller::new(&list.service)?, &list.path("/v1/requests", query), list.json).await?;
        }
        WorldsCommand::Open(world) => {
            let caller = world.integration.caller(&world.service)?;
            let found: World = caller.get(&path(&world.id)).await?;
            let closed = || ClientError::gone(format!("the viewer of world {} is closed", world.id));
            open::show(&found.viewer_url.ok_or_else(closed)?);
        }
        WorldsCommand::Delete(world) => {
            let caller = world.integration.caller(&world.service)?;
            caller.send(Method::DELETE, &path(&world.id), Default::default(), None).await?;
            note(format_args!("world {} is deleted", world.id));
        }
    }
    Ok(Exit::Success)
}

/// Prints the worlds of a page of the log, each once, with their state now. One that was deleted since has none.
async fn print_worlds(caller: &Caller, path_of_log: &str, json: bool) -> Result<(), ClientError> {
    let log = caller.get::<RequestPage>(path_of_log).await.map_err(|error| error.named(OPTIONS, None))?;
    let mut seen = BTreeSet::new();
    let requests: Vec<RequestView> =
        log.requests.into_iter().filter(|request| seen.insert(request.world_id.clone())).collect();
    let worlds = join_all(requests.iter().map(async |request| {
        let id = request.world_id.as_ref()?;
        match caller.get::<Value>(&path(id.as_str())).await {
            Err(ClientError::Refused { status, .. }) if status == 404 => None,
            answer => Some(answer),
        }
    }));
    let mut rows = Vec::new();
    for (request, answer) in requests.iter().zip(worlds.await) {
        let Some(answer) = answer else { continue };
        let mut world: Map<String, Value> = serde_json::from_value(answer?).map_err(|error| broken(&error))?;
        world.insert("patient_id".to_owned(), json!(request.patient_id));
        rows.push(world);
    }
    if !for_people(json) {
        print(&json!({"worlds": rows, "meta": log.meta}));
        return Ok(());
    }
    let columns = [
        Column::new("WORLD"),
        Column::new("MADE (UTC)").optional(2),
        Column::new("STATUS"),
        Column::new("SCENE").optional(1),
        Column::new("PATIENT").cut(),
        Column::new("ERROR").cut(),
    ];
    let text = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let cells = |world: &Map<String, Value>| {
        let status = match world["status"].as_str() {
            Some("rendering") => format!("{:.0} %", world["progress"].as_f64().unwrap_or_default() * 100.0),
            _ => text(&world["status"]),
        };
        let made = world["created_at"].as_u64().map(moment).unwrap_or_default();
        let error = text(&world["error"]["message"]);
        [text(&world["world_id"]), made, status, text(&world["environment_type"]), text(&world["patient_id"]), error]
    };
    write(&format!("{}\n{}", table(columns, rows.iter().map(cells)), place(log.meta, "request")));
    Ok(())
}

fn path(id: &str) -> String {
    format!("/v1/worlds/{}", path_segment(id))
}
