//! Each source of credentials against services on loopback, none of them in this process's own environment.

use std::sync::Mutex as StdMutex;

use serde_json::json;
use time::macros::datetime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const FAR: &str = "2999-01-01T00:00:00Z";

/// A service on loopback that keeps what it is asked.
struct Service {
    url: String,
    asked: Arc<StdMutex<Vec<String>>>,
}

impl Service {
    /// Answers with a status and a body, or for a redirect, where to. Status 0 closes the connection without an answer.
    async fn start(mut answer: impl FnMut(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(StdMutex::new(Vec::new()));
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // Requests of these tests are small enough to arrive in one piece.
                let mut buffer = vec![0; 8192];
                let length = stream.read(&mut buffer).await.expect("read");
                let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let (status, body) = answer(&request);
                kept.lock().expect("kept").push(request);
                let (length, location) = (body.len(), body.as_str());
                let location = if (300..400).contains(&status) { location } else { "" };
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: {location}\r\n\
                     content-length: {length}\r\n\r\n{body}"
                );
                if status == 0 {
                    continue;
                }
                stream.write_all(answer.as_bytes()).await.expect("written");
            }
        });
        Self { url, asked }
    }

    /// Gives these answers in turn, and the last ever after.
    async fn in_turn(answers: Vec<(u16, String)>) -> Self {
        let mut times = 0;
        let next = move |_: &str| {
            times += 1;
            answers[answers.len().min(times) - 1].clone()
        };
        Self::start(next).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("kept").clone()
    }
}

/// Answers as STS does; the key it gives is named after the role.
fn sts(request: &str) -> (u16, String) {
    let role = request.rsplit("RoleArn=").next().and_then(|rest| rest.split('&').next());
    let role = role.unwrap_or_default().rsplit("%2F").next().unwrap_or_default();
    let operation =
        if request.contains("WebIdentity") { "AssumeRoleWithWebIdentity" } else { "AssumeRole" };
    let body = format!(
        "<{operation}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{operation}Result>\
         <AssumedRoleUser><Arn>a</Arn></AssumedRoleUser><Credentials><AccessKeyId>KEY-{role}</AccessKeyId>\
         <SecretAccessKey>s/&#43;</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>{FAR}</Expiration></Credentials></{operation}Result></{operation}Response>"
    );
    (200, body)
}

fn container(_: &str) -> (u16, String) {
    let answer = json!({
        "RoleArn": "r", "AccessKeyId": "CONTAINER", "SecretAccessKey": "s", "Token": "t", "Expiration": FAR,
    });
    (200, answer.to_string())
}

fn instance(request: &str) -> (u16, String) {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let answer = match path {
        "/latest/api/token" if request.starts_with("PUT") => "instance-token".into(),
        _ if !request.contains("x-aws-ec2-metadata-token: instance-token") => return (401, String::new()),
        "/latest/meta-data/placement/region" => "eu-west-3".into(),
        "/latest/meta-data/iam/security-credentials/" => "role".into(),
        "/latest/meta-data/iam/security-credentials/role" => json!({
            "Code": "Success", "AccessKeyId": "INSTANCE", "SecretAccessKey": "s", "Token": "t", "Expiration": FAR,
        })
        .to_string(),
        _ => return (404, String::new()),
    };
    (200, answer)
}

/// A home folder with these files of the AWS CLI.
fn home(config: &str, credentials: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("folder");
    std::fs::create_dir(home.path().join(".aws")).expect("folder");
    std::fs::write(home.path().join(".aws/config"), config).expect("written");
    std::fs::write(home.path().join(".aws/credentials"), credentials).expect("written");
    home
}

fn identity(variables: &[(&str, &str)], profile: Option<&str>) -> Identity {
    let offline = [("AWS_EC2_METADATA_DISABLED", "true")];
    Identity::new(Environment::of(&[&offline, variables].concat()), profile, "eu-north-1")
}

async fn key_id(variables: &[(&str, &str)], profile: Option<&str>) -> String {
    let found = identity(variables, profile).current().await;
    found.expect("credentials").access_key_id().to_owned()
}

