//! The X display of a browser with a window: a VNC server, so that it can be looked at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use warmpool_protocol::Size;

use crate::error::BootError;
use crate::process::Processes;
use crate::program::{Program, Sign};

/// The program, and its name in messages.
const PROGRAM: &str = "Xtigervnc";
/// Where X puts its sockets. Only root or we can make it, and the server itself does not.
const SOCKETS: &str = "/tmp/.X11-unix";
/// Where the RFB protocol is spoken: not on a port, which pages could reach. Only our user may open it.
pub(crate) const RFB_SOCKET: &str = "/tmp/.rfb";
/// Updates a second to each viewer, at most: more would take processor time from the browser that is looked at.
const FRAME_RATE: &str = "30";
/// How long the server may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running X server.
pub(crate) struct Display {
    /// Value for the environment variable DISPLAY.
    pub(crate) name: String,
}

impl Display {
    /// Starts a server of the given size and waits until programs can connect.
    pub(crate) async fn start(processes: &Processes, size: Size) -> Result<Self, BootError> {
        let failed = |source| BootError::Start { program: PROGRAM, source };
        if fs::create_dir(SOCKETS).is_ok() {
            fs::set_permissions(SOCKETS, fs::Permissions::from_mode(0o1777)).map_err(failed)?;
        }
        let mut command = Command::new(PROGRAM);
        command
            .args(["-geometry", &format!("{}x{}", size.width, size.height)])
            .args(["-depth", "24", "-SecurityTypes", "None", "-AlwaysShared", "-noreset"])
            .args(["-rfbport", "-1", "-rfbunixpath", RFB_SOCKET, "-nolisten", "tcp"])
            // The size is the session's, not a viewer's.
            .args(["-FrameRate", FRAME_RATE, "-AcceptSetDesktopSize=0"])
            // The server writes its number to this descriptor once it is ready.
            .args(["-displayfd", "1"]);
        let program = Program::start(processes, PROGRAM, &mut command, Some(Sign::Stdout("")))?;
        let number = program.until(START_TIMEOUT, program.ready()).await?;
        Ok(Self { name: format!(":{}", number.trim()) })
    }
}
