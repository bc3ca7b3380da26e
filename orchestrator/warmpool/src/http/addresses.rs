//! How many connections each client's address has open.

use std::net::{IpAddr, Ipv6Addr};

use warmpool_core::tally::{Share, Taken, Tally};

/// Counts connections by address.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    open: Tally<IpAddr>,
}

/// One connection; counted until it is dropped.
pub(super) type ConnectionPermit = Share<IpAddr>;

impl Addresses {
    /// A seat for one more connection from `address`, unless it has `limit` already; 0 sets no limit.
    pub(super) fn admit(&self, address: IpAddr, limit: usize) -> Option<ConnectionPermit> {
        let one_more = |open: Taken| if limit > 0 && open.own >= limit as u64 { Err(()) } else { Ok(1) };
        self.open.take(one_client(address), one_more).ok()
    }
}

/// What one client can choose its addresses from: of IPv6 that is a network of 64 bits.
pub(super) fn one_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count() {
        let addresses = Addresses::default();
        let (a, b) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let seats = [addresses.admit(a, 2).unwrap(), addresses.admit(a, 2).unwrap()];
        assert!(addresses.admit(a, 2).is_none());
        assert!(addresses.admit("::ffff:192.0.2.1".parse().unwrap(), 2).is_none());
        let other = addresses.admit(b, 2).unwrap();
        drop(seats);
        drop((addresses.admit(a, 2).unwrap(), other));
        assert_eq!(addresses.open.all(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let addresses = Addresses::default();
        let _seat = addresses.admit("2001:db8:0:1::1".parse().unwrap(), 1).unwrap();
        assert!(addresses.admit("2001:db8:0:1:ffff::2".parse().unwrap(), 1).is_none());
        assert!(addresses.admit("2001:db8:0:2::1".parse().unwrap(), 1).is_some());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let addresses = Addresses::default();
        let address = "127.0.0.1".parse().unwrap();
        let seats: Vec<ConnectionPermit> = (0..1000).filter_map(|_| addresses.admit(address, 0)).collect();
        assert_eq!(seats.len(), 1000);
    }
}
