//! Sessions by the driver's own id: clients of a grid know no other.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{Driver, Record, Session};
use crate::engine::SessionId;

/// Which live session a driver's id belongs to.
#[derive(Default)]
pub(super) struct DriverIndex {
    ids: Mutex<HashMap<String, SessionId>>,
}

impl DriverIndex {
    /// Notes the driver session of `session`, if it has one.
    pub(super) fn add(&self, session: &Session) {
        if let Driver::Open(driver) = session.driver() {
            self.ids.lock().insert(driver, session.id.clone());
        }
    }

    /// Forgets the driver session of a session that ends.
    pub(super) fn remove(&self, record: &Record) {
        if let Some(driver) = &record.driver_session {
            self.ids.lock().remove(driver);
        }
    }

    /// The session of a driver's id.
    pub(super) fn find(&self, driver: &str) -> Option<SessionId> {
        self.ids.lock().get(driver).cloned()
    }
}
