//! Tracks the use of a session, and since when it is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Error;

/// Counters of one session. Touching them costs a store; only the supervisor computes with them.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    /// When the client last did something, in milliseconds since `begun`.
    last: AtomicU64,
    sockets: Mutex<Sockets>,
    commands: AtomicUsize,
    viewers: AtomicUsize,
    /// As in [`ActivityFacts`].
    connection_is_use: bool,
    attached: AtomicBool,
    /// Whether anybody has had anything of it: a socket, a command, a look.
    used: AtomicBool,
    /// Rings when a socket or a viewer comes or goes.
    pub(super) changed: Notify,
    /// Rings when a command is done. That puts no end of the session nearer, so it has a bell of its own, which is heard only
    /// while a session ends.
    pub(super) answered: Notify,
}

/// What is known of a session's use when it begins or is found again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActivityFacts {
    /// Whether it had a socket before.
    pub(super) attached: bool,
    /// Whether it had any client before.
    pub(super) used: bool,
    /// Whether an open socket or a viewer is use, so that idleness begins once there is none.
    pub(super) connection_is_use: bool,
}

/// The sockets of one session.
#[derive(Debug, Default)]
struct Sockets {
    /// With those that the browser has not accepted yet, and a person's control.
    all: usize,
    open: usize,
    /// When the last open one closed.
    closed_at: Option<Instant>,
}

impl Sockets {
    /// One that is counted is open now.
    fn open(&mut self) {
        (self.open, self.closed_at) = (self.open + 1, None);
    }
}

impl Activity {
    pub(super) fn new(facts: ActivityFacts) -> Arc<Self> {
        let ActivityFacts { attached, used, connection_is_use } = facts;
        let now = Instant::now();
        Arc::new(Self {
            begun: now,
            last: AtomicU64::new(0),
            sockets: Mutex::new(Sockets { closed_at: attached.then_some(now), ..Sockets::default() }),
            commands: AtomicUsize::new(0),
            viewers: AtomicUsize::new(0),
            connection_is_use,
            attached: AtomicBool::new(attached),
            used: AtomicBool::new(used),
            changed: Notify::new(),
            answered: Notify::new(),
        })
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    pub(super) fn attach(this: &Arc<Self>, limit: usize) -> Result<Attachment, Error> {
        let mut sockets = this.sockets.lock();
        if sockets.all >= limit {
            return Err(Error::SocketLimit { limit });
        }
        sockets.all += 1;
        drop(sockets);
        this.touch();
        this.changed.notify_one();
        Ok(Attachment { activity: Arc::clone(this), open: false })
    }

    /// A person takes control of the session. That holds it as an open socket of its client's does.
    pub(super) fn hold(this: &Arc<Self>) -> Attachment {
        let mut sockets = this.sockets.lock();
        sockets.all += 1;
        sockets.open();
        drop(sockets);
        this.changed.notify_one();
        Attachment { activity: Arc::clone(this), open: true }
    }

    pub(super) fn busy(this: &Arc<Self>) -> CommandGuard {
        this.commands.fetch_add(1, Ordering::Relaxed);
        this.mark_used();
        this.touch();
        CommandGuard { activity: Arc::clone(this) }
    }

    pub(super) fn watch(this: &Arc<Self>) -> Watching {
        this.mark_used();
        this.viewers.fetch_add(1, Ordering::Relaxed);
        this.changed.notify_one();
        Watching { activity: Arc::clone(this) }
    }

    fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// When it will have waited for its first client for `timeout`; `None` once it had one.
    pub(super) fn unattached_at(&self, timeout: Duration) -> Option<Instant> {
        // An attempt is under way.
        let is_used = self.used.load(Ordering::Relaxed) || self.sockets() > 0;
        (!is_used).then(|| self.begun + timeout)
    }

    /// Counts idleness and the reconnect window from now: until now nobody could reach the session.
    pub(super) fn resume(&self) {
        self.touch();
        let closed_at = &mut self.sockets.lock().closed_at;
        *closed_at = closed_at.map(|_| Instant::now());
    }

    pub(super) fn was_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed)
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets.lock().all
    }

    /// How many sockets the browser has accepted, with a person's control.
    pub(super) fn open_sockets(&self) -> usize {
        self.sockets.lock().open
    }

    pub(super) fn commands(&self) -> usize {
        self.commands.load(Ordering::Relaxed)
    }

    /// When the session will have been idle for `timeout`. While it is in use, that is always ahead.
    pub(super) fn idle_at(&self, timeout: Duration) -> Instant {
        let is_connected = || self.sockets() > 0 || self.viewers.load(Ordering::Relaxed) > 0;
        let last = if self.commands() > 0 || (self.connection_is_use && is_connected()) {
            Instant::now()
        } else {
            self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed))
        };
        last + timeout
    }

    /// When the last socket closed, if there is none now and there was one. An attempt that comes to nothing changes nothing.
    pub(super) fn detached_at(&self) -> Option<Instant> {
        let sockets = self.sockets.lock();
        sockets.closed_at.filter(|_| sockets.all == 0)
    }
}

