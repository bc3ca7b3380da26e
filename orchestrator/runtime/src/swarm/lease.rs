//! Where the lease of an instance is kept: a config object of the swarm, whose labels change by compare and swap.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::models::ConfigSpec;
use bollard::query_parameters::UpdateConfigOptions;

use super::Swarm;
use crate::client::{CallError, unless};
use crate::cluster::lease::{Lease, LeaseClaim, LeaseRecord, LeaseStore};
use crate::{RuntimeError, labels};

/// Label of a lease: the process that holds it; changes with each one.
const LABEL_HOLDER: &str = "warmpool.lease.holder";
/// Label: its host's name, for people.
const LABEL_HOST: &str = "warmpool.lease.host";
/// Label: the kernel that it runs on and its data directory, as that kernel knows it.
const LABEL_PLACE: &str = "warmpool.lease.place";
/// Label: how often it was renewed.
const LABEL_BEAT: &str = "warmpool.lease.beat";

impl Swarm {
    /// Waits until this process has the lease.
    /// Errors: `NotOwned` where a process on this host uses the same directory.
    pub(super) async fn acquire_lease(&self, data_dir: &Path) -> Result<Lease, RuntimeError> {
        Lease::acquire(Arc::new(self.clone()), self.term.clone(), self.config.swarm.lease, data_dir).await
    }

    fn lease_name(&self) -> String {
        format!("warmpool-lease-{}", self.instance)
    }
}

#[async_trait]
impl LeaseStore for Swarm {
    async fn look(&self) -> Result<Option<LeaseRecord>, RuntimeError> {
        let name = &self.lease_name();
        let found = self.host.look("read the lease", async move |engine| engine.inspect_config(name).await).await;
        let Some(config) = unless(&[404], found)? else { return Ok(None) };
        let labels = config.spec.and_then(|spec| spec.labels).unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        Ok(Some(LeaseRecord {
            version: config.version.and_then(|version| version.index).unwrap_or_default().to_string(),
            holder: label(LABEL_HOLDER),
            host: label(LABEL_HOST),
            place: label(LABEL_PLACE),
            beat: label(LABEL_BEAT).parse().unwrap_or_default(),
        }))
    }

    async fn take(&self, candidate: &LeaseClaim, seen: Option<&LeaseRecord>) -> Result<(), RuntimeError> {
        let beat = seen.map_or(0, |seen| seen.beat + 1);
        let name = &self.lease_name();
        let spec = ConfigSpec {
            name: Some(name.clone()),
            labels: Some(labels::labels([
                (labels::INSTANCE, &self.instance),
                (LABEL_HOLDER, &candidate.holder),
                (LABEL_HOST, &candidate.host),
                (LABEL_PLACE, &candidate.place),
                (LABEL_BEAT, &beat.to_string()),
            ])),
            // It must not be empty, and never changes.
            data: Some(STANDARD.encode("lease")),
            ..Default::default()
        };
        match seen {
            None => {
                self.host.look("make the lease", async move |engine| engine.create_config(spec).await).await?;
            }
            Some(seen) => {
                let options = UpdateConfigOptions { version: seen.version.parse().unwrap_or_default() };
                let update = async move |engine: bollard::Docker| engine.update_config(name, spec, options).await;
                self.host.look("renew the lease", update).await?;
            }
        }
        Ok(())
    }

    async fn release(&self) -> Result<(), RuntimeError> {
        let name = &self.lease_name();
        let delete = async move |engine: bollard::Docker| engine.delete_config(name).await;
        match self.host.look("remove the lease", delete).await {
            Err(error @ (CallError::Engine { .. } | CallError::Slow { .. })) => Err(error.into()),
            // An engine that is away has nobody to tell.
            Err(CallError::Connect(_)) | Ok(()) => Ok(()),
        }
    }
}
