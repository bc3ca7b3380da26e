//! Which nodes may have workers of an image: those that were looked at from inside, and found as they should be.
//!
//! A node is looked at before its first worker, and again after a change of it: that its engine came back is one. Clusters also
//! report changes that do not matter here. A node that was checked a moment ago is only searched for stale workers.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};
use tokio::time::{Instant, sleep, timeout};

use super::avoided::Avoided;
use super::probe::{ProbeError, ProbeFindings};
use crate::{MissingRequirement, RuntimeError};
use warmpool_config::Config;
use warmpool_core::browser::Engine;

/// Between two looks at the nodes while one is being looked at.
const POLL: Duration = Duration::from_secs(1);
/// Between two looks at a node while the cluster cannot be asked.
const AWAY: Duration = Duration::from_secs(1);
/// Between two looks whether stale workers are gone.
const STALE_POLL: Duration = Duration::from_millis(500);

/// What is known of nodes.
pub(crate) struct Admission {
    /// For so long a node counts as seen from inside, whatever changes.
    seen_for: Duration,
    /// By the node's id and the image.
    checks: Mutex<HashMap<(String, String), Check>>,
    ended: Notify,
    /// Whether what an earlier process left was removed.
    tidy: OnceCell<()>,
}

/// One node, for one image.
struct Check {
    /// The node's version that it holds for.
    version: u64,
    state: State,
    /// When it was found fit from inside.
    seen: Option<Instant>,
    /// The hash of the last report from inside in which nothing was missing.
    report: Option<String>,
    /// Why the last one failed, which need not be told twice.
    told: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay {
        since: Instant,
        /// Whether nothing was known before.
        first: bool,
    },
    Fit,
    Unfit,
}

/// What is known of a node, and so what to do about it.
enum Standing {
    Fit,
    /// Somebody checks it.
    BeingChecked {
        since: Instant,
        first: bool,
    },
    /// It has to be checked.
    Unknown {
        first: bool,
        /// Whether it has to be checked from inside.
        inside: bool,
    },
}

impl Admission {
    /// Nothing is known of any node.
    pub(crate) fn new(recheck_after: Duration) -> Self {
        Self { seen_for: recheck_after, checks: Mutex::default(), ended: Notify::new(), tidy: OnceCell::new() }
    }

    /// Whether the node was found fit for workers of this image.
    pub(crate) fn has(&self, node: &str, image: &str) -> bool {
        let key = (node.to_owned(), image.to_owned());
        self.checks.lock().get(&key).is_some_and(|check| check.state == State::Fit)
    }

    /// Returns the standing of a node. The caller checks one that is `Unknown`.
    fn standing(&self, node: &str, image: &str, version: u64) -> Standing {
        let mut checks = self.checks.lock();
        let found = checks.get_mut(&(node.to_owned(), image.to_owned()));
        match found.map(|check| (check.version, check.state)) {
            Some((seen, State::Fit)) if seen == version => return Standing::Fit,
            Some((_, State::UnderWay { since, first })) => return Standing::BeingChecked { since, first },
            _ => {}
        }
        let earlier = checks.remove(&(node.to_owned(), image.to_owned()));
        let first = earlier.is_none();
        let state = State::UnderWay { since: Instant::now(), first };
        let (seen, report, told) = earlier.map_or((None, None, None), |check| (check.seen, check.report, check.told));
        checks.insert((node.to_owned(), image.to_owned()), Check { version, state, seen, report, told });
        Standing::Unknown { first, inside: seen.is_none_or(|seen| seen.elapsed() > self.seen_for) }
    }

    /// The last report on this node in which nothing was missing, by its hash.
    fn good_report(&self, node: &str, image: &str) -> Option<String> {
        self.checks.lock().get(&(node.to_owned(), image.to_owned()))?.report.clone()
    }

    fn keep_report(&self, node: &str, image: &str, report: String) {
        if let Some(check) = self.checks.lock().get_mut(&(node.to_owned(), image.to_owned())) {
            check.report = Some(report);
        }
    }

    /// Records the result of a check; returns whether it is news.
    fn record_result(&self, node: &str, image: &str, inside: bool, failure: Option<&str>) -> bool {
        let mut checks = self.checks.lock();
        let news = match checks.get_mut(&(node.to_owned(), image.to_owned())) {
            Some(check) => {
                let known = check.seen.is_some() || check.told.is_some();
                check.state = if failure.is_none() { State::Fit } else { State::Unfit };
                if failure.is_some() {
                    check.seen = None;
                } else if inside {
                    check.seen = Some(Instant::now());
                }
                let earlier = std::mem::replace(&mut check.told, failure.map(str::to_owned));
                !known || earlier.as_deref() != failure
            }
            None => false,
        };
        drop(checks);
        self.ended.notify_waiters();
        news
    }
}

