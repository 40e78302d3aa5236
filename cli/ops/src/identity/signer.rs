//! Signers of the caller's identity: in which region, for which service.

use anyhow::anyhow;

use super::{Environment, Identity, region};
use crate::signing::Signer;

const API_GATEWAY: &str = "execute-api";

impl Signer {
    /// The default chain's identity, or that of a profile, for the region of `url` or else of the environment.
    pub async fn for_url(url: &str, aws_profile: Option<&str>) -> anyhow::Result<Self> {
        Self::for_service(API_GATEWAY, Some(url), aws_profile).await
    }

    /// The default chain's identity, or that of a profile, for an AWS service, in the region of API Gateway's `url` or else of
    /// the environment.
    pub async fn for_service(
        service: &'static str,
        url: Option<&str>,
        aws_profile: Option<&str>,
    ) -> anyhow::Result<Self> {
        let environment = Environment::of_process();
        Self::in_environment(environment, service, url, aws_profile).await
    }

    /// The caller's identity for a service of that region, whatever region the environment is in.
    pub fn for_service_in(service: &'static str, region: &str) -> Self {
        let identity = Identity::new(Environment::of_process(), None, region);
        Self::asking(identity, service, region)
    }

    async fn in_environment(
        environment: Environment,
        service: &'static str,
        url: Option<&str>,
        aws_profile: Option<&str>,
    ) -> anyhow::Result<Self> {
        let region = match url.and_then(region_of) {
            Some(region) => Some(region),
            None => region(&environment, aws_profile).await?,
        };
        let region = region.ok_or_else(|| {
            let url = url.map(|url| format!("{url} does not name one; ")).unwrap_or_default();
            anyhow!("no AWS region: {url}set AWS_REGION or a profile with one")
        })?;
        let identity = Identity::new(environment, aws_profile, &region);
        Ok(Self::asking(identity, service, &region))
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
    use crate::signing::HINT;

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
    async fn the_region_is_the_urls_then_the_environments() {
        let environment = Environment::of(&[
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ]);
        let signer = |environment, url| Signer::in_environment(environment, "logs", url, None);
        let api = "https://a1.execute-api.eu-north-1.amazonaws.com";
        let own = "https://events.example.com";
        for (url, want) in
            [(Some(api), "eu-north-1"), (Some(own), "us-east-1"), (None, "us-east-1")]
        {
            let signer = signer(environment.clone(), url).await.expect("a region");
            assert_eq!(signer.region(), want);
        }
        let none = Environment::of(&[("AWS_EC2_METADATA_DISABLED", "true")]);
        let error = signer(none, Some(own)).await.expect_err("no region");
        let want = "no AWS region: https://events.example.com does not name one; set AWS_REGION or a profile with one";
        assert_eq!(error.to_string(), want);
    }

    #[tokio::test]
    async fn without_any_source_the_hint_is_told() {
        let environment = Environment::of(&[("AWS_EC2_METADATA_DISABLED", "true")]);
        let url = "https://a1.execute-api.eu-north-1.amazonaws.com";
        let signer = Signer::in_environment(environment, API_GATEWAY, Some(url), None).await;
        let now = datetime!(2030-01-02 03:04:05 UTC);
        let headers = signer.expect("a region").headers("GET", url, &[], b"", now).await;
        let told = format!("{:#}", headers.expect_err("no credentials"));
        assert!(told.starts_with(&format!("AWS credentials could not be had: {HINT}: ")), "{told}");
        assert!(told.ends_with(": no source of credentials is configured"), "{told}");
    }
}
