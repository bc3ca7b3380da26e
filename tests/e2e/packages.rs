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

/// The guide's line that writes down, for every call of Compose, which group owns the engine's socket; with the image of this test.
fn group_line() -> Result<String> {
    let guide = std::fs::read_to_string(root().join("orchestrator/docs/operations.md"))?;
    let line = guide.lines().find(|line| line.contains("DOCKER_GROUP=")).context("a line of the guide")?;
    Ok(line.replace("warmpool/daemon", &format!("{REPOSITORY}/daemon")))
}

/// `docker compose`, or the command of that name where the plugin is not there, on the files in `deploy` of this folder.
async fn compose(folder: &Path, arguments: &[&str]) -> Result<String> {
    let has_plugin = Docker::default().run(&["compose", "version"]).await.is_ok();
    let mut command = if has_plugin { Command::new("docker") } else { Command::new("docker-compose") };
    if has_plugin {
        command.arg("compose");
    }
    // What stands in the environment would win over the file.
    for name in ["DOCKER_GROUP", "WARMPOOL_IMAGE", "WARMPOOL_PUBLISH"] {
        command.env_remove(name);
    }
    command.current_dir(folder).args(["--project-name", "warmpool-packages-test"]);
    run(command.args(["--file", "deploy/compose.yaml", "--file", "deploy/own.yaml"]).args(arguments)).await
}

