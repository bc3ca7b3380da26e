//! The PodDisruptionBudget of the workers that sessions have.

use super::api::unless;
use super::objects::MetadataOnly;
use super::{Kubernetes, access, pod};
use crate::RuntimeError;

impl Kubernetes {
    /// Makes the budget that keeps sessions' workers from eviction, where it is missing. Its API has had two names.
    pub(super) async fn ensure_budget(&self) -> Result<(), RuntimeError> {
        let Some(owner) = self.owner.lock().clone() else { return Ok(()) };
        let api = self.api()?;
        let name = self.lease_name();
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
