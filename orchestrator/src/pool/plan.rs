//! What the pool should do next: a pure function of what it has and what it is asked for.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::PoolKey;

/// What the pool has of one engine and mode, and what is wanted of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Shelf {
    /// How many warm workers to keep.
    pub target: usize,
    /// Being started.
    pub starting: usize,
    /// Warm, never used.
    pub ready: usize,
    /// Owned by a session.
    pub leased: usize,
    /// Being removed.
    pub removing: usize,
    /// Callers that wait for one and may have one.
    pub waiting: usize,
    /// Whether starts are held back: after failures, or because there is no image.
    pub backing_off: bool,
}

impl Shelf {
    const fn containers(&self) -> usize {
        self.starting + self.ready + self.leased + self.removing
    }

    /// How many callers would go away empty with what is ready or on its way.
    const fn unserved(&self) -> usize {
        self.waiting.saturating_sub(self.ready + self.starting)
    }

    /// How many workers are missing from the target, beside those that waiting callers will take.
    const fn missing(&self) -> usize {
        (self.target + self.waiting).saturating_sub(self.ready + self.starting)
    }

    /// How many warm workers are beyond the target, as when a caller left before the one it waited for was ready.
    const fn surplus(&self) -> usize {
        self.ready.saturating_sub(self.target + self.waiting)
    }
}

/// Everything a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// Every shelf that has a target, a worker or a caller.
    pub shelves: BTreeMap<PoolKey, Shelf>,
    /// The most containers there may be, in any state.
    pub max_workers: usize,
    /// The most that may start at the same time.
    pub start_concurrency: usize,
    /// Whether shelves may be refilled now, though nobody waits.
    pub refill: bool,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Start a worker.
    Start(PoolKey),
    /// Remove a warm worker: for want of room for one that somebody waits for, or because it is one too many.
    Evict(PoolKey),
}

/// What to do now. Callers that wait come before empty shelves; the emptiest shelf comes first.
#[must_use]
pub(super) fn plan(view: &View) -> Vec<Action> {
    let mut shelves = view.shelves.clone();
    let mut actions = Vec::new();
    loop {
        let containers: usize = shelves.values().map(Shelf::containers).sum();
        let starting: usize = shelves.values().map(|shelf| shelf.starting).sum();
        if starting >= view.start_concurrency {
            break;
        }
        let Some(key) = next_to_start(&shelves, view.refill) else { break };
        if containers < view.max_workers {
            actions.push(Action::Start(key));
            shelves.entry(key).or_default().starting += 1;
            continue;
        }
        // Full. A caller may have the place of a warm worker that nobody waits for; once the removal is done the place
        // is free, and the plan made then starts the caller's worker.
        let removing: usize = shelves.values().map(|shelf| shelf.removing).sum();
        let unserved: usize = shelves.values().map(Shelf::unserved).sum();
        if removing >= unserved {
            break;
        }
        let Some(victim) = spare(&shelves) else { break };
        actions.push(Action::Evict(victim));
        let shelf = shelves.entry(victim).or_default();
        shelf.ready -= 1;
        shelf.removing += 1;
    }
    // Where nothing can start what is there is kept: it cannot be had again.
    for (key, shelf) in shelves.iter().filter(|(_, shelf)| view.refill && !shelf.backing_off) {
        actions.extend(std::iter::repeat_n(Action::Evict(*key), shelf.surplus()));
    }
    actions
}

fn next_to_start(shelves: &BTreeMap<PoolKey, Shelf>, refill: bool) -> Option<PoolKey> {
    let open = || shelves.iter().filter(|(_, shelf)| !shelf.backing_off);
    let waited_for = open().filter(|(_, shelf)| shelf.unserved() > 0).max_by_key(|(_, shelf)| shelf.unserved());
    let empty = || open().filter(|(_, shelf)| refill && shelf.missing() > 0).max_by_key(|(_, shelf)| shelf.missing());
    waited_for.or_else(empty).map(|(key, _)| *key)
}

