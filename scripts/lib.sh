# shellcheck shell=bash
# What the scripts beside this file share. Source it; it changes to the top of the tree.
set -euo pipefail
# With it, cd may go elsewhere, and print where.
unset CDPATH

# from_caller PATH: a path that may be relative to the folder in which somebody called the script.
caller=$PWD
from_caller() { case $1 in /*) printf '%s\n' "$1" ;; *) printf '%s/%s\n' "$caller" "$1" ;; esac; }

script=$(from_caller "$0")
# The descriptor of the script's own output. Some scripts print one answer alone, and what else is said goes to standard error.
script_output=1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=$root/.warmpool
cd "$root"
mkdir -p "$state"

# Cargo as rustup installs it is usable before the next login.
case ":$PATH:" in
  *":$HOME/.cargo/bin:"*) ;;
  *) PATH=$PATH:$HOME/.cargo/bin ;;
esac
# What the scripts bring for this tree alone, as ensure_node does.
PATH=$state/bin:$PATH
# A plain user's PATH often leaves out where dockerd and iptables are.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf '%s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}
have() { command -v "$1" > /dev/null 2>&1; }

# shellcheck source=hosts.sh
source scripts/hosts.sh

# A program that outlives the script would keep what its caller has open: a lock, a pipe that somebody reads to its end.
# Call it in the subshell that becomes the program.
close_descriptors() {
  local descriptor
  for descriptor in /proc/"$BASHPID"/fd/*; do
    descriptor=${descriptor##*/}
    if [ "$descriptor" -gt 2 ]; then exec {descriptor}>&-; fi
  done
}

# The comment block at the top of a script is its help.
usage() { sed -n '2,/^[^#]/ { /^#/ s/^# \{0,1\}//p; }' "$script"; }

# --- Steps -------------------------------------------------------------------------------------------------------------

steps=0
failed_steps=()

# step NAME COMMAND…: runs it in a shell of its own, prints how long it took, and remembers a failure. Always returns 0, so
# that it never stands left of `||`, where the shell would go on after a failed line of COMMAND.
step() {
  local name=$1 from=$SECONDS status=0
  shift
  say "== $name"
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  steps=$((steps + 1))
  if [ "$status" -eq 0 ]; then
    say "-- ok: $name ($((SECONDS - from)) s)"
  else
    say "-- FAILED: $name (exit $status after $((SECONDS - from)) s)"
    failed_steps+=("$name")
  fi
}

# must NAME COMMAND…: a step without which the rest makes no sense.
must() {
  local before=${#failed_steps[@]}
  step "$@"
  if [ "${#failed_steps[@]}" -gt "$before" ]; then finish; fi
}

# The last line of a script that runs steps.
finish() {
  if [ "${#failed_steps[@]}" -eq 0 ]; then
    say "PASS: $steps steps in $SECONDS s"
  else
    say "FAIL: ${#failed_steps[@]} of $steps steps in $SECONDS s:$(printf ' [%s]' "${failed_steps[@]}")"
    exit 1
  fi
}

# --- Packages ----------------------------------------------------------------------------------------------------------

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
    return
  fi
  have sudo || die "needs root for: $* (install sudo, or run this as root)"
  # sudo drops the environment; a proxy that is set there is needed.
  local name variables=()
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY DEBIAN_FRONTEND; do
    if [ -n "${!name-}" ]; then variables+=("$name=${!name}"); fi
  done
  sudo env "${variables[@]}" "$@"
}

apt_updated=no

# Has apt read its sources anew, once.
update_apt() {
  if [ "$apt_updated" = yes ]; then return; fi
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then die "needs root to update apt's lists: install sudo, or run this as root"; fi
  as_root apt-get update -q >> "$state/apt.log" 2>&1 || note "apt-get update had problems, see $state/apt.log"
  apt_updated=yes
}

