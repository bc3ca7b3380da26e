//! Folders beside the database whose files belong to its rows: into a backup, and back.
//!
//! Rows are dumped first, files after them. A file is written before the row that names it and removed before that row
//! is, so a backup has every file that its rows name, unless it was forgotten in between, which a row can tell.

use std::fmt;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::layout::{STAGING, create_private_dir, sync_parent};
use warmpool_core::clock::unix_ms;

/// A folder of the data directory with files at `<folder>/<owner>/<name>`.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// Its name in the data directory.
    pub name: &'static str,
    /// Whether a file of this name belongs to it. Others, such as one that is half written, are left out.
    pub has: fn(&str) -> bool,
}

/// Where a file lies, below the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataPath {
    pub(super) folder: String,
    owner: String,
    name: String,
}

impl DataPath {
    fn new(folder: &str, owner: &str, name: &str) -> Option<Self> {
        let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\0']);
        let place = || Self { folder: folder.to_owned(), owner: owner.to_owned(), name: name.to_owned() };
        (plain(folder) && plain(owner) && plain(name)).then(place)
    }

    /// Reads what `Display` wrote; nothing that leads elsewhere is a place.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (folder, rest) = text.split_once('/')?;
        let (owner, name) = rest.split_once('/')?;
        Self::new(folder, owner, name)
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.folder, self.owner, self.name)
    }
}

/// The entries of a directory; none when there is no such directory.
fn entries(path: &Path) -> Result<Vec<DirEntry>, StoreError> {
    match fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<Vec<DirEntry>>>()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        outcome => outcome.map_err(StoreError::io("read", path)),
    }
}

/// Passes on each file of a folder of `data` with its size: one that is still written to counts up to here.
pub(super) fn each_file(
    data: &Path,
    folder: &Folder,
    each: &mut dyn FnMut(&DataPath, File, u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for owner in entries(&data.join(folder.name))? {
        for entry in entries(&owner.path())? {
            let (owner, name) = (owner.file_name(), entry.file_name());
            let (Some(owner), Some(name)) = (owner.to_str(), name.to_str()) else { continue };
            let Some(place) = DataPath::new(folder.name, owner, name).filter(|_| (folder.has)(name)) else { continue };
            let path = entry.path();
            let opened = match entry.file_type() {
                Ok(kind) if kind.is_file() => File::open(&path),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            let file = match opened {
                // Forgotten meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(StoreError::io("open", &path))?,
            };
            let bytes = file.metadata().map_err(StoreError::io("inspect", &path))?.len();
            each(&place, file, bytes)?;
        }
    }
    Ok(())
}

/// Files of a dump on their way into a data directory. Dropped before [`Staging::leave`], it leaves nothing.
pub(super) struct Staging<'a> {
    data: &'a Path,
    folders: &'a [Folder],
    root: PathBuf,
    /// The folders that the dump holds.
    held: Vec<Folder>,
    /// Whether the files stay when this is dropped.
    is_whole: bool,
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

impl<'a> Staging<'a> {
    pub(super) fn new(data: &'a Path, folders: &'a [Folder]) -> Result<Self, StoreError> {
        let root = data.join(STAGING);
        match fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &root)(error)),
            _ => Ok(Self { data, folders, root, held: Vec::new(), is_whole: false }),
        }
    }

    /// Makes the folders that the dump holds; one without files is empty afterwards, too.
    pub(super) fn begin(&mut self, names: &[String]) -> Result<(), StoreError> {
        for name in names {
            let folder = self.folders.iter().find(|folder| folder.name == name);
            let folder = folder.ok_or_else(|| self.unknown_files(name))?;
            create_private_dir(&self.root.join(folder.name))?;
            self.held.push(*folder);
        }
        Ok(())
    }

    pub(super) fn add(&self, place: &DataPath, content: &mut dyn Read) -> Result<(), StoreError> {
        let folder = self.held.iter().find(|folder| folder.name == place.folder && (folder.has)(&place.name));
        let folder = folder.ok_or_else(|| self.unknown_files(&place.to_string()))?;
        let owner = self.root.join(folder.name).join(&place.owner);
        create_private_dir(&owner)?;
        let path = owner.join(&place.name);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        written.and_then(|mut file| io::copy(content, &mut file)).map_err(StoreError::io("write", &path))?;
        Ok(())
    }

    /// The names of the folders that the dump holds.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.held.iter().map(|folder| folder.name).collect()
    }

    /// Makes all files durable, and leaves them to [`put_in_place`].
    pub(super) fn leave(mut self) -> Result<(), StoreError> {
        if !self.held.is_empty() {
            // All files at once: there may be hundreds of thousands.
            let synced = File::open(&self.root).and_then(|root| Ok(nix::unistd::syncfs(root)?));
            synced.map_err(StoreError::io("sync", &self.root))?;
        }
        self.is_whole = true;
        Ok(())
    }

    fn unknown_files(&self, what: &str) -> StoreError {
        let source = io::Error::new(io::ErrorKind::Unsupported, "this release knows no such files");
        StoreError::during(format!("restore {what} into {}", self.data.display()))(source)
    }
}

/// Puts the folders of a dump, as far as that is not done, where they belong in the data directory. What was there is kept beside them as
/// `<folder>.replaced-<unix ms>`.
pub(super) fn put_in_place(data: &Path) -> Result<(), StoreError> {
    let staged = data.join(STAGING);
    for folder in entries(&staged)? {
        let (name, new) = (folder.file_name(), folder.path());
        let path = data.join(&name);
        if path.exists() {
            let replaced = data.join(format!("{}.replaced-{}", name.display(), unix_ms()));
            fs::rename(&path, replaced).map_err(StoreError::io("rename", &path))?;
        }
        fs::rename(&new, &path).map_err(StoreError::io("rename", &new))?;
    }
    sync_parent(&staged)?;
    match fs::remove_dir(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &staged)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_leads_elsewhere() {
        assert_eq!(DataPath::parse("tasks/tsk_1/ab").map(|place| place.to_string()).as_deref(), Some("tasks/tsk_1/ab"));
        for text in ["", "tasks", "tasks/x", "tasks//x", "/x/y", "../x/y", "tasks/../y", "tasks/x/..", "tasks/x/y/z"] {
            assert_eq!(DataPath::parse(text), None, "{text}");
        }
    }
}
