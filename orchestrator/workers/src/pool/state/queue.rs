//! Who waits for a worker, and who of them is next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

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
    /// Those who wait whose turn it is when there are so many places, by where they stand in the queue. Next comes the key that
    /// has the fewest workers, those that its callers before have got here included, then the one whose turn was the longest ago; each
    /// key's own are first come, first served. So nobody waits behind all that another key asks for, whatever kind of worker either wants.
    /// Callers for whom no worker can be had now are passed over.
    pub(in crate::pool) fn in_turn(&self, places: usize, now: Instant) -> Vec<usize> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let is_coming =
            |entry: &&PooledWorker| matches!(entry.stage, WorkerStage::Ready(_) | WorkerStage::Starting { .. });
        let coming: HashSet<PoolKey> = self.workers.values().filter(is_coming).map(|entry| entry.key).collect();
        let comes = |key: PoolKey| coming.contains(&key) || (self.runtime_up && !self.backs_off(key, now));
        let mut of_key = HashMap::<&KeyId, VecDeque<usize>>::new();
        for (at, waiter) in self.waiters.iter().enumerate().filter(|(_, waiter)| comes(waiter.key)) {
            of_key.entry(&waiter.owner).or_default().push_back(at);
        }
        let mut turn = self.queue.turn;
        let last_turn = |owner: &KeyId| self.queue.of.get(owner).copied().unwrap_or_default();
        let has = |owner: &KeyId| self.held.of(owner).leased;
        let mut keys: BinaryHeap<_> = of_key
            .iter_mut()
            .filter_map(|(owner, own)| Some(Reverse((has(owner), last_turn(owner), own.pop_front()?, *owner))))
            .collect();
        let mut served = Vec::new();
        while served.len() < places
            && let Some(Reverse((has, _, at, owner))) = keys.pop()
        {
            served.push(at);
            turn += 1;
            if let Some(next) = of_key.get_mut(owner).and_then(VecDeque::pop_front) {
                keys.push(Reverse((has + 1, turn, next, owner)));
            }
        }
        served
    }

    /// Whether everybody who waits and can get a worker has a place, and one is left.
    pub(in crate::pool) fn has_places_for_more(&self, max_sessions: usize, now: Instant) -> bool {
        let places = max_sessions.saturating_sub(self.leased());
        self.in_turn(places, now).len() < places
    }

    /// The caller who is served now, and the worker for it. One whose worker is not warm yet holds up nobody who has a place as well,
    /// but keeps its own.
    pub(in crate::pool) fn match_waiter(&mut self, max_sessions: usize) -> Option<(Waiter, Arc<Worker>)> {
        let places = max_sessions.saturating_sub(self.leased());
        let turns = self.in_turn(places, Instant::now());
        let index = turns.into_iter().find(|at| self.next(self.waiters[*at].key).is_some())?;
        let (key, owner) = (self.waiters[index].key, self.waiters[index].owner.clone());
        let worker = self.take_ready(key, &owner)?;
        self.take_waiter(index).map(|waiter| (waiter, worker))
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
        self.take_waiter(last)
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
        self.held.waits(&waiter.owner);
        self.waiters.push_back(Waiter { number, ..waiter });
        number
    }

    /// Whether the place was still held.
    pub(in crate::pool) fn leave(&mut self, number: u64) -> bool {
        let at = self.waiters.iter().position(|waiter| waiter.number == number);
        at.and_then(|at| self.take_waiter(at)).is_some()
    }

    /// How many callers wait.
    pub(in crate::pool) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Ends the queue for good, and returns those who waited in it.
    pub(in crate::pool) fn close(&mut self) -> Vec<Waiter> {
        self.closed = true;
        self.dismiss(|_| true)
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
    fn a_keys_callers_keep_no_other_from_another_kind_of_worker() {
        let mut state = PoolState::new(BTreeMap::new());
        state.runtime_up = true;
        // One key has all the places but one, and asks for more before another comes.
        for _ in 0..3 {
            let _reports = becomes_warm(&mut state, FIREFOX);
            state.take_ready(FIREFOX, &key('a')).unwrap();
        }
        (0..5).for_each(|_| waits(&mut state, 'a', FIREFOX));
        waits(&mut state, 'b', CHROMIUM);
        let wanted = |state: &PoolState, callers| {
            let kinds = state.kinds(callers, Instant::now());
            [FIREFOX, CHROMIUM].map(|kind| kinds.get(&kind).map_or(0, |kind| kind.waiting))
        };
        assert_eq!(wanted(&state, 1), [0, 1], "the place is for the key that has nothing");
        assert_eq!(wanted(&state, 3), [2, 1]);
        assert_eq!(wanted(&state, usize::MAX), [5, 1]);
        let _reports = becomes_warm(&mut state, FIREFOX);
        assert!(state.match_waiter(4).is_none() && !state.has_places_for_more(4, Instant::now()), "it is kept");
        assert!(state.match_waiter(5).is_some(), "another place is the next one's");
        let _reports = becomes_warm(&mut state, CHROMIUM);
        assert_eq!(state.match_waiter(5).unwrap().0.owner, key('b'));
        assert!(state.has_places_for_more(10, Instant::now()) && !state.has_places_for_more(9, Instant::now()));
    }

    #[test]
    fn a_place_is_kept_for_nobody_whose_worker_cannot_come() {
        let mut state = PoolState::new(BTreeMap::new());
        state.runtime_up = true;
        waits(&mut state, 'a', FIREFOX);
        waits(&mut state, 'b', CHROMIUM);
        let _reports = becomes_warm(&mut state, CHROMIUM);
        assert!(state.match_waiter(1).is_none(), "it is the other one's turn");
        state.absent.insert(Engine::Firefox);
        assert_eq!(state.kinds(1, Instant::now())[&CHROMIUM].waiting, 1);
        assert_eq!(state.match_waiter(1).unwrap().0.owner, key('b'));
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
