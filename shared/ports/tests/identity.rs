//! Requests that prove an AWS identity.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    delivery::{probe::Stage, request::Request},
    endpoint::{identities::Identities, secrets::ClientSecrets},
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::authentication::{
        Authentication, Client, ClientCredentials, ClientSecret, Grant, SigV4, SigningAlgorithm,
        WebIdentity, token::NoToken,
    },
    time::Timestamp,
};
use gridpost_ports::{
    Attempted, Clock, EndpointClient, HandshakeClient, HandshakeError, HandshakeRequest,
    HandshakeResponse,
    authentication::{Authenticated, AwsIdentity, NoSecrets, Tokens, Unsigned},
};
use gridpost_testkit::{clock::VirtualClock, consent::response};
use http::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

const NAMED: &str = r#"{"own": ["own.example"], "roles": {"arn:r": ["role.example"]},
    "audiences": {"aud": ["bearer.example", "login.microsoftonline.com"]}}"#;

/// AWS, Entra ID, and an endpoint that answers one status.
struct Fixture {
    clock: VirtualClock,
    status: Mutex<u16>,
    fails: Mutex<Option<&'static str>>,
    is_silent: Mutex<bool>,
    /// Signed requests and token requests.
    asked: Mutex<Vec<String>>,
    /// Requests: the host, and `authorization`.
    sent: Mutex<Vec<(String, String)>>,
    refused: Mutex<usize>,
}

impl Fixture {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: VirtualClock::start(),
            status: Mutex::new(200),
            fails: Mutex::default(),
            is_silent: Mutex::default(),
            asked: Mutex::default(),
            sent: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    async fn answers(&self) {
        if *self.is_silent.lock().expect("no panic") {
            std::future::pending().await
        }
    }

    fn ask(&self, what: String) -> Result<usize, NoToken> {
        let mut asked = self.asked.lock().expect("no panic");
        asked.push(what);
        match *self.fails.lock().expect("no panic") {
            Some(why) => Err(NoToken::Aws(why.to_owned())),
            None => Ok(asked.len()),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }

    fn sent(&self) -> Vec<(String, String)> {
        self.sent.lock().expect("no panic").clone()
    }

    fn note(&self, url: &Secret, attributes: &[(String, Secret)]) -> u16 {
        let found = attributes.iter().find(|(name, _)| name == "authorization");
        let found = found.map(|(_, value)| value.expose().to_owned()).unwrap_or_default();
        let host = url.expose().split('/').nth(2).unwrap_or_default().to_owned();
        self.sent.lock().expect("no panic").push((host, found));
        *self.status.lock().expect("no panic")
    }
}

struct Shared(Arc<Fixture>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }
}

#[async_trait]
impl AwsIdentity for Shared {
    async fn signature(
        &self,
        by: &SigV4,
        request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken> {
        self.0.answers().await;
        let Unsigned { method, content_type, body, .. } = request;
        let body = String::from_utf8_lossy(body);
        let what = format!("{} {method} {} {body}", by.service, content_type.unwrap_or("-"));
        let number = self.0.ask(what)?;
        Ok(vec![("authorization".to_owned(), Secret::new(format!("signature {number}")))])
    }

    async fn token(&self, of: &WebIdentity) -> Result<(Secret, Duration), NoToken> {
        self.0.answers().await;
        let number = self.0.ask(format!("token for {}", of.audience))?;
        sleep(Duration::from_millis(20)).await;
        Ok((Secret::new(format!("jwt{number}")), Duration::from_secs(300)))
    }

    fn is_refused(&self, _by: &SigV4) {
        *self.0.refused.lock().expect("no panic") += 1;
    }
}

#[async_trait]
impl EndpointClient for Shared {
    async fn attempt(&self, request: Request) -> Attempted {
        Answer::of_status(self.0.note(&request.url, &request.attributes), None).into()
    }
}

#[async_trait]
impl HandshakeClient for Shared {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        if request.url.expose().starts_with("https://login.microsoftonline.com/") {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let number = self.0.ask(body).expect("Entra ID has no trouble");
            let answer = json!({"access_token": format!("entra{number}"), "expires_in": 3_600});
            return Ok(response(200, &[], &answer.to_string()));
        }
        Ok(response(self.0.note(&request.url, &request.attributes), &[], ""))
    }
}

