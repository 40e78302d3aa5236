//! Authentication by an identity of AWS.

use gridpost_core::{
    endpoint::identities::{IdentityRefused, of_host},
    subscription::authentication::{self, ClientSecret, Grant, SentBy, aws::ENTRA_AUDIENCE},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Endpoint, check_text};
use crate::{
    document::{At, Code, quoted},
    schema::stand_in,
};

/// Most characters of a service's or a region's name.
const NAME_CHARS_MAX: usize = 64;

/// Requests are signed by AWS's Signature Version 4: an object with service.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigV4 {
    /// The name that signatures are for, such as 'execute-api' (API Gateway) or 'lambda' (function
    /// URLs).
    #[schema(required = true, min_length = 1, max_length = 64, pattern = "^[a-z0-9-]+$")]
    pub service: Option<String>,
    /// Left out, it is the one that the endpoint's host shows.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z0-9-]+$")]
    pub region: Option<String>,
    /// The role that signs; left out, dispatch's own.
    #[schema(min_length = 1, max_length = 1_024)]
    pub role_arn: Option<String>,
}

/// A token that AWS signs: an object with audience.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebIdentity {
    /// Whom the token is for, one of the deployment's endpoint_audiences.
    #[schema(min_length = 1, max_length = 1_000)]
    pub audience: Option<String>,
    #[schema(value_type = Option<stand_in::SigningAlgorithm>, default = "RS256")]
    pub signing_algorithm: Option<authentication::SigningAlgorithm>,
}

/// Instead of a secret: a token that AWS signs says who the client is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", content = "properties")]
pub enum ClientAssertion {
    AwsWebIdentity(WebIdentity),
}

impl SigV4 {
    pub(super) fn read(
        self,
        endpoint: &Endpoint<'_>,
        at: &mut At<'_>,
    ) -> Option<authentication::Authentication> {
        let Self { service, region, role_arn: role } = self;
        let url = endpoint.url;
        let host = url.and_then(of_host);
        let host = host.as_ref().map(|(service, region)| (*service, region.as_str()));
        let names = [
            ("service", service.as_deref(), host.map(|(service, _)| service)),
            ("region", region.as_deref(), host.map(|(_, region)| region)),
        ];
        let mut add = |code: Code, name: &str, rule: String| {
            at.member(name).add(code, rule);
        };
        let wrong = names.map(|(name, given, of_host)| {
            let rule = given.and_then(|given| wrong_name(given, of_host));
            rule.map(|rule| add(Code::InvalidValue, name, rule)).is_some()
        });
        if wrong.contains(&true) {
            return None;
        }
        if let Some(rule) = service.as_deref().and_then(|service| unsignable(service, url)) {
            add(Code::InvalidValue, "service", rule.to_owned());
            return None;
        }
        if role.as_deref().is_some_and(|role| !is_role(role)) {
            let rule = "must be the ARN of a role: arn:aws:iam::111122223333:role/name";
            add(Code::InvalidValue, "roleArn", rule.to_owned());
            return None;
        }
        let by = authentication::SigV4 { service: service?, region, role };
        let named = &endpoint.context.allowed.identities;
        if let Some(Err(refused)) = url.map(|url| by.check(url, named)) {
            let (code, name) = match refused {
                IdentityRefused::Region => (Code::MissingMember, "region"),
                IdentityRefused::Own(_) | IdentityRefused::OwnService => {
                    (Code::InvalidValue, "service")
                }
                _ => (Code::InvalidValue, "roleArn"),
            };
            add(code, name, refused.to_string());
        }
        Some(authentication::Authentication::AwsSigV4(by))
    }

    pub(super) fn of(by: &authentication::SigV4) -> Self {
        let (service, region) = (Some(by.service.clone()), by.region.clone());
        Self { service, region, role_arn: by.role.clone() }
    }
}

/// Returns the problem of a part of a signature's scope: it must be a name, and the one that the
/// endpoint's host shows, which would refuse every other.
fn wrong_name(given: &str, of_host: Option<&str>) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if given.len() > NAME_CHARS_MAX || !given.bytes().all(legal) {
        let rule =
            format!("must have at most {NAME_CHARS_MAX} lower-case letters, digits and hyphens");
        return Some(rule);
    }
    let want = of_host.filter(|want| *want != given)?;
    Some(format!("must be {}, as the endpoint's host has it", quoted(want)))
}

