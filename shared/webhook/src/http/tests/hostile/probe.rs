//! Probes whose time is over: the step that was under way is named.

use gridpost_core::delivery::probe::Stage;

use super::*;

const NAMED: &str = "https://example.com/hook";

/// What a probe that may take so many seconds fails at, and what it says.
async fn fails(net: Net, url: &str, seconds: u64) -> (Stage, String) {
    let net = Arc::new(net);
    let request = Request {
        url: Secret::new(url),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: b"[]".to_vec(),
        authentication: None,
        reads_results: false,
    };
    let began_at = Instant::now();
    let until = began_at + Duration::from_secs(seconds);
    let probed = client(&net, None).probe(request, until).await;
    assert!(began_at.elapsed() <= Duration::from_secs(seconds), "took {:?}", began_at.elapsed());
    let failure = probed.failure.expect("a failure");
    (failure.stage, failure.says)
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_time_is_over_names_the_step_that_was_under_way() {
    let silent = || Net::new(Transport::Plain, vec![vec![Step::Hang]]);
    let nameless = || Net { answers: Mutex::default(), ..silent() };
    let far = || Net { dials_for: Duration::from_secs(20), ..silent() };
    let slow = || Net { dials_for: Duration::from_secs(4), ..silent() };
    let table = [
        (nameless(), NAMED, 5, Stage::Name, "not done within 5 s"),
        (far(), NAMED, 5, Stage::Connection, "not done within 5 s"),
        (far(), NAMED, 26, Stage::Connection, "no connection within 12 s"),
        (silent(), NAMED, 5, Stage::Tls, "not done within 5 s"),
        (silent(), NAMED, 26, Stage::Tls, "TLS is not done within 12 s"),
        (slow(), PLAIN, 26, Stage::Answer, "none within 22 s"),
    ];
    for (net, url, seconds, stage, says) in table {
        assert_eq!(fails(net, url, seconds).await, (stage, says.to_owned()), "{url} {seconds}");
    }
}
