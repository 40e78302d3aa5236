//! Names that resolve differently each time, or to several addresses: who is really connected to.

use std::{collections::VecDeque, net::IpAddr, sync::Mutex};

use super::*;

const NAMED: &str = "https://example.com/hook";
const PUBLIC: &str = "93.184.215.14";

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

/// A net whose name service gives these answers, in turn.
fn net(identity: &Identity, answers: &[&[&str]], script: Vec<Step>) -> Net {
    let transport = Transport::Tls(Arc::new(identity.server(&["http/1.1"])));
    let answers: VecDeque<_> = answers.iter().map(|texts| addresses(texts)).collect();
    Net { answers: Mutex::new(answers), ..Net::new(transport, vec![script]) }
}

/// (answers in turn, attempts in turn, addresses connected to)
type Row<'a> = (&'a [&'a [&'a str]], &'a [Result<(), Outcome>], &'a [&'a str]);

#[tokio::test(start_paused = true)]
async fn a_name_that_rebinds_never_reaches_a_private_address() {
    let identity = Identity::new("example.com", 2100);
    let table: [Row; 5] = [
        (&[&[PUBLIC], &["127.0.0.1"]], &[Ok(()), Err(Outcome::SocketError)], &[PUBLIC]),
        (
            &[&[PUBLIC], &["169.254.169.254"], &[PUBLIC], &["::ffff:127.0.0.1"]],
            &[Ok(()), Err(Outcome::SocketError), Ok(()), Err(Outcome::SocketError)],
            &[PUBLIC, PUBLIC],
        ),
        (&[&[PUBLIC, "192.168.0.1"]], &[Ok(()), Ok(())], &[PUBLIC, PUBLIC]),
        (&[&["127.0.0.1", "::1", PUBLIC]], &[Ok(())], &[PUBLIC]),
        (&[&["192.168.0.1", "64:ff9b::7f00:1"]], &[Err(Outcome::SocketError)], &[]),
    ];
    for (answers, attempts, dialled) in table {
        // The receiver closes, so that every attempt resolves the name again.
        let script = vec![Step::Requests(1), send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")];
        let net = Arc::new(net(&identity, answers, script));
        let client = client(&net, Some(&identity));
        for want in attempts {
            let want = want.as_ref().map_or_else(|failed| outcome(*failed), |()| status(200));
            assert_eq!(attempt(&client, NAMED, 2).await.0, want, "{answers:?}");
            sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(net.dialled(), dialled, "{answers:?}");
        // What is connected to is what was resolved: no second look-up lies between.
        assert_eq!(net.looked_up.load(Ordering::Relaxed), attempts.len(), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn plain_http_goes_to_named_networks_alone() {
    let identity = Identity::new("example.com", 2100);
    let script = vec![Step::Requests(1), send(OK), Step::Hang];
    for (answer, want) in [("10.1.2.3", status(200)), (PUBLIC, outcome(Outcome::SocketError))] {
        let net =
            Net { transport: Transport::Plain, ..net(&identity, &[&[answer]], script.clone()) };
        let net = Arc::new(net);
        let client = client(&net, None);
        assert_eq!(attempt(&client, "http://example.com/hook", 2).await.0, want, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_checked_connection_is_used_again() {
    let identity = Identity::new("example.com", 2100);
    let script = vec![Step::Requests(1), send(OK), Step::Requests(2), send(OK), Step::Hang];
    let net = Arc::new(net(&identity, &[&[PUBLIC], &["127.0.0.1"]], script));
    let client = client(&net, Some(&identity));
    for _ in 0..2 {
        assert_eq!(attempt(&client, NAMED, 2).await.0, status(200));
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(net.dialled(), [PUBLIC]);
    assert_eq!(net.requests.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn every_public_address_of_a_name_is_tried() {
    let identity = Identity::new("example.com", 2100);
    let other = "93.184.215.15";
    let both: &[&str] = &[PUBLIC, "127.0.0.1", other];
    let table: [(&[&str], &[&str], Answer, u64); 4] = [
        // (refusing, silent, answer, within milliseconds)
        (&[PUBLIC], &[], status(200), 0),
        (&[], &[PUBLIC], status(200), 250),
        (&[PUBLIC, other], &[], outcome(Outcome::SocketError), 0),
        (&[], &[PUBLIC, other], outcome(Outcome::SocketError), 12_000),
    ];
    for (refusing, silent, want, millis) in table {
        let script = vec![Step::Requests(1), send(OK), Step::Hang];
        let (refusing, silent) = (addresses(refusing), addresses(silent));
        let net = Arc::new(Net { refusing, silent, ..net(&identity, &[both], script) });
        let client = client(&net, Some(&identity));
        let began = Instant::now();
        assert_eq!(attempt(&client, NAMED, 2).await.0, want, "{millis}");
        assert_eq!(began.elapsed(), Duration::from_millis(millis));
        assert_eq!(net.dialled(), [PUBLIC, other]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_service_that_is_silent_ends_in_a_resolution_error() {
    let identity = Identity::new("example.com", 2100);
    let net = Arc::new(net(&identity, &[], vec![]));
    let began = Instant::now();
    let answer = attempt(&client(&net, Some(&identity)), NAMED, 2).await.0;
    assert_eq!(answer, outcome(Outcome::ResolutionError));
    assert_eq!(began.elapsed(), Duration::from_secs(6));
}
