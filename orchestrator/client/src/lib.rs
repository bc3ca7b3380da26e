//! The commands that ask a running daemon: they speak to it over HTTP, like any client.
//!
//! | module      | what it holds |
//! |-------------|---------------|
//! | `arguments` | the options of a task |
//! | `inputs`    | a fleet's inputs, from a file |
//! | `submit`    | `warmpool run`, `extract` and `fleet` |
//! | `tasks`     | `warmpool tasks` |
//! | `sessions`  | `warmpool sessions` |
//! | `tunnel`    | `warmpool tunnel`: a debugging port on this machine, for tools that know no other |
//! | `list`      | what the lists of tasks and sessions share |
//! | `http`      | requests to the daemon; `events` reads its stream of events |
//! | `show`      | progress and tables, on a terminal |
//! | `output`    | results, as JSON on standard output |
//! | `error`     | why a command fails |
//! | [`exit`]    | the exit codes of all commands |
//!
//! The crate may use `warmpool-api` and `-core`, and knows nothing else of the daemon: a command line of one version can ask
//! a daemon of another.

mod arguments;
mod error;
mod events;
pub mod exit;
mod http;
mod inputs;
mod list;
mod output;
mod sessions;
mod show;
mod submit;
mod tasks;
mod tunnel;

pub use arguments::{ExtractArguments, FleetArguments, RunArguments};
pub use error::ClientError;
pub use sessions::SessionsCommand;
pub use show::columns;
pub use tasks::TasksCommand;
pub use tunnel::TunnelArguments;

use crate::exit::Exit;

/// A command that asks a daemon.
#[derive(Debug, Clone)]
pub enum ClientCommand {
    /// Play a recording.
    Run(RunArguments),
    /// Read a page.
    Extract(ExtractArguments),
    /// Do one of them for many inputs.
    Fleet(FleetArguments),
    /// Look into the history.
    Tasks(TasksCommand),
    /// Look at sessions.
    Sessions(SessionsCommand),
    /// Serve one session as a debugging port.
    Tunnel(TunnelArguments),
}

/// Carries a command out.
/// Errors: every [`ClientError`].
pub async fn carry_out(ask: ClientCommand) -> Result<Exit, ClientError> {
    match ask {
        ClientCommand::Run(arguments) => submit::run(arguments).await,
        ClientCommand::Extract(arguments) => submit::extract(arguments).await,
        ClientCommand::Fleet(arguments) => submit::fleet(arguments).await,
        ClientCommand::Tasks(command) => tasks::carry_out(command).await,
        ClientCommand::Sessions(command) => sessions::carry_out(command).await,
        ClientCommand::Tunnel(arguments) => tunnel::carry_out(arguments).await,
    }
}
