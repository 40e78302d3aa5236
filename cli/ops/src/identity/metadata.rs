//! Asks the services at link-local addresses that give containers and instances their role's credentials.

use std::time::Duration;

use anyhow::{Context, bail};
use aws_credential_types::Credentials;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde_json::{Map, Value};

use crate::{
    http_client::is_loopback,
    identity::{environment::Environment, send, session},
};

/// Both services are on the machine itself: what takes longer is not there.
const CONNECT_MAX: Duration = Duration::from_secs(1);
const INSTANCE_ANSWER_MAX: Duration = Duration::from_secs(1);

/// A container's service asks STS first.
const CONTAINER_ANSWER_MAX: Duration = Duration::from_secs(5);

/// The place of a container's credentials on ECS.
const CONTAINER: &str = "http://169.254.170.2";

/// The hosts that may give credentials without TLS: those of ECS and EKS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// The places of an instance's metadata, by IPv4 and IPv6.
const INSTANCE: [&str; 2] = ["http://169.254.169.254", "http://[fd00:ec2::254]"];

/// No proxy reaches a link-local address, and no redirect shall lead from it with a token.
fn client() -> reqwest::Result<Client> {
    Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_MAX).build()
}

/// The credentials of the ECS task or EKS pod; none outside of both.
pub(super) async fn container(environment: &Environment) -> anyhow::Result<Option<Credentials>> {
    let Some(url) = container_url(environment)? else { return Ok(None) };
    let mut request = client()?.get(&url).timeout(CONTAINER_ANSWER_MAX);
    if let Some(path) = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        let token = tokio::fs::read_to_string(path).await;
        let token = token.with_context(|| format!("{path} cannot be read"))?;
        request = request.header("authorization", token.trim());
    } else if let Some(token) = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN") {
        request = request.header("authorization", token);
    }
    let answer = send(request, false).await;
    let (status, text) = answer.context("the container's credentials got no answer")?;
    if !status.is_success() {
        bail!("the container's credentials were refused: HTTP {}", status.as_u16());
    }
    credentials(&text).context("the container's credentials").map(Some)
}

fn container_url(environment: &Environment) -> anyhow::Result<Option<String>> {
    if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        return Ok(Some(format!("{CONTAINER}/{}", path.trim_start_matches('/'))));
    }
    let Some(url) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") else { return Ok(None) };
    let parsed = url::Url::parse(url).context("AWS_CONTAINER_CREDENTIALS_FULL_URI is not a URL")?;
    let is_known = parsed.host_str().is_some_and(|host| CONTAINER_HOSTS.contains(&host));
    if parsed.scheme() != "https" && !is_known && !is_loopback(url) {
        bail!("AWS_CONTAINER_CREDENTIALS_FULL_URI would give credentials without TLS");
    }
    Ok(Some(url.to_owned()))
}

/// The credentials of the EC2 instance's role; none elsewhere, or where it has no role.
pub(super) async fn instance(environment: &Environment) -> anyhow::Result<Option<Credentials>> {
    let Some(instance) = Instance::reach(environment).await? else { return Ok(None) };
    const ROLES: &str = "iam/security-credentials/";
    let Some(role) = instance.get(ROLES).await? else { return Ok(None) };
    let answer = instance.get(&format!("{ROLES}{}", role.trim())).await?;
    let answer = answer.context("the instance has no credentials for its role")?;
    credentials(&answer).context("the instance's credentials").map(Some)
}

/// An EC2 instance's metadata, IMDSv2.
pub(super) struct Instance {
    http: Client,
    url: String,
    token: String,
}

