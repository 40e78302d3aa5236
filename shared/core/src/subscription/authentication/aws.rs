//! Authentication by an identity of AWS: signatures, and tokens that AWS signs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Authentication, Client, ClientCredentials, ClientSecret};
use crate::endpoint::{
    identities::{Identities, IdentityRefused, of_host},
    secrets::ENTRA_HOST,
};

/// The signing name of API Gateway.
pub const EXECUTE_API: &str = "execute-api";

/// The signing name of function URLs.
pub const LAMBDA: &str = "lambda";

/// The audience of tokens exchanged at Entra ID. Source: Entra ID, "Workload identity federation".
pub const ENTRA_AUDIENCE: &str = "api://AzureADTokenExchange";

/// Entra ID's hosts: global, US government, China. Source: Microsoft, "National clouds".
const ENTRA_HOSTS: [&str; 4] = [
    ENTRA_HOST,
    "login.microsoftonline.us",
    "login.partner.microsoftonline.cn",
    "login.chinacloudapi.cn",
];

/// Signature Version 4.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SigV4 {
    /// The signing name, such as `execute-api`.
    pub service: String,
    /// `None` means the host's region.
    pub region: Option<String>,
    /// `None` means the function's role.
    pub role: Option<String>,
}

/// A token that AWS signs, which proves the function's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebIdentity {
    pub audience: String,
    #[serde(default)]
    pub algorithm: SigningAlgorithm,
}

/// The algorithm of a token's signature. Source: STS API reference, `GetWebIdentityToken`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
pub enum SigningAlgorithm {
    /// The one that Entra ID accepts.
    #[default]
    RS256,
    ES384,
}

impl SigV4 {
    /// Returns the region to sign for.
    pub fn region(&self, url: &str) -> Option<Cow<'_, str>> {
        let own = self.region.as_deref().map(Cow::Borrowed);
        own.or_else(|| of_host(url).map(|(_, region)| Cow::Owned(region)))
    }

    /// Checks that the deployment allows such a signature for that URL.
    pub fn check(&self, url: &str, named: &Identities) -> Result<(), IdentityRefused> {
        match &self.role {
            Some(role) => named.check_role(role, url)?,
            None => {
                named.check_own(url)?;
                let is_function = of_host(url).is_some_and(|(service, _)| service == LAMBDA);
                // A signature is only good for its service: none of the function's own queues and
                // tables accepts it, even if an operator names their hosts.
                if self.service != EXECUTE_API && !(self.service == LAMBDA && is_function) {
                    return Err(IdentityRefused::OwnService);
                }
            }
        }
        self.region(url).map(|_| ()).ok_or(IdentityRefused::Region)
    }
}

impl WebIdentity {
    /// Checks that a token for this audience may be sent to an endpoint at that URL.
    pub fn check_bearer(&self, url: &str, named: &Identities) -> Result<(), IdentityRefused> {
        // Its receiver could exchange it; this audience's hosts receive exchanged tokens.
        if self.is_for_entra() {
            return Err(IdentityRefused::Exchanged);
        }
        named.check_audience(&self.audience, url)
    }

    /// Checks that a token for this audience may be exchanged at that URL.
    pub fn check_exchange(
        &self,
        token_url: &str,
        named: &Identities,
    ) -> Result<(), IdentityRefused> {
        let host = url::Url::parse(token_url).ok();
        let host = host.as_ref().and_then(|url| url.host_str());
        // Anyone else could exchange it at Entra ID.
        if self.is_for_entra() && !host.is_some_and(|host| ENTRA_HOSTS.contains(&host)) {
            return Err(IdentityRefused::Exchanged);
        }
        named.check_audience(&self.audience, token_url)
    }

    /// Returns whether Entra ID exchanges its tokens. Separate clouds add a suffix to the audience.
    fn is_for_entra(&self) -> bool {
        let start = self.audience.get(..ENTRA_AUDIENCE.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(ENTRA_AUDIENCE))
    }
}

impl ClientCredentials {
    /// Returns the AWS identity that proves who the client is, if any.
    pub fn web_identity(&self) -> Option<&WebIdentity> {
        match &self.client {
            Client::Own { secret: ClientSecret::AwsWebIdentity(identity), .. } => Some(identity),
            _ => None,
        }
    }
}

