//! Nodes that are left out for a while: an image is missing there and cannot be fetched, or workers would not be isolated there.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Which nodes to leave out, for which image.
#[derive(Debug)]
pub(crate) struct Avoided {
    avoid_for: Duration,
    /// By image and the node's id.
    nodes: Mutex<BTreeMap<(String, String), Failure>>,
}

#[derive(Debug)]
struct Failure {
    name: String,
    why: String,
    until: Instant,
}

impl Avoided {
    /// Leaves each node out for this long.
    pub(crate) const fn new(avoid_for: Duration) -> Self {
        Self { avoid_for, nodes: Mutex::new(BTreeMap::new()) }
    }

    /// Leaves a node out from now on.
    pub(crate) fn add(&self, image: &str, node: &str, name: &str, why: &str) {
        let failure = Failure { name: name.to_owned(), why: why.to_owned(), until: Instant::now() + self.avoid_for };
        self.nodes.lock().insert((image.to_owned(), node.to_owned()), failure);
    }

    /// Returns the ids of the nodes to leave out now.
    pub(crate) fn nodes(&self, image: &str) -> Vec<String> {
        self.map(image, |id, _| id.to_owned())
    }

    /// Returns the names of the same nodes, with the reasons: those of the same reason together.
    pub(crate) fn described(&self, image: &str) -> String {
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (why, name) in self.map(image, |_, failure| (failure.why.clone(), failure.name.clone())) {
            by_reason.entry(why).or_default().push(name);
        }
        let described = by_reason.into_iter().map(|(why, names)| format!("{} ({why})", names.join(", ")));
        described.collect::<Vec<_>>().join("; ")
    }

    /// Returns why a node is left out, for whatever image.
    pub(crate) fn why(&self, node: &str) -> Option<String> {
        let (nodes, now) = (self.nodes.lock(), Instant::now());
        let mut found = nodes.iter().filter(|((_, id), failure)| id == node && failure.until > now);
        found.next().map(|(_, failure)| failure.why.clone())
    }

    fn map<T>(&self, image: &str, each: impl Fn(&str, &Failure) -> T) -> Vec<T> {
        let (mut nodes, now) = (self.nodes.lock(), Instant::now());
        nodes.retain(|_, failure| failure.until > now);
        nodes.iter().filter(|((of, _), _)| of == image).map(|((_, id), failure)| each(id, failure)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_left_out_for_its_image_and_for_a_while() {
        let avoided = Avoided::new(Duration::from_secs(60));
        avoided.add("a", "n1", "east", "No such image");
        assert_eq!(avoided.nodes("a"), ["n1"]);
        assert_eq!(avoided.described("a"), "east (No such image)");
        avoided.add("a", "n2", "north", "the agent is silent");
        avoided.add("a", "n3", "west", "No such image");
        assert_eq!(avoided.described("a"), "east, west (No such image); north (the agent is silent)");
        assert_eq!(avoided.why("n1").as_deref(), Some("No such image"));
        assert!(avoided.nodes("b").is_empty());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(avoided.why("n1").is_none() && avoided.nodes("a").is_empty());
    }
}
