//! The scripts that set a machine up, in trees of their own, with stand-ins for the programs that they call.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;
use warmpool_tests::{Group, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            a_detached_daemon_holds_nothing_of_its_callers,
            a_large_log_is_put_aside_before_a_start,
            a_new_member_of_the_group_has_the_script_go_on,
            a_pushed_image_goes_by_the_digest_of_its_registry,
            an_archive_is_there_or_the_packing_failed,
            behind_a_proxy_up_finds_its_daemon,
            every_step_has_the_rust_that_is_new_enough,
            elsewhere_up_goes_on_with_what_is_there,
            scripts_help_from_any_folder,
            two_trees_fetch_what_they_share_once,
            who_cannot_become_root_is_told_so,
            whoever_has_the_daemon_replaced_hears_whether_one_runs,
        ],
        full: [],
    )
}

/// An engine that has no image and builds whatever it is told to.
const DOCKER: &str = r#"case "$1 $2" in "image inspect") exit 1 ;; esac"#;

const CARGO: &str = "exit 0";

const RUSTC: &str = r#"case $1 in --version) echo "rustc 99.0.0 (stand-in)" ;; *) echo "host: stand-in" ;; esac"#;

/// Lists the descriptors that it was started with, and answers as a daemon that is ready.
const DAEMON: &str = r#"#!/usr/bin/env python3
import ctypes, http.server, os, sys

# The name by which the scripts know a daemon; an interpreter has its own.
ctypes.CDLL(None).prctl(15, b"warmpool", 0, 0, 0)

if "--print-config" in sys.argv:
    print('listen = "127.0.0.1:%s"\ndata_dir = "%s"' % (os.environ["STAND_IN_PORT"], os.environ["WARMPOOL_STORE_DATA_DIR"]))
    sys.exit()
# The list itself is read through one more.
held = [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
with open(os.environ["STAND_IN_HELD"], "w") as file:
    file.write("\n".join(held))

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", int(os.environ["STAND_IN_PORT"])), Ready).serve_forever()
"#;

/// Downloads a file in two steps. In between it gives a second download, if there is one, the time to begin.
const PYTHON: &str = r#"
case "$*" in *"pip --version"*) exit 0 ;; esac
while [ "$1" != --dest ]; do shift; done
mkdir "$2" || exit 1
touch "$2/first" && echo began >> "$STAND_IN_DOWNLOADS"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  if [ "$(wc -l < "$STAND_IN_DOWNLOADS")" -gt 1 ]; then break; fi
  sleep 0.1
done
[ -e "$2/first" ] && touch "$2/second"
"#;

/// An engine that answers once the script was started again for its group, and writes down what it builds.
const GUARDED_DOCKER: &str = r#"case "$1 $2" in
  "version ") [ -n "$SCRIPTS_JOINED" ] ;;
  "image inspect") exit 1 ;;
  "build "*) printf '%s\n' "$@" >> "$STAND_IN_WRITTEN" ;;
esac"#;

/// As the real one, it stays until its command has ended.
const SG: &str = r#"[ "$1 $2" = "docker -c" ] && sh -c "$3"
exit $?"#;

/// A copy of what the scripts read, and a folder of stand-ins that stands first on its path.
struct Tree {
    root: PathBuf,
    programs: PathBuf,
}

