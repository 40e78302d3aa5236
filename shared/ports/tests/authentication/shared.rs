//! Tokens that endpoints share, and more tokens than are cached.

use super::*;

/// Two endpoints share a token, whose endpoint is down. One refuses it: the other still gets it.
#[tokio::test(start_paused = true)]
async fn one_endpoints_refusal_takes_no_token_from_the_others() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    sleep(OLD).await;
    for _ in 0..3 {
        fixture.answers(refusal());
    }
    fixture.revoke("t1");
    let (refused, status, _) = attempt(&client).await;
    let unauthenticated = Outcome::EndpointAuthenticationFailed;
    assert_eq!((refused, status), (unauthenticated, None), "no other one is to be had");
    for _ in 0..5 {
        assert_eq!(outcome(&client).await, unauthenticated);
    }
    assert_eq!(fixture.asked(), 2, "its endpoint is not asked for each event");
    fixture.revoked.lock().expect("no panic").clear();
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.sent(), vec![bearer("t1"); 8]);
    sleep(Duration::from_secs(10)).await;
    fixture.answers.lock().expect("no panic").clear();
    fixture.revoke("t1");
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_ne!(fixture.sent().last(), Some(&bearer("t1")));
}

/// It expired before the endpoint saw it, which is no refusal of the client.
#[tokio::test(start_paused = true)]
async fn a_token_that_ends_on_the_way_is_replaced() {
    let mut fixture = Fixture { refusing_takes: Duration::from_secs(2), ..Fixture::default() };
    fixture.revoked = Mutex::new(vec!["Bearer short".to_owned()]);
    let fixture = Arc::new(fixture);
    fixture.answers(Ok(token("short", 1)));
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.asked(), 2);
}

/// Of more authentications than are cached, few are repeated.
#[tokio::test(start_paused = true)]
async fn more_tokens_than_are_kept_cost_few_more() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    for round in 1..=3 {
        for number in 0..1_040 {
            let secret = ClientSecret::Inline { value: Secret::new(format!("s{number}")) };
            client.attempt(request(Some(by(secret)))).await;
        }
        let most = 1_040 + (round - 1) * 450;
        assert!(fixture.asked() <= most, "round {round}: {} were asked for", fixture.asked());
    }
}
