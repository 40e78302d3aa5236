//! The request for a token, and its answer, which is untrusted: bounded and checked before use.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{Grant, SentBy};
use crate::{endpoint::identities::IdentityRefused, secret::Secret, time::Timestamp};

/// The most bytes of a token: servers take headers of 8 to 16 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// How long a token is kept if its server does not say how long it lives.
const LIFE_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The longest that a token is kept.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long before its end a token is no longer used: clocks differ, and requests take time.
/// Short-lived tokens are used for three quarters of their life.
const MARGIN_MAX: Duration = Duration::from_secs(60);

/// Source: RFC 7523, section 2.2.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const ERROR_CHARS_MAX: usize = 40;

/// A request for a token: `POST`, with a form as its body.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    pub url: Secret,
    /// Set if the client's secret goes there.
    pub authorization: Option<Secret>,
    pub body: Secret,
}

/// How a client proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Secret(Secret),
    /// Source: RFC 7523, section 2.2.
    Assertion(Secret),
}

/// Builds a client's request.
pub fn request(grant: &Grant, client_id: &str, proof: &Proof) -> TokenRequest {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    let sent_by = match grant {
        Grant::OAuth2 { scope, audience, sent_by, .. } => {
            let asked = [("scope", scope), ("audience", audience)];
            for (name, value) in asked {
                if let Some(value) = value {
                    form.append_pair(name, value);
                }
            }
            sent_by.clone()
        }
        Grant::EntraId { application, .. } => {
            form.append_pair("scope", &format!("{application}/.default"));
            SentBy::Post
        }
    };
    let authorization = match (proof, sent_by) {
        (Proof::Assertion(assertion), _) => {
            form.append_pair("client_id", client_id)
                .append_pair("client_assertion_type", ASSERTION_TYPE)
                .append_pair("client_assertion", assertion.expose());
            None
        }
        (Proof::Secret(secret), SentBy::Post | SentBy::PrivateKeyJwt { .. }) => {
            form.append_pair("client_id", client_id).append_pair("client_secret", secret.expose());
            None
        }
        (Proof::Secret(secret), SentBy::Basic) => {
            // Both are encoded as in a form before they are joined. Source: RFC 6749, section 2.3.1.
            let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", part(client_id), part(secret.expose()));
            Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))))
        }
    };
    let (url, body) = (Secret::new(grant.token_url()), Secret::new(form.finish()));
    TokenRequest { url, authorization, body }
}

/// A token, and until when it may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    value: Secret,
    pub fetched_at: Timestamp,
    pub use_until: Timestamp,
    ends_at: Timestamp,
}

impl Token {
    /// Creates a token that lives for that long. Fails if a request can't carry it.
    pub fn new(value: &str, life: Duration, now: Timestamp) -> Result<Self, &'static str> {
        // Other characters would change the request that carries it.
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has characters that no token has");
        }
        if value.len() > TOKEN_BYTES_MAX {
            return Err("it is too long");
        }
        let use_until = now + life.saturating_sub(MARGIN_MAX.min(life / 4));
        let ends_at = use_until + life.saturating_sub(use_until.since(now)) / 2;
        Ok(Self { value: Secret::new(value), fetched_at: now, use_until, ends_at })
    }

    pub fn value(&self) -> &Secret {
        &self.value
    }

    /// Returns the value of `Authorization`.
    pub fn header(&self) -> Secret {
        Secret::new(format!("Bearer {}", self.value.expose()))
    }

    /// Returns whether a request may be sent with it.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.use_until
    }

    /// Returns whether it may be used if there is no newer one: half of the margin is left.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        now < self.ends_at
    }
}

