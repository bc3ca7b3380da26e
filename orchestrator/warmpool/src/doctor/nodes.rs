//! `warmpool doctor --nodes`: whether each node has the parts of the fence that a service or Pod cannot ask for. A container on the node tries them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::instance;
use super::interrupt::unless_interrupted;
use super::{Finding, Level};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::ids::random_bytes;
use warmpool_runtime::{MissingRequirement, NodeCheck, Runtime, RuntimeError};

/// Why no node was looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodesError {
    /// The nodes cannot be asked for.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Somebody ended this.
    #[error("interrupted: what was started on the nodes is removed")]
    Interrupted,
}

/// What was found of one engine's image.
struct EngineChecks {
    engine: Engine,
    /// Whether the configuration cannot do without the engine.
    needed: bool,
    nodes: Vec<NodeCheck>,
}

/// Starts a container of each engine's image on each node, and removes it.
/// Errors: [`NodesError`], when the nodes cannot be asked for.
pub(crate) async fn probe_nodes(config: Arc<Config>) -> Result<Vec<Finding>, NodesError> {
    let runtime = Runtime::new(Arc::clone(&config), format!("doctor-{}", hex::encode(random_bytes::<6>())));
    if let Some(instance) = instance(&config).await {
        runtime.belong_to(&instance).await;
    }
    let Some(probed) = unless_interrupted(probe(&config, &runtime)).await else {
        runtime.wind_down().await?;
        return Err(NodesError::Interrupted);
    };
    Ok(findings(&probed?))
}

async fn probe(config: &Config, runtime: &Runtime) -> Result<Vec<EngineChecks>, RuntimeError> {
    let mut engines = Vec::new();
    for engine in Engine::ALL {
        if runtime.image_id(config.image(engine)).await.is_ok() {
            engines.push(engine);
        }
    }
    if engines.is_empty() {
        // Its error says what is missing.
        engines.push(Engine::Chromium);
    }
    let mut checks = Vec::new();
    for engine in engines {
        let nodes = runtime.check_nodes(config.image(engine), engine).await?;
        checks.push(EngineChecks { engine, needed: config.needs_engine(engine), nodes });
    }
    Ok(checks)
}

/// The findings of each node: once where all engines have the same.
fn findings(checks: &[EngineChecks]) -> Vec<Finding> {
    let mut by_node: BTreeMap<&str, Vec<(&EngineChecks, &NodeCheck)>> = BTreeMap::new();
    for of_engine in checks {
        for check in &of_engine.nodes {
            by_node.entry(&check.node).or_default().push((of_engine, check));
        }
    }
    let mut findings = Vec::new();
    for (node, checks) in by_node {
        let alike = checks.len() > 1 && checks.windows(2).all(|two| two[0].1 == two[1].1);
        let shown = if alike || checks.len() == 1 { &checks[..1] } else { &checks[..] };
        for (of_engine, check) in shown {
            let place = if shown.len() == 1 { node.to_owned() } else { format!("{node}, {}", of_engine.engine) };
            // One that no node takes, no session gets.
            let nowhere = of_engine.needed && of_engine.nodes.iter().all(|check| check.verdict.is_err());
            findings.extend(of_node(&place, &check.verdict, nowhere));
        }
    }
    findings
}

fn of_node(place: &str, verdict: &Result<Vec<MissingRequirement>, String>, nowhere: bool) -> Vec<Finding> {
    let finding = |level, detail: String, remedy| Finding { level, title: "Node", detail, remedy };
    match verdict {
        Err(why) => {
            let remedy = "mend that, and run this again".to_owned();
            let level = if nowhere { Level::Fail } else { Level::Warn };
            vec![finding(level, format!("{place} was not looked at: {why}"), Some(remedy))]
        }
        Ok(missing) if missing.is_empty() => vec![finding(Level::Ok, format!("{place} keeps workers in"), None)],
        Ok(missing) => missing.iter().map(|requirement| unmet(place, requirement)).collect(),
    }
}

fn unmet(place: &str, MissingRequirement { what, remedy, needed }: &MissingRequirement) -> Finding {
    let level = if *needed { Level::Fail } else { Level::Warn };
    Finding { level, title: "Node", detail: format!("{place}: {what}"), remedy: Some(remedy.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_no_node_gets_is_named_with_its_engine() {
        let check = |node: &str, verdict: &Result<Vec<MissingRequirement>, String>| NodeCheck {
            node: node.to_owned(),
            verdict: verdict.clone(),
        };
        let fit = Ok(Vec::new());
        let absent = Err("ErrImagePull: no such image".to_owned());
        let both = |engine, needed, verdict: &_| EngineChecks {
            engine,
            needed,
            nodes: vec![check("n1", verdict), check("n2", verdict)],
        };
        let shown = |checks: &[EngineChecks]| -> Vec<(Level, String)> {
            findings(checks).into_iter().map(|finding| (finding.level, finding.detail)).collect()
        };
        let alike = shown(&[both(Engine::Chromium, true, &fit), both(Engine::Firefox, false, &fit)]);
        assert_eq!(
            alike,
            [(Level::Ok, "n1 keeps workers in".to_owned()), (Level::Ok, "n2 keeps workers in".to_owned())]
        );
        for (needed, level) in [(true, Level::Fail), (false, Level::Warn)] {
            let found = shown(&[both(Engine::Chromium, true, &fit), both(Engine::Firefox, needed, &absent)]);
            assert_eq!(found[0], (Level::Ok, "n1, chromium keeps workers in".to_owned()));
            assert_eq!(found[1], (level, "n1, firefox was not looked at: ErrImagePull: no such image".to_owned()));
            assert_eq!(found.len(), 4);
        }
        // Sessions go where the image is.
        let one = EngineChecks {
            engine: Engine::Chromium,
            needed: true,
            nodes: vec![check("n1", &fit), check("n2", &absent)],
        };
        assert_eq!(shown(&[one])[1].0, Level::Warn);
    }
}
