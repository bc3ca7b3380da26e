//! What the names of the engines' images have stood for: by it a warm worker of an older image is known.

use std::collections::{HashMap, HashSet};

use warmpool_core::browser::Engine;

/// The ids that the engines' images have had since the daemon started.
#[derive(Default)]
pub(super) struct ImageIds {
    /// The last one of each engine, also while its image is missing.
    current: HashMap<Engine, String>,
    /// All of them. An engine may know a container's image by an id of another form: whoever took each unequal id for an older image
    /// would replace such workers for ever.
    found: HashSet<String>,
}

impl ImageIds {
    /// Records the id that an engine's image has now.
    pub(super) fn record(&mut self, engine: Engine, id: String) {
        self.found.insert(id.clone());
        self.current.insert(engine, id);
    }

    /// Whether a container of this engine was made from an image whose name stands for another one now.
    pub(super) fn is_outdated(&self, engine: Engine, id: &str) -> bool {
        self.found.contains(id) && self.current.get(&engine).is_some_and(|current| current != id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_outdated_while_its_name_stands_for_another() {
        let mut images = ImageIds::default();
        let mut becomes = |id: &str| {
            images.record(Engine::Chromium, id.to_owned());
            ["sha256:1", "sha256:2", "1"].map(|id| images.is_outdated(Engine::Chromium, id))
        };
        assert_eq!(becomes("sha256:1"), [false; 3]);
        assert_eq!(becomes("sha256:2"), [true, false, false], "nobody can compare an id of another form");
        assert_eq!(becomes("sha256:1"), [false, true, false], "the name may go back");
        assert!(!images.is_outdated(Engine::Firefox, "sha256:2"), "nothing is known of its image");
    }
}
