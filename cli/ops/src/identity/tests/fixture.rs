//! Services on loopback, and searches by processes that have the environment of a test.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::*;

pub(super) const FAR: &str = "2999-01-01T00:00:00Z";

/// Names what a process of a test does, separated by blanks: `search`, `pause`, `region` or a URL
/// to sign for.
const ASKS: &str = "ASKS_OF_A_TEST";
const PROFILE: &str = "PROFILE_OF_A_TEST";

/// Marks an answer in the output of the process.
const MARK: &str = "ANSWER ";

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the other tests read it, control characters too")]
async fn in_another_process() {
    // Only a process that another test has started is told what to do.
    let Ok(asks) = env::var(ASKS) else { return };
    let profile = env::var(PROFILE).ok();
    let profile = profile.as_deref();
    let identity = Identity::new(profile, "eu-north-1");
    for ask in asks.split(' ') {
        let answer = match ask {
            "pause" => {
                tokio::time::pause();
                continue;
            }
            "search" => identity.current().await.map(|found| {
                let (id, secret) = (found.access_key_id(), found.secret_access_key());
                format!("{id} {secret} {}", found.session_token().unwrap_or("-"))
            }),
            "region" => region(profile).await.map(|region| region.unwrap_or_default()),
            url => signature(url, profile).await,
        };
        let answer = answer.unwrap_or_else(|error| format!("error: {error:#}"));
        println!("\n{MARK}{answer}");
    }
}

async fn signature(url: &str, profile: Option<&str>) -> anyhow::Result<String> {
    let signer = Signer::for_url(url, profile).await?;
    signer.headers("GET", url, &[], b"", clock::now()).await?;
    Ok(signer.region().to_owned())
}

/// Has another process with these variables do what is asked, and returns its answers.
pub(super) async fn answers(
    asks: &str,
    variables: &[(&str, &str)],
    profile: Option<&str>,
) -> Vec<String> {
    let mut process = Command::new(env::current_exe().expect("this program"));
    process.args(["--exact", "identity::tests::fixture::in_another_process"]);
    process.arg("--nocapture");
    process.env_clear().env("AWS_EC2_METADATA_DISABLED", "true").env(ASKS, asks);
    process.envs(profile.map(|name| (PROFILE, name))).envs(variables.iter().copied());
    let output = process.output().await.expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::to_owned).collect()
}

/// Returns the key's ID, the secret and the session token that a search finds, or why it finds
/// none.
pub(super) async fn search(variables: &[(&str, &str)], profile: Option<&str>) -> String {
    answers("search", variables, profile).await.remove(0)
}

pub(super) async fn key_id(variables: &[(&str, &str)], profile: Option<&str>) -> String {
    let found = search(variables, profile).await;
    found.split(' ').next().expect("a word").to_owned()
}

/// A home folder with files of the AWS CLI.
pub(super) struct Home(TempDir);

impl Home {
    pub(super) fn new(config: &str, credentials: &str) -> Self {
        let home = Self(tempfile::tempdir().expect("a folder"));
        home.write(".aws/config", config);
        home.write(".aws/credentials", credentials);
        home
    }

    /// Writes a file below the folder and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("a file")
    }

    pub(super) fn variable(&self) -> (&str, &str) {
        ("HOME", self.0.path().to_str().expect("text"))
    }
}

/// A service that keeps the requests that it gets.
pub(super) struct Service {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Answers with a status and a body, or for a redirect, where to. Status 0 closes the
    /// connection.
    pub(super) async fn start(
        mut answer: impl FnMut(&str) -> (u16, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                let (status, body) = answer(&request);
                kept.lock().expect("kept").push(request);
                let location = if (300..400).contains(&status) { body.as_str() } else { "" };
                let length = body.len();
                // An instance says how long its token lasts; the others' clients don't look.
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: {location}\r\n\
                     x-aws-ec2-metadata-token-ttl-seconds: 60\r\n\
                     content-length: {length}\r\n\r\n{body}"
                );
                if status != 0 {
                    stream.write_all(answer.as_bytes()).await.expect("written");
                }
            }
        });
        Self { url, requests }
    }

    pub(super) async fn always(status: u16, body: &str) -> Self {
        let answer = (status, body.to_owned());
        Self::start(move |_| answer.clone()).await
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("kept").clone()
    }

    pub(super) fn last(&self) -> String {
        self.requests().pop().expect("a request")
    }
}