impl Authentication {
    /// Checks that the deployment, by now, allows the proof of an AWS identity to that URL.
    pub fn check(&self, url: &str, named: &Identities) -> Result<(), IdentityRefused> {
        match self {
            Self::ClientCertificate(_) => Ok(()),
            Self::AwsSigV4(by) => by.check(url, named),
            Self::AwsWebIdentity(identity) => identity.check_bearer(url, named),
            Self::ClientCredentials(by) => match by.web_identity() {
                // The exchanged token proves the identity as well.
                Some(identity) => {
                    identity.check_exchange(&by.grant.token_url(), named)?;
                    named.check_audience(&identity.audience, url)
                }
                None => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::authentication::{Grant, SentBy};

    const API: &str = "https://a.execute-api.eu-north-1.amazonaws.com/x";
    const FUNCTION: &str = "https://f.lambda-url.eu-north-1.on.aws/";
    const TABLES: &str = "https://dynamodb.eu-north-1.amazonaws.com/";
    const OTHER: &str = "https://api.example/";

    fn named() -> Identities {
        let host = |url: &str| url.split('/').nth(2).unwrap_or_default().to_owned();
        Identities {
            own: [API, FUNCTION, TABLES, OTHER].map(host).to_vec(),
            roles: [("arn:r".to_owned(), vec![host(OTHER), host(TABLES)])].into(),
            audiences: [ENTRA_AUDIENCE, "api://AzureADTokenExchangeUSGov", "own"]
                .map(|audience| {
                    let hosts = vec!["login.microsoftonline.com".to_owned(), host(OTHER)];
                    (audience.to_owned(), hosts)
                })
                .into(),
        }
    }

    #[test]
    fn the_functions_own_role_signs_for_what_it_may_invoke_alone() {
        use IdentityRefused::{OwnService, Region, Role, RoleHost};
        let table = [
            ("execute-api", None, None, API, Ok(())),
            ("lambda", None, None, FUNCTION, Ok(())),
            ("execute-api", Some("eu-north-1"), None, OTHER, Ok(())),
            ("execute-api", None, None, OTHER, Err(Region)),
            // Even if an operator has named such a host.
            ("dynamodb", Some("eu-north-1"), None, TABLES, Err(OwnService)),
            ("lambda", Some("eu-north-1"), None, OTHER, Err(OwnService)),
            ("sts", None, None, API, Err(OwnService)),
            ("execute-api", Some("x"), Some("arn:r"), OTHER, Ok(())),
            ("dynamodb", Some("x"), Some("arn:r"), TABLES, Ok(())),
            ("dynamodb", None, Some("arn:r"), TABLES, Err(Region)),
            ("execute-api", None, Some("arn:s"), API, Err(Role)),
            (
                "execute-api",
                None,
                Some("arn:r"),
                API,
                Err(RoleHost("a.execute-api.eu-north-1.amazonaws.com".to_owned())),
            ),
        ];
        for (service, region, role, url, want) in table {
            let text = |given: Option<&str>| given.map(str::to_owned);
            let by = SigV4 { service: service.to_owned(), region: text(region), role: text(role) };
            let checked = Authentication::AwsSigV4(by.clone()).check(url, &named());
            assert_eq!(checked, want, "{by:?} {url}");
            let nothing = Authentication::AwsSigV4(by).check(url, &Identities::default());
            assert!(nothing.is_err(), "{url}");
        }
    }

    #[test]
    fn what_a_token_is_exchanged_for_goes_no_further_than_the_token() {
        let identity = |audience: &str| WebIdentity {
            audience: audience.to_owned(),
            algorithm: SigningAlgorithm::RS256,
        };
        let entra = |audience| {
            let grant = Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() };
            let secret = ClientSecret::AwsWebIdentity(identity(audience));
            let client = Client::Own { id: "c".to_owned(), secret };
            Authentication::ClientCredentials(ClientCredentials { grant, client })
        };
        let at = |url: &str, audience| {
            let grant = Grant::OAuth2 {
                token_url: url.to_owned(),
                scope: None,
                audience: None,
                sent_by: SentBy::Post,
            };
            let secret = ClientSecret::AwsWebIdentity(identity(audience));
            let client = Client::Own { id: "c".to_owned(), secret };
            Authentication::ClientCredentials(ClientCredentials { grant, client })
        };
        let bearer = |audience| Authentication::AwsWebIdentity(identity(audience));
        let login = "https://login.microsoftonline.com/x";
        let host = |host: &str| Err(IdentityRefused::AudienceHost(host.to_owned()));
        let table = [
            (bearer("own"), OTHER, Ok(())),
            (bearer("own"), "https://evil.example/", host("evil.example")),
            // Its receiver could exchange it.
            (bearer(ENTRA_AUDIENCE), OTHER, Err(IdentityRefused::Exchanged)),
            (bearer(ENTRA_AUDIENCE), login, Err(IdentityRefused::Exchanged)),
            (bearer("api://AzureADTokenExchangeUSGov"), OTHER, Err(IdentityRefused::Exchanged)),
            (bearer("other"), OTHER, Err(IdentityRefused::Audience)),
            (entra(ENTRA_AUDIENCE), OTHER, Ok(())),
            // Another token endpoint must not get it, even on a named host.
            (at(OTHER, ENTRA_AUDIENCE), OTHER, Err(IdentityRefused::Exchanged)),
            (at("https://login.microsoftonline.com/t", ENTRA_AUDIENCE), OTHER, Ok(())),
            (at(OTHER, "own"), OTHER, Ok(())),
            (entra(ENTRA_AUDIENCE), "https://evil.example/", host("evil.example")),
            (entra("other"), OTHER, Err(IdentityRefused::Audience)),
        ];
        for (by, url, want) in table {
            assert_eq!(by.check(url, &named()), want, "{by:?} {url}");
        }
        let mut unnamed = named();
        unnamed.audiences.insert(ENTRA_AUDIENCE.to_owned(), vec!["api.example".to_owned()]);
        let want = host("login.microsoftonline.com");
        assert_eq!(entra(ENTRA_AUDIENCE).check(OTHER, &unnamed), want);
    }
}
