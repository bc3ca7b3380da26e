//! The cluster of Kubernetes.

use super::{fail, ok, warn};
use crate::doctor::Finding;
use warmpool_runtime::{ClusterFacts, MissingAccess, Refusal};

/// Whether the cluster answers, and whether the daemon may do there what it has to.
pub(super) fn cluster(found: &Result<ClusterFacts, String>) -> Vec<Finding> {
    const TITLE: &str = "Cluster";
    let facts = match found {
        Ok(facts) => facts,
        Err(why) => {
            let remedy = "correct what the message names; the guide on Kubernetes lists the roles and settings that the daemon needs";
            return vec![fail(TITLE, why, remedy)];
        }
    };
    let ClusterFacts { version, namespace, missing, asked, refusal } = facts;
    let mut findings = vec![ok(TITLE, format!("Kubernetes {version}, namespace {namespace}"))];
    if missing.is_empty() {
        findings.push(ok("Permissions", format!("all {asked} that the daemon needs")));
    }
    findings.extend(missing.iter().map(|MissingAccess { action, role, rule }| {
        fail("Permissions", format!("the daemon may not {action}"), format!("add to its {role} the rule {rule}"))
    }));
    if let Some(Refusal { why, is_full }) = refusal {
        let remedy = "change in the cluster, or in the settings, what the message names";
        findings.push(if *is_full { warn("Workers", why, remedy) } else { fail("Workers", why, remedy) });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Level, healthy};

    #[test]
    fn each_missing_rule_is_named() {
        let facts = |missing| ClusterFacts {
            version: "v1.20.2".to_owned(),
            namespace: "pool".to_owned(),
            missing,
            asked: 15,
            refusal: None,
        };
        let good = cluster(&Ok(facts(Vec::new())));
        assert!(healthy(&good) && good.len() == 2, "{good:?}");
        let missing =
            MissingAccess { action: "delete pods".to_owned(), role: "Role", rule: "{verbs: [\"delete\"]}".to_owned() };
        let bad = cluster(&Ok(facts(vec![missing])));
        assert_eq!(bad[1].level, Level::Fail);
        assert!(
            bad[1].detail.contains("delete pods") && bad[1].remedy.as_ref().unwrap().contains("verbs: [\"delete\"]")
        );
        assert!(!healthy(&cluster(&Err("it does not answer".to_owned()))));
        for (is_full, level) in [(true, Level::Warn), (false, Level::Fail)] {
            let refusal = Some(Refusal { why: "the quota is used up".to_owned(), is_full });
            let found = cluster(&Ok(ClusterFacts { refusal, ..facts(Vec::new()) }));
            assert!(found[2].level == level && found[2].detail.contains("quota"), "{found:?}");
        }
    }
}
