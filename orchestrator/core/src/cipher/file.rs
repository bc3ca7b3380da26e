//! Encrypted files that are read piece by piece.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::{Cipher, OpeningReader};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A file that [`Cipher::seal_to`] wrote. It stays readable when it is removed from its folder; clones read it independently.
#[derive(Clone)]
pub struct SealedFile {
    file: Arc<File>,
    cipher: Cipher,
}

impl SealedFile {
    /// Opens a file. It may block.
    /// Errors: when it cannot be opened.
    pub fn open(path: &Path, cipher: Cipher) -> io::Result<Self> {
        Ok(Self { file: Arc::new(File::open(path)?), cipher })
    }

    /// What was encrypted, from its beginning. A file that is damaged ends with an error. Whoever takes it slowly, or not at all,
    /// keeps no thread.
    pub fn stream(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        let sealed = self.clone();
        Box::pin(try_unfold(None, move |reader| {
            let sealed = sealed.clone();
            async move {
                let read = tokio::task::spawn_blocking(move || {
                    let mut reader = reader.map_or_else(|| sealed.reader(), Ok)?;
                    let mut chunk = vec![0; CHUNK];
                    let count = reader.read(&mut chunk)?;
                    chunk.truncate(count);
                    io::Result::Ok((chunk, reader))
                });
                let (chunk, reader) = read.await.map_err(io::Error::other)??;
                Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), Some(reader))))
            }
        }))
    }

    fn reader(&self) -> io::Result<OpeningReader<FromStart>> {
        self.cipher.open_from(FromStart { file: Arc::clone(&self.file), at: 0 })
    }
}

/// A file that several readers read, each from its start.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::pin::Pin;
    use std::time::Duration;

    use futures_util::{StreamExt as _, TryStreamExt as _};

    use super::*;

    /// A file with this content, encrypted.
    fn sealed(content: &[u8]) -> SealedFile {
        let cipher = Cipher::new(&[1; 32]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = cipher.seal_to(file.reopen().unwrap()).unwrap();
        writer.write_all(content).unwrap();
        writer.finish().unwrap();
        SealedFile::open(file.path(), cipher).unwrap()
    }

    #[test]
    fn readers_who_take_nothing_keep_no_thread() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let content: Vec<u8> = (0..40 * CHUNK).map(|at| (at % 251) as u8).collect();
        let sealed = sealed(&content);
        let work = async {
            let mut slow: Vec<Pin<Box<_>>> = (0..3).map(|_| Box::pin(sealed.stream())).collect();
            for reader in &mut slow {
                assert!(!reader.next().await.unwrap().unwrap().is_empty());
            }
            let whole: Vec<Bytes> = sealed.stream().try_collect().await.unwrap();
            assert!(whole.concat() == content);
        };
        let in_time = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await });
        // A thread that never ends would keep the runtime from ending.
        runtime.shutdown_background();
        in_time.expect("slow readers held the only thread");
    }
}
