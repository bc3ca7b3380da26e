//! What the pool should do next: a pure function of what it has and what it is asked for.

use std::collections::BTreeMap;

use warmpool_api::status::KindCounts;
use warmpool_core::browser::PoolKey;

const fn containers(kind: &KindCounts) -> usize {
    kind.starting + kind.ready + kind.leased + kind.removing
}

/// How many callers would go away empty with what is ready or on its way.
const fn unserved(kind: &KindCounts) -> usize {
    kind.waiting.saturating_sub(kind.ready + kind.starting)
}

/// How many workers are missing from the target, beside those that waiting callers will take.
const fn missing(kind: &KindCounts) -> usize {
    (kind.target + kind.waiting).saturating_sub(kind.ready + kind.starting)
}

/// How many warm workers are beyond the target, as when a caller left before the one it waited for was ready.
const fn surplus(kind: &KindCounts) -> usize {
    kind.ready.saturating_sub(kind.target + kind.waiting)
}

/// Everything a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanInput {
    /// Every kind that has a target, a worker or a caller.
    pub kinds: BTreeMap<PoolKey, KindCounts>,
    /// The most containers there may be, in any state.
    pub max_workers: usize,
    /// The most that may start at the same time.
    pub start_concurrency: usize,
    /// Whether kinds may be refilled now, though nobody waits.
    pub refill: bool,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Start a worker.
    Start(PoolKey),
    /// Remove a warm worker: to make room for one that a caller waits for, or because it is surplus.
    Evict(PoolKey),
}

/// What to do now. Callers that wait come before empty kinds; the emptiest kind comes first.
pub(super) fn plan(view: &PlanInput) -> Vec<Action> {
    let mut kinds = view.kinds.clone();
    let mut actions = Vec::new();
    loop {
        let all: usize = kinds.values().map(containers).sum();
        let starting: usize = kinds.values().map(|kind| kind.starting).sum();
        if starting >= view.start_concurrency {
            break;
        }
        let Some(key) = next_to_start(&kinds, view.refill) else { break };
        if all < view.max_workers {
            actions.push(Action::Start(key));
            kinds.entry(key).or_default().starting += 1;
            continue;
        }
        // Full. A caller may have the place of a warm worker that nobody waits for; once the removal is done the place
        // is free, and the plan made then starts the caller's worker.
        let removing: usize = kinds.values().map(|kind| kind.removing).sum();
        let without: usize = kinds.values().map(unserved).sum();
        if removing >= without {
            break;
        }
        let Some(victim) = spare(&kinds) else { break };
        actions.push(Action::Evict(victim));
        let kind = kinds.entry(victim).or_default();
        kind.ready -= 1;
        kind.removing += 1;
    }
    // Where nothing can start what is there is kept: it cannot be had again.
    for (key, kind) in kinds.iter().filter(|(_, kind)| view.refill && !kind.backing_off) {
        actions.extend(std::iter::repeat_n(Action::Evict(*key), surplus(kind)));
    }
    actions
}

fn next_to_start(kinds: &BTreeMap<PoolKey, KindCounts>, refill: bool) -> Option<PoolKey> {
    let open = || kinds.iter().filter(|(_, kind)| !kind.backing_off);
    let waited_for = open().filter(|(_, kind)| unserved(kind) > 0).max_by_key(|(_, kind)| unserved(kind));
    let empty = || open().filter(|(_, kind)| refill && missing(kind) > 0).max_by_key(|(_, kind)| missing(kind));
    waited_for.or_else(empty).map(|(key, _)| *key)
}

