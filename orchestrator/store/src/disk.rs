//! What a thread of its own looks at every second: how much of the disk is used and free, and whether the backend's own threads work.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::StoreError;
use super::backend::{BackendError, ThreadCheck};
use super::health::StoreThread;
use super::request::Context;
use warmpool_core::panics::caught;

/// Time between two measurements of the disk.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Measures the disk now, and then every second in a thread of its own, which ends when what is returned is dropped. The store fails
/// when `check` does.
pub(super) fn watch(
    context: &Context,
    size: impl Fn() -> u64 + Send + 'static,
    mut check: ThreadCheck,
) -> Result<mpsc::Sender<()>, StoreError> {
    let (watched, ended) = mpsc::channel();
    let (context, failing) = (context.clone(), context.clone());
    let mut measure = move || {
        let _busy = context.monitor.busy(StoreThread::Gauge);
        context.monitor.measured_free((context.free_space)());
        context.monitor.measured_size(size());
        // A store that closes ends the database only after it is marked as closed.
        if let Err(error) = check()
            && !context.monitor.closed()
        {
            context.fatal(&error);
        }
    };
    measure();
    std::thread::Builder::new()
        .name("store-disk".into())
        .spawn(move || {
            while ended.recv_timeout(MEASURE_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Err(panicked) = caught(&mut measure) {
                    failing.fatal(&BackendError::panicked(panicked));
                    return;
                }
            }
        })
        .map_err(StoreError::during("start the thread that measures the disk"))?;
    Ok(watched)
}

/// Free space that this process may use on the file system of `path`, bytes; none when the system does not say. Blocks.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    #[allow(clippy::useless_conversion, reason = "the width of the fields differs between platforms")]
    Some(u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())))
}

/// Size of the files in a directory and its directories, bytes.
pub(super) fn directory_bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => directory_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
