//! Finds the AWS credentials and the region of the caller, where the AWS SDKs look for them.
//!
//! The order is theirs: environment, profile, web identity, container, instance. A source that is not configured
//! is passed over; one that is configured but fails ends the search, so that no command runs under another identity by accident.

mod environment;
mod metadata;
mod profiles;
mod signer;
mod sts;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
pub use environment::Environment;
use metadata::Instance;
use profiles::{Base, Plan, Profiles};
use reqwest::{RequestBuilder, StatusCode};
use sts::Sts;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::clock;

/// How long before their expiry credentials are fetched anew. Longer than any request takes.
const MARGIN: Duration = Duration::from_secs(120);

/// The waits before a request is made again.
const WAITS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];

/// The codes by which STS asks to make a request again.
const LATER: [&str; 4] =
    ["Throttling", "ThrottlingException", "RequestLimitExceeded", "IDPCommunicationError"];

/// The caller's AWS identity. Clones share what was found.
#[derive(Clone)]
pub struct Identity {
    environment: Environment,
    profile: Option<String>,
    region: String,
    found: Arc<Mutex<Option<Credentials>>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Identity {
    /// Looks where `environment` says, and at `profile` instead of the profile that it names. `region` is whose STS is
    /// asked where nothing else names a region.
    pub fn new(environment: Environment, profile: Option<&str>, region: &str) -> Self {
        let profile = profile.map(str::to_owned);
        Self { environment, profile, region: region.to_owned(), found: Arc::default() }
    }

    async fn current(&self) -> anyhow::Result<Credentials> {
        // Held over the fetch: requests made at the same time must not fetch twice.
        let mut found = self.found.lock().await;
        let lasting = |time| found.clone().filter(|known| outlasts(known, time));
        if let Some(known) = lasting(clock::now() + MARGIN) {
            return Ok(known);
        }
        match self.find().await {
            Ok(fetched) => Ok(found.insert(fetched).clone()),
            // Trouble in the margin takes nothing from those that are still valid.
            Err(error) => lasting(clock::now()).ok_or(error),
        }
    }

    async fn find(&self) -> anyhow::Result<Credentials> {
        if let Some(keys) = self.environment.keys() {
            return Ok(keys);
        }
        let profiles = Profiles::read(&self.environment).await?;
        let name = profile_name(&self.environment, self.profile.as_deref());
        let region = self.environment.region().or_else(|| profiles.region(name));
        let sts = Sts::new(&self.environment, region.unwrap_or(&self.region));
        if let Some(plan) = profiles.plan(name)? {
            let found = self.carry_out(plan, &sts).await;
            return found.with_context(|| format!("profile {name}"));
        }
        if let Some((role, token_file)) = self.environment.web_identity() {
            return sts.assume_role_with_web_identity(&role, token_file).await;
        }
        if let Some(found) = metadata::container(&self.environment).await? {
            return Ok(found);
        }
        if let Some(found) = metadata::instance(&self.environment).await? {
            return Ok(found);
        }
        match profiles.has(name) || name == DEFAULT_PROFILE {
            true => bail!("no source of credentials is configured"),
            false => bail!("the AWS configuration has no profile {name}"),
        }
    }

    async fn carry_out(&self, plan: Plan<'_>, sts: &Sts<'_>) -> anyhow::Result<Credentials> {
        let mut credentials = match plan.base {
            Base::Keys(keys) => keys,
            Base::Source(source) => self.named(source).await?,
            Base::WebIdentity { role, token_file } => {
                sts.assume_role_with_web_identity(&role, token_file).await?
            }
        };
        for role in &plan.roles {
            credentials = sts.assume_role(role, credentials).await?;
        }
        Ok(credentials)
    }

    /// Returns the credentials that a `credential_source` stands for.
    async fn named(&self, source: &str) -> anyhow::Result<Credentials> {
        let found = match source.to_ascii_lowercase().as_str() {
            "environment" => self.environment.keys(),
            "ecscontainer" => metadata::container(&self.environment).await?,
            "ec2instancemetadata" => metadata::instance(&self.environment).await?,
            _ => bail!("there is no credential_source {source}"),
        };
        found.ok_or_else(|| anyhow!("credential_source {source} has no credentials here"))
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

/// The profile that counts where none is named.
const DEFAULT_PROFILE: &str = "default";

fn profile_name<'a>(environment: &'a Environment, explicit: Option<&'a str>) -> &'a str {
    let explicit = explicit.filter(|name| !name.trim().is_empty());
    explicit.or_else(|| environment.get("AWS_PROFILE")).unwrap_or(DEFAULT_PROFILE)
}

/// The region that the environment, the profile or the instance is in.
pub async fn region(
    environment: &Environment,
    profile: Option<&str>,
) -> anyhow::Result<Option<String>> {
    if let Some(region) = environment.region() {
        return Ok(Some(region.to_owned()));
    }
    let profiles = Profiles::read(environment).await?;
    if let Some(region) = profiles.region(profile_name(environment, profile)) {
        return Ok(Some(region.to_owned()));
    }
    // An instance whose metadata cannot be read is like none: the caller tells what to set.
    let Ok(Some(instance)) = Instance::reach(environment).await else { return Ok(None) };
    Ok(instance.get("placement/region").await.ok().flatten())
}

fn outlasts(credentials: &Credentials, time: OffsetDateTime) -> bool {
    credentials.expiry().is_none_or(|expiry| expiry > SystemTime::from(time))
}

/// Credentials that expire, as services give them. Says of broken ones only what is wrong, never what came.
fn session(id: String, secret: String, token: String, expiry: &str) -> anyhow::Result<Credentials> {
    let expiry = OffsetDateTime::parse(expiry, &Rfc3339);
    let expiry = expiry.context("the credentials' expiry is not a time")?;
    Ok(Credentials::new(id, secret, Some(token), Some(expiry.into()), "gridpost"))
}

/// Makes a request, again if the service has trouble of its own, asks for it, or, unless `is_probe`, does not answer.
/// Errors do not hold the URL, of which a container's may be secret.
async fn send(request: RequestBuilder, is_probe: bool) -> reqwest::Result<(StatusCode, String)> {
    for wait in WAITS {
        let Some(attempt) = request.try_clone() else { break };
        match send_once(attempt).await {
            Ok((status, text)) if !asks_to_wait(status, &text) => return Ok((status, text)),
            Err(error) if is_probe => return Err(error),
            _ => sleep(wait).await,
        }
    }
    send_once(request).await
}

async fn send_once(request: RequestBuilder) -> reqwest::Result<(StatusCode, String)> {
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = answer.status();
    Ok((status, answer.text().await.map_err(reqwest::Error::without_url)?))
}

fn asks_to_wait(status: StatusCode, text: &str) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || LATER.iter().any(|code| text.contains(&format!("<Code>{code}</Code>")))
}
