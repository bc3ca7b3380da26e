//! What `doctor` looks at: the host, the engine, and what the configuration needs of them.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::{
    sys::statvfs::statvfs,
    unistd::{AccessFlags, access},
};

use super::port::Port;
use crate::control::Starting;
use warmpool_config::{ByteSize, Config, SelinuxType, check_ca_certificates};
use warmpool_core::instance::Instance;
use warmpool_core::tls::Tls;
use warmpool_runtime::{ClusterFacts, DockerFacts, Runtime, may_page_out};

/// Everything the checks judge.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Which file, variables and flags the settings were read of.
    pub settings: String,
    /// What the configuration needs.
    pub needs: Needs,
    /// The engine's socket file.
    pub socket: Socket,
    /// What the engine says of itself, or why it says nothing.
    pub docker: Result<DockerFacts, String>,
    /// What the cluster says where workers run on Kubernetes, or why it says nothing; none where they run elsewhere.
    pub cluster: Option<Result<ClusterFacts, String>>,
    /// The host.
    pub host: HostFacts,
    /// Whether this process may have the memory of containers paged out, or what is in the way.
    pub may_page_out: Result<(), String>,
    /// The directory of the daemon's data.
    pub data_dir: Directory,
    /// The directory of the engine's images and containers; none where the engine does not say.
    pub docker_root: Option<Directory>,
    /// The listening port.
    pub port: Port,
    /// Whether a daemon is starting on the data directory.
    pub starting: bool,
    /// Whether certificate and key can be used, or why not; none where the daemon speaks no TLS.
    pub tls: Option<Result<(), String>>,
    /// How many certificates of authorities browsers trust beside the public ones, or which file has none.
    pub authorities: Result<usize, String>,
}

/// What the configuration needs of host and engine.
#[derive(Debug, Clone)]
pub(crate) struct Needs {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Connections at once.
    pub max_connections: usize,
    /// Workers at once.
    pub max_workers: usize,
    /// Memory limit of a worker.
    pub worker_memory: ByteSize,
    /// Cores of a worker; 0 is no limit.
    pub worker_cpus: f64,
    /// Whether the browser's own sandbox is on.
    pub sandbox: bool,
    /// The container runtime that is asked for.
    pub runtime: Option<String>,
    /// The type of SELinux that is asked for.
    pub selinux_type: Option<SelinuxType>,
    /// The engine's socket.
    pub docker_socket: PathBuf,
    /// Whether agents listen on a network, which they then have to leave.
    pub leaves_network: bool,
    /// Whether the memory of workers that wait goes to swap.
    pub pages_out: bool,
    /// Free disk space below which nothing new is accepted.
    pub min_free: ByteSize,
}

/// The engine's socket file, as this process finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// Something listens there and lets us in.
    Open,
    /// There is no such file.
    Missing,
    /// There is a file that is no socket.
    OtherFile,
    /// This user may not use it.
    Denied,
    /// Nothing listens there.
    Refused,
}

/// What the kernel says. A setting is `None` where the kernel has no such file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostFacts {
    /// Whether the kernel has user namespaces at all.
    pub user_namespaces: bool,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, which Debian's kernels have.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, which Ubuntu's kernels have.
    pub apparmor_restrict_userns: Option<u64>,
    /// Files that a process may open which raises its limit as the daemon does.
    pub open_files: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Swap in bytes, used or not.
    pub swap: Option<u64>,
    /// Whether SELinux refuses what its policy does not allow; none where there is no SELinux.
    pub selinux_enforces: Option<bool>,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// Whether files can be made in it, or the directory itself be made; else the reason.
    pub writable: Result<(), String>,
    /// Free bytes of its file system.
    pub free: Option<u64>,
}

impl Facts {
    /// Looks at the host for a configuration. Changes nothing; blocks for a moment.
    pub(crate) fn gather(config: &Config, said: RuntimeFacts) -> Self {
        let RuntimeFacts { docker, cluster } = said;
        Self {
            settings: config.inputs(),
            socket: Socket::look(config.docker.host.socket()),
            docker_root: docker.as_ref().ok().map(|docker| Directory::look(&docker.root_dir)),
            docker,
            cluster,
            host: HostFacts::look(Path::new("/proc"), Path::new("/sys")),
            may_page_out: may_page_out().map_err(|error| error.to_string()),
            data_dir: Directory::look(&config.store.data_dir),
            port: Port::look(config.server.listen),
            starting: Starting::is_shown(&config.store.data_dir),
            tls: certificate(config),
            authorities: check_ca_certificates(config),
            needs: Needs::of(config),
        }
    }
}

impl Needs {
    /// What this configuration needs.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            listen: config.server.listen,
            max_connections: config.server.max_connections,
            max_workers: config.pool.max_workers,
            worker_memory: config.worker.memory,
            worker_cpus: config.worker.cpus,
            sandbox: config.worker.sandbox,
            runtime: config.docker.runtime.clone(),
            selinux_type: config.docker.selinux_type.clone(),
            docker_socket: config.docker.host.socket().to_owned(),
            leaves_network: !config.shares_folders(),
            pages_out: config.worker.page_out_after.is_some(),
            min_free: config.store.min_free,
        }
    }
}

/// What engine and cluster say of themselves.
pub(crate) struct RuntimeFacts {
    /// What the engine says, or why it says nothing.
    pub docker: Result<DockerFacts, String>,
    cluster: Option<Result<ClusterFacts, String>>,
}

