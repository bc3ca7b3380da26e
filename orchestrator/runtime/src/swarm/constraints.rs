//! Constraints of the configuration, read as Swarm reads them: a node that none of its workers may come to need not be looked at.

use bollard::models::{Node, NodeSpecRoleEnum};

use warmpool_config::Config;
use warmpool_core::browser::Engine;

/// Where the configuration allows workers of this engine.
pub(super) fn constraints(config: &Config, engine: Engine) -> impl Iterator<Item = String> + '_ {
    let swarm = &config.swarm;
    let of_engine = match engine {
        Engine::Chromium => &swarm.chromium_constraints,
        Engine::Firefox => &swarm.firefox_constraints,
        Engine::Webkit => &swarm.webkit_constraints,
    };
    swarm.constraints.iter().chain(of_engine).cloned()
}

/// Whether a node meets all of these. One that is not understood here counts as met: Swarm decides.
pub(super) fn met(node: &Node, mut constraints: impl Iterator<Item = String>) -> bool {
    constraints.all(|constraint| {
        let (equal, parts) = match constraint.split_once("==") {
            Some(parts) => (true, Some(parts)),
            None => (false, constraint.split_once("!=")),
        };
        let Some((name, wanted)) = parts.map(|(name, wanted)| (name.trim(), wanted.trim())) else { return true };
        match value(node, name) {
            Value::Is(is) => is.eq_ignore_ascii_case(wanted) == equal,
            Value::None => !equal,
            Value::Unknown => true,
        }
    })
}

/// What a node has for a name such as `node.labels.rack`, if it has that.
pub(super) fn label(node: &Node, name: &str) -> Option<String> {
    match value(node, name) {
        Value::Is(is) => Some(is),
        Value::None | Value::Unknown => None,
    }
}

enum Value {
    Is(String),
    /// The node has no such label.
    None,
    /// It is not known here.
    Unknown,
}

fn value(node: &Node, name: &str) -> Value {
    let of = |value: Option<String>| value.map_or(Value::None, Value::Is);
    let description = node.description.as_ref();
    match name {
        "node.id" => of(node.id.clone()),
        "node.hostname" => of(description.and_then(|description| description.hostname.clone())),
        "node.role" => match node.spec.as_ref().and_then(|spec| spec.role) {
            Some(NodeSpecRoleEnum::MANAGER) => Value::Is("manager".to_owned()),
            Some(NodeSpecRoleEnum::WORKER) => Value::Is("worker".to_owned()),
            _ => Value::Unknown,
        },
        _ => {
            let labels = node.spec.as_ref().and_then(|spec| spec.labels.as_ref());
            let engine = description.and_then(|description| description.engine.as_ref());
            let of_engine = engine.and_then(|engine| engine.labels.as_ref());
            if let Some(label) = name.strip_prefix("node.labels.") {
                of(labels.and_then(|labels| labels.get(label).cloned()))
            } else if let Some(label) = name.strip_prefix("engine.labels.") {
                of(of_engine.and_then(|labels| labels.get(label).cloned()))
            } else {
                Value::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::{NodeDescription, NodeSpec};

    use super::*;

    #[test]
    fn nodes_meet_constraints_as_swarm_reads_them() {
        let node = Node {
            id: Some("n1".to_owned()),
            spec: Some(NodeSpec {
                role: Some(NodeSpecRoleEnum::WORKER),
                labels: Some(HashMap::from([("rack".to_owned(), "East".to_owned())])),
                ..Default::default()
            }),
            description: Some(NodeDescription { hostname: Some("east-1".to_owned()), ..Default::default() }),
            ..Default::default()
        };
        for (constraint, wanted) in [
            ("node.role==worker", true),
            ("node.role == Worker", true),
            ("node.role!=worker", false),
            ("node.role==manager", false),
            ("node.id!=n1", false),
            ("node.hostname==east-1", true),
            ("node.labels.rack==east", true),
            ("node.labels.rack!=east", false),
            ("node.labels.disk==ssd", false),
            ("node.labels.disk!=ssd", true),
            ("engine.labels.disk==ssd", false),
            ("node.platform.os==linux", true),
            ("nonsense", true),
        ] {
            assert_eq!(met(&node, std::iter::once(constraint.to_owned())), wanted, "{constraint}");
        }
        let both = ["node.role==worker", "node.labels.rack==west"].map(str::to_owned);
        assert!(!met(&node, both.into_iter()));
    }
}
