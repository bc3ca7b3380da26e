//! What sessions are made with beside workers.

#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;

#[cfg(any(test, feature = "testing"))]
use warmpool_config::Config;
use warmpool_extensions::Extensions;
use warmpool_profiles::Profiles;
use warmpool_webhooks::Webhooks;
use warmpool_workers::captcha::Captchas;
use warmpool_workers::egress::EgressContext;

/// What sessions are made with beside workers: the ways out, the solvers of CAPTCHAs, profiles, and webhooks.
pub struct SessionServices {
    /// The ways out of workers.
    pub egress_context: EgressContext,
    /// The solvers of CAPTCHAs.
    pub captchas: Captchas,
    /// What browsers begin with, and what is saved of them.
    pub profiles: Profiles,
    /// What browsers load.
    pub extensions: Extensions,
    /// What tells others of ends.
    pub webhooks: Webhooks,
}

#[cfg(any(test, feature = "testing"))]
impl SessionServices {
    /// Without upstreams and solvers.
    #[expect(clippy::unwrap_used, reason = "only tests use it")]
    pub fn nowhere(config: &Arc<Config>, profiles: Profiles, extensions: Extensions, webhooks: Webhooks) -> Self {
        let egress_context = EgressContext::nowhere();
        let captchas = Captchas::new(config, &egress_context.tls, egress_context.resolver.share()).unwrap();
        Self { egress_context, captchas, profiles, extensions, webhooks }
    }
}
