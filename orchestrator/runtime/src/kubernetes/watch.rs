//! What the cluster says of objects, kept up to date by a watch.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::access::Access;
use super::api::Api;
use super::objects::{Event, Meta, Object};
use crate::RuntimeError;
use warmpool_core::panics::keep_running;

/// After a failure, and between two watches that end at once.
const PAUSE: Duration = Duration::from_secs(1);
/// Removed objects that are remembered, with how they were at the end.
const REMEMBERED: usize = 1024;

/// The objects with some labels, as they were a moment ago.
pub(crate) struct Watched<T> {
    known: Arc<Known<T>>,
    following: tokio::task::JoinHandle<()>,
}

struct Known<T> {
    objects: Mutex<Objects<T>>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

struct Objects<T> {
    by_name: HashMap<String, T>,
    /// Those that were removed, as they were then; the oldest first.
    gone: VecDeque<T>,
    /// Why they are not known; none once they are.
    unknown: Option<RuntimeError>,
    /// The failure that the log tells of, until one goes well again.
    told: Option<String>,
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl<T: Object> Watched<T> {
    /// Follows the objects with these labels.
    pub(crate) fn follow(api: Api, list: Access, watched: Access, labels: String) -> Self {
        let objects = Objects {
            by_name: HashMap::new(),
            gone: VecDeque::new(),
            unknown: Some(RuntimeError::Unreachable("they are being listed".to_owned())),
            told: None,
        };
        let known = Arc::new(Known { objects: Mutex::new(objects), changes: watch::channel(0).0 });
        let told = Arc::clone(&known);
        let following = tokio::spawn(keep_running("watch the cluster", async move || {
            keep_up(&api, &told, list, watched, &labels).await;
        }));
        Self { known, following }
    }

    /// The object of this name.
    pub(crate) fn get(&self, name: &str) -> Option<T> {
        self.known.objects.lock().by_name.get(name).cloned()
    }

    /// An object that was removed, as it was then.
    pub(crate) fn gone(&self, is: impl Fn(&T) -> bool) -> Option<T> {
        self.known.objects.lock().gone.iter().rev().find(|object| is(object)).cloned()
    }

    /// All objects; waits for the first list, unless the cluster refuses to give one.
    /// Errors: `Unreachable` when the cluster cannot be asked, or why it refuses.
    pub(crate) async fn all(&self, limit: Duration) -> Result<Vec<T>, RuntimeError> {
        let mut changes = self.changes();
        let is_decided = |_: &u64| {
            let objects = self.known.objects.lock();
            objects.unknown.as_ref().is_none_or(|why| !matches!(why, RuntimeError::Unreachable(_)))
        };
        let _ = timeout(limit, changes.wait_for(is_decided)).await;
        let objects = self.known.objects.lock();
        match &objects.unknown {
            Some(why) => Err(why.clone()),
            None => Ok(objects.by_name.values().cloned().collect()),
        }
    }

    /// Fails while nobody knows how the objects are.
    /// Errors: `Unreachable` when the cluster cannot be asked, or why it refuses.
    pub(crate) fn known(&self) -> Result<(), RuntimeError> {
        self.known.objects.lock().unknown.clone().map_or(Ok(()), Err)
    }

    /// What changes with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.known.changes.subscribe()
    }
}

impl<T: Object> Known<T> {
    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Takes the objects of a list for all there are.
    fn list(&self, items: Vec<T>) {
        let mut objects = self.objects.lock();
        let now: HashMap<String, T> = items.into_iter().map(|object| (object.name().to_owned(), object)).collect();
        let before = std::mem::replace(&mut objects.by_name, now);
        for (name, object) in before {
            let is_other = |now: &T| now.meta().uid != object.meta().uid;
            if objects.by_name.get(&name).is_none_or(is_other) {
                objects.remember(object);
            }
        }
        objects.unknown = None;
        drop(objects);
        self.changed();
    }

