//! Ends a session exactly once, at the right moment, and gives its worker back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::Span;

use super::table::SessionEntry;
use super::{Ending, Session, SessionKind, Sessions};
use warmpool_config::SessionSettings;
use warmpool_core::drain::Phase;
use warmpool_core::panics::{contained, keep_running};
use warmpool_workers::pool::Lease;
use warmpool_workers::worker::Health;

/// How long sockets have to pass their Close frames on before the worker goes, and the driver its last answer.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// How long a session that is one connection outlives it: the worker may still report that its browser was closed.
const CLOSE_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

impl Sessions {
    /// Puts a session into the table and starts watching over it.
    pub(super) fn admit(&self, session: Session, lease: Lease) -> Arc<Session> {
        let session = Arc::new(session);
        self.lock().put(SessionEntry::Live(Arc::clone(&session)));
        self.supervise(session, lease)
    }

    /// Puts a session into the table whose worker was found again. None where it has ended meanwhile: its worker goes.
    pub(super) fn admit_found(&self, session: Session, lease: Lease) -> Option<Arc<Session>> {
        let session = Arc::new(session);
        let is_open = {
            let mut table = self.lock();
            let is_open = table.get(&session.id).is_some_and(SessionEntry::is_open_past);
            if is_open {
                table.put(SessionEntry::Live(Arc::clone(&session)));
            }
            is_open
        };
        if !is_open {
            session.egress.close();
            return None;
        }
        Some(self.supervise(session, lease))
    }

    fn supervise(&self, session: Arc<Session>, lease: Lease) -> Arc<Session> {
        self.shared.grid_ids.add(session.grid_ids.clone(), &session.id);
        self.changed(&session.owner);
        self.write_down(&session);
        self.shared.drain.spawn(supervise(self.clone(), Arc::clone(&session), lease, Span::current()));
        session
    }
}

/// Watches over `session`, which `call` has made, until it ends; then publishes the end, writes the record and drops the lease.
async fn supervise(sessions: Sessions, session: Arc<Session>, lease: Lease, call: Span) {
    // In this task and not in the one that answers the call: a log that takes its lines slowly keeps nobody from a session.
    tracing::info!(
        parent: &call,
        session = %session.id,
        worker = %session.worker.id,
        engine = %session.options.engine,
        "session running"
    );
    drop(call);
    let handles = || (sessions.clone(), Arc::clone(&session));
    let told = {
        let (sessions, session) = handles();
        tokio::spawn(keep_running("follow a worker", async move || follow_worker(&sessions, &session).await))
    };
    let telling = sessions.tells_who_waits(&session).then(|| {
        let (sessions, session) = handles();
        tokio::spawn(keep_running("tell who waits", async move || sessions.tell_who_waits(&session).await))
    });
    let saving = session.saves_while_running().then(|| {
        let (sessions, session) = handles();
        let interval = sessions.shared.config.profiles.save_interval;
        tokio::spawn(keep_running("save a profile", async move || session.keep_saving(interval).await))
    });
    let ending = {
        let (sessions, session) = handles();
        let watching = async move || watch(&session, &sessions.shared.config.session).await;
        keep_running("watch a session", watching).await
    };
    session.end(ending);
    // The first reason holds, and it may not be the one found here.
    let ending = session.ended().await;
    told.abort();
    if let Some(telling) = telling {
        telling.abort();
    }
    if let Some(saving) = saving {
        // One that is under way ends: it holds no lock that the last one could wait for in vain.
        saving.abort();
    }
    if contained(sessions.save_last(&session, &ending)).await.is_err() {
        tracing::error!(session = %session.id, "the last save of a profile panicked");
        if let Some(profile) = &session.profile {
            profile.note(Err("the last save panicked".to_owned()));
        }
    }
    tracing::info!(session = %session.id, status = ending.status().as_str(), reason = ending.code(), "session ended");
    // Whoever hears of the end may make another at once; the worker waits for its sockets.
    lease.session_ended();
    if sessions.close(&session, &ending).await.is_err() && sessions.shared.drain.phase() == Phase::Leaving {
        // The next process finds the session as it was, and so its worker stays. This one is about to end.
        return std::future::pending().await;
    }
    // A client that closes the last window closes the browser by a command, and must get the driver's answer to it.
    let answers = ending == Ending::BrowserClosed;
    let closed = async {
        while session.activity.sockets() > 0 || (answers && session.activity.commands() > 0) {
            tokio::select! {
                () = session.activity.changed.notified() => {}
                () = session.activity.answered.notified() => {}
            }
        }
    };
    if timeout(CLOSE_GRACE, closed).await.is_err() {
        tracing::debug!(session = %session.id, "a client did not take its Close frame, or the driver did not answer");
    }
    session.egress.close();
    drop(lease);
}

