//! What the builds of missing images reported last.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use warmpool_core::browser::Engine;

/// A build that has said nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(300);

/// The builds that run, by engine.
#[derive(Default)]
pub(super) struct ImageBuilds(HashMap<Engine, (String, Instant)>);

impl ImageBuilds {
    /// Records what a build does; none once it has ended.
    pub(super) fn record(&mut self, engine: Engine, progress: Option<String>, now: Instant) {
        match progress {
            Some(progress) => self.0.insert(engine, (progress, now)),
            None => self.0.remove(&engine),
        };
    }

    /// What the build of an engine's image does, unless nothing has been heard of it for too long.
    pub(super) fn progress(&self, engine: Engine, now: Instant) -> Option<&str> {
        let (progress, at) = self.0.get(&engine)?;
        (now.saturating_duration_since(*at) < SILENCE).then_some(progress.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_build_is_forgotten() {
        let (mut builds, now) = (ImageBuilds::default(), Instant::now());
        builds.record(Engine::Firefox, Some("Step 1".to_owned()), now);
        assert_eq!(builds.progress(Engine::Firefox, now), Some("Step 1"));
        assert_eq!(builds.progress(Engine::Webkit, now), None);
        assert_eq!(builds.progress(Engine::Firefox, now + SILENCE), None);
        builds.record(Engine::Firefox, None, now);
        assert_eq!(builds.progress(Engine::Firefox, now), None);
    }
}
