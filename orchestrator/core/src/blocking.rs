//! Work that may not hold up what else an async thread does: of files, and of texts that others chose.

use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::ServiceError;

/// Runs file work where it may block.
/// Errors: `DiskNearlyFull` when the disk has no space left, otherwise `Internal`.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ServiceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error.kind() == io::ErrorKind::StorageFull => Err(ServiceError::DiskNearlyFull),
        Ok(Err(error)) => Err(ServiceError::internal(error)),
        Err(error) => Err(ServiceError::internal(error)),
    }
}

/// Does what takes a processor its time, such as a client's regular expression over the text of a page, while the other work of
/// this thread goes on elsewhere. A runtime with one thread has no elsewhere.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_work_of_the_thread_goes_on() {
        let (sender, receiver) = mpsc::channel();
        let other = tokio::spawn(async move { sender.send(1) });
        assert_eq!(in_place(|| receiver.recv()), Ok(1));
        other.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn one_thread_just_works() {
        assert_eq!(in_place(|| 1), 1);
    }
}
