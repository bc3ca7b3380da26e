//! Who waits for a turn, and who of them is next.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::sync::oneshot;

use super::Turn;
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

/// What a key may have at the same time, however many turns are free.
pub(in crate::task) trait KeyLimits: Send + Sync {
    /// How many more sessions a key may have.
    fn room(&self, owner: &KeyId) -> usize;

    /// Whether a session of a key writes this profile of the key's.
    fn is_written(&self, owner: &KeyId, profile: &str) -> bool;
}

/// A task that waits for a turn, or a fleet that waits for one more.
pub(super) struct Waiter {
    pub(super) task: TaskId,
    pub(super) owner: KeyId,
    /// The profile that its session is to write, where that is known to have been in its way.
    pub(super) profile: Option<String>,
    pub(super) sender: oneshot::Sender<Turn>,
}

/// The turns that a key has.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    turns: usize,
    /// How many of them have no session yet.
    asking: usize,
}

/// Who waits, and who has what.
pub(super) struct TurnQueue {
    /// How many turns nobody has.
    free: usize,
    /// The number of the last place.
    place: u64,
    /// The number of the last turn.
    turn: u64,
    /// The last turn of each key that ever had one.
    last: HashMap<KeyId, u64>,
    held: HashMap<KeyId, Held>,
    /// The profiles that sessions of those who have turns are to write.
    claimed: HashSet<(KeyId, String)>,
    /// Those who wait, by the numbers of their places.
    waiting: BTreeMap<u64, Waiter>,
}

impl TurnQueue {
    pub(super) fn new(turns: usize) -> Self {
        Self {
            free: turns,
            place: 0,
            turn: 0,
            last: HashMap::new(),
            held: HashMap::new(),
            claimed: HashSet::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Enters somebody at a place that they had before, or else at the end. Returns the number of the place.
    pub(super) fn enter(&mut self, place: Option<u64>, waiter: Waiter) -> u64 {
        let place = place.unwrap_or_else(|| {
            self.place += 1;
            self.place
        });
        self.waiting.insert(place, waiter);
        place
    }

    pub(super) fn leave(&mut self, place: u64) {
        self.waiting.remove(&place);
    }

    /// Gives a free turn to the one who is next: of those who can have a session, first of the key that has the fewest turns, then of
    /// the one whose last turn was the longest ago, then the first one to come.
    pub(super) fn serve(&mut self, limits: &dyn KeyLimits) -> Option<Waiter> {
        let next = if self.free > 0 { self.next(limits) } else { None };
        let waiter = self.waiting.remove(&next?)?;
        self.free -= 1;
        self.turn += 1;
        self.last.insert(waiter.owner.clone(), self.turn);
        let held = self.held.entry(waiter.owner.clone()).or_default();
        held.turns += 1;
        held.asking += 1;
        self.claimed.extend(waiter.profile.clone().map(|profile| (waiter.owner.clone(), profile)));
        Some(waiter)
    }

    fn next(&self, limits: &dyn KeyLimits) -> Option<u64> {
        self.able(None, limits).min_by_key(|(place, waiter)| self.rank(&waiter.owner, *place)).map(|(place, _)| place)
    }

    /// Whether a turn would be another task's if this task, which has one, gave it back and waited at this place or at the end.
    pub(super) fn is_wanted(&self, task: TaskId, owner: &KeyId, place: Option<u64>, limits: &dyn KeyLimits) -> bool {
        let rank = |of: &KeyId, place| {
            let (turns, last, place) = self.rank(of, place);
            (turns.saturating_sub(usize::from(of == owner)), last, place)
        };
        let own = rank(owner, place.unwrap_or(u64::MAX));
        self.able(Some(owner), limits).any(|(place, waiter)| waiter.task != task && rank(&waiter.owner, place) < own)
    }

    /// Those who can have a session now, or could if this key had one less, and their places.
    fn able<'a>(
        &'a self,
        without: Option<&'a KeyId>,
        limits: &'a dyn KeyLimits,
    ) -> impl Iterator<Item = (u64, &'a Waiter)> {
        let mut rooms = HashMap::<&KeyId, bool>::new();
        let places = self.waiting.iter().map(|(place, waiter)| (*place, waiter));
        places.filter(move |(_, waiter)| {
            let owner = &waiter.owner;
            let has_room = || self.room(owner, limits) + usize::from(without == Some(owner)) > 0;
            *rooms.entry(owner).or_insert_with(has_room) && !self.waits_for_profile(waiter, limits)
        })
    }

    /// Whether turns are free that none of those who wait can use now.
    pub(super) fn passes_over(&self) -> bool {
        self.free > 0 && !self.waiting.is_empty()
    }

    /// The turn of somebody has led to a session.
    pub(super) fn got_session(&mut self, owner: &KeyId) {
        if let Some(held) = self.held.get_mut(owner) {
            held.asking -= 1;
        }
    }

    /// Takes the right to write a profile before other tasks. Returns whether no other one has it.
    pub(super) fn claim(&mut self, owner: &KeyId, profile: &str) -> bool {
        self.claimed.insert((owner.clone(), profile.to_owned()))
    }

    /// A turn comes back, which had led to no session yet where it `asks`.
    pub(super) fn end(&mut self, owner: &KeyId, asks: bool, profile: Option<String>) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(owner) {
            held.turns -= 1;
            held.asking -= usize::from(asks);
            if held.turns == 0 {
                self.held.remove(owner);
            }
        }
        if let Some(profile) = profile {
            self.claimed.remove(&(owner.clone(), profile));
        }
    }

