//! Secrets of authenticated endpoints: environment variables, with names such as
//! `env:GRIDPOST_SECRET_ORDERS` instead of ARNs.

use std::env;

use async_trait::async_trait;
use gridpost_core::{endpoint::secrets::ClientSecrets, secret::Secret};
use gridpost_ports::{PortError, authentication::SecretReader};

/// The prefix of such variables: no others can be read.
const BEGINNING: &str = "GRIDPOST_SECRET_";
const SCHEME: &str = "env:";

/// Returns the allowed secrets: all such variables, for any host.
pub(crate) fn of_environment() -> ClientSecrets {
    named(env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn named(variables: impl Iterator<Item = String>) -> ClientSecrets {
    let of_ours = variables.filter(|name| name.starts_with(BEGINNING));
    let hosts = of_ours.map(|name| (format!("{SCHEME}{name}"), vec!["*".to_owned()])).collect();
    ClientSecrets { hosts, entra: None }
}

pub(crate) struct Environment;

#[async_trait]
impl SecretReader for Environment {
    async fn read(&self, name: &str) -> Result<Secret, PortError> {
        let variable = name.strip_prefix(SCHEME).filter(|name| name.starts_with(BEGINNING));
        let value = variable.and_then(|variable| env::var(variable).ok());
        let reason = "no variable of that name, which begins with env:GRIDPOST_SECRET_";
        value.map(Secret::new).ok_or_else(|| PortError::new("reading a secret", reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_variables_of_that_beginning_are_secrets() {
        let variables = ["GRIDPOST_SECRET_A", "HOME", "AWS_SECRET_ACCESS_KEY"].map(str::to_owned);
        let names: Vec<_> = named(variables.into_iter()).hosts.into_keys().collect();
        assert_eq!(names, ["env:GRIDPOST_SECRET_A"]);
        for name in ["env:PATH", "PATH", "env:GRIDPOST_SECRET_THAT_IS_NOT_SET", "arn:aws:ssm:::"] {
            assert!(Environment.read(name).await.is_err(), "{name}");
        }
    }
}
