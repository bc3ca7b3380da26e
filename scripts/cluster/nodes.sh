# shellcheck shell=bash
# The cluster's nodes: a network namespace each, and a process namespace, whose end is the end of everything on the node.
# scripts/kubernetes sources this file; $dir is the cluster's folder.
# shellcheck disable=SC2154 # that script sets what its arguments say

# The kernel settings that a kubelet wants, which are the whole machine's: nodes see files in their places.
kernel_settings=(vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000)

# The first process of a node: its folder, its name and its engine's arguments. It waits for what nobody else does.
# shellcheck disable=SC2016 # the node's shell expands it
node_program='
set -e
folder=$0 name=$1
shift
hostname "$name"
mount --bind "$folder/resolv.conf" /etc/resolv.conf
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/log" /var/log
for file in "$folder"/kernel/*; do
  setting=${file##*/}
  mount --bind "$file" "/proc/sys/${setting//=//}"
done
mount --bind "$folder/run" /run
dockerd "$@" &
while :; do
  wait || true
  sleep 1
done
'

# What starts containers where the engine may not lower a score for the killer of memory, as the sandbox of a Pod wants.
# shellcheck disable=SC2016 # so does another one this
plain_runtime='#!/bin/sh
for argument; do
  if [ "$last" = --bundle ]; then sed -i "s/\"oomScoreAdj\":-[0-9]*/\"oomScoreAdj\":0/" "$argument/config.json"; fi
  last=$argument
done
exec runc "$@"
'

# --- Images ------------------------------------------------------------------------------------------------------------

pause_image=warmpool-test/pause:1

# Where the engines' files of these images are kept, in $seed, and whether they are there, in $seeded. Nobody else makes or removes
# such files until leave_seed: two runs at once would take them from each other while nodes are planted.
find_seed() {
  local ids=''
  if [ "${#images[@]}" -gt 0 ]; then
    ids=$(docker image inspect --format '{{.Id}}' "${images[@]}") || die "an image is not here: ${images[*]}"
  fi
  seed=$(target_dir)/kubernetes/$(printf '%s\n' "${cached##*-}" "${images[@]}" "$ids" | sha256sum | cut -c 1-16)
  mkdir -p "${seed%/*}"
  exec {seed_lock}> "${seed%/*}/.lock"
  flock "$seed_lock"
  seeded=no
  # shellcheck disable=SC2034 # up asks for it
  if [ -d "$seed/overlay2" ]; then seeded=yes; fi
}

leave_seed() { exec {seed_lock}>&-; }

