//! Encrypted files that are read piece by piece.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc;

use super::{Cipher, OpeningReader};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Chunks on their way between a thread that reads a file and whoever takes them.
const CHUNKS: usize = 4;

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

    /// What was encrypted, from its beginning. A file that is damaged ends with an error.
    pub fn stream(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let sealed = self.clone();
        tokio::task::spawn_blocking(move || {
            let read = sealed.reader().and_then(|mut reader| {
                loop {
                    let mut chunk = vec![0; CHUNK];
                    let count = reader.read(&mut chunk)?;
                    chunk.truncate(count);
                    // Nobody takes it any more.
                    if count == 0 || sender.blocking_send(Ok(Bytes::from(chunk))).is_err() {
                        return Ok(());
                    }
                }
            });
            if let Err(error) = read {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Box::pin(futures_util::stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|chunk| (chunk, receiver))
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
