//! The kernel's count of processes it killed in this container because memory ran out.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// Where the count stands in control groups v2, as a container sees its own group.
const EVENTS: &str = "/sys/fs/cgroup/memory.events";
/// And in v1.
const CONTROL: &str = "/sys/fs/cgroup/memory/memory.oom_control";
/// Time between two looks: where the kernel does not tell of changes, and where it tells of many, as of each time that memory is short.
const LOOK: Duration = Duration::from_secs(1);

/// Processes killed so far, or `None` where no memory group is to be seen.
pub(crate) fn kills() -> Option<u64> {
    [EVENTS, CONTROL].iter().find_map(|path| read(&File::open(path).ok()?))
}

/// The same count, to be followed.
pub(crate) enum KillCount {
    /// The kernel tells of each change of the file.
    Told(AsyncFd<File>),
    /// It does not.
    Looked(File),
}

impl KillCount {
    /// None where no memory group is to be seen. To be called within a runtime.
    pub(crate) fn open() -> Option<Self> {
        let opened = |path: &str| File::open(path).ok().filter(|file| read(file).is_some());
        let told = opened(EVENTS).and_then(|file| tell(file).ok());
        told.or_else(|| opened(EVENTS).or_else(|| opened(CONTROL)).map(Self::Looked))
    }

    /// Processes killed so far.
    pub(crate) fn read(&self) -> Option<u64> {
        match self {
            Self::Told(file) => read(file.get_ref()),
            Self::Looked(file) => read(file),
        }
    }

    /// Waits until another look at it is worth while.
    pub(crate) async fn changed(&self) {
        sleep(LOOK).await;
        if let Self::Told(file) = self
            && let Ok(mut ready) = file.ready(Interest::PRIORITY).await
        {
            // Before the count is read: a change after that is told again.
            ready.clear_ready();
        }
    }
}

/// Has the kernel tell of each change of a file.
/// Errors: for a file of which it does not.
#[expect(
    deprecated,
    reason = "what would take its place is unsafe: it trusts its caller that a file stays the same descriptor"
)]
fn tell(file: File) -> std::io::Result<KillCount> {
    AsyncFd::with_interest(file, Interest::PRIORITY).map(KillCount::Told)
}

fn read(mut file: &File) -> Option<u64> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    parse(&text)
}

/// Finds the `oom_kill` line; both cgroup versions write it as key, space, number.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use rustix::net::{SendFlags, send};
    use tokio::time::{Instant, timeout};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

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

    #[tokio::test(start_paused = true)]
    async fn a_count_of_which_the_kernel_tells_is_not_looked_at_before() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut kernel = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Urgent data of a socket is told in the same way.
        let file = File::from(OwnedFd::from(listener.accept().unwrap().0));
        let count = tell(file).unwrap();
        kernel.write_all(b"x").unwrap();
        assert!(timeout(HOUR, count.changed()).await.is_err(), "nothing is urgent");
        for _ in 0..2 {
            send(&kernel, b"!", SendFlags::OOB).unwrap();
            count.changed().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_of_which_it_does_not_is_looked_at_each_second() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(tell(file.try_clone().unwrap()).is_err(), "a plain file has no changes to tell of");
        file.write_all(b"oom_kill_disable 0\noom_kill 1\n").unwrap();
        let count = KillCount::Looked(file.try_clone().unwrap());
        assert_eq!(count.read(), Some(1));
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"oom_kill 2\n").unwrap();
        let begun = Instant::now();
        count.changed().await;
        assert_eq!((count.read(), begun.elapsed()), (Some(2), LOOK));
    }
}