/// The kind with the most warm workers that nobody waits for.
fn spare(kinds: &BTreeMap<PoolKey, KindCounts>) -> Option<PoolKey> {
    kinds
        .iter()
        .filter(|(_, kind)| kind.ready > kind.waiting)
        .max_by_key(|(_, kind)| kind.ready - kind.waiting)
        .map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use warmpool_core::browser::{Engine, Mode};

    const HEADED: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headed);
    const HEADLESS: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headless);

    fn view(headed: KindCounts, headless: KindCounts) -> PlanInput {
        PlanInput {
            kinds: BTreeMap::from([(HEADED, headed), (HEADLESS, headless)]),
            max_workers: 4,
            start_concurrency: 1,
            refill: true,
        }
    }

    #[test]
    fn an_empty_pool_starts_one_at_a_time() {
        let empty = KindCounts { target: 2, ..KindCounts::default() };
        assert_eq!(plan(&view(empty, KindCounts::default())), [Action::Start(HEADED)]);
    }

    #[test]
    fn a_full_shelf_is_left_alone() {
        let full = KindCounts { target: 2, ready: 2, ..KindCounts::default() };
        assert_eq!(plan(&view(full, KindCounts::default())), []);
    }

    #[test]
    fn callers_come_before_empty_shelves() {
        let empty = KindCounts { target: 3, ..KindCounts::default() };
        let waited = KindCounts { waiting: 1, ..KindCounts::default() };
        assert_eq!(plan(&view(empty, waited)), [Action::Start(HEADLESS)]);
    }

    #[test]
    fn refilling_waits_when_told_to_and_callers_do_not() {
        let empty = KindCounts { target: 2, ..KindCounts::default() };
        let mut view = view(empty, KindCounts::default());
        view.refill = false;
        assert_eq!(plan(&view), []);
        view.kinds.insert(HEADED, KindCounts { waiting: 1, ..empty });
        assert_eq!(plan(&view), [Action::Start(HEADED)]);
    }

    #[test]
    fn a_caller_of_another_kind_gets_the_place_of_a_spare_worker() {
        let spare = KindCounts { target: 4, ready: 4, ..KindCounts::default() };
        let waited = KindCounts { waiting: 1, ..KindCounts::default() };
        assert_eq!(plan(&view(spare, waited)), [Action::Evict(HEADED)]);
        // Not again while that removal is under way.
        let making_room = KindCounts { target: 4, ready: 3, removing: 1, ..KindCounts::default() };
        assert_eq!(plan(&view(making_room, waited)), []);
    }

    #[test]
    fn a_shelf_without_a_target_starts_what_is_waited_for_and_keeps_nothing() {
        let empty = KindCounts::default();
        let two_wait = KindCounts { waiting: 2, ..empty };
        let mut view = view(two_wait, empty);
        view.start_concurrency = 4;
        assert_eq!(plan(&view), [Action::Start(HEADED), Action::Start(HEADED)]);
        // One caller left while both were on their way, and they are ready now.
        view.kinds.insert(HEADED, KindCounts { waiting: 1, ready: 2, ..empty });
        assert_eq!(plan(&view), [Action::Evict(HEADED)]);
        // Without an image there is nothing to replace it by.
        view.kinds.insert(HEADED, KindCounts { ready: 2, backing_off: true, ..empty });
        assert_eq!(plan(&view), []);
    }

    #[test]
    fn nothing_starts_on_a_shelf_that_backs_off() {
        let failing = KindCounts { target: 2, waiting: 1, backing_off: true, ..KindCounts::default() };
        assert_eq!(plan(&view(failing, KindCounts::default())), []);
    }

    fn kind() -> impl Strategy<Value = KindCounts> {
        (0..4usize, 0..3usize, 0..4usize, 0..3usize, 0..2usize, 0..4usize, any::<bool>()).prop_map(
            |(target, starting, ready, leased, removing, waiting, backing_off)| KindCounts {
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
    fn carry_out(view: &mut PlanInput, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start(key) => view.kinds.get_mut(key).unwrap().starting += 1,
                Action::Evict(key) => {
                    let kind = view.kinds.get_mut(key).unwrap();
                    kind.ready -= 1;
                    kind.removing += 1;
                }
            }
        }
        for kind in view.kinds.values_mut() {
            kind.removing = 0;
            kind.ready += std::mem::take(&mut kind.starting);
            let served = kind.waiting.min(kind.ready);
            kind.waiting -= served;
            kind.ready -= served;
            kind.leased += served;
        }
    }

    proptest! {
        #[test]
        fn limits_hold_whatever_the_state(a in kind(), b in kind(), max in 1..12usize, concurrency in 1..4usize) {
            let mut view = view(a, b);
            view.max_workers = max;
            view.start_concurrency = concurrency;
            let before: usize = view.kinds.values().map(containers).sum();
            let starting: usize = view.kinds.values().map(|kind| kind.starting).sum();
            let actions = plan(&view);
            let starts = actions.iter().filter(|action| matches!(action, Action::Start(_))).count();
            prop_assert!(starts == 0 || before + starts <= max);
            prop_assert!(starts == 0 || starting + starts <= concurrency);
            for key in [HEADED, HEADLESS] {
                let evicted = actions.iter().filter(|action| **action == Action::Evict(key)).count();
                let kind = view.kinds[&key];
                prop_assert!(evicted <= kind.ready.saturating_sub(kind.waiting));
                prop_assert!(!(kind.backing_off && actions.contains(&Action::Start(key))));
            }
        }

        #[test]
        fn a_quiet_pool_comes_back_to_its_targets(a in kind(), b in kind()) {
            let mut view = view(KindCounts { backing_off: false, ..a }, KindCounts { backing_off: false, ..b });
            view.max_workers = 100;
            for _ in 0..40 {
                let actions = plan(&view);
                carry_out(&mut view, &actions);
            }
            for kind in view.kinds.values() {
                prop_assert_eq!(kind.waiting, 0);
                prop_assert_eq!(kind.ready, kind.target);
            }
            prop_assert_eq!(plan(&view), []);
        }

        #[test]
        fn callers_are_served_while_places_can_be_made(a in kind(), b in kind()) {
            let open = |kind: KindCounts| KindCounts { backing_off: false, leased: 0, ..kind };
            let mut view = view(open(a), open(b));
            view.max_workers = 8;
            let waiting: usize = view.kinds.values().map(|kind| kind.waiting).sum();
            for _ in 0..40 {
                let actions = plan(&view);
                carry_out(&mut view, &actions);
            }
            let left: usize = view.kinds.values().map(|kind| kind.waiting).sum();
            prop_assert!(waiting > 8 || left == 0, "{} of {} still wait", left, waiting);
        }
    }
}
