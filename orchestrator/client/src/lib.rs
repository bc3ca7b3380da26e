//! The commands that ask a running daemon: they speak to it over HTTP, like any client.
//!
//! | module      | what it holds |
//! |-------------|---------------|
//! | `arguments` | the options of a task |
//! | `inputs`    | a fleet's inputs, from a file |
//! | `values`    | the values that options take, for their check and for completions |
//! | `submit`    | `warmpool run`, `extract` and `fleet`; `summary` tells what came of them, and `results` fetches what is large |
//! | `tasks`     | `warmpool tasks` |
//! | `profiles`  | `warmpool profiles` |
//! | `extensions` | `warmpool extensions` |
//! | `sessions`  | `warmpool sessions` |
//! | `worlds`    | `warmpool worlds` |
//! | `status`    | `warmpool status` |
//! | `tunnel`    | `warmpool tunnel`: a debugging port on this machine, for tools that know no other |
//! | `mcp`       | `warmpool mcp`: the daemon's MCP endpoint on standard input and output |
//! | `list`      | what the lists of tasks and sessions share |
//! | `kept`      | what the commands share about what a daemon keeps: profiles, extensions and tasks |
//! | `http`      | requests to the daemon; `events` reads its stream of events |
//! | `show`      | progress and lists, on a terminal; `table` lays out what has columns |
//! | `open`      | addresses that people look at, in their browser |
//! | `output`    | results, as JSON on standard output |
//! | `error`     | why a command fails; `naming` names the options that are at fault |
//! | [`exit`]    | the exit codes of all commands |
//!
//! The crate may use `warmpool-api`, by whose types it reads answers, and `warmpool-core`, and knows nothing else of the daemon.
//! What a command prints as JSON is the answer itself, whatever members a daemon of a later release adds.

// They panic where the reader has closed the pipe: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod error;
mod events;
pub mod exit;
mod extensions;
mod http;
mod inputs;
mod kept;
mod list;
mod mcp;
mod naming;
mod open;
mod output;
mod profiles;
mod results;
mod sessions;
mod show;
mod status;
mod submit;
mod summary;
mod table;
mod tasks;
#[cfg(test)]
mod test_daemon;
mod tunnel;
mod values;
mod worlds;

/// The parsers of this crate, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::inputs::fuzzing as inputs;
}

pub use arguments::{ExtractArguments, FleetArguments, RunArguments};
pub use error::ClientError;
pub use extensions::ExtensionsCommand;
pub use mcp::McpArguments;
pub use output::{note, write_bytes, write_line};
pub use profiles::ProfilesCommand;
pub use sessions::SessionsCommand;
pub use status::StatusArguments;
pub use table::{Column, table};
pub use tasks::TasksCommand;
pub use tunnel::TunnelArguments;
pub use values::engine as engine_names;
pub use worlds::WorldsCommand;

use clap::Subcommand;

use crate::exit::Exit;

/// A command that asks a daemon.
#[derive(Debug, Clone, Subcommand)]
pub enum ClientCommand {
    /// Play a recording of Chrome DevTools' Recorder on a daemon.
    #[command(after_help = Exit::HELP)]
    Run(Box<RunArguments>),
    /// Read a page by a schema.
    #[command(after_help = Exit::HELP)]
    Extract(Box<ExtractArguments>),
    /// Do a run or an extract for many inputs.
    #[command(after_help = Exit::HELP)]
    Fleet(Box<FleetArguments>),
    /// List tasks; show, cancel, retry and delete one; print its results, items and artifacts.
    #[command(subcommand)]
    Tasks(TasksCommand),
    /// Take a session; watch, share, list, show and end sessions.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List, show, export, import, roll back and delete profiles, which keep logins from one session to the next.
    #[command(subcommand)]
    Profiles(ProfilesCommand),
    /// Upload, list, show and delete browser extensions, which sessions load.
    #[command(subcommand)]
    Extensions(ExtensionsCommand),
    /// Say how a daemon is: its warm browsers, sessions and tasks. Exits 69 where it would serve no new session now.
    #[command(after_help = Exit::HELP)]
    Status(StatusArguments),
    /// Ask for a world; list, open and delete worlds.
    #[command(subcommand)]
    Worlds(WorldsCommand),
    /// Serve one fresh Chromium as a debugging port on this machine, for tools that know only a host and a port. Ends with
    /// its session.
    #[command(after_help = Exit::HELP)]
    Tunnel(Box<TunnelArguments>),
    /// Serve MCP on standard input and output, for programs that start their servers: a browser with tools for agents.
    #[command(after_help = Exit::HELP)]
    Mcp(Box<McpArguments>),
}

/// Carries a command out.
/// Errors: every [`ClientError`].
pub async fn carry_out(command: ClientCommand) -> Result<Exit, ClientError> {
    match command {
        ClientCommand::Run(arguments) => submit::run(*arguments).await,
        ClientCommand::Extract(arguments) => submit::extract(*arguments).await,
        ClientCommand::Fleet(arguments) => submit::fleet(*arguments).await,
        ClientCommand::Tasks(command) => tasks::carry_out(command).await,
        ClientCommand::Sessions(command) => sessions::carry_out(command).await,
        ClientCommand::Profiles(command) => profiles::carry_out(command).await.map(|()| Exit::Success),
        ClientCommand::Extensions(command) => extensions::carry_out(command).await.map(|()| Exit::Success),
        ClientCommand::Status(arguments) => status::carry_out(arguments).await,
        ClientCommand::Worlds(command) => worlds::carry_out(command).await,
        ClientCommand::Tunnel(arguments) => tunnel::carry_out(*arguments).await,
        ClientCommand::Mcp(arguments) => mcp::carry_out(*arguments).await,
    }
}
