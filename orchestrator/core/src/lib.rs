//! What every other crate of the daemon names: identifiers, clocks, secrets, addresses, connections, and what a client learns
//! of an error.
//!
//! | module     | what it holds |
//! |------------|---------------|
//! | `accept`   | accepting connections, also while the process has no descriptor left |
//! | `address`  | hosts in one form, which addresses are public, and segments of URLs |
//! | `blocking` | work that would hold up an async thread: of files, and of long texts |
//! | `browser`  | engines, modes, presets, and the kinds of workers that the pool counts |
//! | `buffer`   | how large the buffer of a connection is |
//! | `changes`  | word of changes, to those who follow all keys or one |
//! | `cipher`   | encryption with one key |
//! | `clock`    | Unix time, and deadlines that outlive the process |
//! | `drain`    | the phases of the daemon's life, and the tasks that it waits for |
//! | `error`    | codes, statuses and messages: the trait that each crate's errors have |
//! | `giving_way` | the order in which what keys keep gives way to newer things |
//! | `ids`      | identifiers of sessions, workers, requests and worlds, and random bytes |
//! | `instance` | the daemon's id, and the secret that others are derived from |
//! | `json`     | how much memory JSON takes as a tree |
//! | `metadata` | labels that clients put on their sessions and tasks, with their limits |
//! | `panics`   | work of the daemon's own that goes on after a panic, or contains it |
//! | `secret`   | texts that no log shows, and the comparison of secrets |
//! | `signature` | signatures of messages to other people's servers |
//! | `silent`   | for tests: a peer that stops in the middle of its answers |
//! | `sort`     | the order of a list |
//! | `tally`    | how much each key has of what all of them share |
//! | `tcp`      | keep-alive probes and timeouts of TCP connections |
//! | `tls`      | the daemon's certificate, reloaded when its files change, and TLS to other servers |
//! | `trace`    | the trace that a piece of work belongs to |
//!
//! Of our own crates it may use the protocol between daemon and agent alone. It knows neither a setting nor an HTTP type.
//!
//! - *A deadline that outlives the process counts by the clock since boot.* The wall clock decides only after another boot, and
//!   then within the deadline's span, so that setting it neither ends anything early nor keeps it for ever.
//! - *Secrets of workers and sessions are derived*, by HMAC, from one secret in `instance.json`. The file is apart from the
//!   store, so that running containers can be spoken to again even when the store was lost; a damaged one is never replaced.
//! - *Every host is read once, by the URL standard.* Rules, look-ups and proxies see one form of it, so `0x7f.1` gets past none
//!   of them.
//! - *A bad certificate never replaces a good one.* New files are taken up when they fit together; until then the certificate
//!   in use stays.

pub mod accept;
pub mod address;
pub mod blocking;
pub mod browser;
pub mod buffer;
pub mod changes;
pub mod cipher;
pub mod clock;
pub mod drain;
pub mod error;
pub mod giving_way;
pub mod ids;
pub mod instance;
pub mod json;
pub mod metadata;
pub mod panics;
pub mod secret;
pub mod signature;
#[cfg(any(test, feature = "testing"))]
pub mod silent;
pub mod sort;
pub mod tally;
pub mod tcp;
pub mod tls;
pub mod trace;