async fn a_newer_container_takes_the_sessions_over(_: Stage) -> Result<()> {
    clear().await?;
    let docker = Docker::default();
    let packed = pack("--image").await?;
    let archive = std::fs::read_dir(packed.path())?.flatten().map(|entry| entry.path()).next().context("an archive")?;
    docker.run(&["load", "--input", &archive.to_string_lossy()]).await?;

    let deploy = packed.path().join("deploy");
    std::fs::create_dir(&deploy)?;
    std::fs::copy(root().join("deploy/compose.yaml"), deploy.join("compose.yaml"))?;
    run(Command::new("sh").args(["-ec", &group_line()?]).current_dir(packed.path())).await?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let group = std::fs::read_to_string(deploy.join(".env"))?;
    std::fs::write(
        deploy.join(".env"),
        format!("{group}WARMPOOL_IMAGE={REPOSITORY}/daemon:latest\nWARMPOOL_PUBLISH=127.0.0.1:{port}\n"),
    )?;
    // What an operator changes stands in a file of their own beside ours.
    let lines: Vec<String> = settings().iter().map(|line| format!("      - {line}\n")).collect();
    let keep = "      - WARMPOOL_DRAIN_KEEP_SESSIONS=true\n";
    std::fs::write(
        deploy.join("own.yaml"),
        format!("version: \"3.8\"\nservices:\n  warmpool:\n    environment:\n{keep}{}", lines.concat()),
    )?;
    let call = async |arguments: &[&str]| compose(packed.path(), arguments).await;

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
    let logs = docker.run(&["inspect", "--format", "{{json .HostConfig.LogConfig}}", &container]).await?;
    ensure!(logs.contains("max-size") && logs.contains("max-file"), "its log may grow for ever: {logs}");
    let user = call(&["exec", "-T", "warmpool", "id", "--user"]).await?;
    ensure!(user != "0", "the daemon is root in its container");

    // The steps of the guide, but for the copy outside.
    let file = "/var/lib/warmpool/backup.tar";
    call(&["exec", "-T", "warmpool", "warmpool", "backup", file]).await?;
    call(&["stop"]).await?;
    let restore = format!("warmpool restore {file} && rm {file}");
    call(&["run", "--rm", "-T", "--entrypoint", "sh", "warmpool", "-c", &restore]).await?;
    call(&["up", "--detach"]).await?;
    ready().await?;
    ensure!(session.status().await? == "running", "{}", session.record().await?);

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
            // Debian's image for containers keeps services from being started.
            format!(
                "FROM {base}\nRUN apt-get update -q && apt-get install -y -q --no-install-recommends {packages} \
                 && rm -f /usr/sbin/policy-rc.d\n"
            ),
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

    /// Installs the package that lies on the machine: to dpkg an upgrade, where it is installed already.
    async fn install(&self) -> Result<()> {
        self.run(&["dpkg", "--install", "/tmp/warmpool.deb"]).await.map(drop)
    }

    /// What systemd says of the service: whether it is enabled, and whether it runs.
    async fn service(&self) -> Result<(String, bool)> {
        let enabled = self.run(&["sh", "-c", "systemctl is-enabled warmpool || true"]).await?;
        Ok((enabled, self.run(&["systemctl", "is-active", "warmpool"]).await.is_ok()))
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
    machine.install().await?;

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
    machine.install().await?;
    let address = eventually!("the new daemon listens", 60, {
        let now = machine.address().await?;
        (now != address).then_some(now)
    })?;
    let api = Api::new(&address).with_key(&key);
    let record = api.get(&format!("/sessions/{}", session.id)).await?.ok()?;
    ensure!(record["status"] == "running", "{record}");
    api.delete(&format!("/sessions/{}", session.id)).await?.ok()?;
    a_backup_is_restored(&machine, &key).await?;

    machine.run(&["dpkg", "--remove", "warmpool"]).await?;
    ensure!(machine.run(&["systemctl", "is-active", "warmpool"]).await.is_err(), "it runs without its package");
    ensure!(machine.run(&["test", "-e", "/etc/warmpool/warmpool.toml"]).await.is_ok(), "settings outlive a removal");
    operators_choices_are_kept(&machine).await?;
    drop(machine);
    clear().await
}

/// The steps of the guide. Where the service cannot see what root means, or could not open what root makes, the commands say so.
async fn a_backup_is_restored(machine: &Machine, key: &str) -> Result<()> {
    let refused = async |command: &[&str], remedy: &str| -> Result<()> {
        let error = machine.run(command).await.err().with_context(|| format!("{command:?} succeeds"))?;
        ensure!(error.to_string().contains(remedy), "{command:?}: {error}");
        Ok(())
    };
    let (data, file) = ("/var/lib/warmpool", "/var/lib/warmpool/kept.tar");
    refused(&["warmpool", "backup", "/tmp/lost.tar"], "data directory").await?;
    machine.run(&["warmpool", "backup", file]).await?;
    machine.run(&["systemctl", "stop", "warmpool"]).await?;
    refused(&["warmpool", "restore", file], "runuser -u warmpool -- ").await?;
    refused(&["warmpool", "key", "rotate", "nobody"], "runuser -u warmpool -- ").await?;
    let as_service = ["runuser", "-u", "warmpool", "--", "warmpool", "restore", "--store-data-dir", data, file];
    machine.run(&as_service).await?;
    machine.run(&["systemctl", "start", "warmpool"]).await?;
    let api = Api::new(machine.address().await?).with_key(key);
    ensure!(api.get("/sessions").await?.status == 200, "the restored daemon does not know its key");
    Ok(())
}

/// A package that was removed comes back as it was, and starts no service that an operator has disabled or masked.
async fn operators_choices_are_kept(machine: &Machine) -> Result<()> {
    let is = async |enabled: &str, runs: bool, when: &str| -> Result<()> {
        let service = machine.service().await?;
        ensure!(service == (enabled.to_owned(), runs), "{when}: {service:?}");
        Ok(())
    };
    machine.install().await?;
    machine.address().await?;
    is("enabled", true, "after a removal and an installation").await?;

    machine.run(&["systemctl", "disable", "--now", "warmpool"]).await?;
    machine.install().await?;
    is("disabled", false, "disabled, and upgraded").await?;
    machine.run(&["dpkg", "--remove", "warmpool"]).await?;
    machine.install().await?;
    is("disabled", false, "disabled, removed and installed").await?;

    machine.run(&["dpkg", "--purge", "warmpool"]).await?;
    ensure!(machine.run(&["test", "-e", "/etc/warmpool/warmpool.toml"]).await.is_err(), "settings outlive a purge");
    machine.run(&["systemctl", "mask", "warmpool"]).await?;
    machine.install().await?;
    is("masked", false, "masked, and installed").await?;
    machine.install().await?;
    is("masked", false, "masked, and upgraded").await?;
    machine.run(&["dpkg", "--purge", "warmpool"]).await.map(drop)
}
