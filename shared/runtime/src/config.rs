//! Settings of the functions, from the environment that Terraform sets. All variables and defaults are
//! here.

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

/// A missing or invalid setting, with which the function refuses to start.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error(
        "the environment variable {0} is not set; Terraform or Lambda sets it on every function"
    )]
    Missing(&'static str),
    #[error("the environment variable {name} is wrong: {reason}")]
    Wrong { name: &'static str, reason: String },
}

/// Reads a setting as text.
pub fn text(name: &'static str) -> Result<String, SettingError> {
    env::var(name).map_err(|_| SettingError::Missing(name))
}

/// Reads a setting of another type, or returns its default.
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

/// Defaults that `gridpost dev` uses, too.
pub mod default {
    use std::time::Duration;

    /// The CloudWatch namespace. Deployments of one account and region need different ones.
    pub const NAMESPACE: &str = "Gridpost";

    /// The largest message of a queue, in bytes.
    pub const QUEUE_MESSAGE_BYTES_MAX: usize = 262_144;

    /// Publishes with more deliveries are stored before they are enqueued.
    pub const INLINE_FAN_OUT: usize = 10_000;

    /// How the deployment names itself to CloudEvents endpoints.
    pub const VALIDATION_ORIGIN: &str = "eventgrid.azure.net";

    /// How long configuration that can't be read again is used.
    pub const CONFIGURATION_STALE_FOR: Duration = Duration::from_secs(60);

    /// How long a dead-letter destination may refuse.
    pub const DEAD_LETTER_GIVE_UP_AFTER: Duration = Duration::from_secs(4 * 60 * 60);
}

/// Reads `GRIDPOST_LOG`: a level, or levels by module.
pub fn log<T: FromStr<Err: Display>>(default: T) -> Result<T, SettingError> {
    parsed_or("GRIDPOST_LOG", default)
}

/// Reads `GRIDPOST_METRIC_NAMESPACE`.
pub fn metric_namespace() -> Result<String, SettingError> {
    parsed_or("GRIDPOST_METRIC_NAMESPACE", default::NAMESPACE.to_owned())
}

/// Reads `GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION`: whether metrics have names as dimensions.
pub fn metrics_by_event_subscription() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION", false)
}

/// Reads `GRIDPOST_LATENCY_METRICS`: whether durations are metrics.
pub fn latency_metrics() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_LATENCY_METRICS", false)
}

/// Reads `GRIDPOST_CONFIG_TABLE`: the table of topics and event subscriptions.
pub fn config_table() -> Result<String, SettingError> {
    text("GRIDPOST_CONFIG_TABLE")
}

/// Reads `GRIDPOST_STATE_TABLE`: the table of states.
pub fn state_table() -> Result<String, SettingError> {
    text("GRIDPOST_STATE_TABLE")
}

/// Reads `GRIDPOST_PAYLOAD_BUCKET`: the bucket of events that are too large for a message.
pub fn payload_bucket() -> Result<String, SettingError> {
    text("GRIDPOST_PAYLOAD_BUCKET")
}

/// Reads a queue's `GRIDPOST_…_QUEUE_URL`; empty if the function does not use the queue.
pub fn queue_url(queue: Queue) -> Result<String, SettingError> {
    let name = match queue {
        Queue::Dispatch => "GRIDPOST_DISPATCH_QUEUE_URL",
        Queue::Slow => "GRIDPOST_SLOW_QUEUE_URL",
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

/// Reads `GRIDPOST_SOURCE`: intake's source, a JSON object that `infra/modules/aws-source` writes.
pub fn source() -> Result<Source, SettingError> {
    parsed("GRIDPOST_SOURCE", &text("GRIDPOST_SOURCE")?)
}

/// Reads `GRIDPOST_RETRY_QUEUE_URLS`, in shard order (comma separated).
pub fn retry_queue_urls() -> Result<Vec<String>, SettingError> {
    let urls = parsed_or("GRIDPOST_RETRY_QUEUE_URLS", String::new())?;
    Ok(urls.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect())
}

/// Reads `GRIDPOST_RETRY_QUEUES_SENT_TO`: how many retry queues get messages; by default all. The others
/// are being emptied.
pub fn retry_queues_sent_to() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_RETRY_QUEUES_SENT_TO", usize::MAX)
}

/// Reads `GRIDPOST_SLOW_QUEUE_SENT_TO`: whether the slow queue gets messages. Otherwise it is being emptied.
pub fn slow_queue_sent_to() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_SLOW_QUEUE_SENT_TO", false)
}

/// Reads `GRIDPOST_QUEUE_MESSAGE_BYTES_MAX`.
pub fn queue_message_bytes_max() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", default::QUEUE_MESSAGE_BYTES_MAX)
}

