//! What `scripts/package` makes, started as operators start it: the image by a compose file, the Debian package by systemd.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use warmpool_tests::{Api, Docker, Group, Session, Stage, daemon, docker, eventually, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [
        a_newer_container_takes_the_sessions_over,
        the_debian_package_runs_under_systemd,
    ])
}

/// Settings of the packed daemon: a pool of one browser, on a network of its own.
const POOL: [(&str, &str); 5] = [
    ("WARMPOOL_POOL_CHROMIUM_HEADLESS", "1"),
    ("WARMPOOL_POOL_CHROMIUM_HEADED", "0"),
    ("WARMPOOL_POOL_FIREFOX_HEADED", "0"),
    ("WARMPOOL_POOL_WEBKIT_HEADED", "0"),
    ("WARMPOOL_DOCKER_NETWORK", NETWORK),
];
const NETWORK: &str = "warmpool-packages-test";

/// An image with systemd, as a machine on which somebody installs the package.
const MACHINE: &str = "warmpool-packages-test/machine:latest";
/// The repository that the packed images are named in.
const REPOSITORY: &str = "warmpool-packages-test";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a command to a successful end; returns its standard output.
async fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    Ok(out.trim().to_owned())
}

/// Packs the daemon under test into a folder.
async fn pack(what: &str) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let mut package = Command::new(root().join("scripts/package"));
    package.arg(what).arg(folder.path());
    package.env("WARMPOOL_PACKAGE_BINARY", daemon::binary()).env("WARMPOOL_IMAGE_REPOSITORY", REPOSITORY);
    run(&mut package).await?;
    Ok(folder)
}

/// The settings as lines of an environment file, with the images of the suite.
fn settings() -> Vec<String> {
    let image = format!("WARMPOOL_WORKER_CHROMIUM_IMAGE={}", docker::image("chromium"));
    POOL.iter().map(|(name, value)| format!("{name}={value}")).chain([image]).collect()
}

/// Where a packed daemon has the id of its instance.
const INSTANCE: &str = "/var/lib/warmpool/instance.json";

/// The workers of a packed daemon, which leaves those that wait. They are removed when this goes.
struct Workers {
    instance: String,
}

impl Workers {
    /// Those of the daemon whose `instance.json` has this text.
    fn of(text: &str) -> Result<Self> {
        Ok(Self { instance: daemon::instance(text)? })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        Docker::default().remove_containers(&self.instance);
    }
}

/// Removes the network of a daemon.
async fn clear() -> Result<()> {
    let docker = Docker::default();
    let network = docker.run(&["network", "ls", "--quiet", "--filter", &format!("name={NETWORK}")]).await?;
    if !network.is_empty() {
        docker.run(&["network", "rm", NETWORK]).await?;
    }
    Ok(())
}

/// `docker compose`, or the command of that name where the plugin is not there.
async fn compose(arguments: &[&str], environment: &[(&str, String)]) -> Result<String> {
    let has_plugin = Docker::default().run(&["compose", "version"]).await.is_ok();
    let mut command = if has_plugin { Command::new("docker") } else { Command::new("docker-compose") };
    if has_plugin {
        command.arg("compose");
    }
    command.envs(environment.iter().map(|(name, value)| (*name, value)));
    run(command.args(["--project-name", "warmpool-packages-test"]).args(arguments)).await
}

