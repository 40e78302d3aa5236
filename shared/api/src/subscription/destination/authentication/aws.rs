//! Authentication by an identity of AWS, in documents.

use gridpost_core::{
    endpoint::identities::{IdentityRefused, of_host},
    subscription::authentication::{
        Authentication, ClientSecret, Grant, SentBy, SigV4, SigningAlgorithm, WebIdentity,
        aws::ENTRA_AUDIENCE,
    },
};
use serde_json::{Value, json};

use super::{optional, required};
use crate::{
    document::{Code, Object, Problems, name_of, quoted},
    subscription::Context,
};

/// Instead of a client's secret: a token that says who it is.
pub(super) const ASSERTION: &str = "clientAssertion";

const SERVICE: &str = "service";

const REGION: &str = "region";

const ROLE: &str = "roleArn";

const AUDIENCE: &str = "audience";

const ALGORITHM: &str = "signingAlgorithm";

const TYPES: [(&str, ()); 1] = [("AwsWebIdentity", ())];

const ALGORITHMS: [(&str, SigningAlgorithm); 2] =
    [("RS256", SigningAlgorithm::RS256), ("ES384", SigningAlgorithm::ES384)];

/// Most characters of a service's or a region's name.
const NAME_CHARS_MAX: usize = 64;

/// Most characters of an audience. Source: STS API reference, `GetWebIdentityToken`.
const AUDIENCE_CHARS_MAX: usize = 1_000;

/// Reads Signature Version 4.
pub(super) fn read_signing(
    members: &mut Object<'_>,
    url: Option<&str>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let what = "the name that signatures are for, such as 'execute-api' (API Gateway) or 'lambda' \
                (function URLs)";
    let service = required(members, SERVICE, what, problems);
    let region = optional(members, REGION, problems);
    let role = optional(members, ROLE, problems);
    let host = url.and_then(of_host);
    let host = host.as_ref().map(|(service, region)| (*service, region.as_str()));
    let names = [
        (SERVICE, service.as_deref(), host.map(|(service, _)| service)),
        (REGION, region.as_deref(), host.map(|(_, region)| region)),
    ];
    let wrong = names.map(|(name, given, of_host)| {
        let rule = given.and_then(|given| wrong_name(given, of_host));
        rule.map(|rule| problems.add(Code::InvalidValue, members.path_of(name), rule)).is_some()
    });
    if wrong.contains(&true) {
        return None;
    }
    if let Some(rule) = service.as_deref().and_then(|service| unsignable(service, url)) {
        problems.add(Code::InvalidValue, members.path_of(SERVICE), rule);
        return None;
    }
    if role.as_deref().is_some_and(|role| !is_role(role)) {
        let rule = "must be the ARN of a role: arn:aws:iam::111122223333:role/name";
        problems.add(Code::InvalidValue, members.path_of(ROLE), rule);
        return None;
    }
    let by = SigV4 { service: service?, region, role };
    if let Some(Err(refused)) = url.map(|url| by.check(url, &context.allowed.identities)) {
        let (code, name) = match refused {
            IdentityRefused::Region => (Code::MissingMember, REGION),
            IdentityRefused::Own(_) | IdentityRefused::OwnService => (Code::InvalidValue, SERVICE),
            _ => (Code::InvalidValue, ROLE),
        };
        problems.add(code, members.path_of(name), refused.to_string());
    }
    Some(Authentication::AwsSigV4(by))
}

/// What is wrong with a part of a signature's scope: it must be a name, and the one that the
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
    // What is no UTF-8 is decoded as that character.
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

/// Reads a token that AWS signs.
pub(super) fn read_identity(
    members: &mut Object<'_>,
    url: Option<&str>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let what = "whom the token is for, one of the deployment's endpoint_audiences";
    members.required(AUDIENCE, what, problems);
    let by = read_web_identity(members, None, problems)?;
    let checked = url.map(|url| by.check_bearer(url, &context.allowed.identities));
    if let Some(Err(refused)) = checked {
        problems.add(Code::InvalidValue, members.path_of(AUDIENCE), refused.to_string());
    }
    Some(Authentication::AwsWebIdentity(by))
}

/// Reads the members of a token. `default` is the audience where none is given.
fn read_web_identity(
    members: &mut Object<'_>,
    default: Option<&str>,
    problems: &mut Problems,
) -> Option<WebIdentity> {
    let audience = match members.has(AUDIENCE) {
        true => optional(members, AUDIENCE, problems),
        false => default.map(str::to_owned),
    };
    if audience.as_deref().is_some_and(|it| it.chars().count() > AUDIENCE_CHARS_MAX) {
        let rule = format!("must have at most {AUDIENCE_CHARS_MAX} characters");
        problems.add(Code::InvalidValue, members.path_of(AUDIENCE), rule);
    }
    let algorithm = members.choice(ALGORITHM, &ALGORITHMS, Some("RS256"), problems);
    Some(WebIdentity { audience: audience?, algorithm: algorithm.unwrap_or_default() })
}

/// Reads what proves a client instead of a secret.
pub(super) fn read_assertion(
    members: &mut Object<'_>,
    grant: Option<&Grant>,
    (url, context): (Option<&str>, &Context<'_>),
    problems: &mut Problems,
) -> Option<ClientSecret> {
    let other = [super::SECRET, super::KEY].concat();
    for name in other {
        if members.value(name).is_some() {
            let rule = format!("must be left out (null) where {ASSERTION} is given");
            problems.add(Code::InvalidValue, members.path_of(name), rule);
        }
    }
    if matches!(grant, Some(Grant::OAuth2 { sent_by: SentBy::PrivateKeyJwt { .. }, .. })) {
        let rule = "must be left out where clientAuthentication is PrivateKeyJwt";
        problems.add(Code::InvalidValue, members.path_of(ASSERTION), rule);
    }
    let mut given = members.object(ASSERTION, problems)?;
    given.required("type", "'AwsWebIdentity'", problems);
    let kind = given.choice("type", &TYPES, None, problems);
    let what = "an object with audience and signingAlgorithm";
    let properties = given.required_object("properties", what, problems);
    given.finish(problems);
    let mut properties = properties?;
    kind?;
    let default = matches!(grant, Some(Grant::EntraId { .. })).then_some(ENTRA_AUDIENCE);
    if default.is_none() {
        properties.required(AUDIENCE, "whom the token is for", problems);
    }
    let by = read_web_identity(&mut properties, default, problems);
    let path = properties.path_of(AUDIENCE);
    properties.finish(problems);
    let by = by?;
    let token_url = grant.map(Grant::token_url);
    let named = &context.allowed.identities;
    let exchanged = token_url.map_or(Ok(()), |url| by.check_exchange(&url, named));
    let used = || url.map_or(Ok(()), |url| named.check_audience(&by.audience, url));
    if let Err(refused) = exchanged.and_then(|()| used()) {
        problems.add(Code::InvalidValue, path, refused.to_string());
    }
    Some(ClientSecret::AwsWebIdentity(by))
}

pub(super) fn write_signing(by: &SigV4) -> Value {
    json!({"service": by.service, "region": by.region, "roleArn": by.role})
}

pub(super) fn write_identity(by: &WebIdentity) -> Value {
    json!({"audience": by.audience, "signingAlgorithm": name_of(&ALGORITHMS, by.algorithm)})
}

pub(super) fn write_assertion(by: &WebIdentity) -> Value {
    json!({"type": "AwsWebIdentity", "properties": write_identity(by)})
}
