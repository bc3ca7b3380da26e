# Says what holds for a worker's container on this node, a fact a line. Runs in one.
grep -E '^(Uid|CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
grep -E '^Max core file size' /proc/self/limits | sed 's/^Max core file size/Core:/'
while read -r _ at type options _; do
  case $at in
    / | /tmp | /dev/shm) echo "Mount $at: $type,$options" ;;
  esac
done < /proc/self/mounts
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
limit Pids pids.max pids/pids.max
limit Memory memory.max memory/memory.limit_in_bytes
limit MemoryAndSwap memory/memory.memsw.limit_in_bytes
limit MemorySwap memory.swap.max
grep -E '^SwapTotal:' /proc/meminfo
if unshare --user true 2> /dev/null; then echo 'UserNamespaces: usable'; else echo 'UserNamespaces: refused'; fi
echo 'End: yes'
