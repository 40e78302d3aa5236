//! What is said where there are no credentials, and what never is.

use tokio::net::TcpListener;

use super::fixture::denied;
use super::*;

const SET: &str = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

#[tokio::test]
async fn what_a_profile_lacks_is_said_with_what_to_do() {
    let config = "[profile a]\nrole_arn = A\nsource_profile = b\n\
                  [profile b]\nrole_arn = B\nsource_profile = a\n\
                  [profile c]\nrole_arn = C\nsource_profile = none\n[profile d]\nrole_arn = D\n\
                  [profile e]\nrole_arn = E\nsource_profile = f\n[profile f]\nregion = r\n\
                  [profile h]\naws_access_key_id = secret\n[profile a+b]\nsso_session = none\n\
                  [profile o]\nrole_arn = O\ncredential_source = Other\n\
                  [profile part]\nsso_session = s\n\
                  [sso-session s]\nsso_region = r\nsso_start_url = u\n";
    let home = Home::new(config, "");
    for (profile, want) in [
        ("a", "profile a: profile formed an infinite loop"),
        ("c", "profile c: profile `none` was not defined"),
        ("d", "profile d: invalid credential source in `d`: profile must contain"),
        ("e", "profile e: invalid credential source in `f`"),
        ("f", "profile f: no source of credentials is configured"),
        ("h", "profile h: invalid credential source in `h`: profile missing aws_secret_access_key"),
        ("a+b", "profile 'a+b': sso-session named `none`"),
        ("o", "profile o: profile referenced `Other` provider"),
        ("part", "profile part: selected profile will resolve an access token"),
        ("x", "the AWS configuration has no profile x"),
        ("default", "no source of credentials is configured"),
    ] {
        let told = search(&[home.variable()], Some(profile)).await;
        let rest = told.strip_prefix(&format!("error: {want}"));
        let advice = match profile {
            "a+b" => "if the session has expired, run: aws sso login --profile 'a+b'",
            "part" => "if the session has expired, run: aws sso login --profile part",
            _ => SET,
        };
        assert!(rest.is_some_and(|rest| rest.ends_with(&format!("; {advice}"))), "{told}");
        assert!(!told.contains("secret\""), "{told}");
    }
    let half = [("AWS_ACCESS_KEY_ID", "HALF"), ("AWS_SECRET_ACCESS_KEY", " ")];
    let want = format!("error: no source of credentials is configured; {SET}");
    assert_eq!(search(&half, None).await, want);
}

#[tokio::test]
async fn a_broken_file_is_told_with_its_line_and_without_its_content() {
    for (config, want) in [
        ("[default\n", "line 1: "),
        ("[default]\n\x1b[31msecret", "line 2: Expected an '=' sign defining a property"),
        ("a = secret", "line 1: "),
    ] {
        let home = Home::new(config, "");
        for ask in ["search", "region"] {
            let told = answers(ask, &[home.variable()], None).await.remove(0);
            assert!(told.starts_with("error: the AWS configuration can't be read: "), "{told}");
            assert!(told.contains(".aws/config on ") && told.contains(want), "{told}");
            assert!(!told.contains("secret") && !told.contains('\x1b'), "{told}");
        }
    }
}

#[tokio::test]
async fn control_characters_of_a_profile_are_escaped() {
    let config = "[profile a]\nrole_arn = A\nsource_profile = \x1b[31mred\x07\n";
    let told = search(&[Home::new(config, "").variable()], Some("a")).await;
    assert!(told.contains("\\u001b[31mred\\u0007") && !told.contains('\x1b'), "{told}");
    let told = search(&[], Some("\x1b[31mred")).await;
    assert!(told.contains("no profile $'\\U0000001b[31mred'"), "{told}");
}

#[tokio::test]
async fn sessions_that_have_ended_are_told_with_how_to_sign_in() {
    let ended = r#"{"__type":"UnauthorizedException","message":"Session \u001b[31mnot found"}"#;
    let center = Service::always(401, ended).await;
    let home = Home::new(SSO_PROFILES, "");
    let variables = [home.variable(), ("AWS_ENDPOINT_URL", &center.url)];
    let how = "if the session has expired, run: aws sso login --profile";
    // Where the AWS CLI has never signed in, and where what it keeps has expired.
    for (token, why) in [
        (None, "failed to load the cached SSO token"),
        (Some("2020-01-01T00:00:00Z"), "the SSO token has expired and cannot be refreshed"),
        (Some(FAR), "UnauthorizedException: Session \\u001b[31mnot found"),
    ] {
        if let Some(expiry) = token {
            let token = json!({"accessToken": "token", "expiresAt": expiry});
            home.write(OF_SESSION, &token.to_string());
        }
        for profile in ["sso", "of-sso"] {
            let told = search(&variables, Some(profile)).await;
            assert_eq!(told, format!("error: profile {profile}: {why}; {how} sso"));
        }
    }
    let (home, _) = login();
    let ended = r#"{"error":"TOKEN_EXPIRED","message":"expired"}"#;
    for (status, body) in [(400, ended), (500, "<html>"), (200, "[")] {
        let service = Service::always(status, body).await;
        let variables =
            [home.variable(), ("AWS_ENDPOINT_URL", &*service.url), ("AWS_MAX_ATTEMPTS", "1")];
        let told = search(&variables, Some("login")).await;
        assert!(told.starts_with("error: profile login: failed to refresh"), "{told}");
        let how = "if the session has expired, run: aws login --profile login";
        assert!(told.ends_with(how), "{told}");
    }
}