/// Reads `GRIDPOST_INLINE_FAN_OUT`: the most deliveries that a publish's request enqueues.
pub fn inline_fan_out() -> Result<usize, SettingError> {
    parsed_or("GRIDPOST_INLINE_FAN_OUT", default::INLINE_FAN_OUT)
}

/// Reads `GRIDPOST_PUBLISH_AUTHORIZATION`: who may publish.
pub fn publish_authorization<T>() -> Result<T, SettingError>
where
    T: Default + FromStr<Err: Display>,
{
    parsed_or("GRIDPOST_PUBLISH_AUTHORIZATION", T::default())
}

/// Reads `GRIDPOST_ORIGIN_SECRET_SHA256`: digests of the secrets of the CDN that publishes must come
/// through; by default there is none. An error does not repeat the value, which may be a secret by
/// mistake.
pub fn origin_secrets<T>() -> Result<T, SettingError>
where
    T: Default + FromStr<Err: Display>,
{
    const NAME: &str = "GRIDPOST_ORIGIN_SECRET_SHA256";
    let wrong = |error: T::Err| SettingError::Wrong { name: NAME, reason: error.to_string() };
    env::var(NAME).map_or_else(|_| Ok(T::default()), |value| value.parse().map_err(wrong))
}

/// Reads `GRIDPOST_MANAGE_AUTHORIZATION`: who may call the manage API.
pub fn manage_authorization<T>() -> Result<T, SettingError>
where
    T: Default + FromStr<Err: Display>,
{
    parsed_or("GRIDPOST_MANAGE_AUTHORIZATION", T::default())
}

/// Reads `GRIDPOST_PUBLISH_URL`: the base URL of the publish API.
pub fn publish_url() -> Result<String, SettingError> {
    text("GRIDPOST_PUBLISH_URL")
}

/// Reads `GRIDPOST_MANAGE_URL`: the base URL of the manage API, without a final slash.
pub fn manage_url() -> Result<String, SettingError> {
    Ok(text("GRIDPOST_MANAGE_URL")?.trim_end_matches('/').to_owned())
}

/// Reads `GRIDPOST_DISPATCH_ARN`, whose account is the deployment's.
pub fn dispatch_arn() -> Result<Arn, SettingError> {
    parsed("GRIDPOST_DISPATCH_ARN", &text("GRIDPOST_DISPATCH_ARN")?)
}

/// Reads `GRIDPOST_VALIDATION_ORIGIN`: the deployment's name for CloudEvents endpoints.
pub fn validation_origin() -> Result<String, SettingError> {
    parsed_or("GRIDPOST_VALIDATION_ORIGIN", default::VALIDATION_ORIGIN.to_owned())
}

/// Reads `GRIDPOST_FAILED_RESPONSE_BYTES`: how much of a failed response is kept.
pub fn failed_response_bytes() -> Result<ResponseBytes, SettingError> {
    parsed_or("GRIDPOST_FAILED_RESPONSE_BYTES", ResponseBytes::default())
}

/// Reads `GRIDPOST_PROBATION_SECONDS`: a JSON object of seconds by outcome, which replace the core's
/// defaults.
pub fn probation() -> Result<Durations, SettingError> {
    const NAME: &str = "GRIDPOST_PROBATION_SECONDS";
    let text = parsed_or(NAME, "{}".to_owned())?;
    let own: BTreeMap<Outcome, u32> = serde_json::from_str(&text)
        .map_err(|error| SettingError::Wrong { name: NAME, reason: error.to_string() })?;
    Ok(Durations::default().with(own))
}

/// Reads `GRIDPOST_SLOW_AFTER_MS`: when endpoints count as slow.
pub fn lanes() -> Result<SlowEndpointSettings, SettingError> {
    let own = SlowEndpointSettings::default();
    let default = u64::try_from(own.slow_after.as_millis()).unwrap_or(u64::MAX);
    let slow_after = Duration::from_millis(parsed_or("GRIDPOST_SLOW_AFTER_MS", default)?);
    Ok(SlowEndpointSettings { slow_after, ..own })
}

/// Reads how many invocations may listen for late responses: of first attempts from
/// `GRIDPOST_FIRST_ATTEMPT_LISTENERS`, of a retry queue from `GRIDPOST_RETRY_LISTENERS`, and of the slow queue
/// from `GRIDPOST_SLOW_LISTENERS`.
pub fn listeners_max() -> Result<[usize; 3], SettingError> {
    let first = parsed_or("GRIDPOST_FIRST_ATTEMPT_LISTENERS", 55)?;
    let retry = parsed_or("GRIDPOST_RETRY_LISTENERS", 5)?;
    Ok([first, retry, parsed_or("GRIDPOST_SLOW_LISTENERS", 5)?])
}

