//! File work off the async threads.

use std::io;

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
