//! Says why there are no credentials, and what to do.

use std::error::Error;

use anyhow::{Chain, anyhow};
use aws_config::meta::ProviderChainError;
use aws_config::profile::{Profile, ProfileFileLoadError, ProfileSet};
use aws_credential_types::provider::error::{CredentialsError, TokenError};
use aws_smithy_types::error::ErrorMetadata;

use crate::identity::profile::{DEFAULT, chain, variable};
use crate::output::{in_line, word};

/// The most characters of one cause. A `credential_process` may write any number of them.
const CAUSE_CHARS_MAX: usize = 300;

/// URLs that may hold a secret, by the variables that they are in.
const SECRET_URLS: [&str; 2] =
    ["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];

/// Says in one line why the search failed, and what to do.
pub(super) fn explain(error: &CredentialsError, profiles: &ProfileSet) -> String {
    let name = profiles.selected_profile();
    let is_known = profiles.get_profile(name).is_some();
    let why = match (error, is_known || name == DEFAULT) {
        (CredentialsError::CredentialsNotLoaded(_), false) => {
            format!("the AWS configuration has no profile {}", word(name))
        }
        (CredentialsError::CredentialsNotLoaded(_), true) => not_loaded(error),
        _ => causes(error),
    };
    let place = if is_known { format!("profile {}: ", word(name)) } else { String::new() };
    format!("{place}{why}; {}", advice(profiles))
}

/// Says why no source gave credentials: what the profile lacks, if it is meant to give some.
fn not_loaded(error: &CredentialsError) -> String {
    let searched = error.source().and_then(|it| it.downcast_ref::<ProviderChainError<_>>());
    let attempts = searched.map(ProviderChainError::<CredentialsError>::attempts);
    let of_profile = attempts.into_iter().flatten().find(|attempt| attempt.name() == "Profile");
    let why = of_profile.map(|attempt| causes(attempt.error())).filter(|why| !why.is_empty());
    why.unwrap_or_else(|| "no source of credentials is configured".to_owned())
}

/// Returns what to do where the selected profile gives no credentials.
fn advice(profiles: &ProfileSet) -> String {
    let first = |names: &[&str]| {
        let has = |profile: &&Profile| names.iter().any(|name| profile.get(name).is_some());
        chain(profiles).find(has).map(|profile| word(profile.name()))
    };
    if let Some(name) = first(&["mfa_serial"]) {
        let selected = word(profiles.selected_profile());
        return format!(
            "profile {name} has an mfa_serial, but gridpost does not ask for codes; the AWS CLI \
             does: eval \"$(aws configure export-credentials --profile {selected} --format env)\""
        );
    }
    if let Some(name) = first(&["sso_session", "sso_start_url", "sso_account_id"]) {
        return format!("if the session has expired, run: aws sso login --profile {name}");
    }
    if let Some(name) = first(&["login_session"]) {
        return format!("if the session has expired, run: aws login --profile {name}");
    }
    if let Some(name) = first(&["credential_process"]) {
        return format!("run the credential_process of profile {name} to see what it needs");
    }
    "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned()
}

/// Says why the profiles can't be read.
pub(super) fn unread(error: ProfileFileLoadError) -> anyhow::Error {
    anyhow!("the AWS configuration can't be read: {}", causes(&error))
}

/// Returns the causes of an error in one line, without those that only say that there was one.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut causes: Vec<String> = Chain::new(error).filter_map(told).collect();
    // A refusal is its own cause, once with the service's type.
    causes.dedup();
    causes.join(": ")
}

/// Returns what a cause says, or `None` for the SDK's words for any failure: the next cause says
/// which.
fn told(cause: &(dyn Error + 'static)) -> Option<String> {
    let mut text = cause.to_string();
    match cause.downcast_ref() {
        Some(CredentialsError::ProviderTimedOut(_)) | None => {}
        Some(_) => return None,
    }
    if cause.is::<TokenError>() || text == "service error" || text.starts_with("unhandled error") {
        return None;
    }
    if let Some(refusal) = cause.downcast_ref::<ErrorMetadata>() {
        let code = refusal.code().unwrap_or("the answer can't be read");
        text = format!("{code}: {}", refusal.message().unwrap_or("no message"));
    }
    for (name, url) in SECRET_URLS.iter().filter_map(|name| Some((name, variable(name)?))) {
        text = text.replace(&url, name);
    }
    let text = text.trim_start_matches("ProfileFile provider could not be built: ");
    let words: String = text.chars().take(CAUSE_CHARS_MAX).collect();
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(in_line(&line).into_owned())
}