impl RuntimeFacts {
    /// Asks those that the configuration names.
    pub(crate) async fn ask(config: &Arc<Config>) -> Self {
        // None before the first start, and what cannot be read the daemon itself complains of.
        let instance = instance(config).await.unwrap_or_default();
        let runtime = Runtime::new(Arc::clone(config), instance);
        let docker = runtime.engine_facts().await.map_err(|error| error.to_string());
        let cluster = match config.kubernetes.enabled {
            true => Some(runtime.cluster_facts().await.map_err(|error| error.to_string())),
            false => None,
        };
        Self { docker, cluster }
    }
}

/// The id of the instance whose data is here; none where no daemon has made one, or it cannot be read.
pub(super) async fn instance(config: &Arc<Config>) -> Option<String> {
    let config = Arc::clone(config);
    let found = tokio::task::spawn_blocking(move || Instance::find(&config.store.data_dir)).await.ok()?;
    Some(found.ok()??.id().to_owned())
}

fn certificate(config: &Config) -> Option<Result<(), String>> {
    let (cert, key) = config.server.tls_cert.as_ref().zip(config.server.tls_key.as_ref())?;
    Some(Tls::load(cert, key).map(drop).map_err(|error| error.to_string()))
}

impl Socket {
    fn look(path: &Path) -> Self {
        match UnixStream::connect(path).map_err(|error| error.kind()) {
            Ok(_) => Self::Open,
            Err(io::ErrorKind::NotFound) => Self::Missing,
            Err(io::ErrorKind::PermissionDenied) => Self::Denied,
            // A plain file refuses too.
            Err(_) => match fs::metadata(path) {
                Ok(file) if !file.file_type().is_socket() => Self::OtherFile,
                _ => Self::Refused,
            },
        }
    }
}

impl HostFacts {
    fn look(proc: &Path, sys: &Path) -> Self {
        let number = |path: &str| fs::read_to_string(proc.join(path)).ok()?.trim().parse().ok();
        let field = |path: &str, name: &str, column: usize| -> Option<u64> {
            let text = fs::read_to_string(proc.join(path)).ok()?;
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            match rest.split_whitespace().nth(column)? {
                "unlimited" => Some(u64::MAX),
                number => number.parse().ok(),
            }
        };
        Self {
            user_namespaces: proc.join("self/ns/user").symlink_metadata().is_ok(),
            max_user_namespaces: number("sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("sys/kernel/unprivileged_userns_clone"),
            apparmor_restrict_userns: number("sys/kernel/apparmor_restrict_unprivileged_userns"),
            // The soft limit stands before the hard one.
            open_files: field("self/limits", "Max open files", 1),
            memory: field("meminfo", "MemTotal:", 0).map(|kib| kib.saturating_mul(1024)),
            swap: field("meminfo", "SwapTotal:", 0).map(|kib| kib.saturating_mul(1024)),
            selinux_enforces: fs::read_to_string(sys.join("fs/selinux/enforce")).ok().map(|text| text.trim() == "1"),
        }
    }
}

impl Directory {
    fn look(path: &Path) -> Self {
        // What is not there yet is judged by the nearest directory that is, in which it would be made.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let nearest = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let writable = match nearest.is_dir() {
            false => Err(format!("{} is not a directory", nearest.display())),
            true => access(nearest, AccessFlags::W_OK | AccessFlags::X_OK)
                .map_err(|error| format!("{}: {}", nearest.display(), error.desc())),
        };
        let free = statvfs(nearest).ok().map(|disk| disk.blocks_available().saturating_mul(disk.fragment_size()));
        Self { path: path.to_owned(), writable, free }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt, net::UnixListener};

    use super::*;

    #[test]
    fn a_socket_is_told_from_what_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("docker.sock");
        assert_eq!(Socket::look(&path), Socket::Missing);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(Socket::look(&path), Socket::Open);
        drop(listener);
        assert_eq!(Socket::look(&path), Socket::Refused);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(Socket::look(&path), Socket::OtherFile);
    }

    #[test]
    fn kernel_files_are_read_where_they_are() {
        let proc = tempfile::tempdir().unwrap();
        let look = || HostFacts::look(proc.path(), &proc.path().join("kernel"));
        assert_eq!(look(), HostFacts::default());
        for (path, text) in [
            ("sys/user/max_user_namespaces", "96\n"),
            ("sys/kernel/unprivileged_userns_clone", "1\n"),
            ("sys/kernel/apparmor_restrict_unprivileged_userns", "0\n"),
            ("self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax open files    1024   4096   files\n"),
            ("self/ns/user", ""),
            ("meminfo", "MemTotal:    2048 kB\nSwapTotal:   1024 kB\n"),
            ("kernel/fs/selinux/enforce", "1"),
        ] {
            let path = proc.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = HostFacts {
            user_namespaces: true,
            max_user_namespaces: Some(96),
            unprivileged_userns_clone: Some(1),
            apparmor_restrict_userns: Some(0),
            open_files: Some(4096),
            memory: Some(2 << 20),
            swap: Some(1 << 20),
            selinux_enforces: Some(true),
        };
        assert_eq!(look(), expected);
    }

    #[test]
    fn a_directory_that_is_not_there_is_judged_by_where_it_would_be() {
        let dir = tempfile::tempdir().unwrap();
        let found = Directory::look(&dir.path().join("a/b"));
        assert_eq!(found.writable, Ok(()));
        assert!(found.free.is_some());
        assert!(!dir.path().join("a").exists());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let locked = Directory::look(&dir.path().join("a"));
        // Root may write everywhere.
        assert_eq!(locked.writable.is_ok(), nix::unistd::geteuid().is_root());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let blocked = Directory::look(&dir.path().join("file/b")).writable.unwrap_err();
        assert!(blocked.ends_with("file is not a directory"), "{blocked}");
    }
}
