//! Who waits for a worker, and who of them is next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::{PoolState, PooledWorker, Waiter, WorkerStage};
use crate::worker::Worker;
use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;
use warmpool_keys::KeyId;

/// Whose turn it was when.
#[derive(Debug, Default)]
pub(super) struct LastTurns {
    /// The number of the last caller.
    caller: u64,
    turn: u64,
    /// The last turn of each key that ever had a worker.
    of: HashMap<KeyId, u64>,
}

impl LastTurns {
    /// A key gets a worker.
    pub(super) fn serves(&mut self, owner: &KeyId) {
        self.turn += 1;
        self.of.insert(owner.clone(), self.turn);
    }
}

impl PoolState {
    /// The caller who is served now, and the worker for it. Callers who wait for a kind of which none is warm are passed over. Of the
    /// others comes the key that has the fewest workers, then the one whose turn was the longest ago; each key's own are first come,
    /// first served. So nobody waits behind all that another key asks for.
    pub(in crate::pool) fn match_waiter(&mut self, max_sessions: usize) -> Option<(Waiter, Arc<Worker>)> {
        if self.leased() >= max_sessions {
            return None;
        }
        let (mut held, mut warm) = (BTreeMap::<&KeyId, usize>::new(), HashSet::<PoolKey>::new());
        for entry in self.workers.values() {
            match &entry.stage {
                WorkerStage::Leased(owner, _) => *held.entry(owner).or_default() += 1,
                WorkerStage::Ready(_) => {
                    warm.insert(entry.key);
                }
                WorkerStage::Starting { .. } | WorkerStage::Removing => {}
            }
        }
        let rank = |owner: &KeyId| {
            let turn = self.queue.of.get(owner).copied().unwrap_or_default();
            (held.get(owner).copied().unwrap_or_default(), turn)
        };
        let servable = self.waiters.iter().enumerate().filter(|(_, waiter)| warm.contains(&waiter.key));
        // Of equals, the first.
        let (index, waiter) = servable.min_by_key(|(_, waiter)| rank(&waiter.owner))?;
        let (key, owner) = (waiter.key, waiter.owner.clone());
        let worker = self.take_ready(key, &owner)?;
        self.waiters.remove(index).map(|waiter| (waiter, worker))
    }

    /// Takes a caller out of a full queue for one of this key: the last one of the key that has the most in it, if that stays
    /// no worse off than the newcomer's.
    pub(in crate::pool) fn make_room_for(&mut self, newcomer: &KeyId) -> Option<Waiter> {
        let mut waiting = BTreeMap::<&KeyId, usize>::new();
        for waiter in &self.waiters {
            *waiting.entry(&waiter.owner).or_default() += 1;
        }
        let own = waiting.get(newcomer).copied().unwrap_or_default();
        let (greediest, most) = waiting.into_iter().max_by_key(|(_, count)| *count)?;
        if most < own + 2 {
            return None;
        }
        let last = self.waiters.iter().rposition(|waiter| waiter.owner == *greediest)?;
        self.waiters.remove(last)
    }

    /// Marks a starting worker as awaited if more callers wait for its kind than there are others for them: awaited ones, and warm
    /// ones, which only the limit of sessions keeps from them. Returns whether it is awaited.
    pub(in crate::pool) fn mark_if_awaited(&mut self, id: &WorkerId) -> bool {
        let Some(key) = self.workers.get(id).map(|entry| entry.key) else { return false };
        let waiting = self.waiters.iter().filter(|waiter| waiter.key == key).count();
        let comes = |entry: &PooledWorker| {
            matches!(entry.stage, WorkerStage::Ready(_) | WorkerStage::Starting { awaited: true })
        };
        let coming =
            self.workers.iter().filter(|(other, entry)| *other != id && entry.key == key && comes(entry)).count();
        let is_awaited = waiting > coming;
        if let Some(WorkerStage::Starting { awaited }) = self.workers.get_mut(id).map(|entry| &mut entry.stage) {
            *awaited = is_awaited;
        }
        is_awaited
    }

    pub(in crate::pool) fn enqueue(&mut self, waiter: Waiter) -> u64 {
        self.queue.caller += 1;
        let number = self.queue.caller;
        self.waiters.push_back(Waiter { number, ..waiter });
        number
    }

