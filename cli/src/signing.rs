//! Signature Version 4: for the manage API, which API Gateway guards by IAM, and for AWS itself.

use std::time::SystemTime;

use anyhow::{Context, anyhow};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{self, SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use time::OffsetDateTime;

/// API Gateway's name in a signature.
const API_GATEWAY: &str = "execute-api";

/// Works with every way of signing in that the AWS CLI knows, of which this program knows only some.
const HINT: &str = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; after signing in with the \
                    AWS CLI, run: eval \"$(aws configure export-credentials --format env)\"";

/// Signs requests with the caller's AWS identity (environment, profile, container or instance role).
#[derive(Clone, Debug)]
pub struct Signer {
    region: String,
    service: &'static str,
    credentials: SharedCredentialsProvider,
}

impl Signer {
    /// The default chain's identity, or that of a profile, for the region of `url` or else of the environment.
    ///
    /// # Errors
    ///
    /// When neither names a region, or no source of credentials is configured.
    pub async fn for_url(url: &str, aws_profile: Option<&str>) -> anyhow::Result<Self> {
        Self::for_service(API_GATEWAY, Some(url), aws_profile).await
    }

    /// The default chain's identity, or that of a profile, for an AWS service, in the region of API Gateway's `url` or else of
    /// the environment.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn for_service(
        service: &'static str,
        url: Option<&str>,
        aws_profile: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest());
        if let Some(profile) = aws_profile {
            loader = loader.profile_name(profile);
        }
        let config = loader.load().await;
        let from_environment = || config.region().map(|region| region.as_ref().to_owned());
        let region = url.and_then(region_of).or_else(from_environment).ok_or_else(|| {
            let url = url.map(|url| format!("{url} does not name one; ")).unwrap_or_default();
            anyhow!("no AWS region: {url}set AWS_REGION or a profile with one")
        })?;
        let credentials =
            config.credentials_provider().ok_or_else(|| anyhow!("no AWS credentials: {HINT}"))?;
        Ok(Self { region, service, credentials })
    }

    /// An identity for an emulator, which takes any but asks for which service and region.
    pub fn of_emulator(service: &'static str, region: &str) -> Self {
        let credentials = Credentials::new("test", "test", None, None, "emulator");
        let credentials = SharedCredentialsProvider::new(credentials);
        Self { region: region.to_owned(), service, credentials }
    }

    /// The region of its signatures.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The headers that make a request of this method, URL, headers and body acceptable, signed at
    /// `now`. Headers whose names begin with `x-amz-` must be given.
    ///
    /// # Errors
    ///
    /// When the identity cannot be had (expired sign-in, unreachable role).
    pub async fn headers(
        &self,
        method: &str,
        url: &str,
        given: &[(&str, &str)],
        body: &[u8],
        now: OffsetDateTime,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let credentials = self.credentials.provide_credentials().await;
        let credentials =
            credentials.with_context(|| format!("AWS credentials could not be had: {HINT}"))?;
        let identity = credentials.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(SystemTime::from(now))
            .settings(SigningSettings::default())
            .build()?
            .into();
        let request =
            SignableRequest::new(method, url, given.iter().copied(), SignableBody::Bytes(body))?;
        let (instructions, _) = http_request::sign(request, &parameters)?.into_parts();
        let (headers, _) = instructions.into_parts();
        Ok(headers
            .iter()
            .map(|header| (header.name().to_owned(), header.value().to_owned()))
            .collect())
    }
}

/// The region in the host of an API Gateway URL (`{id}.execute-api.{region}.amazonaws.com`).
fn region_of(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let mut labels = url.host_str()?.split('.').skip_while(|label| *label != API_GATEWAY);
    labels.next()?;
    labels.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn the_region_stands_in_the_host() {
        for (url, want) in [
            ("https://a1b2.execute-api.eu-north-1.amazonaws.com", Some("eu-north-1")),
            ("https://a1b2.execute-api.cn-north-1.amazonaws.com.cn/x", Some("cn-north-1")),
            ("https://events.example.com/topics", None),
        ] {
            assert_eq!(region_of(url).as_deref(), want, "{url}");
        }
    }

    #[tokio::test]
    async fn a_signature_covers_method_path_and_body() {
        let credentials =
            Credentials::new("AKIDEXAMPLE", "secret", Some("session".into()), None, "test");
        let signer = Signer {
            region: "eu-north-1".into(),
            service: API_GATEWAY,
            credentials: SharedCredentialsProvider::new(credentials),
        };
        let now = datetime!(2030-01-02 03:04:05 UTC);
        let url = "https://a1.execute-api.eu-north-1.amazonaws.com/topics/t";
        let headers = |method, body: &'static [u8]| signer.headers(method, url, &[], body, now);
        let one = headers("PUT", b"{}").await.expect("signed");
        let value =
            |name: &str| one.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        assert_eq!(value("x-amz-date").as_deref(), Some("20300102T030405Z"));
        assert_eq!(value("x-amz-security-token").as_deref(), Some("session"));
        let authorization = value("authorization").expect("signed");
        let scope =
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20300102/eu-north-1/execute-api/aws4_request";
        assert!(authorization.starts_with(scope), "{authorization}");
        assert_ne!(headers("PUT", b"{ }").await.expect("signed"), one);
        assert_ne!(headers("GET", b"{}").await.expect("signed"), one);
        let target = [("x-amz-target", "Logs_20140328.FilterLogEvents")];
        let other = signer.headers("PUT", url, &target, b"{}", now).await.expect("signed");
        let signed = "SignedHeaders=host;x-amz-date;x-amz-security-token;x-amz-target";
        assert!(other.iter().any(|(_, value)| value.contains(signed)), "{other:?}");
    }
}
