//! Requests and answers of the Security Token Service. Errors only quote its code. Source: STS API
//! reference, `AssumeRole` and `GetWebIdentityToken`.

use std::time::Duration;

use aws_credential_types::Credentials;
use gridpost_core::{
    secret::Secret,
    subscription::authentication::{
        WebIdentity,
        token::{NoToken, Token},
    },
    time::Timestamp,
};
use gridpost_ports::HandshakeResponse;
use serde::{Deserialize, de::DeserializeOwned};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use url::form_urlencoded::Serializer;

use crate::services::Call;

const VERSION: &str = "2011-06-15";
const HEADERS: &[(&str, &str)] = &[("content-type", "application/x-www-form-urlencoded")];

/// The most if a role assumes another. Source: as above.
const ROLE_LIFE: Duration = Duration::from_secs(60 * 60);

/// STS's default, which a function's credentials outlast. Source: as above, `DurationSeconds`.
const TOKEN_LIFE: Duration = Duration::from_secs(5 * 60);

/// Shown in CloudTrail.
const SESSION_NAME: &str = "gridpost";

/// How long before they expire credentials are replaced.
const MARGIN: Duration = Duration::from_secs(5 * 60);

/// How long before they expire credentials are no longer used.
const LAST_MINUTE: Duration = Duration::from_secs(60);
const CODE_CHARS_MAX: usize = 60;
pub(crate) const ASSUME_ROLE: &str = "sts:AssumeRole";
pub(crate) const GET_TOKEN: &str = "sts:GetWebIdentityToken";

pub(crate) fn call<'a>(name: &'static str, region: &'a str, body: &'a str) -> Call<'a> {
    Call { name, service: "sts", region, headers: HEADERS, body }
}

pub(crate) fn assume_role(role: &str) -> String {
    form("AssumeRole")
        .append_pair("RoleArn", role)
        .append_pair("RoleSessionName", SESSION_NAME)
        .append_pair("DurationSeconds", &ROLE_LIFE.as_secs().to_string())
        .finish()
}

pub(crate) fn get_token(of: &WebIdentity) -> String {
    form("GetWebIdentityToken")
        .append_pair("Audience.member.1", &of.audience)
        .append_pair("SigningAlgorithm", of.algorithm.into())
        .append_pair("DurationSeconds", &TOKEN_LIFE.as_secs().to_string())
        .finish()
}

fn form(action: &str) -> Serializer<'static, String> {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", VERSION);
    form
}

/// A role's credentials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assumed {
    pub(crate) credentials: Credentials,
    pub(crate) fetched_at: Timestamp,
    pub(crate) use_until: Timestamp,
    /// A minute before they expire: requests take time, and clocks differ.
    pub(crate) valid_until: Timestamp,
}

