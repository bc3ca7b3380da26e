//! Looks for words that a daemon may show nobody: in its log, its metrics and its files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::Daemon;

impl Daemon {
    /// Checks that neither the log, the metrics, a file's name nor a file's content has one of these words.
    pub async fn keeps_secret(&self, words: &[&str]) -> Result<()> {
        let metrics = self.api().get("/metrics").await?.text();
        let log = self.log_text();
        let files = files_below(self.data_dir())?;
        for word in words {
            ensure!(!metrics.contains(word) && !log.contains(word), "{word} stands in metrics or log");
            for file in &files {
                ensure!(!file.display().to_string().contains(word), "{}", file.display());
                let bytes = match fs::read(file) {
                    // It is gone by now.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    read => read.with_context(|| file.display().to_string())?,
                };
                ensure!(!contains(&bytes, word), "{word} stands in {}", file.display());
            }
        }
        Ok(())
    }
}

/// Whether bytes have a text in them.
#[must_use]
pub fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// All plain files in a folder and its folders; none where it is not there.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}
