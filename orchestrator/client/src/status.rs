//! `warmpool status`: how a daemon is.

use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;
use warmpool_api::status::{KindStatus, Status};

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, broken};
use super::output::tell;
use super::show::plain;
use super::table::{Column, table};
use crate::exit::Exit;

/// Whom to ask for its state, and how to tell it.
#[derive(Debug, Clone, Args)]
pub struct StatusArguments {
    /// Print JSON on a terminal, too.
    #[arg(long)]
    pub json: bool,
    /// Whom to ask; it may want no key.
    #[command(flatten)]
    pub service: Service,
}

pub(super) async fn carry_out(arguments: StatusArguments) -> Result<Exit, ClientError> {
    let caller = Caller::of_anybody(&arguments.service)?;
    let answer: Value = caller.get("/status").await?;
    let status = Status::deserialize(&answer).map_err(|error| broken(&error))?;
    tell(&answer, arguments.json, || text(&caller.address(""), &status));
    Ok(if status.value.ready { Exit::Success } else { Exit::Unavailable })
}

/// A daemon's state in a few lines.
fn text(address: &str, status: &Status) -> String {
    let (sessions, queue, tasks, worlds) = (&status.sessions, &status.queue, &status.tasks, &status.worlds);
    let message = plain(&status.value.message);
    let state = if status.value.ready { message } else { format!("not ready: {message}") };
    let mut lines = vec![
        format!("{address}: {state} (Warmpool {})", plain(&status.version)),
        format!("sessions  {} of {}, {} waiting", sessions.live, sessions.max, queue.waiting),
        format!("tasks     {} running, {} queued, {} in the history", tasks.running, tasks.queued, tasks.kept),
    ];
    if worlds.renderer_installed {
        lines.push(format!("worlds    {} rendering, {} queued", worlds.rendering, worlds.queued));
    }
    if status.nodes.total > 0 {
        let nodes = &status.nodes;
        lines.push(format!("nodes     {}, {} lost, {} drained", nodes.total, nodes.lost, nodes.drained));
    }
    let mut problems: Vec<&str> = Vec::new();
    if !status.runtime.reachable {
        problems.push("the container runtime does not answer");
    }
    problems.extend(status.store.warning.as_deref());
    problems.extend(status.store.recovered.as_deref());
    problems.extend(status.worlds.warning.as_deref());
    lines.extend(problems.into_iter().map(|problem| format!("warning   {}", plain(problem))));
    let columns = [
        Column::new("BROWSER"),
        Column::new("READY").right(),
        Column::new("WANTED").right(),
        Column::new("IN USE").right(),
        Column::new("STARTING").right().optional(1),
        Column::new("NOTE").cut(),
    ];
    lines.push(String::new());
    lines.push(table(columns, status.pool.iter().map(cells)));
    lines.join("\n")
}

fn cells(kind: &KindStatus) -> [String; 6] {
    let (counts, preset) = (&kind.counts, kind.preset.as_ref().map(|preset| format!(", {}", plain(preset))));
    let note = match (&kind.image_build, kind.installed) {
        (Some(build), _) => format!("its image is being built: {}", plain(build)),
        (None, false) => format!("not installed: ./scripts/images --engine {}, or docker load", kind.engine),
        (None, true) => kind.last_error.as_deref().map(plain).unwrap_or_default(),
    };
    [
        format!("{} {}{}", kind.engine, kind.mode.as_str(), preset.unwrap_or_default()),
        counts.ready.to_string(),
        counts.target.to_string(),
        counts.leased.to_string(),
        counts.starting.to_string(),
        note,
    ]
}
