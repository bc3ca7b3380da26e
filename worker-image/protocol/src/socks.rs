//! The messages of SOCKS version 5 (RFC 1928), which the browser speaks with the daemon. The agent speaks it, too, and reads
//! along.

use std::net::IpAddr;

/// The first byte of every message.
pub const VERSION: u8 = 5;
/// The method of a client without a password, and the answer to it.
pub const NO_AUTHENTICATION: u8 = 0;
/// The one command that browsers need.
pub const CONNECT: u8 = 1;
/// The code of an answer: the connection stands.
pub const SUCCEEDED: u8 = 0;
/// The code of an answer: it does not, for no reason that has a code.
pub const FAILED: u8 = 1;
/// Bytes of a request or an answer before its address: version, command or code, nothing, and the kind of address.
pub const HEAD: usize = 4;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The host in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address<'a> {
    /// An address.
    Ip(IpAddr),
    /// A name, in whatever bytes the client sent.
    Name(&'a [u8]),
}

/// Writes a request or an answer; none where the name is too long for one.
#[must_use]
pub fn message(code: u8, address: Address<'_>, port: u16) -> Option<Vec<u8>> {
    let mut message = vec![VERSION, code, 0];
    match address {
        Address::Ip(IpAddr::V4(ip)) => {
            message.push(IPV4);
            message.extend(ip.octets());
        }
        Address::Ip(IpAddr::V6(ip)) => {
            message.push(IPV6);
            message.extend(ip.octets());
        }
        Address::Name(name) => {
            message.extend([NAME, u8::try_from(name.len()).ok()?]);
            message.extend_from_slice(name);
        }
    }
    message.extend(port.to_be_bytes());
    Some(message)
}

/// How many bytes address and port have, by the kind of address and its first byte; none where there is no such kind.
#[must_use]
pub fn address_length(kind: u8, first: u8) -> Option<usize> {
    let address = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => 1 + usize::from(first),
        _ => return None,
    };
    Some(address + 2)
}

/// Reads address and port at the head of these bytes; none where they are not whole.
#[must_use]
pub fn address(kind: u8, bytes: &[u8]) -> Option<(Address<'_>, u16)> {
    let (address, port) = bytes.get(..address_length(kind, *bytes.first()?)?)?.split_last_chunk()?;
    let address = match kind {
        IPV4 => Address::Ip(<[u8; 4]>::try_from(address).ok()?.into()),
        IPV6 => Address::Ip(<[u8; 16]>::try_from(address).ok()?.into()),
        _ => Address::Name(&address[1..]),
    };
    Some((address, u16::from_be_bytes(*port)))
}
