//! The command line.

mod any_key;
mod integration_key;
mod key;
mod manual;
mod node;
mod serve;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::control::{self, ControlReply, ControlRequest, ControlRequestError, DaemonHealth, Starting};
use crate::doctor::{self, Facts, RuntimeFacts, Style, Subject};
use crate::http;
use crate::telemetry::flush_log;
use warmpool_client::exit::Exit;
use warmpool_client::{ClientCommand, ClientError, note, write_bytes, write_line};
use warmpool_config::{Config, Flags, HiddenFlags};
use warmpool_core::browser::Engine;
use warmpool_store::StoreError;

/// Browsers kept warm in containers, a fresh one for each client.
#[derive(Parser)]
#[command(version, about, after_help = Exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon.
    Serve {
        #[command(flatten)]
        flags: Box<Flags>,
        /// Print the settings that hold and where each comes from, and exit.
        #[arg(long)]
        print_config: bool,
    },
    /// Make, list, rotate, revoke and remove service keys; works while the daemon runs and while it does not.
    Key {
        #[command(subcommand)]
        command: key::Command,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Make, list, rotate and revoke the keys of integrations, which ask for worlds; works while the daemon runs and while
    /// it does not.
    IntegrationKey {
        #[command(subcommand)]
        command: integration_key::Command,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// List the nodes of the running daemon's swarm or cluster, take one out of use, and into use again.
    Node {
        #[command(subcommand)]
        command: node::Command,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Tell the running daemon what the build of an engine's image does; scripts/images calls this.
    #[command(hide = true)]
    ImageBuild {
        /// The engine.
        #[arg(value_parser = warmpool_client::engine_names())]
        engine: Engine,
        /// What the build does now; nothing once it has ended.
        progress: Option<String>,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Say what is wrong with this host, and what to do about it.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Start a worker of each installed engine, at least two, and try from inside to reach what they must not: the cloud's
        /// metadata, this host, Docker, one another.
        #[arg(long, conflicts_with = "nodes")]
        egress: bool,
        /// Start a container on each node of the swarm or cluster, and say what keeps workers from it.
        #[arg(long, alias = "swarm")]
        nodes: bool,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Exit 0 if a daemon on this data directory runs and answers, for the health checks of service managers; or if it is starting,
    /// and prints so: it may have to wait for its workers, or take long to open its store.
    Health {
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    #[command(flatten)]
    Client(ClientCommand),
    /// Write everything the daemon remembers, and the files of tasks, worlds, profiles and extensions, into a file; works
    /// while the daemon runs and while it does not.
    Backup {
        /// The file to write.
        file: PathBuf,
        /// Replace a file that is there.
        #[arg(long)]
        force: bool,
        /// With the recordings of sessions, which may be large.
        #[arg(long)]
        recordings: bool,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Replace what the daemon remembers, and the files that the backup holds; the daemon must not run. What was there
    /// is kept beside it under names with `.replaced-`.
    Restore {
        /// The file to read.
        file: PathBuf,
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Print the description of the HTTP interface in OpenAPI 3.1, as the daemon serves it at `/openapi.json`.
    Openapi {
        #[command(flatten)]
        flags: Box<HiddenFlags>,
    },
    /// Print the completions of a shell, as in: warmpool completions bash > /etc/bash_completion.d/warmpool
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page: `warmpool man | man -l -`; of a command with its name.
    Man {
        /// The command, such as `key create`; none for the page of the whole program.
        command: Vec<String>,
        /// Write the pages of all commands into this directory.
        #[arg(long, value_name = "DIRECTORY", conflicts_with = "command")]
        all: Option<PathBuf>,
    },
}

/// Carries out what the arguments of this process say.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success }.into();
        }
    };
    let ended = run(cli.command);
    // A daemon's last lines come before what is said of its end.
    flush_log();
    let exit = ended.unwrap_or_else(|error| {
        note(format_args!("warmpool: {}", with_causes(&error)));
        exit_of(&error)
    });
    exit.into()
}

/// An error and its causes, each of them once: many errors have their cause in their own text.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The exit code of an error.
fn exit_of(error: &anyhow::Error) -> Exit {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        let of_order = cause.downcast_ref::<ControlRequestError>().map(ControlRequestError::exit);
        let of_client = cause.downcast_ref::<ClientError>().map(ClientError::exit);
        of_order.or(of_client).or_else(|| cause.downcast_ref::<StoreError>().map(of_store))
    };
    error.chain().find_map(of_cause).unwrap_or(Exit::Failure)
}

/// The exit code of a store that a command opens by itself.
const fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Backup { .. } => Exit::Usage,
        _ => Exit::Unavailable,
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        // Over HTTP, as any client.
        Command::Client(command) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(warmpool_client::carry_out(command))?)
        }
        Command::Completions { shell } => {
            // Into memory first: it panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "warmpool", &mut script);
            write_bytes(&script)?;
            Ok(Exit::Success)
        }
        Command::Man { all: Some(folder), .. } => manual::write_all(Cli::command(), &folder),
        Command::Man { command, all: None } => manual::print(Cli::command(), &command),
        Command::Serve { flags, print_config } => with_config(&flags, async |config| {
            if print_config {
                write_bytes(config.effective().as_bytes())?;
                return Ok(Exit::Success);
            }
            serve::serve(config).await
        }),
        Command::Key { command, flags } => with_config(&flags.0, async |config| key::carry_out(command, &config).await),
        Command::IntegrationKey { command, flags } => {
            with_config(&flags.0, async |config| integration_key::carry_out(command, &config).await)
        }
        Command::ImageBuild { engine, progress, flags } => with_config(&flags.0, async |config| {
            let report = ControlRequest::ReportImage { engine, progress };
            control::ask_daemon(&report, &control::store_directory(&config).await?).await?;
            Ok(Exit::Success)
        }),
        Command::Node { command, flags } => {
            with_config(&flags.0, async |config| node::carry_out(command, &config).await)
        }
        Command::Doctor { json, egress, nodes, flags } => {
            let subject = match (egress, nodes) {
                (true, _) => Subject::Egress,
                (_, true) => Subject::Nodes,
                _ => Subject::Host,
            };
            with_config(&flags.0, async |config| doctor(json, subject, config).await)
        }
        Command::Health { flags } => with_config(&flags.0, async |config| {
            if control::check_daemon(&control::store_directory(&config).await?).await? == DaemonHealth::Starting {
                write_line("starting")?;
            }
            Ok(Exit::Success)
        }),
        Command::Openapi { flags } => with_config(&flags.0, async |config| {
            write_line(&http::description(&config)?)?;
            Ok(Exit::Success)
        }),
        Command::Backup { file, force, recordings, flags } => {
            check_backup_target(&file, force)?;
            with_config(&flags.0, async |config| backup(file, recordings, &config).await)
        }
        Command::Restore { file, flags } => with_config(&flags.0, async |config| restore(&file, &config)),
    }
}

