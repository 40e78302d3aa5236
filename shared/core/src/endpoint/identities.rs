//! The AWS identities that requests to endpoints may prove, and to whom.
//!
//! Authors of event subscriptions choose a request's URL, query, headers and body. With a signature
//! for a database's host they could do there what they want, and a receiver could show a token to
//! others. So both go only to hosts that the operator has named, by https.

use std::{collections::BTreeMap, str::FromStr};

use serde::Deserialize;

use super::secrets::named_host;

/// The identities that event subscriptions of a deployment may prove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identities {
    /// Hosts for which the function itself may sign; `*` is any host, here and below.
    #[serde(default)]
    pub own: Vec<String>,
    /// Hosts by the ARN of the role that may sign.
    #[serde(default)]
    pub roles: BTreeMap<String, Vec<String>>,
    /// Hosts by the audience of tokens, which may be sent the token or what it is exchanged for.
    #[serde(default)]
    pub audiences: BTreeMap<String, Vec<String>>,
}

/// A setting of identities that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("is not a JSON object with own, roles and audiences")]
pub struct IdentitiesError(#[source] serde_json::Error);

impl FromStr for Identities {
    type Err = IdentitiesError;

    /// Reads a JSON object; an empty text names no identity.
    fn from_str(text: &str) -> Result<Self, IdentitiesError> {
        match text.trim() {
            "" => Ok(Self::default()),
            text => serde_json::from_str(text).map_err(IdentitiesError),
        }
    }
}

/// The reason why an identity may not be proven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityRefused {
    #[error(
        "the deployment does not let requests to '{0}' be signed in its own name: its operator names \
         such hosts, by https, in endpoint_signed_hosts"
    )]
    Own(String),
    #[error(
        "the deployment's own role signs for execute-api and for function URLs (lambda) alone: name \
         a role of endpoint_roles in roleArn"
    )]
    OwnService,
    #[error("is not a role that this deployment lets event subscriptions use (endpoint_roles)")]
    Role,
    #[error(
        "the deployment does not let requests to '{0}' be signed with this role: its operator names \
         the hosts of each role, by https, in endpoint_roles"
    )]
    RoleHost(String),
    #[error("is not an audience that this deployment has tokens for (endpoint_audiences)")]
    Audience,
    #[error(
        "the deployment does not let tokens for this audience, nor what they are exchanged for, go \
         to '{0}': its operator names the hosts of each audience, by https, in endpoint_audiences"
    )]
    AudienceHost(String),
    #[error(
        "is for tokens that Entra ID exchanges: the endpoint could exchange such a token, too. Use type \
         EntraId with clientAssertion, or another audience"
    )]
    Exchanged,
    #[error("is required: the host's name does not say its region")]
    Region,
}

impl Identities {
    /// Checks that the function's identity may sign requests to that URL.
    pub fn check_own(&self, url: &str) -> Result<(), IdentityRefused> {
        named_host(&self.own, url).map_err(IdentityRefused::Own)
    }

    /// Checks that requests to that URL may be signed with a role.
    pub fn check_role(&self, role: &str, url: &str) -> Result<(), IdentityRefused> {
        let hosts = of(&self.roles, role).ok_or(IdentityRefused::Role)?;
        named_host(hosts, url).map_err(IdentityRefused::RoleHost)
    }

    /// Checks that a token for an audience, or what it is exchanged for, may go to that URL.
    pub fn check_audience(&self, audience: &str, url: &str) -> Result<(), IdentityRefused> {
        let hosts = of(&self.audiences, audience).ok_or(IdentityRefused::Audience)?;
        named_host(hosts, url).map_err(IdentityRefused::AudienceHost)
    }
}

/// Returns the hosts of a name; `*` stands for names that are missing.
fn of<'n>(named: &'n BTreeMap<String, Vec<String>>, name: &str) -> Option<&'n Vec<String>> {
    named.get(name).or_else(|| named.get("*"))
}

