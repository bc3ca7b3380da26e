//! Recordings for the fuzzer: a file that can be resumed can be finished.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Codec, Matroska};

/// A recording that is being written, and one that is finished.
pub fn seeds() -> Vec<Vec<u8>> {
    [false, true].into_iter().filter_map(|finished| recording(finished).ok()).collect()
}

fn recording(finished: bool) -> std::io::Result<Vec<u8>> {
    let (content, path) = file(&[])?;
    let mut video = Matroska::begin(content, Codec::Vp8, 1280, 800)?;
    for (time, key) in [(0, true), (100, false), (31_000, false), (31_500, true)] {
        video.picture(time, key, &[9; 4])?;
    }
    let bytes = std::fs::read(&path)?;
    if !finished {
        return Ok(bytes);
    }
    let (content, path) = file(&bytes)?;
    let copy = content.try_clone()?;
    let (video, last) = Matroska::resume(content)?;
    video.finish(last)?;
    let bytes = std::fs::read(path)?;
    drop(copy);
    Ok(bytes)
}

/// Panics when a file that can be resumed cannot be finished.
pub fn check(bytes: &[u8]) {
    let Ok((content, path)) = file(bytes) else { return };
    let again = File::options().read(true).write(true).open(path);
    let Ok((video, last)) = Matroska::resume(content) else { return };
    assert!(video.size() <= bytes.len() as u64, "it is longer than what was there");
    assert!(video.finish(last).is_ok());
    // A file of another writer may not be resumable twice.
    let _ = again.and_then(Matroska::resume);
}

/// A file in memory with this content, and a path at which it can be opened again.
fn file(bytes: &[u8]) -> std::io::Result<(File, PathBuf)> {
    let mut file = File::from(memfd_create(c"fuzzing", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok((file, path))
}