async fn failure(variables: &[(&str, &str)], profile: Option<&str>) -> String {
    format!("{:#}", identity(variables, profile).current().await.expect_err("no credentials"))
}

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "ENVIRONMENT"),
    ("AWS_SECRET_ACCESS_KEY", "env-secret"),
    ("AWS_SESSION_TOKEN", " env-token\n"),
];

#[tokio::test]
async fn the_environments_keys() {
    let found = identity(&KEYS, None).current().await.expect("credentials");
    assert_eq!(
        (found.secret_access_key(), found.session_token()),
        ("env-secret", Some("env-token"))
    );
    let older = [("AWS_ACCESS_KEY_ID", "OLDER"), ("SECRET_ACCESS_KEY", "s")];
    assert_eq!(key_id(&older, None).await, "OLDER");
    let half = [("AWS_ACCESS_KEY_ID", "HALF"), ("AWS_SECRET_ACCESS_KEY", " ")];
    assert_eq!(failure(&half, None).await, "no source of credentials is configured");
}

#[tokio::test]
async fn static_profiles_of_both_files() {
    let config = "[default]\nregion = eu-west-1\naws_access_key_id = NO\n[profile b]\naws_access_key_id = B\n\
                  aws_secret_access_key = s\n";
    let home = home(config, "[default]\naws_access_key_id = A\naws_secret_access_key = s/+=\n");
    let at_home = [("HOME", home.path().to_str().expect("text"))];
    assert_eq!(key_id(&at_home, None).await, "A");
    assert_eq!(key_id(&at_home, Some("b")).await, "B");
    let named = [at_home[0], ("AWS_PROFILE", "b")];
    assert_eq!(key_id(&named, None).await, "B");
    assert_eq!(key_id(&named, Some("default")).await, "A");
    assert_eq!(key_id(&named, Some("")).await, "B");
    let elsewhere = home.path().join("c");
    std::fs::write(&elsewhere, "[default]\naws_access_key_id = C\naws_secret_access_key = s")
        .expect("written");
    let elsewhere = elsewhere.to_str().expect("text");
    for (name, want) in [("AWS_SHARED_CREDENTIALS_FILE", "C"), ("AWS_CONFIG_FILE", "A")] {
        assert_eq!(key_id(&[at_home[0], (name, elsewhere)], None).await, want, "{name}");
    }
    assert_eq!(failure(&at_home, Some("x")).await, "the AWS configuration has no profile x");
}

#[tokio::test]
async fn a_profile_default_replaces_the_default_in_the_config_file_alone() {
    let both = "[profile default]\naws_access_key_id = PREFIXED\naws_secret_access_key = s\n\
                [default]\naws_access_key_id = PLAIN\naws_secret_access_key = s\n";
    for (home, want) in [(home(both, ""), "PREFIXED"), (home("", both), "PLAIN")] {
        let at_home = [("HOME", home.path().to_str().expect("text"))];
        assert_eq!(key_id(&at_home, None).await, want);
    }
}

#[tokio::test]
async fn a_home_that_is_no_folder_has_no_profiles() {
    let file = tempfile::NamedTempFile::new().expect("file");
    let at_home = [("HOME", file.path().to_str().expect("text"))];
    assert_eq!(failure(&at_home, None).await, "no source of credentials is configured");
}

#[tokio::test]
async fn a_broken_file_is_named() {
    let home = home("  region = r", "");
    let told = failure(&[("HOME", home.path().to_str().expect("text"))], None).await;
    assert!(told.contains(".aws/config: line 1: "), "{told}");
}

