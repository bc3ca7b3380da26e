//! The systems that people run this on: Debian 12 and 13, where the scripts install what they miss, others, where they name it
//! in that system's words, and engines that give containers' users other ids.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use warmpool_tests::{Daemon, Engine, Group, REMAPPED, Settings, Stage, docker, evidence, group, suite};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [
        a_bare_debian_has_what_the_scripts_install,
        elsewhere_the_scripts_name_what_is_missing,
        an_engine_that_remaps_users_runs_sessions,
    ])
}

/// Enters a bare root whose changes are lost at the end: `$0` is the root, `$1` a folder to mount over, `$2` the source of the
/// scripts, `$3` what runs in it.
const ENTER: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
root=$1/root
mount -t overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/"
mkdir -p "$root/tree/worker-image"
cp -R "$2/scripts" "$2/Cargo.toml" "$root/tree/"
cp "$2/worker-image/Dockerfile" "$root/tree/worker-image/"
cd "$root"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot . bash -c "$3"
"#;

/// Asks the real apt whether it could install what it is told to, and leaves stand-ins for the programs in the packages that
/// were named. So it is quick, and yet the names, the dependencies, the versions and the programs are the release's own.
const APT: &str = r#"#!/bin/bash
set -e
if [ "$1" != install ]; then exec /usr/bin/apt-get "$@"; fi
/usr/bin/apt-get "$@" --simulate
for name in "${@:2}"; do
  case $name in -*) continue ;; esac
  names+=("$name")
  case $name in
    ca-certificates) mkdir -p /etc/ssl/certs && touch /etc/ssl/certs/ca-certificates.crt ;;
    # This one answers with what the packages really brought.
    gcc)
      printf '#!/bin/sh\nls /usr/lib/*/libc.a 2> /dev/null || echo libc.a\n' > /usr/local/bin/cc
      chmod +x /usr/local/bin/cc
      ;;
  esac
done
printf '%s\n' "${names[@]}" >> /named
cd "$(mktemp -d)"
/usr/bin/apt-get download -q "${names[@]}"
for package in *.deb; do
  case $package in libc6-dev_*) dpkg-deb --extract "$package" / ;; esac
  version=$(dpkg-deb --field "$package" Version)
  for program in $(dpkg-deb --contents "$package" | sed -n 's|.* \./\(usr/\)\?s\?bin/\([^/ ]*\)\( -> .*\)\?$|\2|p'); do
    if [ -e "/usr/bin/$program" ] || [ -e "/usr/local/bin/$program" ]; then continue; fi
    printf '#!/bin/sh\necho "$0 $*" >> /called\ncase $1 in --version) echo v%s ;; esac\n' "${version%%[+~-]*}" > "/usr/local/bin/$program"
    chmod +x "/usr/local/bin/$program"
  done
done
"#;

/// What `scripts/up` does before it builds.
const PREPARE: &str = "
cd /tree
. scripts/lib.sh
check_host
ensure_curl
ensure_engine
ensure_rust
ensure_node
ensure_python
need objdump:binutils mmdebstrap:mmdebstrap
echo prepared
";

/// Runs this in a root, and returns what it said, with whether it went well.
async fn enter(root: &Path, script: &str) -> Result<(bool, String)> {
    let over = tempfile::tempdir()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER]);
    command.args([root, over.path(), &source]).arg(script);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("unshare")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.success(), said))
}

/// A root with the least that this release of Debian has, made once.
async fn bare(release: &str) -> Result<PathBuf> {
    let root = suite::target_dir().join("e2e-hosts").join(release);
    if !root.exists() {
        let new = root.with_extension("new");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scripts").join("base");
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(root.parent().context("a parent")?)?;
        let output = Command::new(script).args(["--root", release]).arg(&new).stdin(Stdio::null()).output().await?;
        ensure!(output.status.success(), "scripts/base: {}", String::from_utf8_lossy(&output.stderr));
        fs::rename(&new, &root)?;
    }
    Ok(root)
}

/// Why this machine has no bare roots.
fn no_roots() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        Some("only root can enter another root")
    } else if !Path::new("/usr/bin/apt-get").exists() {
        Some("there is no apt-get here to make a bare Debian with")
    } else {
        None
    }
}