# packages NAME…: installs packages, by the names that Debian has for them.
packages() {
  if ! installs_packages; then
    die "something is missing, and the scripts install nothing on $(os_name); to get it: $(install_command "$@")"
  fi
  # Said here, since what apt says goes into its log.
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then
    die "needs root to install $*: install sudo, or run this as root"
  fi
  say "Installing from Debian: $*"
  local -x DEBIAN_FRONTEND=noninteractive
  # Two branches of a script may want packages at once.
  local lock
  exec {lock}> "$state/apt.lock"
  flock "$lock"
  update_apt
  as_root apt-get install -y -q --no-install-recommends "$@" >> "$state/apt.log" 2>&1 || {
    tail -n 20 "$state/apt.log" >&2
    die "could not install $*; the whole log is $state/apt.log"
  }
  exec {lock}>&-
}

# apt_has NAME: whether apt knows where to get this package, by its sources as they are now.
apt_has() { update_apt && apt_knows "$1"; }

# apt_knows NAME: the same by the lists that apt has here, which takes no rights.
apt_knows() {
  [ -n "$(apt-cache policy "$1" 2> /dev/null | sed -n 's/^ *Candidate: *\([0-9].*\)/\1/p')" ]
}

# need COMMAND:PACKAGE…: installs the packages of those commands that are missing.
need() {
  local pair missing=()
  for pair in "$@"; do
    have "${pair%%:*}" || missing+=("${pair#*:}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then packages "${missing[@]}"; fi
}

# --- Rust --------------------------------------------------------------------------------------------------------------

# version_at_least HAVE WANT
version_at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The oldest Rust that builds this tree.
rust_wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)

rust_found() { rustc --version 2> /dev/null | cut -d ' ' -f 2 || true; }

rust_is_new() {
  local found
  found=$(rust_found)
  have cargo && [ -n "$found" ] && version_at_least "$found" "$rust_wanted"
}

# The packages of a C compiler that are missing. The agent is linked statically, so libc.a has to be there.
missing_compiler() {
  if ! have cc; then
    printf 'gcc\nlibc6-dev\n'
  elif [ ! -e /usr/include/stdio.h ] || [ "$(cc -print-file-name=libc.a)" = libc.a ]; then
    printf 'libc6-dev\n'
  fi
}

