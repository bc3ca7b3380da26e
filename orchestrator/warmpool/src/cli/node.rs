//! `warmpool node`: the nodes of the running daemon's swarm.

use anyhow::bail;
use clap::{Args, Subcommand};

use super::any_key::ListArguments;
use crate::control::{self, ControlReply, ControlRequest};
use warmpool_client::exit::Exit;
use warmpool_client::{Column, note};
use warmpool_config::Config;
use warmpool_runtime::NodeUse;
use warmpool_workers::pool::NodeStatus;

#[derive(Subcommand)]
pub(super) enum Command {
    /// List all nodes.
    List(ListArguments),
    /// Take a node out of use gently: it gets no new workers, its sessions go on until they end, and on a Swarm it is then drained.
    Drain {
        #[command(flatten)]
        node: NodeArgument,
        /// Use it again, as `undrain` does.
        #[arg(long)]
        undo: bool,
    },
    /// Use a node again, whoever drained it.
    Undrain(NodeArgument),
}

/// Names one node.
#[derive(Args)]
pub(super) struct NodeArgument {
    /// The node's name or id, from the list.
    #[arg(value_name = "NAME")]
    node: String,
}

pub(super) async fn carry_out(command: Command, config: &Config) -> anyhow::Result<Exit> {
    let (request, list) = match command {
        Command::List(arguments) => (ControlRequest::ListNodes, Some(arguments)),
        Command::Drain { node, undo } => (ControlRequest::DrainNode { node: node.node, undo }, None),
        Command::Undrain(node) => (ControlRequest::DrainNode { node: node.node, undo: true }, None),
    };
    let data_dir = control::store_directory(config).await?;
    match (control::ask_daemon(&request, &data_dir).await?, list) {
        (ControlReply::Nodes(nodes), Some(list)) => {
            let columns = [
                Column::new("NAME"),
                Column::new("STATE"),
                Column::new("USE"),
                Column::new("WARM").right().optional(1),
                Column::new("SESSIONS").right().optional(2),
                Column::new("ID").optional(3),
                Column::new("NOTE").cut(),
            ];
            list.print(&nodes, columns, cells, summary)?;
        }
        (ControlReply::Node(node), _) => note(format_args!("node {} {}", node.name, outcome(&node))),
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

fn outcome(node: &NodeStatus) -> String {
    match node.availability {
        NodeUse::Active => "is used again".to_owned(),
        NodeUse::Paused => "is still paused, by somebody else".to_owned(),
        NodeUse::Drained => "is drained".to_owned(),
        NodeUse::Draining if node.leased == 0 => "gets no more workers, and has no session".to_owned(),
        NodeUse::Draining => format!("gets no more workers; {} sessions go on there until they end", node.leased),
    }
}

fn cells(node: &NodeStatus) -> [String; 7] {
    let (state, availability) = (node.state.as_str().to_owned(), node.availability.as_str().to_owned());
    let note = node.left_out.clone().unwrap_or_default();
    [node.name.clone(), state, availability, node.ready.to_string(), node.leased.to_string(), node.id.clone(), note]
}

fn summary(node: &NodeStatus) -> serde_json::Value {
    serde_json::json!(node)
}
