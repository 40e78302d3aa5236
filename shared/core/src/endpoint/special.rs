//! Decides which addresses belong to the public internet.
//!
//! Source: IANA IPv4 and IPv6 Special-Purpose Address Registries. An IPv6 address that carries
//! an IPv4 address is public only if that is: gateways unpack it. A network's own translation
//! prefix (RFC 6052, section 2.2) and 6rd can't be told from any other prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match translated_v4(address) {
            // The packets go to the IPv4 address: only that counts.
            Some(inner) => is_public_v4(inner),
            // The packets cross an IPv6 network first: every address counts.
            None => {
                let mut inner = tunnelled_v4(address).into_iter().flatten();
                is_public_v6(address) && inner.all(is_public_v4)
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)          // this network, private, loopback
            | (100, 64..=127, _)      // carrier-grade NAT
            | (169, 254, _)           // link-local
            | (172, 16..=31, _)       // private
            | (192, 0, 0 | 2)         // protocol assignments, documentation
            | (192, 88, 99)           // 6to4 relays
            | (192, 168, _)           // private
            | (198, 18..=19, _)       // benchmarks
            | (198, 51, 100)          // documentation
            | (203, 0, 113)           // documentation
            | (224..=255, _, _) // multicast, reserved, broadcast
    );
    !special
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
}

/// Returns the IPv4 address that an IPv6 address stands for.
fn translated_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // Unspecified and loopback look like compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Compatible (RFC 4291, 2.5.5.1) and mapped (2.5.5.2).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(v4(high, low)),
        // Translated (RFC 2765, 2.1).
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        // NAT64 (RFC 6052, 2.1). Its local-use prefix 64:ff9b:1::/48 (RFC 8215) is never public.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

/// Returns the IPv4 addresses that traffic may be tunnelled to: by 6to4, by ISATAP.
fn tunnelled_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let segments = address.segments();
    let by_network = match segments {
        // 6to4 (RFC 3056, 2).
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    };
    let by_interface = match segments {
        // ISATAP (RFC 5214, 6.1), of a universal or local interface.
        [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    };
    [by_network, by_interface]
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    // Global unicast is 2000::/3 alone; inside it some blocks are special.
    (s[0] & 0xe000) == 0x2000
        && !matches!(s, [0x2001, 0..=0x01ff, ..])  // protocol assignments, Teredo, ORCHID
        && !matches!(s, [0x2001, 0x0db8, ..])      // documentation
        && !matches!(s, [0x3fff, 0..=0x0fff, ..]) // documentation
}
