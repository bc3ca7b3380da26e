# shellcheck shell=sh
# Says what holds for a worker's container on this node, a fact a line. Runs in one. Its arguments are the hash of an earlier
# report, and how many processes to try where the limit stands in a control group that no container sees.
limit() {
  fact=$1
  shift
  for file in "$@"; do
    if [ -r "/sys/fs/cgroup/$file" ]; then
      echo "$fact: $(cat "/sys/fs/cgroup/$file")"
      return
    fi
  done
}
processes() {
  mkfifo /tmp/probe && exec 9<> /tmp/probe || return
  # A shell that cannot fork ends, so a second one counts.
  made=$(
    n=0
    while [ "$n" -lt "$1" ]; do
      (read -r _ <&9) > /dev/null 2>&1 &
      n=$((n + 1))
      echo "$n"
    done 2> /dev/null | tail -n 1
  )
  n=${made:-0}
  while [ "$n" -gt 0 ]; do
    echo >&9
    n=$((n - 1))
  done
  if [ "${made:-0}" -lt "$1" ]; then echo 'Processes: limited'; else echo 'Processes: unlimited'; fi
}
report() {
  grep -E '^(Uid|CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
  grep -E '^Max core file size' /proc/self/limits | sed 's/^Max core file size/Core:/'
  while read -r _ at type options _; do
    # Where an overlay's layers are differs from container to container.
    case $at in
      / | /tmp | /dev/shm) echo "Mount $at: $type,${options%%,lowerdir=*}" ;;
    esac
  done < /proc/self/mounts
  limit Pids pids.max pids/pids.max
  limit Memory memory.max memory/memory.limit_in_bytes
  limit MemoryAndSwap memory/memory.memsw.limit_in_bytes
  limit MemorySwap memory.swap.max
  grep -E '^SwapTotal:' /proc/meminfo
  if unshare --user true 2> /dev/null; then echo 'UserNamespaces: usable'; else echo 'UserNamespaces: refused'; fi
}
text=$(report)
hash=$(printf '%s' "$text" | sha256sum)
hash=${hash%% *}
printf '%s\n' "$text"
# Nothing can be started any more after this.
if [ -n "$2" ]; then processes "$2"; fi
printf 'Hash: %s\n' "$hash"
# An exit code reaches the manager also where what is printed does not.
if [ -n "$hash" ] && [ "$hash" = "$1" ]; then exit 42; fi
