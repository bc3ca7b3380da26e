# shellcheck shell=bash
# The cluster's processes, addresses, keys and control plane. scripts/kubernetes sources this file; $dir is the cluster's folder.
# shellcheck disable=SC2154 # that script sets what its arguments say

# --- Processes ---------------------------------------------------------------------------------------------------------

# The time at which a process started, which tells it from a later one with its number; nothing if there is none.
started_at() { sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -d ' ' -f 20 || true; }

# remember NAME PID
remember() { printf '%s %s\n' "$2" "$(started_at "$2")" > "$dir/pids/$1"; }

# The number of the process with this NAME, if it runs.
lives() {
  local pid start
  read -r pid start 2> /dev/null < "$dir/pids/$1" || return 1
  [ -n "$start" ] && [ "$(started_at "$pid")" = "$start" ] || return 1
  ! grep -qs '^State:[[:space:]]*[ZX]' "/proc/$pid/status"
}

pid_of() { cut -d ' ' -f 1 "$dir/pids/$1"; }
# children NAME: the numbers of the processes that this one started.
children() { cat "/proc/$(pid_of "$1")/task/$(pid_of "$1")/children"; }

# launch NAME COMMAND…: starts a process that outlives this script.
launch() {
  local name=$1
  shift
  (close_descriptors && exec setsid "$@") >> "$dir/logs/$name.log" 2>&1 < /dev/null &
  remember "$name" $!
  # Its end is no news to this shell.
  disown
}

# end_process NAME: at once.
end_process() {
  local tries
  if lives "$1"; then
    kill -KILL "$(pid_of "$1")" 2> /dev/null || true
    for ((tries = 0; tries < 500; tries++)); do
      lives "$1" || break
      sleep 0.02
    done
  fi
  rm -f "$dir/pids/$1"
}

# within SECONDS WHAT COMMAND…: waits until the command succeeds.
within() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || die "not in time: $what; logs are in $dir/logs"
    sleep 0.1
  done
}

# --- Addresses ---------------------------------------------------------------------------------------------------------

# Clusters that can be on one machine.
cluster_numbers=30

# The number of this cluster, on which names and addresses depend.
number() { cat "$dir/number"; }
space() { printf 'wpkube%s-%s\n' "$(number)" "$1"; }
network() { printf '10.%s\n' "$((220 + $(number)))"; }
apiserver_address() { printf '%s.254.10\n' "$(network)"; }
node_address() { printf '%s.254.1%s\n' "$(network)" "$1"; }
group() { printf 'warmpool-kubernetes%s\n' "$(number)"; }
# The address of the Service "kubernetes", which Pods are told.
service_address() { printf '%s.100.1\n' "$(network)"; }

# The first number that no other cluster has: making the namespace of its switch is what takes it.
take_number() {
  local number
  for ((number = 1; number <= cluster_numbers; number++)); do
    if ip netns add "wpkube$number-hub" 2> /dev/null; then
      printf '%s\n' "$number" > "$dir/number"
      return
    fi
  done
  die "there are $cluster_numbers clusters on this machine already: ip netns list"
}

# The switch in a namespace, which the firewall of this machine does not see, a wire to this machine and one to the control plane.
wire_hub() {
  local hub outside
  hub=$(space hub) outside=wpkube$(number)-out
  ip -n "$hub" link add switch type bridge
  ip -n "$hub" link set switch up
  ip link delete "$outside" 2> /dev/null || true
  ip link add "$outside" type veth peer name outside netns "$hub"
  ip address add "$(network).254.1/24" dev "$outside"
  ip link set "$outside" up
  ip -n "$hub" link set outside master switch up
  wire control "$(apiserver_address)"
  ip -n "$(space control)" address add "$(service_address)/32" dev lo
  ip route add "$(service_address)/32" via "$(apiserver_address)"
}

# wire NAME ADDRESS: a namespace, and its wire to the switch.
wire() {
  local space hub
  space=$(space "$1") hub=$(space hub)
  ip netns delete "$space" 2> /dev/null || true
  ip netns add "$space"
  ip -n "$space" link set lo up
  ip -n "$space" link add eth0 type veth peer name "$1" netns "$hub"
  ip -n "$hub" link set "$1" master switch up
  ip -n "$space" address add "$2/24" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" route add default via "$(network).254.1"
}

# Routes go with the wire to this machine.
unwire() {
  local space
  ip link delete "wpkube$(number)-out" 2> /dev/null || true
  for space in $(ip netns list | cut -d ' ' -f 1); do
    case $space in "wpkube$(number)-hub") ;; "wpkube$(number)-"*) ip netns delete "$space" || true ;; esac
  done
  # This one last: it is what holds the number.
  ip netns delete "$(space hub)" 2> /dev/null || true
}

# --- Keys --------------------------------------------------------------------------------------------------------------

# certificate NAME SUBJECT [EXTENSION]: a key and a certificate of the cluster's own authority.
certificate() {
  local name=$1 subject=$2 extension=${3-extendedKeyUsage=clientAuth}
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$subject" -keyout "$name.key" -out "$name.csr"
  openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$name.crt" -extfile <(printf '%s\n' "$extension")
  rm "$name.csr"
}

