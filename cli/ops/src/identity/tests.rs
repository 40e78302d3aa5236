//! Each source of credentials against services on loopback. Nothing changes this process's own
//! environment.

mod errors;
mod fixture;

use std::env;

use fixture::{
    FAR, Home, Service, answers, container, instance, key_id, search, sign_in, sso, sts,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::signing::Signer;

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "ENVIRONMENT"),
    ("AWS_SECRET_ACCESS_KEY", "env-secret"),
    ("AWS_SESSION_TOKEN", " env-token\n"),
];

const STS: &str = "AWS_ENDPOINT_URL_STS";
const CONTAINER: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const ON: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "false");
const INSTANCE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

#[tokio::test]
async fn the_environments_keys() {
    assert_eq!(search(&KEYS, None).await, "ENVIRONMENT env-secret env-token");
    // They count also where the configuration can't be read.
    let home = Home::new("broken", "");
    assert_eq!(key_id(&[&KEYS[..], &[home.variable()]].concat(), None).await, "ENVIRONMENT");
}

#[tokio::test]
async fn static_profiles_of_both_files() {
    let config = "[default]\naws_access_key_id = NO\n[profile b]\naws_access_key_id = B\n\
                  aws_secret_access_key = s\naws_session_token = token\n";
    let home =
        Home::new(config, "[default]\naws_access_key_id = A\naws_secret_access_key = s/+=\n");
    let at_home = [home.variable()];
    let of_b = [at_home[0], ("AWS_PROFILE", "b")];
    for (variables, profile, want) in [
        (&at_home[..], None, "A s/+= -"),
        (&at_home, Some("b"), "B s token"),
        (&of_b, None, "B s token"),
        (&of_b, Some("default"), "A s/+= -"),
        // A blank name counts as no name.
        (&of_b, Some(""), "B s token"),
        (&[at_home[0], ("AWS_PROFILE", "")], None, "A s/+= -"),
    ] {
        assert_eq!(search(variables, profile).await, want, "{variables:?} {profile:?}");
    }
    let other = home.write("c", "[default]\naws_access_key_id = C\naws_secret_access_key = s");
    for (name, want) in [("AWS_SHARED_CREDENTIALS_FILE", "C"), ("AWS_CONFIG_FILE", "A")] {
        assert_eq!(key_id(&[at_home[0], (name, &other)], None).await, want, "{name}");
    }
}

#[tokio::test]
async fn roles_are_assumed_in_turn_and_once() {
    let service = Service::start(sts).await;
    let config = format!(
        "[profile top]\nrole_arn = arn:aws:iam::1:role/top\nsource_profile = middle\n\
         external_id = e&1\nendpoint_url = {}\n\
         [profile middle]\nrole_arn = arn:aws:iam::1:role/middle\n\
         source_profile = keys\nrole_session_name = me\nregion = us-east-1\n",
        service.url
    );
    let home =
        Home::new(&config, "[keys]\naws_access_key_id = STATIC\naws_secret_access_key = s\n");
    let found = answers("search search", &[home.variable()], Some("top")).await;
    assert_eq!(found, ["KEY-top s/+ t"; 2]);
    let requests = service.requests();
    let [middle, top] = requests.as_slice() else { panic!("{requests:?}") };
    // The signature is the caller's; the region is the named profile's or its source's.
    assert!(middle.contains("RoleSessionName=me") && !middle.contains("ExternalId"), "{middle}");
    assert!(
        middle.contains("Credential=STATIC/") && middle.contains("/us-east-1/sts/"),
        "{middle}"
    );
    assert!(top.contains("ExternalId=e%261"), "{top}");
    assert!(top.contains("Credential=KEY-middle/"), "{top}");
    assert!(top.contains("x-amz-security-token: t"), "{top}");
}

