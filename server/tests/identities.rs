//! A whole process that proves an AWS identity, to a checker that is not ours, with a Security Token Service
//! on loopback.

#[path = "identities/aws.rs"]
mod aws;
#[path = "process/fixture.rs"]
mod fixture;
#[path = "process/server.rs"]
mod server;

use std::time::Duration;

use aws::Aws;
use fixture::{Fixture, until};
use gridpost_server::{Identity, Options};
use gridpost_signing::{Credentials, SharedCredentialsProvider};
use serde_json::{Value, json};
use tokio::time::sleep;

const ROLE: &str = "arn:aws:iam::111122223333:role/r";

/// Only `gridpost dev` allows every host.
async fn identified(aws: &Aws) -> Fixture {
    let named = r#"{"own": ["*"], "audiences": {"aud": ["*"]},
        "roles": {"arn:aws:iam::111122223333:role/r": ["*"]}}"#;
    let (id, secret) = aws::OWN;
    let own = Credentials::new(id, secret, None, None, "test");
    let identity = Identity {
        named: named.parse().expect("identities"),
        credentials: SharedCredentialsProvider::new(own),
        region: "eu-north-1".to_owned(),
        endpoint_url: Some(aws.url.clone()),
    };
    Fixture::of(Options { identity: Some(identity), ..Options::default() }).await
}

fn signing(role: Option<&str>) -> Value {
    json!({"type": "AwsSigV4", "properties":
        {"service": "execute-api", "region": "eu-north-1", "roleArn": role}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_signs_requests_by_its_own_identity_and_by_a_role() {
    let aws = Aws::start().await;
    let fixture = identified(&aws).await;
    let url = format!("{}/stage/or%20ders?b=%2F&a=1", aws.url);
    for (name, role, key) in [("own", None, aws::OWN.0), ("role", Some(ROLE), aws::ROLE.0)] {
        // The handshake is signed: the endpoint accepts nothing else.
        let stored = fixture.subscribe_by(name, &url, signing(role)).await;
        assert!(stored.contains("Succeeded"), "{stored}");
        fixture.publish(name, "1").await;
        let look = async || {
            let seen = aws.state().seen.clone();
            seen.into_iter().find(|(body, _)| body.contains(&format!("\"eventType\":\"{name}\"")))
        };
        let (_, verified) = until(name, look).await;
        let signed = verified.expect("a good signature");
        assert_eq!((signed.key_id.as_str(), signed.service.as_str()), (key, "execute-api"));
        assert!(signed.covers.contains(&"x-amz-content-sha256".to_owned()), "{signed:?}");
        assert_eq!(signed.session.as_deref(), role.map(|_| "session"));
    }
    assert!(aws.state().seen.iter().all(|(_, verified)| verified.is_ok()), "handshakes, too");
    assert_eq!(aws.state().asked, ["AssumeRole"], "for both requests");
    let token = json!({"type": "AwsWebIdentity", "properties": {"audience": "aud"}});
    let stored = fixture.subscribe_by("token", &url, token).await;
    assert!(stored.contains("Succeeded"), "{stored}");
    assert_eq!(fixture.test("token", "1").await["outcome"], "Delivered");
    let tokens = aws.state().tokens.clone();
    assert!(tokens.len() >= 2 && tokens.iter().all(|one| one == "jwt-for-aud"), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sts_answers_changes_nothing_but_the_outcome() {
    let aws = Aws::start().await;
    let fixture = identified(&aws).await;
    let url = format!("{}/hook", aws.url);
    aws.state().refuses =
        Some((403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"));
    let refused = fixture.subscribe_by("role", &url, signing(Some(ROLE))).await;
    assert!(refused.contains("sts:AssumeRole answered 403 (AccessDenied)"), "{refused}");
    assert_eq!(aws.state().seen, [], "nothing is sent without a signature");
    sleep(Duration::from_secs(2)).await;
    aws.state().refuses = None;
    let token = json!({"type": "AwsWebIdentity", "properties": {"audience": "aud"}});
    let stored = fixture.subscribe_by("role", &url, signing(Some(ROLE))).await;
    assert!(stored.contains("Succeeded"), "{stored}");
    let stored = fixture.subscribe_by("token", &url, token).await;
    assert!(stored.contains("Succeeded"), "{stored}");
    // The cached token stays valid; the next is requested when it expires, in half a second here.
    let table = [
        (500, "<html>", "answered 500"),
        (200, "<html>", "no token"),
        (
            200,
            "<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>a&#10;b</WebIdentityToken><Expiration>2999-01-01T00:00:00Z</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>",
            "characters",
        ),
        (307, "", "answered 307"),
    ];
    sleep(Duration::from_millis(500)).await;
    for (number, (status, answer, want)) in table.into_iter().enumerate() {
        aws.state().refuses = Some((status, answer));
        let met = fixture.test("token", &format!("hostile-{number}")).await;
        assert_eq!(met["outcome"], "EndpointAuthenticationFailed", "{met}");
        assert!(met["response"].as_str().is_some_and(|said| said.contains(want)), "{met}");
        sleep(Duration::from_millis(20)).await;
    }
    aws.state().refuses = None;
    assert_eq!(fixture.test("token", "at last").await["outcome"], "Delivered");
}

/// Identities are only proven if configured.
#[tokio::test(flavor = "multi_thread")]
async fn without_being_told_a_process_proves_no_identity() {
    let aws = Aws::start().await;
    let fixture = Fixture::of(Options::default()).await;
    let refused = fixture.subscribe_by("own", &format!("{}/hook", aws.url), signing(None)).await;
    assert!(refused.contains("endpoint_signed_hosts"), "{refused}");
    assert_eq!(aws.state().seen, []);
}