# Puts the images into the first node's engine, and keeps its files.
load_images() {
  local engine new folder
  engine=unix://$dir/nodes/1/run/docker.sock
  tar -C "$cached" -c pause | DOCKER_HOST='' docker -H "$engine" import --change 'ENTRYPOINT ["/pause"]' - "$pause_image" > /dev/null
  if [ "${#images[@]}" -gt 0 ]; then docker save "${images[@]}" | DOCKER_HOST='' docker -H "$engine" load > /dev/null; fi
  new=$(mktemp -d "$seed.XXXXXX")
  for folder in image overlay2; do link_folder "$dir/nodes/1/lib/docker/$folder" "$new/"; done
  if [ "$prune" = yes ]; then
    for folder in "${seed%/*}"/*; do
      if [ "$folder" != "$new" ]; then rm -rf "$folder"; fi
    done
  fi
  mv -T "$new" "$seed"
}

# Nobody writes into a layer, so that engines can share its files, where they are on one disk.
link_folder() { cp --archive --link "$1" "$2" 2> /dev/null || cp --archive "$1" "$2"; }

# plant NODE: the images, into the data of an engine that does not run yet.
plant() {
  local folder
  for folder in image overlay2; do link_folder "$seed/$folder" "$dir/nodes/$1/lib/docker/"; done
}

# --- Nodes -------------------------------------------------------------------------------------------------------------

# make_node N: its folders, files, namespace and control groups.
make_node() {
  local node=$1 folder=$dir/nodes/$1 setting runtime='' controller other timings=''
  mkdir -p "$folder"/{lib/docker,lib/kubelet/seccomp,run,log,cni,kernel}
  printf 'nameserver 127.0.0.1\n' > "$folder/resolv.conf"
  for setting in "${kernel_settings[@]}"; do
    if [ -e "/proc/sys/${setting%=*}" ]; then
      printf '%s\n' "${setting#*=}" > "$folder/kernel/$(tr / = <<< "${setting%=*}")"
    fi
  done
  cp worker-image/seccomp.json "$folder/lib/kubelet/seccomp/warmpool.json"
  # Bit 24 is what lets a process lower such a score.
  if [ $(((16#$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status) >> 24) & 1)) -eq 0 ]; then
    printf '%s' "$plain_runtime" > "$folder/runtime"
    chmod +x "$folder/runtime"
    runtime='"runtimes": { "plain": { "path": "'$folder/runtime'" } }, "default-runtime": "plain", '
  fi
  printf '{ %s"exec-opts": ["native.cgroupdriver=cgroupfs"] }\n' "$runtime" > "$folder/docker.json"
  cat > "$folder/cni/10-pods.conf" << END
{
  "cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {
    "type": "host-local", "dataDir": "/run/cni",
    "ranges": [[{ "subnet": "$(network).$node.0/24" }]], "routes": [{ "dst": "0.0.0.0/0" }]
  }
}
END
  if [ "$(< "$dir/short")" = yes ]; then
    timings=$'nodeStatusUpdateFrequency: 1s\nnodeStatusReportFrequency: 1s\nnodeLeaseDurationSeconds: 4'
  fi
  cat > "$folder/kubelet.yaml" << END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: "$dir/keys/ca.crt" } }
authorization: { mode: Webhook }
cgroupDriver: cgroupfs
cgroupRoot: /$(group)/n$node
protectKernelDefaults: true
makeIPTablesUtilChains: false
failSwapOn: false
resolvConf: /etc/resolv.conf
registryPullQPS: 0
serializeImagePulls: false
# The probe of a node starts that many processes, and worker.pids is no more.
podPidsLimit: 1024
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: { imagefs.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", memory.available: "0%" }
# As later versions do without being asked: an emptyDir in memory is as large as it says.
featureGates: { SizeMemoryBackedVolumes: true }
$timings
END
  # Kubelets that make their parents themselves would share one.
  for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller/$(group)/n$node" 2> /dev/null || true; done
  wire "node-$node" "$(node_address "$node")"
  nsenter --net="/run/netns/$(space "node-$node")" sysctl -qw net.ipv4.ip_forward=1
  # A kubelet asks there whether it is in a cloud; the answer is to come at once.
  ip -n "$(space "node-$node")" route add unreachable 169.254.0.0/16
  ip route replace "$(network).$node.0/24" via "$(node_address "$node")"
  # Not by this machine, whose firewall may forward nothing.
  ip -n "$(space "node-$node")" route add "$(service_address)/32" via "$(apiserver_address)"
  ip -n "$(space control)" route add "$(network).$node.0/24" via "$(node_address "$node")"
  for ((other = 1; other < node; other++)); do
    ip -n "$(space "node-$node")" route add "$(network).$other.0/24" via "$(node_address "$other")"
    ip -n "$(space "node-$other")" route add "$(network).$node.0/24" via "$(node_address "$node")"
  done
}

# start_engine N: the node's first process, and with it its container engine.
start_engine() {
  local node=$1 folder=$dir/nodes/$1
  launch "node-$node" nsenter --net="/run/netns/$(space "node-$node")" \
    unshare --pid --fork --kill-child --mount --mount-proc --uts \
    bash -c "$node_program" "$folder" "node-$node" --config-file "$folder/docker.json" --host unix:///run/docker.sock \
    --bridge none --iptables=false --ip6tables=false --cgroup-parent "/$(group)/n$node/docker"
}

engine_answers() {
  within 60 "the engine of node $1 answers" env DOCKER_HOST= docker -H "unix://$dir/nodes/$1/run/docker.sock" version
  # What later parts of this script enter.
  first_process "$1" > /dev/null
}

# The first process in a node's namespaces.
first_process() { children "node-$1" | cut -d ' ' -f 1; }

start_kubelet() {
  local node=$1 folder=$dir/nodes/$1 enter
  enter=$(first_process "$node")
  # The program by which it is started stays outside, and so does its end.
  launch "kubelet-$node" nsenter --target "$enter" --pid --mount --uts --net env AWS_EC2_METADATA_DISABLED=true \
    "$(programs)/bin/kubelet" --config "$folder/kubelet.yaml" --kubeconfig "$dir/keys/node-$node.kubeconfig" \
    --hostname-override "node-$node" --node-ip "$(node_address "$node")" --network-plugin cni --cni-conf-dir "$folder/cni" \
    --cni-bin-dir "$(programs)/cni" --pod-infra-container-image "$pause_image" --image-pull-progress-deadline 10s
}

stop_kubelet() {
  local child
  if ! lives "kubelet-$1"; then return; fi
  for child in $(children "kubelet-$1"); do
    kill -KILL "$child" 2> /dev/null || true
  done
  end_process "kubelet-$1"
}

node_ready() { [ "$(kubectl get node "node-$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }

node_is_ready() { within 90 "node $1 is ready" node_ready "$1"; }

# cable N up|down
cable() { ip -n "$(space hub)" link set "node-$1" "$2"; }

# Nothing that ran there sends a farewell.
kill_node() {
  cable "$1" down
  end_process "node-$1"
  end_process "kubelet-$1"
}

start_node() {
  cable "$1" up
  if ! lives "node-$1"; then
    rm -rf "$dir/nodes/$1/run" && mkdir "$dir/nodes/$1/run"
    start_engine "$1"
    engine_answers "$1"
  fi
  lives "kubelet-$1" || start_kubelet "$1"
}

# Removes the control groups that ended engines leave, as soon as the last process in them is gone.
remove_groups() {
  local controller tries=0
  for controller in /sys/fs/cgroup/*/; do
    while [ -d "$controller/$(group)" ] && [ "$tries" -lt 250 ]; do
      find "$controller/$(group)" -depth -type d -exec rmdir {} + 2> /dev/null || true
      if [ -d "$controller/$(group)" ]; then tries=$((tries + 1)) && sleep 0.02; fi
    done
  done
}
