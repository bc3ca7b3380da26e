//! Defaults that depend on the host, the environment or another setting.

use std::borrow::Cow;
use std::path::PathBuf;

use super::host::{FoundEngine, Host, runtime_dir};
use super::presets::Presets;
use super::units::ByteSize;
use super::value::Value;

/// A default as text, and in words what it was computed from.
#[derive(Debug)]
pub(super) struct ComputedDefault {
    pub(super) text: String,
    pub(super) from: &'static str,
}

/// What a default may depend on.
pub(super) trait Lookup {
    fn host(&self) -> &Host;
    /// A variable of the environment that is set and not empty.
    fn env(&self, name: &str) -> Option<&str>;
    /// The text of a setting.
    fn text(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The text of a setting that a source names.
    fn named(&self, name: &str) -> Option<&str>;
}

pub(super) type ComputeDefault = fn(&dyn Lookup) -> ComputedDefault;

/// The value of a setting if it is sound.
fn value<T: Value>(layers: &dyn Lookup, name: &str) -> Option<T> {
    T::parse(&layers.text(name)?).ok()
}

/// The same, but only if a source names the setting.
fn named<T: Value>(layers: &dyn Lookup, name: &str) -> Option<T> {
    T::parse(layers.named(name)?).ok()
}

fn number(number: usize, from: &'static str) -> ComputedDefault {
    ComputedDefault { text: number.to_string(), from }
}

pub(super) fn docker_host(layers: &dyn Lookup) -> ComputedDefault {
    match layers.env("DOCKER_HOST") {
        Some(host) => ComputedDefault { text: host.to_owned(), from: "DOCKER_HOST" },
        None => {
            let own = |socket| runtime_dir(layers.env("XDG_RUNTIME_DIR").map(PathBuf::from)).join(socket);
            let socket = match layers.host().engine {
                FoundEngine::Docker => PathBuf::from(FoundEngine::DOCKER),
                FoundEngine::Podman => PathBuf::from(FoundEngine::PODMAN),
                FoundEngine::RootlessDocker => own(FoundEngine::ROOTLESS_DOCKER),
                FoundEngine::RootlessPodman => own(FoundEngine::ROOTLESS_PODMAN),
            };
            ComputedDefault { text: format!("unix://{}", socket.display()), from: "the sockets of this host" }
        }
    }
}

pub(super) fn max_workers(layers: &dyn Lookup) -> ComputedDefault {
    let fitting = layers.host().memory / 4 * 3 / (1 << 30);
    number(usize::try_from(fitting).unwrap_or(64).clamp(2, 64), "the host's memory")
}

fn size(size: u64, from: &'static str) -> ComputedDefault {
    ComputedDefault { text: ByteSize(size).to_string(), from }
}

/// A session's client has a websocket and a connection for requests, and somebody may watch it.
const CONNECTIONS_OF_A_SESSION: usize = 4;

pub(super) fn max_connections(layers: &dyn Lookup) -> ComputedDefault {
    let sessions = value(layers, "session.max_sessions").unwrap_or(0_usize);
    number(sessions.saturating_mul(CONNECTIONS_OF_A_SESSION).max(10_000), "session.max_sessions")
}

/// Enough for nearly everybody behind a proxy that nobody has named, or behind one router; and the rest is for others.
pub(super) fn connections_per_address(layers: &dyn Lookup) -> ComputedDefault {
    let most = value(layers, "server.max_connections").unwrap_or(0_usize);
    number((most / 5).saturating_mul(4).max(4000), "server.max_connections")
}

/// The rest holds another key's body of the largest size, as text and as what it is parsed into.
pub(super) fn body_share(layers: &dyn Lookup) -> ComputedDefault {
    let memory = value(layers, "server.body_memory").unwrap_or(ByteSize(0)).bytes();
    size(memory / 4 * 3, "server.body_memory")
}

pub(super) fn answer_share(layers: &dyn Lookup) -> ComputedDefault {
    let memory = value(layers, "server.answer_memory").unwrap_or(ByteSize(0)).bytes();
    size(memory / 2, "server.answer_memory")
}

const WARM: usize = 2;

/// The places that presets leave.
fn places(layers: &dyn Lookup) -> usize {
    let most: usize = value(layers, "pool.max_workers").unwrap_or(0);
    most.saturating_sub(named(layers, "pool.presets").map_or(0, |presets: Presets| presets.warm()))
}

pub(super) fn chromium_headed(layers: &dyn Lookup) -> ComputedDefault {
    let most = places(layers);
    let taken = named(layers, "pool.chromium_headless").unwrap_or(most / 2);
    number(WARM.min(most.saturating_sub(taken)), "pool.max_workers")
}

pub(super) fn chromium_headless(layers: &dyn Lookup) -> ComputedDefault {
    let taken = value(layers, "pool.chromium_headed").unwrap_or(0);
    number(WARM.min(places(layers).saturating_sub(taken)), "pool.max_workers")
}

/// A waiting Firefox takes twice the memory of a Chromium, so small hosts keep none.
const ROOMY: u64 = 8_000_000_000;
/// Places that stay free for sessions and on-demand workers, the two that this default may take included.
const FREE: usize = 4;

/// One warm worker of an engine that is not the default one, where it takes no place of much use.
pub(super) fn other_headed(layers: &dyn Lookup) -> ComputedDefault {
    let chromium = ["pool.chromium_headed", "pool.chromium_headless"].map(|name| value(layers, name));
    // Not the defaults of the others: the one of Firefox and the one of WebKit would each ask for the other.
    let others = ["pool.firefox_headed", "pool.firefox_headless", "pool.webkit_headed", "pool.webkit_headless"];
    let others = others.map(|name| named(layers, name));
    let taken = chromium.into_iter().chain(others).flatten().fold(0, usize::saturating_add);
    let roomy = layers.host().memory >= ROOMY && places(layers).saturating_sub(taken) >= FREE;
    number(usize::from(roomy), "the host's memory and pool.max_workers")
}

pub(super) fn start_concurrency(layers: &dyn Lookup) -> ComputedDefault {
    number((layers.host().cores / 2).max(1), "the host's cores")
}

pub(super) fn max_sessions(layers: &dyn Lookup) -> ComputedDefault {
    number(value(layers, "pool.max_workers").unwrap_or(1), "pool.max_workers")
}

pub(super) fn task_workers(layers: &dyn Lookup) -> ComputedDefault {
    let most: usize = value(layers, "pool.max_workers").unwrap_or(1);
    number((most / 2).max(1), "pool.max_workers")
}

/// Two keys that keep as much as they may delete nothing of each other's.
pub(super) fn keep_size_per_key(layers: &dyn Lookup) -> ComputedDefault {
    let all = value(layers, "tasks.keep_size").unwrap_or(ByteSize(0)).bytes();
    size(all / 2, "tasks.keep_size")
}

pub(super) fn data_dir(layers: &dyn Lookup) -> ComputedDefault {
    let set = |name| layers.env(name).filter(|path: &&str| path.starts_with('/'));
    if layers.host().root {
        return ComputedDefault { text: "/var/lib/warmpool".to_owned(), from: "running as root" };
    }
    if let Some(data) = set("XDG_DATA_HOME") {
        return ComputedDefault { text: format!("{data}/warmpool"), from: "XDG_DATA_HOME" };
    }
    match set("HOME") {
        Some(home) => ComputedDefault { text: format!("{home}/.local/share/warmpool"), from: "HOME" },
        None => ComputedDefault { text: String::new(), from: "neither XDG_DATA_HOME nor HOME is set" },
    }
}
