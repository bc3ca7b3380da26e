//! The authorities that browsers of each kind trust beside the public ones.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use warmpool_config::{PoolPreset, Trust};
use warmpool_core::browser::{PoolKey, TrustId};

/// The authorities of the daemon, which every browser trusts, and those that sessions have asked for. Their number is that of
/// different sets which presets and keys have had since the start: only an operator adds to it. To name a set takes the hash of all
/// its certificates, so the daemon's and the presets' are named once.
pub(super) struct Trusted {
    /// The name of the daemon's own.
    own: Option<TrustId>,
    /// The kinds of the presets, by the presets' names.
    presets: HashMap<String, PoolKey>,
    known: Mutex<HashMap<TrustId, Trust>>,
}

impl Trusted {
    /// With the daemon's own and those of its presets.
    pub(super) fn new(own: Trust, presets: &[PoolPreset]) -> Self {
        let mut trusted = Self { own: own.id(), presets: HashMap::new(), known: Mutex::default() };
        trusted.known.lock().extend(trusted.own.map(|id| (id, own)));
        let kinds = presets.iter().map(|preset| (preset.name.clone(), trusted.kind_of(preset))).collect();
        trusted.presets = kinds;
        trusted
    }

    /// The name of these authorities and those of this name together, which are known by it from now on.
    pub(super) fn learn(&self, base: Option<TrustId>, more: &Trust) -> Option<TrustId> {
        let all = {
            let (known, none) = (self.known.lock(), Trust::default());
            let base_trust = base.and_then(|id| known.get(&id)).unwrap_or(&none);
            if more.is_within(base_trust) {
                return base;
            }
            base_trust.clone().and(more.clone())
        };
        let id = all.id()?;
        self.known.lock().entry(id).or_insert(all);
        Some(id)
    }

    /// A plain kind, with the daemon's own authorities.
    pub(super) fn plain(&self, key: PoolKey) -> PoolKey {
        PoolKey { trust: self.own, ..key }
    }

    /// The kind of a preset's workers.
    pub(super) fn kind(&self, preset: &PoolPreset) -> PoolKey {
        self.presets.get(&preset.name).copied().unwrap_or_else(|| self.kind_of(preset))
    }

    fn kind_of(&self, preset: &PoolPreset) -> PoolKey {
        PoolKey { trust: self.learn(self.own, &preset.egress.trust()), ..preset.key() }
    }

    /// The certificates of a kind as agents take them: DER in Base64.
    pub(super) fn certificates(&self, key: PoolKey) -> Vec<String> {
        let known = self.known.lock();
        let trust = key.trust.and_then(|id| known.get(&id));
        trust.into_iter().flat_map(Trust::certificates).map(|certificate| STANDARD.encode(certificate)).collect()
    }
}

#[cfg(test)]
mod tests {
    use warmpool_config::EgressRules;
    use warmpool_core::browser::{Engine, Mode};
    use warmpool_protocol::Settings;

    use super::*;

    const PLAIN: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headless);

    #[test]
    fn authorities_have_one_name_however_they_come_together() {
        let trusted = Trusted::new(Trust::of_texts(&["a"]), &[]);
        let own = trusted.plain(PLAIN).trust;
        assert_eq!(own, Trust::of_texts(&["a"]).id());
        assert_eq!(trusted.learn(own, &Trust::default()), own);
        assert_eq!(trusted.learn(own, &Trust::of_texts(&["a"])), own);
        let two = trusted.learn(own, &Trust::of_texts(&["b"]));
        assert_eq!(two, Trust::of_texts(&["a", "b"]).id());
        assert_eq!(trusted.learn(two, &Trust::of_texts(&["a"])), two);
        assert_eq!(trusted.learn(None, &Trust::of_texts(&["b", "a"])), two);
        assert_eq!(trusted.certificates(PoolKey { trust: two, ..PLAIN }), [STANDARD.encode("a"), STANDARD.encode("b")]);
        let none = Trusted::new(Trust::default(), &[]);
        assert_eq!((none.plain(PLAIN).trust, none.learn(None, &Trust::default())), (None, None));
    }

    #[test]
    fn presets_are_named_at_the_start() {
        let mut preset = PoolPreset {
            name: "german".to_owned(),
            engine: Engine::Chromium,
            mode: Mode::Headless,
            target: 1,
            settings: Settings { locales: vec!["de-DE".to_owned()], ..Settings::default() },
            extensions: Vec::new(),
            egress: EgressRules::default(),
        };
        let trusted = Trusted::new(Trust::of_texts(&["a"]), std::slice::from_ref(&preset));
        let kind = PoolKey { trust: trusted.own, ..preset.key() };
        assert_eq!(trusted.kind(&preset), kind);
        preset.settings = Settings::default();
        assert_eq!(trusted.kind(&preset), kind, "nothing is hashed any more");
    }
}
