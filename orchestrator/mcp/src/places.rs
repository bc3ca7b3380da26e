//! How many MCP sessions each key has.

use crate::Error;
use warmpool_core::tally::{Share, Taken, Tally};
use warmpool_keys::KeyId;

/// The places of all keys.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Tally<KeyId>,
    most: usize,
}

/// A place for one MCP session. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    _share: Share<KeyId>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Tally::default(), most }
    }

    /// Takes one.
    /// Errors: `Limit`.
    pub(crate) fn take(&self, key: &KeyId) -> Result<Place, Error> {
        let limit = self.most;
        let one_more = |taken: Taken| if taken.own < limit as u64 { Ok(1) } else { Err(Error::Limit { limit }) };
        let share = self.taken.take(key.clone(), one_more)?;
        metrics::gauge!("warmpool_mcp_sessions").increment(1);
        Ok(Place { _share: share })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("warmpool_mcp_sessions").decrement(1);
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
        assert_eq!(places.taken.all(), 1);
    }
}