#[tokio::test]
async fn roles_are_assumed_in_turn_and_once() {
    let service = Service::start(sts).await;
    let config = "[profile top]\nrole_arn = arn:aws:iam::1:role/top\nsource_profile = middle\nexternal_id = e&1\n\
                  [profile middle]\nrole_arn = arn:aws:iam::1:role/middle\nsource_profile = keys\n\
                  role_session_name = me\nregion = us-east-1\n";
    let home = home(config, "[keys]\naws_access_key_id = STATIC\naws_secret_access_key = s\n");
    let variables =
        [("HOME", home.path().to_str().expect("text")), ("AWS_ENDPOINT_URL_STS", &service.url)];
    let identity = identity(&variables, Some("top"));
    let found = identity.current().await.expect("credentials");
    assert_eq!((found.access_key_id(), found.secret_access_key()), ("KEY-top", "s/+"));
    assert!(found.expiry().is_some());
    identity.clone().current().await.expect("kept");
    let asked = service.asked();
    let [middle, top] = asked.as_slice() else { panic!("{asked:?}") };
    // The session name is as configured, else ours; the signature is the caller's; the region is the named profile's or its source's.
    assert!(middle.contains("RoleSessionName=me") && !middle.contains("ExternalId"), "{middle}");
    assert!(
        middle.contains("Credential=STATIC/") && middle.contains("/us-east-1/sts/"),
        "{middle}"
    );
    assert!(top.contains("RoleSessionName=gridpost-cli&ExternalId=e%261"), "{top}");
    assert!(
        top.contains("Credential=KEY-middle/") && top.contains("x-amz-security-token: t"),
        "{top}"
    );
}

#[tokio::test]
async fn named_sources_of_a_role() {
    let service = Service::start(sts).await;
    let container = Service::start(container).await;
    let instance = Service::start(instance).await;
    let config = ["Environment", "EcsContainer", "Ec2InstanceMetadata", "Other"].map(|source| {
        format!(
            "[profile {source}]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = {source}\n"
        )
    });
    let home = home(&config.concat(), "");
    let at_home = [("HOME", home.path().to_str().expect("text"))];
    // Keys of the environment are taken before any profile is looked at, as by the AWS SDK for Rust.
    let variables = [&at_home, &KEYS[..]].concat();
    assert_eq!(key_id(&variables, Some("Environment")).await, "ENVIRONMENT");
    let variables = [
        at_home[0],
        ("AWS_ENDPOINT_URL_STS", &service.url),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container.url),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &instance.url),
        ("AWS_EC2_METADATA_DISABLED", "no"),
    ];
    for (profile, want) in [("EcsContainer", "CONTAINER"), ("Ec2InstanceMetadata", "INSTANCE")] {
        assert_eq!(key_id(&variables, Some(profile)).await, "KEY-r");
        let asked = service.asked().pop().expect("asked");
        assert!(asked.contains(&format!("Credential={want}/")), "{asked}");
    }
    let told = failure(&at_home, Some("Environment")).await;
    assert_eq!(told, "profile Environment: credential_source Environment has no credentials here");
    let told = failure(&at_home, Some("Other")).await;
    assert_eq!(told, "profile Other: there is no credential_source Other");
}

#[tokio::test]
async fn web_identities_of_environment_and_profile() {
    let service = Service::start(sts).await;
    let home = home("", "");
    let token = home.path().join("token");
    std::fs::write(&token, "jwt\n").expect("written");
    let token = token.to_str().expect("text");
    let config =
        format!("[profile web]\nrole_arn = a/of-profile\nweb_identity_token_file = {token}\n");
    std::fs::write(home.path().join(".aws/config"), config).expect("written");
    let variables = [
        ("HOME", home.path().to_str().expect("text")),
        ("AWS_ENDPOINT_URL_STS", service.url.as_str()),
        ("AWS_ROLE_ARN", "a/of-environment"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
        ("AWS_ROLE_SESSION_NAME", "pod"),
    ];
    assert_eq!(key_id(&variables, None).await, "KEY-of-environment");
    let asked = service.asked().pop().expect("asked");
    assert!(asked.contains("RoleSessionName=pod&WebIdentityToken=jwt"), "{asked}");
    assert!(!asked.contains("authorization"), "{asked}");
    assert_eq!(key_id(&variables, Some("web")).await, "KEY-of-profile");
}

#[tokio::test]
async fn container_and_instance() {
    let container = Service::start(container).await;
    let instance = Service::start(instance).await;
    let of_instance = [
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", instance.url.as_str()),
        ("AWS_EC2_METADATA_DISABLED", "false"),
    ];
    assert_eq!(key_id(&of_instance, None).await, "INSTANCE");
    let environment = Environment::of(&of_instance);
    assert_eq!(region(&environment, None).await.expect("read").as_deref(), Some("eu-west-3"));
    let folder = tempfile::tempdir().expect("folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "container-token\n").expect("written");
    let of_container = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().expect("text")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "no"),
    ];
    assert_eq!(key_id(&[&of_container[..], &of_instance].concat(), None).await, "CONTAINER");
    let asked = container.asked().pop().expect("asked");
    assert!(asked.contains("authorization: container-token\r\n"), "{asked}");
}

