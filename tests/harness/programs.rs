//! Node and Python clients as processes, with their packages installed once from the lock files.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::daemon::Daemon;
use crate::suite::target_dir;

/// After this time, a client counts as hung.
const LIMIT: Duration = Duration::from_secs(180);

/// After this time, a build counts as hung.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// The folder of the realistic client flows.
#[must_use]
pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// The folder of the short examples.
#[must_use]
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples")
}

/// One client program with its environment and arguments.
pub struct Program {
    command: Command,
    name: String,
    limit: Duration,
    // It writes its files here, not into the source tree.
    folder: TempDir,
}

impl Program {
    /// A Node program of a folder with a `package-lock.json`.
    pub async fn node(folder: &Path, file: &str) -> Result<Self> {
        let stamp = folder.join("node_modules/.package-lock.json");
        if older(&stamp, &folder.join("package-lock.json"))? {
            let install = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
            succeed(Command::new("npm").args(install).current_dir(folder)).await.context("npm ci")?;
        }
        Self::new(Command::new("node"), folder, file)
    }

    /// A Python program of a folder with a `requirements.txt`.
    pub async fn python(folder: &Path, file: &str) -> Result<Self> {
        let (venv, wanted) = (folder.join(".venv"), folder.join("requirements.txt"));
        let (python, stamp) = (venv.join("bin/python"), venv.join("installed"));
        if older(&stamp, &wanted)? {
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv)).await.context("python3 -m venv")?;
            let mut install = Command::new(&python);
            install.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&wanted);
            if std::fs::read_to_string(&wanted)?.starts_with("# ignore-requires-python") {
                install.env("PIP_IGNORE_REQUIRES_PYTHON", "1");
            }
            succeed(&mut install).await.context("pip install")?;
            std::fs::write(&stamp, "")?;
        }
        Self::new(Command::new(python), folder, file)
    }

    /// A Rust program of a folder with a `Cargo.lock`.
    pub async fn cargo(folder: &Path, program: &str) -> Result<Self> {
        let target = target_dir().join("examples");
        let mut build = Command::new("cargo");
        build.args(["build", "--locked", "--quiet", "--bin", program]).env("CARGO_TARGET_DIR", &target);
        // Cargo names this package to its tests. A build script that reads such a name, as ring's does, would take it for a
        // change, and all that stands on it would be compiled again.
        let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (variable, _) in std::env::vars().filter(|(name, _)| is_ours(name)) {
            build.env_remove(variable);
        }
        succeed_within(BUILD_LIMIT, build.current_dir(folder)).await.context("cargo build")?;
        Self::binary(&target.join("debug").join(program))
    }

    /// A Node program whose packages are installed already.
    pub fn node_file(path: &Path) -> Result<Self> {
        let mut command = Command::new("node");
        command.arg(path);
        Self::started_by(command, path.display().to_string())
    }

    /// A shell script.
    pub fn shell(folder: &Path, file: &str) -> Result<Self> {
        Self::new(Command::new("sh"), folder, file)
    }

    /// A program that is built already.
    pub fn binary(path: &Path) -> Result<Self> {
        Self::started_by(Command::new(path), path.display().to_string())
    }

    fn new(mut command: Command, folder: &Path, file: &str) -> Result<Self> {
        command.arg(folder.join(file));
        Self::started_by(command, file.to_owned())
    }

    fn started_by(mut command: Command, name: String) -> Result<Self> {
        // A client knows the address and the key, and none of the tests' own settings.
        for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("WARMPOOL_")) {
            command.env_remove(variable);
        }
        let folder = tempfile::tempdir()?;
        command.current_dir(folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        Ok(Self { command, name, limit: LIMIT, folder })
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.command.env(name, value.as_ref());
        self
    }

    /// Starts it in this folder, for tools that read files of their working directory.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, value: impl AsRef<str>) -> Self {
        self.command.arg(value.as_ref());
        self
    }

    /// Lets it take longer than others.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Gives it the daemon's address and key.
    #[must_use]
    pub fn of(self, daemon: &Daemon) -> Self {
        self.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key())
    }

    /// Runs it to a successful end; returns its standard output.
    pub async fn run(mut self) -> Result<String> {
        let run = succeed_within(self.limit, &mut self.command).await.with_context(|| self.name);
        self.folder.close()?;
        run
    }

    /// Runs it to a successful end; returns its last line as JSON.
    pub async fn results(self) -> Result<Value> {
        let name = self.name.clone();
        let out = self.run().await?;
        let line = out.lines().last().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("{name} printed {out:?}"))
    }
}

async fn succeed(command: &mut Command) -> Result<String> {
    succeed_within(LIMIT, command).await
}

async fn succeed_within(limit: Duration, command: &mut Command) -> Result<String> {
    let run = tokio::time::timeout(limit, command.kill_on_drop(true).output());
    let output = run.await.context("took too long")?.with_context(|| format!("{command:?}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}\n{out}{err}", output.status);
    Ok(out.into_owned())
}

/// Whether `made` is older than `source`.
fn older(made: &Path, source: &Path) -> Result<bool> {
    let Ok(source) = source.metadata() else { bail!("{} is missing", source.display()) };
    let Ok(made) = made.metadata() else { return Ok(true) };
    Ok(made.modified()? < source.modified()?)
}