# What downloads files.
ensure_curl() {
  need curl:curl
  # Other systems' curl comes with the certificates that it needs.
  if installs_packages && [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then packages ca-certificates; fi
}

# Call it outside of steps: a step's shell would keep the change of PATH for itself.
ensure_rust() {
  local missing
  if [ "$BASH_SUBSHELL" -gt 0 ]; then die "ensure_rust was called in a subshell, where a change of PATH is lost"; fi
  mapfile -t missing < <(missing_compiler)
  if [ "${#missing[@]}" -gt 0 ]; then packages "${missing[@]}"; fi
  if rust_is_new; then return; fi
  # One that rustup brought may stand behind a package's on the path.
  PATH=$HOME/.cargo/bin:$PATH
  hash -r
  if rust_is_new; then return; fi
  if ! installs_packages; then
    die "Rust $rust_wanted or newer is missing, and the scripts install nothing on $(os_name); to get it: $(rust_command)"
  fi
  ensure_curl
  say "Installing Rust by rustup: $(rust_found | grep . || printf none) is here, $rust_wanted or newer is needed"
  # A package in Debian 13 and later, which does not stand beside Debian's own Rust.
  if ! have rustup && ! have rustc && ! have cargo && apt_has rustup; then packages rustup; fi
  if have rustup; then
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt
    rustup default stable
  else
    local installer
    installer=$(mktemp)
    curl --proto '=https' --tlsv1.2 -sSf -o "$installer" https://sh.rustup.rs
    sh "$installer" -y --no-modify-path --profile minimal --component clippy --component rustfmt
    rm -f "$installer"
  fi
  hash -r
}

# The directory Cargo builds into.
target_dir() { printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}"; }

host_triple() { rustc -vV | sed -n 's/^host: //p'; }

# build_static CARGO-ARGUMENT…: links statically, so that the program runs on any base. With an explicit target, build
# scripts are not, and the flags leave the rest of the workspace's build alone.
build_static() {
  RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+crt-static" cargo build --locked --target "$(host_triple)" "$@"
}

# Builds the agent, and beside it the program that writes rules for Chromium's image; the agent's path is left in $agent.
build_agent() {
  say "Building the agent"
  CARGO_PROFILE_RELEASE_STRIP=symbols build_static --release --package warmpool-agent --package warmpool-ad-rules
  # shellcheck disable=SC2034 # scripts use it
  agent=$(target_dir)/$(host_triple)/release/warmpool-agent
}

# --- The daemon that scripts/up runs -----------------------------------------------------------------------------------

# What is run: a link to a build.
program=$state/bin/warmpool
pid_file=$state/warmpool.pid
later_pid_file=$state/later.pid

# run_program FILE: makes FILE the one that runs at the daemon's next start.
run_program() {
  mkdir -p "${program%/*}"
  ln -sf "$(realpath "$1")" "$program.new"
  mv -T "$program.new" "$program"
}

# The daemon's process id, if it runs.
running() {
  local pid
  pid=$(cat "$pid_file" 2> /dev/null) || return 1
  # A process that has ended keeps its name until somebody reaps it.
  if grep -qs '^State:[[:space:]]*[ZX]' "/proc/$pid/status"; then return 1; fi
  [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = warmpool ] && printf '%s\n' "$pid"
}

# runs_quick_build PID: whether this daemon is not the optimised one.
runs_quick_build() { [[ $(readlink "/proc/$1/exe") =~ /quick-start/warmpool( \(deleted\))?$ ]]; }

# The process id of scripts/later, if it runs; its group is its own.
later_runs() {
  local later
  later=$(cat "$later_pid_file" 2> /dev/null) || return 1
  grep -qs 'scripts/later' "/proc/$later/cmdline" && printf '%s\n' "$later"
}

stop_later() {
  local later
  if later=$(later_runs); then kill -TERM -- "-$later" 2> /dev/null || true; fi
  rm -f "$later_pid_file"
}

# --- The container engine ----------------------------------------------------------------------------------------------

# The command of the engine that was found: Docker's, or Podman's, which takes the same arguments. ensure_engine sets it.
docker=(docker)

# Whether there is a docker command that is not Podman under Docker's name.
have_docker() { have docker && ! docker --version 2> /dev/null | grep -qi podman; }

# Whether Podman listens on SOCKET.
podman_answers() {
  [ -S "$1" ] && curl -sf --max-time 5 --unix-socket "$1" http://localhost/version 2> /dev/null | grep -q '"Podman Engine"'
}

# The folder of this user's sockets, also where nobody said so: in a service, or after su.
runtime_dir() { printf '%s\n' "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; }

# Where Podman listens: as root for the whole machine, otherwise for this user.
podman_socket() {
  if [ "$(id -u)" -eq 0 ]; then
    printf '/run/podman/podman.sock\n'
  else
    printf '%s/podman/podman.sock\n' "$(runtime_dir)"
  fi
}

# ensure_engine [ARGUMENT…]: a running engine that this user may use, and its command in $docker: the engine of DOCKER_HOST,
# else Docker, also one of this user alone, else Podman where that is here and Docker is not. ARGUMENTs are the script's own, for a restart.
ensure_engine() {
  local socket own
  own=$(runtime_dir)/docker.sock
  if [ -z "${DOCKER_HOST-}" ] && have_docker && [ ! -w /var/run/docker.sock ] && [ -w "$own" ]; then
    export DOCKER_HOST=unix://$own
  fi
  if [ -n "${DOCKER_HOST-}" ]; then
    need curl:curl
    if socket=$(docker_socket) && { podman_answers "$socket" || [ "$socket" = "$(podman_socket)" ]; }; then
      ensure_podman "$socket"
      return
    fi
  elif ! have_docker && ! have dockerd && have podman; then
    ensure_podman "$(podman_socket)"
    return
  fi
  ensure_docker "$@"
}

# Without a service manager nobody may have mounted the control groups either. They come in the second version, unless some
# controllers are in hierarchies of the first already.
mount_control_groups() {
  local name folder=/sys/fs/cgroup
  if grep -qs " $folder" /proc/mounts; then return; fi
  if ! awk '!/^#/ && $2 != 0 { exit 1 }' /proc/cgroups; then
    as_root mount -t tmpfs -o mode=755,nosuid,nodev,noexec cgroup "$folder"
    while IFS= read -r name; do
      as_root mkdir "$folder/$name"
      as_root mount -t cgroup -o "$name" cgroup "$folder/$name" || as_root rmdir "$folder/$name"
    done < <(awk '!/^#/ && $4 == 1 { print $1 }' /proc/cgroups)
  else
    as_root mount -t cgroup2 cgroup2 "$folder"
  fi
}

# ensure_podman SOCKET: Podman listens there, and $docker speaks to it.
ensure_podman() {
  need curl:curl podman:podman
  podman_answers "$1" || start_podman "$1"
  # By the socket, so that its images are those of the daemon's containers.
  docker=(podman --url "unix://$1")
  export DOCKER_HOST=unix://$1
  # Podman's own format of images knows no SHELL, which the Dockerfile has.
  export BUILDAH_FORMAT=docker
}

start_podman() {
  local socket=$1 user=() runtime=() tries
  if [ "$(id -u)" -ne 0 ]; then
    user=(--user)
    # Its containers need more users than this one.
    need newuidmap:uidmap slirp4netns:slirp4netns
    grep -q "^$(id -un):" /etc/subuid /etc/subgid ||
      die "Podman has no user ids to give away: as root, usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)"
    if [ "$(podman info --format '{{.Store.GraphDriverName}}' 2> /dev/null)" = vfs ]; then
      say "Podman stores images and containers with vfs, which copies a whole image for each; warmpool doctor says how to change that"
    fi
  fi
  if [ -d /run/systemd/system ] && [ "$socket" = "$(podman_socket)" ]; then
    say "Starting Podman (systemd)"
    systemctl "${user[@]}" start podman.socket
  else
    say "Starting Podman (no init here does it; log: $state/podman.log)"
    mount_control_groups
    # crun refuses a machine that has both versions of control groups; runc does not.
    if [ -e /sys/fs/cgroup/unified/cgroup.controllers ]; then
      need runc:runc
      runtime=(--runtime runc)
    fi
    mkdir -p "${socket%/*}"
    (close_descriptors && exec setsid podman "${runtime[@]}" --cgroup-manager cgroupfs system service --time=0 "unix://$socket") \
      > "$state/podman.log" 2>&1 < /dev/null &
  fi
  for ((tries = 0; tries < 150; tries++)); do
    if podman_answers "$socket"; then return; fi
    sleep 0.2
  done
  if [ -s "$state/podman.log" ]; then tail -n 15 "$state/podman.log" >&2; fi
  die "Podman did not answer at $socket within half a minute"
}

# --- Docker ------------------------------------------------------------------------------------------------------------

docker_socket() {
  local host=${DOCKER_HOST:-unix:///var/run/docker.sock}
  case $host in
    unix://*) printf '%s\n' "${host#unix://}" ;;
    *) return 1 ;;
  esac
}

# Whether the engine answers. A command newer than the engine may refuse to speak its version; this sets the one to speak.
docker_answers() {
  have docker || return 1
  docker version > /dev/null 2>&1 && return 0
  local socket version
  socket=$(docker_socket) || return 1
  if [ ! -w "$socket" ] || ! have curl; then return 1; fi
  version=$(curl -sf --max-time 5 --unix-socket "$socket" http://localhost/version |
    sed -n 's/.*"ApiVersion":"\([0-9.]*\)".*/\1/p')
  [ -n "$version" ] || return 1
  export DOCKER_API_VERSION=$version
  docker version > /dev/null 2>&1
}

# ensure_docker [ARGUMENT…]: a running engine that this user may use. ARGUMENTs are the script's own, for a restart.
ensure_docker() {
  docker_answers && return
  case ${DOCKER_HOST:-} in
    '' | unix:///var/run/docker.sock) ;;
    *) die "nothing answers at DOCKER_HOST=$DOCKER_HOST" ;;
  esac
  need curl:curl dockerd:docker.io iptables:iptables
  need docker:docker-cli # a package of its own in later releases of Debian
  if grep -qs Y /sys/module/apparmor/parameters/enabled; then need apparmor_parser:apparmor; fi
  docker_answers && return
  if [ "$(id -u)" -ne 0 ] && [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
    join_docker_group "$@"
  fi
  start_docker
  docker_answers && return
  if [ "$(id -u)" -ne 0 ]; then join_docker_group "$@"; fi
  die "the Docker engine runs, but the docker command cannot speak with it: $(docker version 2>&1 | tail -n 1)"
}

# Puts this user into the group that owns the engine's socket, and starts the script again as a member. sg stays until that one has
# ended and keeps what the script has open, and no trap runs: call it before there is a lock or a temporary file.
join_docker_group() {
  local word command=exec quote="'" quoted="'\\''"
  if [ -n "${SCRIPTS_JOINED-}" ]; then die "this user may not use the Docker engine; add it to the group docker and log in again"; fi
  say "Adding $(id -un) to the group docker (its members can do on this machine whatever root can)"
  as_root usermod -aG docker "$(id -un)"
  export SCRIPTS_JOINED=1
  # sg's shell is the plain one, which knows no other quotes.
  for word in "$script" "$@"; do command+=" '${word//"$quote"/"$quoted"}'"; done
  cd "$caller"
  exec sg docker -c "$command" >&"$script_output"
}

start_docker() {
  if [ -d /run/systemd/system ]; then
    say "Starting the Docker engine (systemd)"
    as_root systemctl start docker
  else
    say "Starting the Docker engine (no init here does it; log: $state/dockerd.log)"
    mount_control_groups
    as_root true # asks for a password, if there is one to ask for, while somebody can answer
    # shellcheck disable=SC2024 # the log belongs to this user
    (close_descriptors && as_root setsid dockerd) > "$state/dockerd.log" 2>&1 < /dev/null &
  fi
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if as_root docker version > /dev/null 2>&1 || docker_answers; then return; fi
    sleep 0.2
  done
  if [ -s "$state/dockerd.log" ]; then tail -n 15 "$state/dockerd.log" >&2; fi
  die "the Docker engine did not answer within a minute"
}

# --- Images ------------------------------------------------------------------------------------------------------------

version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1)
images_log=$state/images.log

# image_hash IMAGE: the hash it was built from; hash_of FILE…: such a hash
image_hash() { "${docker[@]}" image inspect --format '{{ index .Config.Labels "warmpool.content" }}' "$1" 2> /dev/null || true; }
hash_of() { (printf '%s\n' "$version" && sha256sum "$@" | cut -d ' ' -f 1) | sha256sum | cut -c 1-16; }

# cache NAME COMMAND ARGUMENT…: what COMMAND ARGUMENT… FOLDER puts into FOLDER, kept for all trees of this user; its path is left
# in $cached. Trees that want it at the same time make it once.
cache() {
  local name=$1 folder=${XDG_CACHE_HOME:-$HOME/.cache}/warmpool lock
  shift
  # shellcheck disable=SC2034 # scripts use it
  cached=$folder/$name
  mkdir -p "$folder"
  exec {lock}> "$cached.lock"
  flock -n "$lock" || { say "Waiting for another tree that makes $cached" && flock "$lock"; }
  if [ ! -d "$cached" ]; then
    rm -rf "$cached.new"
    "$@" "$cached.new"
    mv "$cached.new" "$cached"
  fi
  exec {lock}>&-
}

# logged PATTERN COMMAND…: runs a long command. All of its output goes to the log; the lines that match show how far it is.
logged() {
  local pattern=$1
  shift
  "$@" 2>&1 | progress "$pattern" || {
    tail -n 30 "$images_log" >&2
    die "failed: $*; the whole log is $images_log"
  }
}

progress() {
  local pattern=$1 line
  while IFS= read -r line; do
    printf '%s\n' "$line" >> "$images_log"
    if [[ $line =~ $pattern ]]; then
      note "$(printf '%4d s  %.110s' "$SECONDS" "$line")"
      report "$line"
    fi
  done
}

# report [TEXT]: tells a running daemon what the build of $reported_engine does; without TEXT, that it has ended.
reported_engine=
report() {
  if [ -z "$reported_engine" ] || [ ! -x "$program" ]; then return 0; fi
  "$program" image-build "$reported_engine" ${1:+"${1:0:110}"} > /dev/null 2>&1 || true
}

# --- Clients for tests and examples ------------------------------------------------------------------------------------

# The oldest Node that the packages of all lock files run with, and the one that is brought where there is none so new.
node_wanted=20.19
node_brought=22.23.3
npm_brought=10.9.9

node_is_new() {
  local found
  have npm && found=$(node --version 2> /dev/null) && version_at_least "${found#v}" "$node_wanted"
}

# Debian 12 has Node 18: then a newer one is put beside the program that scripts/up runs, and this machine's stays as it is.
ensure_node() {
  if node_is_new; then return; fi
  if ! have node || ! have npm; then packages nodejs npm; fi
  if node_is_new; then return; fi
  local architecture name found
  found=$(node --version)
  case $(uname -m) in
    x86_64) architecture=x64 ;;
    aarch64) architecture=arm64 ;;
    *) note "Node $found is here; the examples need $node_wanted: install one yourself" && return ;;
  esac
  say "Bringing Node $node_brought: $found is here, $node_wanted or newer is needed"
  if ! npm install --global --prefix "$state/node" --no-audit --no-fund --loglevel=error \
    "npm@$npm_brought" "node-linux-$architecture@$node_brought"; then
    note "it cannot be fetched; the examples need one that you install yourself"
    return
  fi
  mkdir -p "$state/bin"
  for name in node npm npx; do ln -sf "../node/bin/$name" "$state/bin/$name"; done
}