fn client(fixture: &Arc<Fixture>, named: &str) -> Authenticated<Shared> {
    let shared = || Arc::new(Shared(Arc::clone(fixture)));
    let none = ClientSecrets::default();
    let tokens = Tokens::new(shared(), Arc::new(NoSecrets), none, shared());
    let named: Identities = named.parse().expect("a setting");
    let tokens = tokens.proving(shared(), named);
    Authenticated::new(Shared(Arc::clone(fixture)), Arc::new(tokens))
}

fn sigv4(role: Option<&str>) -> Authentication {
    let (service, region) = ("execute-api".to_owned(), Some("eu-north-1".to_owned()));
    Authentication::AwsSigV4(SigV4 { service, region, role: role.map(str::to_owned) })
}

fn web_identity() -> WebIdentity {
    WebIdentity { audience: "aud".to_owned(), algorithm: SigningAlgorithm::RS256 }
}

fn entra() -> Authentication {
    let grant = Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() };
    let secret = ClientSecret::AwsWebIdentity(web_identity());
    let client = Client::Own { id: "c".to_owned(), secret };
    Authentication::ClientCredentials(ClientCredentials { grant, client })
}

fn bearer() -> Authentication {
    Authentication::AwsWebIdentity(web_identity())
}

fn request(by: &Authentication, host: &str) -> Request {
    Request {
        url: Secret::new(format!("https://{host}/hook?key=hush")),
        headers: vec![("content-type", "application/json".to_owned())],
        attributes: Vec::new(),
        body: b"[1]".to_vec(),
        authentication: Some(Arc::new(by.clone())),
        reads_results: false,
    }
}

