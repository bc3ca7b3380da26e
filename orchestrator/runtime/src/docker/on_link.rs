//! Whether an address is on a network of this host, so that what is sent there goes to nobody else.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

/// The kernel's main table of routes: proc(5), "/proc/net/route".
const ROUTES: &str = "/proc/net/route";
/// Flags of a route: it goes through a gateway, and what it leads to is refused.
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

/// Whether this host reaches an address without a gateway.
/// Errors: when the kernel's routes cannot be read.
pub(super) fn is_on_link(address: Ipv4Addr) -> io::Result<bool> {
    Ok(is_on_link_by(&fs::read_to_string(ROUTES)?, address))
}

fn is_on_link_by(routes: &str, address: Ipv4Addr) -> bool {
    let matching = routes.lines().skip(1).filter_map(Route::read).filter(|route| route.leads_to(address));
    let longest = matching.max_by_key(|route| route.mask.count_ones());
    // A default route leads to everybody, also where it is a tunnel's and has no gateway.
    longest.is_some_and(|route| route.mask != 0 && route.flags & (GATEWAY | REJECT) == 0)
}

/// A route; addresses are in the order of the network's bytes.
struct Route {
    destination: u32,
    mask: u32,
    flags: u32,
}

impl Route {
    fn read(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok();
        // Addresses are written as the numbers that their bytes are on this machine.
        Some(Self { destination: number(1)?.to_be(), mask: number(7)?.to_be(), flags: number(3)? })
    }

    fn leads_to(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask == self.destination
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_longest_route_counts() {
        let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
        let routes = format!(
            "{head}eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
             eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
             br-1 000012AC 00000000 0001 0 0 0 0000FFFF 0 0 0\n\
             eth0 000112AC 010200C0 0003 0 0 0 00FFFFFF 0 0 0\n"
        );
        for (address, is_ours) in
            [([192, 0, 2, 7], true), ([172, 18, 0, 2], true), ([172, 18, 1, 2], false), ([10, 89, 0, 30], false)]
        {
            assert_eq!(is_on_link_by(&routes, address.into()), is_ours, "{address:?}");
        }
        assert!(!is_on_link_by(head, [10, 0, 0, 1].into()), "no route leads there");
        let tunnel = format!("{head}ppp0 00000000 00000000 0001 0 0 0 00000000 0 0 0\n");
        assert!(!is_on_link_by(&tunnel, [10, 0, 0, 1].into()), "a default route leads to everybody");
    }

    #[test]
    fn this_hosts_own_routes_are_read() {
        assert!(!is_on_link(Ipv4Addr::new(203, 0, 113, 77)).unwrap());
    }
}
