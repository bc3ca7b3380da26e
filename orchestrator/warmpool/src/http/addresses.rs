//! How many connections each client's address has open.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// Counts connections by address. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    /// A seat for one more connection from `address`, unless it has `limit` already; 0 sets no limit.
    pub(super) fn admit(&self, address: IpAddr, limit: usize) -> Option<ConnectionPermit> {
        let address = one_client(address);
        let mut open = self.lock();
        let count = open.entry(address).or_default();
        if limit > 0 && *count >= limit {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { addresses: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock()
    }
}

/// One connection; counted until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.addresses.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
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
        assert!(addresses.lock().is_empty());
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