/// A node, as far as it matters whether it may have workers.
pub(crate) struct NodeCandidate {
    pub id: String,
    pub name: String,
    /// Changes when the node has to be looked at again.
    pub version: u64,
    /// Whether the configuration allows workers there.
    pub allowed: bool,
    /// Whether the node is ready, and to be used.
    pub usable: bool,
}

/// A cluster whose nodes are looked at before they get workers.
#[async_trait]
pub(crate) trait NodeAdmission: Clone + Send + Sync + 'static {
    /// The table of its settings.
    const TABLE: &'static str;

    fn config(&self) -> &Config;

    fn admission(&self) -> &Admission;

    fn avoided(&self) -> &Avoided;

    /// How long a first look may hold up the start of a worker elsewhere.
    fn patience(&self) -> Duration;

    /// How long a worker may take to start, and a node to remove the workers that it should not have.
    fn start_timeout(&self) -> Duration;

    /// The nodes, for workers of this engine.
    async fn candidates(&self, engine: Engine) -> Result<Vec<NodeCandidate>, RuntimeError>;

    /// How many workers run on a node that the cluster wants gone there. A node that was cut off keeps its workers until it is
    /// back and hears of it.
    async fn stale_workers(&self, node: &str) -> Result<usize, RuntimeError>;

    /// Looks at a node by a container of the image. `good` is the hash of the last report of this node and image in which
    /// nothing was missing.
    async fn probe(
        &self,
        node: &str,
        image: &str,
        engine: Engine,
        good: Option<String>,
    ) -> Result<ProbeFindings, ProbeError>;

    /// Removes the probes that an earlier process of this daemon left.
    async fn forget_probes(&self) -> Result<(), RuntimeError>;

    /// Why a node could not start the image, with all that is known of it.
    async fn explained(&self, why: String, _image: &str) -> String {
        why
    }

    /// The error where no node takes a worker.
    fn no_node(&self, why: String, image: &str) -> RuntimeError {
        let (memory, cpus) = (self.config().worker.memory, self.config().reserved_cpus());
        RuntimeError::NoNode {
            why,
            asked: format!("{memory} of memory and {cpus} cores (worker.memory, {}.reserved_cpus)", Self::TABLE),
            avoided: self.avoided().described(image),
        }
    }

    /// Returns the nodes on which a new worker of the image must not start. Checks those that nobody knows yet, and waits for the
    /// result where it is the first check, or where no other node is fit.
    async fn admit(&self, image: &str, engine: Engine) -> Result<Vec<String>, RuntimeError> {
        self.admission().tidy.get_or_try_init(|| self.forget_probes()).await?;
        loop {
            let ended = self.admission().ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let nodes = self.candidates(engine).await?;
            let avoided = self.avoided().nodes(image);
            let (mut left_out, mut fit, mut wait, mut coming) = (Vec::new(), 0, false, false);
            for node in &nodes {
                let id = node.id.clone();
                if !node.allowed || !node.usable || avoided.contains(&id) {
                    left_out.push(id);
                    continue;
                }
                match self.admission().standing(&id, image, node.version) {
                    Standing::Fit => {
                        fit += 1;
                        continue;
                    }
                    Standing::BeingChecked { since, first } => {
                        wait |= first && since.elapsed() < self.patience();
                        coming = true;
                    }
                    Standing::Unknown { first, inside } => {
                        let (cluster, id, name, image) =
                            (self.clone(), id.clone(), node.name.clone(), image.to_owned());
                        tokio::spawn(async move { check(&cluster, (&id, &name), (&image, engine), inside).await });
                        wait |= first;
                        coming = true;
                    }
                }
                left_out.push(id);
            }
            if fit > 0 && !wait {
                return Ok(left_out);
            }
            if fit == 0 && !coming {
                let allowed = nodes.iter().filter(|node| node.allowed).count();
                let why = format!(
                    "of {} nodes, {allowed} meet the constraints, and none of these is ready, in use and fit for workers",
                    nodes.len()
                );
                return Err(self.no_node(why, image));
            }
            let _ = timeout(POLL, ended).await;
        }
    }
}