/// The reason why there is no token. Texts repeat nothing of an answer but a checked error code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    #[error("the client secret can't be read: {0}")]
    NoSecret(String),
    /// Says why, without the key.
    #[error("the client's private key {0}")]
    NotSigned(String),
    /// The token endpoint was not asked, for a lack of file descriptors.
    #[error("this process has no file descriptor for the request; try again")]
    NotAsked,
    /// Says why, without secrets.
    #[error("the token endpoint gave no answer: {0}")]
    NoAnswer(String),
    #[error("the token endpoint answered {status}{}", .error.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused { status: u16, error: Option<String> },
    #[error("the token endpoint answered {status} without a usable token: {why}")]
    Unusable { status: u16, why: &'static str },
    #[error("the endpoint refused the token after {} s, too late to try again with a new one", .0.as_secs())]
    RefusedLate(Duration),
    #[error("the endpoint refused the token, and no other one could be had")]
    NoOther,
    #[error("{0}")]
    NotNamed(IdentityRefused),
    /// No credentials, no token, or no signature; the text says why.
    #[error("{0}")]
    Aws(String),
}

/// Reads the token endpoint's answer. Source: RFC 6749, 5.1 and 5.2; RFC 6750, 2.1.
pub fn read(status: u16, body: &[u8], now: Timestamp) -> Result<Token, NoToken> {
    let answer = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if status != 200 {
        let error = answer.get("error").and_then(Value::as_str).and_then(error_code);
        return Err(NoToken::Refused { status, error });
    }
    let unusable = |why| Err(NoToken::Unusable { status, why });
    if !answer.is_object() {
        return unusable("its body is not a JSON object");
    }
    let Some(token) = answer.get("access_token").and_then(Value::as_str) else {
        return unusable("access_token is missing");
    };
    let kind = answer.get("token_type").and_then(Value::as_str).unwrap_or("Bearer");
    if !kind.eq_ignore_ascii_case("Bearer") {
        return unusable("token_type is not Bearer");
    }
    Token::new(token, life(answer.get("expires_in")), now).or_else(unusable)
}

