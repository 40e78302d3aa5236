//! The secrets that requests to endpoints may use, and where they may be sent.
//!
//! Authors of event subscriptions may not read these, nor have them sent to their own token URL.

use std::{collections::BTreeMap, str::FromStr};

use serde::Deserialize;

/// The host where Entra ID issues tokens.
pub const ENTRA_HOST: &str = "login.microsoftonline.com";

/// The secrets that event subscriptions of a deployment may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientSecrets {
    /// By secret: hosts of token URLs that may be sent it, and of endpoints that may be
    /// shown it. `*` is any host and, as a name, any secret that is missing here.
    #[serde(default)]
    pub hosts: BTreeMap<String, Vec<String>>,
    /// The client of Entra ID for event subscriptions that name only tenant and application.
    #[serde(default)]
    pub entra: Option<EntraClient>,
}

/// A client of Entra ID.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntraClient {
    pub client_id: String,
    pub secret: String,
}

/// A setting of secrets that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("is not a JSON object with hosts and entra")]
pub struct ClientSecretsError(#[source] serde_json::Error);

impl FromStr for ClientSecrets {
    type Err = ClientSecretsError;

    /// Reads a JSON object; an empty text names no secret.
    fn from_str(text: &str) -> Result<Self, ClientSecretsError> {
        match text.trim() {
            "" => Ok(Self::default()),
            text => serde_json::from_str(text).map_err(ClientSecretsError),
        }
    }
}

/// The reason why a secret may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefused {
    #[error("is not a secret that this deployment lets event subscriptions use")]
    Unknown,
    #[error("may not be sent to '{0}': the deployment names the hosts that may get it, by https")]
    Host(String),
}

impl ClientSecrets {
    /// Checks that a secret may be sent to that token URL.
    pub fn check(&self, name: &str, token_url: &str) -> Result<(), SecretRefused> {
        let named = self.hosts.get(name).or_else(|| self.hosts.get("*"));
        let hosts = named.ok_or(SecretRefused::Unknown)?;
        named_host(hosts, token_url).map_err(SecretRefused::Host)
    }
}

/// Checks that a URL's host is one of these; otherwise returns the host.
pub(super) fn named_host(hosts: &[String], url: &str) -> Result<(), String> {
    let url = url::Url::parse(url).ok();
    let host = url.as_ref().and_then(url::Url::host_str).unwrap_or_default();
    // A named host gets the secret only by TLS. `gridpost dev` names all hosts.
    let is_tls = url.as_ref().is_some_and(|url| url.scheme() == "https");
    match hosts.iter().any(|may| may == "*" || (is_tls && may.eq_ignore_ascii_case(host))) {
        true => Ok(()),
        false => Err(host.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_only_to_hosts_that_are_named_for_it() {
        let secrets: ClientSecrets =
            r#"{"hosts": {"arn:a": ["id.example"], "arn:b": ["*"]}}"#.parse().expect("read");
        let host = |host: &str| Err(SecretRefused::Host(host.to_owned()));
        let table = [
            ("arn:a", "https://id.example/token", Ok(())),
            ("arn:a", "https://ID.example:8443/other", Ok(())),
            ("arn:a", "http://id.example/token", host("id.example")),
            ("arn:a", "https://id.example.evil.example/", host("id.example.evil.example")),
            ("arn:a", "https://evil.example/id.example", host("evil.example")),
            ("arn:a", "https://id.example@evil.example/", host("evil.example")),
            ("arn:b", "https://evil.example/", Ok(())),
            ("arn:c", "https://id.example/token", Err(SecretRefused::Unknown)),
            ("arn:a", "no URL", host("")),
        ];
        for (name, url, want) in table {
            assert_eq!(secrets.check(name, url), want, "{name} {url}");
        }
        assert_eq!("".parse::<ClientSecrets>().ok(), Some(ClientSecrets::default()));
        assert!("[1]".parse::<ClientSecrets>().is_err());
        assert!(r#"{"hosts": {}, "other": 1}"#.parse::<ClientSecrets>().is_err());
    }
}
