# shellcheck shell=bash
# Which system this is, and what its packages are called. scripts/lib.sh sources this file.
#
# On Debian 12 and newer the scripts install what they miss. Elsewhere they install nothing: they say what is missing, as a
# command of that system.

os_release=${SCRIPTS_OS_RELEASE:-/etc/os-release}

# os_field NAME: a field of os-release, empty where there is none.
os_field() { sed -n "s/^$1=//p" "$os_release" 2> /dev/null | head -n 1 | sed "s/^[\"']//; s/[\"']\$//"; }

# What people call this system.
os_name() {
  local name
  name=$(os_field PRETTY_NAME)
  printf '%s\n' "${name:-a Linux of an unknown name}"
}

# The program that manages this system's packages: apt-get, dnf, pacman, zypper or apk; empty where it is none of these.
package_manager() {
  local ids id
  read -ra ids <<< "$(os_field ID) $(os_field ID_LIKE)"
  for id in "${ids[@]}"; do
    case $id in
      debian | ubuntu) printf 'apt-get\n' && return ;;
      fedora | rhel | centos) printf 'dnf\n' && return ;;
      arch) printf 'pacman\n' && return ;;
      suse | opensuse*) printf 'zypper\n' && return ;;
      alpine) printf 'apk\n' && return ;;
    esac
  done
}

# Whether the scripts install packages here. Debian's testing and unstable have no number.
installs_packages() {
  local number
  if [ "$(os_field ID)" != debian ] || ! have apt-get; then return 1; fi
  number=$(os_field VERSION_ID)
  [ -z "$number" ] || [ "${number%%.*}" -ge 12 ]
}

# package_names NAME…: what Debian's packages are called here, each once.
package_names() {
  local manager name word names=()
  manager=$(package_manager)
  if [ "$manager" = apt-get ] && [ "$(os_field ID)" = debian ]; then manager=debian; fi
  for name in "$@"; do
    case $manager/$name in
      # The engine of these is Podman; Docker's own is not in all of them.
      dnf/docker.io | dnf/docker-cli) name=podman ;;
      pacman/docker.io | pacman/docker-cli | zypper/docker.io | zypper/docker-cli) name=docker ;;
      apk/docker.io) name=docker ;;
      apt-get/docker-cli) name=docker.io ;;
      dnf/docker-compose) name=docker-compose ;;
      apk/docker-compose) name=docker-cli-compose ;;
      apt-get/docker-compose) name=docker-compose-v2 ;;
      dnf/docker-registry) name=docker-distribution ;;
      dnf/libc6-dev) name='glibc-devel glibc-static' ;;
      pacman/libc6-dev) name=glibc ;;
      zypper/libc6-dev) name='glibc-devel glibc-devel-static' ;;
      apk/libc6-dev) name=musl-dev ;;
      dnf/g++ | zypper/g++) name=gcc-c++ ;;
      pacman/g++) name=gcc ;;
      zypper/nodejs) name=nodejs22 ;;
      zypper/npm) name=npm22 ;;
      pacman/python3 | pacman/python3-venv) name=python ;;
      dnf/python3-venv | zypper/python3-venv | apk/python3-venv) name=python3 ;;
      pacman/python3-pip) name=python-pip ;;
      apk/python3-pip) name=py3-pip ;;
      dnf/iproute2) name=iproute ;;
      dnf/iptables) name=iptables-nft ;;
      zypper/apparmor) name=apparmor-parser ;;
      dnf/uidmap) name=shadow-utils ;;
      pacman/uidmap | zypper/uidmap) name=shadow ;;
      apk/uidmap) name=shadow-uidmap ;;
      apt-get/chromium) name=chromium-browser ;;
    esac
    for word in $name; do
      [[ " ${names[*]} " == *" $word "* ]] || names+=("$word")
    done
  done
  printf '%s\n' "${names[*]}"
}

# install_command NAME…: how somebody installs what Debian calls so.
install_command() {
  local sudo='' names
  if [ "$(id -u)" -ne 0 ]; then sudo='sudo '; fi
  names=$(package_names "$@")
  case $(package_manager) in
    apt-get) printf '%sapt-get install %s\n' "$sudo" "$names" ;;
    dnf) printf '%sdnf install %s\n' "$sudo" "$names" ;;
    pacman) printf '%spacman -S --needed %s\n' "$sudo" "$names" ;;
    zypper) printf '%szypper install %s\n' "$sudo" "$names" ;;
    apk) printf '%sapk add %s\n' "$sudo" "$names" ;;
    *) printf 'the packages that Debian calls %s\n' "$names" ;;
  esac
}

# How somebody gets Rust here.
rust_command() {
  local install
  install=$(install_command rustup)
  case $(package_manager) in
    dnf | apk) printf '%s && rustup-init -y\n' "$install" ;;
    # A package since Ubuntu 24.04 and Debian 13.
    apt-get) if apt_knows rustup; then
      printf '%s && rustup default stable\n' "$install"
    else
      printf "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y\n"
    fi ;;
    pacman | zypper) printf '%s && rustup default stable\n' "$install" ;;
    *) printf 'rustup, as https://rustup.rs shows\n' ;;
  esac
}

# How somebody starts the engine that install_command names.
engine_command() {
  local sudo=''
  if [ "$(id -u)" -ne 0 ]; then sudo='sudo '; fi
  case $(package_manager) in
    dnf) if [ -n "$sudo" ]; then
      printf 'systemctl --user enable --now podman.socket\n'
    else
      printf 'systemctl enable --now podman.socket\n'
    fi ;;
    apk) printf '%src-update add docker boot && %sservice docker start\n' "$sudo" "$sudo" ;;
    *) printf '%ssystemctl enable --now docker\n' "$sudo" ;;
  esac
}

# Names what scripts/up lacks, all at once, where nothing is installed, and ends it.
check_host() {
  if installs_packages; then return; fi
  local missing=() compiler lines=()
  have curl || missing+=(curl)
  if ! have flock || ! have setsid; then missing+=(util-linux); fi
  if [ -z "${DOCKER_HOST-}" ] && ! have docker && ! have dockerd && ! have podman; then
    missing+=(docker.io)
    lines+=("$(engine_command)")
  fi
  mapfile -t compiler < <(missing_compiler)
  missing+=("${compiler[@]}")
  # objcopy and objdump, for the images.
  if ! have objcopy || ! have objdump; then missing+=(binutils); fi
  if ! have node || ! have npm; then missing+=(nodejs npm); fi
  has_python || missing+=(python3 python3-venv)
  if [ "${#missing[@]}" -gt 0 ]; then lines=("$(install_command "${missing[@]}")" "${lines[@]}"); fi
  rust_is_new || lines+=("$(rust_command)    # Rust $rust_wanted or newer")
  if [ "${#lines[@]}" -eq 0 ]; then return; fi
  {
    say "This is $(os_name), where the scripts install nothing. Something is missing. To get it:"
    say
    printf '  %s\n' "${lines[@]}"
    say
  } >&2
  die "start this again once that is done"
}
