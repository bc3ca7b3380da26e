//! What the daemon may have to do in the cluster: the one list of verbs, for the calls themselves, the check of permissions, and
//! the errors that name the rule which is missing. The guide and the chart have the same.

use std::fmt;

/// One verb on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    pub resource: &'static str,
    /// Whether it is asked for in the workers' namespace, by a Role, and not of the whole cluster, by a ClusterRole.
    pub namespaced: bool,
    /// The setting without which it is not needed.
    pub only_with: Option<&'static str>,
}

const fn pods(verb: &'static str) -> Access {
    Access { verb, group: "", resource: "pods", namespaced: true, only_with: None }
}

const fn leases(verb: &'static str) -> Access {
    Access { verb, group: "coordination.k8s.io", resource: "leases", namespaced: true, only_with: None }
}

const fn budgets(verb: &'static str) -> Access {
    Access { verb, group: "policy", resource: "poddisruptionbudgets", namespaced: true, only_with: None }
}

const fn nodes(verb: &'static str) -> Access {
    Access { verb, group: "", resource: "nodes", namespaced: false, only_with: None }
}

pub(crate) const CREATE_PODS: Access = pods("create");
pub(crate) const DELETE_PODS: Access = pods("delete");
pub(crate) const LIST_PODS: Access = pods("list");
pub(crate) const PATCH_PODS: Access = pods("patch");
pub(crate) const WATCH_PODS: Access = pods("watch");
pub(crate) const CREATE_LEASES: Access = leases("create");
pub(crate) const GET_LEASES: Access = leases("get");
pub(crate) const PATCH_LEASES: Access = leases("patch");
pub(crate) const CREATE_BUDGETS: Access = budgets("create");
pub(crate) const GET_BUDGETS: Access = budgets("get");
pub(crate) const LIST_EVENTS: Access =
    Access { verb: "list", group: "", resource: "events", namespaced: true, only_with: None };
pub(crate) const GET_CONFIG_MAPS: Access =
    Access { verb: "get", group: "", resource: "configmaps", namespaced: true, only_with: Some("kubernetes.owner") };
pub(crate) const LIST_NODES: Access = nodes("list");
pub(crate) const WATCH_NODES: Access = nodes("watch");

/// All of them. Every authenticated user may ask for the version and review their own access.
pub(crate) const ALL: [Access; 14] = [
    CREATE_PODS,
    DELETE_PODS,
    LIST_PODS,
    PATCH_PODS,
    WATCH_PODS,
    CREATE_LEASES,
    GET_LEASES,
    PATCH_LEASES,
    CREATE_BUDGETS,
    GET_BUDGETS,
    LIST_EVENTS,
    GET_CONFIG_MAPS,
    LIST_NODES,
    WATCH_NODES,
];

impl Access {
    /// The rule that allows it, as it stands in a Role or ClusterRole.
    pub(crate) fn rule(&self) -> String {
        let Self { verb, group, resource, .. } = self;
        format!("{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}")
    }

    /// What holds the rule.
    pub(crate) const fn role(&self) -> &'static str {
        if self.namespaced { "Role" } else { "ClusterRole" }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use yaml_rust2::{Yaml, YamlLoader};

    use super::*;

    #[test]
    fn the_guide_names_every_verb() {
        let guide = include_str!("../../../docs/kubernetes.md");
        for access in ALL {
            let row = |line: &&str| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                let named = |at: usize, word: &str| {
                    cells.get(at).is_some_and(|cell| cell.split(", ").any(|one| one == format!("`{word}`")))
                };
                named(1, access.role()) && named(3, access.resource) && named(4, access.verb)
            };
            assert!(guide.lines().find(row).is_some(), "{access} is not in the guide's table");
        }
        assert_eq!(CREATE_PODS.rule(), r#"{apiGroups: [""], resources: ["pods"], verbs: ["create"]}"#);
    }

    /// The rules of the chart's roles, each as kind, group, resource and verb.
    fn rules_of_the_chart() -> BTreeSet<[String; 4]> {
        let template = include_str!("../../../../deploy/helm/warmpool/templates/rbac.yaml");
        // What Helm fills in has no part in the rules.
        let plain: Vec<&str> = template.lines().filter(|line| !line.contains("{{")).collect();
        let mut rules = BTreeSet::new();
        for object in YamlLoader::load_from_str(&plain.join("\n")).unwrap() {
            let texts = |list: &Yaml| -> Vec<String> {
                list.as_vec().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
            };
            let kind = object["kind"].as_str().unwrap().to_owned();
            for rule in object["rules"].as_vec().into_iter().flatten() {
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        let verbs = texts(&rule["verbs"]).into_iter();
                        rules.extend(verbs.map(|verb| [kind.clone(), group.clone(), resource.clone(), verb]));
                    }
                }
            }
        }
        rules
    }

    #[test]
    fn the_chart_gives_exactly_these() {
        let needed = ALL.map(|access| [access.role(), access.group, access.resource, access.verb].map(str::to_owned));
        assert_eq!(rules_of_the_chart(), BTreeSet::from(needed));
    }
}
