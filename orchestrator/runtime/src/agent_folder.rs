//! The folder that the daemon shares with one worker: its agent's socket is there, out of everybody else's reach.
//!
//! The agent may write there until its socket exists, which is before it has started any other program. Then the folder
//! is closed, so that nothing in the container can fill this disk or put another file in the socket's place. The container's
//! `/etc/hosts` is there as well.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use parking_lot::RwLock;
use tokio::time::{sleep, timeout};
use warmpool_protocol::{SOCKET, WORKER_USER};

use warmpool_core::ids::WorkerId;

/// The folder of all folders, in the data directory.
const AGENTS: &str = "agents";
/// The name of the file that is a container's `/etc/hosts`.
const HOSTS: &str = "hosts";
/// What it says. Drivers look for their browsers at `localhost`.
const HOSTS_TEXT: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
/// The agent makes its socket before it does anything else.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two looks for it.
const SOCKET_RETRY: Duration = Duration::from_millis(2);

/// Where the folders are.
#[derive(Debug)]
pub(super) struct AgentFolders {
    root: PathBuf,
    /// The same as the engine knows it. It differs where the daemon itself runs in a container.
    root_on_host: RwLock<PathBuf>,
}

impl AgentFolders {
    /// Folders below this data directory.
    pub(super) fn below(data_dir: &Path) -> Self {
        // The engine wants to know a path from the root.
        let root = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let root = root.join(AGENTS);
        Self { root_on_host: RwLock::new(root.clone()), root }
    }

    /// Sets the path by which the engine knows the data directory.
    pub(super) fn known_to_the_engine_below(&self, data_dir: &Path) {
        *self.root_on_host.write() = data_dir.join(AGENTS);
    }

    /// The worker's folder.
    pub(super) fn folder(&self, worker: &WorkerId) -> PathBuf {
        self.root.join(worker.as_str())
    }

    /// The worker's folder, as the engine knows it.
    pub(super) fn on_host(&self, worker: &WorkerId) -> PathBuf {
        self.root_on_host.read().join(worker.as_str())
    }

    /// The worker's `/etc/hosts`, as the engine knows it.
    pub(super) fn hosts_on_host(&self, worker: &WorkerId) -> PathBuf {
        self.on_host(worker).join(HOSTS)
    }

    /// The socket of the worker's agent.
    pub(super) fn socket(&self, worker: &WorkerId) -> PathBuf {
        self.folder(worker).join(SOCKET)
    }

    /// Creates the folder of a worker that is about to start. A folder that exists stays as it is.
    /// Fails where this process is the workers' own user, to whom no folder of its own is closed.
    pub(super) fn make(&self, worker: &WorkerId) -> io::Result<()> {
        check_user(geteuid().as_raw())?;
        // Nobody else on this host gets further than here, whatever a folder inside allows.
        DirBuilder::new().mode(0o700).recursive(true).create(&self.root)?;
        let folder = self.folder(worker);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Ok(()) => {
                let hosts = folder.join(HOSTS);
                fs::write(&hosts, HOSTS_TEXT)?;
                // Whatever this process takes away from the modes of new files, the agent is another user.
                fs::set_permissions(&hosts, Permissions::from_mode(0o644))?;
                fs::set_permissions(&folder, Permissions::from_mode(0o777))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for the agent's socket, and closes the folder to everything else. Returns `false` when none came.
    pub(super) async fn close(&self, worker: &WorkerId) -> io::Result<bool> {
        let socket = self.socket(worker);
        let appears = async {
            while !fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket()) {
                sleep(SOCKET_RETRY).await;
            }
        };
        if timeout(SOCKET_TIMEOUT, appears).await.is_err() {
            return Ok(false);
        }
        fs::set_permissions(self.folder(worker), Permissions::from_mode(0o711))?;
        Ok(true)
    }

    /// Removes a worker's folder, if it had one.
    pub(super) fn remove(&self, worker: &WorkerId) {
        remove(&self.folder(worker));
    }

    /// Removes the folders of all workers but these.
    pub(super) fn keep_only(&self, workers: &HashSet<&WorkerId>) {
        let Ok(folders) = fs::read_dir(&self.root) else { return };
        for folder in folders.flatten() {
            let is_kept = folder.file_name().to_str().is_some_and(|name| workers.contains(&WorkerId::from(name)));
            if !is_kept {
                remove(&folder.path());
            }
        }
    }
}

/// Refuses a daemon that is its workers' user.
fn check_user(user: u32) -> io::Result<()> {
    if user == WORKER_USER {
        let problem = format!("the daemon runs as user {WORKER_USER}, which is that of workers: run it as another");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(())
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "a worker's folder could not be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[tokio::test]
    async fn a_folder_is_closed_once_the_socket_is_there() {
        let data = tempfile::tempdir().unwrap();
        let folders = AgentFolders::below(data.path());
        let worker = WorkerId::from("w1");
        folders.make(&worker).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folders.root), 0o700);
        assert_eq!(mode(&folders.folder(&worker)), 0o777);
        assert_eq!(mode(&folders.hosts_on_host(&worker)), 0o644);
        let _listener = UnixListener::bind(folders.socket(&worker)).unwrap();
        assert!(folders.close(&worker).await.unwrap());
        assert_eq!(mode(&folders.folder(&worker)), 0o711);
        folders.make(&worker).unwrap();
        assert_eq!(mode(&folders.folder(&worker)), 0o711, "a closed folder stays closed");

        let gone = WorkerId::from("w2");
        folders.make(&gone).unwrap();
        folders.keep_only(&HashSet::from([&worker]));
        assert!(folders.folder(&worker).exists() && !folders.folder(&gone).exists());
        folders.remove(&worker);
        folders.remove(&worker);
        assert!(!folders.folder(&worker).exists());
    }

    #[test]
    fn no_daemon_owns_what_its_workers_may_write() {
        let error = check_user(WORKER_USER).unwrap_err();
        assert!(error.to_string().contains("run it as another"), "{error}");
        for user in [0, 1000] {
            check_user(user).unwrap();
        }
    }
}
