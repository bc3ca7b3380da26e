//! The ports of the container's own programs, which are in fact Unix sockets.
//!
//! Debuggers and drivers can listen on loopback ports only, and a page can make its browser connect there: chromedriver
//! ends for anybody who asks it to. The agent therefore starts each program with a small library
//! (`worker-image/unix-ports`) that puts a Unix socket in place of each loopback port. A page cannot name one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

use tokio::net::{UnixListener, UnixStream};

/// Where the sockets are, each named after its port.
const FOLDER: &str = "/tmp/.ports";
/// The library in the image.
const LIBRARY: &str = "/usr/local/lib/unix-ports.so";

/// What the library reads: where the sockets go.
const FOLDER_VARIABLE: &str = "UNIX_PORTS_DIR";
/// What the library reads: whether the program's own connections go to these sockets.
const CONNECT_VARIABLE: &str = "UNIX_PORTS_CONNECT";

/// A loopback port of a program here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalPort(u16);

impl LocalPort {
    /// The port of that number.
    pub(crate) const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number on which the program believes it listens.
    pub(crate) const fn number(self) -> u16 {
        self.0
    }

    /// Host and port, as in a URL.
    pub(crate) fn authority(self) -> String {
        format!("127.0.0.1:{}", self.0)
    }

    /// The port of such an address.
    pub(crate) fn from_authority(authority: &str) -> Option<Self> {
        authority.rsplit_once(':')?.1.parse().ok().map(Self)
    }

    fn path(self) -> PathBuf {
        PathBuf::from(format!("{FOLDER}/{}", self.0))
    }

    /// Opens a connection.
    /// Fails when nothing listens.
    pub(crate) async fn connect(self) -> io::Result<UnixStream> {
        UnixStream::connect(self.path()).await
    }

    /// Listens itself.
    /// Fails when something else does.
    pub(crate) fn listen(self) -> io::Result<UnixListener> {
        UnixListener::bind(self.path())
    }
}

/// Makes the folder of the sockets. Call it before any program starts.
/// Fails when there is no place for it.
pub(crate) fn prepare() -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && fs::symlink_metadata(FOLDER)?.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes a program listen on Unix sockets.
pub(crate) fn hide(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", LIBRARY).env(FOLDER_VARIABLE, FOLDER)
}

/// The same for a program that also connects to the other programs' ports.
pub(crate) fn hide_and_connect(command: &mut Command) -> &mut Command {
    hide(command).env(CONNECT_VARIABLE, "1")
}