impl Instance {
    /// The instance that this runs on; none where there is no answer, or asking is disabled.
    pub(super) async fn reach(environment: &Environment) -> anyhow::Result<Option<Self>> {
        if environment.is_true("AWS_EC2_METADATA_DISABLED") {
            return Ok(None);
        }
        let url = instance_url(environment);
        let http = client()?;
        let token = http
            .put(format!("{url}/latest/api/token"))
            .header("x-aws-ec2-metadata-token-ttl-seconds", "60")
            .timeout(INSTANCE_ANSWER_MAX);
        let (status, token) = match send(token, true).await {
            Err(error) if error.is_builder() => {
                return Err(error).context("AWS_EC2_METADATA_SERVICE_ENDPOINT is not a URL");
            }
            Err(_) => return Ok(None),
            Ok(answer) => answer,
        };
        if !status.is_success() {
            bail!("the instance's metadata are refused: HTTP {}", status.as_u16());
        }
        Ok(Some(Self { http, url, token }))
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Option<String>> {
        let request = self
            .http
            .get(format!("{}/latest/meta-data/{path}", self.url))
            .header("x-aws-ec2-metadata-token", &self.token)
            .timeout(INSTANCE_ANSWER_MAX);
        let answer = send(request, false).await;
        match answer.context("the instance's metadata got no answer")? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, text) if status.is_success() => Ok(Some(text)),
            (status, _) => bail!("the instance's metadata are refused: HTTP {}", status.as_u16()),
        }
    }
}

fn instance_url(environment: &Environment) -> String {
    let by_mode = || {
        let mode = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
        INSTANCE[usize::from(mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6")))]
    };
    let url = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(by_mode);
    url.trim_end_matches('/').to_owned()
}

/// Reads an answer, whose keys may be in any case.
fn credentials(text: &str) -> anyhow::Result<Credentials> {
    // The parser's own words could hold what it read.
    let answer: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let text = |names: &[&str]| {
        let is_named = |key: &str| names.iter().any(|name| key.eq_ignore_ascii_case(name));
        let named = answer.iter().filter(|(key, _)| is_named(key));
        named.filter_map(|(_, value)| value.as_str()).map(str::to_owned).next()
    };
    if let Some(code) = text(&["Code"]).filter(|code| code != "Success") {
        bail!("{code}: {}", text(&["Message"]).unwrap_or_default());
    }
    let needed = |names: &[&str]| text(names).context("not in the answer");
    let (id, secret) = (needed(&["AccessKeyId"])?, needed(&["SecretAccessKey"])?);
    let token = needed(&["Token", "SessionToken"])?;
    session(id, secret, token, &needed(&["Expiration", "ExpiresAt"])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_come_from_this_machine_or_by_tls() {
        let url = |name, value| container_url(&Environment::of(&[(name, value)]));
        let path = url("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x").expect("allowed");
        assert_eq!(path.as_deref(), Some("http://169.254.170.2/v2/x"));
        for (value, is_allowed) in [
            ("http://127.0.0.1:1/x", true),
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("https://example.com/x", true),
            ("http://example.com/x", false),
            ("x", false),
        ] {
            let url = url("AWS_CONTAINER_CREDENTIALS_FULL_URI", value);
            assert_eq!(url.is_ok(), is_allowed, "{value}");
        }
    }

    #[test]
    fn an_instance_is_asked_where_the_environment_says() {
        let url = |name, value| instance_url(&Environment::of(&[(name, value)]));
        assert_eq!(url("", ""), "http://169.254.169.254");
        assert_eq!(url("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"), "http://[fd00:ec2::254]");
        assert_eq!(url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://a:1/"), "http://a:1");
    }

    #[test]
    fn the_keys_of_an_answer_are_in_any_case() {
        for (token, expiration) in [("token", "EXPIRATION"), ("SESSIONTOKEN", "expiresAt")] {
            let text = format!(
                r#"{{"code":"Success","accessKeyId":"i","secretaccesskey":"s","{token}":"t",
                "{expiration}":"2030-01-01T00:00:00Z","AccountId":1}}"#
            );
            let found = credentials(&text).expect("credentials");
            assert_eq!((found.access_key_id(), found.session_token()), ("i", Some("t")));
        }
    }

    #[test]
    fn a_refusal_is_told_and_a_broken_answer_is_not_shown() {
        let told = |text| credentials(text).expect_err("no credentials").to_string();
        let refused = r#"{"Code":"AssumeRoleUnauthorizedAccess","Message":"no"}"#;
        assert_eq!(told(refused), "AssumeRoleUnauthorizedAccess: no");
        assert_eq!(told(r#"{"SecretAccessKey":"secret"}"#), "not in the answer");
        assert_eq!(told(r#""secret""#), "not in the answer");
    }
}
