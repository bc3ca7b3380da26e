//! Identifiers of tasks: their order is the order in which the tasks were accepted.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

use super::random_bytes;

const PREFIX: &str = "tsk_";

/// A task: `tsk_` and a ULID, that is 48 bits of Unix milliseconds and 80 random bits. Ids sort as their tasks were
/// accepted, which lets one index serve both orders. An id alone opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", inline)]
pub struct TaskId(Ulid);

impl TaskId {
    /// When the task was accepted, in Unix milliseconds.
    #[must_use]
    pub fn timestamp(self) -> u64 {
        self.0.timestamp_ms()
    }

    /// The id as a number, in its own order.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0.0
    }

    /// The id with this number.
    #[must_use]
    pub const fn from_number(number: u128) -> Self {
        Self(Ulid(number))
    }

    /// The smallest number that an id of the moment `ms` can have; `None` past the end of time.
    #[must_use]
    pub fn first_at(ms: u64) -> Option<u128> {
        (ms < 1 << 48).then(|| u128::from(ms) << 80)
    }

    /// The key in the store: ordered as the ids are.
    #[must_use]
    pub const fn store_key(self) -> [u8; 16] {
        self.0.0.to_be_bytes()
    }

    /// The id that a key in the store begins with.
    #[must_use]
    pub fn from_store_key(key: &[u8]) -> Option<Self> {
        let head = key.get(..16)?;
        Some(Self(Ulid(u128::from_be_bytes(head.try_into().ok()?))))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a task's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTaskId;

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        let ulid: Ulid = text.strip_prefix(PREFIX).and_then(|tail| tail.parse().ok()).ok_or(InvalidTaskId)?;
        // One spelling an id: ULIDs may be written in lower case and with letters for digits.
        let id = Self(ulid);
        if id.to_string() == text { Ok(id) } else { Err(InvalidTaskId) }
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|InvalidTaskId| serde::de::Error::custom("not a task's id"))
    }
}

/// Makes ids, each larger than every one before it, also when the clock goes back.
#[derive(Debug, Default)]
pub struct TaskIds {
    last: Option<Ulid>,
}

impl TaskIds {
    /// The next id, at the moment `now_ms`.
    pub fn next(&mut self, now_ms: u64) -> TaskId {
        let fresh = Ulid::from_parts(now_ms, u128::from_be_bytes(random_bytes()));
        let next = match self.last {
            // Within one millisecond: the next number. It runs over only after 2^80 of them.
            Some(before) if before.timestamp_ms() >= now_ms => Ulid(before.0.wrapping_add(1)),
            _ => fresh,
        };
        self.last = Some(next);
        TaskId(next)
    }

    /// Makes later ids larger than `seen`.
    pub fn past(&mut self, seen: TaskId) {
        self.last = self.last.max(Some(seen.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut ids = TaskIds::default();
        let made: Vec<TaskId> = [5, 5, 5, 9, 3, 9, 10].into_iter().map(|now| ids.next(now)).collect();
        assert!(made.is_sorted_by(|a, b| a < b), "{made:?}");
        assert_eq!(made[0].timestamp(), 5);
        assert_eq!(made[4].timestamp(), 9, "the time of an id never goes back");
        let texts: Vec<String> = made.iter().map(ToString::to_string).collect();
        assert!(texts.is_sorted(), "text and number have one order");
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = TaskIds::default().next(1_700_000_000_000);
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        for wrong in [text.to_lowercase(), text[4..].to_owned(), format!("{text}0"), "tsk_".to_owned(), String::new()] {
            assert_eq!(wrong.parse::<TaskId>(), Err(InvalidTaskId), "{wrong}");
        }
        assert_eq!(TaskId::from_store_key(&id.store_key()), Some(id));
    }
}
