//! Turns to have a worker: there is one for each worker that tasks may use. Whoever cannot use a turn now, because of what its key
//! has already, is passed over until that changes, and keeps no turn from others.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::active::ActiveTask;
pub(super) use queue::KeyLimits;
use queue::{TurnQueue, Waiter};
use warmpool_core::drain::{Drain, Phase};
use warmpool_keys::KeyId;

/// Time between two looks whether those who were passed over can have a session, where no session's end tells it.
const LOOK: Duration = Duration::from_secs(1);

/// All turns. Clones share them.
#[derive(Clone)]
pub(super) struct Turns(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    limits: Box<dyn KeyLimits>,
    /// Changes when a key has fewer sessions than before.
    changes: watch::Receiver<u64>,
    drain: Drain,
}

struct State {
    queue: TurnQueue,
    /// Whether somebody looks again for those who were passed over.
    watched: bool,
}

/// A turn, given back when dropped.
struct Turn {
    turns: Turns,
    owner: KeyId,
    /// The profile that its session writes, for which no other task asks meanwhile.
    profile: Option<String>,
    /// Whether it has led to no session yet.
    asks: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().queue.end(&self.owner, self.asks, self.profile.take());
        self.turns.hand_out();
    }
}

/// Where somebody stands: in the queue or with a turn.
pub(super) struct Place {
    /// Its number in the queue, where it comes back to the same place.
    number: Option<u64>,
    keeps_number: bool,
    /// The profile that has been in its way.
    profile: Option<String>,
    turn: Option<Turn>,
    /// How long a session was asked for in vain, with the turn.
    pub(super) asked: Duration,
}

impl Place {
    const fn new(keeps_number: bool) -> Self {
        Self { number: None, keeps_number, profile: None, turn: None, asked: Duration::ZERO }
    }

    /// One of a run or an extract, which comes back to the same place where it has to give a turn back.
    pub(super) const fn of_task() -> Self {
        Self::new(true)
    }

    /// One of a fleet's runner, which goes to the end of the queue after each turn.
    pub(super) const fn of_runner() -> Self {
        Self::new(false)
    }

    pub(super) const fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Gives the turn back, if it has one.
    pub(super) fn give_back(&mut self) {
        self.turn = None;
    }

    /// The turn has led to a session.
    pub(super) fn got_session(&mut self) {
        self.asked = Duration::ZERO;
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.asks) else { return };
        turn.asks = false;
        turn.turns.lock().queue.got_session(&turn.owner);
        turn.turns.hand_out();
    }

    /// Takes the right to write a profile before other tasks, until the turn is given back. Returns whether no other one has it.
    /// From then on the place has its next turn once nobody writes the profile.
    pub(super) fn claim(&mut self, profile: &str) -> bool {
        self.profile = Some(profile.to_owned());
        let Some(turn) = &mut self.turn else { return false };
        if turn.profile.is_none() && turn.turns.lock().queue.claim(&turn.owner, profile) {
            turn.profile = Some(profile.to_owned());
        }
        turn.profile.is_some()
    }
}

/// A place in the queue, left when dropped.
struct InQueue<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.turns.lock().queue.leave(self.number);
    }
}

impl Turns {
    /// So many turns. `changes` tells that `limits` may be less in the way than before.
    pub(super) fn new(
        turns: usize,
        limits: impl KeyLimits + 'static,
        changes: watch::Receiver<u64>,
        drain: Drain,
    ) -> Self {
        let state = State { queue: TurnQueue::new(turns), watched: false };
        Self(Arc::new(Shared { state: Mutex::new(state), limits: Box::new(limits), changes, drain }))
    }

