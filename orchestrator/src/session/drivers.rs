//! Sessions by the driver's own id: clients of a grid know no other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::{Driver, DriverOpening, Record, Session, Sessions};
use crate::engine::SessionId;
use crate::error::Error;
use crate::keys::KeyId;

/// Which live session a driver's id belongs to.
#[derive(Default)]
pub(super) struct DriverIndex {
    ids: Mutex<HashMap<String, SessionId>>,
}

impl DriverIndex {
    /// Notes the driver session of `session`, if it has one.
    pub(super) fn add(&self, session: &Session) {
        if let Driver::Open(driver) = session.driver() {
            self.lock().insert(driver, session.id.clone());
        }
    }

    /// Forgets the driver session of a session that ends.
    pub(super) fn remove(&self, record: &Record) {
        if let Some(driver) = &record.driver_session {
            self.lock().remove(driver);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        self.ids.lock()
    }
}

impl Sessions {
    /// The driver made the session `driver` for this one; noted here and in the store.
    pub(crate) async fn driver_opened(&self, session: &Arc<Session>, opening: DriverOpening, driver: String) {
        opening.opened(driver);
        self.inner.drivers.add(session);
        if session.check_open().is_err() {
            self.inner.drivers.remove(&session.record());
        }
        self.note(session).await;
    }

    /// Finds the live session of `owner` whose driver session is `driver`.
    ///
    /// # Errors
    /// `UnknownSession`, also when it has ended or is another key's.
    pub(crate) fn driven_by(&self, driver: &str, owner: &KeyId) -> Result<Arc<Session>, Error> {
        let unknown = || Error::UnknownSession { id: driver.chars().take(64).collect() };
        let id = self.inner.drivers.lock().get(driver).cloned().ok_or_else(unknown)?;
        let session = self.live(id.as_str()).map_err(|_| unknown())?;
        if session.owner == *owner { Ok(session) } else { Err(unknown()) }
    }
}
