//! What the cluster says of itself, and of what this daemon may do there.

use serde_json::{Value, json};

use super::access::Access;
use super::objects::{MetadataOnly, Review};
use super::{Kubernetes, VERSION, access, pod};
use crate::{ClusterFacts, ContainerRuntime as _, ImageFact, MissingAccess, Refusal, RuntimeError, WorkerSpec};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::ids::WorkerId;

impl Kubernetes {
    pub(super) async fn facts(&self) -> Result<ClusterFacts, RuntimeError> {
        let api = self.api()?;
        let version: Value = api.get(VERSION, "/version").await?;
        let needed: Vec<Access> = access::ALL
            .into_iter()
            .filter(|access| access.only_with.is_none() || self.config.kubernetes.owner.is_some())
            .collect();
        let mut missing = Vec::new();
        for access in &needed {
            if !self.may(*access).await? {
                let (action, role, rule) = (access.to_string(), access.role(), access.rule());
                missing.push(MissingAccess { action, role, rule });
            }
        }
        let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        let namespace = api.namespace().to_owned();
        Ok(ClusterFacts {
            version,
            namespace,
            missing,
            asked: needed.len(),
            refusal: self.refusal().await?,
            images: self.images().await,
            lease: self.lease_facts(&self.config.store.data_dir).await,
        })
    }

    /// Whether nodes get the workers' images, as far as their names say.
    async fn images(&self) -> Vec<ImageFact> {
        let mut images = Vec::new();
        for engine in Engine::ALL {
            let name = self.config.image(engine);
            let there = match self.image_id(name).await {
                Ok(_) => true,
                Err(error) if error.is_no_image() => false,
                Err(_) => continue,
            };
            images.push(ImageFact { engine, name: name.to_owned(), there, needed: self.config.needs_engine(engine) });
        }
        images
    }

    /// Asks the API server whether it would take a worker's Pod. A missing permission is told elsewhere.
    async fn refusal(&self) -> Result<Option<Refusal>, RuntimeError> {
        let (api, engine) = (self.api()?, Engine::Chromium);
        let image = self.config.image(engine);
        let spec = WorkerSpec {
            worker: WorkerId::random(),
            key: PoolKey::plain(engine, Mode::Headless),
            image: image.to_owned(),
        };
        let pod = self.worker_pod(&pod::name(&spec.worker, 0), &spec, image, &[], None);
        let path = format!("{}?dryRun=All", api.path("/api/v1", access::CREATE_PODS));
        let Err(error) = api.create::<MetadataOnly>(access::CREATE_PODS, &path, &pod).await else { return Ok(None) };
        match RuntimeError::from(error) {
            error @ (RuntimeError::Unreachable(_) | RuntimeError::Credentials { .. }) => Err(error),
            RuntimeError::NotAllowed { .. } => Ok(None),
            error => {
                let is_full = matches!(error, RuntimeError::QuotaUsedUp { .. });
                Ok(Some(Refusal { why: error.to_string(), is_full }))
            }
        }
    }

    /// Whether this daemon may do something.
    async fn may(&self, access: Access) -> Result<bool, RuntimeError> {
        const REVIEWS: Access = Access {
            verb: "create",
            group: "authorization.k8s.io",
            resource: "selfsubjectaccessreviews",
            namespaced: false,
            only_with: None,
        };
        let api = self.api()?;
        let namespace = access.namespaced.then(|| api.namespace());
        // A rule may be of this one object alone.
        let name = self.config.kubernetes.owner.as_deref().filter(|_| access == access::GET_CONFIG_MAPS);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "verb": access.verb, "group": access.group, "resource": access.resource, "namespace": namespace,
                "name": name,
            } },
        });
        let path = api.path("/apis/authorization.k8s.io/v1", REVIEWS);
        Ok(api.create::<Review>(REVIEWS, &path, &review).await?.status.allowed)
    }
}