async fn a_newer_container_takes_the_sessions_over(_: Stage) -> Result<()> {
    clear().await?;
    let docker = Docker::default();
    let packed = pack("--image").await?;
    let archive = std::fs::read_dir(packed.path())?.flatten().map(|entry| entry.path()).next().context("an archive")?;
    docker.run(&["load", "--input", &archive.to_string_lossy()]).await?;

    // What an operator changes stands in a file of their own beside ours.
    let own = packed.path().join("own.yaml");
    let lines: Vec<String> = settings().iter().map(|line| format!("      - {line}\n")).collect();
    let keep = "      - WARMPOOL_DRAIN_KEEP_SESSIONS=true\n";
    std::fs::write(
        &own,
        format!("version: \"3.8\"\nservices:\n  warmpool:\n    environment:\n{keep}{}", lines.concat()),
    )?;
    let ours = root().join("deploy/compose.yaml").display().to_string();
    let files = ["--file", &ours, "--file", &own.display().to_string()].map(str::to_owned);
    let group = run(Command::new("stat").args(["--format", "%g", "/var/run/docker.sock"])).await?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let environment = [
        ("WARMPOOL_IMAGE", format!("{REPOSITORY}/daemon:latest")),
        ("WARMPOOL_PUBLISH", format!("127.0.0.1:{port}")),
        ("DOCKER_GROUP", group),
    ];
    let call = async |arguments: &[&str]| {
        let all: Vec<&str> = files.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        compose(&all, &environment).await
    };

    call(&["up", "--detach"]).await?;
    let ready = async || {
        let api = Api::new(format!("http://127.0.0.1:{port}"));
        eventually!(
            "the daemon in its container is ready",
            60,
            api.get("/readyz").await.is_ok_and(|it| it.status == 200)
        )
    };
    ready().await?;
    let workers = Workers::of(&call(&["exec", "-T", "warmpool", "cat", INSTANCE]).await?)?;
    let key = call(&["exec", "-T", "warmpool", "cat", "/var/lib/warmpool/first-key"]).await?;
    let api = Api::new(format!("http://127.0.0.1:{port}")).with_key(key);
    let session = Session::create(&api, &json!({"headless": true, "url": "about:blank"})).await?;
    session.evaluate("document.title = 'kept'").await?;

    call(&["up", "--detach", "--force-recreate"]).await?;
    ready().await?;
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    ensure!(session.evaluate("document.title").await? == "kept", "the same page");
    let container = call(&["ps", "--quiet", "warmpool"]).await?;
    eventually!("the health check passes", 60, {
        docker.run(&["inspect", "--format", "{{.State.Health.Status}}", &container]).await? == "healthy"
    })?;
    let user = call(&["exec", "-T", "warmpool", "id", "--user"]).await?;
    ensure!(user != "0", "the daemon is root in its container");

    session.delete().await?.ok()?;
    call(&["down", "--volumes"]).await?;
    drop(workers);
    clear().await?;
    let images = docker.run(&["images", "--quiet", &format!("{REPOSITORY}/daemon")]).await?;
    let images: BTreeSet<&str> = images.lines().collect();
    docker.run(&[&["rmi", "--force"], &images.into_iter().collect::<Vec<_>>()[..]].concat()).await?;
    Ok(())
}

/// A container in which systemd is the first process, with the engine's socket of this machine.
struct Machine {
    container: String,
    /// Those of the daemon in it, which go once it is gone.
    workers: Option<Workers>,
}

impl Machine {
    async fn start(shared: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let base = run(&mut Command::new(root().join("scripts/base"))).await?;
        let packages = "systemd systemd-sysv dbus adduser ca-certificates";
        std::fs::write(
            folder.path().join("Dockerfile"),
            format!("FROM {base}\nRUN apt-get update -q && apt-get install -y -q --no-install-recommends {packages}\n"),
        )?;
        let mut build = Docker::default().command(&["build", "--network", "host", "--tag", MACHINE]);
        for name in ["http_proxy", "https_proxy", "no_proxy"] {
            if let Ok(value) = std::env::var(name) {
                build.arg("--build-arg").arg(format!("{name}={value}"));
            }
        }
        run(build.env("DOCKER_BUILDKIT", "0").arg(folder.path())).await?;
        let data = format!("{}:/var/lib/warmpool", shared.display());
        // systemd mounts and makes control groups; the unit makes a name space of its own.
        let fence = ["--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined"];
        let mounts = ["--tmpfs", "/run:exec", "--tmpfs", "/run/lock", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup"];
        let shared = ["--volume", "/var/run/docker.sock:/engine.sock", "--volume", &data];
        let arguments =
            [&["run", "--detach", "--network", "host"], &fence[..], &mounts, &shared, &[MACHINE, "/sbin/init"]];
        let machine = Self { container: Docker::default().run(&arguments.concat()).await?, workers: None };
        eventually!("systemd is up", 30, {
            let state = machine.run(&["systemctl", "is-system-running"]).await;
            state.is_ok_and(|state| state == "running")
        })?;
        Ok(machine)
    }

    async fn run(&self, command: &[&str]) -> Result<String> {
        let arguments: Vec<&str> = ["exec", &self.container].into_iter().chain(command.iter().copied()).collect();
        Docker::default().run(&arguments).await
    }

    async fn copy(&self, from: &Path, to: &str) -> Result<()> {
        Docker::default().run(&["cp", &from.to_string_lossy(), &format!("{}:{to}", self.container)]).await.map(drop)
    }

    /// Where the service listens, by its own line in the journal.
    async fn address(&self) -> Result<String> {
        eventually!("the service listens and is ready", 60, {
            let journal = self.run(&["journalctl", "--unit", "warmpool", "--output", "cat", "--no-pager"]).await?;
            let address = journal.lines().rev().find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
            match address {
                Some(address) if Api::new(&address).get("/readyz").await.is_ok_and(|it| it.status == 200) => {
                    Some(address)
                }
                _ => None,
            }
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["rm", "--force", "--volumes", &self.container]).output();
        drop(self.workers.take());
    }
}

/// Links of the packed guides lead somewhere, and so do their pictures.
async fn documents_hold_together(package: &Path) -> Result<()> {
    let unpacked = tempfile::tempdir()?;
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(unpacked.path())).await?;
    let folder = unpacked.path().join("usr/share/doc/warmpool");
    let mut pages = vec!["examples/tasks/README.md".to_owned()];
    for place in ["", "guides/"] {
        for entry in std::fs::read_dir(folder.join(place))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                pages.push(format!("{place}{name}"));
            }
        }
    }
    ensure!(pages.len() > 15, "{pages:?}");
    crate::readme::follow_links(&folder, &pages)
}

