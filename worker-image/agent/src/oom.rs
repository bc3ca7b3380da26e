//! The kernel's count of processes it killed in this container because memory ran out.

use std::path::Path;

/// Where the count stands: cgroup v2, then v1, as a container sees its own group.
const FILES: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// Processes killed so far, or `None` where no memory group is to be seen.
pub(crate) fn kills() -> Option<u64> {
    FILES.iter().find_map(|file| parse(&std::fs::read_to_string(Path::new(file)).ok()?))
}

/// Finds the `oom_kill` line; both cgroup versions write it as key, space, number.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_both_cgroup_versions() {
        assert_eq!(parse("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), Some(5));
    }

    #[test]
    fn an_old_kernel_has_no_count() {
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\n"), None);
        assert_eq!(parse(""), None);
    }
}
