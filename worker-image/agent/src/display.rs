//! The X display of a browser with a window: a VNC server, so that it can be looked at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tokio::task::spawn_blocking;
use warmpool_protocol::Size;

use crate::domain::Domain;
use crate::error::{ApiError, BootError};
use crate::process::Processes;
use crate::program::{Program, ReadySign};
use crate::window_manager::{self, kiosk};

/// The program's name in messages.
const PROGRAM: &str = "Xtigervnc";
/// The library in the image that starts xkbcomp without a shell.
const LIBRARY: &str = "/usr/local/lib/xkbcomp.so";
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
        let mut command = Command::new(Domain::Display.program());
        command
            .env("LD_PRELOAD", LIBRARY)
            .args(["-geometry", &format!("{}x{}", size.width, size.height)])
            .args(["-depth", "24", "-SecurityTypes", "None", "-AlwaysShared", "-noreset"])
            .args(["-rfbport", "-1", "-rfbunixpath", RFB_SOCKET, "-nolisten", "tcp"])
            // The size is the session's, not a viewer's.
            .args(["-FrameRate", FRAME_RATE, "-AcceptSetDesktopSize=0"])
            // Viewers are told of what is copied, and not of each text that is selected.
            .arg("-SendPrimary=0")
            // The server writes its number to this descriptor once it is ready.
            .args(["-displayfd", "1"]);
        let program = Program::start(processes, Domain::Display, PROGRAM, &mut command, Some(ReadySign::Stdout("")))?;
        let number = program.until(START_TIMEOUT, program.ready()).await?;
        let name = format!(":{}", number.trim());
        window_manager::start(&name).map_err(|error| BootError::Undriveable(error.to_string()))?;
        Ok(Self { name })
    }

    /// Shows pages of this size alone from now on, without the bars above them, which have this height.
    pub(crate) async fn show_pages_alone(&self, page: Size, bars: u32) -> Result<(), ApiError> {
        let failed = |error: &dyn std::fmt::Display| ApiError::internal(format!("kiosk: {error}"));
        let name = self.name.clone();
        let told = spawn_blocking(move || kiosk::begin(&name, page, bars)).await;
        told.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}
