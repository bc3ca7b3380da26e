//! Which network addresses belong to the public internet, the one form of a host that every rule and look-up sees, and names
//! as parts of a URL's path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use url::Host;

/// The longest name that a name server can know, and the longest part of one, in bytes.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Reads a host as the URL standard does: `0x7f.1` and `2130706433` are addresses, and names have small letters. The dot at a
/// name's end is no part of it. Returns none for what no host can be called: a rule would not know it again, while
/// somebody further on might take `denied.example..` for `denied.example`.
pub fn host(text: &str) -> Option<Host> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Some(Host::Ipv6(address));
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            is_name(name).then(|| Host::Domain(name.to_owned()))
        }
        address => Some(address),
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.split('.').all(|label| (1..=MAX_LABEL).contains(&label.len()) && !label.contains('*'))
}

/// Whether a name, in small letters, stands for this machine in every browser.
pub fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// The host as an address, unless it is a name.
pub const fn host_ip(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(_) => None,
    }
}

/// Whether an address can belong to a public host: none of this machine, of a private network, of a link or of a cloud's
/// metadata service, and none that carries such an address inside.
pub fn is_public(address: IpAddr) -> bool {
    special_kind(address).is_none()
}

/// What an address that no public host can have is, in words that follow it.
pub fn special_kind(address: IpAddr) -> Option<&'static str> {
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

/// The IPv4 address that a v4-mapped, v4-compatible, NAT64 or 6to4 address stands for. Of NAT64 only the well-known prefix,
/// 64:ff9b::/96, says where it carries the address. 64:ff9b:1::/48 is for local use (RFC 8215): what an address of it
/// stands for only its own network knows, and no such address is public.
pub fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let part = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(part(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(part(high, low)),
        [0x2002, high, low, ..] => Some(part(high, low)),
        _ => None,
    }
}

/// A name as one segment of a URL's path, whatever signs it has.
pub fn path_segment(name: &str) -> PercentEncode<'_> {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            "64:ff9b:1::808:808",
            "64:ff9b::1:0:808:808",
            "fec0::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn every_notation_of_a_host_is_one() {
        for text in ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "%3127.0.0.1"] {
            assert_eq!(host(text), Some(Host::Ipv4(Ipv4Addr::LOCALHOST)), "{text}");
        }
        for text in ["[::1]", "::1", "[0:0::1]"] {
            assert_eq!(host(text), Some(Host::Ipv6(Ipv6Addr::LOCALHOST)), "{text}");
        }
        let name = |text: &str| host(text).map(|host| host.to_string());
        for text in ["denied.example", "denied.example.", "DENIED.Example", "denied%2Eexample", "denied\u{3002}example"]
        {
            assert_eq!(name(text).as_deref(), Some("denied.example"), "{text}");
        }
        assert_eq!(name("B\u{fc}cher.example").as_deref(), Some("xn--bcher-kva.example"));
        for text in ["", ".", "..", "a b", "*", "[", "[::1", "a:80"] {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(path_segment("a b/../c.txt").to_string(), "a%20b%2F..%2Fc.txt");
        assert_eq!(path_segment("é").to_string(), "%C3%A9");
    }

    proptest! {
        /// However a name is written, it is the name that rules have, or none at all.
        #[test]
        fn a_name_has_no_empty_label(text in "(\\.|a|b|X|%2E|%2e|\u{3002}|\u{ff0e}|\u{df}|1|-){1,12}") {
            if let Some(Host::Domain(name)) = host(&text) {
                prop_assert!(name.split('.').all(|label| !label.is_empty()), "{} became {}", text, name);
                prop_assert_eq!(host(&name), Some(Host::Domain(name.clone())), "{} is not its own form", name);
                prop_assert_eq!(host(&format!("{name}.")), Some(Host::Domain(name.clone())));
                prop_assert_eq!(host(&format!("{name}..")), None);
            }
        }

        #[test]
        fn an_address_that_carries_another_is_what_that_one_is(address: u32) {
            let inside = Ipv4Addr::from(address);
            let [a, b, c, d] = inside.octets();
            for form in [
                inside.to_ipv6_mapped().to_string(),
                format!("64:ff9b::{a:02x}{b:02x}:{c:02x}{d:02x}"),
                format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
            ] {
                let carrying: Ipv6Addr = form.parse().unwrap();
                prop_assert_eq!(carried_v4(carrying), Some(inside), "{}", form);
                prop_assert_eq!(is_public(carrying.into()), is_public(inside.into()), "{}", form);
            }
        }

        #[test]
        fn beside_its_prefix_nothing_is_a_translated_address(middle in 1_u64.., address: u32) {
            let [a, b, c, d] = [48, 32, 16, 0].map(|shift| u16::try_from(middle >> shift & 0xffff).unwrap());
            let (high, low) = (u16::try_from(address >> 16).unwrap(), u16::try_from(address & 0xffff).unwrap());
            let beside = Ipv6Addr::new(0x64, 0xff9b, a, b, c, d, high, low);
            prop_assert_eq!(carried_v4(beside), None);
            prop_assert!(!is_public(beside.into()), "{}", beside);
        }
    }
}
