//! Reads an extension's archive, which may be anybody's.

use std::io::{self, Read, Seek};

use memchr::memmem;
use zip::ZipArchive;

use super::{ExtensionError, ExtensionLimits, LOCALES, MANIFEST, MAX_NAME, MAX_PATH, Manifest, manifest};

/// What begins each entry in a zip's list.
const LISTED: &[u8] = b"PK\x01\x02";
/// The longest manifest or list of texts, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Refuses an archive whose list is longer than it may be, before memory is spent on it.
///
/// # Errors
///
/// [`ExtensionError::TooMany`].
pub fn check_size(archive: &[u8], limits: ExtensionLimits) -> Result<(), ExtensionError> {
    let listed = memmem::find_iter(archive, LISTED).take(limits.files.saturating_add(1)).count();
    if listed > limits.files { Err(ExtensionError::TooMany { limit: limits.files }) } else { Ok(()) }
}

/// What an entry of an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    File,
    Folder,
}

/// An archive whose list has been checked.
pub struct ExtensionArchive<R> {
    archive: ZipArchive<R>,
    /// The files, by their places in the list.
    files: Vec<(usize, String)>,
    limits: ExtensionLimits,
}

impl<R: Read + Seek> ExtensionArchive<R> {
    /// Opens an archive, and checks all that its list says.
    ///
    /// # Errors
    ///
    /// [`ExtensionError`].
    pub fn open(from: R, limits: ExtensionLimits) -> Result<Self, ExtensionError> {
        let mut archive = ZipArchive::new(from)?;
        // The library keeps one of several entries with one name. Another reader might keep another.
        if archive.has_duplicate_names() {
            return Err(ExtensionError::Twice("a file".to_owned()));
        }
        let count = archive.len();
        if count > limits.files {
            return Err(ExtensionError::TooMany { limit: limits.files });
        }
        let (mut entries, mut left) = (Vec::new(), limits.unpacked);
        for index in 0..count {
            // Raw: an entry that cannot be unpacked is to be named as well.
            let entry = archive.by_index_raw(index)?;
            let name = match entry.name() {
                Ok(name) => name.into_owned(),
                Err(_) => return Err(ExtensionError::Path(String::from_utf8_lossy(entry.name_raw()).into_owned())),
            };
            if entry.encrypted() {
                return Err(ExtensionError::Encrypted(name));
            }
            let kind = if name.ends_with('/') { Entry::Folder } else { Entry::File };
            if !is_plain(entry.unix_mode(), kind) {
                return Err(ExtensionError::NoFile(name));
            }
            let path = name.strip_suffix('/').unwrap_or(&name);
            if !is_path(path) {
                return Err(ExtensionError::Path(name));
            }
            if kind == Entry::File {
                // What the list says is a lie at worst; what is read is compared with it.
                left = left.checked_sub(entry.size()).ok_or(ExtensionError::TooLarge { limit: limits.unpacked })?;
            }
            entries.push((index, name, kind));
        }
        check_apart(entries.iter().map(|(_, name, kind)| (name.strip_suffix('/').unwrap_or(name), *kind)).collect())?;
        let files = entries.into_iter().filter(|(_, _, kind)| *kind == Entry::File);
        Ok(Self { archive, files: files.map(|(index, name, _)| (index, name)).collect(), limits })
    }

