//! Work that Warmpool does by itself: it plays recordings, extracts data, and repeats either for many inputs, in sessions
//! like any client's.
//!
//! | module     | what it holds |
//! |------------|---------------|
//! | `script` | the language in which a task says what to do; no I/O, and no session |
//! | `player` | carries a script out in a session's browser |
//! | [`control`] | the player step by step, for somebody who looks at the page in between |
//! | [`extraction`] | the language of extractions, for somebody who has a page open |
//! | [`task`]   | accepts tasks, gives them their turns, writes down what comes of them, and finds them again |
//! | `error`    | what can go wrong with tasks |
//!
//! `task` and `control` use `player`, and all use `script`; nothing goes the other way. The crate may use `warmpool-sessions`,
//! `-profiles`, `-webhooks`, `-workers`, `-reading`, `-keys`, `-store`, `-config`, `-api`, `-core` and `-protocol`. It makes sessions by
//! `warmpool_sessions::session::Sessions::create`, as clients do, and knows no route.
//!
//! # Tasks
//!
//! A task is a record, a specification and encrypted secrets in parts of at most 60 KiB, a small row for the index, and, for a fleet, a row for
//! each item that was begun. Ids are ULIDs made under the index's lock, so their order is the order of acceptance. One
//! batch that survives loss of power has record, specification and encrypted secrets before the client gets its answer. A
//! task that has not ended is an `ActiveTask` in `task::table`. Its end is on the disk before it leaves the table, so it is
//! always in one of the two. The daemon writes files first, then the record, then the index, and only then tells those
//! who wait or follow; it repeats a write until the store takes it (`task::storage::wait`).
//!
//! *Restart.* Queued tasks run. Nobody knows what a running one has done: it fails as `interrupted`, unless it is safe to
//! repeat. A fleet goes on with the items that were never begun. Sessions that an earlier process made for tasks are
//! ended. A drain does the same in order: queued tasks stay on the disk, running ones have nine tenths of `drain.timeout`.
//!
//! *Secrets* are encrypted (ChaCha20-Poly1305) with a key derived from the instance's secret and the task's id, deleted
//! with the task's end, and never part of specification or record. The player fills them in at the last moment and takes
//! them out of all that leaves, in whichever form they are there (`script::template`), and out of what its session keeps and tells. What
//! may have one is cut after that. An HMAC tells whether an idempotency key came with the same request, so that nobody can guess anything
//! from what is stored.
//!
//! *Fairness.* Tasks hold at most `tasks.workers` workers. Each has a turn (`task::turns`), which goes to the key that has the fewest,
//! then to the one whose last turn was the longest ago, then to the first to come; a fleet asks the pool only while no
//! client waits. A runner of a fleet keeps its worker from item to item. Between two items, also while it pauses to spare
//! a host, it gives the worker back: at once when a client waits and the pool is full, and after two seconds when another
//! task would have the turn.
//!
//! A task that its own key keeps from a session, by `session.max_per_key` or by a profile that another session writes, is passed over
//! in the queue until that is over, however long: nothing has begun, and no turn waits with it. Where that comes to light with the turn
//! in hand, the task gives it back and is queued again, an item of a fleet without an attempt. A task that gets no session
//! because the pool is short asks for ten minutes, and meanwhile gives the turn to others who come before it. It keeps the turn only while
//! nobody can have a session.
//!
//! *The queue.* It is bounded by `tasks.queue_length`, beyond which only keys are refused that have their share of it: the length
//! divided by the number of keys that have something in it. A queue of callers can throw one out for another, but here each
//! was told that its task is kept. A limit for each key alone would be either too small for the only key or too large for three.
//!
//! *What lies between two items of a fleet.* A used worker is destroyed and never reused by another owner. A fleet is one
//! owner, one key's one request, so the boundary between its items may be the browser's own: a context
//! (`task::runner`). A page that breaks out of its browser's sandbox into the browser itself can reach later items of the
//! same fleet, and nothing else. A caller who reads hostile pages beside valuable ones asks for
//! `"isolation": "container"`. The agent makes the context over its own channel, and the same driver session goes on in
//! its window, because a driver lists windows of all contexts; the item does not see the window that the browser began
//! with. In Chromium a context is a profile that is only in memory. In Firefox it is a user context, whose number is never
//! used again; it holds its own permissions, too, and no history, but HSTS is held by site and stays. Keys and the
//! network's speed are the driver's and are reset; files are removed. A session serves `tasks.items_per_session` items,
//! and ends after any failure that may have left its browser or driver unsound: a death, an error of the driver, a
//! time-out, a context that could not be opened or closed.
//!
//! # The history
//!
//! The index (`task::history`) is in memory and built at the start from the small rows. A page of a million tasks must
//! cost what a page of a thousand does, with the exact total, at any depth, for each filter and order. Sorted rows in the
//! store cannot count, and nobody can look through a million records, so the index counts beforehand.
//!
//! Because ids are in order of time, a time range is a range of rows, and sorting by id is sorting by time. Each block of
//! 1024 rows counts its tasks by type and status. Adding these counts up answers orders by time, id, type and status, and
//! only the blocks in which a range or a page ends are looked at row by row. Orders by duration within a time range ask
//! about two orders at once, which no single sorted list answers. So each full block, and each full group of 32 blocks,
//! also has its rows sorted by duration, and a page is cut out of a few dozen such lists by bisection. Each key has a list of its own, and
//! so has each of its end users; all keys together have the same, for operators. The slowest page of a million tasks takes some 70
//! microseconds, that of a thousand some 10. A property test compares all of it with a plain list. One request to the store then reads
//! the records of the page.
//!
//! # The player
//!
//! fantoccini drives the session's own driver over a pipe: its connector dials a duplex stream, and at the other end sits
//! `warmpool_sessions::webdriver::forward`, as for clients of `connect_url`. So the player needs no socket and no TLS,
//! answers have a limit, and whoever made the session quits it.
//!
//! - *One script goes along with each command* (`player/page.js`). It has the Recorder's selectors, finds, scrolls to and
//!   measures an element in one round trip, and leaves nothing in the page.
//! - *Input is trusted on all engines*, because the driver's own pointer and keyboard act. In frames the pointer counts
//!   from the element, since two drivers forget a frame's place in the window.
//! - *`performance.timeOrigin` and the address*, before and after, tell whether a step led to another page.
//! - *Faults that may pass are tried again* until the step's time is over; the last fault is the reason.
//! - *Extraction reads the live page* and not its HTML, for XPath, shadow roots and what scripts made. The script returns
//!   texts in the order of the plan, and Rust makes numbers, days and matches of them, the same for all engines.

mod error;
mod player;
mod script;
pub mod task;

/// The parsers of this crate, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::script::template::fuzzing as template;
    pub use crate::task::fuzzing::{export, submit};
}

pub use error::Error;
/// Reading a page that somebody else has open.
pub mod extraction {
    pub use crate::player::extract::{Extraction, Limit};
}

/// A browser that somebody drives step by step.
pub mod control {
    pub use crate::player::control::*;
}
