//! The flags of an endpoint's authentication.

use clap::Args;
use serde_json::{Value, json};

use super::members;

/// How requests to a webhook are authenticated.
#[derive(Args, Clone, Debug, Default)]
pub struct AuthenticationFlags {
    /// Authenticate requests by tokens of OAuth 2.0 client credentials, asked for at this URL
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_token_url: Option<String>,

    /// Authenticate requests by tokens of this tenant of Entra ID
    #[arg(long, value_name = "TENANT", requires = "entra_application", conflicts_with = "file")]
    pub entra_tenant: Option<String>,

    /// The application of Entra ID that the endpoint is, by its id or its URI
    #[arg(long, value_name = "APPLICATION", conflicts_with = "file")]
    pub entra_application: Option<String>,

    /// The client's id
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    pub oauth_client_id: Option<String>,

    /// The client's secret, which no read shows
    #[arg(long, value_name = "SECRET", conflicts_with_all = ["file", "oauth_secret_reference"])]
    pub oauth_client_secret: Option<String>,

    /// Where the client's secret is kept: an ARN of Secrets Manager or of an SSM parameter, or
    /// env:GRIDPOST_SECRET_… for `gridpost dev`
    #[arg(long, value_name = "ARN", conflicts_with = "file")]
    pub oauth_secret_reference: Option<String>,

    /// Scopes to ask for, with spaces between them
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_scope: Option<String>,

    /// Audience to ask for
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_audience: Option<String>,
}

impl AuthenticationFlags {
    /// The names of all of them.
    pub const NAMES: [&str; 8] = [
        "oauth_token_url",
        "entra_tenant",
        "entra_application",
        "oauth_client_id",
        "oauth_client_secret",
        "oauth_secret_reference",
        "oauth_scope",
        "oauth_audience",
    ];

    /// The member of a destination's properties that they describe. Without a token URL and a
    /// tenant it is a change of the one that there is.
    pub fn authentication(&self) -> Option<Value> {
        let text = |given: &Option<String>| given.as_ref().map(|text| json!(text));
        let properties = members([
            ("tokenUrl", text(&self.oauth_token_url)),
            ("tenantId", text(&self.entra_tenant)),
            ("applicationIdOrUri", text(&self.entra_application)),
            ("clientId", text(&self.oauth_client_id)),
            ("clientSecret", text(&self.oauth_client_secret)),
            ("clientSecretReference", text(&self.oauth_secret_reference)),
            ("scope", text(&self.oauth_scope)),
            ("audience", text(&self.oauth_audience)),
        ]);
        if properties.is_empty() {
            return None;
        }
        let kind = match (&self.oauth_token_url, &self.entra_tenant) {
            (Some(_), _) => Some("OAuth2ClientCredentials"),
            (None, Some(_)) => Some("EntraId"),
            (None, None) => None,
        };
        let kind = kind.map(|kind| json!(kind));
        Some(members([("type", kind), ("properties", Some(Value::Object(properties)))]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_describe_an_authentication_or_a_change_of_one() {
        let text = |text: &str| Some(text.to_owned());
        let none = AuthenticationFlags::default;
        let table = [
            (none(), Value::Null),
            (
                AuthenticationFlags {
                    oauth_token_url: text("https://id/token"),
                    oauth_client_id: text("c"),
                    oauth_secret_reference: text("arn:s"),
                    oauth_scope: text("a b"),
                    ..none()
                },
                json!({"type": "OAuth2ClientCredentials", "properties": {
                    "tokenUrl": "https://id/token", "clientId": "c",
                    "clientSecretReference": "arn:s", "scope": "a b"}}),
            ),
            (
                AuthenticationFlags {
                    entra_tenant: text("t"),
                    entra_application: text("api://a"),
                    ..none()
                },
                json!({"type": "EntraId", "properties":
                    {"tenantId": "t", "applicationIdOrUri": "api://a"}}),
            ),
            (
                AuthenticationFlags { oauth_client_secret: text("new"), ..none() },
                json!({"properties": {"clientSecret": "new"}}),
            ),
        ];
        for (flags, want) in table {
            assert_eq!(flags.authentication().unwrap_or_default(), want, "{flags:?}");
        }
    }
}
