//! The control group of a container, by which the kernel pages its memory out.
//!
//! Only memory that no file holds is meant: what browsers have written. The pages of their programs serve all workers, and would be read
//! from the disk again. Groups of version 2 take an amount and a preference for such memory. Those of version 1 take neither, and go
//! on until nothing is left; so a program of its own writes there, and is killed as soon as that memory is out.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::sleep;

/// The group of a process, as the kernel tells it.
const GROUPS: &str = "/proc/{}/cgroup";
/// Where groups are mounted.
const MOUNTS: &str = "/proc/self/mountinfo";
/// What the kernel says of the host's memory.
const MEMORY: &str = "/proc/meminfo";
/// The highest preference for memory that no file holds.
const SWAP_FIRST: &str = "200";
/// How often version 1 is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What the last pages of a stopped container may amount to, in bytes: the agent's own, which runs.
const REST: u64 = 4 << 20;

/// Whether this process may have the kernel page containers out, by its own control group.
/// Errors: what is in the way.
pub fn may_page_out() -> io::Result<()> {
    let own = fs::read_to_string(GROUPS.replace("{}", "self"))?;
    let group = MemoryGroup::find(&own, &fs::read_to_string(MOUNTS)?, "").ok_or(ErrorKind::NotFound)?;
    let file = match group {
        MemoryGroup::One(folder) => folder.join("memory.force_empty"),
        MemoryGroup::Two(folder) => folder.join("memory.reclaim"),
    };
    let opened = fs::OpenOptions::new().write(true).open(&file);
    opened.map(drop).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// The memory of one control group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemoryGroup {
    /// Version 1, in this folder.
    One(PathBuf),
    /// Version 2, in this folder.
    Two(PathBuf),
}

impl MemoryGroup {
    /// Finds the group of a container by its first process.
    /// Errors: where the kernel tells of no such process, or of one of another container: this process may have numbers of its own.
    pub(super) fn of(process: i64, container: &str) -> io::Result<Self> {
        let groups = fs::read_to_string(GROUPS.replace("{}", &process.to_string()))?;
        Self::find(&groups, &fs::read_to_string(MOUNTS)?, container).ok_or_else(|| {
            let what = "the container's control group is not to be seen from where the daemon runs";
            io::Error::new(ErrorKind::NotFound, what)
        })
    }

    fn find(groups: &str, mounts: &str, container: &str) -> Option<Self> {
        let of_memory =
            |line: &&str| line.split(':').nth(1).is_some_and(|names| names.split(',').any(|it| it == "memory"));
        let (version, line) = match groups.lines().find(of_memory) {
            Some(line) => (1, line),
            None => (2, groups.lines().find(|line| line.starts_with("0::"))?),
        };
        let path = line.splitn(3, ':').nth(2).filter(|path| path.contains(container))?;
        let folder = mounts.lines().find_map(|mount| below(mount, version, path))?;
        Some(if version == 1 { Self::One(folder) } else { Self::Two(folder) })
    }

    /// How many bytes of memory no file holds.
    /// Errors: where the group is gone.
    fn unbacked(&self) -> io::Result<u64> {
        let (folder, names) = match self {
            Self::One(folder) => (folder, ["total_rss", "total_shmem"]),
            Self::Two(folder) => (folder, ["anon", "shmem"]),
        };
        let stat = fs::read_to_string(folder.join("memory.stat"))?;
        let fields = stat.lines().filter_map(|line| line.split_once(' '));
        Ok(fields.filter(|(name, _)| names.contains(name)).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum())
    }

    /// Pages the group's memory out, and returns how many bytes went. To be dropped when the container is needed: then no more go,
    /// or with version 2 no more than were there.
    /// Errors: where the daemon may not, or the swap takes no more.
    pub(super) async fn page_out(self) -> io::Result<u64> {
        let swap = free_swap(&fs::read_to_string(MEMORY)?);
        self.page_out_to(swap).await
    }

    async fn page_out_to(self, swap: u64) -> io::Result<u64> {
        let before = self.unbacked()?;
        if swap < before {
            // The kernel would take the pages of programs instead.
            return Err(io::Error::other(format!(
                "{before} bytes do not fit into the {swap} bytes of swap that are free"
            )));
        }
        match &self {
            Self::One(folder) => self.empty(folder).await?,
            Self::Two(folder) => {
                let file = folder.join("memory.reclaim");
                tokio::task::spawn_blocking(move || reclaim(&file, before)).await.map_err(io::Error::other)??;
            }
        }
        let left = self.unbacked()?;
        if left > before / 2 {
            return Err(io::Error::other(format!("{left} of {before} bytes stayed")));
        }
        Ok(before - left)
    }