/// Returns the service and region in a host of AWS.
///
/// Source: API Gateway developer guide, "Invoke REST APIs" (`id.execute-api.region.amazonaws.com`,
/// `….execute-api.region.vpce.amazonaws.com`, `id.execute-api.region.on.aws` with dual stack);
/// Lambda developer guide, "Function URLs" (`id.lambda-url.region.on.aws`).
pub fn of_host(url: &str) -> Option<(&'static str, String)> {
    const SERVICES: [(&str, &str); 2] = [("execute-api", "execute-api"), ("lambda-url", "lambda")];
    const ENDS: [&str; 4] =
        [".vpce.amazonaws.com", ".amazonaws.com", ".amazonaws.com.cn", ".on.aws"];
    let url = url::Url::parse(url).ok()?;
    let host = url.host_str()?.to_ascii_lowercase();
    let names = ENDS.iter().find_map(|end| host.strip_suffix(end))?;
    let (before, region) = names.rsplit_once('.')?;
    let (_, service) = before.rsplit_once('.')?;
    let (_, service) = SERVICES.iter().find(|(label, _)| *label == service)?;
    Some((service, region.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_proven_only_to_hosts_that_are_named_for_it() {
        let text = r#"{"own": ["api.example"], "roles": {"arn:r": ["api.example", "b.example"]},
            "audiences": {"aud": ["c.example"]}}"#;
        let named: Identities = text.parse().expect("read");
        let own = |host: &str| Err(IdentityRefused::Own(host.to_owned()));
        let role = |host: &str| Err(IdentityRefused::RoleHost(host.to_owned()));
        let audience = |host: &str| Err(IdentityRefused::AudienceHost(host.to_owned()));
        let table = [
            (named.check_own("https://api.example/x"), Ok(())),
            (named.check_own("https://API.example:8443/x"), Ok(())),
            (named.check_own("http://api.example/x"), own("api.example")),
            (named.check_own("https://b.example/x"), own("b.example")),
            (named.check_own("https://api.example@evil.example/"), own("evil.example")),
            (named.check_own("https://api.example.evil.example/"), own("api.example.evil.example")),
            (named.check_own("https://api.example./"), own("api.example.")),
            (named.check_own("no URL"), own("")),
            (named.check_role("arn:r", "https://b.example/"), Ok(())),
            (named.check_role("arn:r", "https://evil.example/"), role("evil.example")),
            (named.check_role("arn:s", "https://b.example/"), Err(IdentityRefused::Role)),
            (named.check_audience("aud", "https://c.example/"), Ok(())),
            (named.check_audience("aud", "http://c.example/"), audience("c.example")),
            (named.check_audience("aud", "https://api.example/"), audience("api.example")),
            (named.check_audience("other", "https://c.example/"), Err(IdentityRefused::Audience)),
        ];
        for (index, (checked, want)) in table.into_iter().enumerate() {
            assert_eq!(checked, want, "row {index}");
        }
        let nothing = "".parse::<Identities>().expect("nothing");
        assert_eq!(nothing.check_own("https://api.example/"), own("api.example"));
        assert!("[1]".parse::<Identities>().is_err());
        assert!(r#"{"owns": []}"#.parse::<Identities>().is_err());
    }

    #[test]
    fn hosts_of_aws_show_service_and_region() {
        let region = "eu-north-1".to_owned();
        let table = [
            ("https://abc.execute-api.eu-north-1.amazonaws.com/x", Some(("execute-api", &region))),
            ("https://ABC.Execute-API.eu-north-1.amazonaws.com/", Some(("execute-api", &region))),
            (
                "https://abc.execute-api.eu-north-1.amazonaws.com.cn/",
                Some(("execute-api", &region)),
            ),
            (
                "https://v-1.execute-api.eu-north-1.vpce.amazonaws.com/",
                Some(("execute-api", &region)),
            ),
            ("https://abc.execute-api.eu-north-1.on.aws/", Some(("execute-api", &region))),
            ("https://abc.lambda-url.eu-north-1.on.aws/", Some(("lambda", &region))),
            ("https://execute-api.eu-north-1.amazonaws.com/", None),
            ("https://lambda.eu-north-1.amazonaws.com/", None),
            ("https://dynamodb.eu-north-1.amazonaws.com/", None),
            ("https://abc.execute-api.eu-north-1.amazonaws.com.evil.example/", None),
            ("https://api.example.com/", None),
            ("no URL", None),
        ];
        for (url, want) in table {
            let want = want.map(|(service, region)| (service, region.clone()));
            assert_eq!(of_host(url), want, "{url}");
        }
    }
}
