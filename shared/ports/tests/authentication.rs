//! Authenticated requests: when tokens are asked for, and what a refusal of one leads to.

#[path = "authentication/keys.rs"]
mod keys;
#[path = "authentication/shared.rs"]
mod shared;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    delivery::{
        probe::{Failure, Stage},
        request::Request,
    },
    endpoint::secrets::ClientSecrets,
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::authentication::{
        Authentication, Client, ClientCredentials, ClientSecret, Grant, SentBy,
        assertion::Algorithm,
        certificate::{ClientCertificate, Material},
        token::NoToken,
    },
};
use gridpost_ports::{
    Attempted, EndpointClient, HandshakeClient, HandshakeError, HandshakeRequest,
    HandshakeResponse, PortError,
    authentication::{
        Authenticated, NoSecrets, REFUSED_WITHIN, SecretReader, Signer, TOKEN_WAIT, Tokens,
    },
};
use gridpost_testkit::{clock::VirtualClock, consent::response, dice::SeededDice};
use http::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

const TOKEN_URL: &str = "https://id.example/token";

const TAKES: Duration = Duration::from_millis(50);

/// From this age on, a refused token may be revoked.
const OLD: Duration = Duration::from_secs(61);

/// A token endpoint, and an endpoint for its tokens.
#[derive(Default)]
struct Fixture {
    /// The next answers to token requests; after those, each gets a new token.
    answers: Mutex<VecDeque<Result<HandshakeResponse, HandshakeError>>>,
    /// The bodies of token requests.
    asked: Mutex<Vec<String>>,
    asking_takes: Mutex<Duration>,
    revoked: Mutex<Vec<String>>,
    refusing_takes: Duration,
    /// How many attempts find a file descriptor, if there is an end of them.
    made_most: Option<usize>,
    /// `Authorization` of its requests.
    sent: Mutex<Vec<Option<String>>>,
}

impl Fixture {
    fn asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    fn sent(&self) -> Vec<Option<String>> {
        self.sent.lock().expect("no panic").clone()
    }

    fn revoke(&self, token: &str) {
        self.revoked.lock().expect("no panic").push(format!("Bearer {token}"));
    }

    fn answers(&self, answer: Result<HandshakeResponse, HandshakeError>) {
        self.answers.lock().expect("no panic").push_back(answer);
    }

    fn note(&self, headers: &[(String, Secret)]) -> bool {
        let found = headers.iter().find(|(name, _)| name == "authorization");
        let found = found.map(|(_, value)| value.expose().to_owned());
        let is_good = found
            .as_ref()
            .is_some_and(|found| !self.revoked.lock().expect("no panic").contains(found));
        self.sent.lock().expect("no panic").push(found);
        is_good
    }
}

struct Shared(Arc<Fixture>);

#[async_trait]
impl EndpointClient for Shared {
    async fn attempt(&self, request: Request) -> Attempted {
        if self.0.made_most.is_some_and(|most| self.0.sent().len() >= most) {
            return Attempted::NotMade;
        }
        let is_good = self.0.note(&request.attributes);
        if !is_good {
            sleep(self.0.refusing_takes).await;
        }
        Answer::of_status(if is_good { 200 } else { 401 }, None).into()
    }
}

#[async_trait]
impl HandshakeClient for Shared {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        if request.url.expose() != TOKEN_URL {
            let is_good = self.0.note(&request.attributes);
            return Ok(response(if is_good { 200 } else { 401 }, &[], ""));
        }
        assert_eq!((request.method, request.wait), (Method::POST, TOKEN_WAIT));
        let body = String::from_utf8_lossy(&request.body);
        assert_eq!(request.is_sent_once, body.contains("client_assertion="), "{body}");
        let number = {
            let mut asked = self.0.asked.lock().expect("no panic");
            asked.push(body.into_owned());
            asked.len()
        };
        let takes = TAKES + *self.0.asking_takes.lock().expect("no panic");
        sleep(takes).await;
        let answer = self.0.answers.lock().expect("no panic").pop_front();
        answer.unwrap_or_else(|| Ok(token(&format!("t{number}"), 3_600)))
    }
}

fn token(name: &str, expires_in: i64) -> HandshakeResponse {
    let body = json!({"access_token": name, "token_type": "Bearer", "expires_in": expires_in});
    response(200, &[], &body.to_string())
}