/// The packages that the scripts name anywhere.
fn named_packages() -> Result<BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scripts");
    let mut names = BTreeSet::new();
    for file in ["lib.sh", "up", "images", "base", "test", "package", "bench", "clients", "fuzz", "cluster/build.sh"] {
        let text = fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
        let code = text.lines().filter(|line| !line.starts_with('#'));
        for words in code.filter_map(|line| line.split_once("need ").map(|(_, words)| words)) {
            let pairs = words.split([' ', ';', ')']).map_while(|word| word.split_once(':'));
            names.extend(pairs.map(|(_, package)| package.to_owned()).filter(|package| !package.is_empty()));
        }
    }
    ensure!(names.contains("docker-cli") && names.contains("podman") && names.len() > 15, "{names:?}");
    // apt has it, and it is installed there alone where AppArmor is on.
    names.extend(["ca-certificates", "webext-ublock-origin-firefox"].map(str::to_owned));
    Ok(names)
}

/// Packages that only some releases have, by the scripts' own knowledge.
const ONLY_IN: [(&str, &str); 1] = [("docker-cli", "trixie")];

async fn a_bare_debian_has_what_the_scripts_install(_: Stage) -> Result<()> {
    if let Some(why) = no_roots() {
        evidence::cannot(why);
        return Ok(());
    }
    tokio::try_join!(newcomer("bookworm"), newcomer("trixie")).map(drop)
}

async fn newcomer(release: &str) -> Result<()> {
    let root = bare(release).await?;
    let packages: Vec<String> = named_packages()?.into_iter().collect();
    let script = format!(
        "cat > /usr/local/bin/apt-get << 'END'\n{APT}END\nchmod +x /usr/local/bin/apt-get\n\
         cat > /prepare << 'END'\n{PREPARE}END\nbash /prepare 2>&1 || exit 1\n\
         echo named: $(cat /named)\necho called:\ncat /called\n\
         apt-cache policy {} | awk '/^[^ ]/ {{ name = $1 }} $1 == \"Candidate:\" && $2 ~ /^[0-9]/ {{ print \"known: \" name }}'",
        packages.join(" ")
    );
    let (success, said) = enter(&root, &script).await?;
    ensure!(success && said.contains("\nprepared\n"), "{release}: {said}");
    let line = |head: &'static str| said.lines().filter_map(move |line| line.strip_prefix(head));
    let named: BTreeSet<&str> = line("named: ").flat_map(str::split_whitespace).collect();
    for package in ["curl", "docker.io", "iptables", "gcc", "libc6-dev", "nodejs", "npm", "python3-venv", "binutils"] {
        ensure!(named.contains(package), "{release}: {package} was not installed: {said}");
    }
    // What differs: the command is a package of its own, Rust's installer is one, and Node is new enough.
    let newer = release == "trixie";
    for package in ["docker-cli", "rustup"] {
        ensure!(named.contains(package) == newer, "{release}: {package}: {named:?}");
    }
    ensure!(said.contains("rustup toolchain install stable") == newer, "{release}: {said}");
    ensure!(said.contains("sh.rustup.rs") != newer, "{release}: {said}");
    ensure!(said.contains("Bringing Node") != newer, "{release}: {said}");
    let known: BTreeSet<&str> = line("known: ").map(|name| name.trim_end_matches(':')).collect();
    let unknown: BTreeSet<&str> = packages.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    let expected = ONLY_IN.iter().filter(|(_, only)| *only != release).map(|(package, _)| *package).collect();
    ensure!(unknown == expected, "{release} has no packages {unknown:?}");
    Ok(())
}

/// Knows the package rustup, but not on Ubuntu 22.04.
const APT_CACHE: &str = "#!/bin/sh\ngrep -q 'Ubuntu 22' /os-release || echo '  Candidate: 1.26.0-5'\n";