#[tokio::test]
async fn earlier_sources_win_and_a_failure_ends_the_search() {
    let service = Service::start(sts).await;
    let refusing = Service::start(|_| (403, "<html>".into())).await;
    let container = Service::start(container).await;
    let home = home("", "[default]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n");
    let token = home.path().join("token");
    std::fs::write(&token, "jwt").expect("written");
    let web = [
        ("AWS_ENDPOINT_URL_STS", service.url.as_str()),
        ("AWS_ROLE_ARN", "a/web"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().expect("text")),
    ];
    let container = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url.as_str())];
    let at_home = [("HOME", home.path().to_str().expect("text"))];
    let all = [&KEYS[..], &at_home, &web, &container].concat();
    for (passed_over, want) in
        [(0, "ENVIRONMENT"), (3, "PROFILE"), (4, "KEY-web"), (7, "CONTAINER")]
    {
        assert_eq!(key_id(&all[passed_over..], None).await, want);
    }
    // A profile that is named does not win over the environment's keys; one that is not there is passed over.
    assert_eq!(key_id(&all, Some("default")).await, "ENVIRONMENT");
    assert_eq!(key_id(&all[3..], Some("absent")).await, "KEY-web");
    let refused =
        [&[("AWS_ENDPOINT_URL_STS", refusing.url.as_str())], &web[1..], &container].concat();
    let want = "role a/web: sts:AssumeRoleWithWebIdentity was refused: HTTP 403: <html>";
    assert_eq!(failure(&refused, None).await, want);
}

#[tokio::test]
async fn the_region_is_the_environments_then_the_profiles() {
    let home = home("[default]\nregion = eu-west-1\n[profile b]\nregion = eu-west-2\n", "");
    let at_home = ("HOME", home.path().to_str().expect("text"));
    let off = ("AWS_EC2_METADATA_DISABLED", "TRUE");
    let (one, two) = (("AWS_REGION", "us-east-1"), ("AWS_DEFAULT_REGION", "us-east-2"));
    for (variables, profile, want) in [
        (vec![at_home, two, one], None, Some("us-east-1")),
        (vec![at_home, two], Some("b"), Some("us-east-2")),
        (vec![at_home], Some("b"), Some("eu-west-2")),
        (vec![at_home, ("AWS_PROFILE", "b")], None, Some("eu-west-2")),
        (vec![at_home], None, Some("eu-west-1")),
        (vec![off], None, None),
    ] {
        let found = region(&Environment::of(&variables), profile).await.expect("read");
        assert_eq!(found.as_deref(), want, "{variables:?}");
    }
}