/// The shelf with the most warm workers that nobody waits for.
fn spare(shelves: &BTreeMap<PoolKey, Shelf>) -> Option<PoolKey> {
    shelves
        .iter()
        .filter(|(_, shelf)| shelf.ready > shelf.waiting)
        .max_by_key(|(_, shelf)| shelf.ready - shelf.waiting)
        .map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Engine, Mode};

    const HEADED: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headed);
    const HEADLESS: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headless);

    fn view(headed: Shelf, headless: Shelf) -> View {
        View {
            shelves: BTreeMap::from([(HEADED, headed), (HEADLESS, headless)]),
            max_workers: 4,
            start_concurrency: 1,
            refill: true,
        }
    }

    #[test]
    fn an_empty_pool_starts_one_at_a_time() {
        let empty = Shelf { target: 2, ..Shelf::default() };
        assert_eq!(plan(&view(empty, Shelf::default())), [Action::Start(HEADED)]);
    }

    #[test]
    fn a_full_shelf_is_left_alone() {
        let full = Shelf { target: 2, ready: 2, ..Shelf::default() };
        assert_eq!(plan(&view(full, Shelf::default())), []);
    }

    #[test]
    fn callers_come_before_empty_shelves() {
        let empty = Shelf { target: 3, ..Shelf::default() };
        let waited = Shelf { waiting: 1, ..Shelf::default() };
        assert_eq!(plan(&view(empty, waited)), [Action::Start(HEADLESS)]);
    }

    #[test]
    fn refilling_waits_when_told_to_and_callers_do_not() {
        let empty = Shelf { target: 2, ..Shelf::default() };
        let mut view = view(empty, Shelf::default());
        view.refill = false;
        assert_eq!(plan(&view), []);
        view.shelves.insert(HEADED, Shelf { waiting: 1, ..empty });
        assert_eq!(plan(&view), [Action::Start(HEADED)]);
    }

    #[test]
    fn a_caller_of_another_kind_gets_the_place_of_a_spare_worker() {
        let spare = Shelf { target: 4, ready: 4, ..Shelf::default() };
        let waited = Shelf { waiting: 1, ..Shelf::default() };
        assert_eq!(plan(&view(spare, waited)), [Action::Evict(HEADED)]);
        // Not again while that removal is under way.
        let making_room = Shelf { target: 4, ready: 3, removing: 1, ..Shelf::default() };
        assert_eq!(plan(&view(making_room, waited)), []);
    }

    #[test]
    fn a_shelf_without_a_target_starts_what_is_waited_for_and_keeps_nothing() {
        let empty = Shelf::default();
        let two_wait = Shelf { waiting: 2, ..empty };
        let mut view = view(two_wait, empty);
        view.start_concurrency = 4;
        assert_eq!(plan(&view), [Action::Start(HEADED), Action::Start(HEADED)]);
        // One caller left while both were on their way, and they are ready now.
        view.shelves.insert(HEADED, Shelf { waiting: 1, ready: 2, ..empty });
        assert_eq!(plan(&view), [Action::Evict(HEADED)]);
        // Without an image there is no other one to be had.
        view.shelves.insert(HEADED, Shelf { ready: 2, backing_off: true, ..empty });
        assert_eq!(plan(&view), []);
    }

    #[test]
    fn nothing_starts_on_a_shelf_that_backs_off() {
        let failing = Shelf { target: 2, waiting: 1, backing_off: true, ..Shelf::default() };
        assert_eq!(plan(&view(failing, Shelf::default())), []);
    }

    fn shelf() -> impl Strategy<Value = Shelf> {
        (0..4usize, 0..3usize, 0..4usize, 0..3usize, 0..2usize, 0..4usize, any::<bool>()).prop_map(
            |(target, starting, ready, leased, removing, waiting, backing_off)| Shelf {
                target,
                starting,
                ready,
                leased,
                removing,
                waiting,
                backing_off,
            },
        )
    }

    /// Does what a plan says, and finishes what was under way.
    fn carry_out(view: &mut View, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start(key) => view.shelves.get_mut(key).unwrap().starting += 1,
                Action::Evict(key) => {
                    let shelf = view.shelves.get_mut(key).unwrap();
                    shelf.ready -= 1;
                    shelf.removing += 1;
                }
            }
        }
        for shelf in view.shelves.values_mut() {
            shelf.removing = 0;
            shelf.ready += std::mem::take(&mut shelf.starting);
            let served = shelf.waiting.min(shelf.ready);
            shelf.waiting -= served;
            shelf.ready -= served;
            shelf.leased += served;
        }
    }

    proptest! {
        #[test]
        fn limits_hold_whatever_the_state(a in shelf(), b in shelf(), max in 1..12usize, concurrency in 1..4usize) {
            let mut view = view(a, b);
            view.max_workers = max;
            view.start_concurrency = concurrency;
            let before: usize = view.shelves.values().map(Shelf::containers).sum();
            let starting: usize = view.shelves.values().map(|shelf| shelf.starting).sum();
            let actions = plan(&view);
            let starts = actions.iter().filter(|action| matches!(action, Action::Start(_))).count();
            prop_assert!(starts == 0 || before + starts <= max);
            prop_assert!(starts == 0 || starting + starts <= concurrency);
            for key in [HEADED, HEADLESS] {
                let evicted = actions.iter().filter(|action| **action == Action::Evict(key)).count();
                let shelf = view.shelves[&key];
                prop_assert!(evicted <= shelf.ready.saturating_sub(shelf.waiting));
                prop_assert!(!(shelf.backing_off && actions.contains(&Action::Start(key))));
            }
        }

        #[test]
        fn a_quiet_pool_comes_back_to_its_targets(a in shelf(), b in shelf()) {
            let mut view = view(Shelf { backing_off: false, ..a }, Shelf { backing_off: false, ..b });
            view.max_workers = 100;
            for _ in 0..40 {
                let actions = plan(&view);
                carry_out(&mut view, &actions);
            }
            for shelf in view.shelves.values() {
                prop_assert_eq!(shelf.waiting, 0);
                prop_assert_eq!(shelf.ready, shelf.target);
            }
            prop_assert_eq!(plan(&view), []);
        }

        #[test]
        fn callers_are_served_while_places_can_be_made(a in shelf(), b in shelf()) {
            let open = |shelf: Shelf| Shelf { backing_off: false, leased: 0, ..shelf };
            let mut view = view(open(a), open(b));
            view.max_workers = 8;
            let waiting: usize = view.shelves.values().map(|shelf| shelf.waiting).sum();
            for _ in 0..40 {
                let actions = plan(&view);
                carry_out(&mut view, &actions);
            }
            let left: usize = view.shelves.values().map(|shelf| shelf.waiting).sum();
            prop_assert!(waiting > 8 || left == 0, "{} of {} still wait", left, waiting);
        }
    }
}
