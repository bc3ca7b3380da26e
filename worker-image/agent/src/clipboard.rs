//! The text on a display's clipboard, by `xclip`.

use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;
use warmpool_protocol::CLIPBOARD_LIMIT;

use crate::display::Display;
use crate::domain::Domain;
use crate::error::ApiError;
use crate::process::Processes;

/// How long the program whose text it is may take to hand it over.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the text; nothing where there is none.
/// Fails when it is too long, or whose text it is does not hand it over.
pub(crate) async fn read(processes: &Processes, display: &Display) -> Result<Bytes, ApiError> {
    let mut command = xclip(display, "-out");
    let (process, mut child) = processes.spawn(Domain::Clipboard, command.stdout(Stdio::piped()))?;
    let output = child.stdout.take().ok_or_else(|| ApiError::internal("xclip has no pipe"))?;
    let mut text = Vec::new();
    let mut output = ChildStdout::from_std(output)?.take(CLIPBOARD_LIMIT as u64 + 1);
    let done = timeout(LIMIT, output.read_to_end(&mut text)).await;
    // It waits for the rest of a text that is too long, and for a page that hangs.
    process.kill().await;
    done.map_err(|_| ApiError::upstream("the clipboard's text did not come"))??;
    if text.len() > CLIPBOARD_LIMIT {
        return Err(ApiError::too_large(CLIPBOARD_LIMIT as u64));
    }
    Ok(text.into())
}

/// Puts a text there.
pub(crate) async fn write(processes: &Processes, display: &Display, text: &[u8]) -> Result<(), ApiError> {
    let mut command = xclip(display, "-in");
    // It ends when the text is there, and leaves a child that hands it over.
    let (process, mut child) = processes.spawn(Domain::Clipboard, command.stdin(Stdio::piped()))?;
    let input = child.stdin.take().ok_or_else(|| ApiError::internal("xclip has no pipe"))?;
    let mut input = ChildStdin::from_std(input)?;
    let put = async {
        input.write_all(text).await?;
        drop(input);
        Ok::<_, std::io::Error>(process.exited().await.clean())
    };
    match timeout(LIMIT, put).await {
        Ok(Ok(true)) => Ok(()),
        _ => {
            process.kill().await;
            Err(ApiError::upstream("the display did not take the text"))
        }
    }
}

fn xclip(display: &Display, direction: &str) -> Command {
    let mut command = Command::new(Domain::Clipboard.program());
    command
        .env("DISPLAY", &display.name)
        .args(["-selection", "clipboard", "-target", "UTF8_STRING", direction])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