    /// Waits until it is the task's turn.
    ///
    /// Dropping the future leaves the queue.
    pub(super) async fn take(&self, task: &ActiveTask, place: &mut Place) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter { task: task.id, owner: task.owner.clone(), profile: place.profile.clone(), sender };
        let number = self.lock().queue.enter(place.number, waiter);
        place.number = place.keeps_number.then_some(number);
        let _in_queue = InQueue { turns: self, number };
        self.hand_out();
        place.turn = receiver.await.ok();
    }

    /// Whether a turn would be another task's if this one, which has it, gave it back.
    pub(super) fn are_wanted(&self, task: &ActiveTask, place: &Place) -> bool {
        self.lock().queue.is_wanted(task.id, &task.owner, place.number, &*self.0.limits)
    }

    fn hand_out(&self) {
        loop {
            let Some(waiter) = self.lock().queue.serve(&*self.0.limits) else { break };
            let turn = Turn { turns: self.clone(), owner: waiter.owner, profile: waiter.profile, asks: true };
            // Outside the lock: a receiver that is gone drops the turn, and that takes the lock.
            let _ = waiter.sender.send(turn);
        }
        self.watch();
    }

    /// While somebody is passed over, looks again as sessions end. What else was in the way, such as a profile that is being saved,
    /// tells nobody that it is gone.
    fn watch(&self) {
        {
            let mut state = self.lock();
            if state.watched || !state.queue.passes_over() {
                return;
            }
            state.watched = true;
        }
        let (turns, mut changes) = (self.clone(), self.0.changes.clone());
        self.0.drain.spawn(async move {
            loop {
                tokio::select! {
                    () = turns.0.drain.reached(Phase::Draining) => return,
                    Ok(()) = changes.changed() => {}
                    () = sleep(LOOK) => {}
                }
                turns.hand_out();
                let mut state = turns.lock();
                state.watched = state.queue.passes_over();
                if !state.watched {
                    return;
                }
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// How many turns nobody has.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.lock().queue.free()
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.lock().queue.len()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::super::accept::new_record;
    use super::super::spec::TaskSpec;
    use super::*;
    use warmpool_core::ids::TaskId;

    /// Longer than any wait for a turn that comes.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What all keys may have in all.
    #[derive(Clone)]
    struct Room(Arc<Mutex<usize>>);

    impl KeyLimits for Room {
        fn room(&self, _owner: &KeyId) -> usize {
            *self.0.lock()
        }

        fn is_written(&self, _owner: &KeyId, _profile: &str) -> bool {
            false
        }
    }

    struct Bench {
        turns: Turns,
        room: Room,
        changes: watch::Sender<u64>,
        drain: Drain,
    }

    impl Bench {
        fn new(turns: usize, room: usize) -> Self {
            let (room, changes, drain) = (Room(Arc::new(Mutex::new(room))), watch::Sender::new(0), Drain::default());
            Self { turns: Turns::new(turns, room.clone(), changes.subscribe(), drain.clone()), room, changes, drain }
        }

        /// Waits for the turn of a task in the background.
        fn waits(&self, number: u128) -> tokio::task::JoinHandle<Place> {
            let turns = self.turns.clone();
            tokio::spawn(async move {
                let mut place = Place::of_task();
                turns.take(&task(number), &mut place).await;
                place
            })
        }
    }

    fn task(number: u128) -> ActiveTask {
        let spec: TaskSpec = serde_json::from_value(serde_json::json!({
            "kind": "run", "work_kind": "run", "work": {"steps": []}, "engine": "chromium", "mode": "headless",
            "launch": {"url": null}, "timeout_ms": 1000,
        }))
        .unwrap();
        ActiveTask::unstored(new_record(TaskId::from_number(number), KeyId::nobody(), &spec))
    }

    async fn in_time(waits: tokio::task::JoinHandle<Place>) -> Place {
        let place = timeout(PATIENCE, waits).await.expect("it has its turn").unwrap();
        assert!(place.has_turn());
        place
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_passed_over_has_a_turn_when_there_is_room() {
        for tells in [true, false] {
            let bench = Bench::new(2, 0);
            let waits = bench.waits(1);
            sleep(LOOK * 5).await;
            assert!(!waits.is_finished() && bench.turns.waiting() == 1);
            *bench.room.0.lock() = 1;
            if tells {
                bench.changes.send_modify(|count| *count += 1);
            }
            let mut first = in_time(waits).await;
            let second = bench.waits(2);
            sleep(LOOK * 5).await;
            assert!(!second.is_finished(), "the first one asks for all that the key may have");
            first.got_session();
            assert!(in_time(second).await.has_turn());
            bench.drain.advance(Phase::Draining);
            timeout(PATIENCE, bench.drain.finished()).await.expect("nobody watches any more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_takes_is_the_next_ones() {
        let bench = Bench::new(1, usize::MAX);
        let mut held = in_time(bench.waits(1)).await;
        let (gone, next) = (bench.waits(2), bench.waits(3));
        sleep(LOOK).await;
        assert_eq!(bench.turns.waiting(), 2);
        // Whoever leaves is handed the turn before, or is in the queue no more.
        held.give_back();
        gone.abort();
        drop(in_time(next).await);
        gone.await.map(drop).unwrap_or_default();
        assert_eq!(bench.turns.waiting(), 0);
        in_time(bench.waits(4)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_right_to_write_a_profile_ends_with_the_turn() {
        let bench = Bench::new(2, usize::MAX);
        let mut first = in_time(bench.waits(1)).await;
        let mut second = in_time(bench.waits(2)).await;
        assert!(first.claim("shop") && first.claim("shop") && !second.claim("shop"));
        second.give_back();
        let turns = bench.turns.clone();
        let waits = tokio::spawn(async move {
            turns.take(&task(2), &mut second).await;
            second
        });
        sleep(LOOK * 5).await;
        assert!(!waits.is_finished(), "a turn is of no use to it");
        first.give_back();
        assert!(in_time(waits).await.claim("shop"));
    }
}