async fn attempt(
    client: &Authenticated<Shared>,
    by: &Authentication,
    host: &str,
) -> (Outcome, Option<u16>, String) {
    match client.attempt(request(by, host)).await {
        Attempted::Answered { answer, response_text: said, .. } => {
            (answer.outcome, answer.status, said.unwrap_or_default())
        }
        _ => panic!("it is answered at once"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_signed_anew_and_a_refusal_counts_at_once() {
    let fixture = Fixture::new();
    let client = client(&fixture, NAMED);
    assert_eq!(attempt(&client, &sigv4(None), "own.example").await.0, Outcome::Delivered);
    assert_eq!(attempt(&client, &sigv4(Some("arn:r")), "role.example").await.0, Outcome::Delivered);
    assert_eq!(fixture.asked(), ["execute-api POST application/json [1]"; 2]);
    assert_eq!(*fixture.refused.lock().expect("no panic"), 0);
    for (status, outcome) in [(401, Outcome::Unauthorized), (403, Outcome::Forbidden)] {
        *fixture.status.lock().expect("no panic") = status;
        let met = attempt(&client, &sigv4(None), "own.example").await;
        assert_eq!((met.0, met.1), (outcome, Some(status)));
    }
    assert_eq!(*fixture.refused.lock().expect("no panic"), 2, "each is noted");
    let by = sigv4(Some("arn:r"));
    client.probe(request(&by, "role.example"), soon()).await;
    assert_eq!(*fixture.refused.lock().expect("no panic"), 3, "a probe's, too");
    let answered = client.exchange(handshake(&by, "role.example")).await;
    assert_eq!(answered.map(|answer| answer.status), Ok(403));
    assert_eq!(*fixture.refused.lock().expect("no panic"), 4, "and a handshake's");
    let sent: Vec<_> = fixture.sent().into_iter().map(|(_, sent)| sent).collect();
    let want: Vec<_> = (1..=6).map(|number| format!("signature {number}")).collect();
    assert_eq!(sent, want);
}

#[tokio::test(start_paused = true)]
async fn an_identity_is_proven_only_where_the_deployment_still_says_so() {
    let host = |named: &'static str, other: &'static str| [(named, true), (other, false)];
    let table = [
        (sigv4(None), host("own.example", "evil.example")),
        (sigv4(Some("arn:r")), host("role.example", "own.example")),
        (bearer(), host("bearer.example", "own.example")),
        (entra(), host("bearer.example", "own.example")),
    ];
    for (by, hosts) in table {
        for (host, is_named) in hosts {
            for (setting, may) in [(NAMED, is_named), ("", false)] {
                let fixture = Fixture::new();
                let (outcome, status, said) = attempt(&client(&fixture, setting), &by, host).await;
                let sent = fixture.sent().len();
                if may {
                    assert_eq!((outcome, sent), (Outcome::Delivered, 1), "{by:?} {host}: {said}");
                    continue;
                }
                let want = (Outcome::EndpointAuthenticationFailed, None);
                assert_eq!((outcome, status), want, "{by:?} {host}: {said}");
                assert_eq!((fixture.asked().len(), sent), (0, 0), "{by:?} {host}: {said}");
                assert!(said.contains("deployment") && !said.contains("hush"), "{said}");
                let probed = client(&fixture, setting).probe(request(&by, host), soon()).await;
                let stage = probed.failure.map(|failure| failure.stage);
                assert_eq!(stage, Some(Stage::Identity), "{by:?} {host}");
                let handshake = client(&fixture, setting).exchange(handshake(&by, host)).await;
                let refused = handshake.expect_err("not named").to_string();
                assert!(refused.contains("can't be authenticated"), "{refused}");
                assert_eq!((fixture.asked().len(), fixture.sent().len()), (0, 0));
            }
        }
    }
    let fixture = Fixture::new();
    let shared = || Arc::new(Shared(Arc::clone(&fixture)));
    let tokens = Tokens::new(shared(), Arc::new(NoSecrets), ClientSecrets::default(), shared());
    let client = Authenticated::new(Shared(Arc::clone(&fixture)), Arc::new(tokens));
    for (by, host) in [(sigv4(None), "own.example"), (bearer(), "bearer.example")] {
        let (outcome, _, said) = attempt(&client, &by, host).await;
        assert_eq!(outcome, Outcome::EndpointAuthenticationFailed);
        assert!(said.contains("deployment"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_aws_is_an_outcome_of_its_own() {
    let table =
        [(sigv4(None), "own.example"), (bearer(), "bearer.example"), (entra(), "bearer.example")];
    for (by, host) in table {
        let fixture = Fixture::new();
        let client = client(&fixture, NAMED);
        *fixture.fails.lock().expect("no panic") =
            Some("sts:AssumeRole answered 403 (AccessDenied)");
        let (outcome, status, said) = attempt(&client, &by, host).await;
        assert_eq!((outcome, status), (Outcome::EndpointAuthenticationFailed, None));
        assert_eq!(said, "sts:AssumeRole answered 403 (AccessDenied)");
        assert_eq!(fixture.sent(), [], "nothing was sent");
        *fixture.fails.lock().expect("no panic") = None;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(attempt(&client, &by, host).await.0, Outcome::Delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_of_aws_are_kept_and_renewed_once_like_others() {
    let fixture = Fixture::new();
    let client = client(&fixture, NAMED);
    let by = bearer();
    let all = join_all((0..20).map(|_| attempt(&client, &by, "bearer.example"))).await;
    assert!(all.iter().all(|met| met.0 == Outcome::Delivered), "{all:?}");
    assert_eq!(fixture.asked(), ["token for aud"], "all wait for one");
    sleep(Duration::from_secs(200)).await;
    attempt(&client, &bearer(), "bearer.example").await;
    assert_eq!(fixture.asked().len(), 1);
    sleep(Duration::from_secs(60)).await;
    attempt(&client, &bearer(), "bearer.example").await;
    assert_eq!(fixture.asked().len(), 2, "it ends within a minute");
    *fixture.status.lock().expect("no panic") = 401;
    sleep(Duration::from_secs(61)).await;
    let met = attempt(&client, &bearer(), "bearer.example").await;
    assert_eq!((met.0, met.1), (Outcome::Unauthorized, Some(401)));
    let sent: Vec<_> = fixture.sent().into_iter().map(|(_, sent)| sent).collect();
    assert_eq!(sent[sent.len() - 2..], ["Bearer jwt2", "Bearer jwt3"], "twice, no more");
}

#[tokio::test(start_paused = true)]
async fn entra_id_gets_a_token_of_aws_instead_of_a_secret() {
    let fixture = Fixture::new();
    let client = client(&fixture, NAMED);
    for _ in 0..3 {
        assert_eq!(attempt(&client, &entra(), "bearer.example").await.0, Outcome::Delivered);
    }
    let asked = fixture.asked();
    assert_eq!((asked.len(), asked[0].as_str()), (2, "token for aud"), "{asked:?}");
    let want = "client_id=c&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type\
                %3Ajwt-bearer&client_assertion=jwt1";
    assert!(asked[1].contains(want) && !asked[1].contains("client_secret"), "{}", asked[1]);
    assert!(fixture.sent().iter().all(|(_, sent)| sent == "Bearer entra2"), "{:?}", fixture.sent());
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(26)
}

fn handshake(by: &Authentication, host: &str) -> HandshakeRequest {
    HandshakeRequest {
        method: Method::OPTIONS,
        url: Secret::new(format!("https://{host}/hook")),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: Vec::new(),
        authentication: Some(Arc::new(by.clone())),
        is_sent_once: false,
        wait: Duration::from_secs(9),
    }
}

#[tokio::test(start_paused = true)]
async fn probes_are_authenticated_like_attempts() {
    let fixture = Fixture::new();
    let client = client(&fixture, NAMED);
    for (by, host) in
        [(sigv4(None), "own.example"), (bearer(), "bearer.example"), (entra(), "bearer.example")]
    {
        let probed = client.probe(request(&by, host), soon()).await;
        assert_eq!(probed.failure, None, "{by:?}");
    }
    let sent: Vec<_> = fixture.sent().into_iter().map(|(_, sent)| sent).collect();
    assert_eq!(sent, ["signature 1", "Bearer jwt2", "Bearer entra4"]);
    *fixture.fails.lock().expect("no panic") = Some("sts is down");
    let probed = client.probe(request(&sigv4(None), "own.example"), soon()).await;
    assert_eq!(probed.failure.map(|it| it.says).as_deref(), Some("sts is down"));
}

#[tokio::test(start_paused = true)]
async fn aws_is_named_when_it_does_not_answer_in_time() {
    for (by, host, what) in [
        (sigv4(None), "own.example", "AWS gave no credentials within"),
        (bearer(), "bearer.example", "AWS gave no token within"),
    ] {
        let fixture = Fixture::new();
        *fixture.is_silent.lock().expect("no panic") = true;
        let client = client(&fixture, NAMED);
        let (outcome, _, said) = attempt(&client, &by, host).await;
        assert_eq!(outcome, Outcome::EndpointAuthenticationFailed);
        assert_eq!(said, format!("{what} 15 s"));
        let failure = client.probe(request(&by, host), soon()).await.failure.expect("a failure");
        assert_eq!((failure.stage, failure.says), (Stage::Identity, format!("{what} 15 s")));
        let late = client.exchange(handshake(&by, host)).await.expect_err("no identity");
        assert!(late.to_string().contains(&format!("{what} 9 s")), "{late}");
    }
}

#[tokio::test(start_paused = true)]
async fn handshakes_are_signed_as_what_they_are() {
    let fixture = Fixture::new();
    let client = client(&fixture, NAMED);
    let answered = client.exchange(handshake(&sigv4(None), "own.example")).await;
    assert_eq!(answered.map(|it| it.status), Ok(200));
    assert_eq!(fixture.asked(), ["execute-api OPTIONS - "]);
    let answered = client.exchange(handshake(&bearer(), "bearer.example")).await;
    assert_eq!(answered.map(|it| it.status), Ok(200));
    let sent: Vec<_> = fixture.sent().into_iter().map(|(_, sent)| sent).collect();
    assert_eq!(sent, ["signature 1", "Bearer jwt2"]);
    *fixture.fails.lock().expect("no panic") = Some("sts is down");
    let refused = client.exchange(handshake(&sigv4(None), "own.example")).await;
    let refused = refused.expect_err("nothing is signed").to_string();
    assert!(refused.ends_with("can't be authenticated: sts is down"), "{refused}");
}