    /// Version 1: has the kernel empty the group until what is meant is out.
    async fn empty(&self, folder: &Path) -> io::Result<()> {
        let _preference = Preference::for_swap(folder.join("memory.swappiness"))?;
        let mut program = Command::new("sh");
        program.args(["-c", r#"echo 0 >"$1""#, "sh"]).arg(folder.join("memory.force_empty"));
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut program = program.spawn()?;
        loop {
            tokio::select! {
                // It says that something was left over, too, by failing.
                ended = program.wait() => return ended.map(drop),
                () = sleep(LOOK_EVERY) => if self.unbacked()? < REST {
                    return program.kill().await;
                }
            }
        }
    }
}

/// Version 1: while it lives, the kernel prefers memory that no file holds. Then it does as before.
struct Preference {
    file: PathBuf,
    usual: String,
}

impl Preference {
    fn for_swap(file: PathBuf) -> io::Result<Self> {
        let usual = fs::read_to_string(&file)?;
        fs::write(&file, SWAP_FIRST)?;
        Ok(Self { file, usual })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // The group may be gone.
        let _ = fs::write(&self.file, self.usual.trim());
    }
}

/// Version 2: has the kernel reclaim so many bytes.
fn reclaim(file: &Path, bytes: u64) -> io::Result<()> {
    // Kernels before 6.9 know no preference.
    let asked = match fs::write(file, format!("{bytes} swappiness={SWAP_FIRST}")) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => fs::write(file, bytes.to_string()),
        asked => asked,
    };
    match asked {
        // Less went than was asked for.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        asked => asked,
    }
}

/// How many bytes of swap are free.
fn free_swap(memory: &str) -> u64 {
    let field = memory.lines().find_map(|line| line.strip_prefix("SwapFree:"));
    let kib: Option<u64> = field.and_then(|field| field.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or_default() * 1024
}

/// Returns the folder of a group, if this line of the kernel's list mounts groups of its version.
fn below(mount: &str, version: u8, path: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, at) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (system, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let fits = match version {
        1 => system == "cgroup" && options.split(',').any(|option| option == "memory"),
        _ => system == "cgroup2",
    };
    let path = Path::new(path).strip_prefix(root).ok().filter(|_| fits)?;
    Some(Path::new(at).join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "36 30 0:31 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu\n\
                       40 30 0:35 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
                       43 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const TWO: &str = "25 19 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_containers_group_is_found_by_what_the_kernel_says() {
        let groups = "9:memory:/docker/4f4f\n3:cpu,cpuacct:/docker/4f4f\n0::/\n";
        let found = MemoryGroup::find(groups, ONE, "4f4f");
        assert_eq!(found, Some(MemoryGroup::One("/sys/fs/cgroup/memory/docker/4f4f".into())));
        let found = MemoryGroup::find("0::/system.slice/docker-4f4f.scope\n", TWO, "4f4f");
        assert_eq!(found, Some(MemoryGroup::Two("/sys/fs/cgroup/system.slice/docker-4f4f.scope".into())));
        assert_eq!(MemoryGroup::find("0::/system.slice/docker-9a9a.scope\n", TWO, "4f4f"), None, "another container's");
        let inside = TWO.replace(" / ", " /docker/7c7c ");
        assert_eq!(MemoryGroup::find("0::/docker/4f4f\n", &inside, "4f4f"), None, "outside of what is mounted");
    }

    /// A folder like that of a group with so many bytes.
    fn folder(bytes: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let stat = format!("anon {bytes}\nfile 7\nshmem 5\ntotal_rss {bytes}\ntotal_shmem 5\n");
        fs::write(folder.path().join("memory.stat"), stat).unwrap();
        folder
    }

    #[tokio::test]
    async fn what_stays_is_an_error() {
        for version in [MemoryGroup::One, MemoryGroup::Two] {
            let folder = folder(REST * 2);
            fs::write(folder.path().join("memory.swappiness"), "60\n").unwrap();
            let group = version(folder.path().to_owned());
            let error = group.page_out_to(REST * 3).await.unwrap_err().to_string();
            assert!(error.contains("8388613 of 8388613 bytes stayed"), "{error}");
            let swappiness = fs::read_to_string(folder.path().join("memory.swappiness")).unwrap();
            assert_eq!(swappiness.trim(), "60", "it is as it was");
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_of_a_host_without_swap() {
        assert_eq!(free_swap("SwapTotal:    2048 kB\nSwapFree:      1024 kB\n"), 1 << 20);
        assert_eq!(free_swap("MemFree: 1024 kB\n"), 0);
        let folder = folder(REST);
        let error = MemoryGroup::Two(folder.path().to_owned()).page_out_to(1 << 20).await.unwrap_err().to_string();
        assert!(error.contains("do not fit into the 1048576 bytes of swap"), "{error}");
        assert!(!folder.path().join("memory.reclaim").exists());
    }

    #[test]
    fn an_amount_goes_with_its_preference() {
        let folder = folder(1);
        let file = folder.path().join("memory.reclaim");
        reclaim(&file, 4096).unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "4096 swappiness=200");
    }

    #[tokio::test]
    async fn a_group_that_is_gone_is_an_error() {
        let group = MemoryGroup::Two("/nowhere".into());
        assert_eq!(group.page_out_to(0).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
