//! Reads a packed folder, which may be anybody's.

use std::collections::HashSet;
use std::io::{self, Read};

use tar::{Archive, EntryType};

use super::preferences::MAX_PREFERENCES;
use super::{
    FolderEngine, FolderError, FolderManifest, MANIFEST, MAX_FILES, MAX_MANIFEST, MAX_PATH, PREFERENCES,
    kept_preferences,
};

/// Firefox's list of service workers.
pub(super) const SERVICE_WORKERS: &str = "serviceworker.txt";
/// Its longest text, in bytes.
const MAX_SERVICE_WORKERS: u64 = 1 << 20;
/// The most memory that the archive may ask for to be unpacked, as a power of two of bytes.
const WINDOW: u32 = 23;
/// The most bytes of an archive beside its files, for each file.
const OVERHEAD: u64 = 4 << 10;
/// What ends a tar, and fills its last block.
const END: u64 = 64 << 10;

/// Reads a packed folder of at most `limit` bytes of files, and hands out each file by its path with its content. Returns
/// whose it is.
///
/// # Errors
///
/// Those of `take`, and [`FolderError`] where it is not what it should be. What was handed out until then is not to be used.
pub fn read_folder<E: From<FolderError>>(
    wanted: Option<FolderEngine>,
    limit: u64,
    from: impl Read,
    mut take: impl FnMut(&str, &mut dyn Read) -> Result<(), E>,
) -> Result<FolderManifest, E> {
    let mut decoder = zstd::Decoder::new(from).map_err(FolderError::Archive)?;
    decoder.window_log_max(WINDOW).map_err(FolderError::Archive)?;
    let most = limit.saturating_add(OVERHEAD * MAX_FILES as u64);
    let mut plain = decoder.take(most);
    let manifest = entries(wanted, limit, &mut plain, &mut take)?;
    // To the end of what was sent: it may hold nothing more.
    let rest = io::copy(&mut (&mut plain).take(END + 1), &mut io::sink()).map_err(FolderError::Archive)?;
    if rest > END {
        return Err(FolderError::Archive(io::Error::other("more comes after its end")).into());
    }
    Ok(manifest)
}

fn entries<E: From<FolderError>>(
    wanted: Option<FolderEngine>,
    limit: u64,
    plain: &mut impl Read,
    take: &mut impl FnMut(&str, &mut dyn Read) -> Result<(), E>,
) -> Result<FolderManifest, E> {
    let mut archive = Archive::new(plain);
    // Raw: otherwise names of any length would be read into memory.
    let entries = archive.entries().map_err(FolderError::Archive)?.raw(true);
    let (mut manifest, mut long_name, mut left, mut seen) = (None, None, limit, HashSet::new());
    for entry in entries {
        let mut entry = entry.map_err(FolderError::Archive)?;
        let name = match long_name.take() {
            Some(name) => name,
            None => String::from_utf8_lossy(&entry.path_bytes()).into_owned(),
        };
        let (kind, size) = (entry.header().entry_type(), entry.size());
        if kind == EntryType::GNULongName {
            long_name = Some(text(&mut entry, MAX_PATH as u64 + 1).map(|name| name.trim_end_matches('\0').to_owned())?);
            continue;
        }
        if kind != EntryType::Regular {
            return Err(FolderError::NoFile(name).into());
        }
        let Some(FolderManifest { engine, .. }) = manifest else {
            manifest = Some(read_manifest(wanted, &name, &mut entry)?);
            continue;
        };
        if !engine.has(&name) {
            return Err(FolderError::Unlisted(name).into());
        }
        if seen.len() >= MAX_FILES {
            return Err(FolderError::TooMany.into());
        }
        left = left.checked_sub(size).ok_or(FolderError::TooLarge { limit })?;
        if !seen.insert(name.clone()) {
            return Err(FolderError::Twice(name).into());
        }
        if name == PREFERENCES {
            let kept = kept_preferences(text(&mut entry, MAX_PREFERENCES)?.as_bytes()).to_string();
            take(&name, &mut kept.as_bytes())?;
        } else if name == SERVICE_WORKERS {
            let list = text(&mut entry, MAX_SERVICE_WORKERS)?;
            if !are_of_sites(&list) {
                return Err(FolderError::Unlisted(format!("{name}, with a service worker of no site")).into());
            }
            take(&name, &mut list.as_bytes())?;
        } else {
            take(&name, &mut Whole { content: &mut entry, left: size })?;
        }
    }
    manifest.ok_or_else(|| FolderError::Manifest("it is empty".to_owned()).into())
}

fn read_manifest(
    wanted: Option<FolderEngine>,
    name: &str,
    content: &mut impl Read,
) -> Result<FolderManifest, FolderError> {
    if name != MANIFEST {
        return Err(FolderError::Manifest(format!("it is {name:?}")));
    }
    let text = text(content, MAX_MANIFEST)?;
    let manifest: FolderManifest =
        serde_json::from_str(&text).map_err(|error| FolderError::Manifest(error.to_string()))?;
    let is_plain = |c: char| c.is_ascii_graphic();
    if manifest.browser.len() > 100 || !manifest.browser.chars().all(is_plain) {
        return Err(FolderError::Manifest(
            "`browser` must be a name and a version, such as Firefox/140.3.0".to_owned(),
        ));
    }
    match wanted {
        Some(wanted) if wanted != manifest.engine => {
            Err(FolderError::Engine { found: manifest.engine.as_str(), wanted: wanted.as_str() })
        }
        _ => Ok(manifest),
    }
}

/// Whether each address in Firefox's list of service workers is a site's. The list has an entry a line, and only addresses have
/// a colon.
fn are_of_sites(list: &str) -> bool {
    let is_site = |line: &str| line.starts_with("https://") || line.starts_with("http://");
    list.lines().all(|line| !line.contains(':') || is_site(line))
}

fn text(content: &mut impl Read, limit: u64) -> Result<String, FolderError> {
    let mut text = String::new();
    content.take(limit + 1).read_to_string(&mut text).map_err(FolderError::Archive)?;
    if text.len() as u64 > limit { Err(FolderError::TooLarge { limit }) } else { Ok(text) }
}

/// The content of an entry, which fails where the archive ends too early.
struct Whole<'a, R> {
    content: &'a mut R,
    left: u64,
}

impl<R: Read> Read for Whole<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}