# Whether there is what makes environments for the packages of Python programs.
has_python() { python3 -c 'import ensurepip, venv' > /dev/null 2>&1; }

ensure_python() {
  if has_python; then return; fi
  packages python3 python3-venv
}

# node_modules FOLDER: what its package-lock.json names, unless it is there already.
node_modules() {
  local folder=$1
  if [ ! -e "$folder/package-lock.json" ]; then return; fi
  if [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then
    note "$folder: up to date"
    return
  fi
  (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error)
}

# The daemon's pages, bundled anew if a source is newer than they are.
console_pages() {
  local folder=orchestrator/console built=orchestrator/console/dist/live.html
  if [ -e "$built" ] &&
    [ -z "$(find "$folder"/*.json "$folder"/*.mjs "$folder/src" orchestrator/docs README.md examples/tasks/README.md -newer "$built" -print -quit)" ]; then
    return
  fi
  say "Building the daemon's pages"
  node_modules "$folder"
  (cd "$folder" && node build.mjs)
}

# The list of ads that is built into the daemon. apt checks the package's signature. Without apt the daemon has no such list.
ad_list() {
  local built=orchestrator/ads/easylist.txt folder list
  if [ -e "$built" ]; then return; fi
  if ! have apt-get; then note "no apt-get here: the daemon is built without EasyList" && return; fi
  say "Fetching EasyList"
  folder=$(mktemp -d)
  if ! (cd "$folder" && apt-get download -q webext-ublock-origin-firefox) >> "$state/apt.log" 2>&1; then
    if ! installs_packages; then
      note "apt cannot fetch webext-ublock-origin-firefox: the daemon is built without EasyList"
      rm -rf "$folder"
      return
    fi
    update_apt
    (cd "$folder" && apt-get download -q webext-ublock-origin-firefox) >> "$state/apt.log" 2>&1 ||
      die "could not fetch EasyList; the whole log is $state/apt.log"
  fi
  dpkg-deb --extract "$folder"/*.deb "$folder/package"
  list=$(find "$folder/package" -name easylist.txt -print -quit)
  [ -n "$list" ] || die "the package webext-ublock-origin-firefox has no easylist.txt any more"
  install -m 644 "$list" "$built"
  rm -rf "$folder"
}

# python_venv FOLDER: what its requirements.txt names, in its .venv, unless it is there already.
# Its first line may say that packages run on an older Python than they ask for.
python_venv() {
  local folder=$1
  if [ ! -e "$folder/requirements.txt" ]; then return; fi
  if [ "$folder/.venv/installed" -nt "$folder/requirements.txt" ]; then
    note "$folder: up to date"
    return
  fi
  ensure_python
  python3 -m venv "$folder/.venv"
  if grep -q '^# ignore-requires-python' "$folder/requirements.txt"; then local -x PIP_IGNORE_REQUIRES_PYTHON=1; fi
  "$folder/.venv/bin/python" -m pip install --quiet --requirement "$folder/requirements.txt"
  touch "$folder/.venv/installed"
}
