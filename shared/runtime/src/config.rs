//! Settings of the functions, read once from the environment that Terraform sets. Every variable of
//! every function is named here, with its default.

use std::{collections::BTreeMap, env, fmt::Display, str::FromStr, time::Duration};

use gridpost_core::{
    delivery::queue::Queue,
    endpoint::{
        Allowed, AllowedNetworks, AllowedPorts,
        arn::{AllowedResources, Arn, ArnPatterns},
        identities::Identities,
        secrets::ClientSecrets,
    },
    intake::Source,
    retry::{
        health::Durations, outcome::Outcome, response_text::ResponseBytes,
        slow_endpoint::SlowEndpointSettings,
    },
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
pub fn text(name: &'static str) -> Result<String, SettingError> {
    env::var(name).map_err(|_| SettingError::Missing(name))
}

/// A setting of another type, or its default where the variable is not set.
pub fn parsed_or<T>(name: &'static str, default: T) -> Result<T, SettingError>
where
    T: FromStr<Err: Display>,
{
    match env::var(name) {
        Ok(value) => parsed(name, &value),
        Err(_) => Ok(default),
    }
}

fn parsed<T>(name: &'static str, value: &str) -> Result<T, SettingError>
where
    T: FromStr<Err: Display>,
{
    let wrong = |error| SettingError::Wrong { name, reason: format!("'{value}': {error}") };
    value.parse().map_err(wrong)
}

/// What holds where the environment says nothing, each once: `gridpost dev` takes them from here too.
pub mod default {
    use std::time::Duration;

    /// The CloudWatch namespace of all metrics: each deployment of an account and region has its own.
    pub const NAMESPACE: &str = "Gridpost";

    /// The largest message of a queue, in bytes.
    pub const QUEUE_MESSAGE_BYTES_MAX: usize = 262_144;

    /// Publishes with more deliveries are stored first.
    pub const INLINE_FAN_OUT: usize = 10_000;

    /// How the deployment names itself to CloudEvents endpoints.
    pub const VALIDATION_ORIGIN: &str = "eventgrid.azure.net";

    /// How long configuration may be used where it can't be read anew.
    pub const CONFIGURATION_STALE_FOR: Duration = Duration::from_secs(60);

    /// How long a destination for dead letters may refuse.
    pub const DEAD_LETTER_GIVE_UP_AFTER: Duration = Duration::from_secs(4 * 60 * 60);
}

/// Whether and what functions log: `GRIDPOST_LOG`, a level or levels by module.
pub fn log<T: FromStr<Err: Display>>(default: T) -> Result<T, SettingError> {
    parsed_or("GRIDPOST_LOG", default)
}

/// CloudWatch's namespace of all metrics, from `GRIDPOST_METRIC_NAMESPACE`.
pub fn metric_namespace() -> Result<String, SettingError> {
    parsed_or("GRIDPOST_METRIC_NAMESPACE", default::NAMESPACE.to_owned())
}

/// Whether there are metrics by topic and event subscription, from
/// `GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION`.
pub fn metrics_by_event_subscription() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION", false)
}

/// Whether durations are metrics, from `GRIDPOST_LATENCY_METRICS`.
pub fn latency_metrics() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_LATENCY_METRICS", false)
}

/// The table of topics and event subscriptions, from `GRIDPOST_CONFIG_TABLE`.
pub fn config_table() -> Result<String, SettingError> {
    text("GRIDPOST_CONFIG_TABLE")
}

/// The table of states, from `GRIDPOST_STATE_TABLE`.
pub fn state_table() -> Result<String, SettingError> {
    text("GRIDPOST_STATE_TABLE")
}

/// The bucket of what no message can carry, from `GRIDPOST_PAYLOAD_BUCKET`.
pub fn payload_bucket() -> Result<String, SettingError> {
    text("GRIDPOST_PAYLOAD_BUCKET")
}

/// The URL of a queue that is no retry queue, from `GRIDPOST_…_QUEUE_URL`; empty where the function has
/// nothing to do with it.
pub fn queue_url(queue: Queue) -> Result<String, SettingError> {
    let name = match queue {
        Queue::Dispatch => "GRIDPOST_DISPATCH_QUEUE_URL",
        Queue::DeadLetter => "GRIDPOST_DEAD_LETTER_QUEUE_URL",
        Queue::FanOut => "GRIDPOST_FAN_OUT_QUEUE_URL",
        Queue::Redrive => "GRIDPOST_REDRIVE_QUEUE_URL",
        Queue::Poison => "GRIDPOST_POISON_QUEUE_URL",
        Queue::Retry(shard) => {
            return Ok(retry_queue_urls()?.into_iter().nth(shard).unwrap_or_default());
        }
    };
    parsed_or(name, String::new())
}

/// The source that intake takes messages from, from `GRIDPOST_SOURCE`, a JSON object that
/// `infra/modules/aws-source` writes.
pub fn source() -> Result<Source, SettingError> {
    parsed("GRIDPOST_SOURCE", &text("GRIDPOST_SOURCE")?)
}

/// The URLs of the retry queues in shard order, from `GRIDPOST_RETRY_QUEUE_URLS` (comma separated).
pub fn retry_queue_urls() -> Result<Vec<String>, SettingError> {
    let urls = parsed_or("GRIDPOST_RETRY_QUEUE_URLS", String::new())?;
    Ok(urls.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect())
}

/// How many of the retry queues get messages, from `GRIDPOST_RETRY_QUEUES_SENT_TO`; without it all. Those
/// behind them are being emptied.
pub fn retry_queues_sent_to() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_RETRY_QUEUES_SENT_TO", usize::MAX)
}