    /// Takes one line of a watch. Returns the version that it is of; none where the watch is of no more use.
    fn hear(&self, line: &[u8]) -> Option<String> {
        let Event { kind, object } = serde_json::from_slice(line).ok()?;
        if kind == "BOOKMARK" {
            let version = object["metadata"]["resourceVersion"].as_str()?;
            return Some(version.to_owned());
        }
        if !matches!(kind.as_str(), "ADDED" | "MODIFIED" | "DELETED") {
            return None;
        }
        let object: T = serde_json::from_value(object).ok()?;
        let Meta { name, resource_version, .. } = object.meta().clone();
        let mut objects = self.objects.lock();
        if kind == "DELETED" {
            objects.by_name.remove(&name);
            objects.remember(object);
        } else {
            objects.by_name.insert(name, object);
        }
        drop(objects);
        self.changed();
        Some(resource_version)
    }

    /// Records that a call failed, and tells the log whenever the reason is another. After a list nothing is known any more; a cluster
    /// that refuses to be watched alone is listed again and again.
    fn failed(&self, error: RuntimeError, listing: bool) {
        let words = error.to_string();
        let mut objects = self.objects.lock();
        let is_news = objects.told.as_ref() != Some(&words);
        if listing || matches!(error, RuntimeError::Unreachable(_)) {
            objects.unknown = Some(error);
        }
        objects.told = Some(words.clone());
        drop(objects);
        if is_news {
            tracing::warn!(error = %words, "a watch of the cluster failed");
            // Who waits need not wait to the end.
            self.changed();
        }
    }

    /// A watch went well: what fails from now on is news.
    fn went_well(&self) {
        self.objects.lock().told = None;
    }
}

impl<T> Objects<T> {
    fn remember(&mut self, object: T) {
        if self.gone.len() == REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back(object);
    }
}

/// Lists and watches for ever.
async fn keep_up<T: Object>(api: &Api, known: &Known<T>, list: Access, watched: Access, labels: &str) {
    loop {
        match api.list::<T>(list, labels).await {
            Ok(found) => {
                known.list(found.items);
                let mut version = found.metadata.resource_version;
                loop {
                    let mut usable = true;
                    let from = version.clone();
                    let each = |line: &[u8]| match known.hear(line) {
                        Some(now) => {
                            version = now;
                            true
                        }
                        None => {
                            usable = false;
                            false
                        }
                    };
                    let begun = tokio::time::Instant::now();
                    match api.watch(watched, labels, &from, each).await {
                        Ok(()) => known.went_well(),
                        // What happened since is not kept any more, as after a long outage.
                        Err(error) if error.code() == Some(410) => break,
                        Err(error) => {
                            known.failed(error.into(), false);
                            break;
                        }
                    }
                    if !usable {
                        break;
                    }
                    if begun.elapsed() < PAUSE {
                        sleep(PAUSE).await;
                    }
                }
            }
            Err(error) => known.failed(error.into(), true),
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::objects::Pod;

    fn known() -> Known<Pod> {
        let objects = Objects { by_name: HashMap::new(), gone: VecDeque::new(), unknown: None, told: None };
        Known { objects: Mutex::new(objects), changes: watch::channel(0).0 }
    }

    fn pod(name: &str, uid: &str) -> Pod {
        let text = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"7"}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_is_removed_is_remembered_as_it_was() {
        let known = known();
        known.list(vec![pod("a", "1"), pod("b", "2"), pod("c", "3")]);
        let line = br#"{"type":"DELETED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"8"},"status":{"reason":"Evicted"}}}"#;
        assert_eq!(known.hear(line).as_deref(), Some("8"));
        // While nobody watched, one was removed and another made anew.
        known.list(vec![pod("b", "4")]);
        let objects = known.objects.lock();
        let mut gone: Vec<_> = objects.gone.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        gone.sort_unstable();
        assert_eq!(gone, ["1", "2", "3"]);
        assert_eq!(objects.gone[0].status.reason, "Evicted");
        assert_eq!(objects.by_name.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_watch_that_has_missed_something_is_of_no_use() {
        let known = known();
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        assert_eq!(known.hear(bookmark).as_deref(), Some("9"));
        let expired = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        assert_eq!(known.hear(expired), None);
        assert_eq!(known.hear(b"{half"), None);
    }
}
