//! Reads and writes `authentication`, and Event Grid's own `azureActiveDirectory…` members.

mod aws;
mod certificate;

use gridpost_core::{
    endpoint::secrets::SecretRefused,
    pem,
    secret::Secret,
    subscription::{
        DeliveryAttribute, EventSubscription,
        authentication::{Authentication, Client, ClientCredentials, ClientSecret, Grant, SentBy},
    },
};
use serde_json::{Value, json};

use super::{super::Context, check_url};
use crate::document::{Code, Object, Problems, azure::is_empty, name_of};

const NAME: &str = "authentication";

/// Event Grid's own members.
const TENANT: &str = "azureActiveDirectoryTenantId";
const APPLICATION: &str = "azureActiveDirectoryApplicationIdOrUri";

/// The members of what a client proves itself by: with the value, or with its name.
type Names = [&'static str; 2];

const SECRET: Names = ["clientSecret", "clientSecretReference"];
const KEY: Names = ["privateKey", "privateKeyReference"];

const KEY_ID: &str = "keyId";
const ASSERTION_AUDIENCE: &str = "assertionAudience";

const TYPES: [(&str, Type); 5] = [
    ("OAuth2ClientCredentials", Type::OAuth2),
    ("EntraId", Type::EntraId),
    ("ClientCertificate", Type::ClientCertificate),
    ("AwsSigV4", Type::AwsSigV4),
    ("AwsWebIdentity", Type::AwsWebIdentity),
];

const WAYS: [(&str, Way); 3] =
    [("Post", Way::Post), ("Basic", Way::Basic), ("PrivateKeyJwt", Way::PrivateKeyJwt)];

/// How a client proves itself to a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Post,
    Basic,
    PrivateKeyJwt,
}

/// Most characters of a client's id, a scope, an audience, a tenant, an application.
const CHARS_MAX: usize = 1_024;

/// Most bytes of a secret: a private key of 4,096 bits fits.
const SECRET_BYTES_MAX: usize = 4_096;

/// What reads of other services show instead of a secret.
const HIDDEN: &str = "Hidden";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    OAuth2,
    EntraId,
    AwsSigV4,
    AwsWebIdentity,
    ClientCertificate,
}

/// Reads how a webhook's requests are authenticated. `has_stayed` says whether the endpoint is the
/// stored one's party: only then is a stored secret kept that the document leaves out. `url` is the
/// endpoint's, if it could be read.
pub(super) fn read(
    webhook: &mut Object<'_>,
    context: &Context<'_>,
    url: Option<&str>,
    has_stayed: bool,
    problems: &mut Problems,
) -> Option<Authentication> {
    let of_azure = read_azure(webhook, context, problems);
    let path = webhook.path_of(NAME);
    let Some(mut given) = webhook.object(NAME, problems) else { return of_azure };
    if of_azure.is_some() {
        let rule = format!("must be left out where {TENANT} and {APPLICATION} are given");
        problems.add(Code::InvalidValue, path, rule);
    }
    let what = "'OAuth2ClientCredentials', 'EntraId', 'ClientCertificate', 'AwsSigV4' or \
                'AwsWebIdentity'";
    given.required("type", what, problems);
    let kind = given.choice("type", &TYPES, None, problems);
    if kind.is_none() && given.has("type") {
        // Its members are another type's.
        return None;
    }
    let what =
        "an object with the members of that type, such as clientId and clientSecretReference";
    let members = given.required_object("properties", what, problems);
    given.finish(problems);
    let mut members = members?;
    let stored = context.existing.filter(|_| has_stayed);
    let stored = stored.and_then(|existing| existing.authentication.as_deref());
    let read = match kind? {
        Type::OAuth2 => {
            let grant = read_oauth(&mut members, context, problems);
            read_client(&mut members, grant, stored, (url, context), problems)
        }
        Type::EntraId => {
            let grant = read_entra(&mut members, problems);
            read_client(&mut members, grant, stored, (url, context), problems)
        }
        Type::ClientCertificate => certificate::read(&mut members, url, stored, context, problems),
        Type::AwsSigV4 => aws::read_signing(&mut members, url, context, problems),
        Type::AwsWebIdentity => aws::read_identity(&mut members, url, context, problems),
    };
    members.finish(problems);
    read
}

