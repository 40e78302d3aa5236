//! Settings of the functions, read once from the environment that Terraform sets.

use std::{env, fmt::Display, str::FromStr, time::Duration};

use gridpost_core::endpoint::{
    Allowed, AllowedNetworks, AllowedPorts,
    arn::{AllowedResources, ArnPatterns},
};
use gridpost_ports::configuration::Limits;

/// A setting that is missing or can't be read. The function then refuses to start.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The variable is not set.
    #[error(
        "the environment variable {0} is not set; Terraform or Lambda sets it on every function"
    )]
    Missing(&'static str),
    /// The variable's value is not of its form.
    #[error("the environment variable {name} is wrong: {reason}")]
    Wrong {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// A setting as text.
///
/// # Errors
///
/// [`SettingError::Missing`] when the variable is not set.
pub fn text(name: &'static str) -> Result<String, SettingError> {
    env::var(name).map_err(|_| SettingError::Missing(name))
}

/// A setting of another type, or its default where the variable is not set.
///
/// # Errors
///
/// [`SettingError::Wrong`] when it is set and can't be read.
pub fn parsed_or<T>(name: &'static str, default: T) -> Result<T, SettingError>
where
    T: FromStr<Err: Display>,
{
    match env::var(name) {
        Ok(value) => value.parse().map_err(|error: T::Err| SettingError::Wrong {
            name,
            reason: format!("'{value}': {error}"),
        }),
        Err(_) => Ok(default),
    }
}

/// How long configuration is kept in memory, from `GRIDPOST_CONFIG_CACHE_MS` (milliseconds).
///
/// # Errors
///
/// [`SettingError::Wrong`] when it is no number.
pub fn configuration_kept_for() -> Result<Duration, SettingError> {
    Ok(Duration::from_millis(parsed_or("GRIDPOST_CONFIG_CACHE_MS", 2_000)?))
}

/// For how long and how much configuration a function keeps in memory: besides
/// [`configuration_kept_for`], how long it may go on where the table can't be read, from
/// `GRIDPOST_CONFIG_STALE_SECONDS`, and an eighth of its memory.
///
/// # Errors
///
/// [`SettingError::Wrong`] when one of them is no number.
pub fn configuration_limits() -> Result<Limits, SettingError> {
    let stale_s = parsed_or("GRIDPOST_CONFIG_STALE_SECONDS", 60)?;
    let memory_mb: usize = parsed_or("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 512)?;
    Ok(Limits {
        fresh_for: configuration_kept_for()?,
        stale_for: Duration::from_secs(stale_s),
        bytes_max: memory_mb * 1_048_576 / 8,
    })
}

/// What endpoints are allowed to be, from `GRIDPOST_ENDPOINT_ALLOWED_NETWORKS`,
/// `GRIDPOST_ENDPOINT_ALLOWED_PORTS` and `GRIDPOST_RESOURCE_DESTINATIONS` (all comma separated).
///
/// # Errors
///
/// [`SettingError::Wrong`] when one of them can't be read.
pub fn allowed_endpoints() -> Result<Allowed, SettingError> {
    Ok(Allowed {
        networks: parsed_or("GRIDPOST_ENDPOINT_ALLOWED_NETWORKS", AllowedNetworks::default())?,
        ports: parsed_or("GRIDPOST_ENDPOINT_ALLOWED_PORTS", AllowedPorts::default())?,
        resources: AllowedResources {
            region: env::var("AWS_REGION").unwrap_or_default(),
            patterns: parsed_or("GRIDPOST_RESOURCE_DESTINATIONS", ArnPatterns::default())?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets its name and its version for tests.
    #[test]
    fn a_setting_that_can_not_be_read_stops_the_start() {
        let wrong = parsed_or::<u32>("CARGO_PKG_NAME", 7).expect_err("it is no number");
        let said = wrong.to_string();
        assert!(said.contains("CARGO_PKG_NAME") && said.contains("gridpost-runtime"), "{said}");
        assert_eq!(
            parsed_or("CARGO_PKG_NAME", String::new()).ok().as_deref(),
            Some(env!("CARGO_PKG_NAME"))
        );
        assert_eq!(parsed_or("GRIDPOST_IS_SET_NOWHERE", 7).ok(), Some(7));
        assert!(matches!(text("GRIDPOST_IS_SET_NOWHERE"), Err(SettingError::Missing(_))));
    }
}
