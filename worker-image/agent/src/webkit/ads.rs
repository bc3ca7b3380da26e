//! Blocks ads by WebKit's own content rules, which the browser compiles once and can load again.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::ads::AdRules;

use super::shell::{Commands, ShellError};

/// The file in which WebKit keeps compiled rules of the name that the shell gives them.
const COMPILED: &str = "ContentRuleList-ads";
/// What they are compiled from.
const SOURCE: &str = "rules.json";

/// Why ads cannot be blocked.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error("the rules' folder: {0}")]
    Folder(#[from] std::io::Error),
    #[error(transparent)]
    Shell(#[from] ShellError),
}

/// Blocks ads in all pages.
pub(super) async fn block(shell: &Commands, home: &Path, rules: AdRules) -> Result<(), BlockError> {
    let folder = folder(home);
    tokio::fs::create_dir_all(&folder).await?;
    match rules {
        AdRules::Compiled(bytes) => {
            tokio::fs::write(folder.join(COMPILED), bytes).await?;
            shell.block(&folder, None).await?;
        }
        AdRules::Plain(bytes) | AdRules::BuiltIn(bytes) => {
            let source = folder.join(SOURCE);
            tokio::fs::write(&source, bytes).await?;
            let compiled = shell.block(&folder, Some(&source)).await;
            tokio::fs::remove_file(&source).await?;
            compiled?;
        }
    }
    Ok(())
}

/// The rules as the browser has compiled them.
pub(super) async fn compiled(home: &Path) -> std::io::Result<Bytes> {
    Ok(tokio::fs::read(folder(home).join(COMPILED)).await?.into())
}

fn folder(home: &Path) -> PathBuf {
    home.join("ads")
}
