//! Workers: the containers with one browser each that sessions take, and what leaves them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`worker`] | the daemon's view of one worker: the calls to its agent, and the watch that says how it is |
//! | [`pool`] | which workers there are, who has them, and who waits for one |
//! | [`egress`] | every connection of a worker's browser to a site, judged and dialled by the daemon |
//! | [`captcha`] | the CAPTCHAs that sites show, and who solves them |
//! | [`ads`] | the rules by which sessions block ads |
//! | `hiding` | what the record and the messages of a session may not tell |
//! | `error` | [`Error`] |
//!
//! It may use `warmpool-api`, `-config`, `-core`, `-dial`, `-extensions`, `-keys`, `-protocol` and `-runtime`, and knows no session.
//!
//! # Decisions
//!
//! - **A worker goes one way**: starting, ready, leased, removed. Whoever used one gives it back by destroying it, and nobody
//!   gets it a second time.
//! - **The runtime is the truth and the pool's table the intent.** The table knows a worker before its container exists, so a
//!   container with this daemon's label that the table does not know is nobody's, and is removed. One short lock guards the
//!   table, and nothing waits under it; what to start and what to evict is a pure function of its counts.
//! - **A free place is kept for the caller whose turn it is**, though a worker of its kind has yet to start and another kind waits
//!   warm. The place is empty for the time of a start. Otherwise a key whose callers never end would keep every place to its own kind.
//! - **A preset is a kind of its own**: its workers wait with its settings applied. Their hash is in the key and on the
//!   container, so a restarted daemon finds them again. A caller who wants other settings gets a plain worker.
//! - **An engine without an image is served on demand**: its callers get an error at once, and readiness does not wait for it
//!   unless somebody set its targets. Two failed starts in a row are an answer to those who wait.
//! - **The agent learns its secret by the first call**, not by its environment, where `docker inspect` would show it. The secret
//!   is derived from the instance's own, so a restarted daemon can speak to the containers that it finds.
//! - **The agent hands over connected sockets** of the browser and the driver (`SCM_RIGHTS`), so that messages and commands do not pass
//!   through one more program. A worker keeps such a socket too and may change its mode, so no call on it trusts that it does not
//!   block (`worker::port`). A path in the shared folder would be an alternative, but nothing in a worker can write there.
//! - **The stream of events is health check and lease in one.** It tells of the browser's end within milliseconds, three missed
//!   beats mean a hung worker, and an agent that hears nothing of its daemon ends itself. When the stream breaks, only the
//!   runtime can say whether the container lives; while it does not answer either, the worker's health is unknown. On a cluster
//!   the watch waits as long as the runtime takes to notice a dead node before it calls a worker unresponsive.
//! - **Pages reach the world through the daemon alone.** The workers' network leads nowhere; the daemon opens tunnels to the
//!   agent, as it opens every connection, and each becomes one connection of the browser. The browser speaks SOCKS in it, so the
//!   bytes pass unread and failures reach the browser as what they are. For a refused address the daemon answers a request for a
//!   page with a page that names the setting, and nothing else. The price: all traffic passes through the daemon, and open
//!   connections end with it.
//! - **A session keeps its upstream proxy without anything being stored**: the nearest that answers, and among equals one by
//!   weighted rendezvous hashing over the session's id. The route is the session's own in the daemon, so no credentials of a
//!   proxy enter a container.
//! - **Rules of ads are compiled once for all sessions**, and what the first WebKit of a version makes of them is kept for later
//!   ones. Agents do the blocking, so that it survives a restart of the daemon.

pub mod ads;
pub mod captcha;
pub mod egress;
mod error;
mod hiding;
pub mod pool;
pub mod worker;

pub use error::Error;
pub use hiding::Hide;
