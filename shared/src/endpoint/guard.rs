//! Which addresses may be called. Endpoint URLs are untrusted: without this guard, whoever may
//! create an event subscription could reach the Lambda Runtime API on loopback, or hosts of a
//! private network.
//!
//! The URL is checked when a subscription is created and again at every attempt; host names are
//! checked by the addresses they resolve to, and the connection goes to just those addresses.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ipnet::IpNet;
use url::{Host, Url};

/// Networks that a deployment allows besides the public internet. Plain `http` is allowed only to
/// addresses in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<IpNet>);

impl FromStr for AllowedNetworks {
    type Err = ipnet::AddrParseError;

    /// Reads comma-separated CIDR blocks; an empty text allows none.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let blocks = text.split(',').map(str::trim).filter(|block| !block.is_empty());
        blocks.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl AllowedNetworks {
    /// Whether a setting names a network that holds this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether any network is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a URL or an address is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not https.
    #[error(
        "the scheme '{0}' is not allowed; use https (http only to networks that the deployment \
         setting endpoint_allowed_networks names)"
    )]
    Scheme(String),
    /// No host.
    #[error("the URL has no host")]
    NoHost,
    /// User name or password in the URL.
    #[error("the URL carries a user name or password; send credentials by header or query")]
    UserInfo,
    /// A fragment, which is never sent.
    #[error("the URL has a fragment, which would never be sent; leave out '#' and what follows")]
    Fragment,
    /// An address of a private, local or reserved network.
    #[error(
        "the address {0} is not public and the deployment setting endpoint_allowed_networks does \
         not name its network"
    )]
    Address(IpAddr),
    /// A host name of the local machine.
    #[error("the host name '{0}' means this machine")]
    LocalName(String),
}

/// Checks what a URL alone shows. Host names are checked again by [`check_address`] when they are
/// resolved.
///
/// # Errors
///
/// [`Refusal`] says what is not allowed.
pub fn check_url(url: &Url, allowed: &AllowedNetworks) -> Result<(), Refusal> {
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(Refusal::Fragment);
    }
    let literal = match url.host() {
        None => return Err(Refusal::NoHost),
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(name)) if is_local_name(name) => {
            if allowed.contains(IpAddr::V4(Ipv4Addr::LOCALHOST)) {
                Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
            } else {
                return Err(Refusal::LocalName(name.to_owned()));
            }
        }
        Some(Host::Domain(_)) => None,
    };
    if let Some(address) = literal {
        check_address(address, allowed)?;
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if literal.is_some_and(|address| allowed.contains(address)) => Ok(()),
        // A name may resolve into an allowed network; the resolver then checks that it does.
        "http" if literal.is_none() && !allowed.is_empty() => Ok(()),
        scheme => Err(Refusal::Scheme(scheme.to_owned())),
    }
}

/// Checks an address that is about to be connected to.
///
/// # Errors
///
/// [`Refusal::Address`] when it is not public and no setting allows it.
pub fn check_address(address: IpAddr, allowed: &AllowedNetworks) -> Result<(), Refusal> {
    if is_public(address) || allowed.contains(address) {
        Ok(())
    } else {
        Err(Refusal::Address(address))
    }
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address belongs to the public internet.
///
/// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries. Forms of IPv6 that carry an IPv4
/// address are judged by that address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            embedded_v4(address).map_or_else(|| is_public_v6(address), is_public_v4)
        }
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

/// The IPv4 address inside a mapped, compatible, translated (NAT64) or 6to4 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    // Global unicast is 2000::/3 alone; inside it some blocks are special.
    (s[0] & 0xe000) == 0x2000
        && !matches!(s, [0x2001, 0..=0x01ff, ..])  // protocol assignments, Teredo, ORCHID
        && !matches!(s, [0x2001, 0x0db8, ..])      // documentation
        && !matches!(s, [0x3fff, 0..=0x0fff, ..]) // documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_allowed_or_refused() {
        let table: [(&str, bool, bool); 26] = [
            // (URL, allowed on AWS, allowed where 127.0.0.0/8 is named)
            ("https://example.com/hook?code=1", true, true),
            ("https://93.184.215.14/", true, true),
            ("https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", true, true),
            ("http://example.com/", false, true),
            ("http://93.184.215.14/", false, false),
            ("http://127.0.0.1:9000/hook", false, true),
            ("https://127.0.0.1:9000/hook", false, true),
            ("http://localhost:9000/", false, true),
            ("https://localhost./", false, true),
            ("https://a.localhost/", false, true),
            ("https://2130706433/", false, true),
            ("https://0x7f.1/", false, true),
            ("https://10.0.0.1/", false, false),
            ("https://169.254.169.254/latest/meta-data", false, false),
            ("https://100.64.0.1/", false, false),
            ("https://192.168.1.1/", false, false),
            ("https://[::1]/", false, false),
            ("https://[::ffff:10.0.0.1]/", false, false),
            ("https://[64:ff9b::a00:1]/", false, false),
            ("https://[2002:a00:1::]/", false, false),
            ("https://[fe80::1]/", false, false),
            ("https://[fc00::1]/", false, false),
            ("https://user:pw@example.com/", false, false),
            ("https://example.com/#top", false, false),
            ("ftp://example.com/", false, false),
            ("mailto:a@example.com", false, false),
        ];
        let local: AllowedNetworks = "127.0.0.0/8".parse().expect("a network");
        for (text, on_aws, where_named) in table {
            let url: Url = text.parse().expect("a URL");
            assert_eq!(check_url(&url, &AllowedNetworks::default()).is_ok(), on_aws, "{text}");
            assert_eq!(check_url(&url, &local).is_ok(), where_named, "{text} with loopback named");
        }
    }

    #[test]
    fn networks_are_read_from_text() {
        let networks: AllowedNetworks = " 10.0.0.0/8, fd00::/8 ".parse().expect("two networks");
        assert!(networks.contains("10.1.2.3".parse().expect("an address")));
        assert!(networks.contains("fd00::1".parse().expect("an address")));
        assert!("10.0.0.0/33".parse::<AllowedNetworks>().is_err());
    }
}
