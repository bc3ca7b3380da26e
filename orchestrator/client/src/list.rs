//! What the lists of sessions and of tasks share.

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::arguments::Service;
use super::error::ClientError;
use super::http::Caller;
use super::naming::SetBy;
use super::output::{for_people, print, write};

/// The options of every list.
pub(super) const OPTIONS: &[SetBy] = &[("page", "--page"), ("limit", "--limit")];

/// Which page of a list to print, and how.
#[derive(Debug, Clone, Args)]
pub struct ListArguments {
    /// Page of the list, from 1.
    #[arg(long, default_value_t = 1)]
    page: u64,
    /// How many stand on a page, 1 to 100.
    #[arg(long, default_value_t = 10)]
    limit: u64,
    /// Print JSON on a terminal, too.
    #[arg(long)]
    pub(super) json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub(super) service: Service,
}

impl ListArguments {
    /// Asks for the list at `path` and prints it: on a terminal as `table` draws it, otherwise as JSON. `options` set the
    /// query.
    pub(super) async fn print<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Serializer<'_, String>,
        options: &[SetBy],
        table: fn(&T) -> String,
    ) -> Result<(), ClientError> {
        let named = |error: ClientError| error.named(options, None).named(OPTIONS, None);
        let (caller, path) = (Caller::new(&self.service)?, self.path(path, query));
        if for_people(self.json) {
            write(&table(&caller.get(&path).await.map_err(named)?));
        } else {
            print(&caller.get::<Value>(&path).await.map_err(named)?);
        }
        Ok(())
    }

    /// The path of this page of the list at `path`.
    pub(super) fn path(&self, path: &str, mut query: Serializer<'_, String>) -> String {
        query.append_pair("page", &self.page.to_string()).append_pair("limit", &self.limit.to_string());
        format!("{path}?{}", query.finish())
    }
}
