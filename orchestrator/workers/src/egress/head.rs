//! The head of an HTTP message, read so that not one byte behind it is taken: that belongs to somebody else.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What ends a head.
pub(super) const END: &[u8] = b"\r\n\r\n";

/// Reads a head of at most `most` bytes, for as long as `may_be_http` says that it may be one. Returns what came, which is
/// whole where it ends with [`END`].
pub(super) async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    most: usize,
    may_be_http: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(1024);
    while head.len() < most && !head.ends_with(END) && may_be_http(&head) {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}
