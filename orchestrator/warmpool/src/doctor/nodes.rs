//! `warmpool doctor --nodes`: whether each node has the parts of the fence that a service or Pod cannot ask for. A container on the node tries them.

use std::sync::Arc;

use super::{Finding, Level};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::ids::random_bytes;
use warmpool_runtime::{MissingRequirement, NodeCheck, Runtime, RuntimeError};

/// Starts a container on each node, and removes it.
/// Errors: [`RuntimeError`], when the nodes cannot be asked for.
pub(crate) async fn probe_nodes(config: Arc<Config>) -> Result<Vec<Finding>, RuntimeError> {
    let runtime = Runtime::new(Arc::clone(&config), format!("doctor-{}", hex::encode(random_bytes::<6>())));
    let mut engine = Engine::Chromium;
    for candidate in Engine::ALL {
        if runtime.image_id(config.image(candidate)).await.is_ok() {
            engine = candidate;
            break;
        }
    }
    let checks = runtime.check_nodes(config.image(engine), engine).await?;
    Ok(checks.iter().flat_map(findings).collect())
}

fn findings(check: &NodeCheck) -> Vec<Finding> {
    let node = &check.node;
    let finding = |level, detail: String, remedy| Finding { level, title: "Node", detail, remedy };
    match &check.verdict {
        Err(why) => {
            let remedy = "mend that, and run this again".to_owned();
            vec![finding(Level::Warn, format!("{node} was not looked at: {why}"), Some(remedy))]
        }
        Ok(missing) if missing.is_empty() => vec![finding(Level::Ok, format!("{node} keeps workers in"), None)],
        Ok(missing) => missing.iter().map(|requirement| unmet(node, requirement)).collect(),
    }
}

fn unmet(node: &str, MissingRequirement { what, remedy, needed }: &MissingRequirement) -> Finding {
    let level = if *needed { Level::Fail } else { Level::Warn };
    Finding { level, title: "Node", detail: format!("{node}: {what}"), remedy: Some(remedy.clone()) }
}