/// Follows what the worker reports. Says, and keeps, that a page or another process of the browser ended for lack of memory: the
/// session may go on. And looks for the reason why the first page did not load while it is known.
async fn follow_worker(sessions: &Sessions, session: &Arc<Session>) {
    let mut snapshot = session.worker.snapshot.clone();
    let mut told = 0;
    loop {
        session.page_error();
        let kills = snapshot.borrow_and_update().oom_kills.unwrap_or_default();
        if is_worth_telling(kills, told) {
            told = kills;
            tracing::warn!(session = %session.id, kills, "memory ran out, and the kernel ended a process of the browser: \
                raise worker.memory");
            sessions.note(session).await;
        }
        if snapshot.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a number of ended processes is to be told after `told` were: the first ones, and then each time that the number has doubled,
/// since a page can have as many as it likes.
const fn is_worth_telling(kills: u64, told: u64) -> bool {
    kills > told && kills / 2 >= told
}

/// Waits for the first reason to end.
async fn watch(session: &Session, limits: &SessionSettings) -> Ending {
    let mut health = session.worker.health.clone();
    loop {
        // While nobody can reach the worker its client can neither use it nor come back to it: only the hard cap counts.
        let out_of_reach = *health.borrow_and_update() == Health::Unknown;
        let (at, ending) =
            if out_of_reach { (session.deadline, Ending::TimedOut) } else { next_deadline(session, limits) };
        if at <= Instant::now() {
            return ending;
        }
        tokio::select! {
            ending = session.ended() => return ending,
            loss = session.worker.lost() => return Ending::of_loss(loss),
            Ok(()) = health.changed() => {
                if out_of_reach {
                    session.activity.resume();
                }
            }
            () = session.activity.changed.notified() => {}
            () = sleep_until(at) => {}
        }
    }
}

/// The next time-out of the session, and its reason.
fn next_deadline(session: &Session, limits: &SessionSettings) -> (Instant, Ending) {
    let mut next = (session.deadline, Ending::TimedOut);
    let mut sooner = |at: Instant, ending: Ending| {
        if at < next.0 {
            next = (at, ending);
        }
    };
    if let Some(idle) = session.options.idle_timeout() {
        sooner(session.activity.idle_at(idle), Ending::Idle);
    }
    // One that is to stay, or that is recorded, does its work without a client.
    let needs_client = !session.options.keep_alive && !session.options.recording && !limits.attach_timeout.is_zero();
    if let Some(at) = session.activity.unattached_at(limits.attach_timeout).filter(|_| needs_client) {
        sooner(at, Ending::NeverAttached);
    }
    // A WebDriver session lives by its driver; sockets beside it come and go.
    let by_socket = session.options.kind == SessionKind::DevTools && !session.options.keep_alive;
    if let Some(detached) = session.activity.detached_at().filter(|_| by_socket) {
        // A client whose connection made the session has no URL to come back to.
        let window = if session.options.one_connection { CLOSE_REPORT_TIMEOUT } else { limits.reconnect_window };
        sooner(detached + window, Ending::Disconnected);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_runs_out_of_memory_again_and_again_fills_no_log() {
        let mut told = Vec::new();
        // The same number comes again with each change of something else.
        for kills in (0..1_000_000).flat_map(|kills| [kills, kills]).chain([3, u64::MAX, u64::MAX]) {
            if is_worth_telling(kills, told.last().copied().unwrap_or_default()) {
                told.push(kills);
            }
        }
        assert_eq!(told[..4], [1, 2, 4, 8]);
        assert_eq!((told.len(), told.last()), (21, Some(&u64::MAX)));
    }
}