/// One socket of a session, or a person's control.
#[derive(Debug)]
pub(crate) struct Attachment {
    activity: Arc<Activity>,
    open: bool,
}

impl Attachment {
    /// The client did something.
    pub(crate) fn touch(&self) {
        self.activity.touch();
    }

    /// The browser has accepted the socket. True when it is the session's first ever.
    pub(crate) fn opened(&mut self) -> bool {
        self.open = true;
        self.activity.sockets.lock().open();
        self.activity.mark_used();
        !self.activity.attached.swap(true, Ordering::Relaxed)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut sockets = self.activity.sockets.lock();
        sockets.all -= 1;
        if self.open {
            sockets.open -= 1;
            // A session that only people had is still to have its first client.
            sockets.closed_at = (sockets.open == 0 && self.activity.was_attached()).then(Instant::now);
        }
        drop(sockets);
        self.activity.touch();
        self.activity.changed.notify_one();
    }
}

/// One command under way.
#[derive(Debug)]
pub struct CommandGuard {
    activity: Arc<Activity>,
}

impl Drop for CommandGuard {
    fn drop(&mut self) {
        self.activity.commands.fetch_sub(1, Ordering::Relaxed);
        self.activity.touch();
        self.activity.answered.notify_one();
    }
}

/// Somebody watches the session.
#[derive(Debug)]
pub(crate) struct Watching {
    activity: Arc<Activity>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.activity.viewers.fetch_sub(1, Ordering::Relaxed);
        if self.activity.connection_is_use {
            self.activity.touch();
            self.activity.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_reconnect_clock_starts_with_the_last_socket() {
        let activity = Activity::new(ActivityFacts::default());
        assert_eq!(activity.detached_at(), None, "never attached");
        drop(Activity::attach(&activity, 2).unwrap());
        assert_eq!(activity.detached_at(), None, "an attempt is no attachment");
        let mut one = Activity::attach(&activity, 2).unwrap();
        let mut two = Activity::attach(&activity, 2).unwrap();
        assert!(one.opened() && !two.opened());
        assert!(matches!(Activity::attach(&activity, 2), Err(Error::SocketLimit { limit: 2 })));
        drop(one);
        assert_eq!(activity.detached_at(), None, "one is still there");
        drop(two);
        let left = Instant::now();
        assert_eq!(activity.detached_at(), Some(left));
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(Activity::attach(&activity, 2).unwrap());
        assert_eq!(activity.detached_at(), Some(left), "an attempt does not stop the clock");
        let _back = Activity::attach(&activity, 2).unwrap();
        assert_eq!(activity.detached_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_in_control_holds_a_session() {
        let activity = Activity::new(ActivityFacts::default());
        drop(Activity::hold(&activity));
        assert_eq!(activity.detached_at(), None, "it is still to have its first client");
        let mut client = Activity::attach(&activity, 1).unwrap();
        assert!(client.opened());
        let person = Activity::hold(&activity);
        drop(client);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(activity.detached_at(), None, "somebody has control");
        drop(person);
        assert_eq!(activity.detached_at(), Some(Instant::now()), "the client has its time to come back");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_starts_while_an_attempt_is_under_way() {
        let activity = Activity::new(ActivityFacts::default());
        let mut client = Activity::attach(&activity, 3).unwrap();
        assert!(client.opened());
        let attempts = [Activity::attach(&activity, 3).unwrap(), Activity::attach(&activity, 3).unwrap()];
        drop(client);
        let left = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for attempt in attempts {
            assert_eq!(activity.detached_at(), None, "an attempt is under way");
            drop(attempt);
        }
        assert_eq!(activity.detached_at(), Some(left));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_waits_for_its_first_client_until_it_has_one() {
        const LIMIT: Duration = Duration::from_secs(300);
        let activity = Activity::new(ActivityFacts::default());
        let end = Instant::now() + LIMIT;
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(Activity::attach(&activity, 2).unwrap());
        assert_eq!(activity.unattached_at(LIMIT), Some(end), "an attempt that came to nothing is no client");
        let uses: [fn(&Arc<Activity>); 3] = [
            |activity| assert!(Activity::attach(activity, 2).unwrap().opened()),
            |activity| drop(Activity::busy(activity)),
            |activity| drop(Activity::watch(activity)),
        ];
        for r#use in uses {
            let activity = Activity::new(ActivityFacts::default());
            r#use(&activity);
            assert_eq!(activity.unattached_at(LIMIT), None);
        }
        let found_again = Activity::new(ActivityFacts { used: true, ..ActivityFacts::default() });
        assert_eq!(found_again.unattached_at(LIMIT), None, "it had one before the restart, by WebDriver");
    }

    #[tokio::test(start_paused = true)]
    async fn time_out_of_reach_counts_for_nothing() {
        let activity = Activity::new(ActivityFacts { attached: true, used: true, ..ActivityFacts::default() });
        tokio::time::advance(Duration::from_secs(60)).await;
        activity.resume();
        assert_eq!(activity.detached_at(), Some(Instant::now()));
        assert_eq!(activity.idle_at(Duration::from_secs(10)), Instant::now() + Duration::from_secs(10));
        let never_attached = Activity::new(ActivityFacts::default());
        never_attached.resume();
        assert_eq!(never_attached.detached_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_under_way_is_not_idleness() {
        let activity = Activity::new(ActivityFacts::default());
        let limit = Duration::from_secs(10);
        let command = Activity::busy(&activity);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(activity.idle_at(limit), Instant::now() + limit);
        drop(command);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(activity.idle_at(limit), Instant::now() + Duration::from_secs(6));
    }

    #[test]
    fn a_command_that_is_done_rings_its_own_bell() {
        let activity = Activity::new(ActivityFacts::default());
        drop(Activity::busy(&activity));
        assert!(activity.answered.notified().now_or_never().is_some());
        assert!(activity.changed.notified().now_or_never().is_none(), "no end of the session is nearer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_use_by_itself() {
        let limit = Duration::from_secs(10);
        for is_viewer in [false, true] {
            let open = |activity| match is_viewer {
                false => (Some(Activity::attach(activity, 1).unwrap()), None),
                true => (None, Some(Activity::watch(activity))),
            };
            let counting = Activity::new(ActivityFacts { connection_is_use: true, ..ActivityFacts::default() });
            let other = Activity::new(ActivityFacts::default());
            let (began, connections) = (Instant::now(), (open(&counting), open(&other)));
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(counting.idle_at(limit), Instant::now() + limit);
            assert_eq!(other.idle_at(limit), began + limit, "an open connection alone is no use");
            drop(connections);
            let left = Instant::now();
            tokio::time::advance(Duration::from_secs(4)).await;
            assert_eq!(counting.idle_at(limit), left + limit, "idleness begins with the last connection's end");
        }
    }
}