impl Tree {
    fn new(parent: &Path, name: &str) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Self { root: parent.join(name), programs: parent.join(name).join("stand-ins") };
        fs::create_dir_all(&tree.programs)?;
        for folder in ["scripts", "worker-image/common", "worker-image/scene"] {
            fs::create_dir_all(tree.root.join(folder))?;
            for entry in fs::read_dir(source.join(folder))? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    fs::copy(entry.path(), tree.root.join(folder).join(entry.file_name()))?;
                }
            }
        }
        for file in ["Cargo.toml", "worker-image/Dockerfile"] {
            fs::copy(source.join(file), tree.root.join(file))?;
        }
        fs::create_dir_all(tree.root.join("worker-image/scene/scene"))?;
        fs::write(tree.root.join("worker-image/scene/scene/__main__.py"), "")?;
        // What is there already is not built.
        for file in ["orchestrator/ads/easylist.txt", "orchestrator/console/dist/live.html"] {
            let file = tree.root.join(file);
            fs::create_dir_all(file.parent().context("a folder")?)?;
            fs::write(file, "")?;
        }
        fs::create_dir_all(tree.root.join("orchestrator/console/src"))?;
        for (name, script) in [("docker", DOCKER), ("cargo", CARGO), ("rustc", RUSTC), ("node", ""), ("npm", "")] {
            program(&tree.programs.join(name), &format!("#!/bin/bash\n{script}\n"))?;
        }
        Ok(tree)
    }

    fn script(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.root.join("scripts").join(name));
        self.prepare(&mut command)?;
        Ok(command)
    }

    /// A script by this name, as a shell in this folder calls it.
    fn called(&self, folder: &Path, name: &str) -> Result<Command> {
        let mut command = Command::new("bash");
        command.args(["-c", r#""$0" "$@""#, name]).current_dir(folder);
        self.prepare(&mut command)?;
        Ok(command)
    }

    fn prepare(&self, command: &mut Command) -> Result<()> {
        let path = std::env::var("PATH").context("PATH")?;
        command.env("PATH", format!("{}:{path}", self.programs.display())).env_remove("CARGO_TARGET_DIR");
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(())
    }

    /// The user is not yet a member of the engine's group, but may become root.
    fn guard_engine(&self) -> Result<()> {
        let user = r#"case $1 in -u) echo 1000 ;; *) echo somebody ;; esac"#;
        for (name, script) in [("docker", GUARDED_DOCKER), ("sg", SG), ("id", user)] {
            program(&self.programs.join(name), &format!("#!/bin/bash\n{script}\n"))?;
        }
        for name in ["apparmor_parser", "dockerd", "faketime", "iptables", "sudo"] {
            program(&self.programs.join(name), "#!/bin/sh\n")?;
        }
        Ok(())
    }
}

fn program(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Starts a stand-in for the daemon with `scripts/up --detach`, from a shell that holds a lock, and ends it. Returns what the
/// daemon held open.
async fn up_and_down(folder: &Path, tree: &Tree, variables: &[(&str, &Path)]) -> Result<String> {
    let (held, lock) = (folder.join("held"), folder.join("lock"));
    program(&tree.root.join("scripts/images"), "#!/bin/bash\n")?;
    fs::create_dir_all(tree.root.join("target/release"))?;
    program(&tree.root.join("target/release/warmpool"), DAEMON)?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();

    let mut shell = Command::new("bash");
    shell.arg("-c").arg(r#"exec 7> "$LOCK" && "$UP" --detach"#).env("LOCK", &lock);
    let up = tree.script("up")?;
    shell.env("UP", up.as_std().get_program());
    for (name, value) in up.as_std().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("STAND_IN_PORT", port.to_string()).env("STAND_IN_HELD", &held);
    shell.env_remove("WARMPOOL_CONFIG").env("WARMPOOL_STORE_DATA_DIR", folder.join("data"));
    shell.envs(variables.iter().copied());
    let output = shell.stdin(Stdio::null()).output().await?;
    let stop = tree.script("down")?.output().await?;

    ensure!(output.status.success(), "scripts/up: {}", String::from_utf8_lossy(&output.stderr));
    let stopped = String::from_utf8_lossy(&stop.stdout);
    ensure!(
        stopped.contains("The daemon has ended"),
        "scripts/down: {stopped}{}",
        String::from_utf8_lossy(&stop.stderr)
    );
    fs::read_to_string(&held).context("the daemon did not start")
}

/// A daemon that ends where it should run the optimised program is not called running.
async fn whoever_has_the_daemon_replaced_hears_whether_one_runs(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    // The last one ends just before the script looks at its program.
    let answers = [
        ("replaced", r#"exec "$OPTIMISED""#, true),
        ("ended", "exit 1", false),
        ("ended meanwhile", r#": > "$ASKED""#, false),
    ];
    for (name, when_asked, runs) in answers {
        let tree = Tree::new(folder.path(), name)?;
        let asked = tree.root.join("asked");
        let (quick, optimised) =
            (tree.root.join("target/quick-start/warmpool"), tree.root.join("target/release/warmpool"));
        let (state, began) = (tree.root.join(".warmpool"), tree.root.join("began"));
        for folder in [&tree.root.join("target/quick-start"), &tree.root.join("target/release"), &state.join("bin")] {
            fs::create_dir_all(folder)?;
        }
        // The scripts know a quick build by the path of the program that runs.
        fs::copy("/bin/bash", &quick)?;
        std::os::unix::fs::symlink(&quick, state.join("bin/warmpool"))?;
        program(&optimised, "#!/bin/bash\ncase $* in *--print-config*) exit ;; esac\nwhile :; do sleep 0.1; done\n")?;
        let waits = format!("trap '{when_asked}' USR2; : > \"$BEGAN\"; while :; do sleep 0.1; done");
        let mut daemon = Command::new(&quick);
        daemon.args(["-c", &waits]).env("OPTIMISED", &optimised).env("BEGAN", &began).env("ASKED", &asked);
        let daemon = daemon.kill_on_drop(true).spawn()?;
        let pid = daemon.id().context("it runs")?;
        fs::write(state.join("warmpool.pid"), pid.to_string())?;
        let readlink = format!(
            "#!/bin/bash\nif [ -e '{}' ]; then\n  kill -KILL {pid}\n  while /usr/bin/readlink /proc/{pid}/exe > /dev/null; do sleep 0.01; done\nfi\n\
             exec /usr/bin/readlink \"$@\"\n",
            asked.display()
        );
        program(&tree.programs.join("readlink"), &readlink)?;
        eventually!("the daemon runs", 10, began.exists())?;

        let output = tokio::time::timeout(Duration::from_secs(60), tree.script("later")?.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() == runs, "{name}: {said}");
        ensure!(said.contains("The optimised daemon runs") == runs, "{name}: {said}");
        ensure!(said.contains("no daemon runs any more") != runs, "{name}: {said}");
    }
    Ok(())
}

/// A lock that the caller's shell holds must be free once the shell has ended.
async fn a_detached_daemon_holds_nothing_of_its_callers(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let held = up_and_down(folder.path(), &tree, &[]).await?;
    let lock = folder.path().join("lock");
    ensure!(!held.contains(&*lock.to_string_lossy()), "the daemon holds the caller's lock: {held}");
    ensure!(held.lines().count() <= 3, "the daemon holds more than its input and output: {held}");
    Ok(())
}

async fn a_large_log_is_put_aside_before_a_start(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let state = tree.root.join(".warmpool");
    let (log, before) = (state.join("warmpool.log"), state.join("warmpool.log.1"));
    fs::create_dir_all(&state)?;
    fs::write(&log, "a small one\n")?;
    up_and_down(folder.path(), &tree, &[]).await?;
    ensure!(fs::read_to_string(&log)?.starts_with("a small one") && !before.exists(), "a small log goes on");
    fs::File::options().append(true).open(&log)?.set_len(11 << 20)?;
    up_and_down(folder.path(), &tree, &[]).await?;
    ensure!(fs::metadata(&before)?.len() == 11 << 20, "the log before it is kept");
    ensure!(fs::metadata(&log)?.len() < 1 << 20, "the daemon has a log of its own");
    Ok(())
}

/// Where engine, Rust and Node are there, the system does not matter, and nobody asks for its packages.
async fn elsewhere_up_goes_on_with_what_is_there(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let (release, asked) = (folder.path().join("os-release"), folder.path().join("asked"));
    fs::write(&release, "ID=fedora\nVERSION_ID=43\n")?;
    for name in ["apt-get", "dnf", "sudo"] {
        program(&tree.programs.join(name), &format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", asked.display()))?;
    }
    up_and_down(folder.path(), &tree, &[("SCRIPTS_OS_RELEASE", &release)]).await?;
    ensure!(!asked.exists(), "it ran {}", fs::read_to_string(&asked)?);
    Ok(())
}

/// A proxy of the environment is no way to this machine itself.
async fn behind_a_proxy_up_finds_its_daemon(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    // Nothing listens at the port of discards.
    let (proxy, none) = (Path::new("http://127.0.0.1:9"), Path::new(""));
    up_and_down(folder.path(), &tree, &[("http_proxy", proxy), ("no_proxy", none), ("NO_PROXY", none)]).await?;
    Ok(())
}

/// The engine knows the image by another digest, or its repository by a shorter name.
async fn a_pushed_image_goes_by_the_digest_of_its_registry(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let (known, pushed) = (digest("1"), digest("2"));
    let inspect = format!(r#""image inspect") echo "somebody/chromium@{known}" ;;"#);
    let docker = format!(
        r#"case "$1 $2" in {inspect} "push "*) echo "0123456789ab: Pushed"; echo "1.0: digest: {pushed} size: 7" ;; esac"#
    );
    // One that says it by its socket, and one that says it to its own command alone.
    let podman = |by_socket: bool| {
        let help = if by_socket { r#"[ "$1" = --url ] || exit 1"# } else { r#"[ "$1" != --url ] || exit 0"# };
        format!(
            r#"case "$*" in
              *"image inspect"*) echo "registry.example/somebody/chromium@{known}" ;;
              *"push --help") {help}; echo "  --digestfile string" ;;
              *"push --digestfile"*) {help}; while [ "$1" != --digestfile ]; do shift; done; echo {pushed} > "$2" ;;
            esac"#
        )
    };
    let engines = [
        ("docker", docker, "docker=(docker)"),
        ("podman", podman(true), "docker=(podman --url unix:///engine.sock)"),
        ("podman", podman(false), "docker=(podman --url unix:///engine.sock)"),
    ];
    for (name, script, engine) in engines {
        program(&tree.programs.join(name), &format!("#!/bin/bash\n{script}\n"))?;
        let workspace = TempDir::new()?;
        let call = format!(
            r#". scripts/lib.sh; {engine}; repository=warmpool push=registry.example/somebody workspace={}
            eval "$(sed -n '/^push_engine() {{/,/^}}/p' scripts/images)"
            : > "$images_log"; push_engine chromium > /dev/null; echo "$pushed""#,
            workspace.path().display()
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &call]).current_dir(&tree.root);
        tree.prepare(&mut shell)?;
        let output = shell.output().await?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            said.trim() == format!("registry.example/somebody/chromium@{pushed}"),
            "{name}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// A script that starts itself again finds its lock free, itself from whatever folder, its arguments as they were, and its output.
async fn a_new_member_of_the_group_has_the_script_go_on(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "somebody's own tree")?;
    tree.guard_engine()?;
    let cargo = r#"echo "rows $WARMPOOL_FAULT_ROWS" >> "$STAND_IN_WRITTEN""#;
    program(&tree.programs.join("cargo"), &format!("#!/bin/bash\n{cargo}\n"))?;
    let written = folder.path().join("written");
    let run = async |name: &str, arguments: &[&str]| -> Result<String> {
        let mut script = tree.called(folder.path(), &format!("somebody's own tree/scripts/{name}"))?;
        script.args(arguments).env("STAND_IN_WRITTEN", &written).env("WARMPOOL_TEST_BINARY", "/bin/true");
        script.env("XDG_RUNTIME_DIR", folder.path()).env_remove("DOCKER_HOST").env_remove("SCRIPTS_JOINED");
        let output = tokio::time::timeout(Duration::from_secs(60), script.output())
            .await
            .with_context(|| format!("scripts/{name} hangs"))??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scripts/{name}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    };

    run("images", &["--packages", "--engine", "chromium", "--base", "somebody's \"own\"  base\né"]).await?;
    let builds = fs::read_to_string(&written)?;
    ensure!(builds.contains("\nBASE=somebody's \"own\"  base\né\n"), "{builds}");
    let base = run("base", &[]).await?;
    ensure!(base == "debian:bookworm-slim\n", "{base:?}");
    // There is no repository of commits either.
    run("faults", &["--row", "10"]).await?;
    let written = fs::read_to_string(&written)?;
    ensure!(written.ends_with("\nrows 10\n"), "{written}");
    Ok(())
}

/// A folder that somebody names is one of theirs.
async fn an_archive_is_there_or_the_packing_failed(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let docker = r#"case "$1 $2" in "image inspect") case $3 in */chromium:*) ;; *) exit 1 ;; esac ;; save*) $STAND_IN_SAVE ;; esac"#;
    program(&tree.programs.join("docker"), &format!("#!/bin/bash\n{docker}\n"))?;
    for (save, succeeds) in [("false", false), ("true", true)] {
        let mut package = tree.called(folder.path(), "tree/scripts/package")?;
        package.args(["--workers", "own folder"]).env("STAND_IN_SAVE", save).env_remove("WARMPOOL_IMAGE_REPOSITORY");
        let output = package.output().await?;
        ensure!(output.status.success() == succeeds, "{save}: {}", String::from_utf8_lossy(&output.stdout));
        let made = fs::read_dir(folder.path().join("own folder"))?.flatten().map(|entry| entry.file_name());
        let archives = made.filter(|name| name.to_string_lossy().ends_with(".tar.gz")).count();
        ensure!(archives == usize::from(succeeds), "{save}: {archives} archives");
    }
    Ok(())
}

/// The system's own Rust may be too old. That of rustup stands behind it on the path, and serves.
async fn every_step_has_the_rust_that_is_new_enough(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let (home, called) = (folder.path().join("home"), folder.path().join("called"));
    let rustup = home.join(".cargo/bin");
    fs::create_dir_all(&rustup)?;
    for (programs, version) in [(&tree.programs, "1.0.0"), (&rustup, "99.0.0")] {
        program(&programs.join("rustc"), &format!("#!/bin/sh\necho 'rustc {version} (stand-in)'\n"))?;
        program(&programs.join("cargo"), &format!("#!/bin/sh\necho {version} >> '{}'\n", called.display()))?;
    }
    program(&tree.programs.join("rustfmt"), "#!/bin/sh\n")?;
    // What it finds in a tree of stand-ins does not matter.
    let output = tree.script("check")?.env("HOME", &home).output().await?;
    let called = fs::read_to_string(&called)
        .with_context(|| format!("nothing was called: {}", String::from_utf8_lossy(&output.stderr)))?;
    ensure!(called.lines().count() > 2 && called.lines().all(|version| version == "99.0.0"), "{called}");
    Ok(())
}

async fn scripts_help_from_any_folder(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    for (place, name) in [(tree.root.join("scripts"), "./check"), (folder.path().to_owned(), "tree/scripts/check")] {
        let output = tree.called(&place, name)?.arg("--help").output().await?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && said.starts_with("Checks everything"), "{name}: {said}");
    }
    Ok(())
}

async fn two_trees_fetch_what_they_share_once(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let downloads = folder.path().join("downloads");
    fs::write(&downloads, "")?;
    let mut runs = Vec::new();
    for name in ["one", "other"] {
        let tree = Tree::new(folder.path(), name)?;
        program(&tree.programs.join("python3"), &format!("#!/bin/bash\n{PYTHON}\n"))?;
        let mut images = tree.script("images")?;
        images.args(["--scene", "--base", "stand-in"]).env("XDG_CACHE_HOME", folder.path().join("cache"));
        images.env("STAND_IN_DOWNLOADS", &downloads);
        runs.push(images.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    }
    for run in runs {
        let output = tokio::time::timeout(Duration::from_secs(60), run.wait_with_output()).await??;
        ensure!(output.status.success(), "scripts/images: {}", String::from_utf8_lossy(&output.stderr));
    }
    let downloads = fs::read_to_string(&downloads)?;
    ensure!(downloads.lines().count() == 1, "the same was downloaded {} times", downloads.lines().count());
    Ok(())
}

/// What apt says goes into its log, and this must not go there with it.
async fn who_cannot_become_root_is_told_so(_stage: Stage) -> Result<()> {
    let folder = TempDir::new()?;
    let tree = Tree::new(folder.path(), "tree")?;
    let (release, asked) = (folder.path().join("os-release"), folder.path().join("asked"));
    fs::write(&release, "ID=debian\nVERSION_ID=\"12\"\n")?;
    program(&tree.programs.join("id"), "#!/bin/sh\necho 1000\n")?;
    program(&tree.programs.join("apt-get"), &format!("#!/bin/sh\ntouch '{}'\n", asked.display()))?;
    let without_sudo = r#"have() { [ "$1" != sudo ] && command -v "$1" > /dev/null 2>&1; }"#;
    for call in ["packages some-package", "apt_has some-package"] {
        let mut shell = Command::new("bash");
        let script = format!(". scripts/lib.sh; {without_sudo}; {call}; echo went on");
        shell.args(["-c", &script]).current_dir(&tree.root).env("SCRIPTS_OS_RELEASE", &release).stdin(Stdio::null());
        let path = std::env::var("PATH").context("PATH")?;
        shell.env("PATH", format!("{}:{path}", tree.programs.display()));
        let output = shell.output().await?;
        let (said, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(!output.status.success() && !said.contains("went on"), "{call}: {said}");
        ensure!(problem.contains("needs root") && problem.contains("install sudo"), "{call}: {problem:?}");
    }
    ensure!(!asked.exists(), "apt was asked");
    Ok(())
}
