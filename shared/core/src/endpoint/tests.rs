use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;

fn naming(networks: &str) -> Allowed {
    Allowed { networks: networks.parse().expect("networks"), ..Allowed::default() }
}

/// For the defaults see tests/conformance/endpoint_urls.json.
#[test]
fn named_networks_are_called_and_no_others() {
    let table: [(&str, bool); 16] = [
        // URL; allowed if 127.0.0.0/8 and ::1 are named.
        ("https://example.com/hook?code=1", true),
        ("http://example.com/", true), // if it resolves into a named network
        ("http://93.184.215.14/", false),
        ("http://127.0.0.1:9000/hook", true),
        ("https://127.0.0.1:9000/hook", true),
        ("https://[::ffff:127.0.0.1]/", true),
        ("https://[64:ff9b::127.0.0.1]/", false),
        ("http://localhost:9000/", true),
        ("https://localhost./", true),
        ("https://a.localhost/", true),
        ("https://2130706433/", true),
        ("https://0x7f.1/", true),
        ("http://[::1]:9000/", true),
        ("https://10.0.0.1/", false),
        ("https://127.0.0.1:22/", false),
        ("ftp://127.0.0.1/", false),
    ];
    for (text, want) in table {
        assert_eq!(check_url(text, &naming("127.0.0.0/8, ::1/128")).is_ok(), want, "{text}");
    }
    // Naming all of IPv6 does not name mapped IPv4 addresses.
    assert!(check_url("https://[::ffff:169.254.169.254]/", &naming("::/0")).is_err());
}

#[test]
fn networks_are_read_from_text() {
    let networks: AllowedNetworks = " 10.0.0.0/8, fd00::/8 ".parse().expect("two networks");
    assert!(networks.contains("10.1.2.3".parse().expect("an address")));
    assert!(networks.contains("fd00::1".parse().expect("an address")));
    assert!("10.0.0.0/33".parse::<AllowedNetworks>().is_err());
}

#[test]
fn ports_are_read_from_text() {
    let named: AllowedPorts = "443, 8443,9000-9002".parse().expect("ports");
    for (port, want) in [(443, true), (80, false), (8443, true), (9000, true), (9003, false)] {
        assert_eq!(named.contains(port), want, "{port}");
    }
    assert_eq!(named.to_string(), "443, 8443, 9000-9002");
    assert_eq!("".parse(), Ok(AllowedPorts::default()));
    assert_eq!(AllowedPorts::default().to_string(), "80, 443, 1024-65535");
    for wrong in ["0", "65536", "https", "9-8", "1-2-3", "-1", "1-", "+", " - "] {
        assert_eq!(wrong.parse::<AllowedPorts>().ok(), None, "{wrong}");
    }
}

/// IANA's ranges that are not public: first and last addresses.
const SPECIAL_V4: [[&str; 2]; 15] = [
    ["0.0.0.0", "0.255.255.255"],
    ["10.0.0.0", "10.255.255.255"],
    ["100.64.0.0", "100.127.255.255"],
    ["127.0.0.0", "127.255.255.255"],
    ["169.254.0.0", "169.254.255.255"],
    ["172.16.0.0", "172.31.255.255"],
    ["192.0.0.0", "192.0.0.255"],
    ["192.0.2.0", "192.0.2.255"],
    ["192.88.99.0", "192.88.99.255"],
    ["192.168.0.0", "192.168.255.255"],
    ["198.18.0.0", "198.19.255.255"],
    ["198.51.100.0", "198.51.100.255"],
    ["203.0.113.0", "203.0.113.255"],
    ["224.0.0.0", "239.255.255.255"],
    ["240.0.0.0", "255.255.255.255"],
];

const SPECIAL_V6: [&str; 16] = [
    "::/128",
    "::1/128",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "4000::/3",
    "8000::/1",
    "200::/7",
];

fn v4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().expect("an address").to_bits()
}

fn is_special(address: Ipv4Addr) -> bool {
    SPECIAL_V4.iter().any(|[first, last]| (v4(first)..=v4(last)).contains(&address.to_bits()))
}

fn special_v4() -> impl Strategy<Value = Ipv4Addr> {
    prop::sample::select(&SPECIAL_V4[..])
        .prop_flat_map(|[first, last]| v4(first)..=v4(last))
        .prop_map(Ipv4Addr::from_bits)
}

