//! The tests that *What an attacker finds* names.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use warmpool_tests::Stage;

use super::{GUIDES, root};

/// Where the crates are.
const CRATES: [&str; 2] = ["orchestrator", "worker-image"];

/// A row whose test has another name by now, or is gone, promises what nobody checks.
pub(super) async fn tests_of_the_fence_are_there(_: Stage) -> Result<()> {
    let guide = std::fs::read_to_string(root().join(GUIDES).join("fence.md"))?;
    let mut rows = 0;
    for line in guide.lines() {
        let Some((_, names)) = line.rsplit_once("<br>") else { continue };
        follow(names).with_context(|| line.to_owned())?;
        rows += 1;
    }
    ensure!(rows > 100, "only {rows} rows name tests");
    Ok(())
}

/// Looks for the cases, functions and modules that a row names.
fn follow(names: &str) -> Result<()> {
    // Their module comes behind them.
    let mut functions = Vec::new();
    for name in names.split('`').skip(1).step_by(2) {
        let (first, rest) = name.split_once("::").unwrap_or((name, ""));
        if first == "warmpool" || first.starts_with("warmpool_") {
            let text = module(first, rest)?;
            for function in functions.drain(..) {
                ensure!(has_function(&text, function), "`{name}` has no `{function}`");
            }
        } else if !rest.is_empty() {
            ensure!(has_function(&cases(first)?, rest), "there is no case `{name}`");
        } else if !name.starts_with('…') {
            functions.push(name);
        }
    }
    ensure!(functions.is_empty(), "no module stands behind {functions:?}");
    Ok(())
}

fn has_function(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}("))
}

/// The source of a group of cases.
fn cases(group: &str) -> Result<String> {
    source(&root().join("tests/e2e"), group)?.with_context(|| format!("there is no group `{group}`"))
}

/// The source of a module of a crate; of the whole crate where no module is named.
fn module(name: &str, path: &str) -> Result<String> {
    let folder = name.strip_prefix("warmpool_").unwrap_or(name).replace('_', "-");
    let folders = CRATES.map(|parent| root().join(parent).join(&folder).join("src"));
    let folder =
        folders.iter().find(|folder| folder.is_dir()).with_context(|| format!("there is no crate `{name}`"))?;
    // Some tests stand in the file of what they test.
    let outer = path.strip_suffix("tests").map(|outer| outer.trim_end_matches("::"));
    for path in [Some(path), outer].into_iter().flatten() {
        if let Some(text) = source(folder, path)? {
            return Ok(text);
        }
    }
    bail!("`{name}` has no module `{path}`")
}

/// The source of a module and of those within it, if it is there.
fn source(folder: &Path, path: &str) -> Result<Option<String>> {
    let within = folder.join(path.replace("::", "/"));
    let file = within.with_extension("rs");
    let mut text = String::new();
    if file.is_file() {
        text.push_str(&std::fs::read_to_string(&file)?);
    } else if !path.is_empty() {
        return Ok(None);
    }
    if within.is_dir() {
        gather(&within, &mut text)?;
    }
    Ok(Some(text))
}

fn gather(folder: &Path, text: &mut String) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
