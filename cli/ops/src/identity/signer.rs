//! Signers of the caller's identity: in which region, for which service.

use anyhow::anyhow;

use super::{Identity, region};
use crate::signing::Signer;

const API_GATEWAY: &str = "execute-api";

impl Signer {
    /// Signs with the default chain's identity, or that of a profile, for the region of `url` or
    /// else of the environment.
    pub async fn for_url(url: &str, aws_profile: Option<&str>) -> anyhow::Result<Self> {
        Self::for_service(API_GATEWAY, Some(url), aws_profile).await
    }

    /// Signs for an AWS service, in the region of API Gateway's `url` or else of the environment.
    pub async fn for_service(
        service: &'static str,
        url: Option<&str>,
        aws_profile: Option<&str>,
    ) -> anyhow::Result<Self> {
        let region = match url.and_then(region_of) {
            Some(region) => Some(region),
            None => region(aws_profile).await?,
        };
        let region = region.ok_or_else(|| {
            let url = url.map(|url| format!("{url} does not name one; ")).unwrap_or_default();
            anyhow!("no AWS region: {url}set AWS_REGION or a profile with one")
        })?;
        let identity = Identity::new(aws_profile, &region);
        Ok(Self::asking(identity, service, &region))
    }

    /// The caller's identity for a service of that region, whatever region the environment is in.
    pub fn for_service_in(service: &'static str, region: &str) -> Self {
        Self::asking(Identity::new(None, region), service, region)
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
}
