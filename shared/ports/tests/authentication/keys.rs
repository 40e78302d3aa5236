//! Clients with private keys, probes, and client certificates.

use super::*;

struct Stamp;

impl Signer for Stamp {
    fn sign(&self, key: &Secret, unsigned: &dyn Fn(Algorithm) -> String) -> Result<Secret, String> {
        match key.expose() {
            "broken" => Err("is damaged".to_owned()),
            _ => Ok(Secret::new(format!("{}.signed", unsigned(Algorithm::Es256)))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_private_key_sends_a_new_assertion_for_each_token() {
    let fixture = Arc::new(Fixture::default());
    let asking = Arc::new(Shared(Arc::clone(&fixture)));
    let clock = Arc::new(VirtualClock::start());
    let tokens = Tokens::new(asking, Arc::new(NoSecrets), ClientSecrets::default(), clock);
    let tokens = tokens.signing(Arc::new(Stamp), Arc::new(SeededDice::new(7)));
    let client = Authenticated::new(Shared(Arc::clone(&fixture)), Arc::new(tokens));
    let by = |key: &str| {
        let grant = Grant::OAuth2 {
            token_url: TOKEN_URL.to_owned(),
            scope: None,
            audience: None,
            sent_by: SentBy::PrivateKeyJwt { key_id: None, audience: None },
        };
        let secret = ClientSecret::Inline { value: Secret::new(key) };
        let client = Client::Own { id: "c".to_owned(), secret };
        Arc::new(Authentication::ClientCredentials(ClientCredentials { grant, client }))
    };
    let is_answered = async |key| {
        let attempted = client.attempt(request(Some(by(key)))).await;
        matches!(attempted, Attempted::Answered { answer, .. } if answer.status == Some(200))
    };
    for number in 1..=2 {
        assert!(is_answered("key").await);
        fixture.revoke(&format!("t{number}"));
        sleep(OLD).await;
    }
    // The key is not in the assertion; only the id differs.
    assert!(is_answered("one").await && is_answered("another").await);
    let asked = fixture.asked.lock().expect("no panic").clone();
    let [first, second, third, fourth] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(first.ends_with(".signed") && !first.contains("client_secret"), "{first}");
    assert!(first != second && third != fourth, "each has an id of its own");
    let probed = client.probe(request(Some(by("broken"))), soon()).await;
    let failure = probed.failure.expect("a failure");
    assert_eq!(failure, Failure::at(Stage::Secret, "the client's private key is damaged"));
    assert_eq!(fixture.asked(), 4, "nothing is asked without an assertion");
}

#[tokio::test(start_paused = true)]
async fn a_probe_says_what_failed_on_the_way_to_a_token() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let unreachable = || Err(HandshakeError::Unreachable("no route".to_owned()));
    let table = [
        (Some(refusal()), Some(Stage::TokenRefused)),
        (Some(unreachable()), Some(Stage::TokenUnreachable)),
        (Some(Ok(response(200, &[], "hush"))), Some(Stage::TokenUnusable)),
        (None, None),
    ];
    for (answer, want) in table {
        if let Some(answer) = answer {
            fixture.answers(answer);
        }
        let probed = client.probe(request(Some(inline())), soon()).await;
        assert_eq!(probed.failure.map(|failure| failure.stage), want);
        sleep(Duration::from_secs(10)).await;
    }
    fixture.revoke("t4");
    sleep(OLD).await;
    let probed = client.probe(request(Some(inline())), soon()).await;
    assert!(
        matches!(probed.attempted, Attempted::Answered { answer, .. } if answer.status == Some(200))
    );
}

/// The step that ran out of time is named.
#[tokio::test(start_paused = true)]
async fn a_slow_token_endpoint_is_named_by_probes_and_handshakes() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let slow = Duration::from_secs(60);
    *fixture.asking_takes.lock().expect("no panic") = slow;
    for (seconds, ends_after) in [(8, 8), (26, 15)] {
        let began_at = Instant::now();
        let until = began_at + Duration::from_secs(seconds);
        let probed = client.probe(request(Some(inline())), until).await;
        let says = format!("the token endpoint gave no answer: none within {ends_after} s");
        assert_eq!(probed.failure, Some(Failure::at(Stage::TokenUnreachable, says)));
        assert_eq!(began_at.elapsed(), Duration::from_secs(ends_after));
    }
    *fixture.asking_takes.lock().expect("no panic") = Duration::ZERO;
    client.probe(request(Some(inline())), soon()).await;
    // The second token, after a refusal of an older one.
    fixture.revoke("t3");
    sleep(OLD).await;
    *fixture.asking_takes.lock().expect("no panic") = slow;
    let probed = client.probe(request(Some(inline())), soon()).await;
    let stage = probed.failure.map(|failure| failure.stage);
    assert_eq!(stage, Some(Stage::TokenUnreachable));
    let refused = client.exchange(handshake(9_000)).await.map(|answer| answer.status);
    assert_eq!(refused, Err(no_token_within(9)));
}

/// A client that shows the certificate.
#[tokio::test(start_paused = true)]
async fn a_client_certificate_is_left_to_the_connection() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let material = Material::Reference { name: "arn:s".to_owned() };
    let by = Authentication::ClientCertificate(ClientCertificate { material, trusted: None });
    client.attempt(request(Some(Arc::new(by)))).await;
    assert_eq!((fixture.asked(), fixture.sent()), (0, vec![None]));
}
