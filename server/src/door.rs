//! The listeners of a process: what each offers, and which requests it takes at all.
//!
//! A bearer token or a topic's key is what lets a request in; what is refused here is what a browser or a proxy
//! could be made to send in another's name. On `gridpost dev` there are no tokens: loopback keeps other machines
//! out, and the names of hosts keep out web pages, whose names an attacker may point here. No answer has a CORS
//! header.

use std::net::IpAddr;

use gridpost_core::endpoint::AllowedNetworks;
use hyper::{
    HeaderMap, Uri,
    header::{self, HeaderName},
};

/// The APIs that a listener offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Both APIs, to every user of this machine.
    Both,
    /// Publishes, by topics' keys, and the validation of endpoints.
    Publish,
    /// The manage API, by tokens.
    Manage,
    /// The manage API and its tokens, to users who may open the folder's socket.
    Socket,
}

/// A listener.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) offer: Offer,
    /// A name, besides those of this machine, by which browsers may reach it.
    pub(crate) host: Option<String>,
    /// Proxies, whose word counts for how a request came.
    pub(crate) proxies: AllowedNetworks,
    /// Whether nothing but a proxy may connect: it has no TLS, and others than this machine reach it.
    pub(crate) needs_proxy: bool,
}

/// Set by proxies: how the request came to them.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Set by proxies.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-for"), HeaderName::from_static("forwarded")];

impl Door {
    /// Makes a door that takes what this machine sends.
    pub(crate) fn of(offer: Offer) -> Self {
        Self { offer, host: None, proxies: AllowedNetworks::default(), needs_proxy: false }
    }

    /// Refuses a request, whatever it is for, with the reason. `peer` is who has connected; `None` by a socket.
    pub(crate) fn refuse(
        &self,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Result<(), &'static str> {
        let is_proxy = peer.is_some_and(|peer| self.proxies.contains(peer));
        if self.needs_proxy && !is_proxy {
            return Err("this port has no TLS, so it takes requests of trusted_proxies alone");
        }
        if is_proxy && headers.get_all(FORWARDED_PROTO).iter().any(|by| by == "http") {
            return Err("it came to the proxy by http, which others can read: send it by https");
        }
        match self.offer {
            // Nothing that a browser sends of its own accord lets a publish in.
            Offer::Publish => Ok(()),
            Offer::Both | Offer::Manage | Offer::Socket => self.refuse_foreign(headers, uri),
        }
    }

    /// Refuses requests that may come from a page of another origin.
    fn refuse_foreign(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
        let texts = |name: HeaderName| {
            headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"))
        };
        let mut hosts = texts(header::HOST);
        let host = uri.authority().map(|authority| authority.as_str()).or_else(|| hosts.next());
        if !host.is_some_and(|host| self.is_own(host)) || !hosts.all(|host| self.is_own(host)) {
            return Err(match self.offer {
                Offer::Manage => {
                    "the Host header must name the host of admin_url, or be an address"
                }
                _ => "the Host header must name this machine: localhost, or a loopback address",
            });
        }
        let is_own =
            |origin: &str| origin.split_once("://").is_some_and(|(_, host)| self.is_own(host));
        match texts(header::ORIGIN).all(is_own) {
            true => Ok(()),
            false => Err("requests of web pages of other origins are refused"),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        // A name can be pointed elsewhere, and an address can't.
        let is_address = |address: IpAddr| address.is_loopback() || self.offer == Offer::Manage;
        name.eq_ignore_ascii_case("localhost")
            || self.host.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name))
            || name.parse().is_ok_and(is_address)
    }
}

/// Whether a proxy says that it sends a request for another.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDED.iter().any(|name| headers.contains_key(name))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(all: &[(HeaderName, Option<&str>)]) -> HeaderMap {
        let given = all.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?)));
        given.map(|(name, value)| (name, HeaderValue::from_str(value).expect("a value"))).collect()
    }

    #[test]
    fn only_requests_for_this_machine_are_let_in() {
        let (dev, manage) = (
            Door::of(Offer::Both),
            Door { host: Some("gridpost.internal".to_owned()), ..Door::of(Offer::Manage) },
        );
        // (Host, Origin, let in by dev, by the manage API of a machine of that name)
        let table = [
            (Some("127.0.0.1:7700"), None, true, true),
            (Some("localhost"), None, true, true),
            (Some("LOCALHOST:80"), None, true, true),
            (Some("[::1]:7700"), None, true, true),
            (Some("127.0.0.2"), None, true, true),
            (Some("GRIDPOST.internal:7071"), None, false, true),
            (Some("10.0.0.1"), None, false, true),
            (None, None, false, false),
            (Some(""), None, false, false),
            (Some("rebound.example:7700"), None, false, false),
            (Some("localhost.example"), None, false, false),
            (Some("gridpost.internal.example"), None, false, false),
            (Some("127.0.0.1:7700"), Some("http://localhost:3000"), true, true),
            (Some("127.0.0.1:7700"), Some("https://evil.example"), false, false),
            (Some("gridpost.internal"), Some("https://evil.example"), false, false),
            (Some("gridpost.internal"), Some("https://gridpost.internal"), false, true),
            (Some("127.0.0.1:7700"), Some("null"), false, false),
        ];
        let uri = Uri::from_static("/topics");
        for (host, origin, by_dev, by_manage) in table {
            let headers = headers(&[(header::HOST, host), (header::ORIGIN, origin)]);
            for (door, want) in [(&dev, by_dev), (&manage, by_manage)] {
                let refused = door.refuse(None, &headers, &uri);
                assert_eq!(refused.is_ok(), want, "{host:?} {origin:?} {door:?}");
                // A second one is as good as the first, whichever is heeded further on.
                for (name, other) in
                    [(header::HOST, "evil.example"), (header::ORIGIN, "http://evil.example")]
                {
                    let mut headers = headers.clone();
                    headers.append(name, HeaderValue::from_static(other));
                    assert!(door.refuse(None, &headers, &uri).is_err(), "{host:?} and {other}");
                }
            }
            let publish = Door::of(Offer::Publish);
            assert!(publish.refuse(None, &headers, &uri).is_ok(), "{host:?} {origin:?}");
        }
    }

    #[test]
    fn a_proxy_is_believed_if_it_is_trusted() {
        let proxies = "10.0.0.0/8".parse().expect("a network");
        let door = Door { proxies, needs_proxy: true, ..Door::of(Offer::Publish) };
        let alone = Door { needs_proxy: false, ..door.clone() };
        // (who connects, how it says that the request came, let in behind a proxy, let in with TLS)
        for (peer, proto, behind, by_tls) in [
            ("10.1.1.1", Some("https"), true, true),
            ("10.1.1.1", None, true, true),
            ("::ffff:10.1.1.1", Some("https"), true, true),
            ("10.1.1.1", Some("http"), false, false),
            // One that is not trusted says nothing that counts.
            ("192.0.2.1", Some("https"), false, true),
            ("192.0.2.1", Some("http"), false, true),
            ("127.0.0.1", None, false, true),
        ] {
            let peer: IpAddr = peer.parse().expect("an address");
            let headers = headers(&[(FORWARDED_PROTO, proto)]);
            for (door, want) in [(&door, behind), (&alone, by_tls)] {
                let refused = door.refuse(Some(peer), &headers, &Uri::from_static("/"));
                assert_eq!(refused.is_ok(), want, "{peer} {proto:?}");
            }
        }
    }
}
