//! What a signer asks STS for, and what it makes of the answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use aws_credential_types::provider::{ProvideCredentials, future};
use gridpost_core::{
    secret::Secret,
    subscription::authentication::{SigV4, SigningAlgorithm, WebIdentity},
};
use gridpost_ports::{
    HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse,
    authentication::{AwsIdentity, Unsigned},
};
use gridpost_signing::{Credentials, Services, SharedCredentialsProvider, Signer};
use gridpost_testkit::{
    clock::VirtualClock,
    consent::response,
    sigv4::{Received, Signed, verify},
};
use tokio::time::{sleep, timeout};

const ROLE: &str = "arn:aws:iam::111122223333:role/r";

const URL: &str = "https://a.execute-api.eu-north-1.amazonaws.com/or%20ders/x?b=2&a=%2F1";

const BODY: &[u8] = br#"[{"id":"1"}]"#;

/// STS, whose calls get different credentials and tokens.
#[derive(Default)]
struct Sts {
    asked: Mutex<Vec<(String, HashMap<String, String>)>>,
    /// Its answer, if not a success.
    answers: Mutex<Option<(u16, &'static str)>>,
}

impl Sts {
    fn asked(&self) -> Vec<(String, HashMap<String, String>)> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn form(body: &[u8]) -> HashMap<String, String> {
    url::form_urlencoded::parse(body).into_owned().collect()
}

struct Shared(Arc<Sts>);

#[async_trait]
impl HandshakeClient for Shared {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let url = request.url.expose().to_owned();
        let signed = signed_by(&request);
        assert_eq!(signed.map(|it| (it.key_id, it.service)), Ok(("OWN".into(), "sts".into())));
        let form = form(&request.body);
        let action = form["Action"].clone();
        let number = {
            let mut asked = self.0.asked.lock().expect("no panic");
            asked.push((url, form));
            asked.len()
        };
        sleep(Duration::from_millis(20)).await;
        if let Some((status, answer)) = *self.0.answers.lock().expect("no panic") {
            return Ok(response(status, &[], answer));
        }
        let ends = "2999-01-01T00:00:00Z";
        let answer = match action.as_str() {
            "AssumeRole" => format!(
                "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE{number}</AccessKeyId>\
                 <SecretAccessKey>role-secret</SecretAccessKey><SessionToken>s{number}</SessionToken>\
                 <Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
            ),
            _ => format!(
                "<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>jwt{number}\
                 </WebIdentityToken><Expiration>{ends}</Expiration></GetWebIdentityTokenResult>\
                 </GetWebIdentityTokenResponse>"
            ),
        };
        Ok(response(200, &[], &answer))
    }
}

fn signed_by(request: &HandshakeRequest) -> Result<Signed, String> {
    let url = url::Url::parse(request.url.expose()).map_err(|error| error.to_string())?;
    let own = request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let added =
        request.attributes.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    let host = ("host".to_owned(), url.host_str().unwrap_or_default().to_owned());
    let headers: Vec<_> = own.chain(added).chain([host]).collect();
    let received =
        Received { method: "POST", target: url.path(), headers: &headers, body: &request.body };
    verify(received, "own-secret")
}

fn signer(sts: &Arc<Sts>, own: Option<Credentials>) -> Signer {
    let client: Arc<dyn HandshakeClient> = Arc::new(Shared(Arc::clone(sts)));
    let make = Box::new(move || Ok(Arc::clone(&client)));
    let own = own.map(SharedCredentialsProvider::new);
    let services = Services::new(own, None, Arc::new(VirtualClock::start()), make);
    Signer::new(Arc::new(services), "eu-central-1")
}

fn own() -> Option<Credentials> {
    Some(Credentials::new("OWN", "own-secret", Some("own-session".to_owned()), None, "test"))
}

fn by(role: Option<&str>) -> SigV4 {
    SigV4 { service: "execute-api".to_owned(), region: None, role: role.map(str::to_owned) }
}

fn unsigned() -> Unsigned<'static> {
    Unsigned { method: "POST", url: URL, content_type: Some("application/json"), body: BODY }
}