# kubeconfig NAME: what the bearer of that certificate connects with, on standard output.
kubeconfig() {
  local keys=$dir/keys
  cat << END
apiVersion: v1
kind: Config
clusters:
  - name: warmpool
    cluster: { server: "https://$(apiserver_address)", certificate-authority-data: $(base64 -w 0 "$keys/ca.crt") }
users:
  - name: $1
    user: { client-certificate-data: $(base64 -w 0 "$keys/$1.crt"), client-key-data: $(base64 -w 0 "$keys/$1.key") }
contexts:
  - { name: warmpool, context: { cluster: warmpool, user: $1 } }
current-context: warmpool
END
}

make_keys() {
  (
    umask 077
    cd "$dir/keys" || exit
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=warmpool-test-cluster -keyout ca.key -out ca.crt
    certificate apiserver /CN=kube-apiserver "subjectAltName=IP:$(apiserver_address),IP:$(service_address),IP:127.0.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
    certificate admin /O=system:masters/CN=admin
    certificate kubelet-client /O=system:masters/CN=kube-apiserver
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    for ((node = 1; node <= nodes; node++)); do certificate "node-$node" "/O=system:nodes/CN=system:node:node-$node"; done
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out accounts.key
    openssl pkey -in accounts.key -pubout -out accounts.pub
    kubeconfig admin > "$dir/kubeconfig"
    for name in controller-manager scheduler; do kubeconfig "$name" > "$name.kubeconfig"; done
    for ((node = 1; node <= nodes; node++)); do kubeconfig "node-$node" > "node-$node.kubeconfig"; done
  ) 2>> "$dir/logs/keys.log"
}

# --- The control plane -------------------------------------------------------------------------------------------------

programs() { cat "$dir/programs"; }
kubectl() { "$dir/bin/kubectl" --kubeconfig "$dir/kubeconfig" --cache-dir "$dir/etc/kubectl" "$@"; }

# control NAME PROGRAM ARGUMENT…: starts a program of the control plane.
control() {
  local name=$1 file
  file=$(programs)/bin/$2
  shift 2
  launch "$name" nsenter --net="/run/netns/$(space control)" "$file" "$@"
}

start_etcd() {
  # Nothing here is to survive a loss of power.
  control etcd etcd --data-dir "$dir/etcd" --unsafe-no-fsync --log-outputs stderr --logger zap \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster default=http://127.0.0.1:2380
}

start_apiserver() {
  local keys=$dir/keys timings=()
  if [ "$(< "$dir/short")" = yes ]; then
    timings=(--default-not-ready-toleration-seconds 1 --default-unreachable-toleration-seconds 1)
  fi
  control apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 443 --advertise-address "$(apiserver_address)" \
    --cert-dir "$dir/etc" --tls-cert-file "$keys/apiserver.crt" --tls-private-key-file "$keys/apiserver.key" --client-ca-file "$keys/ca.crt" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --kubelet-client-certificate "$keys/kubelet-client.crt" --kubelet-client-key "$keys/kubelet-client.key" \
    --kubelet-preferred-address-types InternalIP --service-cluster-ip-range "$(network).100.0/24" \
    --service-account-key-file "$keys/accounts.pub" --service-account-signing-key-file "$keys/accounts.key" \
    --service-account-issuer https://kubernetes.default.svc "${timings[@]}"
}

apiserver_answers() { within 90 "the apiserver is ready" kubectl get --raw /readyz; }

start_managers() {
  local keys=$dir/keys timings=()
  if [ "$(< "$dir/short")" = yes ]; then
    timings=(--node-monitor-period 1s --node-monitor-grace-period 4s --node-startup-grace-period 20s)
  fi
  control controller-manager kube-controller-manager --kubeconfig "$keys/controller-manager.kubeconfig" --leader-elect=false \
    --authentication-kubeconfig "$keys/controller-manager.kubeconfig" --authorization-kubeconfig "$keys/controller-manager.kubeconfig" \
    --cert-dir "$dir/etc" --use-service-account-credentials --root-ca-file "$keys/ca.crt" \
    --service-account-private-key-file "$keys/accounts.key" "${timings[@]}"
  control scheduler kube-scheduler --kubeconfig "$keys/scheduler.kubeconfig" --leader-elect=false \
    --authentication-kubeconfig "$keys/scheduler.kubeconfig" --authorization-kubeconfig "$keys/scheduler.kubeconfig" --cert-dir "$dir/etc"
}

# Ends all that runs, and removes all that was made. Nothing is left but, if wanted, the logs.
end_cluster() {
  local process part
  if [ ! -e "$dir/number" ]; then
    rm -rf "${dir:?}/pids"
    return
  fi
  for process in "$dir"/pids/*; do
    # A node's own first, with all that runs there.
    case $process in */node-*) end_process "${process##*/}" ;; esac
  done
  for process in "$dir"/pids/*; do
    if [ -e "$process" ]; then end_process "${process##*/}"; fi
  done
  remove_groups
  unwire
  for part in kubeconfig keys pids etc etcd nodes bin size short programs number; do rm -rf "${dir:?}/$part"; done
  if [ "$keep_logs" = no ]; then rm -rf "${dir:?}/logs"; fi
  rmdir --ignore-fail-on-non-empty "$dir" 2> /dev/null || true
}