/// The largest message that the queues take, in bytes, from `GRIDPOST_QUEUE_MESSAGE_BYTES_MAX`.
pub fn queue_message_bytes_max() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", default::QUEUE_MESSAGE_BYTES_MAX)
}

/// Most deliveries that a publish's own request enqueues, from `GRIDPOST_INLINE_FAN_OUT`.
pub fn inline_fan_out() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_INLINE_FAN_OUT", default::INLINE_FAN_OUT)
}

/// Who may publish, from `GRIDPOST_PUBLISH_AUTHORIZATION`.
pub fn publish_authorization<T>() -> Result<T, SettingError>
where
    T: Default + FromStr<Err: Display>,
{
    parsed_or("GRIDPOST_PUBLISH_AUTHORIZATION", T::default())
}

/// Who may call the manage API, from `GRIDPOST_MANAGE_AUTHORIZATION`.
pub fn manage_authorization<T>() -> Result<T, SettingError>
where
    T: Default + FromStr<Err: Display>,
{
    parsed_or("GRIDPOST_MANAGE_AUTHORIZATION", T::default())
}

/// Base URL of the publish API, from `GRIDPOST_PUBLISH_URL`.
pub fn publish_url() -> Result<String, SettingError> {
    text("GRIDPOST_PUBLISH_URL")
}

/// Base URL of the manage API without a slash at its end, from `GRIDPOST_MANAGE_URL`.
pub fn manage_url() -> Result<String, SettingError> {
    Ok(text("GRIDPOST_MANAGE_URL")?.trim_end_matches('/').to_owned())
}

/// The function dispatch, whose account is the deployment's; from `GRIDPOST_DISPATCH_ARN`.
pub fn dispatch_arn() -> Result<Arn, SettingError> {
    parsed("GRIDPOST_DISPATCH_ARN", &text("GRIDPOST_DISPATCH_ARN")?)
}

/// How the deployment names itself to CloudEvents endpoints, from `GRIDPOST_VALIDATION_ORIGIN`.
pub fn validation_origin() -> Result<String, SettingError> {
    parsed_or("GRIDPOST_VALIDATION_ORIGIN", default::VALIDATION_ORIGIN.to_owned())
}

/// How much of a failed response is kept, from `GRIDPOST_FAILED_RESPONSE_BYTES`.
pub fn failed_response_bytes() -> Result<ResponseBytes, SettingError> {
    parsed_or("GRIDPOST_FAILED_RESPONSE_BYTES", ResponseBytes::default())
}

/// How long outcomes put an event subscription on probation, where that is not the core's default:
/// `GRIDPOST_PROBATION_SECONDS`, a JSON object of seconds by outcome.
pub fn probation() -> Result<Durations, SettingError> {
    const NAME: &str = "GRIDPOST_PROBATION_SECONDS";
    let text = parsed_or(NAME, "{}".to_owned())?;
    let own: BTreeMap<Outcome, u32> = serde_json::from_str(&text)
        .map_err(|error| SettingError::Wrong { name: NAME, reason: error.to_string() })?;
    Ok(Durations::default().with(own))
}

/// When endpoints count as slow, from `GRIDPOST_SLOW_AFTER_MS`, and what they may hold then.
pub fn lanes() -> Result<SlowEndpointSettings, SettingError> {
    let own = SlowEndpointSettings::default();
    let default = u64::try_from(own.slow_after.as_millis()).unwrap_or(u64::MAX);
    let slow_after = Duration::from_millis(parsed_or("GRIDPOST_SLOW_AFTER_MS", default)?);
    Ok(SlowEndpointSettings { slow_after, ..own })
}

/// How many runs may listen for late responses at the same time: those for first attempts, from
/// `GRIDPOST_FIRST_ATTEMPT_LISTENERS`, and those of a retry queue, from `GRIDPOST_RETRY_LISTENERS`.
pub fn listeners_max() -> Result<(usize, usize), SettingError> {
    let first = parsed_or("GRIDPOST_FIRST_ATTEMPT_LISTENERS", 55)?;
    Ok((first, parsed_or("GRIDPOST_RETRY_LISTENERS", 5)?))
}

/// Above so many messages in flight in a retry queue, long waits are parked; from
/// `GRIDPOST_RETRY_IN_FLIGHT_LIMIT`.
pub fn retry_in_flight_limit() -> Result<u64, SettingError> {
    parsed_or("GRIDPOST_RETRY_IN_FLIGHT_LIMIT", 60_000)
}