    /// Whether the place was still held.
    pub(in crate::pool) fn leave(&mut self, number: u64) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.number != number);
        self.waiters.len() < before
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::worker::Reports;
    use warmpool_core::browser::{Engine, Mode};
    use warmpool_protocol::Secret;
    use warmpool_runtime::{AgentAddress, WorkerLocation};

    const CHROMIUM: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headless);
    const FIREFOX: PoolKey = PoolKey::plain(Engine::Firefox, Mode::Headed);

    fn key(letter: char) -> KeyId {
        letter.to_string().repeat(12).parse().unwrap()
    }

    /// A queue in which callers of these keys wait, one letter for each.
    fn queue(callers: &str) -> PoolState {
        let mut state = PoolState::new(BTreeMap::new());
        callers.chars().for_each(|letter| waits(&mut state, letter, CHROMIUM));
        state
    }

    fn waits(state: &mut PoolState, letter: char, kind: PoolKey) {
        let sender = oneshot::channel().0;
        state.enqueue(Waiter { number: 0, key: kind, owner: key(letter), sender });
    }

    fn becomes_warm(state: &mut PoolState, kind: PoolKey) -> Reports {
        let address = AgentAddress::Tcp(([127, 0, 0, 1], 1).into());
        let place = WorkerLocation { address, node: None };
        let (worker, reports) = Worker::found(state.add_starting(kind), kind, place, &Secret::new(String::new()));
        assert!(state.set_ready(worker));
        reports
    }

    /// Who is served, one after another, as places are free; each ends before the next one where `ends` says so.
    fn order(state: &mut PoolState, ends: bool) -> String {
        let mut served = String::new();
        while !state.waiters.is_empty() {
            let _reports = becomes_warm(state, CHROMIUM);
            let (waiter, worker) = state.match_waiter(usize::MAX).expect("one is served");
            served.extend(waiter.owner.as_str().chars().next());
            if ends {
                state.set_removing(&worker.id);
                state.forget(&worker.id);
            }
        }
        served
    }

    #[test]
    fn a_key_that_asks_for_many_takes_turns_with_others() {
        for ends in [false, true] {
            assert_eq!(order(&mut queue("aaaaabb"), ends), "ababaaa");
            assert_eq!(order(&mut queue("aaabc"), ends), "abcaa");
            assert_eq!(order(&mut queue("aaaa"), ends), "aaaa");
        }
    }

    #[test]
    fn a_key_that_had_its_turn_comes_after_one_that_had_none() {
        let mut state = queue("a");
        assert_eq!(order(&mut state, true), "a");
        for letter in "aab".chars() {
            waits(&mut state, letter, CHROMIUM);
        }
        assert_eq!(order(&mut state, true), "baa");
    }

    #[test]
    fn who_waits_for_what_is_not_there_holds_up_nobody() {
        let mut state = PoolState::new(BTreeMap::new());
        waits(&mut state, 'a', FIREFOX);
        waits(&mut state, 'b', CHROMIUM);
        let _reports = becomes_warm(&mut state, CHROMIUM);
        assert!(state.match_waiter(0).is_none(), "there are as many sessions as may be");
        assert_eq!(state.match_waiter(9).unwrap().0.owner, key('b'));
        assert!(state.match_waiter(9).is_none());
    }

    #[test]
    fn as_many_workers_are_awaited_as_callers_wait() {
        let mut state = queue("ab");
        let starting = [CHROMIUM, CHROMIUM, CHROMIUM, FIREFOX].map(|kind| state.add_starting(kind));
        let awaited = |state: &mut PoolState, at: usize| state.mark_if_awaited(&starting[at]);
        assert!(!awaited(&mut state, 3), "nobody waits for its kind");
        assert!(awaited(&mut state, 0) && awaited(&mut state, 1));
        assert!(!awaited(&mut state, 2), "the first two are for the two who wait");
        assert!(awaited(&mut state, 0), "it still is");
        state.forget(&starting[0]);
        assert!(awaited(&mut state, 2), "one of them did not start");
        state.forget(&starting[1]);
        let _reports = becomes_warm(&mut state, CHROMIUM);
        assert!(awaited(&mut state, 2), "one caller takes the one that is warm");
        state.leave(2);
        assert!(!awaited(&mut state, 2), "nobody but them waits");
    }

    #[test]
    fn a_full_queue_is_not_one_keys_own() {
        let mut state = queue("aabaa");
        let gone = state.make_room_for(&key('c')).unwrap();
        assert_eq!((gone.owner, gone.number), (key('a'), 5), "the last one of the key with the most");
        assert_eq!(state.waiters.len(), 4);
        assert!(state.make_room_for(&key('a')).is_none(), "not for its own");
        assert!(state.make_room_for(&key('b')).is_some(), "three and one become two and two");
        assert!(state.make_room_for(&key('b')).is_none(), "two and one stay as they are");
        assert!(queue("abc").make_room_for(&key('d')).is_none(), "each has one");
        assert!(queue("").make_room_for(&key('a')).is_none());
    }
}
