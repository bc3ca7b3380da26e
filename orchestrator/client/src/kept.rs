//! What the commands share that are about things which the daemon keeps: profiles, extensions and tasks.

use std::path::Path;

use ::http::Method;
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use warmpool_core::address::path_segment;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, broken};
use super::output::{note, tell};

/// How a list is printed, and whom to ask for it.
#[derive(Debug, Clone, Args)]
pub struct ListArguments {
    /// Print JSON on a terminal, too.
    #[arg(long)]
    json: bool,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

impl ListArguments {
    /// Prints the list of this name, which is also its path and its member in the answer.
    pub(super) async fn print<T: DeserializeOwned>(
        &self,
        name: &str,
        text: impl FnOnce(&[T]) -> String,
    ) -> Result<(), ClientError> {
        let answer: Value = Caller::new(&self.service)?.get(&format!("/{name}")).await?;
        let listed: Vec<T> = serde_json::from_value(answer[name].clone()).map_err(|error| broken(&error))?;
        tell(&answer, self.json, || text(&listed));
        Ok(())
    }
}

/// The path of one of a list.
pub(super) fn path(list: &str, name: &str) -> String {
    format!("/{list}/{}", path_segment(name))
}

/// Prints what an answer has: on a terminal as `text` tells it.
pub(super) fn show<T: DeserializeOwned>(
    answer: &Value,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> Result<(), ClientError> {
    let shown: T = serde_json::from_value(answer.clone()).map_err(|error| broken(&error))?;
    tell(answer, json, || text(&shown));
    Ok(())
}

/// Deletes what is at a path; `what` names it for people.
pub(super) async fn delete(service: &Service, path: &str, what: &str) -> Result<(), ClientError> {
    Caller::new(service)?.send(Method::DELETE, path, Default::default(), None).await?;
    note(format_args!("{what} is deleted"));
    Ok(())
}

/// Opens a file that is to be sent.
pub(super) async fn open(path: &Path) -> Result<tokio::fs::File, ClientError> {
    tokio::fs::File::open(path).await.map_err(|error| ClientError::unread(path, &error))
}
