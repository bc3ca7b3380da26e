//! The remote inspector's protocol on its socket: a length, a byte of flags, a name, and values in GVariant's form.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Says that the values are little-endian.
const LITTLE_ENDIAN: u8 = 1;
/// Largest message, in bytes.
const MAX_MESSAGE: usize = 256 << 20;

/// A page or something else that can be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Number within its process.
    pub(super) id: u64,
    /// What it is, such as `WebPage`.
    pub(super) kind: String,
    /// Title of the page.
    pub(super) name: String,
    /// Address of the page.
    pub(super) url: String,
}

/// A message of the browser. Each of its processes has a number, its `connection`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// All inspectable targets of a process.
    Targets {
        /// The process.
        connection: u64,
        /// Its targets.
        targets: Vec<Target>,
    },
    /// A message of a target to its inspector.
    Message {
        /// The process.
        connection: u64,
        /// The target.
        target: u64,
        /// JSON.
        message: String,
    },
    /// Something of no interest here.
    Other,
}

fn message(name: &str, values: &[&[u8]]) -> Vec<u8> {
    let length = name.len() + 1 + values.iter().map(|value| value.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(length + 5);
    // Nothing the agent sends comes near the limit of the field: clients' messages are limited before.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    bytes.push(LITTLE_ENDIAN);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    values.iter().for_each(|value| bytes.extend_from_slice(value));
    bytes
}

/// Introduces the agent as a client that inspects. The empty string stands for the protocol's description it has.
pub(super) fn introduction() -> Vec<u8> {
    message("SetupInspectorClient", &[&[0]])
}

/// Begins to inspect a target.
pub(super) fn attach(connection: u64, target: u64) -> Vec<u8> {
    message("Setup", &[&connection.to_le_bytes(), &target.to_le_bytes()])
}

/// Ends inspecting a target.
pub(super) fn detach(connection: u64, target: u64) -> Vec<u8> {
    message("FrontendDidClose", &[&connection.to_le_bytes(), &target.to_le_bytes()])
}

/// Something for a target.
pub(super) fn to_target(connection: u64, target: u64, text: &str) -> Vec<u8> {
    message("SendMessageToBackend", &[&connection.to_le_bytes(), &target.to_le_bytes(), text.as_bytes(), &[0]])
}

/// Reads the next message.
/// Fails when the stream ends or is malformed.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Incoming> {
    let length = stream.read_u32().await? as usize;
    let flags = stream.read_u8().await?;
    if length > MAX_MESSAGE || flags & LITTLE_ENDIAN == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    parse(&body).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(body: &[u8]) -> Option<Incoming> {
    let end = body.iter().position(|&byte| byte == 0)?;
    let (name, values) = (&body[..end], &body[end + 1..]);
    Some(match name {
        b"SetTargetList" => Incoming::Targets { connection: number(values)?, targets: targets(values.get(8..)?)? },
        b"SendMessageToFrontend" => Incoming::Message {
            connection: number(values)?,
            target: number(values.get(8..)?)?,
            message: text(values.get(16..)?)?,
        },
        _ => Incoming::Other,
    })
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn text(bytes: &[u8]) -> Option<String> {
    let (&0, text) = bytes.split_last()? else { return None };
    Some(String::from_utf8_lossy(text).into_owned())
}

/// GVariant's framing offsets at the end of a container are as wide as its size needs.
fn offset_width(container: usize) -> usize {
    match container {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    }
}

/// The framing offset that ends `back` bytes before the end.
fn offset(container: &[u8], index: usize, width: usize) -> Option<usize> {
    let start = container.len().checked_sub(width.checked_mul(index + 1)?)?;
    let mut value = [0; 8];
    value[..width].copy_from_slice(container.get(start..start + width)?);
    usize::try_from(u64::from_le_bytes(value)).ok()
}

/// An array of `(tsssb)`.
fn targets(array: &[u8]) -> Option<Vec<Target>> {
    if array.is_empty() {
        return Some(Vec::new());
    }
    let width = offset_width(array.len());
    let table = offset(array, 0, width)?;
    let count = array.len().checked_sub(table)? / width;
    let mut found = Vec::new();
    let mut start = 0;
    for index in (0..count).rev() {
        let end = offset(array, index, width)?;
        found.push(target(array.get(start..end)?)?);
        start = end.next_multiple_of(8);
    }
    Some(found)
}

/// One `(tsssb)`: the offsets of the ends of its texts are behind it, the first text's last.
fn target(tuple: &[u8]) -> Option<Target> {
    let width = offset_width(tuple.len());
    let (first, second, third) = (offset(tuple, 0, width)?, offset(tuple, 1, width)?, offset(tuple, 2, width)?);
    Some(Target {
        id: number(tuple)?,
        kind: text(tuple.get(8..first)?)?,
        name: text(tuple.get(first..second)?)?,
        url: text(tuple.get(second..third)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As GVariant lays it out.
    fn serialized(targets: &[Target]) -> Vec<u8> {
        let (mut array, mut ends) = (Vec::new(), Vec::new());
        for target in targets {
            array.resize(array.len().next_multiple_of(8), 0);
            let mut tuple = target.id.to_le_bytes().to_vec();
            let mut offsets = Vec::new();
            for text in [&target.kind, &target.name, &target.url] {
                tuple.extend_from_slice(text.as_bytes());
                tuple.push(0);
                offsets.push(tuple.len());
            }
            tuple.push(0);
            array.extend(with_offsets(tuple, offsets.into_iter().rev().collect()));
            ends.push(array.len());
        }
        with_offsets(array, ends)
    }

    fn with_offsets(mut bytes: Vec<u8>, offsets: Vec<usize>) -> Vec<u8> {
        let width = [1, 2, 4].into_iter().find(|w| offset_width(bytes.len() + offsets.len() * w) <= *w).unwrap();
        for offset in offsets {
            bytes.extend_from_slice(&offset.to_le_bytes()[..width]);
        }
        bytes
    }

    #[test]
    fn a_list_of_a_real_browser_is_parsed() {
        let mut body = b"SetTargetList\0".to_vec();
        body.extend_from_slice(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0WebPage\0\0about:blank\0\0\x1d\x11\x10!");
        let page = Target { id: 1, kind: "WebPage".into(), name: String::new(), url: "about:blank".into() };
        assert_eq!(parse(&body), Some(Incoming::Targets { connection: 1, targets: vec![page] }));
        let empty = parse(b"SetTargetList\0\x02\0\0\0\0\0\0\0");
        assert_eq!(empty, Some(Incoming::Targets { connection: 2, targets: vec![] }));
    }

    #[test]
    fn lists_of_every_size_round_trip() {
        for (count, length) in [(1, 10), (2, 100), (3, 300), (40, 90), (2, 70_000), (900, 100)] {
            let list: Vec<_> = (0..count)
                .map(|id| Target {
                    id,
                    kind: "WebPage".into(),
                    name: "é".repeat(usize::try_from(id).unwrap() % 5),
                    url: "u".repeat(length),
                })
                .collect();
            assert_eq!(targets(&serialized(&list)), Some(list), "{count} of {length}");
        }
    }

    #[test]
    fn malformed_messages_do_not_panic() {
        let list = [Target { id: 7, kind: "WebPage".into(), name: "n".into(), url: "u".into() }];
        let good = serialized(&list);
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = targets(&bad);
            }
            let _ = targets(&good[..at]);
        }
    }

    #[tokio::test]
    async fn messages_round_trip() {
        let mut written = message("SendMessageToFrontend", &[&3u64.to_le_bytes(), &4u64.to_le_bytes(), b"{}\0"]);
        written.extend(introduction());
        let mut stream = written.as_slice();
        let said = Incoming::Message { connection: 3, target: 4, message: "{}".into() };
        assert_eq!(read(&mut stream).await.unwrap(), said);
        assert_eq!(read(&mut stream).await.unwrap(), Incoming::Other);
        assert!(read(&mut stream).await.is_err());
    }
}
