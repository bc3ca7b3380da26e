//! The command line's side: which data directory a command means, and who carries its order out.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{ControlReply, ControlRequest, Starting, carry_out, check_owner, owner, socket};
use crate::telemetry::flush_log;
use warmpool_client::exit::Exit;
use warmpool_client::note;
use warmpool_config::Config;
use warmpool_keys::{IntegrationKeys, Keys};
use warmpool_store::{FatalHook, Store, StoreError, StoreOptions};

/// Time for a daemon to show that it is there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The kernel's list of the sockets that programs listen on.
const SOCKETS: &str = "/proc/net/unix";
/// The flag of a socket that listens, in that list.
const LISTENS: u32 = 0x1_0000;

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlRequestError {
    /// This user runs daemons, but not with these settings.
    #[error("several daemons run, so name one by --store-data-dir: {}", list(.0))]
    SeveralDaemons(Vec<PathBuf>),
    /// There is no store.
    #[error(
        "there is no store in {}, and {}: name the daemon's data directory by --store-data-dir or \
         WARMPOOL_STORE_DATA_DIR, or by the same --config as the daemon's", .0.display(), others(.1)
    )]
    NoStore(PathBuf, Vec<SeenDaemon>),
    /// The data directory is another user's.
    #[error(
        "{} belongs to {owner}, whose daemon could not open what another user makes there: run the command as that user, which \
         root does by `{run} warmpool … --store-data-dir {}`", .data_dir.display(), .data_dir.display()
    )]
    OtherOwner {
        data_dir: PathBuf,
        owner: String,
        /// What runs a command as that user.
        run: String,
    },
    /// There will be a daemon.
    #[error(
        "the daemon on {} is starting, and takes no orders yet: it waits for its workers or opens its store, as its log says; \
         try again later", .0.display()
    )]
    Starting(PathBuf),
    /// No daemon answers.
    #[error("no daemon runs on {}, and {}", .0.display(), others(.1))]
    NoDaemon(PathBuf, Vec<SeenDaemon>),
    /// The daemon refused it.
    #[error("{0}")]
    Refused(String),
    /// The connection to the daemon broke.
    #[error("the connection to the running daemon broke: {0}")]
    Connection(#[from] io::Error),
    /// The store cannot be opened or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlRequestError {
    /// The exit code of a command that it ends.
    #[must_use]
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::SeveralDaemons(_) | Self::OtherOwner { .. } => Exit::Usage,
            Self::Refused(_) => Exit::Refused,
            Self::NoStore(..) | Self::Starting(_) | Self::NoDaemon(..) | Self::Connection(_) | Self::Store(_) => {
                Exit::Unavailable
            }
        }
    }
}

/// How a daemon is that is not ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DaemonHealth {
    /// It takes orders.
    Serving,
    /// It waits for its workers, or opens its store.
    Starting,
}

/// A daemon that runs on this host, as far as this user can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenDaemon {
    data_dir: PathBuf,
    /// Whose it is, where that can be seen; none where it is this user's own.
    of: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    User(String),
    Unseen,
}

impl SeenDaemon {
    /// All of them.
    fn all() -> Vec<Self> {
        let sockets = std::fs::read_to_string(SOCKETS).unwrap_or_default();
        directories(&sockets).into_iter().map(Self::at).collect()
    }

    fn at(data_dir: PathBuf) -> Self {
        let of = match std::fs::metadata(socket(&data_dir)) {
            Ok(file) if file.uid() == nix::unistd::geteuid().as_raw() => None,
            Ok(file) => Some(Owner::User(owner::user(file.uid()))),
            Err(_) => Some(Owner::Unseen),
        };
        Self { data_dir, of }
    }

    /// Whether it is this user's, and its store is where it should be.
    fn is_ours(&self) -> bool {
        self.of.is_none() && Store::exists(&self.data_dir)
    }
}

impl std::fmt::Display for SeenDaemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dir = self.data_dir.display();
        match &self.of {
            None => write!(f, "{dir}"),
            Some(Owner::User(name)) => write!(f, "{dir} (of {name})"),
            Some(Owner::Unseen) => write!(f, "{dir} (of another user)"),
        }
    }
}

/// Which daemons there are where none is meant.
fn others(seen: &[SeenDaemon]) -> String {
    let shown: Vec<String> = seen.iter().map(ToString::to_string).collect();
    match shown.as_slice() {
        [] => "none runs on this host, as far as this user can see".to_owned(),
        [one] => format!("one runs on {one}"),
        several => format!("others run on {}", several.join(", ")),
    }
}