fn refusal() -> Result<HandshakeResponse, HandshakeError> {
    Ok(response(400, &[], r#"{"error": "invalid_client", "error_description": "hush"}"#))
}

fn by(secret: ClientSecret) -> Arc<Authentication> {
    let grant = Grant::OAuth2 {
        token_url: TOKEN_URL.to_owned(),
        scope: None,
        audience: None,
        sent_by: SentBy::Post,
    };
    let client = Client::Own { id: "c".to_owned(), secret };
    Arc::new(Authentication::ClientCredentials(ClientCredentials { grant, client }))
}

fn inline() -> Arc<Authentication> {
    by(ClientSecret::Inline { value: Secret::new("s") })
}

fn request(authentication: Option<Arc<Authentication>>) -> Request {
    Request {
        url: Secret::new("https://e.example/"),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: b"[]".to_vec(),
        authentication,
        reads_results: false,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(26)
}

fn client(fixture: &Arc<Fixture>) -> Authenticated<Shared> {
    reading(fixture, Arc::new(NoSecrets), "")
}

fn reading(
    fixture: &Arc<Fixture>,
    secrets: Arc<dyn SecretReader>,
    allowed: &str,
) -> Authenticated<Shared> {
    let clock = Arc::new(VirtualClock::start());
    let allowed: ClientSecrets = allowed.parse().expect("a setting");
    let asking = Arc::new(Shared(Arc::clone(fixture)));
    let tokens = Tokens::new(asking, secrets, allowed, clock);
    Authenticated::new(Shared(Arc::clone(fixture)), Arc::new(tokens))
}

async fn attempt(client: &Authenticated<Shared>) -> (Outcome, Option<u16>, String) {
    match client.attempt(request(Some(inline()))).await {
        Attempted::Answered { answer, response_text: said, .. } => {
            (answer.outcome, answer.status, said.unwrap_or_default())
        }
        _ => panic!("it is answered at once"),
    }
}

async fn outcome(client: &Authenticated<Shared>) -> Outcome {
    attempt(client).await.0
}

fn bearer(token: &str) -> Option<String> {
    Some(format!("Bearer {token}"))
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_once_and_kept_until_shortly_before_its_end() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let all = join_all((0..50).map(|_| outcome(&client))).await;
    assert!(all.iter().all(|outcome| *outcome == Outcome::Delivered), "{all:?}");
    assert_eq!(fixture.asked(), 1, "all wait for one token");
    sleep(Duration::from_secs(3_500)).await;
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.asked(), 1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.asked(), 2, "it ends within a minute");
    assert_eq!(fixture.sent().last(), Some(&bearer("t2")));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ends_at_once_serves_those_who_waited_for_it() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    fixture.answers(Ok(token("short", 0)));
    let late = async {
        sleep(TAKES / 2).await;
        outcome(&client).await
    };
    let (first, second) = futures::join!(outcome(&client), late);
    assert_eq!((first, second), (Outcome::Delivered, Outcome::Delivered));
    assert_eq!(fixture.asked(), 1);
    outcome(&client).await;
    assert_eq!(fixture.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_replaced_once_before_a_401_counts() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    fixture.revoke("t1");
    sleep(OLD).await;
    let all = join_all((0..10).map(|_| outcome(&client))).await;
    assert!(all.iter().all(|outcome| *outcome == Outcome::Delivered), "{all:?}");
    assert_eq!(fixture.asked(), 2, "one new token for all that were refused");
    for number in 2..20 {
        fixture.revoke(&format!("t{number}"));
    }
    sleep(OLD).await;
    let (outcome, status, _) = attempt(&client).await;
    assert_eq!((outcome, status), (Outcome::Unauthorized, Some(401)), "it refuses new ones, too");
    let last = fixture.sent().split_off(fixture.sent().len() - 2);
    assert_eq!(last, [bearer("t2"), bearer("t3")], "twice, no more");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_refuses_everything_costs_no_token_for_each_request() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    for number in 0..20 {
        fixture.revoke(&format!("t{number}"));
    }
    for _ in 0..50 {
        let (outcome, status, said) = attempt(&client).await;
        assert_eq!((outcome, status), (Outcome::Unauthorized, Some(401)), "{said}");
        let probed = client.probe(request(Some(inline())), soon()).await;
        assert!(is_401(&probed.attempted));
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(fixture.asked(), 1, "a new token is not suspect");
    sleep(OLD).await;
    assert_eq!(attempt(&client).await.1, Some(401));
    assert_eq!(fixture.asked(), 2, "an old one is");
}

fn is_401(attempted: &Attempted) -> bool {
    matches!(attempted, Attempted::Answered { answer, .. } if answer.status == Some(401))
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_is_no_401_and_the_next_attempt_has_a_new_token() {
    let takes = REFUSED_WITHIN + Duration::from_secs(1);
    let fixture = Arc::new(Fixture { refusing_takes: takes, ..Fixture::default() });
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    fixture.revoke("t1");
    sleep(OLD).await;
    let (outcome, status, said) = attempt(&client).await;
    assert_eq!((outcome, status), (Outcome::EndpointAuthenticationFailed, None), "{said}");
    assert_eq!(attempt(&client).await.0, Outcome::Delivered);
    assert_eq!(fixture.sent(), [bearer("t1"), bearer("t1"), bearer("t2")]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_the_token_endpoint_is_an_outcome_of_its_own() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let unreachable = Err(HandshakeError::Unreachable("no route".to_owned()));
    let table = [
        (refusal(), "answered 400 (invalid_client)"),
        (Ok(response(401, &[], "")), "answered 401"),
        (unreachable, "gave no answer: no route"),
        (Err(HandshakeError::TimedOut(TOKEN_WAIT)), "no response within 10 s"),
        (Ok(token("a\r\nX: 1", 60)), "without a usable token"),
        (Ok(response(302, &[("location", "http://169.254.169.254/")], "")), "answered 302"),
    ];
    for (answer, want) in table {
        fixture.answers(answer);
        let (outcome, status, said) = attempt(&client).await;
        assert_eq!((outcome, status), (Outcome::EndpointAuthenticationFailed, None), "{said}");
        assert!(said.contains(want) && !said.contains("hush"), "{said}");
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(fixture.sent(), [], "nothing was sent without a token");
    assert_eq!(outcome(&client).await, Outcome::Delivered);
}

/// It says nothing about the token endpoint.
#[tokio::test(start_paused = true)]
async fn without_a_descriptor_for_a_token_no_attempt_is_made() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    fixture.answers(Err(HandshakeError::NotMade));
    assert!(matches!(client.attempt(request(Some(inline()))).await, Attempted::NotMade));
    sleep(Duration::from_secs(10)).await;
    fixture.answers(Err(HandshakeError::NotMade));
    let asked = client.exchange(handshake(9_000)).await;
    assert_eq!(asked.map(|answered| answered.status), Err(HandshakeError::NotMade));
    assert_eq!(fixture.sent(), []);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_if_no_second_request_is_made() {
    let fixture = Arc::new(Fixture { made_most: Some(2), ..Fixture::default() });
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    fixture.revoke("t1");
    sleep(OLD).await;
    assert_eq!(attempt(&client).await.1, Some(401));
    assert_eq!((fixture.asked(), fixture.sent()), (2, vec![bearer("t1"), bearer("t1")]));
}

#[tokio::test(start_paused = true)]
async fn a_token_endpoint_that_is_down_is_not_asked_for_each_event() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    for _ in 0..3 {
        fixture.answers(refusal());
    }
    for _ in 0..20 {
        let all = join_all((0..5).map(|_| outcome(&client))).await;
        assert!(all.iter().all(|one| *one == Outcome::EndpointAuthenticationFailed), "{all:?}");
        sleep(Duration::from_millis(200)).await;
    }
    assert!((2..=3).contains(&fixture.asked()), "asked {} times in 4 s", fixture.asked());
}

#[tokio::test(start_paused = true)]
async fn a_token_is_used_to_near_its_end_while_there_is_no_other() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    sleep(Duration::from_secs(3_545)).await;
    for _ in 0..3 {
        fixture.answers(refusal());
    }
    assert_eq!(outcome(&client).await, Outcome::Delivered, "it lives for 55 s");
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.asked(), 2, "another one is not asked for at each request");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.asked(), 3);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(outcome(&client).await, Outcome::EndpointAuthenticationFailed);
    assert_eq!(fixture.sent(), vec![bearer("t1"); 4]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(outcome(&client).await, Outcome::Delivered);
    assert_eq!(fixture.sent().last(), Some(&bearer("t5")));
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_leaves_the_token_to_the_others() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let gone = tokio::time::timeout(TAKES / 2, outcome(&client));
    let (gone, other) = futures::join!(gone, outcome(&client));
    assert!(gone.is_err());
    assert_eq!(other, Outcome::Delivered);
    assert_eq!(fixture.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_without_authentication_go_straight_through() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    let attempted = client.attempt(request(None)).await;
    assert!(matches!(attempted, Attempted::Answered { answer, .. } if answer.status == Some(401)));
    assert_eq!((fixture.asked(), fixture.sent()), (0, vec![None]));
}

fn handshake(wait_ms: u64) -> HandshakeRequest {
    HandshakeRequest {
        method: Method::OPTIONS,
        url: Secret::new("https://e.example/"),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: Vec::new(),
        authentication: Some(inline()),
        is_sent_once: false,
        wait: Duration::from_millis(wait_ms),
    }
}

#[tokio::test(start_paused = true)]
async fn handshakes_are_authenticated_in_the_same_way() {
    let fixture = Arc::new(Fixture::default());
    let client = client(&fixture);
    fixture.answers(refusal());
    let refused = client.exchange(handshake(9_000)).await.expect_err("no token").to_string();
    assert!(refused.contains("(invalid_client)"), "{refused}");
    sleep(Duration::from_secs(5)).await;
    // Its time includes the wait for the token.
    let late = client.exchange(handshake(20)).await.map(|answer| answer.status);
    assert_eq!(late, Err(no_token_within(0)), "it says what there was no time for");
    assert_eq!(client.exchange(handshake(9_000)).await.map(|it| it.status), Ok(200));
    fixture.revoke("t3");
    assert_eq!(client.exchange(handshake(9_000)).await.map(|it| it.status), Ok(401), "a new one");
    sleep(OLD).await;
    assert_eq!(client.exchange(handshake(9_000)).await.map(|it| it.status), Ok(200));
    assert_eq!(fixture.sent(), [bearer("t3"), bearer("t3"), bearer("t3"), bearer("t4")]);
}

fn no_token_within(seconds: u64) -> HandshakeError {
    let none = format!("none within {seconds} s");
    HandshakeError::Unauthenticated(NoToken::NoAnswer(none))
}

struct Reading(Option<&'static str>);

#[async_trait]
impl SecretReader for Reading {
    async fn read(&self, _name: &str) -> Result<Secret, PortError> {
        let reason = || PortError::new("secretsmanager:GetSecretValue", "AccessDeniedException");
        self.0.map(Secret::new).ok_or_else(reason)
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_by_reference_are_read_for_each_token_where_they_may_be_sent() {
    let named = r#"{"hosts": {"arn:s": ["id.example"]}}"#;
    let other = r#"{"hosts": {"arn:s": ["other.example"]}}"#;
    let reference = || by(ClientSecret::Reference { name: "arn:s".to_owned() });
    let table = [
        (Some("from-afar"), named, Outcome::Delivered),
        (None, named, Outcome::EndpointAuthenticationFailed),
        // The setting may have changed since the event subscription was written.
        (Some("from-afar"), other, Outcome::EndpointAuthenticationFailed),
        (Some("from-afar"), "", Outcome::EndpointAuthenticationFailed),
        // A private key is for signatures, or for certificates.
        (Some("-----BEGIN EC PRIVATE KEY-----"), named, Outcome::EndpointAuthenticationFailed),
    ];
    for (secret, allowed, want) in table {
        let fixture = Arc::new(Fixture::default());
        let client = reading(&fixture, Arc::new(Reading(secret)), allowed);
        let attempted = client.attempt(request(Some(reference()))).await;
        let Attempted::Answered { answer, response_text: said, .. } = attempted else {
            panic!("it is answered")
        };
        assert_eq!(answer.outcome, want, "{said:?}");
        let asked = fixture.asked.lock().expect("no panic").clone();
        assert!(!asked.iter().any(|body| body.contains("PRIVATE")), "{asked:?}");
        let is_sent = asked.iter().any(|body| body.ends_with("client_secret=from-afar"));
        assert_eq!(is_sent, want == Outcome::Delivered, "{asked:?}");
    }
}