/// Reads `GRIDPOST_RETRY_IN_FLIGHT_LIMIT`: with more messages in flight, a retry queue parks long waits.
pub fn retry_in_flight_limit() -> Result<u64, SettingError> {
    parsed_or("GRIDPOST_RETRY_IN_FLIGHT_LIMIT", 60_000)
}

/// Reads `GRIDPOST_DEAD_LETTER_DELAY_SECONDS`: how long an ended delivery waits to share an object.
pub fn dead_letter_delay_s() -> Result<u32, SettingError> {
    parsed_or("GRIDPOST_DEAD_LETTER_DELAY_SECONDS", 300)
}

/// Reads `GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS`: how long a dead-letter destination may refuse.
pub fn dead_letter_give_up_after() -> Result<Duration, SettingError> {
    let default = default::DEAD_LETTER_GIVE_UP_AFTER.as_secs();
    Ok(Duration::from_secs(parsed_or("GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS", default)?))
}

/// Reads `GRIDPOST_DEAD_LETTER_TOPIC`: the topic of events about dead letters, if any.
pub fn dead_letter_topic() -> Result<Option<String>, SettingError> {
    let topic = parsed_or("GRIDPOST_DEAD_LETTER_TOPIC", String::new())?;
    Ok(Some(topic).filter(|topic| !topic.is_empty()))
}

/// Reads `GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS`: whether successful first attempts are logged.
pub fn log_successful_attempts() -> Result<bool, SettingError> {
    parsed_or("GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS", false)
}

/// Reads `GRIDPOST_NAME_PREFIX`, with which the names of the deployment's functions begin.
pub fn name_prefix() -> Result<String, SettingError> {
    text("GRIDPOST_NAME_PREFIX")
}

/// Reads `GRIDPOST_CONFIG_CACHE_MS`: how long configuration is cached (milliseconds).
pub fn configuration_kept_for() -> Result<Duration, SettingError> {
    Ok(Duration::from_millis(parsed_or("GRIDPOST_CONFIG_CACHE_MS", 2_000)?))
}

/// Reads `GRIDPOST_DISPATCH_CONFIG_CACHE_MS`: how long dispatch caches it (milliseconds).
pub fn dispatch_keeps_configuration() -> Result<Duration, SettingError> {
    Ok(Duration::from_millis(parsed_or("GRIDPOST_DISPATCH_CONFIG_CACHE_MS", 10_000)?))
}

/// Reads `GRIDPOST_CONFIG_STALE_SECONDS`: how long configuration that can't be read again is used.
pub fn configuration_stale_for() -> Result<Duration, SettingError> {
    let stale_s = default::CONFIGURATION_STALE_FOR.as_secs();
    Ok(Duration::from_secs(parsed_or("GRIDPOST_CONFIG_STALE_SECONDS", stale_s)?))
}

/// Returns the limits of the configuration's cache: [`configuration_kept_for`],
/// [`configuration_stale_for`], and an eighth of the function's memory.
pub fn configuration_limits() -> Result<Limits, SettingError> {
    let memory_mb: usize = parsed_or("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 512)?;
    Ok(Limits {
        fresh_for: configuration_kept_for()?,
        stale_for: configuration_stale_for()?,
        bytes_max: memory_mb * 1_048_576 / 8,
    })
}

/// Reads the allowed endpoints from `GRIDPOST_ENDPOINT_ALLOWED_NETWORKS`,
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

/// Reads `GRIDPOST_ENDPOINT_IDENTITIES`: the AWS identities that requests to endpoints may prove (JSON).
pub fn endpoint_identities() -> Result<Identities, SettingError> {
    parsed_or("GRIDPOST_ENDPOINT_IDENTITIES", Identities::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets its name and its version for tests.
    #[test]
    fn a_setting_that_can_not_be_read_stops_the_start() {
        let wrong = parsed_or::<u32>("CARGO_PKG_NAME", 7).expect_err("it is not a number");
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
        assert_eq!(listeners_max().ok(), Some([55, 5, 5]));
        assert_eq!(dead_letter_give_up_after().ok(), Some(Duration::from_secs(14_400)));
        assert_eq!(dead_letter_topic().ok(), Some(None));
        assert_eq!(retry_queue_urls().ok(), Some(Vec::new()));
        for queue in [Queue::Dispatch, Queue::Retry(1), Queue::Poison] {
            assert_eq!(queue_url(queue).ok().as_deref(), Some(""), "{queue}");
        }
    }
}
