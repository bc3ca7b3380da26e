//! The display as a stream of video: pictures from the X server by RFB, whenever they change, through `vpxenc`.
//!
//! The output is VP8 in IVF, with times in milliseconds since the first picture. A thread of its own takes and converts
//! the pictures, because the agent's one thread passes a client's frames on.

mod screen;
mod yuv;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use warmpool_protocol::recording::{FILE_HEADER, MAX_PICTURE, PICTURE_HEADER, RecordingQuery};

use crate::body::{Body, BodyError};
use crate::display::RFB_SOCKET;
use crate::domain::Domain;
use crate::error::ApiError;
use crate::process::Processes;

use screen::Screen;
use yuv::Picture;

/// Pictures a second, unless the daemon asks for another number.
const RATE: u32 = 10;
/// Bits a second while everything moves, in thousands.
const KILOBITS: u32 = 1000;
/// Pictures whose times wait for the encoder, and encoded ones that wait for the daemon.
const WAITING: usize = 8;
/// The library of coreutils that changes how a program buffers its output.
const UNBUFFERED: &str = "/usr/libexec/coreutils/libstdbuf.so";

/// The body of `GET /recording`: video from now until the reader goes.
pub(crate) fn stream(processes: &Processes, query: &str) -> Result<Response<Body>, ApiError> {
    let rate = rate(query)?;
    let socket = UnixStream::connect(RFB_SOCKET).map_err(|_| ApiError::not_found("this worker has no display"))?;
    let hang_up = socket.try_clone()?;
    let mut command = Command::new(Domain::Encoder.program());
    command
        // Unbuffered, as `stdbuf -o0` makes it: an encoded picture must not wait for the next one, which may come much later.
        .envs([("LD_PRELOAD", UNBUFFERED), ("_STDBUF_O", "0")])
        .args(["--codec=vp8", "--ivf", "--rt", "--cpu-used=10", "--threads=1", "--quiet"])
        .args(["--disable-warning-prompt", "--lag-in-frames=0", "--end-usage=vbr", "--min-q=4", "--max-q=48"])
        .args(["--kf-max-dist=100", "--static-thresh=100", &format!("--target-bitrate={KILOBITS}"), "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let (process, mut child) = processes.spawn(Domain::Encoder, &mut command)?;
    let (Some(to_encoder), Some(from_encoder)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ApiError::internal("the encoder has no pipes"));
    };
    let (times, taken) = sync_channel(WAITING);
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    let reader_gone = sender.clone();
    tokio::task::spawn_blocking(move || {
        if let Err(error) = take(&socket, to_encoder, rate, &times) {
            tracing::debug!(%error, "the recording's pictures ended");
        }
    });
    tokio::task::spawn_blocking(move || {
        if let Err(error) = pass(from_encoder, &taken, &sender) {
            tracing::debug!(%error, "the recording ended");
        }
    });
    tokio::spawn(async move {
        tokio::select! {
            () = reader_gone.closed() => {}
            _ = process.exited() => {}
        }
        // Whoever waits for a picture or for the encoder stops waiting.
        let _ = hang_up.shutdown(Shutdown::Both);
        process.kill().await;
    });
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, BodyError>(Frame::data(bytes)), receiver))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("video/x-ivf"));
    Ok(response)
}

fn rate(query: &str) -> Result<u32, ApiError> {
    if query.is_empty() {
        return Ok(RATE);
    }
    let rate = RecordingQuery::from_query(query).map(|asked| asked.rate).filter(|rate| (1..=60).contains(rate));
    rate.ok_or_else(|| ApiError::bad_request("rate: 1 to 60 wanted"))
}

/// Gives the encoder a picture each time the display has changed, and its time to the reader of the output.
fn take(socket: &UnixStream, mut encoder: impl Write, rate: u32, times: &SyncSender<u64>) -> io::Result<()> {
    let mut screen = Screen::open(socket)?;
    let (width, height) = screen.size();
    let mut picture = Picture::new(width, height);
    writeln!(encoder, "YUV4MPEG2 W{width} H{height} F{rate}:1 Ip A1:1 C420jpeg")?;
    let pause = Duration::from_secs(1) / rate;
    let mut began = None;
    loop {
        let rows = screen.update()?;
        if rows.is_empty() {
            continue;
        }
        let now = Instant::now();
        picture.convert(screen.pixels(), rows);
        let since = now.duration_since(*began.get_or_insert(now));
        let time = u64::try_from(since.as_millis()).map_err(io::Error::other)?;
        times.send(time).map_err(|_| io::ErrorKind::BrokenPipe)?;
        encoder.write_all(b"FRAME\n")?;
        encoder.write_all(picture.bytes())?;
        std::thread::sleep(pause.saturating_sub(now.elapsed()));
    }
}

/// Passes on what the encoder gives, with the pictures' own times.
fn pass(mut encoder: impl Read, times: &Receiver<u64>, to: &mpsc::Sender<Bytes>) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let mut header = [0; FILE_HEADER];
    encoder.read_exact(&mut header)?;
    // The time base: one thousand to the second.
    header[16..20].copy_from_slice(&1000u32.to_le_bytes());
    header[20..24].copy_from_slice(&1u32.to_le_bytes());
    to.blocking_send(Bytes::copy_from_slice(&header)).map_err(gone)?;
    loop {
        let mut header = [0; PICTURE_HEADER];
        encoder.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > MAX_PICTURE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // The encoder gives one for each that it was given: without lag and without dropping any.
        let time = times.recv().map_err(io::Error::other)?;
        header[4..12].copy_from_slice(&time.to_le_bytes());
        let mut picture = vec![0; PICTURE_HEADER + length];
        picture[..PICTURE_HEADER].copy_from_slice(&header);
        encoder.read_exact(&mut picture[PICTURE_HEADER..])?;
        to.blocking_send(picture.into()).map_err(gone)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_get_their_own_times() {
        let mut ivf = b"DKIF\0\0\x20\0VP80".to_vec();
        ivf.extend([0; 20]);
        for number in 0..2u64 {
            ivf.extend(3u32.to_le_bytes());
            ivf.extend(number.to_le_bytes());
            ivf.extend([7, 8, 9]);
        }
        let (times, taken) = sync_channel(2);
        times.send(0).unwrap();
        times.send(4711).unwrap();
        let (sender, mut receiver) = mpsc::channel(8);
        assert!(pass(&ivf[..], &taken, &sender).is_err(), "it ends with the encoder");
        assert_eq!(receiver.blocking_recv().unwrap()[16..24], [0xE8, 3, 0, 0, 1, 0, 0, 0]);
        receiver.blocking_recv().unwrap();
        let second = receiver.blocking_recv().unwrap();
        assert_eq!(second[4..12], 4711u64.to_le_bytes());
        assert_eq!(second[12..], [7, 8, 9]);
    }

    #[test]
    fn the_rate_is_checked() {
        assert_eq!(rate("").unwrap(), RATE);
        assert_eq!(rate("rate=25").unwrap(), 25);
        for wrong in ["rate=0", "rate=61", "rate=x", "rate="] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
