//! The PodDisruptionBudget of the workers that sessions have.

use super::api::unless;
use super::objects::MetadataOnly;
use super::{Kubernetes, access, pod};
use crate::RuntimeError;

impl Kubernetes {
    /// The same as [`Self::ensure_budget`] for a daemon that can do without: a cluster that refuses the budget keeps nobody from
    /// taking over the workers, or from starting new ones. Whoever compares the pool with the cluster tries again.
    /// Errors: where the cluster cannot be asked at all, or the namespace is gone.
    pub(super) async fn want_budget(&self) -> Result<(), RuntimeError> {
        let made = self.ensure_budget().await;
        let mut told = self.budget_told.lock();
        match made {
            Ok(()) => {
                *told = None;
                Ok(())
            }
            Err(
                error @ (RuntimeError::NotAllowed { .. }
                | RuntimeError::NotAdmitted { .. }
                | RuntimeError::QuotaUsedUp { .. }
                | RuntimeError::Refused { .. }),
            ) => {
                let words = error.to_string();
                if told.as_ref() != Some(&words) {
                    tracing::warn!(
                        error = %words,
                        "without a PodDisruptionBudget, a drain ends workers that sessions have"
                    );
                }
                *told = Some(words);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the budget that keeps sessions' workers from eviction, where it is missing. Its API has had two names.
    pub(super) async fn ensure_budget(&self) -> Result<(), RuntimeError> {
        let name = self.lease_name();
        // Who works under another instance's lease has no sessions.
        let Some(owner) = self.owner.lock().clone().filter(|owner| owner.name == name) else { return Ok(()) };
        let api = self.api()?;
        for version in ["policy/v1", "policy/v1beta1"] {
            let path = api.path(&format!("/apis/{version}"), access::CREATE_BUDGETS);
            let found = api.get::<MetadataOnly>(access::GET_BUDGETS, &format!("{path}/{name}")).await;
            if unless(404, found)?.is_some() {
                return Ok(());
            }
            self.term.check()?;
            let budget = pod::budget(&name, &self.instance, &owner, version);
            match api.create::<MetadataOnly>(access::CREATE_BUDGETS, &path, &budget).await {
                Err(error) if error.code() == Some(404) => {}
                made => return unless(409, made).map(drop).map_err(Into::into),
            }
        }
        Err(RuntimeError::refused("make a PodDisruptionBudget", "the cluster has neither policy/v1 nor policy/v1beta1"))
    }
}
