//! The authorities that browsers of each kind trust beside the public ones.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use warmpool_config::{PoolPreset, Trust};
use warmpool_core::browser::{PoolKey, TrustId};

/// The authorities of the daemon, which every browser trusts, and those that sessions have asked for. Their number is that of
/// different sets which presets and keys have had since the start: only an operator adds to it.
pub(super) struct Trusted {
    own: Trust,
    known: Mutex<HashMap<TrustId, Trust>>,
}

impl Trusted {
    /// With the daemon's own.
    pub(super) fn new(own: Trust) -> Self {
        let trusted = Self { own, known: Mutex::default() };
        trusted.learn(Trust::default());
        trusted
    }

    /// The name of these authorities and the daemon's together, which are known by it from now on.
    pub(super) fn learn(&self, more: Trust) -> Option<TrustId> {
        let all = self.own.clone().and(more);
        let id = all.id()?;
        self.known.lock().entry(id).or_insert(all);
        Some(id)
    }

    /// A plain kind, with the daemon's own authorities.
    pub(super) fn plain(&self, key: PoolKey) -> PoolKey {
        PoolKey { trust: self.own.id(), ..key }
    }

    /// The kind of a preset's workers.
    pub(super) fn kind(&self, preset: &PoolPreset) -> PoolKey {
        PoolKey { trust: self.learn(preset.egress.ca_certificates.as_slice().into()), ..preset.key() }
    }

    /// The certificates of a kind as agents take them: DER in Base64.
    pub(super) fn certificates(&self, key: PoolKey) -> Vec<String> {
        let known = self.known.lock();
        let trust = key.trust.and_then(|id| known.get(&id));
        trust.into_iter().flat_map(Trust::certificates).map(|certificate| STANDARD.encode(certificate)).collect()
    }
}
