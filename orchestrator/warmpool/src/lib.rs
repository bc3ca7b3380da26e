//! Warmpool: a daemon that keeps containers warm, each with one browser that nobody has used, and hands each client
//! exactly one of them.
//!
//! # Layout
//!
//! | module        | what it holds |
//! |---------------|---------------|
//! | `closing`     | the time that the daemon has to end |
//! | [`telemetry`] | the log, the metrics and the traces |
//! | [`dropin`]    | what clients of Selenium Grid, Selenoid and browserless ask for, as a create call |
//! | [`http`]      | the routes; nothing depends on it |
//! | [`cli`]       | the command line, which is all that this library shows |
//! | [`control`]   | the operator's socket, for the command line |
//! | [`doctor`]    | what is wrong with the host, in plain words |
//!
//! Dependencies go one way: `http -> {relay, webdriver, targets, video, live, task} -> session -> {pool, egress, captcha} -> {runtime, worker}`,
//! `task -> player -> {script, webdriver}`, `video -> live` and `{egress, captcha, world} -> dial`. `config`, `engine`, `error`, `clock`, `drain`,
//! `store` and `tcp` may be used by all.
//!
//! # The paths
//!
//! *Session create.* `http::create` checks the body; `session::Sessions::create` leases a warm worker from
//! `pool::Pool::lease`, asks its agent (`worker::Agent::launch`) to wake the browser, writes the record to the store,
//! and puts the session under supervision. The pool starts the next worker behind it.
//!
//! *A DevTools frame.* `http::devtools` checks the token; `relay::open` takes the client's handshake to the agent as it
//! is; `relay::Relay::run` moves bytes both ways between frames that `relay::frames` only measures.
//!
//! *A WebDriver command.* `http::webdriver` checks the token; `webdriver::forward` streams the request to the agent and
//! the answer back. A new session goes through `webdriver::capabilities` first; quitting ends the session.
//!
//! *A task run.* `http::submit` checks the body; `task::Tasks::accept` writes it to the store before it answers; when its
//! turn comes `task::run` makes a session by `session::Sessions::create` as a client would, `player::execute` drives
//! its browser, and the outcome goes to the store, to the history's index, and to those who listen.
//!
//! *A live-view frame.* `http::live` checks the token; `live::Live::enter` takes a place in the session's room, which
//! its first viewer opens. A headed session's frame comes from the display through `worker::Agent` to one viewer; a
//! headless one's from DevTools through `live::screencast` to all of them. Inputs go back the same way, if the viewer holds
//! the control.

pub mod cli;
mod closing;
mod control;
mod doctor;
mod dropin;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod telemetry;

mod daemon;