/// Reads a request with its body.
async fn read(stream: &mut TcpStream) -> String {
    let mut request = String::new();
    loop {
        let mut part = vec![0; 8192];
        let length = stream.read(&mut part).await.expect("read");
        request += &String::from_utf8_lossy(&part[..length]);
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or((&request, ""));
        let want = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let want = want.map_or(0, |length| length.parse().expect("a length"));
        if length == 0 || (request.contains("\r\n\r\n") && body.len() >= want) {
            return request;
        }
    }
}

/// Answers as STS does; the key that it gives is named after the role.
pub(super) fn sts(request: &str) -> (u16, String) {
    let role = request.rsplit("RoleArn=").next().and_then(|rest| rest.split('&').next());
    let role = role.unwrap_or_default().rsplit("%2F").next().unwrap_or_default();
    let operation =
        if request.contains("WebIdentity") { "AssumeRoleWithWebIdentity" } else { "AssumeRole" };
    let body = format!(
        "<{operation}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <{operation}Result><AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn>\
         <AssumedRoleId>i</AssumedRoleId></AssumedRoleUser>\
         <Credentials><AccessKeyId>KEY-{role}</AccessKeyId>\
         <SecretAccessKey>s/&#43;</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>{FAR}</Expiration></Credentials></{operation}Result></{operation}Response>"
    );
    (200, body)
}

/// Answers as STS does where a role's trust policy does not allow the caller.
pub(super) fn denied(_: &str) -> (u16, String) {
    let body = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
                <Type>Sender</Type><Code>AccessDenied</Code>\
                <Message>not &amp; authorized</Message></Error></ErrorResponse>";
    (403, body.to_owned())
}

pub(super) fn container(_: &str) -> (u16, String) {
    let answer = json!({"RoleArn": "r", "AccessKeyId": "CONTAINER", "SecretAccessKey": "s",
        "Token": "t", "Expiration": FAR});
    (200, answer.to_string())
}

pub(super) fn instance(request: &str) -> (u16, String) {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let has_token = request.contains("x-aws-ec2-metadata-token: instance-token");
    let answer = match path {
        "/latest/api/token" if request.starts_with("PUT") => "instance-token".into(),
        _ if !has_token => return (401, String::new()),
        "/latest/meta-data/placement/region" => "eu-west-3".into(),
        "/latest/meta-data/iam/security-credentials/" => "role".into(),
        "/latest/meta-data/iam/security-credentials/role" => json!({
            "Code": "Success", "AccessKeyId": "INSTANCE", "SecretAccessKey": "s",
            "Token": "t", "Expiration": FAR,
        })
        .to_string(),
        _ => return (404, String::new()),
    };
    (200, answer)
}

/// Answers as IAM Identity Center does, both its portal and its token service.
pub(super) fn sso(request: &str) -> (u16, String) {
    let answer = match request.contains("/federation/credentials") {
        true => {
            json!({"roleCredentials": {"accessKeyId": "SSO", "secretAccessKey": "s",
            "sessionToken": "t",
            "expiration": 32_472_144_000_000_i64}})
        }
        false => json!({"accessToken": "renewed", "expiresIn": 3600, "refreshToken": "next"}),
    };
    (200, answer.to_string())
}

/// Answers as AWS Sign-In does to a refresh.
pub(super) fn sign_in(_: &str) -> (u16, String) {
    let token = json!({"accessKeyId": "LOGIN", "secretAccessKey": "s", "sessionToken": "t"});
    let answer = json!({"accessToken": token, "tokenType": "aws_sigv4", "expiresIn": 900,
        "refreshToken": "next"});
    (200, answer.to_string())
}