fn list(directories: &[PathBuf]) -> String {
    directories.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The data directory that a command works on: the one in the settings; without one, the default directory if a daemon uses
/// it, otherwise that of the only daemon that this user runs.
/// Errors: [`ControlRequestError::SeveralDaemons`].
pub(crate) async fn store_directory(config: &Config) -> Result<PathBuf, ControlRequestError> {
    let own = &config.store.data_dir;
    let is_meant = config.names("store.data_dir") || Starting::is_shown(own);
    if is_meant || UnixStream::connect(socket(own)).await.is_ok() {
        return Ok(own.clone());
    }
    let ours = SeenDaemon::all().into_iter().filter(SeenDaemon::is_ours);
    let mut running: Vec<PathBuf> = ours.map(|daemon| daemon.data_dir).collect();
    match running.len() {
        0 => Ok(own.clone()),
        1 => Ok(running.remove(0)),
        _ => Err(ControlRequestError::SeveralDaemons(running)),
    }
}

/// The directories in which something listens on a socket of the name of ours.
fn directories(sockets: &str) -> Vec<PathBuf> {
    let listening = sockets.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let path = Path::new(line.get(line.find(" /")? + 1..)?);
        let dir = path.parent()?;
        (flags & LISTENS != 0 && socket(dir) == path).then(|| dir.to_owned())
    });
    listening.collect()
}

/// How the settings have the store behave, whoever opens it.
#[must_use]
pub(crate) fn store_options(config: &Config) -> StoreOptions {
    let store = &config.store;
    StoreOptions {
        min_free_bytes: store.min_free.bytes(),
        open_timeout: store.open_timeout,
        backup_interval: store.backup_interval,
        backups_kept: store.backups_kept,
        kept_log_bytes: store.kept_log.bytes(),
        // The log says why.
        on_fatal: FatalHook::new(|_| {
            flush_log();
            std::process::abort()
        }),
        ..StoreOptions::default()
    }
}

/// Has an order carried out by the daemon that runs on a data directory, or by this process where none runs. Only what makes
/// something also makes a store.
/// Errors: every [`ControlRequestError`].
pub(crate) async fn perform(
    order: ControlRequest,
    data_dir: &Path,
    config: &Config,
) -> Result<ControlReply, ControlRequestError> {
    let shown = data_dir.display();
    let reply = if let Some(reply) = send(data_dir, &order).await? {
        note(format_args!("data directory: {shown}, of the running daemon"));
        reply
    } else {
        check_owner(data_dir)?;
        let makes = matches!(order, ControlRequest::CreateKey { .. });
        match Store::exists(data_dir) {
            true => note(format_args!("data directory: {shown}; no daemon runs on it")),
            false if makes => note(format_args!("data directory: {shown}, a new one; no daemon runs on it")),
            false => return Err(ControlRequestError::NoStore(data_dir.to_owned(), SeenDaemon::all())),
        }
        let opened = Store::open(data_dir, store_options(config))?;
        let keys = Keys::load(opened.store.clone()).await?;
        let integrations = IntegrationKeys::load(opened.store.clone()).await?;
        let reply = carry_out(order, &keys, &integrations, &opened.store, None).await;
        opened.store.close().await?;
        reply
    };
    match reply {
        ControlReply::Refused(why) => Err(ControlRequestError::Refused(why)),
        reply => Ok(reply),
    }
}

/// Checks that a daemon runs and answers, at its socket: that needs neither its address nor a certificate. One that is
/// starting is well: whoever ended it would have it begin to wait anew.
/// Errors: [`ControlRequestError::NoDaemon`], [`ControlRequestError::Connection`].
pub(crate) async fn check_daemon(data_dir: &Path) -> Result<DaemonHealth, ControlRequestError> {
    let answered = timeout(ANSWER_TIMEOUT, send(data_dir, &ControlRequest::ListKeys)).await;
    match answered.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
        Ok(Some(_)) => Ok(DaemonHealth::Serving),
        Err(ControlRequestError::Starting(_)) => Ok(DaemonHealth::Starting),
        Ok(None) => Err(ControlRequestError::NoDaemon(data_dir.to_owned(), SeenDaemon::all())),
        Err(error) => Err(error),
    }
}

/// Has the running daemon carry an order out that only it can, without a word on the terminal.
/// Errors: [`ControlRequestError::NoDaemon`], [`ControlRequestError::Starting`], [`ControlRequestError::Connection`],
/// [`ControlRequestError::Refused`].
pub(crate) async fn ask_daemon(order: &ControlRequest, data_dir: &Path) -> Result<ControlReply, ControlRequestError> {
    match send(data_dir, order).await? {
        Some(ControlReply::Refused(why)) => Err(ControlRequestError::Refused(why)),
        Some(reply) => Ok(reply),
        None => Err(ControlRequestError::NoDaemon(data_dir.to_owned(), SeenDaemon::all())),
    }
}

