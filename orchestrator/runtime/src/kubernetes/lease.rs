//! Where the lease of an instance is kept: a Lease of `coordination.k8s.io`. It owns all that the daemon makes, so it is never
//! deleted: who gives it up leaves it without a holder. Its annotations also say which nodes are drained.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::Kubernetes;
use super::access::{CREATE_LEASES, GET_CONFIG_MAPS, GET_LEASES, PATCH_LEASES};
use super::api::unless;
use super::objects::{LeaseObject, MetadataOnly};
use super::pod::Owner;
use crate::cluster::lease::{Lease, LeaseClaim, LeaseRecord, LeaseStore};
use crate::{LeaseFacts, RuntimeError, cluster, labels};

const API: &str = "/apis/coordination.k8s.io/v1";
/// Annotation of a lease: the host of its holder, for people.
const HOST: &str = "warmpool.lease.host";
/// Annotation: the kernel that it runs on and its data directory, as that kernel knows it.
const PLACE: &str = "warmpool.lease.place";
/// Annotation: how often it was renewed.
const BEAT: &str = "warmpool.lease.beat";
/// Annotation: the nodes that an operator drains, or has drained.
const DRAINED: &str = "warmpool.drained";

impl Kubernetes {
    /// Waits until this process has the lease.
    /// Errors: `NotOwned` where a process on this host uses the same directory.
    pub(super) async fn acquire_lease(&self, data_dir: &Path) -> Result<Lease, RuntimeError> {
        Lease::acquire(Arc::new(self.clone()), self.term.clone(), self.config.kubernetes.lease, data_dir).await
    }

    pub(super) fn lease_name(&self) -> String {
        name(&self.instance)
    }

    /// The lease of this instance as it is.
    async fn lease(&self, name: &str) -> Result<Option<LeaseObject>, RuntimeError> {
        let api = self.api()?;
        let path = format!("{}/{name}", api.path(API, GET_LEASES));
        Ok(unless(404, api.get(GET_LEASES, &path).await)?)
    }

    /// Makes the lease of that instance the owner of what this process creates, where the lease can be read.
    pub(super) async fn keep_owner_of(&self, instance: &str) {
        match self.lease(&name(instance)).await {
            Ok(Some(lease)) => self.keep_owner(&lease),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the lease of the instance cannot be read"),
        }
    }

    /// Returns which daemon holds the lease of this instance, as far as that can be read. `data_dir` is this process's.
    pub(super) async fn lease_facts(&self, data_dir: &Path) -> Option<LeaseFacts> {
        if self.instance.is_empty() {
            return None;
        }
        let LeaseObject { metadata, spec } = self.lease(&self.lease_name()).await.ok().flatten()?;
        let annotation = |name: &str| metadata.annotations.get(name).cloned().unwrap_or_default();
        let is_held = spec.holder_identity.is_some_and(|holder| !holder.is_empty());
        let place = cluster::lease::place_of(data_dir);
        Some(LeaseFacts {
            host: is_held.then(|| annotation(HOST)),
            is_ours: is_held && place.is_some_and(|place| place == annotation(PLACE)),
            renewed: spec.renew_time.and_then(|time| humantime::parse_rfc3339(&time).ok()),
            holds_for: spec.lease_duration_seconds.map_or(self.config.kubernetes.lease, Duration::from_secs),
        })
    }

    /// The nodes that are drained by what the lease says.
    pub(super) async fn read_drained(&self) -> Result<BTreeSet<String>, RuntimeError> {
        Ok(self.lease(&self.lease_name()).await?.as_ref().map(drained).unwrap_or_default())
    }

    /// Writes which nodes are drained into the lease.
    pub(super) async fn keep_drained(&self, marked: &[String]) -> Result<(), RuntimeError> {
        self.term.check()?;
        let list = (!marked.is_empty()).then(|| marked.join(","));
        self.change_lease(&json!({ "metadata": { "annotations": { DRAINED: list } } })).await
    }