#[tokio::test]
async fn named_sources_of_a_role() {
    let service = Service::start(sts).await;
    let container = Service::start(container).await;
    let instance = Service::start(instance).await;
    let config = ["Environment", "EcsContainer", "Ec2InstanceMetadata"].map(|source| {
        format!(
            "[profile {source}]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = {source}\n"
        )
    });
    let home = Home::new(&config.concat(), "");
    // Keys of the environment are taken before any profile is looked at.
    let variables = [&[home.variable()], &KEYS[..]].concat();
    assert_eq!(key_id(&variables, Some("Environment")).await, "ENVIRONMENT");
    let services = [(STS, &service.url), (CONTAINER, &container.url), (INSTANCE, &instance.url)];
    let services = services.map(|(name, url)| (name, url.as_str()));
    let variables = [&[home.variable(), ON], &services[..]].concat();
    for (profile, want) in [("EcsContainer", "CONTAINER"), ("Ec2InstanceMetadata", "INSTANCE")] {
        assert_eq!(key_id(&variables, Some(profile)).await, "KEY-r");
        let request = service.last();
        assert!(request.contains(&format!("Credential={want}/")), "{request}");
    }
}

#[tokio::test]
async fn web_identities_of_environment_and_profile() {
    let service = Service::start(sts).await;
    let home = Home::new("", "");
    let token = home.write("token", "jwt");
    let role =
        format!("[profile web]\nrole_arn = a/of-profile\nweb_identity_token_file = {token}\n");
    home.write(".aws/config", &role);
    let variables = [
        home.variable(),
        (STS, &service.url),
        ("AWS_ROLE_ARN", "a/of-environment"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("AWS_ROLE_SESSION_NAME", "pod"),
    ];
    assert_eq!(key_id(&variables, None).await, "KEY-of-environment");
    let request = service.last();
    assert!(request.contains("RoleSessionName=pod&WebIdentityToken=jwt"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
    assert_eq!(key_id(&variables, Some("web")).await, "KEY-of-profile");
}

/// The names of cached tokens are the SHA-1 of the session's name or of the start URL.
const OF_SESSION: &str = ".aws/sso/cache/34c6fceca75e456f25e7e99531e2425c6c1de443.json";
const OF_START_URL: &str = ".aws/sso/cache/22f00c6461897f7c3e293d9d99f86e5efed957dd.json";

/// Profiles `sso` and `legacy`, the two forms of IAM Identity Center, and a role of the first.
const SSO_PROFILES: &str = "[profile sso]\nsso_session = dev\nsso_account_id = 012345678901\n\
    sso_role_name = R\n[sso-session dev]\nsso_region = us-east-1\n\
    sso_start_url = https://d-abc.awsapps.com/start\n\
    [profile legacy]\nsso_account_id = 012345678901\nsso_role_name = R\nsso_region = us-east-1\n\
    sso_start_url = https://d-abc.awsapps.com/start\n\
    [profile of-sso]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = sso\n";

#[tokio::test]
async fn both_forms_of_identity_center() {
    let (center, sts) = (Service::start(sso).await, Service::start(sts).await);
    let home = Home::new(SSO_PROFILES, "");
    let token = json!({"accessToken": "token", "expiresAt": FAR}).to_string();
    home.write(OF_SESSION, &token);
    home.write(OF_START_URL, &token);
    let variables = [home.variable(), ("AWS_ENDPOINT_URL_SSO", &center.url), (STS, &sts.url)];
    for profile in ["sso", "legacy"] {
        assert_eq!(search(&variables, Some(profile)).await, "SSO s t");
        let request = center.last();
        assert!(request.contains("role_name=R&account_id=012345678901"), "{request}");
        assert!(request.contains("x-amz-sso_bearer_token: token\r\n"), "{request}");
    }
    assert_eq!(key_id(&variables, Some("of-sso")).await, "KEY-r");
    let request = sts.last();
    assert!(request.contains("Credential=SSO/"), "{request}");
}

#[tokio::test]
async fn an_expired_token_of_identity_center_is_renewed_and_kept() {
    let service = Service::start(sso).await;
    let home = Home::new(SSO_PROFILES, "");
    let token = json!({"accessToken": "old", "expiresAt": "2020-01-01T00:00:00Z",
        "refreshToken": "refresh", "clientId": "id", "clientSecret": "secret",
        "registrationExpiresAt": FAR});
    home.write(OF_SESSION, &token.to_string());
    let variables = [home.variable(), ("AWS_ENDPOINT_URL", &service.url)];
    assert_eq!(key_id(&variables, Some("sso")).await, "SSO");
    let requests = service.requests();
    let [renewal, request] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(renewal.contains(r#""refreshToken":"refresh""#), "{renewal}");
    assert!(request.contains("x-amz-sso_bearer_token: renewed\r\n"), "{request}");
    let kept: Value = serde_json::from_str(&home.read(OF_SESSION)).expect("JSON");
    assert_eq!((&kept["accessToken"], &kept["refreshToken"]), (&json!("renewed"), &json!("next")));
}

const USER: &str = "arn:aws:iam::012345678901:user/Admin";

/// The key that the AWS SDK for Rust shows in its own source as an example.
const DPOP_KEY: &str = "-----BEGIN EC PRIVATE KEY-----\n\
    MHcCAQEEIFDZHUzOG1Pzq+6F0mjMlOSp1syN9LRPBuHMoCFXTcXhoAoGCCqGSM49\n\
    AwEHoUQDQgAE9qhj+KtcdHj1kVgwxWWWw++tqoh7H7UHs7oXh8jBbgF47rrYGC+t\n\
    djiIaHK3dBvvdE7MGj5HsepzLm3Kj91bqA==\n-----END EC PRIVATE KEY-----\n";

/// A home folder with a login session that has expired and can be renewed, and the session's file.
fn login() -> (Home, String) {
    let home = Home::new(&format!("[profile login]\nlogin_session = {USER}\nregion = r\n"), "");
    let hash: String = Sha256::digest(USER).iter().map(|byte| format!("{byte:02x}")).collect();
    let file = format!(".aws/login/cache/{hash}.json");
    let session = json!({
        "accessToken": {"accessKeyId": "OLD", "secretAccessKey": "s", "sessionToken": "t",
            "accountId": "012345678901", "expiresAt": "2020-01-01T00:00:00Z"},
        "tokenType": "aws_sigv4", "clientId": "arn:aws:signin:::devtools/same-device",
        "refreshToken": "refresh", "idToken": "i", "dpopKey": DPOP_KEY,
    });
    home.write(&file, &session.to_string());
    (home, file)
}

#[tokio::test]
async fn a_login_session_is_renewed_and_kept() {
    let service = Service::start(sign_in).await;
    let (home, file) = login();
    let variables = [home.variable(), ("AWS_ENDPOINT_URL_SIGNIN", &service.url)];
    for _ in 0..2 {
        assert_eq!(search(&variables, Some("login")).await, "LOGIN s t");
    }
    let requests = service.requests();
    let [renewal] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(
        renewal.contains("dpop: ") && renewal.contains(r#""refreshToken":"refresh""#),
        "{renewal}"
    );
    let kept: Value = serde_json::from_str(&home.read(&file)).expect("JSON");
    assert_eq!(kept["refreshToken"], "next");
}

#[tokio::test]
async fn a_process_of_the_profile() {
    let answer = json!({"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "s",
        "SessionToken": "t"});
    let home = Home::new(&format!("[default]\ncredential_process = echo '{answer}'\n"), "");
    assert_eq!(search(&[home.variable()], None).await, "PROCESS s t");
}

#[tokio::test]
async fn container_and_instance() {
    let container = Service::start(container).await;
    let instance = Service::start(instance).await;
    let of_instance = [(INSTANCE, instance.url.as_str()), ON];
    assert_eq!(answers("search region", &of_instance, None).await, ["INSTANCE s t", "eu-west-3"]);
    let home = Home::new("", "");
    let token = home.write("token", "container-token");
    let of_container = [
        (CONTAINER, container.url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "no"),
    ];
    assert_eq!(key_id(&[&of_container[..], &of_instance].concat(), None).await, "CONTAINER");
    let request = container.last();
    assert!(request.contains("authorization: container-token\r\n"), "{request}");
    // Loopback does not have the address of ECS, so a proxy answers for it.
    let relative =
        [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"), ("HTTP_PROXY", &container.url)];
    assert_eq!(key_id(&relative, None).await, "CONTAINER");
    let request = container.last();
    assert!(request.starts_with("GET http://169.254.170.2/v2/x "), "{request}");
}

#[tokio::test]
async fn earlier_sources_win_and_a_failure_ends_the_search() {
    let service = Service::start(sts).await;
    let refusing = Service::always(403, "<html>").await;
    let container = Service::start(container).await;
    let home = Home::new("", "[default]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n");
    let token = home.write("token", "jwt");
    let web =
        [(STS, &*service.url), ("AWS_ROLE_ARN", "a/web"), ("AWS_WEB_IDENTITY_TOKEN_FILE", &token)];
    let last = [(CONTAINER, container.url.as_str())];
    let all = [&KEYS[..], &[home.variable()], &web, &last].concat();
    for (skipped, want) in [(0, "ENVIRONMENT"), (3, "PROFILE"), (4, "KEY-web"), (7, "CONTAINER")] {
        assert_eq!(key_id(&all[skipped..], None).await, want);
    }
    // A named profile does not win over the environment's keys. One that is not there is passed
    // over.
    assert_eq!(key_id(&all, Some("default")).await, "ENVIRONMENT");
    assert_eq!(key_id(&all[3..], Some("absent")).await, "KEY-web");
    let refused = [&[(STS, refusing.url.as_str())], &web[1..], &last].concat();
    assert_eq!(key_id(&refused, None).await, "error:");
}

#[tokio::test]
async fn the_region_is_the_environments_then_the_profiles() {
    let config = "[default]\nregion = eu-west-1\n[profile b]\nregion =\nsource_profile = c\n\
                  [profile c]\nregion = eu-west-2\n[profile d]\nsource_profile = e\n\
                  [profile e]\nsource_profile = d\n";
    let home = Home::new(config, "");
    let at_home = home.variable();
    let (one, two) = (("AWS_REGION", "us-east-1"), ("AWS_DEFAULT_REGION", "us-east-2"));
    for (variables, profile, want) in [
        (vec![at_home, two, one], None, "us-east-1"),
        (vec![at_home, two, ("AWS_REGION", " ")], Some("b"), "us-east-2"),
        (vec![at_home], Some("b"), "eu-west-2"),
        (vec![at_home, ("AWS_PROFILE", "b")], None, "eu-west-2"),
        (vec![at_home], None, "eu-west-1"),
        (vec![at_home], Some("d"), ""),
        (vec![], None, ""),
    ] {
        assert_eq!(answers("region", &variables, profile).await, [want], "{variables:?}");
    }
}

#[tokio::test]
async fn a_signature_is_for_the_region_of_the_url_then_of_the_environment() {
    let variables = [&KEYS[..], &[("AWS_DEFAULT_REGION", "us-east-1")]].concat();
    let (api, own) =
        ("https://a1.execute-api.eu-north-1.amazonaws.com", "https://events.example.com");
    let signed = answers(&format!("{api} {own}"), &variables, None).await;
    assert_eq!(signed, ["eu-north-1", "us-east-1"]);
    let want = "error: no AWS region: https://events.example.com does not name one; set AWS_REGION \
                or a profile with one";
    assert_eq!(answers(own, &KEYS, None).await, [want]);
}

#[tokio::test]
async fn trouble_of_the_service_is_waited_out() {
    let mut requests = 0;
    let answer = move |request: &str| {
        requests += 1;
        if requests == 1 { (503, String::new()) } else { sts(request) }
    };
    let service = Service::start(answer).await;
    let home = Home::new("", "");
    let token = home.write("token", "jwt");
    let variables =
        [(STS, &*service.url), ("AWS_ROLE_ARN", "r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", &token)];
    assert_eq!(key_id(&variables, None).await, "KEY-r");
}

#[tokio::test]
async fn a_failed_refresh_leaves_what_has_not_expired() {
    for (seconds, is_left) in [(60, true), (-1, false)] {
        let expiry = clock::rfc3339(clock::now() + time::Duration::seconds(seconds));
        let mut requests = 0;
        let answer = move |request: &str| {
            requests += 1;
            let first = (200, container(request).1.replace(FAR, &expiry));
            if requests == 1 { first } else { (403, String::new()) }
        };
        let service = Service::start(answer).await;
        let found = answers("search search", &[(CONTAINER, &service.url)], None).await;
        assert_eq!(found[0], "CONTAINER s t");
        assert_eq!(found[1] == found[0], is_left, "{found:?}");
        assert_eq!(service.requests().len(), 2);
    }
}
