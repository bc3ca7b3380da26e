# shellcheck shell=bash
# Builds what a cluster is made of, from Debian's packages. Nothing is installed. scripts/kubernetes sources this file.
# shellcheck disable=SC2154 # scripts/lib.sh sets it

# The packages of which only files are taken: the compiler, one library that the source has too old, etcd and kubectl, and
# the programs that give Pods their network.
cluster_packages=(golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev etcd-server kubernetes-client
  containernetworking-plugins)

# One program that is the apiserver, the controller manager, the scheduler or the kubelet, by the name that it is started
# under: it is linked once, and less than half as large as four.
cluster_program='package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	rand.Seed(time.Now().UnixNano())
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = manager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand()
	default:
		fmt.Fprintln(os.Stderr, "there is no program of this name here:", name)
		os.Exit(64)
	}
	logs.InitLogs()
	defer logs.FlushLogs()
	if command.Execute() != nil {
		os.Exit(1)
	}
}
'

# What holds a Pod's namespaces: it waits for its end.
cluster_pause='#include <signal.h>
#include <unistd.h>
static void end(int signal) { (void)signal; _exit(0); }
int main(void) {
  signal(SIGTERM, end);
  signal(SIGINT, end);
  for (;;) pause();
}
'

# The version of Debian's source of Kubernetes; nothing where apt knows none.
cluster_version() { apt-cache policy kubernetes-client 2> /dev/null | sed -n 's/^ *Candidate: *\([0-9].*\)/\1/p'; }

# cluster_sources FOLDER: this machine's own apt sources there, for sources instead of packages.
cluster_sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -e "$file" ]; then sed -n 's/^deb \(.*\)$/deb-src \1/p' "$file"; fi
  done > "$1/sources.list"
  mkdir -p "$1/sources.list.d"
  for file in /etc/apt/sources.list.d/*.sources; do
    if [ -e "$file" ]; then sed 's/^Types:.*/Types: deb-src/' "$file" > "$1/sources.list.d/${file##*/}"; fi
  done
}

# fetch_cluster FOLDER: the packages, unpacked into FOLDER/unpacked, and the source of Kubernetes, into FOLDER/source.
fetch_cluster() {
  local folder=$1 package lists=()
  mkdir -p "$folder/debs" "$folder/apt/lists/partial" "$folder/unpacked"
  cd "$folder/debs" || return
  apt-get download -q "${cluster_packages[@]}" || return
  for package in *.deb; do
    dpkg-deb --extract "$package" "$folder/unpacked" || return
  done
  cluster_sources "$folder/apt"
  lists=(-o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts="$folder/apt/sources.list.d"
    -o Dir::State::Lists="$folder/apt/lists" -o APT::Get::List-Cleanup=false)
  apt-get "${lists[@]}" update -q || return
  apt-get "${lists[@]}" source -q --download-only "kubernetes=$cluster_source" || return
  dpkg-source --no-check --extract ./*.dsc "$folder/source"
}

# compile_cluster FOLDER: the program, as FOLDER/kubernetes.
compile_cluster() {
  local folder=$1 packages version
  local -x GOROOT=$folder/unpacked/usr/lib/go-1.19 GOPATH=$folder/go GOCACHE=$folder/gocache GOFLAGS='' GOTMPDIR=$folder/tmp
  local -x GO111MODULE=off GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0
  local go=$GOROOT/bin/go
  mkdir -p "$GOPATH/src/k8s.io" "$GOTMPDIR"
  mv "$folder/source" "$GOPATH/src/k8s.io/kubernetes"
  cd "$GOPATH/src/k8s.io/kubernetes" || return
  # The source's own copy crashes in programs of this compiler when a map is written as JSON.
  local library=github.com/modern-go/reflect2
  rm "vendor/$library"/*.{go,s}
  cp "$folder/unpacked/usr/share/gocode/src/$library"/*.{go,s} "vendor/$library/" || return
  rm -f "vendor/$library"/*_test.go

  "$go" build -p 2 -o "$folder/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen || return
  packages=$(find -L vendor/k8s.io pkg cmd plugin -name '*.go' -not -path '*/_examples/*' -not -path '*/testdata/*' \
    -not -path 'vendor/k8s.io/code-generator/*' -not -path 'vendor/k8s.io/sample-apiserver/*' \
    -exec grep -l '^// *+k8s:openapi-gen=' {} + | sed 's|/[^/]*$||' | LC_ALL=C sort -u | sed 's|^|k8s.io/kubernetes/|' | paste -sd ,)
  "$folder/openapi-gen" --logtostderr --input-dirs "$packages" --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-file-base zz_generated.openapi --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    --output-base "$GOPATH/src" --report-filename "$folder/openapi-report" || return
  mkdir -p cmd/warmpool-kubernetes
  printf '%s' "$cluster_program" > cmd/warmpool-kubernetes/main.go
  version=$(sed -n 's/.*really\([0-9.]*\).*/v\1/p; t; s/^\([0-9.]*\).*/v\1/p' <<< "$cluster_source")
  local flags="-s -w" package
  for package in client-go/pkg component-base; do
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package/version.gitVersion=$version"
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package/version.gitMajor=$(cut -d . -f 1 <<< "${version#v}")"
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package/version.gitMinor=$(cut -d . -f 2 <<< "$version")"
  done
  "$go" build -p 2 -trimpath -tags providerless,nokmem -ldflags "$flags" -o "$folder/kubernetes" ./cmd/warmpool-kubernetes
}