#[tokio::test]
async fn refusals_of_a_role_are_told_and_codes_are_not_asked_for() {
    let service = Service::start(denied).await;
    let role = "role_arn = arn:aws:iam::1:role/r\nsource_profile = keys\n";
    let config =
        format!("[profile r]\n{role}[profile mfa]\n{role}mfa_serial = arn:aws:iam::1:mfa/me\n");
    let home =
        Home::new(&config, "[keys]\naws_access_key_id = K\naws_secret_access_key = s3cret\n");
    let variables = [home.variable(), (STS, &service.url)];
    let refused = "AccessDenied: not & authorized";
    let told = search(&variables, Some("r")).await;
    assert_eq!(told, format!("error: profile r: {refused}; {SET}"));
    let told = search(&variables, Some("mfa")).await;
    let how = "profile mfa has an mfa_serial, but gridpost does not ask for codes; \
               the AWS CLI does: eval \"$(aws configure export-credentials --profile mfa --format env)\"";
    assert_eq!(told, format!("error: profile mfa: {refused}; {how}"));
}

#[tokio::test]
async fn a_process_that_misbehaves_is_told_briefly() {
    let keys = r#""AccessKeyId":"K","SecretAccessKey":"s3cret""#;
    for (command, want) in [
        ("head -c 10000000 /dev/zero | tr '\\0' x", "invalid JSON in response"),
        ("head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 3", "exit status: 3. Stderr: xxx"),
        (
            "printf 'sign in\\033[31m\\nerror: no' >&2; exit 1",
            "Stderr: sign in\\u001b[31m error: no;",
        ),
        (&format!("echo '{{\"Version\":2,{keys}}}'"), "unknown version number: 2"),
        (&format!("echo '{{\"Version\":1,{keys}'"), "invalid JSON in response"),
        (&format!("echo '{{\"Version\":1,{keys},\"Expiration\":\"s3cret\"}}'"), "`Expiration`"),
        ("no-such-program", "exit status: 127"),
    ] {
        let home = Home::new(&format!("[profile p]\ncredential_process = {command}\n"), "");
        let told = search(&[home.variable()], Some("p")).await;
        assert!(told.starts_with("error: profile p: Error retrieving credentials"), "{told}");
        let how = "; run the credential_process of profile p to see what it needs";
        assert!(told.contains(want) && told.ends_with(how), "{told}");
        assert!(told.len() < 600 && !told.contains("s3cret") && !told.contains('\x1b'), "{told}");
    }
}

#[tokio::test]
async fn a_process_that_hangs_is_given_up() {
    let home = Home::new("[profile p]\ncredential_process = exec sleep 20\n", "");
    // With its clock paused, the searching process takes the minute as over.
    let told = answers("pause search", &[home.variable()], Some("p")).await.remove(0);
    let want = "error: profile p: credentials provider timed out after 60 seconds; run the";
    assert!(told.starts_with(want), "{told}");
}

#[tokio::test]
async fn a_url_of_a_container_is_not_told() {
    let service = Service::always(0, "").await;
    for url in ["http://example.com/s3cret", &format!("{}/s3cret", service.url), "s3cret:"] {
        let told = search(&[(CONTAINER, url)], None).await;
        assert!(told.starts_with("error: ") && !told.contains("s3cret"), "{told}");
    }
}

#[tokio::test]
async fn a_machine_without_metadata_is_told_apart_soon() {
    // Nothing listens at the first; the second takes connections and says nothing.
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr();
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    for address in [closed, silent.local_addr()] {
        let url = format!("http://{}", address.expect("an address"));
        let since = tokio::time::Instant::now();
        let told = search(&[ON, (INSTANCE, &url)], None).await;
        assert_eq!(told, format!("error: no source of credentials is configured; {SET}"));
        assert!(since.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let home = Home::new("", "");
    let token = home.write("token", "jwt");
    for status in [302, 307] {
        let other = Service::start(container).await;
        let elsewhere = other.url.clone();
        let service = Service::start(move |request| match request.starts_with("PUT") {
            true => (200, "instance-token".into()),
            false => (status, elsewhere.clone()),
        });
        let url = service.await.url;
        let container = [(CONTAINER, url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t")];
        let instance = [(INSTANCE, url.as_str()), ON];
        let web = [(STS, &*url), ("AWS_ROLE_ARN", "r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", &token)];
        for variables in [&container[..], &instance, &web] {
            let told = search(variables, None).await;
            assert!(told.starts_with("error: "), "{told}");
        }
        assert!(other.requests().is_empty(), "{:?}", other.requests());
    }
}

#[test]
fn secrets_are_not_shown() {
    let identity = Identity::new(Some("p"), "r");
    let found = Credentials::new("KEY", "s3cret", Some("t0ken".into()), None, "test");
    *identity.found.try_lock().expect("free") = Some(found);
    let shown = format!("{identity:?}");
    assert!(
        shown.contains('p') && !shown.contains("s3cret") && !shown.contains("t0ken"),
        "{shown}"
    );
}
