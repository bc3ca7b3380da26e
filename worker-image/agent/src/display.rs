//! The X display of a browser with a window: a VNC server, so that it can be looked at.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::timeout;
use warmpool_protocol::Size;

use crate::output::follow;
use crate::process::Processes;

/// Where X puts its sockets. Only root or we can make it, and the server itself does not.
const SOCKETS: &str = "/tmp/.X11-unix";
/// Where the RFB protocol is spoken: not on a port, which pages could reach. Only our user may open it.
pub(crate) const RFB_SOCKET: &str = "/tmp/.rfb";
/// Updates a second to each viewer, at most: more would take processor time from the browser that is looked at.
const FRAME_RATE: &str = "30";
/// How long the server may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running X server.
pub(crate) struct Display {
    /// Value for the environment variable DISPLAY.
    pub(crate) name: String,
}

/// Why there is no display.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DisplayError {
    /// It could not be started at all.
    #[error("the X server cannot be started: {0}")]
    Start(#[from] io::Error),
    /// It started and gave up, or never became ready.
    #[error("the X server did not come up: {0}")]
    NotReady(String),
}

impl Display {
    /// Starts a server of the given size and waits until programs can connect.
    pub(crate) async fn start(processes: &Processes, size: Size) -> Result<Self, DisplayError> {
        if fs::create_dir(SOCKETS).is_ok() {
            fs::set_permissions(SOCKETS, fs::Permissions::from_mode(0o1777))?;
        }
        let mut command = Command::new("Xtigervnc");
        command
            .args(["-geometry", &format!("{}x{}", size.width, size.height)])
            .args(["-depth", "24", "-SecurityTypes", "None", "-AlwaysShared", "-noreset"])
            .args(["-rfbport", "-1", "-rfbunixpath", RFB_SOCKET, "-nolisten", "tcp"])
            // The size is the session's, not a viewer's.
            .args(["-FrameRate", FRAME_RATE, "-AcceptSetDesktopSize=0"])
            // The server writes its number to this descriptor once it is ready.
            .args(["-displayfd", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (process, mut child) = processes.spawn(&mut command)?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(DisplayError::NotReady("its output is not to be read".into()));
        };
        let (number, _) = follow(tokio::process::ChildStdout::from_std(stdout)?, "");
        let (_, tail) = follow(tokio::process::ChildStderr::from_std(stderr)?, "\0");
        match timeout(PATIENCE, number).await {
            Ok(Ok(number)) => Ok(Self { name: format!(":{}", number.trim()) }),
            _ => {
                process.kill().await;
                Err(DisplayError::NotReady(tail.text()))
            }
        }
    }
}
