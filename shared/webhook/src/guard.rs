//! Decides which addresses may be connected to. Host names are checked by the addresses they resolve to,
//! and only those are dialled: nothing else creates a [`CheckedAddress`].

use std::net::{IpAddr, SocketAddr};

use gridpost_core::endpoint::{AllowedNetworks, Refusal};

/// An address that may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckedAddress(SocketAddr);

impl CheckedAddress {
    pub fn get(self) -> SocketAddr {
        self.0
    }
}

/// The most addresses of a host name that are tried. More would only cost time.
pub(crate) const ADDRESSES_MAX: usize = 8;

/// Returns the allowed addresses of a host, in order, at most [`ADDRESSES_MAX`]. `public` says whether
/// public ones are allowed: plain `http` goes to named networks only. Fails with [`Refusal::Address`]
/// if there are addresses, but none is allowed.
pub fn check_addresses(
    addresses: &[IpAddr],
    port: u16,
    public: bool,
    networks: &AllowedNetworks,
) -> Result<Vec<CheckedAddress>, Refusal> {
    let may = |address: &&IpAddr| networks.permits(**address, public);
    let checked: Vec<_> = addresses
        .iter()
        .filter(may)
        .take(ADDRESSES_MAX)
        .map(|address| CheckedAddress(SocketAddr::new(*address, port)))
        .collect();
    match addresses.first() {
        Some(refused) if checked.is_empty() => Err(Refusal::Address(*refused)),
        _ => Ok(checked),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_addresses_that_may_be_called_are_checked_ones(
            addresses in prop::collection::vec(any::<IpAddr>(), 0..20),
            public: bool,
        ) {
            let networks: AllowedNetworks = "10.0.0.0/8".parse().expect("a network");
            if let Ok(checked) = check_addresses(&addresses, 443, public, &networks) {
                prop_assert!(checked.len() <= ADDRESSES_MAX);
                for address in checked {
                    let ip = address.get().ip();
                    prop_assert!(networks.permits(ip, public), "{ip}");
                }
            }
        }
    }
}