/// Checks a node, and records the result.
async fn check(cluster: &impl NodeAdmission, (id, name): (&str, &str), (image, engine): (&str, Engine), inside: bool) {
    let admission = cluster.admission();
    let looked = async {
        wait_until_clear(cluster, (id, name)).await?;
        if !inside {
            return Ok(Vec::new());
        }
        let good = admission.good_report(id, image);
        let look = cluster.probe(id, image, engine, good.clone()).await?;
        if good.as_ref() == Some(&look.report) {
            tracing::debug!(node = name, "a node is as it was");
        }
        if look.missing.is_empty() {
            admission.keep_report(id, image, look.report);
        }
        Ok(look.missing)
    };
    let looked = looked.await;
    // Nothing is known of the node then, and others cannot be looked at either.
    let is_away = matches!(looked, Err(ProbeError::Runtime(RuntimeError::Unreachable(_))));
    let failure = match looked {
        Ok(missing) => gaps(name, missing),
        Err(ProbeError::Runtime(error)) => Some(format!("it could not be looked at: {error}")),
        Err(ProbeError::Rejected(why)) => Some(cluster.explained(why, image).await),
        Err(error) => Some(error.to_string()),
    };
    if is_away {
        sleep(AWAY).await;
    } else if let Some(why) = &failure {
        cluster.avoided().add(image, id, name, why);
    }
    match (admission.record_result(id, image, inside, failure.as_deref()), failure) {
        (true, Some(why)) => tracing::error!(node = name, why, "a node gets no workers"),
        (false, Some(why)) => tracing::debug!(node = name, why, "a node still gets no workers"),
        (true, None) => tracing::info!(node = name, image, "a node is fit for workers"),
        (false, None) => {}
    }
}

/// Waits until a node has no stale workers.
/// Errors: `Stale` where they stay, and those of asking the cluster.
async fn wait_until_clear(cluster: &impl NodeAdmission, (id, name): (&str, &str)) -> Result<(), ProbeError> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        let stale = cluster.stale_workers(id).await?;
        if stale == 0 {
            return Ok(());
        }
        if begun.elapsed() > cluster.start_timeout() {
            return Err(ProbeError::Stale);
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!(node = name, stale, "waiting until a node has removed the workers that it should not have");
        }
        sleep(STALE_POLL).await;
    }
}

/// What keeps workers from a node, in words; what need not is only told.
fn gaps(node: &str, missing: Vec<MissingRequirement>) -> Option<String> {
    let (needed, optional): (Vec<_>, Vec<_>) = missing.into_iter().partition(|requirement| requirement.needed);
    for MissingRequirement { what, remedy, .. } in optional {
        tracing::warn!(node, remedy, "{what}");
    }
    let needed: Vec<String> = needed.into_iter().map(|requirement| requirement.what).collect();
    (!needed.is_empty())
        .then(|| format!("the fence has gaps there, see `warmpool doctor --nodes`: {}", needed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: (&str, &str) = ("n1", "image");
    const SEEN_FOR: Duration = Duration::from_secs(60);

    fn standing(admission: &Admission, version: u64) -> Standing {
        admission.standing(NODE.0, NODE.1, version)
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_looked_at_before_its_first_worker_and_after_changes() {
        let admission = Admission::new(SEEN_FOR);
        assert!(matches!(standing(&admission, 1), Standing::Unknown { first: true, inside: true }));
        assert!(matches!(standing(&admission, 1), Standing::BeingChecked { first: true, .. }), "once at a time");
        assert!(!admission.has(NODE.0, NODE.1));
        assert!(admission.record_result(NODE.0, NODE.1, true, None));
        assert!(matches!(standing(&admission, 1), Standing::Fit) && admission.has(NODE.0, NODE.1));
        assert!(!admission.has(NODE.0, "another image"));

        // What changes at once needs no second look from inside, but one for stale workers.
        assert!(matches!(standing(&admission, 2), Standing::Unknown { first: false, inside: false }));
        assert!(!admission.has(NODE.0, NODE.1));
        assert!(!admission.record_result(NODE.0, NODE.1, false, None), "that it is fit still is no news");
        tokio::time::advance(SEEN_FOR + Duration::from_secs(1)).await;
        assert!(matches!(standing(&admission, 2), Standing::Fit));
        assert!(matches!(standing(&admission, 3), Standing::Unknown { first: false, inside: true }));

        // A node that is not fit is looked at again, whenever somebody asks.
        assert!(admission.record_result(NODE.0, NODE.1, true, Some("it is open")));
        assert!(matches!(standing(&admission, 3), Standing::Unknown { first: false, inside: true }));
        assert!(!admission.record_result(NODE.0, NODE.1, true, Some("it is open")));
        assert!(matches!(standing(&admission, 3), Standing::Unknown { first: false, inside: true }));
        assert!(admission.record_result(NODE.0, NODE.1, true, None), "that it was mended is news");
    }
}