/// Sends an order to the daemon that runs on `data_dir`; `None` when none does.
/// Errors: [`ControlRequestError::Starting`], [`ControlRequestError::Connection`].
async fn send(data_dir: &Path, order: &ControlRequest) -> Result<Option<ControlReply>, ControlRequestError> {
    // Looked at first: a daemon makes its socket before it stops to show that it is starting.
    let is_starting = Starting::is_shown(data_dir);
    let stream = match UnixStream::connect(socket(data_dir)).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return if is_starting { Err(ControlRequestError::Starting(data_dir.to_owned())) } else { Ok(None) };
        }
        Err(error) => return Err(error.into()),
    };
    let (reader, mut writer) = stream.into_split();
    let mut line = serde_json::to_vec(order).map_err(io::Error::from)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    let mut reply = String::new();
    BufReader::new(reader).read_line(&mut reply).await?;
    Ok(Some(serde_json::from_str(&reply).map_err(io::Error::from)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;
    use crate::telemetry::start_log;
    use warmpool_config::{Flags, Host};
    use warmpool_store::fault::{FaultPoint, Faults, StoreFault};
    use warmpool_store::{Batch, Durability, Table};

    /// A process has one log, and ends with its store, so this test runs itself in another one.
    #[tokio::test]
    async fn the_log_says_why_the_store_ends_the_process() {
        const OTHER: &str = "PROCESS_WITH_A_STORE";
        if std::env::var_os(OTHER).is_some() {
            let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
            let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
            let _traces = start_log(&config).unwrap();
            let faults = Faults::default();
            let store = Store::faulty(&faults, store_options(&config));
            faults.next(FaultPoint::Apply, StoreFault::Error(io::ErrorKind::StorageFull));
            let mut batch = Batch::new();
            batch.put(Table::Meta, b"a", b"b");
            let _ = store.commit(batch, Durability::Process).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            return;
        }
        let name = "control::perform::tests::the_log_says_why_the_store_ends_the_process";
        let mut other = Command::new(std::env::current_exe().unwrap());
        let ended = other.args(["--exact", name, "--nocapture"]).env(OTHER, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(nix::libc::SIGABRT), "{ended:?}");
        let log = String::from_utf8_lossy(&ended.stderr);
        assert!(log.contains("the store has failed"), "{log}");
    }

    #[tokio::test]
    async fn another_users_store_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        // Root alone can give a directory away.
        let Ok(()) = std::os::unix::fs::chown(data.path(), Some(12_345), None) else { return };
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
        let refused = perform(ControlRequest::ListKeys, data.path(), &config).await;
        assert!(matches!(refused, Err(ControlRequestError::OtherOwner { .. })), "{refused:?}");
    }

    #[test]
    fn daemons_are_found_by_their_sockets() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 123 /home/ann/wp data/control.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 124 /home/bob/data/control.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 125 /run/docker.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 126 @/abstract/control.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 127\n";
        assert_eq!(directories(text), [PathBuf::from("/home/ann/wp data")]);
    }

    #[tokio::test]
    async fn a_daemon_that_waits_leaves_the_socket_of_another_host_alone() {
        let data = tempfile::tempdir().unwrap();
        // Of a daemon that runs on another host, on the same storage.
        drop(tokio::net::UnixListener::bind(socket(data.path())).unwrap());
        assert!(matches!(check_daemon(data.path()).await, Err(ControlRequestError::NoDaemon(..))));
        let starting = Starting::begin(data.path()).await.unwrap().unwrap();
        assert_eq!(check_daemon(data.path()).await.unwrap(), DaemonHealth::Starting);
        assert!(socket(data.path()).exists());
        drop(starting);
        assert!(matches!(check_daemon(data.path()).await, Err(ControlRequestError::NoDaemon(..))));
    }

    #[tokio::test]
    async fn a_daemon_that_takes_orders_is_no_longer_starting() {
        let data = tempfile::tempdir().unwrap();
        let listener = tokio::net::UnixListener::bind(socket(data.path())).unwrap();
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let reply = serde_json::to_string(&ControlReply::Keys(Vec::new())).unwrap() + "\n";
            stream.write_all(reply.as_bytes()).await.unwrap();
        });
        let _starting = Starting::begin(data.path()).await.unwrap().unwrap();
        assert_eq!(check_daemon(data.path()).await.unwrap(), DaemonHealth::Serving);
        answering.await.unwrap();
    }

    #[test]
    fn who_looks_in_vain_hears_which_daemons_there_are() {
        let of = |of| SeenDaemon { data_dir: PathBuf::from("/srv/a"), of };
        let seen = [of(None), of(Some(Owner::User("ann".to_owned()))), of(Some(Owner::Unseen))];
        assert_eq!(others(&[]), "none runs on this host, as far as this user can see");
        assert_eq!(others(&seen[..1]), "one runs on /srv/a");
        assert_eq!(others(&seen), "others run on /srv/a, /srv/a (of ann), /srv/a (of another user)");
        let nowhere = SeenDaemon::at(PathBuf::from("/no/such/place"));
        assert_eq!((nowhere.of.as_ref(), nowhere.is_ours()), (Some(&Owner::Unseen), false));
    }
}
