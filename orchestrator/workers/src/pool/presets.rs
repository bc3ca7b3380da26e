//! Which kind of worker a caller gets: a plain one, or one that waits with a preset's settings and extensions.

use std::time::Duration;

use super::Pool;
use super::state::PooledWorker;
use warmpool_config::{PoolPreset, Trust};
use warmpool_core::browser::PoolKey;
use warmpool_core::ids::{ExtensionId, WorkerId};
use warmpool_protocol::Settings;

/// What a caller wants of a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerRequest<'a> {
    /// Its engine and mode.
    pub plain: PoolKey,
    /// What its pages are to see.
    pub settings: &'a Settings,
    /// What its browser is to load.
    pub extensions: &'a [ExtensionId],
    /// The authorities that its browser is to trust beside the daemon's.
    pub trust: &'a Trust,
    /// How long its caller waits for it; `session.queue_wait` where that is none.
    pub queue_wait: Option<Duration>,
}

impl Pool {
    /// The kind of worker to take for this.
    pub(super) fn kind_for(
        &self,
        WorkerRequest { plain, settings, extensions, trust, .. }: WorkerRequest<'_>,
    ) -> PoolKey {
        let preset = self.parts.config.pool.presets.with((plain.engine, plain.mode), settings, extensions);
        let (trusted, plain) = (&self.parts.trusted, self.parts.trusted.plain(plain));
        let preset = preset.map(|preset| trusted.kind(preset));
        // Those of the preset are for every session that asks for what it has.
        let base = preset.unwrap_or(plain).trust;
        let plain = PoolKey { trust: trusted.learn(base, trust), ..plain };
        let Some(preset) = preset else { return plain };
        if preset.trust != plain.trust {
            return plain;
        }
        let state = self.lock();
        // A plain worker that is ready serves at once; where neither is, the one to wait for is made as it is wanted.
        if state.serves_now(plain) && !state.serves_now(preset) { plain } else { preset }
    }

    /// The preset of a kind, where it has one.
    pub(super) fn preset(&self, key: PoolKey) -> Option<&PoolPreset> {
        self.parts.config.pool.presets.0.iter().find(|preset| self.parts.trusted.kind(preset) == key)
    }

    /// Whether workers of this kind wait with these extensions.
    pub fn waits_with(&self, key: PoolKey, extensions: &[ExtensionId]) -> bool {
        self.preset(key).is_some_and(|preset| preset.extensions == extensions)
    }

    /// Removes the workers that wait with an extension which is gone: nobody can ask for them any more.
    pub fn forget_extension(&self, id: &ExtensionId) {
        let has_it = |preset: &&PoolPreset| preset.extensions.contains(id);
        let presets = self.parts.config.pool.presets.0.iter().filter(has_it);
        let kinds: Vec<PoolKey> = presets.map(|preset| self.parts.trusted.kind(preset)).collect();
        let of_kinds = |(id, worker): (&WorkerId, &PooledWorker)| kinds.contains(&worker.key).then(|| id.clone());
        let workers: Vec<WorkerId> = self.lock().workers.iter().filter_map(of_kinds).collect();
        for worker in workers {
            self.retire_unowned(&worker);
        }
    }

    /// Whether the configuration has this kind: any plain one, and those of its presets.
    pub(super) fn has_kind(&self, key: PoolKey) -> bool {
        if key.preset.is_some() { self.preset(key).is_some() } else { key == self.parts.trusted.plain(key) }
    }

    /// What sets a kind apart from the plain one of its engine and mode: a preset's name, or its authorities.
    pub(super) fn name(&self, key: PoolKey) -> Option<String> {
        let of_key = || key.trust.filter(|_| !self.has_kind(key)).map(|trust| format!("ca-{trust}"));
        self.preset(key)
            .map(|preset| preset.name.clone())
            .or_else(|| key.preset.map(|id| id.to_string()))
            .or_else(of_key)
    }
}