/// All forms of an IPv4 address in an IPv6 address. `around` fills the free bits.
fn carriers(inner: Ipv4Addr, around: u128) -> Vec<(&'static str, Ipv6Addr)> {
    let bits = u128::from(inner.to_bits());
    let global = (around >> 64 << 64) & !(0b111 << 125) | (1 << 125);
    let low = |prefix: &str| prefix.parse::<Ipv6Addr>().expect("a prefix").to_bits() | bits;
    let all = [
        ("mapped", low("::ffff:0:0")),
        ("compatible", low("::")),
        ("translated", low("::ffff:0:0:0")),
        ("NAT64", low("64:ff9b::")),
        ("NAT64 for local use", low("64:ff9b:1::") | (around & 0xffff) << 64),
        ("6to4", 0x2002 << 112 | bits << 80 | around >> 48),
        ("Teredo server", 0x2001 << 112 | bits << 64 | around >> 64),
        (
            "Teredo client",
            0x2001 << 112 | (around >> 32 << 64) & !(!0 << 96) | (!bits & 0xffff_ffff),
        ),
        ("ISATAP", global | 0x5efe << 32 | bits),
        ("ISATAP of a universal interface", global | 0x0200_5efe << 32 | bits),
    ];
    all.map(|(form, bits)| (form, Ipv6Addr::from_bits(bits))).to_vec()
}

proptest! {
    #[test]
    fn an_address_may_be_called_if_it_is_named_or_public(address: IpAddr, public: bool) {
        let networks: AllowedNetworks = "10.0.0.0/8, fd00::/8".parse().expect("networks");
        let want = networks.contains(address) || (public && is_public(address));
        prop_assert_eq!(networks.permits(address, public), want);
    }

    #[test]
    fn a_special_address_is_refused_in_every_form(inner in special_v4(), around: u128) {
        prop_assert!(!is_public(IpAddr::V4(inner)), "{inner}");
        let all = carriers(inner, around);
        for (form, address) in &all {
            prop_assert!(!is_public(IpAddr::V6(*address)), "{inner}, {form}: {address}");
            let url = format!("https://[{address}]/");
            prop_assert!(check_url(&url, &Allowed::default()).is_err(), "{url}");
        }
        let none = AllowedNetworks::default();
        prop_assert!(!all.iter().any(|(_, address)| none.permits(IpAddr::V6(*address), true)));
    }

    #[test]
    fn an_ipv4_address_is_public_unless_it_is_special(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        prop_assert_eq!(is_public(IpAddr::V4(address)), !is_special(address), "{}", address);
        prop_assert_eq!(is_public(IpAddr::V6(address.to_ipv6_mapped())), !is_special(address));
    }

    #[test]
    fn a_special_ipv6_address_is_refused(
        network in prop::sample::select(&SPECIAL_V6[..]),
        around: u128,
    ) {
        let network: ipnet::Ipv6Net = network.parse().expect("a network");
        let host = around & network.hostmask().to_bits();
        let address = Ipv6Addr::from_bits(network.network().to_bits() | host);
        prop_assert!(!is_public(IpAddr::V6(address)), "{address}");
    }

    #[test]
    fn all_text_forms_of_an_ipv4_address_are_judged_alike(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        let tail = bits & 0x00ff_ffff;
        let forms = [
            format!("{a}.{b}.{c}.{d}"),
            format!("{a}.{b}.{c}.{d}."),
            format!("{bits}"),
            format!("0x{bits:x}"),
            format!("0X{bits:X}"),
            format!("0{bits:o}"),
            format!("0{a:o}.0x{b:x}.{c}.0{d:o}"),
            format!("{a}.{tail}"),
            format!("{a}.{b}.{}", bits & 0xffff),
            format!("{a}%2e{b}%2E{c}.{d}"),
            format!("{a}\u{3002}{b}\u{ff0e}{c}\u{ff61}{d}"),
        ];
        for form in forms {
            let checked = check_url(&format!("https://{form}/"), &Allowed::default());
            prop_assert_eq!(checked.is_ok(), !is_special(address), "{}", &form);
            if let Ok(uri) = checked {
                prop_assert_eq!(uri.host().map(str::to_owned), Some(address.to_string()));
            }
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text: String, host in "[^/?#]{0,40}") {
        let _ = check_url(&text, &Allowed::default());
        if let Ok(uri) = check_url(&format!("https://{host}/"), &Allowed::default()) {
            prop_assert!(uri.host().is_some_and(|host| !host.is_empty()));
            prop_assert!(!uri.authority().is_some_and(|all| all.as_str().contains('@')));
        }
    }
}