/// Runs a command that needs the configuration.
fn with_config(flags: &Flags, work: impl AsyncFnOnce(Arc<Config>) -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    let config = match Config::load(flags) {
        Ok(config) => Arc::new(config),
        Err(errors) => {
            note(&errors);
            return Ok(Exit::Usage);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work(config))
}

/// Has an order carried out by the daemon, or by this process where none runs.
async fn order(order: ControlRequest, config: &Config) -> Result<ControlReply, ControlRequestError> {
    let data_dir = control::store_directory(config).await?;
    control::perform(order, &data_dir, config).await
}

fn date(unix_ms: u64) -> String {
    let time = std::time::UNIX_EPOCH + Duration::from_millis(unix_ms);
    humantime::format_rfc3339_seconds(time).to_string()
}

async fn doctor(json: bool, subject: Subject, config: Arc<Config>) -> anyhow::Result<Exit> {
    let findings = match subject {
        Subject::Egress => doctor::probe_egress(config).await?,
        Subject::Nodes => doctor::probe_nodes(config).await?,
        Subject::Host => {
            let said = RuntimeFacts::ask(&config).await;
            let facts = tokio::task::spawn_blocking(move || Facts::gather(&config, said)).await?;
            doctor::check(&facts)
        }
    };
    let style = if json { Style::Json } else { Style::Text { colour: io::stdout().is_terminal() } };
    let mut report = Vec::new();
    doctor::report(&findings, subject, style, &mut report)?;
    write_bytes(&report)?;
    Ok(if doctor::healthy(&findings) { Exit::Success } else { Exit::Failure })
}

/// Checks that a backup can be written to a file, before the daemon begins one.
fn check_backup_target(file: &Path, force: bool) -> Result<(), ClientError> {
    let shown = file.display();
    let problem = if file.is_dir() {
        "is a directory: name a file in it"
    } else if !force && file.exists() {
        "already exists: name another file, or replace it by --force"
    } else if !std::path::absolute(file).is_ok_and(|file| file.parent().is_some_and(Path::is_dir)) {
        "is in a directory that does not exist"
    } else {
        return Ok(());
    };
    Err(ClientError::Usage(format!("{shown} {problem}")))
}

async fn backup(file: PathBuf, recordings: bool, config: &Config) -> anyhow::Result<Exit> {
    let file = std::path::absolute(file)?;
    match order(ControlRequest::Backup { file: file.clone(), recordings }, config).await? {
        ControlReply::BackedUp { rows, files, bytes } => {
            check_written(&file, bytes)?;
            note(format_args!("{rows} rows and {files} files written to {}, {bytes} bytes", file.display()));
        }
        _ => bail!("the daemon answered something else"),
    }
    Ok(Exit::Success)
}

/// Checks that a backup is where it was wanted: a daemon in a container, or of a service manager, may have a `/tmp` of its own.
/// Errors: [`ClientError::Usage`], with what to do.
fn check_written(file: &Path, bytes: u64) -> Result<(), ClientError> {
    if file.metadata().is_ok_and(|found| found.len() == bytes) {
        return Ok(());
    }
    let problem = "is not there: the daemon has folders of its own, and wrote the backup into one of them. Name a file in its data \
                   directory";
    Err(ClientError::Usage(format!("{} {problem}", file.display())))
}

fn restore(file: &Path, config: &Config) -> anyhow::Result<Exit> {
    std::fs::File::open(file)
        .map_err(|error| ClientError::Usage(format!("cannot read {}: {error}", file.display())))?;
    // Into the directory that the settings mean, whatever daemon runs elsewhere.
    let data_dir = &config.store.data_dir;
    control::check_owner(data_dir)?;
    // It has read a part of what is there, and does not use the store yet.
    if Starting::is_shown(data_dir) {
        return Err(ControlRequestError::Starting(data_dir.clone()).into());
    }
    let restored = warmpool_store::restore(data_dir, file, &control::FOLDERS)?;
    let (rows, files) = (restored.lines, restored.files);
    note(format_args!("{rows} rows and {files} files restored from {} into {}", file.display(), data_dir.display()));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_once() {
        use crate::daemon::StartError;

        let io = || std::io::Error::other("disk on fire");
        let error =
            anyhow::Error::from(StartError::Control(io())).context("the daemon: the control socket: disk on fire");
        let text = with_causes(&error);
        assert_eq!(text.matches("disk on fire").count(), 1, "{text}");
        assert!(format!("{error:#}").matches("disk on fire").count() > 1, "the case is no longer one");
        let text = with_causes(&anyhow::Error::from(io()).context("cannot listen"));
        assert_eq!(text, "cannot listen: disk on fire");
    }

    #[test]
    fn a_backup_that_is_not_where_it_was_wanted_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("backup.tar");
        let told = check_written(&file, 3).unwrap_err().to_string();
        assert!(told.starts_with(&file.display().to_string()) && told.contains("data directory"), "{told}");
        std::fs::write(&file, "old one").unwrap();
        assert!(check_written(&file, 3).is_err(), "another one, which was to be replaced");
        std::fs::write(&file, "new").unwrap();
        check_written(&file, 3).unwrap();
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