cluster_failed() {
  tail -n 20 "$2" >&2
  die "Kubernetes could not be $1; the whole log is $2"
}

# build_cluster FOLDER: programs in FOLDER/bin, those for Pods' network in FOLDER/cni, and the pause program.
build_cluster() {
  local folder=$1 work=$1.work name log=$state/kubernetes-build.log
  rm -rf "$work"
  mkdir -p "$folder/bin" "$folder/cni" "$work"
  say "Fetching Debian's source of Kubernetes and a compiler (140 MB)"
  (fetch_cluster "$work") > "$log" 2>&1 || cluster_failed "fetched" "$log"
  say "Compiling Kubernetes (three minutes on two quiet processors, once)"
  (compile_cluster "$work") >> "$log" 2>&1 || cluster_failed "built" "$log"
  install "$work/kubernetes" "$folder/bin/kubernetes"
  for name in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    ln -s kubernetes "$folder/bin/$name"
  done
  install "$work/unpacked/usr/bin/etcd" "$work/unpacked/usr/bin/kubectl" "$folder/bin/"
  for name in bridge host-local loopback; do install "$work/unpacked/usr/lib/cni/$name" "$folder/cni/"; done
  printf '%s' "$cluster_pause" > "$work/pause.c"
  cc -static -Os -s -o "$folder/pause" "$work/pause.c"
  rm -rf "$work"
}

# Leaves the folder of what is built in $cached. What was built once is used, whatever apt knows by now.
ensure_cluster() {
  local recipe found
  recipe=$(sha256sum < scripts/cluster/build.sh | cut -c 1-16)
  for found in "${XDG_CACHE_HOME:-$HOME/.cache}"/warmpool/kubernetes-"$(uname -m)"-*-"$recipe"; do
    # shellcheck disable=SC2034 # what sources this file uses it
    if [ -d "$found" ]; then cached=$found && return; fi
  done
  have apt-get || skipped "there is no apt-get here to fetch Kubernetes' source with"
  cluster_source=$(cluster_version)
  if [ -z "$cluster_source" ]; then
    as_root apt-get update -q >> "$state/apt.log" 2>&1 || true
    cluster_source=$(cluster_version)
  fi
  case $cluster_source in
    1.20.*) ;;
    *) skipped "apt has Kubernetes ${cluster_source:-not at all} here, and this builds the 1.20 of Debian 12" ;;
  esac
  need dpkg-source:dpkg-dev cc:gcc
  if [ ! -e /usr/include/stdio.h ]; then packages libc6-dev; fi
  cache "kubernetes-$(uname -m)-$cluster_source-$recipe" build_cluster
}
