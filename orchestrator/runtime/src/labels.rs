//! The labels by which the daemon finds its containers again, on whatever runtime.

use std::collections::HashMap;

use crate::WorkerSpec;
use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;

/// The daemon that a container belongs to.
pub(crate) const INSTANCE: &str = "warmpool.instance";
/// The id of the worker or renderer in the container.
pub(crate) const WORKER: &str = "warmpool.worker";
/// The browser engine in the container.
const ENGINE: &str = "warmpool.engine";
/// Headed or headless.
const MODE: &str = "warmpool.mode";
/// The preset whose settings the worker waits with.
const PRESET: &str = "warmpool.preset";
/// The authorities that the worker's browser trusts beside the public ones.
const TRUST: &str = "warmpool.trust";
/// How the daemon reaches the worker's agent: `unix` or `tcp`.
pub(crate) const AGENT: &str = "warmpool.agent";
/// The image that the worker of a service was started from.
pub(crate) const IMAGE: &str = "warmpool.image";
/// Marks a service that checks a node and is no worker.
pub(crate) const PROBE: &str = "warmpool.probe";
/// Marks a container that renders scenes and belongs to no pool; the value names the process that started it.
pub(crate) const RENDERER: &str = "warmpool.renderer";
/// Marks a network that a daemon made for workers.
pub(crate) const NETWORK: &str = "warmpool.network";

/// The labels of a container or service.
pub(crate) type Labels = HashMap<String, String>;

/// Labels from names and values.
pub(crate) fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The labels of a worker that this instance starts.
pub(crate) fn of_worker(instance: &str, spec: &WorkerSpec) -> Labels {
    let PoolKey { engine, mode, preset, trust } = spec.key;
    let mut labels = labels([
        (INSTANCE, instance),
        (WORKER, spec.worker.as_str()),
        (ENGINE, engine.as_str()),
        (MODE, mode.as_str()),
    ]);
    labels.extend(preset.map(|preset| (PRESET.to_owned(), preset.to_string())));
    labels.extend(trust.map(|trust| (TRUST.to_owned(), trust.to_string())));
    labels
}

/// The worker that carries these labels, and its kind where the labels can still be read; none where they are no worker's.
pub(crate) fn worker(labels: &Labels) -> Option<(WorkerId, Option<PoolKey>)> {
    let label = |name: &str| labels.get(name).map(String::as_str);
    let engine = label(ENGINE).and_then(|text| text.parse().ok());
    let mode = label(MODE).and_then(|text| text.parse().ok());
    let preset = label(PRESET).and_then(|text| text.parse().ok());
    let trust = label(TRUST).and_then(|text| text.parse().ok());
    let key = engine.zip(mode).map(|(engine, mode)| PoolKey { engine, mode, preset, trust });
    Some((WorkerId::from(label(WORKER)?), key))
}

/// The label of everything that this instance creates, as `name=value`.
pub(crate) fn owned_by(instance: &str) -> String {
    format!("{INSTANCE}={instance}")
}

/// A filter for what carries all of these labels, each a name or `name=value`.
pub(crate) fn filter(labels: impl IntoIterator<Item = String>) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), labels.into_iter().collect())])
}
