//! The cluster of Kubernetes.

use std::time::{Duration, SystemTime};

use super::{fail, ok, warn};
use crate::doctor::{Finding, ImageFact};
use warmpool_runtime::{ClusterFacts, LeaseFacts, MissingAccess, Refusal};

/// Clocks that differ by less are not worth a word.
const SKEW: Duration = Duration::from_secs(10);

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
    let ClusterFacts { version, namespace, missing, asked, refusal, images, lease } = facts;
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
    findings.extend(images.iter().map(worker_image));
    findings.extend(lease.as_ref().map(|lease| owner(lease, SystemTime::now())));
    findings
}

fn worker_image(ImageFact { engine, name, there, needed }: &ImageFact) -> Finding {
    const TITLE: &str = "Worker image";
    let remedy =
        format!("push it with ./scripts/images --push, and name it with its registry in worker.{engine}_image");
    match (there, needed) {
        (true, _) => ok(TITLE, name),
        (false, true) => fail(TITLE, format!("no node has {name}, and its name has no registry"), remedy),
        (false, false) => ok(TITLE, format!("no node has {name}, so {engine} sessions are refused; {remedy}")),
    }
}

/// Who has the workers, as of `now`.
fn owner(lease: &LeaseFacts, now: SystemTime) -> Finding {
    const TITLE: &str = "Lease";
    let Some(host) = &lease.host else { return ok(TITLE, "no daemon has the workers of this instance") };
    let whose = if lease.is_ours { "the daemon of this data directory" } else { "another daemon" };
    let Some(renewed) = lease.renewed else { return ok(TITLE, format!("{whose}, on {host}, has the workers")) };
    let ago = match now.duration_since(renewed) {
        Ok(ago) => ago,
        Err(ahead) if ahead.duration() > SKEW => {
            let seconds = ahead.duration().as_secs();
            return warn(
                TITLE,
                format!("{whose} renewed it on {host} {seconds} s from now: the clock there or here was set wrongly"),
                "set the clocks by NTP; who has the workers does not depend on them",
            );
        }
        Err(_) => Duration::ZERO,
    };
    let said = format!("{whose}, on {host}, has the workers, as of {} s ago", ago.as_secs());
    if lease.is_ours {
        ok(TITLE, said)
    } else if ago > lease.holds_for {
        ok(TITLE, format!("{said}: the next daemon takes them over"))
    } else {
        warn(
            TITLE,
            format!("{said}: one of this data directory waits"),
            "end one of the two: one daemon of an instance serves at a time",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Level, healthy};
    use warmpool_core::browser::Engine;

    #[test]
    fn each_missing_rule_is_named() {
        let facts = |missing| ClusterFacts {
            version: "v1.20.2".to_owned(),
            namespace: "pool".to_owned(),
            missing,
            asked: 14,
            refusal: None,
            images: Vec::new(),
            lease: None,
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

    #[test]
    fn an_image_that_nodes_do_not_get_is_named() {
        for (there, needed, level) in [(true, true, Level::Ok), (false, false, Level::Ok), (false, true, Level::Fail)] {
            let image =
                ImageFact { engine: Engine::Firefox, name: "warmpool/firefox:latest".to_owned(), there, needed };
            let found = worker_image(&image);
            assert_eq!(found.level, level);
            assert!(found.detail.contains("warmpool/firefox:latest"), "{found:?}");
            assert_eq!(format!("{found:?}").contains("worker.firefox_image"), !there, "{found:?}");
        }
    }

    #[test]
    fn it_is_said_who_has_the_workers() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let held = |is_ours, ago: i64| {
            let ago_by = Duration::from_secs(ago.unsigned_abs());
            let renewed = Some(if ago < 0 { now + ago_by } else { now - ago_by });
            LeaseFacts { host: Some("east".to_owned()), is_ours, renewed, holds_for: Duration::from_secs(180) }
        };
        for (lease, level, said) in [
            (LeaseFacts { host: None, ..held(false, 0) }, Level::Ok, "no daemon has the workers"),
            (LeaseFacts { renewed: None, ..held(true, 0) }, Level::Ok, "of this data directory, on east"),
            (held(true, 3), Level::Ok, "of this data directory, on east, has the workers, as of 3 s ago"),
            (held(true, -3), Level::Ok, "as of 0 s ago"),
            (held(false, 3), Level::Warn, "another daemon, on east, has the workers, as of 3 s ago"),
            (held(false, 181), Level::Ok, "the next daemon takes them over"),
            (held(true, -3600), Level::Warn, "3600 s from now: the clock"),
        ] {
            let found = owner(&lease, now);
            assert!(found.level == level && found.detail.contains(said), "{found:?}");
        }
    }
}