/// Reads a token's life: seconds as a number or, as Entra ID once had it, in a string.
fn life(given: Option<&Value>) -> Duration {
    let seconds = match given {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    let Some(seconds) = seconds.filter(|seconds| !seconds.is_nan()) else { return LIFE_DEFAULT };
    Duration::from_secs_f64(seconds.clamp(0.0, LIFE_MAX.as_secs_f64()))
}

/// Returns a code such as `invalid_client` if it is well-formed.
fn error_code(given: &str) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_code = (1..=ERROR_CHARS_MAX).contains(&given.len()) && given.bytes().all(legal);
    is_code.then(|| given.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn oauth(sent_by: SentBy) -> Grant {
        Grant::OAuth2 {
            token_url: "https://id.example/token".to_owned(),
            scope: Some("a b".to_owned()),
            audience: Some("https://api.example/".to_owned()),
            sent_by,
        }
    }

    #[test]
    fn requests_are_forms() {
        let secret = Secret::new("p&w=1 é");
        let proof = Proof::Secret(secret);
        let asked = request(&oauth(SentBy::Post), "id+1", &proof);
        assert_eq!(asked.url.expose(), "https://id.example/token");
        assert_eq!(
            asked.body.expose(),
            "grant_type=client_credentials&scope=a+b&audience=https%3A%2F%2Fapi.example%2F\
             &client_id=id%2B1&client_secret=p%26w%3D1+%C3%A9"
        );
        assert_eq!(asked.authorization, None);
        let asked = request(&oauth(SentBy::Basic), "id+1", &proof);
        assert!(!asked.body.expose().contains("client_secret"), "{}", asked.body.expose());
        let basic = asked.authorization.expect("basic");
        let encoded = basic.expose().strip_prefix("Basic ").expect("basic");
        let pair = STANDARD.decode(encoded).expect("base64");
        assert_eq!(String::from_utf8_lossy(&pair), "id%2B1:p%26w%3D1+%C3%A9");
        let signs = SentBy::PrivateKeyJwt { key_id: None, audience: None };
        let asked = request(&oauth(signs), "id+1", &Proof::Assertion(Secret::new("a.b.c")));
        let end = "&client_id=id%2B1&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A\
                   client-assertion-type%3Ajwt-bearer&client_assertion=a.b.c";
        assert!(asked.body.expose().ends_with(end), "{}", asked.body.expose());
        assert_eq!(asked.authorization, None);
        let application = "api://orders".to_owned();
        let entra = Grant::EntraId { tenant: "contoso.example".to_owned(), application };
        let asked = request(&entra, "c", &proof);
        let url = "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token";
        assert_eq!(asked.url.expose(), url);
        assert!(asked.body.expose().contains("scope=api%3A%2F%2Forders%2F.default&client_id=c"));
        assert!(!format!("{asked:?}").contains("p%26w"));
        for grant in [entra, oauth(SentBy::Basic)] {
            let asked = request(&grant, "c", &Proof::Assertion(Secret::new("ey.J+.x")));
            let want = "&client_id=c&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A\
                        client-assertion-type%3Ajwt-bearer&client_assertion=ey.J%2B.x";
            assert!(asked.body.expose().ends_with(want), "{}", asked.body.expose());
            assert_eq!(asked.authorization, None);
        }
    }

    #[test]
    fn tokens_are_kept_until_shortly_before_their_end() {
        let table = [
            (json!(3_600), 3_540_000),
            (json!("3600"), 3_540_000),
            (json!(100), 75_000),
            (json!(0), 0),
            (json!(-5), 0),
            (json!(1e300), 86_340_000),
            (json!("inf"), 86_340_000),
            (json!("NaN"), 240_000),
            (json!("soon"), 240_000),
            (json!(null), 240_000),
            (json!([1]), 240_000),
        ];
        for (expires_in, kept_ms) in table {
            let body =
                json!({"access_token": "t", "token_type": "bEARER", "expires_in": expires_in});
            let token = read(200, body.to_string().as_bytes(), NOW).expect("a token");
            let kept = token.use_until.since(NOW);
            assert_eq!(kept, Duration::from_millis(kept_ms), "{expires_in}");
            assert_eq!(token.header().expose(), "Bearer t");
            assert_eq!(token.is_fresh(NOW), kept_ms > 0, "{expires_in}");
            let life_ms = kept_ms + (kept_ms / 3).min(60_000);
            let last = NOW + Duration::from_millis(kept_ms + (life_ms - kept_ms) / 2);
            assert!(!token.is_valid(last), "{expires_in}");
            let just_before = Timestamp::from_millis(last.as_millis() - 1);
            assert!(token.is_valid(just_before), "{expires_in}");
        }
    }

    #[test]
    fn what_is_no_token_is_said_and_never_repeated() {
        let long = "t".repeat(TOKEN_BYTES_MAX + 1);
        let table = [
            (200, "hush".to_owned(), "without a usable token: its body is not a JSON object"),
            (200, "[\"hush\"]".to_owned(), "its body is not a JSON object"),
            (200, "{\"token\": \"hush\"}".to_owned(), "access_token is missing"),
            (200, json!({"access_token": 5}).to_string(), "access_token is missing"),
            (200, json!({"access_token": ""}).to_string(), "characters"),
            (200, json!({"access_token": "hush\r\nX: 1"}).to_string(), "characters"),
            (200, json!({"access_token": "hush hush"}).to_string(), "characters"),
            (200, json!({"access_token": "hüsh"}).to_string(), "characters"),
            (200, json!({"access_token": long}).to_string(), "too long"),
            (200, json!({"access_token": "t", "token_type": "mac"}).to_string(), "not Bearer"),
            (400, json!({"error": "invalid_client"}).to_string(), "answered 400 (invalid_client)"),
            (400, json!({"error": "hush\nhush"}).to_string(), "answered 400"),
            (401, json!({"error": {"hush": 1}}).to_string(), "answered 401"),
            (302, String::new(), "answered 302"),
            (500, "hush".to_owned(), "answered 500"),
        ];
        for (status, body, want) in table {
            let refused = read(status, body.as_bytes(), NOW).expect_err(&body);
            let said = refused.to_string();
            assert!(said.contains(want), "{body}: {said}");
            assert!(!said.contains("hush") && !said.contains('\n'), "{said}");
        }
    }
}