    /// How many files and folders its list has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.archive.len()
    }

    /// How many files there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Hands out each file by its path with its content, which `take` need not read to its end. Returns the bytes of all files.
    ///
    /// # Errors
    ///
    /// Those of `take`, and [`ExtensionError`] where a file is not what the list says. What was handed out until then is not to be
    /// used.
    pub fn each<E: From<ExtensionError>>(
        &mut self,
        mut take: impl FnMut(&str, &mut dyn Read) -> Result<(), E>,
    ) -> Result<u64, E> {
        let limit = self.limits.unpacked;
        let mut left = limit;
        for (index, path) in &self.files {
            let entry = self.archive.by_index(*index).map_err(ExtensionError::from)?;
            let listed = entry.size();
            let mut content = Counted { from: entry, left, is_over: false, broken: None };
            let taken = take(path, &mut content);
            // To its end, where the checksum is.
            let rest = io::copy(&mut content, &mut io::sink());
            if content.is_over {
                return Err(ExtensionError::TooLarge { limit }.into());
            }
            if let Some(problem) = content.broken {
                return Err(ExtensionError::Archive(format!("{path:?}: {problem}")).into());
            }
            taken?;
            rest.map_err(ExtensionError::from)?;
            if left - content.left != listed {
                return Err(ExtensionError::Archive(format!("{path:?}: its size is not what the list says")).into());
            }
            left = content.left;
        }
        Ok(limit - left)
    }

    /// Reads the manifest, with the extension's name in its default language.
    ///
    /// # Errors
    ///
    /// [`ExtensionError`].
    pub fn manifest(&mut self) -> Result<Manifest, ExtensionError> {
        let Some(text) = self.text(MANIFEST)? else {
            let nested = self.files.iter().any(|(_, path)| path.ends_with(&format!("/{MANIFEST}")));
            let problem = match nested {
                true => "must be at the root of the archive: pack what is in the folder, and not the folder",
                false => "is missing",
            };
            return Err(ExtensionError::Manifest(problem.to_owned()));
        };
        let manifest = Manifest::parse(&text)?;
        let texts = match &manifest.default_locale {
            Some(locale) if is_path(locale) && !locale.contains('/') => {
                self.text(&format!("{LOCALES}/{locale}/messages.json"))?
            }
            _ => None,
        };
        Ok(manifest.named_by(texts.as_deref().and_then(|texts| manifest::read_object(texts).ok()).as_ref()))
    }

    /// A short file's content, where it is there.
    fn text(&mut self, path: &str) -> Result<Option<Vec<u8>>, ExtensionError> {
        let Some((index, _)) = self.files.iter().find(|(_, name)| name == path) else { return Ok(None) };
        let mut text = Vec::new();
        let entry = self.archive.by_index(*index)?;
        entry.take(MAX_TEXT + 1).read_to_end(&mut text).map_err(|error| ExtensionError::from_reading(&error))?;
        if text.len() as u64 > MAX_TEXT {
            return Err(ExtensionError::TooLarge { limit: MAX_TEXT });
        }
        Ok(Some(text))
    }
}

/// Content that may have no more bytes than are left of all.
struct Counted<R> {
    from: R,
    left: u64,
    is_over: bool,
    /// Why it could not be read.
    broken: Option<String>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer);
        let count = read.inspect_err(|error| self.broken = Some(error.to_string()))?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_over = true;
                return Err(io::Error::other("more bytes than are allowed"));
            }
        }
        Ok(count)
    }
}

/// Whether an entry's mode, where it has one, is that of a file or a folder.
fn is_plain(mode: Option<u32>, kind: Entry) -> bool {
    const KIND: u32 = 0o170_000;
    match mode.map_or(0, |mode| mode & KIND) {
        0 => true,
        0o100_000 => kind == Entry::File,
        0o040_000 => kind == Entry::Folder,
        _ => false,
    }
}

/// Whether a path stays below its folder, whatever system reads it.
fn is_path(path: &str) -> bool {
    let is_name = |name: &str| {
        (1..=MAX_NAME).contains(&name.len())
            && !matches!(name, "." | "..")
            && !name.chars().any(|c| c.is_control() || matches!(c, '\\' | ':'))
    };
    path.len() <= MAX_PATH && path.split('/').all(is_name)
}

/// Refuses a path that is both a file and a folder, and one that is a file twice. It copies no path: each may have hundreds of
/// folders above it.
fn check_apart(mut paths: Vec<(&str, Entry)>) -> Result<(), ExtensionError> {
    // By their names, one after another: what is below a path comes right behind it.
    paths.sort_unstable_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
    for pair in paths.windows(2) {
        let [(path, kind), (next, next_kind)] = *pair else { continue };
        let is_folder_twice = kind == Entry::Folder && next_kind == Entry::Folder;
        let collides = match next.strip_prefix(path) {
            Some("") => !is_folder_twice,
            Some(below) => kind == Entry::File && below.starts_with('/'),
            None => false,
        };
        if collides {
            return Err(ExtensionError::Twice(path.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{Strategy, prop, prop_assert_eq, proptest};

    use super::*;

    /// The same, with each folder that a path names noted on its own.
    fn are_apart(paths: &[(String, Entry)]) -> bool {
        let mut seen = HashMap::new();
        paths.iter().all(|(path, kind)| {
            let mut above = path.match_indices('/');
            above.all(|(end, _)| seen.insert(&path[..end], Entry::Folder) != Some(Entry::File))
                && matches!((seen.insert(path, *kind), kind), (None, _) | (Some(Entry::Folder), Entry::Folder))
        })
    }

    fn entry() -> impl Strategy<Value = (String, Entry)> {
        // What sorts before and behind the slash.
        let path = prop::collection::vec("[a!0]{1,2}", 1..4).prop_map(|names| names.join("/"));
        (path, prop::sample::select(vec![Entry::File, Entry::Folder]))
    }

    proptest! {
        #[test]
        fn no_path_is_a_file_and_a_folder(paths in prop::collection::vec(entry(), 0..6)) {
            let checked = check_apart(paths.iter().map(|(path, kind)| (path.as_str(), *kind)).collect());
            prop_assert_eq!(checked.is_ok(), are_apart(&paths), "{:?}", paths);
        }
    }
}
