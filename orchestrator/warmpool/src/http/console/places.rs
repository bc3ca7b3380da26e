//! The places of event streams: how many all pages have open, and how many those of each key.

use crate::http::error::Error;
use warmpool_config::Config;
use warmpool_core::tally::{Share, Tally};
use warmpool_keys::KeyId;

/// All places. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Places {
    taken: Tally<KeyId>,
    max: usize,
    max_per_key: usize,
}

/// The place of one stream. Dropping it gives it back.
pub(super) type Place = Share<KeyId>;

impl Places {
    pub(super) fn new(config: &Config) -> Self {
        let console = &config.console;
        Self { taken: Tally::default(), max: console.max_streams, max_per_key: console.max_streams_per_key }
    }

    /// Takes one for a page of this key. An operator gets one however many clients follow.
    /// Errors: `StreamLimit`, `KeyStreamLimit`.
    pub(super) fn take(&self, key: &KeyId, is_operator: bool) -> Result<Place, Error> {
        self.taken.take(key.clone(), |taken| {
            if taken.own >= self.max_per_key as u64 {
                return Err(Error::KeyStreamLimit { limit: self.max_per_key });
            }
            if !is_operator && taken.all >= self.max as u64 {
                return Err(Error::StreamLimit { limit: self.max });
            }
            Ok(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_takes_all_and_an_operator_always_gets_one() {
        let places = Places { taken: Tally::default(), max: 3, max_per_key: 2 };
        let [greedy, other, operator] = [1, 2, 3].map(|id| KeyId::from_bytes([id; 6]));
        let theirs = [places.take(&greedy, false).unwrap(), places.take(&greedy, false).unwrap()];
        assert!(matches!(places.take(&greedy, false), Err(Error::KeyStreamLimit { limit: 2 })));
        let _others = places.take(&other, false).unwrap();
        assert!(matches!(places.take(&other, false), Err(Error::StreamLimit { limit: 3 })));
        let operators = [places.take(&operator, true).unwrap(), places.take(&operator, true).unwrap()];
        assert!(matches!(places.take(&operator, true), Err(Error::KeyStreamLimit { limit: 2 })));
        drop((theirs, operators));
        assert!(places.take(&other, false).is_ok());
        assert_eq!(places.taken.all(), 1);
    }
}
