//! Finds the AWS credentials and the region of the caller, where the AWS SDKs look for them.
//!
//! `aws-config` looks: in the environment, in a profile, then at a web identity, a container and an
//! instance. It passes over a source that is not configured. One that is configured but fails ends
//! the search, so that no command runs under another identity by accident.

mod failure;
mod profile;
mod signer;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use aws_config::BehaviorVersion;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::ProvideRegion;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_types::region::Region;
pub use profile::variable;
use time::OffsetDateTime;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::clock;

/// How long before their expiry credentials are fetched anew. Longer than any request takes.
const MARGIN: Duration = Duration::from_secs(120);

/// The longest search. A profile's `credential_process` may ask its user to sign in.
const SEARCH_MAX: Duration = Duration::from_secs(60);

/// The caller's AWS identity. Clones share the credentials that were found.
#[derive(Clone, Debug)]
pub struct Identity {
    profile: String,
    region: String,
    found: Arc<Mutex<Option<Credentials>>>,
}

impl Identity {
    /// Makes an identity that reads nothing yet. Later it looks at `profile`, or else at the one
    /// that the environment names, and asks STS in the region of the environment or the profile, or
    /// else in `region`.
    pub fn new(profile: Option<&str>, region: &str) -> Self {
        Self { profile: profile::name(profile), region: region.to_owned(), found: Arc::default() }
    }

    async fn current(&self) -> anyhow::Result<Credentials> {
        // Held over the search: requests made at the same time must not search twice.
        let mut found = self.found.lock().await;
        let lasting = |time| found.clone().filter(|known| outlasts(known, time));
        if let Some(known) = lasting(clock::now() + MARGIN) {
            return Ok(known);
        }
        match self.search().await {
            Ok(fetched) => Ok(found.insert(fetched).clone()),
            // Trouble in the margin takes nothing from those that are still valid.
            Err(error) => lasting(clock::now()).ok_or(error),
        }
    }

    async fn search(&self) -> anyhow::Result<Credentials> {
        // The environment's keys count also where the files can't be read.
        let profiles = profile::read(&self.profile).await.map_err(failure::unread);
        let region = profile::region(profiles.as_ref().ok());
        let config = aws_config::defaults(BehaviorVersion::latest())
            .profile_name(&self.profile)
            .region(Region::new(region.unwrap_or_else(|| self.region.clone())))
            .load()
            .await;
        let provider = config.credentials_provider().context("no provider of credentials")?;
        let found = timeout(SEARCH_MAX, provider.provide_credentials()).await;
        let timed_out = |_| Err(CredentialsError::provider_timed_out(SEARCH_MAX));
        let error = match found.unwrap_or_else(timed_out) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        bail!(failure::explain(&error, &profiles?))
    }
}

impl ProvideCredentials for Identity {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            self.current().await.map_err(CredentialsError::provider_error)
        })
    }
}

/// Returns the region of the environment, the profile or the instance. Fails where the AWS
/// configuration can't be read.
pub async fn region(profile: Option<&str>) -> anyhow::Result<Option<String>> {
    let profiles = profile::read(&profile::name(profile)).await.map_err(failure::unread)?;
    if let Some(region) = profile::region(Some(&profiles)) {
        return Ok(Some(region));
    }
    let instance = ImdsRegionProvider::builder().build();
    let of_instance = ProvideRegion::region(&instance).await;
    Ok(of_instance.map(|region| region.to_string()))
}

fn outlasts(credentials: &Credentials, time: OffsetDateTime) -> bool {
    credentials.expiry().is_none_or(|expiry| expiry > SystemTime::from(time))
}
