//! Decides which endpoints may be called. URLs are untrusted: without this guard, authors of event
//! subscriptions could reach the Lambda Runtime API on loopback, or hosts of a private network.
//!
//! URLs are checked on creation and at every attempt, resolved addresses when they are dialled.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use http::Uri;
use ipnet::IpNet;
use url::{Host, Url};

pub mod arn;
pub mod identities;
pub mod secrets;

use crate::endpoint::{arn::AllowedResources, identities::Identities, secrets::ClientSecrets};

/// The endpoints that a deployment allows: by default the public internet over https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    pub networks: AllowedNetworks,
    pub ports: AllowedPorts,
    pub resources: AllowedResources,
    pub secrets: ClientSecrets,
    pub identities: Identities,
}

/// Networks allowed besides the public internet; only they may be called by plain `http`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<IpNet>);

impl FromStr for AllowedNetworks {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let blocks = text.split(',').map(str::trim).filter(|block| !block.is_empty());
        blocks.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl AllowedNetworks {
    /// Returns whether a named network has this address; a mapped one counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns whether an address may be called: of a named network or, with `public`, public.
    pub fn permits(&self, address: IpAddr, public: bool) -> bool {
        self.contains(address) || (public && is_public(address))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Ports that endpoints may have.
///
/// The default is 80, 443 and all from 1024. The others below 1024 belong to other protocols (mail,
/// name service, remote shells), which must not be contacted in the deployment's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedPorts(Vec<(u16, u16)>);

impl Default for AllowedPorts {
    fn default() -> Self {
        Self(vec![(80, 80), (443, 443), (1024, u16::MAX)])
    }
}

/// A list of ports that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither a port (1 to 65535) nor a range such as 1024-65535")]
pub struct PortsError(String);

impl FromStr for AllowedPorts {
    type Err = PortsError;

    /// Reads comma-separated ports and ranges; an empty text means the default.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let ranges = parts.map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let port = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
            match (port(first), port(last)) {
                (Some(first), Some(last)) if first <= last => Ok((first, last)),
                _ => Err(PortsError(part.to_owned())),
            }
        });
        let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
        Ok(if ranges.is_empty() { Self::default() } else { Self(ranges) })
    }
}

impl fmt::Display for AllowedPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl AllowedPorts {
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

/// The reason why a URL or an address is not called. Never repeats the URL: its query may carry a
/// key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Parsers drop or repair such characters, each in its own way.
    #[error("must be a URL without spaces, control characters and '\\'")]
    Character,
    #[error("must be an absolute URL such as https://example.com/hook{0}")]
    NotAbsolute(String),
    #[error(
        "the scheme '{0}' is not allowed; use https (http only \
         to networks that the deployment setting endpoint_allowed_networks names)"
    )]
    Scheme(String),
    #[error(
        "the port {port} is not among those that the deployment \
         setting endpoint_allowed_ports names: {allowed}"
    )]
    Port { port: u16, allowed: AllowedPorts },
    #[error("the URL carries a user name or password; send credentials by header or query")]
    UserInfo,
    #[error("the URL has a fragment, which would never be sent; leave out '#' and what follows")]
    Fragment,
    /// Certificates can't have such a name.
    #[error(
        "its host name must be at most 253 characters in labels of 1 to 63 letters, digits, '-' \
         and '_', without '-' at their ends"
    )]
    HostName,
    #[error(
        "the address {0} is not public and the deployment \
         setting endpoint_allowed_networks does not name its network"
    )]
    Address(IpAddr),
    #[error("the host name '{0}' means this machine")]
    LocalName(String),
}

/// Parses an endpoint's URL as requests carry it. Names are checked again when they are resolved.
pub fn check_url(text: &str, allowed: &Allowed) -> Result<Uri, Refusal> {
    // The URL parser would drop or repair these characters, but the owner meant something else.
    if text.chars().any(|char| char.is_whitespace() || char.is_control() || char == '\\') {
        return Err(Refusal::Character);
    }
    let url = match text.parse::<Url>() {
        Ok(url) if has_authority(text, url.scheme()) => url,
        Ok(_) => {
            let rest = ", with '//' and a host behind the scheme";
            return Err(Refusal::NotAbsolute(rest.to_owned()));
        }
        Err(error) => return Err(Refusal::NotAbsolute(format!(": {error}"))),
    };
    if url.port() == Some(0) {
        return Err(Refusal::NotAbsolute(": the port must be 1 to 65535".to_owned()));
    }
    if has_user_info(text) {
        return Err(Refusal::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(Refusal::Fragment);
    }
    let literal = literal(&url, &allowed.networks)?;
    match url.scheme() {
        "https" => {}
        "http" if literal.is_some_and(|address| allowed.networks.contains(address)) => {}
        // The name may resolve into an allowed network; the connector checks that.
        "http" if literal.is_none() && !allowed.networks.is_empty() => {}
        scheme => return Err(Refusal::Scheme(scheme.to_owned())),
    }
    let port = url.port_or_known_default().unwrap_or(0);
    if !allowed.ports.contains(port) {
        return Err(Refusal::Port { port, allowed: allowed.ports.clone() });
    }
    // Find out now, not at the first attempt, whether a request can carry it.
    url.as_str().parse().map_err(|error| Refusal::NotAbsolute(format!(": {error}")))
}

fn literal(url: &Url, networks: &AllowedNetworks) -> Result<Option<IpAddr>, Refusal> {
    let address = match url.host() {
        None => return Err(Refusal::NotAbsolute(String::new())),
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(name)) if is_local_name(name) => {
            let this_machine = IpAddr::V4(Ipv4Addr::LOCALHOST);
            if !networks.contains(this_machine) {
                return Err(Refusal::LocalName(name.to_owned()));
            }
            this_machine
        }
        Some(Host::Domain(name)) => {
            let bare = name.strip_suffix('.').unwrap_or(name);
            return match bare.len() <= 253 && bare.split('.').all(is_label) {
                true => Ok(None),
                false => Err(Refusal::HostName),
            };
        }
    };
    networks.permits(address, true).then_some(Some(address)).ok_or(Refusal::Address(address))
}

/// Returns whether names and certificates can have this label. Lengths: RFC 1035, section 2.3.4.
fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=63).contains(&label.len())
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns whether the host follows `://`; the parser also takes `https:host` and `https:////host`.
fn has_authority(given: &str, scheme: &str) -> bool {
    let rest = given.get(scheme.len()..).and_then(|rest| rest.strip_prefix("://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// Returns whether a user precedes the host. The parsed URL no longer shows an empty one.
fn has_user_info(given: &str) -> bool {
    let rest = given.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether an address belongs to the public internet.
///
/// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries. An IPv6 address that carries
/// an IPv4 address is public only if that is: gateways unpack it. A network's own translation
/// prefix (RFC 6052, section 2.2) and 6rd can't be told from any other prefix.
fn is_public(address: IpAddr) -> bool {
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

#[cfg(test)]
mod tests;
