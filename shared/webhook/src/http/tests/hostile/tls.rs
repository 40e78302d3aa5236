//! Encryption that is not what it should be.

use super::*;

const NAMED: &str = "https://example.com/hook";

#[tokio::test(start_paused = true)]
async fn only_a_valid_certificate_for_the_name_is_trusted() {
    let good = Identity::new("example.com", 2100);
    let (unknown, other) = (Identity::new("example.com", 2100), Identity::new("example.org", 2100));
    let expired = Identity::new("example.com", 2020);
    let table = [
        ("good", &good, &good, status(200)),
        ("signed by nobody we trust", &unknown, &good, outcome(Outcome::SocketError)),
        ("for another name", &other, &other, outcome(Outcome::SocketError)),
        ("expired", &expired, &expired, outcome(Outcome::SocketError)),
    ];
    for (row, served, trusted, want) in table {
        let transport = Transport::Tls(Arc::new(served.server(&["http/1.1"])));
        let net = Net::new(transport, vec![vec![Step::Requests(1), send(OK), Step::Hang]]);
        check(row, net, Some(trusted), NAMED, 2, Ends::With(want)).await;
    }
}

/// A server's hello of TLS 1.0 or 1.1, which is its choice of version.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut hello = vec![0x16, 3, minor, 0, 42, 2, 0, 0, 38, 3, minor];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x13, 0]);
    hello
}

#[tokio::test(start_paused = true)]
async fn what_is_no_tls_of_today_is_an_error() {
    let identity = Identity::new("example.com", 2100);
    let broken = outcome(Outcome::SocketError);
    let table = [
        ("plain HTTP", vec![send("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::Hang], broken),
        ("TLS 1.0", vec![send(old_hello(1)), Step::Hang], broken),
        ("TLS 1.1", vec![send(old_hello(2)), Step::Hang], broken),
        ("an alert", vec![send([0x15, 3, 3, 0, 2, 2, 70].to_vec()), Step::Hang], broken),
        ("nothing, closed", vec![], broken),
        ("noise", vec![Step::Forever(vec![0xff; 8_192])], broken),
        ("silence", vec![Step::Hang], broken),
    ];
    for (row, steps, want) in table {
        let net = Net::new(Transport::Plain, vec![steps]);
        check(row, net, Some(&identity), NAMED, 2, Ends::With(want)).await;
    }
}