async fn the_debian_package_runs_under_systemd(_: Stage) -> Result<()> {
    clear().await?;
    let packed = pack("--deb").await?;
    let package = std::fs::read_dir(packed.path())?.flatten().map(|entry| entry.path()).next().context("a package")?;
    let shared = tempfile::tempdir()?;
    let mut machine = Machine::start(shared.path()).await?;
    let group = run(Command::new("stat").args(["--format", "%g", "/var/run/docker.sock"])).await?;
    machine.run(&["groupadd", "--gid", &group, "docker"]).await?;
    // Our folder of settings, as an operator fills it before or after the package is there.
    let own = packed.path().join("default");
    let lines = settings().join("\n");
    std::fs::write(
        &own,
        format!("{lines}\nWARMPOOL_SERVER_LISTEN=127.0.0.1:0\nWARMPOOL_DOCKER_HOST=unix:///engine.sock\n"),
    )?;
    machine.copy(&own, "/etc/default/warmpool").await?;
    machine.copy(&package, "/tmp/warmpool.deb").await?;
    machine.run(&["dpkg", "--install", "/tmp/warmpool.deb"]).await?;

    let address = machine.address().await?;
    machine.workers = Some(Workers::of(&machine.run(&["cat", INSTANCE]).await?)?);
    let key = machine.run(&["cat", "/var/lib/warmpool/first-key"]).await?;
    let session =
        Session::create(&Api::new(&address).with_key(&key), &json!({"headless": true, "url": "about:blank"})).await?;
    session.evaluate("document.title = 'kept'").await?;
    let state =
        machine.run(&["systemctl", "show", "warmpool", "--property", "User,NoNewPrivileges,ProtectSystem"]).await?;
    for line in ["User=warmpool", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        ensure!(state.contains(line), "{line} is missing: {state}");
    }
    // Not on the machine, whose dpkg leaves manuals out.
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(&package)).await?;
    for file in ["man/man1/warmpool.1.gz", "bash-completion/completions/warmpool", "doc/warmpool/copyright"] {
        ensure!(contents.contains(&format!("./usr/share/{file}")), "{file} is missing: {contents}");
    }

    documents_hold_together(&package).await?;

    // The same package once more is an upgrade to dpkg.
    machine.run(&["dpkg", "--install", "/tmp/warmpool.deb"]).await?;
    let address = eventually!("the new daemon listens", 60, {
        let now = machine.address().await?;
        (now != address).then_some(now)
    })?;
    let api = Api::new(&address).with_key(&key);
    let record = api.get(&format!("/sessions/{}", session.id)).await?.ok()?;
    ensure!(record["status"] == "running", "{record}");
    api.delete(&format!("/sessions/{}", session.id)).await?.ok()?;

    machine.run(&["dpkg", "--remove", "warmpool"]).await?;
    ensure!(machine.run(&["systemctl", "is-active", "warmpool"]).await.is_err(), "it runs without its package");
    ensure!(machine.run(&["test", "-e", "/etc/warmpool/warmpool.toml"]).await.is_ok(), "settings outlive a removal");
    machine.run(&["dpkg", "--purge", "warmpool"]).await?;
    ensure!(machine.run(&["test", "-e", "/etc/warmpool/warmpool.toml"]).await.is_err(), "settings outlive a purge");
    drop(machine);
    clear().await
}