/// Why requests to a URL can't be signed for a service so that it takes them.
///
/// Source: Signature Version 4, "Create a canonical request": S3 alone encodes paths once, and names and
/// values of a query are decoded as UTF-8, with `+` as itself.
fn unsignable(service: &str, url: Option<&str>) -> Option<&'static str> {
    if service == "s3" || service.starts_with("s3-") {
        return Some("must not be S3, whose signatures differ: events can be sent to no bucket");
    }
    let url = url::Url::parse(url?).ok()?;
    let query = url.query()?;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    // Bytes that are not UTF-8 are decoded as that character.
    let is_utf8 =
        pairs.all(|(name, value)| !name.contains('\u{FFFD}') && !value.contains('\u{FFFD}'));
    let is_plain = is_utf8 && !query.contains('+');
    (!is_plain).then_some(
        "can't sign for the endpoint's URL: its query must be UTF-8, with '%20' for a space and '%2B' \
         for a '+'",
    )
}

fn is_role(text: &str) -> bool {
    let mut parts = text.splitn(6, ':');
    let mut part = || parts.next().unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'*' | b'?');
    part() == "arn"
        && part().starts_with("aws")
        && part() == "iam"
        && part().is_empty()
        && matches!(part(), account if account.len() == 12 && account.bytes().all(|it| it.is_ascii_digit()))
        && part().strip_prefix("role/").is_some_and(|name| !name.is_empty())
        && text.bytes().all(legal)
}

impl WebIdentity {
    pub(super) fn read(
        self,
        endpoint: &Endpoint<'_>,
        at: &mut At<'_>,
    ) -> Option<authentication::Authentication> {
        let by = self.read_token(None, at)?;
        let named = &endpoint.context.allowed.identities;
        if let Some(Err(refused)) = endpoint.url.map(|url| by.check_bearer(url, named)) {
            at.member("audience").invalid(refused.to_string());
        }
        Some(authentication::Authentication::AwsWebIdentity(by))
    }

    /// Reads what a token says. `default` is the audience where none is given.
    fn read_token(
        self,
        default: Option<&str>,
        at: &mut At<'_>,
    ) -> Option<authentication::WebIdentity> {
        let at = &mut at.member("audience");
        let audience = self.audience.or_else(|| default.map(str::to_owned));
        if audience.is_none() {
            let what =
                "is required: whom the token is for, one of the deployment's endpoint_audiences";
            at.require(what);
        }
        let audience = check_text(audience, at)?;
        let algorithm = self.signing_algorithm.unwrap_or_default();
        Some(authentication::WebIdentity { audience, algorithm })
    }

    pub(super) fn of(by: &authentication::WebIdentity) -> Self {
        Self { audience: Some(by.audience.clone()), signing_algorithm: Some(by.algorithm) }
    }
}

impl ClientAssertion {
    pub(super) fn read(
        self,
        grant: Option<&Grant>,
        endpoint: &Endpoint<'_>,
        at: &mut At<'_>,
    ) -> Option<ClientSecret> {
        if matches!(grant, Some(Grant::OAuth2 { sent_by: SentBy::PrivateKeyJwt { .. }, .. })) {
            let rule = "must be left out where clientAuthentication is PrivateKeyJwt";
            at.invalid(rule);
        }
        let Self::AwsWebIdentity(given) = self;
        let default = matches!(grant, Some(Grant::EntraId { .. })).then_some(ENTRA_AUDIENCE);
        let at = &mut at.member("properties");
        let by = given.read_token(default, at)?;
        let named = &endpoint.context.allowed.identities;
        let exchanged = grant.map_or(Ok(()), |grant| by.check_exchange(&grant.token_url(), named));
        let used = || endpoint.url.map_or(Ok(()), |url| named.check_audience(&by.audience, url));
        if let Err(refused) = exchanged.and_then(|()| used()) {
            at.member("audience").invalid(refused.to_string());
        }
        Some(ClientSecret::AwsWebIdentity(by))
    }

    pub(super) fn of(by: &authentication::WebIdentity) -> Self {
        Self::AwsWebIdentity(WebIdentity::of(by))
    }
}