/// Systems by what their os-release says, and what a newcomer has to be told there.
const ELSEWHERE: [(&str, &[&str]); 10] = [
    (
        "PRETTY_NAME=\"Fedora Linux 43 (Server Edition)\"\nID=fedora\nVERSION_ID=43",
        &[
            "This is Fedora Linux 43 (Server Edition), where the scripts install nothing",
            "  dnf install curl podman gcc glibc-devel glibc-static binutils nodejs npm python3\n",
            "  systemctl enable --now podman.socket\n",
            "  dnf install rustup && rustup-init -y    # Rust ",
        ],
    ),
    (
        "PRETTY_NAME=\"Rocky Linux 10\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"",
        &["This is Rocky Linux 10", "  dnf install curl podman "],
    ),
    (
        "PRETTY_NAME=\"Arch Linux\"\nID=arch",
        &[
            "  pacman -S --needed curl docker gcc glibc binutils nodejs npm python\n",
            "  systemctl enable --now docker\n",
            "rustup default",
        ],
    ),
    (
        "PRETTY_NAME=\"openSUSE Leap 16.0\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"",
        &["  zypper install curl docker gcc glibc-devel glibc-devel-static binutils nodejs22 npm22 python3\n"],
    ),
    (
        "PRETTY_NAME=\"Alpine Linux v3.22\"\nID=alpine",
        &[
            "  apk add curl docker gcc musl-dev binutils nodejs npm python3\n",
            "  rc-update add docker boot && service docker start\n",
        ],
    ),
    (
        "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nID=ubuntu\nID_LIKE=debian",
        &[
            "  apt-get install curl docker.io gcc libc6-dev binutils nodejs npm python3 python3-venv\n",
            "  apt-get install rustup && ",
        ],
    ),
    (
        "PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nID=ubuntu\nID_LIKE=debian",
        &["  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y    # Rust "],
    ),
    ("PRETTY_NAME='Linux Mint 22'\nID=linuxmint\nID_LIKE=\"ubuntu debian\"", &["  apt-get install curl docker.io "]),
    ("PRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nID=debian\nVERSION_ID=\"11\"", &["  apt-get install curl "]),
    (
        "ID=nixos",
        &["This is a Linux of an unknown name", "the packages that Debian calls curl docker.io ", "https://rustup.rs"],
    ),
];

async fn elsewhere_the_scripts_name_what_is_missing(_: Stage) -> Result<()> {
    if let Some(why) = no_roots() {
        evidence::cannot(why);
        return Ok(());
    }
    let root = bare("bookworm").await?;
    let systems: String = ELSEWHERE
        .iter()
        .map(|(release, _)| {
            format!("cat > /os-release << 'END'\n{release}\nEND\nscripts/up 2>&1 < /dev/null\necho \"=== $?\"\n")
        })
        .collect();
    // Whatever installs anything would leave a trace.
    let script = format!(
        "for name in apt-get dnf pacman zypper apk sudo; do printf '#!/bin/sh\\ntouch /installed\\n' > /usr/local/bin/$name; \
         chmod +x /usr/local/bin/$name; done\ncat > /usr/local/bin/apt-cache << 'END'\n{APT_CACHE}END\n\
         chmod +x /usr/local/bin/apt-cache\ncd /tree\nexport SCRIPTS_OS_RELEASE=/os-release\n{systems}\
         if [ -e /installed ]; then echo something was installed; fi\n"
    );
    let (_, said) = enter(&root, &script).await?;
    ensure!(!said.contains("something was installed"), "{said}");
    let answers: Vec<&str> = said.split("=== 1\n").collect();
    ensure!(answers.len() == ELSEWHERE.len() + 1, "it went on, or ended otherwise: {said}");
    for ((release, wanted), answer) in ELSEWHERE.iter().zip(answers) {
        for words in *wanted {
            ensure!(answer.contains(words), "{release}\nis not told {words:?}:\n{answer}");
        }
        ensure!(answer.contains("start this again"), "{answer}");
    }
    Ok(())
}

async fn an_engine_that_remaps_users_runs_sessions(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("only root can start an engine that remaps users");
        return Ok(());
    }
    let engine = Engine::remapping_users(&docker::image("chromium")).await?;
    let mut daemon = Daemon::start(Settings::new().on(engine.docker())).await?;
    let found: Value = serde_json::from_slice(&daemon.cli(&["doctor", "--json"]).await?.stdout)?;
    let detail = found["findings"][0]["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains("users remapped"), "{found}");

    let session = daemon.session(json!({"keep_alive": true})).await?;
    ensure!(session.evaluate("6 * 7").await? == 42);
    // On this machine its processes are nobody's that has a name here.
    let workers = engine.docker().containers(&daemon.instance()?).await?;
    let worker = workers.first().context("a worker")?;
    let pid = engine.docker().first_pid(&worker.id).await?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    ensure!(status.contains(&format!("Uid:\t{}", REMAPPED.0 + 61_000)), "{status}");

    // A folder that a remapped user wrote to is found again, and removed.
    daemon.kill9().await?;
    daemon.restart().await?;
    session.becomes("running", 30).await?;
    ensure!(session.evaluate("6 * 7").await? == 42, "it is driven on");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