    async fn change_lease(&self, change: &Value) -> Result<(), RuntimeError> {
        let api = self.api()?;
        let path = format!("{}/{}", api.path(API, PATCH_LEASES), self.lease_name());
        let lease: LeaseObject = api.patch(PATCH_LEASES, &path, change).await?;
        self.keep_owner(&lease);
        Ok(())
    }

    fn keep_owner(&self, lease: &LeaseObject) {
        *self.owner.lock() = Some(Owner {
            api: "coordination.k8s.io/v1",
            kind: "Lease",
            name: lease.metadata.name.clone(),
            uid: lease.metadata.uid.clone(),
        });
    }

    /// The object that owns the lease; none where the configuration names none.
    async fn owner_of_lease(&self) -> Result<Option<Owner>, RuntimeError> {
        let Some(name) = &self.config.kubernetes.owner else { return Ok(None) };
        let api = self.api()?;
        let path = format!("{}/{name}", api.path("/api/v1", GET_CONFIG_MAPS));
        let found: Option<MetadataOnly> = unless(404, api.get(GET_CONFIG_MAPS, &path).await)?;
        let found = found.ok_or_else(|| {
            let why = format!(
                "there is no ConfigMap `{name}` in the namespace {}: make it, or unset kubernetes.owner",
                api.namespace()
            );
            RuntimeError::refused("make the lease", why)
        })?;
        Ok(Some(Owner { api: "v1", kind: "ConfigMap", name: name.clone(), uid: found.metadata.uid }))
    }
}

/// The nodes that a lease says are drained.
fn drained(lease: &LeaseObject) -> BTreeSet<String> {
    let list = lease.metadata.annotations.get(DRAINED).map(String::as_str).unwrap_or_default();
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The name of the lease of an instance.
fn name(instance: &str) -> String {
    format!("warmpool-{instance}")
}

#[async_trait]
impl LeaseStore for Kubernetes {
    async fn look(&self) -> Result<Option<LeaseRecord>, RuntimeError> {
        // What is read while the list is being changed may be older than what is known by then. A change waits for this look, and the
        // next look reads the list again.
        let quiet = self.draining.try_lock();
        let Some(lease) = self.lease(&self.lease_name()).await? else { return Ok(None) };
        if quiet.is_ok() {
            self.drained.lock().marked = drained(&lease);
        }
        let annotation = |name: &str| lease.metadata.annotations.get(name).cloned().unwrap_or_default();
        Ok(Some(LeaseRecord {
            version: lease.metadata.resource_version.clone(),
            holder: lease.spec.holder_identity.clone().unwrap_or_default(),
            host: annotation(HOST),
            place: annotation(PLACE),
            beat: annotation(BEAT).parse().unwrap_or_default(),
        }))
    }

    async fn take(&self, candidate: &LeaseClaim, seen: Option<&LeaseRecord>) -> Result<(), RuntimeError> {
        let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let beat = seen.map_or(0, |seen| seen.beat + 1).to_string();
        let annotations = json!({ HOST: candidate.host, PLACE: candidate.place, BEAT: beat });
        // The times are for people; a watcher goes by its own clock.
        let seconds = self.config.kubernetes.lease.as_secs();
        let spec = json!({ "holderIdentity": candidate.holder, "leaseDurationSeconds": seconds, "renewTime": now });
        if let Some(seen) = seen {
            let metadata = json!({ "resourceVersion": seen.version, "annotations": annotations });
            return self.change_lease(&json!({ "metadata": metadata, "spec": spec })).await;
        }
        let owner = self.owner_of_lease().await?;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.lease_name(),
                "labels": { labels::INSTANCE: &*self.instance },
                "annotations": annotations,
                "ownerReferences": owner.iter().map(Owner::reference).collect::<Vec<Value>>(),
            },
            "spec": spec,
        });
        let api = self.api()?;
        let made: LeaseObject = api.create(CREATE_LEASES, &api.path(API, CREATE_LEASES), &lease).await?;
        self.keep_owner(&made);
        Ok(())
    }

    async fn release(&self) -> Result<(), RuntimeError> {
        self.change_lease(&json!({ "spec": { "holderIdentity": null } })).await
    }
}