/// How long an ended delivery waits for others to share its object, from
/// `GRIDPOST_DEAD_LETTER_DELAY_SECONDS`.
pub fn dead_letter_delay_s() -> Result<u32, SettingError> {
    parsed_or("GRIDPOST_DEAD_LETTER_DELAY_SECONDS", 300)
}

/// How long a destination for dead letters may refuse, from `GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS`.
pub fn dead_letter_give_up_after() -> Result<Duration, SettingError> {
    let default = default::DEAD_LETTER_GIVE_UP_AFTER.as_secs();
    Ok(Duration::from_secs(parsed_or("GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS", default)?))
}

/// The topic that is told of dead letters, from `GRIDPOST_DEAD_LETTER_TOPIC`, if one is.
pub fn dead_letter_topic() -> Result<Option<String>, SettingError> {
    let topic = parsed_or("GRIDPOST_DEAD_LETTER_TOPIC", String::new())?;
    Ok(Some(topic).filter(|topic| !topic.is_empty()))
}

/// Whether first attempts that succeed are logged, from `GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS`.
pub fn log_successful_attempts() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS", false)
}

/// How long configuration is kept in memory, from `GRIDPOST_CONFIG_CACHE_MS` (milliseconds).
pub fn configuration_kept_for() -> Result<Duration, SettingError> {
    Ok(Duration::from_millis(parsed_or("GRIDPOST_CONFIG_CACHE_MS", 2_000)?))
}

/// How long dispatch keeps configuration in memory, for the functions that must know it, from
/// `GRIDPOST_DISPATCH_CONFIG_CACHE_MS` (milliseconds).
pub fn dispatch_keeps_configuration() -> Result<Duration, SettingError> {
    Ok(Duration::from_millis(parsed_or("GRIDPOST_DISPATCH_CONFIG_CACHE_MS", 10_000)?))
}

/// How long functions may go on with the configuration that they have where the table can't be read,
/// from `GRIDPOST_CONFIG_STALE_SECONDS`.
pub fn configuration_stale_for() -> Result<Duration, SettingError> {
    let stale_s = default::CONFIGURATION_STALE_FOR.as_secs();
    Ok(Duration::from_secs(parsed_or("GRIDPOST_CONFIG_STALE_SECONDS", stale_s)?))
}

/// For how long and how much configuration a function keeps in memory:
/// [`configuration_kept_for`], [`configuration_stale_for`], and an eighth of its memory.
pub fn configuration_limits() -> Result<Limits, SettingError> {
    let memory_mb: usize = parsed_or("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 512)?;
    Ok(Limits {
        fresh_for: configuration_kept_for()?,
        stale_for: configuration_stale_for()?,
        bytes_max: memory_mb * 1_048_576 / 8,
    })
}

/// What endpoints are allowed to be, from `GRIDPOST_ENDPOINT_ALLOWED_NETWORKS`,
/// `GRIDPOST_ENDPOINT_ALLOWED_PORTS`, `GRIDPOST_RESOURCE_DESTINATIONS` (all comma separated),
/// `GRIDPOST_ENDPOINT_SECRETS` and `GRIDPOST_ENDPOINT_IDENTITIES` (JSON objects).
pub fn allowed_endpoints() -> Result<Allowed, SettingError> {
    Ok(Allowed {
        networks: parsed_or("GRIDPOST_ENDPOINT_ALLOWED_NETWORKS", AllowedNetworks::default())?,
        ports: parsed_or("GRIDPOST_ENDPOINT_ALLOWED_PORTS", AllowedPorts::default())?,
        resources: AllowedResources {
            region: env::var("AWS_REGION").unwrap_or_default(),
            patterns: parsed_or("GRIDPOST_RESOURCE_DESTINATIONS", ArnPatterns::default())?,
        },
        secrets: parsed_or("GRIDPOST_ENDPOINT_SECRETS", ClientSecrets::default())?,
        identities: endpoint_identities()?,
    })
}

/// The identities of AWS that requests to endpoints may prove, from `GRIDPOST_ENDPOINT_IDENTITIES` (a
/// JSON object).
pub fn endpoint_identities() -> Result<Identities, SettingError> {
    parsed_or("GRIDPOST_ENDPOINT_IDENTITIES", Identities::default())
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

    /// No test is given a setting.
    #[test]
    fn what_is_not_set_has_its_default() {
        assert_eq!(lanes().ok(), Some(SlowEndpointSettings::default()));
        assert_eq!(listeners_max().ok(), Some((55, 5)));
        assert_eq!(dead_letter_give_up_after().ok(), Some(Duration::from_secs(14_400)));
        assert_eq!(dead_letter_topic().ok(), Some(None));
        assert_eq!(retry_queue_urls().ok(), Some(Vec::new()));
        for queue in [Queue::Dispatch, Queue::Retry(1), Queue::Poison] {
            assert_eq!(queue_url(queue).ok().as_deref(), Some(""), "{queue}");
        }
    }
}
