//! How many MCP sessions each key has.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warmpool_keys::KeyId;

use crate::Error;

/// The places of all keys.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    taken: Arc<Mutex<HashMap<KeyId, usize>>>,
    most: usize,
}

/// A place for one MCP session. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    key: KeyId,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// Takes one.
    /// Errors: `Limit`.
    pub(crate) fn take(&self, key: &KeyId) -> Result<Place, Error> {
        let mut taken = self.taken.lock();
        let count = taken.entry(key.clone()).or_default();
        if *count >= self.most {
            return Err(Error::Limit { limit: self.most });
        }
        *count += 1;
        metrics::gauge!("warmpool_mcp_sessions").increment(1);
        Ok(Place { places: self.clone(), key: key.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            metrics::gauge!("warmpool_mcp_sessions").decrement(1);
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let (places, key, other) = (Places::new(1), KeyId::nobody(), KeyId::from_bytes([1; 6]));
        let place = places.take(&key).unwrap();
        assert!(matches!(places.take(&key), Err(Error::Limit { limit: 1 })));
        let _others = places.take(&other).unwrap();
        drop(place);
        assert!(places.take(&key).is_ok());
        assert_eq!(places.taken.lock().values().sum::<usize>(), 1);
    }
}
