//! Blocks ads by WebKit's own content rules, which the browser compiles once and can load again.
//!
//! Other sessions' browsers load what this one has compiled. So it is read before the first page is there, which could put
//! something else in its place.

use std::path::Path;

use bytes::Bytes;
use warmpool_protocol::BODY_LIMIT;

use crate::ads::AdRules;
use crate::plain_file;

use super::shell::{Commands, ShellError};

/// The file in which WebKit keeps compiled rules of the name that the shell gives them.
const COMPILED: &str = "ContentRuleList-ads";
/// The most that it may have, in bytes: another agent has to take it.
const LONGEST: u64 = BODY_LIMIT as u64;
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

/// Blocks ads in all pages. Returns the rules as the browser has compiled them, if it has just done so.
pub(super) async fn block(shell: &Commands, home: &Path, rules: AdRules) -> Result<Option<Bytes>, BlockError> {
    let folder = home.join("ads");
    tokio::fs::create_dir_all(&folder).await?;
    match rules {
        AdRules::Compiled(bytes) => {
            tokio::fs::write(folder.join(COMPILED), bytes).await?;
            shell.block(&folder, None).await?;
            Ok(None)
        }
        AdRules::Plain(bytes) | AdRules::BuiltIn(bytes) => {
            let source = folder.join(SOURCE);
            tokio::fs::write(&source, bytes).await?;
            let compiled = shell.block(&folder, Some(&source)).await;
            tokio::fs::remove_file(&source).await?;
            compiled?;
            Ok(Some(plain_file::read_async(folder.join(COMPILED), LONGEST).await?.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_compiled_is_read_before_a_page_can_replace_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("ads").join(COMPILED);
        let (commands, mut asked) = Commands::to_nobody();
        let compiles = file.clone();
        tokio::spawn(async move {
            while let Some((_, answer)) = asked.recv().await {
                std::fs::write(&compiles, "compiled").unwrap();
                let _ = answer.send(Ok(String::new()));
            }
        });
        let kept = block(&commands, home.path(), AdRules::Plain("[]".into())).await.unwrap();
        std::fs::write(&file, "a page's own").unwrap();
        assert_eq!(kept.as_deref(), Some(b"compiled".as_slice()));
        let given = block(&commands, home.path(), AdRules::Compiled("compiled".into())).await.unwrap();
        assert_eq!(given, None, "those of others are nobody's news");
    }
}
