//! The command line.

#[path = "main/integration_key.rs"]
mod integration_key;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use warmpool::client::{self, Ask, TasksCommand};
use warmpool::control::{self, ControlReply, ControlRequest};
use warmpool::doctor::{self, Facts, Style};
use warmpool::{
    Config, Docker, EXIT_USAGE, End, Flags, IntegrationKeys, KeyRecord, KeyState, Keys, Listener, QuietFlags, Shutdown,
    Store, StoreOptions, Tls, telemetry,
};

/// Browsers kept warm in containers, a fresh one for each client.
#[derive(Parser)]
#[command(version, about)]
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
    /// Make, list, rotate and revoke API keys; works while the daemon runs and while it does not.
    Key {
        #[command(subcommand)]
        command: KeyCommand,
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
    /// Make, list, rotate and revoke the keys of integrations, which ask for worlds; works while the daemon runs and while
    /// it does not.
    IntegrationKey {
        #[command(subcommand)]
        command: integration_key::Command,
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
    /// Say what is wrong with this host, and what to do about it.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
    /// Exit 0 if a daemon on this data directory runs and answers, for the health checks of service managers.
    Health {
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
    /// Play a recording of Chrome DevTools' Recorder on a daemon; exits 0, 1 when it failed, 2 when it was cancelled.
    Run(Box<client::SubmitArguments>),
    /// Read a page by a schema; exits as run does.
    Extract(Box<client::SubmitArguments>),
    /// Do a run or an extract for many inputs; exits as run does.
    Fleet(Box<client::SubmitArguments>),
    /// List, show, cancel and retry tasks.
    #[command(subcommand)]
    Tasks(TasksCommand),
    /// Write everything the daemon remembers, and the files of tasks, into a file; works while the daemon runs and
    /// while it does not.
    Backup {
        /// The file to write.
        file: PathBuf,
        /// With the recordings of sessions, which may be large.
        #[arg(long)]
        recordings: bool,
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
    /// Replace what the daemon remembers, and the files that the backup holds; the daemon must not run. What was there
    /// is kept beside it under names with `.replaced-`.
    Restore {
        /// The file to read.
        file: PathBuf,
        #[command(flatten)]
        flags: Box<QuietFlags>,
    },
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key and show it, this once.
    Create {
        /// What to call it.
        name: String,
    },
    /// List all keys.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a key a new secret and show it, this once.
    Rotate {
        /// The key's id or name, from the list.
        id: String,
        /// How long the old secret still works, as in 10m.
        #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
        keep_old_for: Duration,
    },
    /// Make a key useless and end its sessions.
    Revoke {
        /// The key's id or name, from the list.
        id: String,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let flags = match &cli.command {
        Command::Serve { flags, .. } => flags,
        Command::Run(order) => return ask(Ask::Run(client::SubmitArguments::clone(order))),
        Command::Extract(order) => return ask(Ask::Extract(client::SubmitArguments::clone(order))),
        Command::Fleet(order) => return ask(Ask::Fleet(client::SubmitArguments::clone(order))),
        Command::Tasks(command) => return ask(Ask::Tasks(command.clone())),
        Command::Key { flags, .. }
        | Command::IntegrationKey { flags, .. }
        | Command::Doctor { flags, .. }
        | Command::Health { flags }
        | Command::Backup { flags, .. }
        | Command::Restore { flags, .. } => &flags.0,
    };
    let config = match Config::load(flags) {
        Ok(config) => Arc::new(config),
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match run(cli.command, config) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("warmpool: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, config: Arc<Config>) -> anyhow::Result<ExitCode> {
    if let Command::Serve { print_config: true, .. } = command {
        print!("{}", config.effective());
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Serve { .. } => serve(config).await,
            Command::Key { command, .. } => key(command, &config).await,
            Command::IntegrationKey { command, .. } => integration_key::carry_out(command, &config).await,
            Command::Doctor { json, .. } => doctor(json, config).await,
            Command::Health { .. } => health(&config).await,
            Command::Backup { file, recordings, .. } => backup(file, recordings, &config).await,
            Command::Restore { file, .. } => restore(&file, &config),
            // These speak to a daemon and need no configuration, see `main`.
            Command::Run(_) | Command::Extract(_) | Command::Fleet(_) | Command::Tasks(_) => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Asks a daemon, over HTTP.
fn ask(ask: Ask) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("warmpool: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exit = runtime.block_on(client::carry_out(ask)).unwrap_or_else(|error| {
        eprintln!("warmpool: {error}");
        error.exit()
    });
    ExitCode::from(exit as u8)
}

async fn serve(config: Arc<Config>) -> anyhow::Result<ExitCode> {
    telemetry::start_log(&config)?;
    raise_open_files();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let metrics = telemetry::start_metrics()?;
    let tls = match (&config.server.tls_cert, &config.server.tls_key) {
        (Some(cert), Some(key)) => Some(Arc::new(Tls::load(cert, key)?)),
        _ => None,
    };
    let socket = TcpListener::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}: set server.listen to a free address", config.server.listen))?;
    let listener = Listener { socket, tls };
    // Programs that start the daemon on port 0 read this line.
    println!("listening on {}://{}", listener.scheme(), listener.socket.local_addr()?);
    io::stdout().flush()?;
    let shutdown = Shutdown::default();
    tokio::spawn(follow_signals(shutdown.clone())?);
    match warmpool::run(config, listener, metrics, shutdown).await? {
        End::Drained => Ok(ExitCode::SUCCESS),
        End::SessionsKept => std::process::exit(0),
    }
}

/// The first SIGTERM or SIGINT drains, the second ends.
fn follow_signals(shutdown: Shutdown) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        for token in [shutdown.drain, shutdown.force] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    })
}

/// Each session takes a few descriptors; the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Has an order carried out by the daemon, or by ourselves where none runs.
async fn order(order: ControlRequest, config: &Config) -> anyhow::Result<ControlReply> {
    let data_dir = &config.store.data_dir;
    let sent = control::send(data_dir, &order).await.context("talking to the running daemon")?;
    if let Some(answer) = sent {
        return Ok(answer);
    }
    let opened = Store::open(data_dir, StoreOptions::default())?;
    let keys = Keys::load(opened.store.clone()).await?;
    let integrations = IntegrationKeys::load(opened.store.clone()).await?;
    let answer = control::carry_out(order, &keys, &integrations, &opened.store).await;
    opened.store.close().await?;
    Ok(answer)
}

/// Whether the daemon answers: at its socket, which needs neither its address nor a certificate.
async fn health(config: &Config) -> anyhow::Result<ExitCode> {
    match control::send(&config.store.data_dir, &ControlRequest::ListKeys).await? {
        Some(_) => Ok(ExitCode::SUCCESS),
        None => bail!("no daemon runs on {}", config.store.data_dir.display()),
    }
}

async fn key(command: KeyCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let mut as_json = false;
    let wish = match command {
        KeyCommand::Create { name } => ControlRequest::CreateKey { name },
        KeyCommand::List { json } => {
            as_json = json;
            ControlRequest::ListKeys
        }
        KeyCommand::Rotate { id, keep_old_for } => {
            ControlRequest::RotateKey { id, keep_old_for: keep_old_for.as_secs() }
        }
        KeyCommand::Revoke { id } => ControlRequest::RevokeKey { id },
    };
    match order(wish, config).await? {
        ControlReply::Secret { id, name, secret } => {
            eprintln!("key {id} ({name}); this is the only time its secret is shown:");
            println!("{secret}");
        }
        ControlReply::Keys(keys) if as_json => {
            let shown: Vec<_> = keys.iter().map(summary).collect();
            println!("{}", serde_json::to_string_pretty(&shown)?);
        }
        ControlReply::Keys(keys) => {
            println!("{:<14} {:<8} {:<21} {:<21} NAME", "ID", "STATE", "CREATED", "LAST USED");
            for key in keys {
                let used = key.last_used_ms.map_or_else(|| "never".to_owned(), date);
                println!("{:<14} {:<8} {:<21} {:<21} {}", key.id, state(&key), date(key.created_ms), used, key.name);
            }
        }
        ControlReply::Revoked(key) => eprintln!("key {} ({}) is revoked; its sessions end", key.id, key.name),
        ControlReply::Refused(why) => bail!(why),
        _ => bail!("the daemon answered something else"),
    }
    Ok(ExitCode::SUCCESS)
}

/// A key without its hash, which is nobody's business.
fn summary(key: &KeyRecord) -> serde_json::Value {
    serde_json::json!({
        "id": key.id,
        "name": key.name,
        "state": state(key),
        "created": key.created_ms,
        "last_used": key.last_used_ms,
    })
}

const fn state(key: &KeyRecord) -> &'static str {
    match key.state {
        KeyState::Active => "active",
        KeyState::Revoked { .. } => "revoked",
    }
}

fn date(unix_ms: u64) -> String {
    let time = std::time::UNIX_EPOCH + Duration::from_millis(unix_ms);
    humantime::format_rfc3339_seconds(time).to_string()
}

async fn doctor(json: bool, config: Arc<Config>) -> anyhow::Result<ExitCode> {
    let engine = Docker::new(Arc::clone(&config), String::new()).facts().await.map_err(|error| error.to_string());
    let facts = tokio::task::spawn_blocking(move || Facts::gather(&config, engine)).await?;
    let findings = doctor::check(&facts);
    let style = if json { Style::Json } else { Style::Text { colour: io::stdout().is_terminal() } };
    doctor::report(&findings, style, &mut io::stdout().lock())?;
    Ok(if doctor::healthy(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn backup(file: PathBuf, recordings: bool, config: &Config) -> anyhow::Result<ExitCode> {
    let file = std::path::absolute(file)?;
    match order(ControlRequest::Backup { file: file.clone(), recordings }, config).await? {
        ControlReply::BackedUp { rows, files, bytes } => {
            eprintln!("{rows} rows and {files} files written to {}, {bytes} bytes", file.display());
        }
        ControlReply::Refused(why) => bail!(why),
        _ => bail!("the daemon answered something else"),
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(file: &std::path::Path, config: &Config) -> anyhow::Result<ExitCode> {
    let restored = warmpool::restore(&config.store.data_dir, file, &control::FOLDERS)?;
    eprintln!("{} rows and {} files restored from {}", restored.lines, restored.files, file.display());
    Ok(ExitCode::SUCCESS)
}