    fn rank(&self, owner: &KeyId, place: u64) -> (usize, u64, u64) {
        let last = self.last.get(owner).copied().unwrap_or_default();
        (self.held(owner).turns, last, place)
    }

    fn held(&self, owner: &KeyId) -> Held {
        self.held.get(owner).copied().unwrap_or_default()
    }

    /// How many more sessions a key may have beside those that it asks for already.
    fn room(&self, owner: &KeyId, limits: &dyn KeyLimits) -> usize {
        limits.room(owner).saturating_sub(self.held(owner).asking)
    }

    fn waits_for_profile(&self, waiter: &Waiter, limits: &dyn KeyLimits) -> bool {
        let Some(profile) = &waiter.profile else { return false };
        self.claimed.contains(&(waiter.owner.clone(), profile.clone())) || limits.is_written(&waiter.owner, profile)
    }

    /// How many turns nobody has.
    #[cfg(test)]
    pub(super) const fn free(&self) -> usize {
        self.free
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What keys have beside tasks.
    #[derive(Default)]
    struct Limits {
        rooms: HashMap<KeyId, usize>,
        written: HashSet<(KeyId, String)>,
    }

    impl KeyLimits for Limits {
        fn room(&self, owner: &KeyId) -> usize {
            self.rooms.get(owner).copied().unwrap_or(usize::MAX)
        }

        fn is_written(&self, owner: &KeyId, profile: &str) -> bool {
            self.written.contains(&(owner.clone(), profile.to_owned()))
        }
    }

    fn key(letter: char) -> KeyId {
        letter.to_string().repeat(12).parse().unwrap()
    }

    fn waiter(letter: char, task: u128, profile: Option<&str>) -> Waiter {
        let sender = oneshot::channel().0;
        Waiter { task: TaskId::from_number(task), owner: key(letter), profile: profile.map(str::to_owned), sender }
    }

    /// A queue for so many turns, in which tasks of these keys wait, one letter for each.
    fn queue(turns: usize, waiting: &str) -> TurnQueue {
        let mut queue = TurnQueue::new(turns);
        for (letter, task) in waiting.chars().zip(1..) {
            queue.enter(None, waiter(letter, task, None));
        }
        queue
    }

    /// Who is served, one after another; each has a session and ends before the next one where `ends` says so.
    fn order(queue: &mut TurnQueue, limits: &Limits, ends: bool) -> String {
        let served = std::iter::from_fn(|| {
            let waiter = queue.serve(limits)?;
            if ends {
                queue.got_session(&waiter.owner);
                queue.end(&waiter.owner, false, waiter.profile);
            }
            waiter.owner.as_str().chars().next()
        });
        served.collect()
    }

    #[test]
    fn a_key_with_many_tasks_takes_turns_with_others() {
        let limits = Limits::default();
        assert_eq!(order(&mut queue(1, "aaaaabb"), &limits, true), "ababaaa");
        assert_eq!(order(&mut queue(4, "aaaaabb"), &limits, false), "abab", "each has as many turns as the other");
        let mut queue = queue(4, "aaaaaa");
        assert_eq!(order(&mut queue, &limits, false), "aaaa", "nobody else wants them");
        for (letter, task) in [('b', 7), ('b', 8), ('c', 9)] {
            queue.enter(None, waiter(letter, task, None));
        }
        queue.end(&key('a'), true, None);
        queue.end(&key('a'), true, None);
        assert_eq!(order(&mut queue, &limits, false), "bc", "those who have the fewest come first");
    }

    #[test]
    fn a_task_comes_back_to_its_place() {
        let (limits, mut queue) = (Limits::default(), queue(1, "aaa"));
        queue.serve(&limits).unwrap();
        queue.end(&key('a'), true, None);
        queue.enter(Some(1), waiter('a', 1, None));
        assert_eq!(queue.serve(&limits).unwrap().task, TaskId::from_number(1));
    }

    #[test]
    fn who_cannot_have_a_session_is_passed_over() {
        let mut limits = Limits::default();
        limits.rooms.insert(key('a'), 2);
        let mut queue = queue(4, "aaab");
        assert_eq!(order(&mut queue, &limits, false), "aba", "the key asks for as many as it may have");
        assert!(queue.passes_over());
        // One of them has its session, which counts now, and the other one has given its turn back.
        limits.rooms.insert(key('a'), 1);
        queue.got_session(&key('a'));
        queue.end(&key('a'), true, None);
        assert_eq!(order(&mut queue, &limits, false), "a");
        assert!(!queue.passes_over());
    }

    #[test]
    fn a_profile_is_written_by_one_task_at_a_time() {
        let mut limits = Limits::default();
        let mut queue = TurnQueue::new(3);
        for (task, profile) in [(1, Some("shop")), (2, Some("shop")), (3, Some("bank")), (4, None)] {
            queue.enter(None, waiter('a', task, profile));
        }
        limits.written.insert((key('a'), "bank".to_owned()));
        let mut served = Vec::new();
        while let Some(waiter) = queue.serve(&limits) {
            served.push(waiter.task.number());
        }
        assert_eq!(served, [1, 4]);
        assert!(!queue.claim(&key('a'), "shop") && queue.claim(&key('b'), "shop"), "another key has its own");
        limits.written.clear();
        assert_eq!(queue.serve(&limits).unwrap().task.number(), 3);
        queue.end(&key('a'), true, Some("shop".to_owned()));
        assert_eq!(queue.serve(&limits).unwrap().task.number(), 2);
    }

    #[test]
    fn a_turn_is_wanted_by_those_whose_it_would_be() {
        let mut limits = Limits::default();
        let fleet = TaskId::from_number(1);
        let mut queue = queue(2, "aa");
        order(&mut queue, &limits, false);
        let wanted = |queue: &TurnQueue, limits: &Limits, place| queue.is_wanted(fleet, &key('a'), place, limits);
        queue.enter(None, waiter('a', 1, None));
        assert!(!wanted(&queue, &limits, None), "not by its own");
        queue.enter(None, waiter('a', 2, None));
        assert!(wanted(&queue, &limits, None) && !wanted(&queue, &limits, Some(1)), "by one that comes before it");
        limits.rooms.insert(key('a'), 0);
        order(&mut queue, &limits, false);
        queue.end(&key('a'), true, None);
        queue.got_session(&key('a'));
        assert!(wanted(&queue, &limits, None), "the key has room for the other one's session in place of its own");
        queue.leave(4);
        queue.enter(None, waiter('b', 3, None));
        assert!(wanted(&queue, &limits, None), "by a key that has less");
        limits.rooms.insert(key('b'), 0);
        assert!(!wanted(&queue, &limits, None), "not by one that can do nothing with it");
    }

    #[test]
    fn a_turn_is_not_given_back_for_one_that_has_more() {
        let (limits, mut queue) = (Limits::default(), queue(3, "abb"));
        order(&mut queue, &limits, false);
        queue.enter(None, waiter('b', 4, None));
        assert!(!queue.is_wanted(TaskId::from_number(1), &key('a'), None, &limits));
        assert!(queue.is_wanted(TaskId::from_number(2), &key('b'), None, &limits));
    }

    #[derive(Debug, Clone)]
    enum Move {
        Enter(char, bool),
        End(usize),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let letter = prop_oneof![Just('a'), Just('b'), Just('c')];
        let enter = (letter, any::<bool>()).prop_map(|(letter, profile)| Move::Enter(letter, profile));
        proptest::collection::vec(prop_oneof![2 => enter, 1 => (0..9usize).prop_map(Move::End)], 0..80)
    }

    proptest! {
        /// Each turn goes to the key with the fewest of those that can have a session, and the first one of it; nobody waits while a
        /// turn is free for it, and none is lost.
        #[test]
        fn turns_are_fair(moves in moves(), turns in 1..4usize, room in 0..3usize) {
            let limits = Limits { rooms: HashMap::from([(key('c'), room)]), ..Limits::default() };
            let mut queue = TurnQueue::new(turns);
            let (mut waiting, mut held) = (Vec::<(u64, char, bool)>::new(), Vec::<(char, bool)>::new());
            for step in moves {
                match step {
                    Move::Enter(letter, profile) => {
                        let place = queue.enter(None, waiter(letter, 1, profile.then_some("shop")));
                        waiting.push((place, letter, profile));
                    }
                    Move::End(at) if at < held.len() => {
                        let (letter, profile) = held.remove(at);
                        queue.end(&key(letter), true, profile.then(|| "shop".to_owned()));
                    }
                    Move::End(_) => {}
                }
                loop {
                    let of = |letter| held.iter().filter(|(by, _)| *by == letter).count();
                    let able: Vec<_> = waiting.iter().copied().filter(|(_, letter, profile)| {
                        let writes = *profile && held.contains(&(*letter, true));
                        !writes && (*letter != 'c' || of('c') < room)
                    }).collect();
                    let Some(next) = queue.serve(&limits) else {
                        prop_assert!(held.len() == turns || able.is_empty(), "{able:?} wait for nothing");
                        break;
                    };
                    let letter = next.owner.as_str().chars().next().unwrap();
                    let first = able.iter().find(|(_, by, _)| *by == letter).copied();
                    let Some(first) = first else { panic!("{letter} cannot have a session") };
                    prop_assert_eq!(first.2, next.profile.is_some());
                    let fewest = able.iter().map(|(_, by, _)| of(*by)).min();
                    prop_assert_eq!(Some(of(letter)), fewest);
                    waiting.retain(|waits| *waits != first);
                    held.push((letter, first.2));
                }
                prop_assert_eq!(queue.len(), waiting.len());
            }
        }
    }
}