#[tokio::test]
async fn trouble_of_the_service_is_waited_out() {
    let service =
        Service::in_turn(vec![(0, String::new()), (503, String::new()), container("")]).await;
    assert_eq!(
        key_id(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url)], None).await,
        "CONTAINER"
    );
    let token = tempfile::NamedTempFile::new().expect("file");
    for code in
        ["Throttling", "ThrottlingException", "RequestLimitExceeded", "IDPCommunicationError"]
    {
        let refusal = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>m</Message></Error></ErrorResponse>"
        );
        let service = Service::in_turn(vec![(400, refusal), sts("RoleArn=r")]).await;
        let variables = [
            ("AWS_ENDPOINT_URL_STS", service.url.as_str()),
            ("AWS_ROLE_ARN", "r"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.path().to_str().expect("text")),
        ];
        assert_eq!(key_id(&variables, None).await, "KEY-r", "{code}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let token = tempfile::NamedTempFile::new().expect("file");
    for status in [302, 307] {
        let other = Service::start(container).await;
        let elsewhere = other.url.clone();
        let service = Service::start(move |request| match request.starts_with("PUT") {
            true => (200, "instance-token".into()),
            false => (status, elsewhere.clone()),
        });
        let url = service.await.url;
        let container = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t"),
        ];
        let instance = [
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str()),
            ("AWS_EC2_METADATA_DISABLED", "no"),
        ];
        let web = [
            ("AWS_ENDPOINT_URL_STS", url.as_str()),
            ("AWS_ROLE_ARN", "r"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.path().to_str().expect("text")),
        ];
        for variables in [&container[..], &instance, &web] {
            let told = failure(variables, None).await;
            assert!(told.contains(&format!("HTTP {status}")), "{told}");
        }
        assert!(other.asked().is_empty(), "{:?}", other.asked());
    }
}

#[tokio::test]
async fn a_failed_refresh_leaves_what_has_not_expired() {
    for (seconds, want) in [(60, true), (-1, false)] {
        let expiry = clock::rfc3339(clock::now() + time::Duration::seconds(seconds));
        let (status, answer) = container("");
        let answers = vec![(status, answer.replace(FAR, &expiry)), (403, String::new())];
        let service = Service::in_turn(answers).await;
        let identity = identity(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url)], None);
        identity.current().await.expect("fetched");
        assert_eq!(identity.current().await.is_ok(), want, "{seconds}");
        assert_eq!(service.asked().len(), 2);
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_told_without_its_url() {
    let service = Service::in_turn(vec![(0, String::new())]).await;
    let url = format!("{}/?secret", service.url);
    let told = failure(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)], None).await;
    assert!(told.starts_with("the container's credentials got no answer: "), "{told}");
    assert!(!told.contains("secret"), "{told}");
    let on = ("AWS_EC2_METADATA_DISABLED", "no");
    let instance = |url| [on, ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)];
    let asked = service.asked().len();
    let told = failure(&instance(&service.url), None).await;
    assert_eq!(told, "no source of credentials is configured");
    // Whether there is an instance is asked once.
    assert_eq!(service.asked().len(), asked + 1);
    let told = failure(&instance("169.254.169.254"), None).await;
    assert!(told.starts_with("AWS_EC2_METADATA_SERVICE_ENDPOINT is not a URL"), "{told}");
}

#[tokio::test]
async fn a_machine_without_metadata_is_told_apart_soon() {
    // Takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let variables =
        [("AWS_EC2_METADATA_DISABLED", ""), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    let since = tokio::time::Instant::now();
    assert_eq!(failure(&variables, None).await, "no source of credentials is configured");
    assert!(since.elapsed() < Duration::from_secs(3));
}

#[test]
fn credentials_are_kept_until_shortly_before_their_expiry() {
    let expiring =
        |expiry| session("i".into(), "s".into(), "t".into(), expiry).expect("credentials");
    let now = datetime!(2030-01-01 00:00:00 UTC);
    for (expiry, want) in [("2030-01-01T00:03:00Z", true), ("2030-01-01T00:01:59.5Z", false)] {
        assert_eq!(outlasts(&expiring(expiry), now + MARGIN), want, "{expiry}");
    }
    assert!(outlasts(&Credentials::new("i", "s", None, None, "t"), now));
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let identity = identity(&KEYS, Some("p"));
    identity.current().await.expect("credentials");
    let shown = format!("{identity:?} {:?}", identity.environment);
    assert!(shown.contains('p') && !shown.contains("env-"), "{shown}");
}
