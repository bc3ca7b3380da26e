//! Which network addresses belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address can belong to a public host: none of this machine, of a private network, of a link or of a cloud's
/// metadata service, and none that carries such an address inside.
pub(crate) fn is_public(address: IpAddr) -> bool {
    special_kind(address).is_none()
}

/// What an address that no public host can have is, in words that follow it.
pub(crate) fn special_kind(address: IpAddr) -> Option<&'static str> {
    let (loopback, link_local, public) = match address {
        IpAddr::V4(address) => (address.is_loopback(), address.is_link_local(), is_public_v4(address)),
        IpAddr::V6(address) => match carried_v4(address) {
            Some(inside) => return special_kind(inside.into()),
            None => (address.is_loopback(), address.is_unicast_link_local(), is_public_v6(address)),
        },
    };
    match (public, loopback, link_local) {
        (true, ..) => None,
        (_, true, _) => Some("is a loopback address"),
        (_, _, true) => Some("is a link-local address, where clouds have their metadata"),
        _ => Some("is a private or reserved address"),
    }
}

/// The special ranges of RFC 6890 and its successors.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 224;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Global unicast is 2000::/3; within it, the ranges for documentation and for other protocols.
    let documentation = (a == 0x2001 && b == 0xdb8) || (a == 0x3fff && b < 0x1000);
    let protocols = a == 0x2001 && b < 0x200;
    (a & 0xe000) == 0x2000 && !documentation && !protocols
}

/// The IPv4 address that a v4-mapped, v4-compatible, NAT64 or 6to4 address stands for.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let part = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(part(high, low)),
        [0x64, 0xff9b, .., high, low] => Some(part(high, low)),
        [0x2002, high, low, ..] => Some(part(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for text in [
            "93.184.216.34",
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.0.192",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "4000::1",
            "64:ff9b:1::a9fe:a9fe",
            "fec0::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}