/// Reads the client that asks for tokens.
fn read_client(
    members: &mut Object<'_>,
    grant: Option<Grant>,
    stored: Option<&Authentication>,
    (url, context): (Option<&str>, &Context<'_>),
    problems: &mut Problems,
) -> Option<Authentication> {
    let id = required(members, "clientId", "the client's id", problems);
    let stored = match stored {
        Some(Authentication::ClientCredentials(stored)) => Some(stored),
        _ => None,
    };
    let secret = match members.has(aws::ASSERTION) {
        true => aws::read_assertion(members, grant.as_ref(), (url, context), problems),
        false => read_secret(members, grant.as_ref(), stored, context, problems),
    };
    let client = Client::Own { id: id?, secret: secret? };
    Some(Authentication::ClientCredentials(ClientCredentials { grant: grant?, client }))
}

/// Reads Event Grid's own members: the deployment's client asks for tokens.
fn read_azure(
    webhook: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    if context.allowed.secrets.entra.is_none() {
        let instead = "its operator sets endpoint_entra_client; or write authentication of type \
                       EntraId, with a client of your own";
        webhook.not_yet(TENANT, is_empty, instead, problems);
        webhook.not_yet(APPLICATION, is_empty, instead, problems);
        return None;
    }
    let (has_tenant, has_application) = (webhook.has(TENANT), webhook.has(APPLICATION));
    webhook.ignore(&[TENANT, APPLICATION]);
    if !has_tenant && !has_application {
        return None;
    }
    let tenant = read_tenant(webhook, TENANT, problems);
    let what = "the id or the URI of the endpoint's application";
    let application = required(webhook, APPLICATION, what, problems);
    let grant = Grant::EntraId { tenant: tenant?, application: application? };
    let credentials = ClientCredentials { grant, client: Client::Deployment };
    Some(Authentication::ClientCredentials(credentials))
}

fn read_oauth(
    members: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Grant> {
    const URL: &str = "tokenUrl";
    let given = members.required_text(URL, "the https URL of the token endpoint", problems);
    let path = members.path_of(URL);
    let scope = optional(members, "scope", problems);
    let audience = optional(members, "audience", problems);
    let sent_by = read_way(members, problems);
    let token_url = given?.to_owned();
    if let Err(rule) = check_url(&token_url, context) {
        problems.add(Code::InvalidValue, path, rule);
    } else if token_url.contains(['?', '#']) {
        let rule = "must have no query and no fragment: reads show it";
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(Grant::OAuth2 { token_url, scope, audience, sent_by })
}

fn read_way(members: &mut Object<'_>, problems: &mut Problems) -> SentBy {
    let way = members.choice("clientAuthentication", &WAYS, Some("Post"), problems);
    if way == Some(Way::PrivateKeyJwt) {
        return SentBy::PrivateKeyJwt {
            key_id: optional(members, KEY_ID, problems),
            audience: optional(members, ASSERTION_AUDIENCE, problems),
        };
    }
    for name in [KEY_ID, ASSERTION_AUDIENCE, KEY[0], KEY[1]] {
        if members.value(name).is_some() {
            let rule = "is for clientAuthentication PrivateKeyJwt alone";
            problems.add(Code::InvalidValue, members.path_of(name), rule);
        }
    }
    if way == Some(Way::Basic) { SentBy::Basic } else { SentBy::Post }
}

/// The members of what a client of that grant proves itself by.
fn names(grant: Option<&Grant>) -> Names {
    match grant {
        Some(Grant::OAuth2 { sent_by: SentBy::PrivateKeyJwt { .. }, .. }) => KEY,
        _ => SECRET,
    }
}

fn read_entra(members: &mut Object<'_>, problems: &mut Problems) -> Option<Grant> {
    let tenant = read_tenant(members, "tenantId", problems);
    let what = "the id or the URI of the endpoint's application";
    let application = required(members, "applicationIdOrUri", what, problems);
    Some(Grant::EntraId { tenant: tenant?, application: application? })
}

/// Reads a tenant, which becomes a part of a URL's path.
fn read_tenant(
    members: &mut Object<'_>,
    name: &'static str,
    problems: &mut Problems,
) -> Option<String> {
    let tenant = required(members, name, "the tenant's id, or a domain of it", problems)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !tenant.bytes().all(legal) || tenant.bytes().all(|byte| byte == b'.') {
        let rule = "must be a tenant's id or a domain: letters, digits, '-' and '.'";
        problems.add(Code::InvalidValue, members.path_of(name), rule);
        return None;
    }
    Some(tenant)
}

fn required(
    members: &mut Object<'_>,
    name: &'static str,
    what: &str,
    problems: &mut Problems,
) -> Option<String> {
    members.required(name, what, problems)?;
    optional(members, name, problems)
}

fn optional(
    members: &mut Object<'_>,
    name: &'static str,
    problems: &mut Problems,
) -> Option<String> {
    let given = members.text(name, problems)?;
    let chars = given.chars().count();
    if !(1..=CHARS_MAX).contains(&chars) || given.chars().any(char::is_control) {
        let rule = format!("must have 1 to {CHARS_MAX} characters, and no control characters");
        problems.add(Code::InvalidValue, members.path_of(name), rule);
        return None;
    }
    Some(given.to_owned())
}

/// Reads the secret or its name. One that is left out is the stored one, if neither the endpoint
/// nor the token URL is another party's.
fn read_secret(
    members: &mut Object<'_>,
    grant: Option<&Grant>,
    stored: Option<&ClientCredentials>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<ClientSecret> {
    let names = names(grant);
    refuse_other(members, names, problems);
    let [secret, reference] = names;
    let (path, reference_path) = (members.path_of(secret), members.path_of(reference));
    let is_given = members.has(secret);
    let given = members.text(secret, problems);
    if let Some(name) = members.text(reference, problems) {
        if is_given {
            let rule = format!("must be left out (null) where {secret} is given");
            problems.add(Code::InvalidValue, reference_path, rule);
            return None;
        }
        if let Some(grant) = grant {
            check_reference(name, &grant.token_url(), reference_path, context, problems);
            let audience = grant.assertion_audience();
            if audience.is_some_and(|url| context.allowed.secrets.check(name, url).is_err()) {
                let rule = format!(
                    "must be left out, or the https URL of a host that the deployment names for the key \
                     of {reference}: another server would take the assertion, too"
                );
                problems.add(Code::InvalidValue, members.path_of(ASSERTION_AUDIENCE), rule);
            }
        }
        return Some(ClientSecret::Reference { name: name.to_owned() });
    }
    if is_given && given.is_none() {
        return None;
    }
    let Some(given) = given.filter(|given| *given != HIDDEN) else {
        let kept = stored.zip(grant).and_then(|(stored, grant)| kept(stored, grant));
        if kept.is_none() {
            let rule = format!(
                "is required, or {reference} (left out or 'Hidden', it keeps the stored secret while \
                 the token URL and the endpoint's scheme, host and port stay as they are, and nothing \
                 is stored)"
            );
            problems.add(Code::MissingMember, path, rule);
        }
        return kept;
    };
    check_size(given, SECRET_BYTES_MAX, &path, problems);
    if names == KEY
        && let Err(problem) = pem::private_key(given)
    {
        problems.add(Code::InvalidValue, path, problem.to_string());
    }
    Some(ClientSecret::Inline { value: Secret::new(given) })
}

/// Checks how long a text is, which is not repeated: it may be a secret.
fn check_size(given: &str, most: usize, path: &str, problems: &mut Problems) {
    let bytes = given.len();
    if bytes == 0 || bytes > most {
        let rule = format!("must have 1 to {most} bytes, but has {bytes}");
        problems.add(Code::OutOfRange, path, rule);
    }
}

/// Checks that a secret may be used for what is sent to that URL.
fn check_reference(
    name: &str,
    url: &str,
    path: String,
    context: &Context<'_>,
    problems: &mut Problems,
) {
    let Err(refused) = context.allowed.secrets.check(name, url) else { return };
    let hint = match refused {
        SecretRefused::Unknown => " (its operator names them in endpoint_secrets)",
        SecretRefused::Host(_) => "",
    };
    problems.add(Code::InvalidValue, path, format!("{refused}{hint}"));
}

/// Refuses the members of the other way to prove oneself. A read shows them as null.
fn refuse_other(members: &mut Object<'_>, names: Names, problems: &mut Problems) {
    if names != KEY {
        return;
    }
    for name in SECRET {
        if members.value(name).is_some() {
            let rule = format!("must be left out: PrivateKeyJwt takes {} or {}", KEY[0], KEY[1]);
            problems.add(Code::InvalidValue, members.path_of(name), rule);
        }
    }
}

/// The stored secret, if tokens are still asked for at the same URL, and by the same kind of secret for
/// the same audience.
fn kept(stored: &ClientCredentials, grant: &Grant) -> Option<ClientSecret> {
    match &stored.client {
        Client::Own { secret: secret @ ClientSecret::Inline { .. }, .. }
            if stored.grant.token_url() == grant.token_url()
                && stored.grant.assertion_audience() == grant.assertion_audience()
                && names(Some(&stored.grant)) == names(Some(grant)) =>
        {
            Some(secret.clone())
        }
        _ => None,
    }
}

/// Refuses a delivery attribute that would take the place of a header that authenticates.
pub(super) fn refuse_own_header(
    webhook: &Object<'_>,
    attributes: &[DeliveryAttribute],
    by: &Authentication,
    problems: &mut Problems,
) {
    let is_signed = matches!(by, Authentication::AwsSigV4(_));
    let has = |is_own: fn(&str) -> bool| {
        attributes.iter().any(|one| is_own(&one.name.to_ascii_lowercase()))
    };
    if has(|name| name == "authorization") {
        let rule = "must not have Authorization where the endpoint's authentication is given: its \
                    token or its signature is sent in that header";
        problems.add(Code::InvalidValue, webhook.path_of("deliveryAttributeMappings"), rule);
    }
    // A service of AWS takes commands by such headers.
    if is_signed && has(|name| name.starts_with("x-amz-")) {
        let rule = "must not have headers of AWS's own (x-amz-…) where requests are signed";
        problems.add(Code::InvalidValue, webhook.path_of("deliveryAttributeMappings"), rule);
    }
}

/// Adds what a read shows to the properties of a webhook: no secret.
pub(in crate::subscription) fn write(subscription: &EventSubscription, properties: &mut Value) {
    let Some(authentication) = subscription.authentication.as_deref() else { return };
    match authentication {
        Authentication::ClientCredentials(by) => write_client(by, properties),
        Authentication::ClientCertificate(by) => {
            let shown = certificate::write(by);
            let kind = name_of(&TYPES, Type::ClientCertificate);
            properties[NAME] = json!({"type": kind, "properties": shown});
        }
        Authentication::AwsSigV4(by) => {
            let shown = aws::write_signing(by);
            properties[NAME] =
                json!({"type": name_of(&TYPES, Type::AwsSigV4), "properties": shown});
        }
        Authentication::AwsWebIdentity(by) => {
            let shown = aws::write_identity(by);
            let kind = name_of(&TYPES, Type::AwsWebIdentity);
            properties[NAME] = json!({"type": kind, "properties": shown});
        }
    }
}

fn write_client(by: &ClientCredentials, properties: &mut Value) {
    let (kind, mut shown) = match &by.grant {
        Grant::OAuth2 { token_url, scope, audience, sent_by } => {
            let way = match sent_by {
                SentBy::Post => Way::Post,
                SentBy::Basic => Way::Basic,
                SentBy::PrivateKeyJwt { .. } => Way::PrivateKeyJwt,
            };
            let mut shown = json!({
                "tokenUrl": token_url, "scope": scope, "audience": audience,
                "clientAuthentication": name_of(&WAYS, way),
            });
            if let SentBy::PrivateKeyJwt { key_id, audience } = sent_by {
                shown[KEY_ID] = json!(key_id);
                shown[ASSERTION_AUDIENCE] = json!(audience);
            }
            (Type::OAuth2, shown)
        }
        Grant::EntraId { tenant, application } => {
            (Type::EntraId, json!({"tenantId": tenant, "applicationIdOrUri": application}))
        }
    };
    let Client::Own { id, secret } = &by.client else {
        properties[TENANT] = shown["tenantId"].take();
        properties[APPLICATION] = shown["applicationIdOrUri"].take();
        return;
    };
    shown["clientId"] = json!(id);
    let [inline, reference] = names(Some(&by.grant));
    shown[inline] = Value::Null;
    match secret {
        ClientSecret::Inline { .. } => {}
        ClientSecret::Reference { name } => shown[reference] = json!(name),
        ClientSecret::AwsWebIdentity(by) => shown[aws::ASSERTION] = aws::write_assertion(by),
    }
    properties[NAME] = json!({"type": name_of(&TYPES, kind), "properties": shown});
}
