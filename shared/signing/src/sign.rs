//! Signature Version 4. Source: IAM user guide, "AWS Signature Version 4 for API requests".

use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{self, PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings},
    sign::v4,
};
use gridpost_core::{error::chain, secret::Secret, time::Timestamp};

/// The scope of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub service: &'a str,
    pub region: &'a str,
    pub now: Timestamp,
    /// Whether to send the body's hash, which some services require. The signature always covers the body.
    pub sends_hash: bool,
}

/// A request to sign.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    pub method: &'a str,
    /// As it will be sent.
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// Returns the headers that sign a request. Errors do not repeat the credentials.
pub fn sign(
    credentials: &Credentials,
    scope: Scope<'_>,
    request: Signable<'_>,
) -> Result<Vec<(String, Secret)>, String> {
    let mut settings = SigningSettings::default();
    if scope.sends_hash {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    let since = Duration::from_millis(u64::try_from(scope.now.as_millis()).unwrap_or(0));
    let identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(UNIX_EPOCH + since)
        .settings(settings)
        .build()
        .map_err(|error| chain(&error))?
        .into();
    let Signable { method, url, headers, body } = request;
    let headers = headers.iter().copied();
    let request = SignableRequest::new(method, url, headers, SignableBody::Bytes(body));
    let request = request.map_err(|error| chain(&error))?;
    let signed = http_request::sign(request, &parameters).map_err(|error| chain(&error))?;
    let (added, _) = signed.into_parts().0.into_parts();
    Ok(added.iter().map(|one| (one.name().to_owned(), Secret::new(one.value()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of AWS's published test suite for signatures: `post-vanilla`, `post-vanilla-query`,
    /// `post-x-www-form-urlencoded`, `get-vanilla-query-order-key-case`.
    #[test]
    fn signatures_are_those_of_the_published_test_suite() {
        let credentials = Credentials::new(
            "AKIDEXAMPLE",
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            None,
            None,
            "test",
        );
        let form = [("content-type", "application/x-www-form-urlencoded")];
        type Row<'r> = (&'r str, &'r str, &'r [(&'r str, &'r str)], &'r str, &'r str);
        let table: [Row<'_>; 4] = [
            (
                "POST",
                "/",
                &[],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "POST",
                "/?Param1=value1",
                &[],
                "",
                "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
            ),
            (
                "POST",
                "/",
                &form,
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                &[],
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ];
        for (method, path, headers, body, want) in table {
            let scope = Scope {
                service: "service",
                region: "us-east-1",
                // 2015-08-30T12:36:00Z
                now: Timestamp::from_millis(1_440_938_160_000),
                sends_hash: false,
            };
            let url = format!("https://example.amazonaws.com{path}");
            let request = Signable { method, url: &url, headers, body: body.as_bytes() };
            let signed = sign(&credentials, scope, request).expect("signed");
            let found = signed.iter().find(|(name, _)| name == "authorization");
            let found = found.expect("one").1.expose();
            assert!(found.ends_with(&format!("Signature={want}")), "{method} {path}: {found}");
        }
    }

    /// Made by botocore 1.44.5 (`SigV4Auth`), with the body's hash and a session.
    #[test]
    fn paths_and_queries_are_signed_as_other_code_signs_them() {
        const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let session = Some("session".to_owned());
        let credentials = Credentials::new("AKIDEXAMPLE", KEY, session, None, "test");
        let headers = [("content-type", "application/json; charset=utf-8")];
        let table = [
            ("/", "a50a9434fa0b5a929ee009e7b7cf29a12ac397f8c00dbfc50b04ee916264c614"),
            (
                "/or%20ders/a+b/%C3%A9?b=2&a=%2F1&c",
                "1b93982f126cec7e1f1349c2b6c3710f072caf1e1a8bd037e95e1bb258bf5acb",
            ),
            (
                "/it's(1)!*/~x:y@z;v=1,2$&?q=a%20b&q=A&Q=~",
                "83402c1de7af62d80a2252d26be806873708030694b00966cec734a51501bcdf",
            ),
            (
                "/a//b/./c/?x=1%2B2",
                "e61ecc4d675f831abb5eb4bac4ba1c7a117abff2ccd611908a1794139e1dedf6",
            ),
        ];
        for (path, want) in table {
            let scope = Scope {
                service: "execute-api",
                region: "eu-north-1",
                now: Timestamp::from_millis(1_440_938_160_000),
                sends_hash: true,
            };
            let url = format!("https://api.example.com{path}");
            let body = br#"[{"id":"1"}]"#;
            let request = Signable { method: "POST", url: &url, headers: &headers, body };
            let signed = sign(&credentials, scope, request).expect("signed");
            let found = signed.iter().find(|(name, _)| name == "authorization");
            let found = found.expect("one").1.expose();
            let covers = "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;\
                          x-amz-security-token, ";
            assert!(found.contains(covers), "{path}: {found}");
            assert!(found.ends_with(&format!("Signature={want}")), "{path}: {found}");
        }
    }
}