#[derive(Deserialize)]
struct Response<T> {
    #[serde(alias = "AssumeRoleResult", alias = "GetWebIdentityTokenResult")]
    result: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumeRoleResult {
    credentials: AwsCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AwsCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TokenResult {
    web_identity_token: String,
    expiration: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorResponse {
    error: ErrorCode,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorCode {
    code: String,
}

pub(crate) fn read_role(answer: &HandshakeResponse, now: Timestamp) -> Result<Assumed, NoToken> {
    let given: Response<AssumeRoleResult> = read(ASSUME_ROLE, answer, "credentials")?;
    let AwsCredentials { access_key_id, secret_access_key, session_token, expiration } =
        given.result.credentials;
    // Both go into headers.
    let is_part = |text: &str| {
        !text.is_empty() && text.len() <= MAX_BYTES && text.bytes().all(|it| it.is_ascii_graphic())
    };
    if !is_part(&access_key_id) || !is_part(&session_token) || secret_access_key.is_empty() {
        return Err(unusable(ASSUME_ROLE, "credentials have characters that none have"));
    }
    let life = life(ASSUME_ROLE, &expiration, now)?.min(ROLE_LIFE);
    let use_until = now + life.saturating_sub(MARGIN.min(life / 4));
    let valid_until = now + life.saturating_sub(LAST_MINUTE.min(life / 4));
    let credentials =
        Credentials::new(access_key_id, secret_access_key, Some(session_token), None, "sts");
    Ok(Assumed { credentials, fetched_at: now, use_until, valid_until })
}

pub(crate) fn read_token(
    answer: &HandshakeResponse,
    now: Timestamp,
) -> Result<(Secret, Duration), NoToken> {
    let given: Response<TokenResult> = read(GET_TOKEN, answer, "token")?;
    let TokenResult { web_identity_token, expiration } = given.result;
    let life = life(GET_TOKEN, &expiration, now)?.min(TOKEN_LIFE);
    let token = Token::new(&web_identity_token, life, now);
    let token = token.map_err(|why| unusable(GET_TOKEN, why))?;
    Ok((token.value().clone(), life))
}

/// Most bytes of a part of a header.
const MAX_BYTES: usize = 8 * 1_024;

fn unusable(call: &str, why: &str) -> NoToken {
    NoToken::Aws(format!("{call} answered 200 without what can be used: {why}"))
}

fn read<T: DeserializeOwned>(
    call: &'static str,
    answer: &HandshakeResponse,
    what: &str,
) -> Result<T, NoToken> {
    let text = std::str::from_utf8(&answer.body).unwrap_or_default();
    if answer.status != 200 {
        let code = quick_xml::de::from_str::<ErrorResponse>(text).ok();
        let code = code.map(|it| it.error.code.trim().to_owned()).filter(|code| is_code(code));
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        return Err(NoToken::Aws(format!("{call} answered {}{code}", answer.status)));
    }
    // The parser's error could quote the answer.
    quick_xml::de::from_str(text).map_err(|_| unusable(call, &format!("it has no {what}")))
}

/// Whether a text is a code such as `AccessDenied`.
fn is_code(text: &str) -> bool {
    (1..=CODE_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
}

fn life(call: &str, expiration: &str, now: Timestamp) -> Result<Duration, NoToken> {
    let ends = OffsetDateTime::parse(expiration.trim(), &Rfc3339)
        .map_err(|_| unusable(call, "its expiration is not a time"))?;
    let ends_ms = i64::try_from(ends.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX);
    let left_ms = u64::try_from(ends_ms.saturating_sub(now.as_millis())).unwrap_or(0);
    Ok(Duration::from_millis(left_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2030-01-02T03:04:05Z
    const NOW: Timestamp = Timestamp::from_millis(1_893_553_445_000);

    fn answer(status: u16, body: &str) -> HandshakeResponse {
        HandshakeResponse {
            status,
            headers: http::HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn role(id: &str, token: &str, expiration: &str) -> String {
        format!(
            "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\
             <AssumedRoleUser><AssumedRoleId>ARO123:gridpost</AssumedRoleId><Arn>arn:x</Arn>\
             </AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>hush/+=\
             </SecretAccessKey><SessionToken>{token}</SessionToken><Expiration>{expiration}</Expiration>\
             </Credentials></AssumeRoleResult><ResponseMetadata><RequestId>r</RequestId>\
             </ResponseMetadata></AssumeRoleResponse>"
        )
    }

    fn token(token: &str, expiration: &str) -> String {
        format!(
            "<GetWebIdentityTokenResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <GetWebIdentityTokenResult><WebIdentityToken>{token}</WebIdentityToken>\
             <Expiration>{expiration}</Expiration></GetWebIdentityTokenResult><ResponseMetadata>\
             <RequestId>r</RequestId></ResponseMetadata></GetWebIdentityTokenResponse>"
        )
    }

    #[test]
    fn requests_are_forms() {
        assert_eq!(
            assume_role("arn:aws:iam::111122223333:role/a"),
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%2Fa\
             &RoleSessionName=gridpost&DurationSeconds=3600"
        );
        let of = WebIdentity { audience: "api://a b".to_owned(), algorithm: Default::default() };
        assert_eq!(
            get_token(&of),
            "Action=GetWebIdentityToken&Version=2011-06-15&Audience.member.1=api%3A%2F%2Fa+b\
             &SigningAlgorithm=RS256&DurationSeconds=300"
        );
    }

    #[test]
    fn roles_and_tokens_live_as_long_as_they_say() {
        let table = [
            ("2030-01-02T04:04:05Z", 3_300_000, 300_000),
            ("2030-01-02T03:08:05Z", 180_000, 240_000),
            ("2030-01-02T03:08:05.500+00:00", 180_375, 240_500),
            ("2031-01-02T03:04:05Z", 3_300_000, 300_000),
            ("2030-01-02T03:04:05Z", 0, 0),
            ("2029-01-02T03:04:05Z", 0, 0),
        ];
        for (expiration, role_ms, token_ms) in table {
            let read = read_role(&answer(200, &role("ASIA1", "session", expiration)), NOW);
            let read = read.expect("credentials");
            assert_eq!(read.credentials.access_key_id(), "ASIA1");
            assert_eq!(read.credentials.secret_access_key(), "hush/+=");
            assert_eq!(read.credentials.session_token(), Some("session"));
            assert_eq!(read.use_until.since(NOW), Duration::from_millis(role_ms), "{expiration}");
            let read =
                read_token(&answer(200, &token("ey.J.x", expiration)), NOW).expect("a token");
            let want = (Secret::new("ey.J.x"), Duration::from_millis(token_ms));
            assert_eq!(read, want, "{expiration}");
        }
    }

    #[test]
    fn hostile_answers_are_said_and_never_repeated() {
        const ENDS: &str = "2030-01-02T04:04:05Z";
        let error = |code: &str| {
            format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>hush</Message></Error></ErrorResponse>"
            )
        };
        let long = "h".repeat(9_000);
        let bomb =
            "<!DOCTYPE a [<!ENTITY b \"hush\">]><AssumeRoleResponse>&b;</AssumeRoleResponse>";
        let table = [
            (403, error("AccessDenied"), "answered 403 (AccessDenied)"),
            (400, error("hush hush"), "answered 400"),
            (400, error(&long), "answered 400"),
            (500, "hush".to_owned(), "answered 500"),
            (302, String::new(), "answered 302"),
            (200, "hush".to_owned(), "it has no"),
            (200, "{\"hush\": 1}".to_owned(), "it has no"),
            (200, bomb.to_owned(), "it has no"),
            (200, "<a>".repeat(5_000), "it has no"),
        ];
        for (status, body, want) in &table {
            let given = answer(*status, body);
            let failures = [
                read_role(&given, NOW).expect_err(body).to_string(),
                read_token(&given, NOW).expect_err(body).to_string(),
            ];
            for said in failures {
                assert!(said.contains(want) && !said.contains("hush"), "{said}");
                assert!(said.starts_with("sts:"), "{said}");
            }
        }
        for (id, session, expiration) in [
            ("ASIA1&#10;X: 1", "session", ENDS),
            ("", "session", ENDS),
            ("ASIA1", "hush&#13;&#10;X: 1", ENDS),
            ("ASIA1", "hüsh", ENDS),
            ("ASIA1", &long, ENDS),
            ("ASIA1", "session", "hush"),
        ] {
            let failed = read_role(&answer(200, &role(id, session, expiration)), NOW);
            let said = failed.expect_err(id).to_string();
            assert!(said.contains("without what can be used") && !said.contains("hush"), "{said}");
        }
        for (given, expiration) in
            [("hush&#10;x", ENDS), ("", ENDS), (&long, ENDS), ("ey.J.x", "hush")]
        {
            let said = read_token(&answer(200, &token(given, expiration)), NOW);
            let said = said.expect_err(given).to_string();
            assert!(said.contains("without what can be used") && !said.contains("hush"), "{said}");
        }
    }
}
