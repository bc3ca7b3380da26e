//! What the cluster says of itself, and of what this daemon may do there.

use serde_json::{Value, json};

use super::access::Access;
use super::objects::Review;
use super::{Kubernetes, VERSION, access};
use crate::{ClusterFacts, MissingAccess, RuntimeError};

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
        Ok(ClusterFacts {
            version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            namespace: api.namespace().to_owned(),
            missing,
            asked: needed.len(),
        })
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
