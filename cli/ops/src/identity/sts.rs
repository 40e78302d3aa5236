//! Assumes roles: calls of AWS's Security Token Service.

use anyhow::{Context, anyhow};
use aws_credential_types::Credentials;
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use crate::{
    aws_refusal::xml_refusal,
    clock, http_client,
    identity::{
        environment::{Environment, Role},
        send, session,
    },
    signing::{Signer, endpoint},
};

const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

/// The name that CloudTrail shows if none is configured.
const SESSION_NAME: &str = "gridpost-cli";

pub(super) struct Sts<'a> {
    url: String,
    region: &'a str,
}

impl<'a> Sts<'a> {
    pub(super) fn new(environment: &Environment, region: &'a str) -> Self {
        let own = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"];
        let own = own.iter().find_map(|name| environment.get(name));
        let own = own.filter(|_| !environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
        // GovCloud's own host is one for FIPS.
        let is_fips =
            environment.is_true("AWS_USE_FIPS_ENDPOINT") && !region.starts_with("us-gov-");
        let host = if is_fips { "sts-fips" } else { "sts" };
        Self { url: own.map_or_else(|| endpoint(host, region), str::to_owned), region }
    }

    pub(super) async fn assume_role(
        &self,
        role: &Role<'_>,
        source: Credentials,
    ) -> anyhow::Result<Credentials> {
        let signer = Signer::of(source, "sts", self.region);
        let external_id = role.external_id.map(|id| ("ExternalId", id));
        self.call("AssumeRole", role, external_id, Some(signer)).await
    }

    /// Assumes a role with the token in a file, which an identity provider keeps up to date.
    pub(super) async fn assume_role_with_web_identity(
        &self,
        role: &Role<'_>,
        token_file: &str,
    ) -> anyhow::Result<Credentials> {
        let token = tokio::fs::read_to_string(token_file).await;
        let token = token.with_context(|| format!("{token_file} cannot be read"))?;
        let token = Some(("WebIdentityToken", token.trim()));
        self.call("AssumeRoleWithWebIdentity", role, token, None).await
    }

    async fn call(
        &self,
        operation: &str,
        role: &Role<'_>,
        more: Option<(&str, &str)>,
        signer: Option<Signer>,
    ) -> anyhow::Result<Credentials> {
        let call = format!("sts:{operation}");
        let form = Serializer::new(String::new())
            .append_pair("Action", operation)
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", role.arn)
            .append_pair("RoleSessionName", role.session_name.unwrap_or(SESSION_NAME))
            .extend_pairs(more)
            .finish();
        let mut request =
            http_client::for_url(&self.url)?.post(&self.url).header("content-type", CONTENT_TYPE);
        if let Some(signer) = signer {
            let given = [("content-type", CONTENT_TYPE)];
            let now = clock::now();
            let headers = signer.headers("POST", &self.url, &given, form.as_bytes(), now);
            for (name, value) in headers.await? {
                request = request.header(name, value);
            }
        }
        let answer = send(request.body(form), false).await;
        let (status, text) =
            answer.with_context(|| format!("{call} got no answer from {}", self.url))?;
        if !status.is_success() {
            return Err(xml_refusal(call, status.as_u16(), &text))
                .with_context(|| format!("role {}", role.arn));
        }
        // The parser's own words could hold what it read.
        let answer: Option<Answer> = quick_xml::de::from_str(&text).ok();
        let given = answer.ok_or_else(|| anyhow!("{call} answered no credentials"))?;
        let Given { access_key_id, secret_access_key, session_token, expiration } =
            given.result.credentials;
        session(access_key_id, secret_access_key, session_token, &expiration)
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "AssumeRoleResult", alias = "AssumeRoleWithWebIdentityResult")]
    result: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "Credentials")]
    credentials: Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_the_regions_unless_one_is_named() {
        let url =
            |variables: &[(&str, &str)]| Sts::new(&Environment::of(variables), "cn-north-1").url;
        assert_eq!(url(&[]), "https://sts.cn-north-1.amazonaws.com.cn/");
        let (all, own) = (("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_STS", "http://b"));
        assert_eq!((url(&[all]), url(&[all, own])), ("http://a".into(), "http://b".into()));
        let ignored = ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
        assert_eq!(url(&[own, ignored]), url(&[]));
        let fips = Environment::of(&[("AWS_USE_FIPS_ENDPOINT", "true")]);
        for (region, want) in [
            ("us-east-1", "https://sts-fips.us-east-1.amazonaws.com/"),
            ("us-gov-west-1", "https://sts.us-gov-west-1.amazonaws.com/"),
        ] {
            assert_eq!(Sts::new(&fips, region).url, want);
        }
    }

    #[test]
    fn refusals_are_read_whatever_they_look_like() {
        let xml = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
                   <Code>AccessDenied</Code><Message>a &amp; b</Message></Error></ErrorResponse>";
        let told = |text| xml_refusal("sts:AssumeRole".into(), 403, text).to_string();
        assert_eq!(
            told(xml),
            "sts:AssumeRole was refused: AccessDenied: a & b; your AWS identity needs the permission sts:AssumeRole"
        );
        assert_eq!(told("<html>"), "sts:AssumeRole was refused: HTTP 403: <html>");
    }
}
