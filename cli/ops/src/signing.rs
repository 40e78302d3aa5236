//! Signature Version 4: for the manage API, which API Gateway guards by IAM, and for AWS itself; and tokens, which
//! `gridpost serve` takes instead.

use std::error::Error;
use std::time::SystemTime;

use anyhow::anyhow;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{
    self, PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode,
};
use aws_sigv4::sign::v4;
use gridpost_core::secret::Secret;
use time::OffsetDateTime;

pub(crate) const S3: &str = "s3";

/// Signs requests with the caller's AWS identity, or adds a token.
#[derive(Clone, Debug)]
pub struct Signer {
    token: Option<Secret>,
    region: String,
    service: &'static str,
    credentials: SharedCredentialsProvider,
}

impl Signer {
    /// An identity for an emulator, which takes any but asks for which service and region.
    pub fn of_emulator(service: &'static str, region: &str) -> Self {
        Self::of(Credentials::new("test", "test", None, None, "emulator"), service, region)
    }

    /// A token, for requests of any service of its deployment.
    pub(crate) fn of_token(token: Secret) -> Self {
        Self { token: Some(token), ..Self::of_emulator("gridpost", "") }
    }

    /// An identity that is asked for its credentials at each signature.
    pub(crate) fn asking(
        identity: impl ProvideCredentials + 'static,
        service: &'static str,
        region: &str,
    ) -> Self {
        let credentials = SharedCredentialsProvider::new(identity);
        Self { token: None, region: region.to_owned(), service, credentials }
    }

    pub(crate) fn of(credentials: Credentials, service: &'static str, region: &str) -> Self {
        Self::asking(credentials, service, region)
    }

    /// Signs for another region, as services need that are the same in all of them.
    pub(crate) fn in_region(self, region: &str) -> Self {
        Self { region: region.to_owned(), ..self }
    }

    /// The region of its signatures.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The headers that make a request of this method, URL, headers and body acceptable, signed at
    /// `now`. Headers whose names begin with `x-amz-` must be given.
    pub async fn headers(
        &self,
        method: &str,
        url: &str,
        given: &[(&str, &str)],
        body: &[u8],
        now: OffsetDateTime,
    ) -> anyhow::Result<Vec<(String, String)>> {
        if let Some(token) = &self.token {
            return Ok(vec![("authorization".to_owned(), format!("Bearer {}", token.expose()))]);
        }
        let credentials = self.credentials.provide_credentials().await.map_err(|error| {
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            anyhow!("AWS credentials could not be had: {why}")
        })?;
        let identity = credentials.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(SystemTime::from(now))
            .settings(settings(self.service))
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

/// Returns AWS's host of a service. China and the European Sovereign Cloud have domains of their
/// own.
pub(crate) fn endpoint(service: &str, region: &str) -> String {
    let domain = match region.split('-').next() {
        Some("cn") => "amazonaws.com.cn",
        Some("eusc") => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("https://{service}.{region}.{domain}/")
}

/// S3 takes a path as it stands, where other services encode and normalise it once more, and wants the body's hash.
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == S3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    settings
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[tokio::test]
    async fn a_signature_covers_method_path_and_body() {
        let credentials =
            Credentials::new("AKIDEXAMPLE", "secret", Some("session".into()), None, "test");
        let signer = Signer::of(credentials, "execute-api", "eu-north-1");
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

    /// Botocore 1.43 makes the same signatures (`S3SigV4Auth`).
    #[tokio::test]
    async fn s3_signs_a_path_as_it_stands_and_the_bodys_hash() {
        let signer = Signer::of_emulator(S3, "us-east-1");
        let now = datetime!(2030-01-02 03:04:05 UTC);
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (path, want) in [
            ("/a%20b%3Dc.json", "6e98357caf7738b15a314a865f44867df1bb82fe75507303f39b10db9b26cb74"),
            (
                "?list-type=2&max-keys=1&prefix=p%2Fq%20r",
                "2e2b3a38675b88a860ce2dc899a2b6604651ca28783eed499f2965c0901a70d9",
            ),
        ] {
            let url = format!("http://127.0.0.1:4566/bucket{path}");
            let signed = signer.headers("GET", &url, &[], b"", now).await.expect("signed");
            assert!(signed.contains(&("x-amz-content-sha256".into(), hash.into())), "{signed:?}");
            assert!(signed.iter().any(|(_, value)| value.ends_with(want)), "{signed:?}");
        }
    }
}
