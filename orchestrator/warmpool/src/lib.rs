//! Warmpool: a daemon that keeps containers warm, each with one browser that nobody has used, and hands each client
//! exactly one of them.
//!
//! This crate is the program: HTTP, the command line, and what starts and ends the daemon. The crates below it do the
//! work; the doc of each lists its modules and its decisions.
//!
//! | crate                 | what it holds |
//! |-----------------------|---------------|
//! | [`warmpool_core`]     | what all name: ids, clocks, secrets, addresses, connections, error codes, the drain |
//! | [`warmpool_protocol`] | what the daemon and the agent in a worker say to each other (`worker-image/protocol`) |
//! | [`warmpool_heads`]    | how long both wait for the requests of their connections (`worker-image/heads`) |
//! | [`warmpool_api`]      | what the HTTP API reads and writes, as data |
//! | [`warmpool_config`]   | file, environment and flags as one checked configuration |
//! | [`warmpool_store`]    | what the daemon remembers on disk |
//! | [`warmpool_dial`]     | connections to hosts that somebody else names |
//! | [`warmpool_runtime`]  | containers: the engine of this host, a swarm or a Kubernetes cluster |
//! | [`warmpool_keys`]     | service keys, and integration keys, which ask for worlds |
//! | [`warmpool_profiles`] | what browsers keep for sites, from one session to the next |
//! | [`warmpool_extensions`] | browser extensions that clients keep for their sessions |
//! | [`warmpool_workers`]  | workers and their pool, what leaves them, ads and CAPTCHAs |
//! | [`warmpool_webhooks`] | messages to other people's servers about what ended |
//! | [`warmpool_sessions`] | sessions, the relay, WebDriver, the live view, recordings |
//! | [`warmpool_tasks`]    | scripts, their player, the queue of tasks and its history |
//! | [`warmpool_pages`]    | calls on pages: a picture, a document, a text by one request |
//! | `warmpool_reading`    | what a page says, as Markdown, for pages, tasks and agents |
//! | [`warmpool_mcp`]      | tools for agents, by the Model Context Protocol |
//! | [`warmpool_worlds`]   | worlds, and the log of requests for them |
//! | [`warmpool_client`]   | the commands that ask a running daemon |
//!
//! ARCHITECTURE.md draws how they depend on one another, and follows a request through them. Here is left:
//!
//! | module        | what it holds |
//! |---------------|---------------|
//! | [`http`]      | the routes; nothing depends on it but `daemon` |
//! | [`dropin`]    | what clients of Selenium Grid, Selenoid, browserless, Playwright, Steel, Browserbase and Kernel ask for, as a create call |
//! | [`cli`]       | the command line, which is all that this library shows |
//! | [`control`]   | the operator's socket, for the command line |
//! | [`doctor`]    | what is wrong with the host, in plain words |
//! | [`telemetry`] | the log, the metrics and the traces |
//! | [`daemon`]    | puts the parts together, and takes them apart in order |
//! | `fuzzing`     | the parsers that read bytes from outside, for `fuzz/` and the tests |
//!
//! - *`connect_url` ends in a slash*, because fantoccini resolves `session` against it as a browser would. Clients that
//!   append `/session` produce two slashes, which are read as one.
//! - *URLs stay with their owner.* Lists hold nothing that opens a session. `GET /sessions/<id>` with the key that made it
//!   repeats the URLs, so that a later process can attach. An ended session answers 404 with the code `session_ended`
//!   and how it ended.
//! - *`/status` and `/metrics` need no key by default.* They hold counts, versions, the names of images, the
//!   last error of each engine, and nothing that opens a session. `server.status_needs_key` closes them.
//! - *The interface describes itself.* `/openapi.json` is made of the routes, each of which is declared with its
//!   description, of the types that handlers read and write, and of the settings that limit them. A test compares it with
//!   what the router has.
//! - *Other services' clients make ordinary sessions.* `dropin` is pure: it makes the body of a create call, which is
//!   checked like any other, and errors keep the client's own names.
//! - *A sign-in acts as a key.* The console's page exchanges a service key for a cookie that scripts cannot read; calls
//!   also carry a header that no foreign page can send. An operator who is signed in acts in the name of the key whose
//!   session or task the path names, so no handler needs to know about operators; only lists ask for a scope.
//! - *The console follows by counters.* Lists announce changes in a `watch` channel, at most twice a second, and the page
//!   asks again for the part that it shows, so filters and paging are in one place. The logs of requests and lines are
//!   ring buffers in memory; the last hour is a sample every ten seconds.
//! - *The first daemon is a quick build*, of the profile `quick-start`, since optimising programs that wait took most of
//!   the time to a first session. `scripts/later` builds the release and sends SIGUSR2. At an idle moment, because a
//!   restart cuts connections, the process runs the release by `exec`: its id, its parent and its log stay.

// They panic where the reader has closed the pipe: commands have `warmpool_client::note` and its like.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;

mod control;
mod doctor;
mod dropin;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod telemetry;

mod daemon;
