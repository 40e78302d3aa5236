//! How requests to a webhook are authenticated, as fields. Secrets are only written: no page shows one,
//! not even one that was typed a moment ago.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::rows::plain;
use crate::{
    form::{
        Fields, meant,
        view::{Text, View},
    },
    page,
};

pub(super) const NAME: &str = "authentication";

pub(super) const TYPE: &str = "destination.authentication.type";

/// The field that says whose fields are on the page.
pub(super) const SHOWN: &str = "destination.authentication.shown";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Text,
    Lines,
    Secret,
    SecretLines,
    Choice(&'static [(&'static str, &'static str)]),
    /// A token of AWS by its audience, and beside that by its algorithm.
    Assertion,
}

impl How {
    fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::SecretLines)
    }
}

/// A member, the types that have it, how it is written, its label and its hint.
type Member = (&'static str, &'static [&'static str], How, &'static str, &'static str);

const OAUTH: &str = "OAuth2ClientCredentials";
const ENTRA: &str = "EntraId";
const CERTIFICATE: &str = "ClientCertificate";

const SIGV4: &str = "AwsSigV4";
const IDENTITY: &str = "AwsWebIdentity";

/// The member of an assertion that has a field of its own.
const ALGORITHM: &str = "signingAlgorithm";

const ALGORITHMS: [(&str, &str); 3] =
    [("", "RS256, the default"), ("RS256", "RS256"), ("ES384", "ES384")];

const WAYS: [(&str, &str); 4] = [
    ("", "Post, the default"),
    ("Post", "Post: id and secret in the form"),
    ("Basic", "Basic: id and secret in Authorization"),
    ("PrivateKeyJwt", "PrivateKeyJwt: an assertion that the client's key signs"),
];

const KEPT: &str = "Never shown. Empty: the stored one stays, if there is one. Write it last: what changes the \
                    form empties it.";

const REFERENCE: &str =
    "An ARN of Secrets Manager or SSM, instead of the above. endpoint_secrets must name it.";

const MEMBERS: [Member; 23] = [
    ("tokenUrl", &[OAUTH], How::Text, "Token URL", "Https, without a query."),
    ("tenantId", &[ENTRA], How::Text, "Tenant", "Its id, or a domain of it."),
    ("applicationIdOrUri", &[ENTRA], How::Text, "The endpoint's application", "Its id or its URI."),
    ("clientId", &[OAUTH, ENTRA], How::Text, "Client's id", ""),
    ("clientAuthentication", &[OAUTH], How::Choice(&WAYS), "How the client proves itself", ""),
    ("clientSecret", &[OAUTH, ENTRA], How::Secret, "Client's secret", KEPT),
    ("clientSecretReference", &[OAUTH, ENTRA], How::Text, "Where its secret is", REFERENCE),
    ("privateKey", &[OAUTH], How::SecretLines, "Client's private key, for PrivateKeyJwt", KEPT),
    ("privateKeyReference", &[OAUTH], How::Text, "Where its private key is", REFERENCE),
    (
        "keyId",
        &[OAUTH],
        How::Text,
        "Key's id, for PrivateKeyJwt",
        "The kid of assertions; may be empty.",
    ),
    (
        "assertionAudience",
        &[OAUTH],
        How::Text,
        "Audience of assertions, for PrivateKeyJwt",
        "Empty: the token URL.",
    ),
    ("scope", &[OAUTH], How::Text, "Scopes to ask for", "With spaces between them; may be empty."),
    ("audience", &[OAUTH], How::Text, "Audience to ask for", "May be empty."),
    (
        "certificate",
        &[CERTIFICATE],
        How::Lines,
        "Certificates, the client's own first",
        "PEM: -----BEGIN CERTIFICATE----- and so on.",
    ),
    ("privateKey", &[CERTIFICATE], How::SecretLines, "Its private key", KEPT),
    ("certificateReference", &[CERTIFICATE], How::Text, "Where both are", REFERENCE),
    (
        "trustedCertificates",
        &[CERTIFICATE],
        How::Lines,
        "Authorities to trust",
        "PEM. Empty: the public ones. Otherwise only these.",
    ),
    (
        "clientAssertion",
        &[OAUTH, ENTRA],
        How::Assertion,
        "Audience of AWS's token, instead of a secret",
        "One of endpoint_audiences, such as api://AzureADTokenExchange. Empty: no such token.",
    ),
    (
        "service",
        &[SIGV4],
        How::Text,
        "Service to sign for",
        "execute-api (API Gateway), lambda (function URLs) or, with a role, another one.",
    ),
    ("region", &[SIGV4], How::Text, "Region to sign for", "Empty: what the endpoint's host says."),
    (
        "roleArn",
        &[SIGV4],
        How::Text,
        "Role that signs",
        "One of endpoint_roles. Empty: the function itself, to hosts of endpoint_signed_hosts.",
    ),
    ("audience", &[IDENTITY], How::Text, "Audience", "One of endpoint_audiences."),
    (ALGORITHM, &[IDENTITY], How::Choice(&ALGORITHMS), "How AWS signs the token", ""),
];

const TYPES: [(&str, &str); 6] = [
    ("", "none"),
    (OAUTH, "OAuth2ClientCredentials: a token of any OAuth 2.0 server"),
    (ENTRA, "EntraId: a token of Entra ID"),
    (CERTIFICATE, "ClientCertificate: mutual TLS"),
    (SIGV4, "AwsSigV4: a signature, for endpoints on AWS behind IAM"),
    (IDENTITY, "AwsWebIdentity: a token that AWS signs"),
];

fn of_type(kind: &str) -> impl Iterator<Item = &'static Member> + use<'_> {
    MEMBERS.iter().filter(move |(_, types, ..)| types.contains(&kind))
}

#[cfg(test)]
pub(super) fn known() -> Vec<(&'static str, Vec<&'static str>)> {
    let types = TYPES.iter().filter(|(kind, _)| !kind.is_empty());
    types.map(|(kind, _)| (*kind, of_type(kind).map(|(name, ..)| *name).collect())).collect()
}

fn field(member: &str) -> String {
    format!("destination.{NAME}.{member}")
}

/// Writes it into its fields.
pub(super) fn show(given: &Value, fields: &mut Fields) {
    let kind = given["type"].as_str().unwrap_or_default();
    fields.set(TYPE, kind);
    for (name, _, how, ..) in of_type(kind).filter(|(_, _, how, ..)| !how.is_secret()) {
        let value = &given["properties"][*name];
        match (how, value.as_str()) {
            _ if value.is_null() => {}
            (How::Assertion, _) => {
                let properties = &value["properties"];
                for (field, member) in assertion(name) {
                    if !properties[member].is_null() {
                        fields.set(field, plain(&properties[member]));
                    }
                }
            }
            (How::Lines, Some(text)) if is_plain(text) => fields.set(field(name), text),
            _ => fields.set(field(name), plain(value)),
        }
    }
}

/// Whether lines show what they are.
fn is_plain(text: &str) -> bool {
    !text.starts_with('"') && text.lines().all(|line| page::visible(line) == line)
}

/// What its fields mean; none where no type is chosen.
pub(super) fn given(fields: &Fields) -> Option<Value> {
    let kind = Some(fields.get(TYPE)).filter(|kind| !kind.is_empty())?;
    let members: Map<_, _> = of_type(kind)
        .filter_map(|(name, _, how, ..)| {
            if *how == How::Assertion {
                return given_assertion(fields, name).map(|value| ((*name).to_owned(), value));
            }
            let field = field(name);
            let text = Some(fields.get(&field)).filter(|text| !text.trim().is_empty())?;
            let text = match how {
                How::Lines | How::SecretLines => format!("{}\n", meant(text).trim_end()),
                // A secret may begin or end with a space.
                How::Secret => text.to_owned(),
                How::Text | How::Choice(_) | How::Assertion => meant(text),
            };
            Some(((*name).to_owned(), Value::from(text)))
        })
        .collect();
    Some(json!({"type": kind, "properties": members}))
}

/// The fields of an assertion, each with the member of its properties.
fn assertion(name: &str) -> [(String, &'static str); 2] {
    [(field(name), "audience"), (field(&format!("{name}.{ALGORITHM}")), ALGORITHM)]
}

/// The assertion that its fields mean; none without an audience.
fn given_assertion(fields: &Fields, name: &str) -> Option<Value> {
    let given =
        assertion(name).map(|(field, member)| (fields.get(&field).trim().to_owned(), member));
    if given[0].0.is_empty() {
        return None;
    }
    let given = given.iter().filter(|(text, _)| !text.is_empty());
    let properties: Map<_, _> =
        given.map(|(text, member)| ((*member).to_owned(), Value::from(meant(text)))).collect();
    Some(json!({"type": IDENTITY, "properties": properties}))
}

/// A document without the secrets that were typed into its authentication.
pub(crate) fn without_secrets(document: &Value) -> Value {
    let mut document = document.clone();
    let at = "/properties/destination/properties/authentication/properties";
    if let Some(members) = document.pointer_mut(at).and_then(Value::as_object_mut) {
        for (name, _, how, ..) in &MEMBERS {
            if how.is_secret() && members.get(*name).is_some_and(|value| !value.is_null()) {
                members.insert((*name).to_owned(), Value::Null);
            }
        }
    }
    document
}

/// Its fields on a page: those of the type that is chosen.
pub(super) fn section(form: View<'_>) -> Markup {
    let kind = form.fields.get(TYPE);
    html! {
        h2 { "Authentication" }
        p.hint { "How requests prove who sends them." }
        (form.select(TYPE, "By", "", &TYPES))
        input type="hidden" name=(SHOWN) value=(kind);
        @if form.may_change { button.second name="do" value="choose" { "Show the fields of this authentication" } }
        @for (name, _, how, label, hint) in of_type(kind) {
            @let name = field(name);
            @let text = Text { name: &name, label, hint, ..Text::default() };
            @match how {
                How::Text => (form.text(text)),
                How::Lines => (form.lines(text)),
                How::Secret => (form.secret(text)),
                How::SecretLines => (form.secret_lines(text)),
                How::Choice(choices) => (form.select(&name, label, hint, choices)),
                How::Assertion => {
                    (form.text(text))
                    (form.select(&format!("{name}.{ALGORITHM}"), "How AWS signs that token", "", &ALGORITHMS))
                },
            }
        }
        @for (member, label, hint) in AZURE {
            @let name = format!("destination.{member}");
            (form.text(Text { name: &name, label, hint, ..Text::default() }))
        }
    }
}

/// Event Grid's own members, for the deployment's own client.
const AZURE: [(&str, &str, &str); 2] = [
    (
        "azureActiveDirectoryTenantId",
        "Tenant, for the deployment's own client of Entra ID",
        "Instead of the above, where the operator has set endpoint_entra_client.",
    ),
    (
        "azureActiveDirectoryApplicationIdOrUri",
        "The endpoint's application, for the deployment's own client",
        "",
    ),
];