/// What the endpoint finds in a request that is sent with these headers.
fn found(headers: &[(String, Secret)], secret: &str, body: &[u8]) -> Result<Signed, String> {
    let mut all: Vec<_> =
        headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    let (_, rest) = URL.split_once("://").expect("a URL");
    let (host, target) = rest.split_at(rest.find('/').expect("a path"));
    all.extend(
        [("host", host), ("content-type", "application/json")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    verify(Received { method: "POST", target, headers: &all, body }, secret)
}

#[tokio::test(start_paused = true)]
async fn requests_are_signed_as_the_function_with_their_body() {
    let sts = Arc::new(Sts::default());
    let headers = signer(&sts, own()).signature(&by(None), unsigned()).await.expect("signed");
    let signed = found(&headers, "own-secret", BODY).expect("a good signature");
    assert_eq!((signed.key_id.as_str(), signed.region.as_str()), ("OWN", "eu-north-1"));
    assert_eq!(signed.session.as_deref(), Some("own-session"));
    for covered in ["content-type", "x-amz-content-sha256", "x-amz-security-token"] {
        assert!(signed.covers.iter().any(|name| name == covered), "{covered}: {signed:?}");
    }
    assert!(found(&headers, "own-secret", b"[]").is_err(), "another body");
    assert!(found(&headers, "another", BODY).is_err(), "another key");
    assert_eq!(sts.asked(), [], "nothing was asked for it");
    assert!(!format!("{headers:?}").contains("own-session"));
    let none =
        signer(&sts, None).signature(&by(None), unsigned()).await.expect_err("no credentials");
    assert_eq!(none.to_string(), "no credentials");
}

#[tokio::test(start_paused = true)]
async fn a_role_is_assumed_once_for_all_and_again_before_its_end() {
    let sts = Arc::new(Sts::default());
    let signer = signer(&sts, own());
    let key_id = async || {
        let headers = signer.signature(&by(Some(ROLE)), unsigned()).await.expect("signed");
        found(&headers, "role-secret", BODY).expect("a good signature").key_id
    };
    let (first, second, third) = tokio::join!(key_id(), key_id(), key_id());
    assert_eq!([first, second, third], ["ROLE1", "ROLE1", "ROLE1"]);
    let (url, form) = sts.asked().remove(0);
    assert_eq!(url, "https://sts.eu-central-1.amazonaws.com/");
    assert_eq!(form["RoleArn"], ROLE);
    sleep(Duration::from_secs(50 * 60)).await;
    assert_eq!(key_id().await, "ROLE1");
    sleep(Duration::from_secs(6 * 60)).await;
    assert_eq!(key_id().await, "ROLE2", "they end within five minutes");
    // A refusal ends credentials that are older than a minute, and no others.
    signer.is_refused(&by(Some(ROLE)));
    assert_eq!(key_id().await, "ROLE2");
    sleep(Duration::from_secs(61)).await;
    signer.is_refused(&by(None));
    assert_eq!(key_id().await, "ROLE2");
    signer.is_refused(&by(Some(ROLE)));
    assert_eq!(key_id().await, "ROLE3");
}

#[tokio::test(start_paused = true)]
async fn a_role_s_credentials_are_used_on_while_sts_fails() {
    let sts = Arc::new(Sts::default());
    let signer = signer(&sts, own());
    let sign = async || signer.signature(&by(Some(ROLE)), unsigned()).await.map(|_| ());
    assert_eq!(sign().await, Ok(()));
    *sts.answers.lock().expect("no panic") = Some((500, ""));
    for _ in 0..4 {
        sleep(Duration::from_secs(14 * 60 + 30)).await;
        assert_eq!(sign().await, Ok(()), "they live for an hour");
    }
    sleep(Duration::from_secs(75)).await;
    assert!(sign().await.is_err(), "a minute before their end it is over");
}

/// Gives no credentials, and no error.
#[derive(Debug)]
struct Silent(Arc<Mutex<usize>>);

impl ProvideCredentials for Silent {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        *self.0.lock().expect("no panic") += 1;
        future::ProvideCredentials::new(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_do_not_come_are_a_failure_that_is_kept() {
    let asked = Arc::default();
    let own = SharedCredentialsProvider::new(Silent(Arc::clone(&asked)));
    let make = Box::new(|| Err("no client".to_owned()));
    let services = Services::new(Some(own), None, Arc::new(VirtualClock::start()), make);
    let signer = Signer::new(Arc::new(services), "eu-central-1");
    let sign = async |role| {
        let by = by(role);
        let signed = timeout(Duration::from_secs(6), signer.signature(&by, unsigned())).await;
        signed.expect("in time").expect_err("no credentials").to_string()
    };
    assert_eq!(sign(None).await, "no credentials in time");
    *asked.lock().expect("no panic") = 0;
    let (first, second) = tokio::join!(sign(Some(ROLE)), sign(Some(ROLE)));
    assert!(first.contains("in time") && first == second, "{first} / {second}");
    assert!(sign(Some(ROLE)).await.contains("in time"));
    assert_eq!(*asked.lock().expect("no panic"), 1, "once for all who wait, and those who come");
}

#[tokio::test(start_paused = true)]
async fn what_sts_refuses_is_said_and_not_asked_for_each_event() {
    let sts = Arc::new(Sts::default());
    let signer = signer(&sts, own());
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>hush</Message></Error></ErrorResponse>";
    *sts.answers.lock().expect("no panic") = Some((403, denied));
    for _ in 0..5 {
        let refused = signer.signature(&by(Some(ROLE)), unsigned()).await.expect_err("denied");
        assert_eq!(refused.to_string(), "sts:AssumeRole answered 403 (AccessDenied)");
    }
    assert_eq!(sts.asked().len(), 1);
    sleep(Duration::from_secs(3)).await;
    *sts.answers.lock().expect("no panic") = None;
    assert!(signer.signature(&by(Some(ROLE)), unsigned()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn tokens_are_for_one_audience() {
    let sts = Arc::new(Sts::default());
    let signer = signer(&sts, own());
    let of = WebIdentity { audience: "aud".to_owned(), algorithm: SigningAlgorithm::ES384 };
    let token = signer.token(&of).await.expect("a token");
    assert_eq!(token, (Secret::new("jwt1"), Duration::from_secs(300)));
    let (url, form) = sts.asked().remove(0);
    assert_eq!(url, "https://sts.eu-central-1.amazonaws.com/", "the global one has no tokens");
    let given = ["Action", "Audience.member.1", "SigningAlgorithm", "DurationSeconds"];
    let given = given.map(|name| form[name].as_str());
    assert_eq!(given, ["GetWebIdentityToken", "aud", "ES384", "300"]);
    *sts.answers.lock().expect("no panic") = Some((
        400,
        "<ErrorResponse><Error><Code>OutboundWebIdentityFederationDisabled</Code></Error></ErrorResponse>",
    ));
    let refused = signer.token(&of).await.expect_err("it is not enabled").to_string();
    let want = "sts:GetWebIdentityToken answered 400 (OutboundWebIdentityFederationDisabled)";
    assert_eq!(refused, want);
}
