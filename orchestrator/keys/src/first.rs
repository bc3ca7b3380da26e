//! The key that the first start makes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::service::new_key;
use crate::{KeyError, KeyRole, Keys, ServiceKey};

const NAME: &str = "default";
/// Where it is written, below the data directory.
const FILE: &str = "first-key";

impl Keys {
    /// If there is no key at all, makes one named `default`, writes it to `first-key` in `dir`, readable only
    /// by its owner, and returns the file's path.
    /// Errors: [`KeyError::Store`], [`KeyError::File`].
    pub async fn ensure_first(&self, dir: &Path) -> Result<Option<PathBuf>, KeyError> {
        let change = self.change().await;
        if !self.list().is_empty() {
            return Ok(None);
        }
        // Only the operator can read the file, so the key is an operator's.
        let key = new_key(NAME, ServiceKey { role: KeyRole::Operator, ..ServiceKey::default() })?;
        let path = dir.join(FILE);
        // The file first: a key without its file would be lost, a file without its key is replaced by the
        // next start.
        let text = format!("{}\n", key.secret.expose());
        write_private(&path, &text).map_err(|source| KeyError::File { path: path.clone(), source })?;
        if let Err(error) = change.put(key.record).await {
            let _ = fs::remove_file(&path);
            return Err(error.into());
        }
        Ok(Some(path))
    }
}

/// Writes a file for its owner only: whole or not at all, and durable.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
