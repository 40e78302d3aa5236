//! An event subscription's JSON document from flags, in Event Grid's ARM shape.

mod authentication;

use clap::Args;
use gridpost_api::subscription::retry::write_duration;
use gridpost_core::{
    endpoint::arn::{Arn, NotAnArn},
    retry::profile::ProfileName,
    subscription::ResourceKind,
};
use gridpost_ops::given::{count_in, read_json, whole_minutes};
use serde_json::{Map, Value, json};

pub use authentication::AuthenticationFlags;

/// An AWS resource by its ARN, which says of which kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceArgument {
    kind: ResourceKind,
    arn: Arn,
}

fn resource(given: &str) -> Result<ResourceArgument, String> {
    let arn: Arn = given.parse().map_err(|error: NotAnArn| error.to_string())?;
    let kind = ResourceKind::ALL.into_iter().map(|(_, kind)| kind).find(|kind| kind.is_of(&arn));
    kind.map(|kind| ResourceArgument { kind, arn }).ok_or_else(|| {
        let forms = ResourceKind::ALL.map(|(_, kind)| kind.rules().arn_form);
        format!("write the ARN of one of these: {}", forms.join("; "))
    })
}

/// Flags that describe an event subscription. What is not given is left to the server's defaults.
#[derive(Args, Clone, Debug, Default)]
pub struct SubscriptionFlags {
    /// URL that receives the events
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "resource"])]
    pub endpoint: Option<String>,

    /// AWS resource that receives the events: a Lambda function, SQS queue, SNS topic, Kinesis stream or
    /// EventBridge event bus
    #[arg(long, value_name = "ARN", value_parser = resource, conflicts_with = "file")]
    pub resource: Option<ResourceArgument>,

    /// Message group of a FIFO queue or topic
    #[arg(long, value_name = "TEXT", requires = "resource", conflicts_with_all = ["endpoint", "message_group_path"])]
    pub message_group_id: Option<String>,

    /// Where the message group stands in the event, as in data.customer
    #[arg(long, value_name = "PATH", requires = "resource", conflicts_with = "endpoint")]
    pub message_group_path: Option<String>,

    /// Partition key of a Kinesis stream's records (default: the event's id)
    #[arg(long, value_name = "TEXT", requires = "resource", conflicts_with_all = ["endpoint", "partition_key_path"])]
    pub partition_key: Option<String>,

    /// Where the partition key stands in the event
    #[arg(long, value_name = "PATH", requires = "resource", conflicts_with = "endpoint")]
    pub partition_key_path: Option<String>,

    /// Schema in which events are delivered: EventGridSchema, CloudEventSchemaV1_0, CustomInputSchema
    #[arg(long, value_name = "SCHEMA", conflicts_with = "file")]
    pub delivery_schema: Option<String>,

    /// What can be changed later, too.
    #[command(flatten)]
    pub settings: SettingFlags,
}

/// Flags for what can be changed of an event subscription later, too.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingFlags {
    /// Only events of these types
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', conflicts_with = "file")]
    pub included_event_types: Vec<String>,

    /// Only events whose subject begins with this
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub subject_begins_with: Option<String>,

    /// Only events whose subject ends with this
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub subject_ends_with: Option<String>,

    /// An advanced filter as JSON; may be given several times:
    /// '{"operatorType":"StringIn","key":"data.k","values":["a"]}'
    #[arg(long = "advanced-filter", value_name = "JSON", value_parser = json_value, conflicts_with = "file")]
    pub advanced_filters: Vec<Value>,

    /// Header on every request; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "file")]
    pub headers: Vec<(String, String)>,

    /// Header whose value no read shows
    #[arg(long = "secret-header", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "file")]
    pub secret_headers: Vec<(String, String)>,

    /// Header with the value at a path of the event
    #[arg(long = "dynamic-header", value_name = "NAME=PATH", value_parser = pair, conflicts_with = "file")]
    pub dynamic_headers: Vec<(String, String)>,

    /// Sign requests by Standard Webhooks
    #[arg(long, conflicts_with = "file")]
    pub sign: bool,

    /// How requests to a webhook are authenticated.
    #[command(flatten)]
    pub authentication: AuthenticationFlags,

    /// Delivery attempts before the event is dead-lettered or dropped, 1 to 30
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u32>(..), conflicts_with = "file")]
    pub max_attempts: Option<u32>,

    /// Event time-to-live, 1 minute to 24 hours: 30m, 24h
    #[arg(long, value_name = "TIME", value_parser = whole_minutes, conflicts_with = "file")]
    pub ttl: Option<u32>,

    /// What a probation for 401, 403 or a 404 that is not retried does to new events: EventGrid ends
    /// them at once, Delay has them wait
    #[arg(long, value_name = "POLICY", value_parser = ["EventGrid", "Delay"], conflicts_with = "file")]
    pub probation_policy: Option<String>,

    /// S3 bucket for events that could not be delivered
    #[arg(long, value_name = "BUCKET", conflicts_with = "file")]
    pub dead_letter_bucket: Option<String>,

    /// What the names of dead-letter objects begin with
    #[arg(long, value_name = "TEXT", requires = "dead_letter_bucket", conflicts_with = "file")]
    pub dead_letter_prefix: Option<String>,

    /// Events in one request at most, 1 to 5000
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u32>(..), conflicts_with = "file")]
    pub max_events_per_batch: Option<u32>,

    /// Preferred size of a batch in kilobytes, 1 to 1024
    #[arg(long, value_name = "KILOBYTES", value_parser = count_in::<u32>(..), conflicts_with = "file")]
    pub preferred_batch_kb: Option<u32>,

    /// What happens to a webhook's batch that is refused: Whole ends all of its events, Bisect splits
    /// it until the bad ones stand alone
    #[arg(long, value_name = "WHAT", value_parser = ["Whole", "Bisect"], conflicts_with = "file")]
    pub on_batch_failure: Option<String>,

    /// Whether the webhook's answers may name events of a batch that are to be sent again, or to end
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true",
        conflicts_with = "file")]
    pub partial_results: Option<bool>,
}

impl SettingFlags {
    /// Whether they set a limit of the retry policy, whose names depend on the topic.
    pub fn have_limits(&self) -> bool {
        self.max_attempts.is_some() || self.ttl.is_some()
    }

    /// The headers, as delivery attributes.
    pub fn attributes(&self) -> Vec<Value> {
        let fixed = |pairs: &[(String, String)], is_secret: bool| -> Vec<Value> {
            let one = |(name, value): &(String, String)| {
                json!({"name": name, "type": "Static",
                    "properties": {"value": value, "isSecret": is_secret}})
            };
            pairs.iter().map(one).collect()
        };
        let dynamic = self.dynamic_headers.iter().map(|(name, path)| {
            json!({"name": name, "type": "Dynamic", "properties": {"sourceField": path}})
        });
        let mut all = fixed(&self.headers, false);
        all.extend(fixed(&self.secret_headers, true));
        all.extend(dynamic);
        all
    }

    /// The members of a filter that are given.
    pub fn filter(&self) -> Map<String, Value> {
        let (types, advanced) = (&self.included_event_types, &self.advanced_filters);
        members([
            ("includedEventTypes", (!types.is_empty()).then(|| json!(types))),
            ("subjectBeginsWith", self.subject_begins_with.as_ref().map(|text| json!(text))),
            ("subjectEndsWith", self.subject_ends_with.as_ref().map(|text| json!(text))),
            ("advancedFilters", (!advanced.is_empty()).then(|| json!(advanced))),
        ])
    }

    /// The settings of batches that are given.
    pub fn batching(&self) -> Map<String, Value> {
        members([
            ("maxEventsPerBatch", self.max_events_per_batch.map(|count| json!(count))),
            ("preferredBatchSizeInKilobytes", self.preferred_batch_kb.map(|size| json!(size))),
            ("onBatchFailure", self.on_batch_failure.as_ref().map(|what| json!(what))),
            ("partialResults", self.partial_results.map(|on| json!(on))),
        ])
    }

    /// The members of an event subscription's properties that are given whole.
    pub fn others(&self) -> Map<String, Value> {
        members([
            ("probationPolicy", self.probation_policy.as_ref().map(|policy| json!(policy))),
            ("signing", self.sign.then(|| json!({"scheme": "StandardWebhooks"}))),
            ("deadLetterDestination", self.dead_letter_destination()),
        ])
    }

    fn dead_letter_destination(&self) -> Option<Value> {
        let bucket = members([
            ("bucketName", Some(json!(self.dead_letter_bucket.as_ref()?))),
            ("prefix", self.dead_letter_prefix.as_ref().map(|text| json!(text))),
        ]);
        Some(json!({"endpointType": "S3Bucket", "properties": bucket}))
    }
}

impl SubscriptionFlags {
    /// The document that these flags describe, for a topic with that delivery profile.
    pub fn to_document(&self, profile: ProfileName) -> Value {
        let mut properties = self.settings.others();
        let key = |fixed: &Option<String>, path: &Option<String>| {
            let path = path
                .as_ref()
                .map(|path| json!({"type": "Dynamic", "properties": {"sourceField": path}}));
            path.or_else(|| {
                Some(json!({"type": "Static", "properties": {"value": fixed.as_ref()?}}))
            })
        };
        let resource = self.resource.as_ref();
        let settings = &self.settings;
        let attributes = settings.attributes();
        let mut destination = members([
            ("resourceId", resource.map(|resource| json!(resource.arn.to_string()))),
            ("messageGroupId", key(&self.message_group_id, &self.message_group_path)),
            ("partitionKey", key(&self.partition_key, &self.partition_key_path)),
            ("endpointUrl", self.endpoint.as_ref().map(|url| json!(url))),
            ("deliveryAttributeMappings", (!attributes.is_empty()).then(|| json!(attributes))),
            ("authentication", settings.authentication.authentication()),
        ]);
        destination.append(&mut settings.batching());
        properties.insert(
            "destination".to_owned(),
            json!({
                "endpointType": resource.map_or("WebHook", |resource| resource.kind.name()),
                "properties": destination,
            }),
        );
        let filter = settings.filter();
        let retry_policy = retry_limits(profile, settings.max_attempts, settings.ttl);
        for (name, group) in [("filter", filter), ("retryPolicy", retry_policy)] {
            if !group.is_empty() {
                properties.insert(name.to_owned(), Value::Object(group));
            }
        }
        if let Some(schema) = &self.delivery_schema {
            properties.insert("eventDeliverySchema".to_owned(), json!(schema));
        }
        json!({ "properties": properties })
    }
}

/// The limits of a retry policy, as topics with that delivery profile name and write them.
pub fn retry_limits(
    profile: ProfileName,
    max_attempts: Option<u32>,
    ttl_minutes: Option<u32>,
) -> Map<String, Value> {
    let max_attempts = max_attempts.map(|count| json!(count));
    match profile {
        ProfileName::Namespace => members([
            ("maxDeliveryCount", max_attempts),
            ("eventTimeToLive", ttl_minutes.map(|ttl| json!(write_duration(ttl)))),
        ]),
        ProfileName::Basic | ProfileName::Basic2021 => members([
            ("maxDeliveryAttempts", max_attempts),
            ("eventTimeToLiveInMinutes", ttl_minutes.map(|ttl| json!(ttl))),
        ]),
    }
}

fn json_value(given: &str) -> Result<Value, String> {
    read_json(given.as_bytes())
}

/// `NAME=VALUE`. The message does not repeat the value: it may be a secret.
fn pair(given: &str) -> Result<(String, String), &'static str> {
    let (name, value) = given.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn members<const N: usize>(given: [(&str, Option<Value>); N]) -> Map<String, Value> {
    given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resources_arn_says_what_it_is() {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";
        let flags = SubscriptionFlags {
            resource: Some(resource(queue).expect("a queue")),
            message_group_path: Some("data.customer".to_owned()),
            ..SubscriptionFlags::default()
        };
        let want = json!({"endpointType": "SqsQueue", "properties": {
            "resourceId": queue,
            "messageGroupId": {"type": "Dynamic", "properties": {"sourceField": "data.customer"}},
        }});
        let document = flags.to_document(ProfileName::Basic);
        assert_eq!(document["properties"]["destination"], want);
        for (given, kind) in [
            ("arn:aws:lambda:r:123456789012:function:f:live", "LambdaFunction"),
            ("arn:aws:sns:r:123456789012:t", "SnsTopic"),
            ("arn:aws:kinesis:r:123456789012:stream/s", "KinesisStream"),
            ("arn:aws:events:r:123456789012:event-bus/b", "EventBridgeBus"),
        ] {
            assert_eq!(resource(given).map(|it| it.kind.name()), Ok(kind), "{given}");
        }
        for given in
            ["https://e", "arn:aws:s3:r:123456789012:b", "arn:aws:kinesis:r:123456789012:s"]
        {
            assert!(resource(given).is_err(), "{given}");
        }
    }

    #[test]
    fn an_endpoint_alone_leaves_all_else_to_the_server() {
        let flags = SubscriptionFlags { endpoint: Some("http://e".into()), ..Default::default() };
        let want = json!({"properties": {"destination":
            {"endpointType": "WebHook", "properties": {"endpointUrl": "http://e"}}}});
        assert_eq!(flags.to_document(ProfileName::Basic), want);
    }

    #[test]
    fn every_flag_has_its_member() {
        let flags = SubscriptionFlags {
            endpoint: Some("https://e/h".into()),
            delivery_schema: Some("CloudEventSchemaV1_0".into()),
            settings: SettingFlags {
                included_event_types: vec!["a".into(), "b".into()],
                subject_begins_with: Some("/x".into()),
                subject_ends_with: Some(".jpg".into()),
                probation_policy: None,
                max_attempts: Some(5),
                ttl: Some(30),
                dead_letter_bucket: Some("bucket".into()),
                dead_letter_prefix: Some("dead/".into()),
                max_events_per_batch: Some(10),
                preferred_batch_kb: Some(64),
                on_batch_failure: Some("Bisect".into()),
                partial_results: Some(true),
                advanced_filters: vec![json!({"operatorType": "IsNotNull", "key": "data"})],
                headers: vec![("X-A".into(), "a=b".into())],
                secret_headers: vec![("X-S".into(), "s".into())],
                dynamic_headers: vec![("X-D".into(), "data.k".into())],
                sign: true,
                authentication: AuthenticationFlags {
                    oauth_token_url: Some("https://id/token".into()),
                    ..Default::default()
                },
            },
            ..SubscriptionFlags::default()
        };
        let want = json!({"properties": {
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointUrl": "https://e/h",
                "maxEventsPerBatch": 10,
                "preferredBatchSizeInKilobytes": 64,
                "onBatchFailure": "Bisect",
                "partialResults": true,
                "authentication": {"type": "OAuth2ClientCredentials",
                    "properties": {"tokenUrl": "https://id/token"}},
                "deliveryAttributeMappings": [
                    {"name": "X-A", "type": "Static",
                        "properties": {"value": "a=b", "isSecret": false}},
                    {"name": "X-S", "type": "Static", "properties": {"value": "s", "isSecret": true}},
                    {"name": "X-D", "type": "Dynamic", "properties": {"sourceField": "data.k"}},
                ],
            }},
            "signing": {"scheme": "StandardWebhooks"},
            "filter": {
                "advancedFilters": [{"operatorType": "IsNotNull", "key": "data"}],
                "includedEventTypes": ["a", "b"],
                "subjectBeginsWith": "/x",
                "subjectEndsWith": ".jpg",
            },
            "retryPolicy": {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 30},
            "eventDeliverySchema": "CloudEventSchemaV1_0",
            "deadLetterDestination": {"endpointType": "S3Bucket", "properties":
                {"bucketName": "bucket", "prefix": "dead/"}},
        }});
        assert_eq!(flags.to_document(ProfileName::Basic), want);
    }

    #[test]
    fn limits_are_named_as_the_topic_names_them() {
        let limits = |profile| Value::Object(retry_limits(profile, Some(5), Some(90)));
        let basic = json!({"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 90});
        assert_eq!(limits(ProfileName::Basic2021), basic);
        let namespace = json!({"maxDeliveryCount": 5, "eventTimeToLive": "PT1H30M"});
        assert_eq!(limits(ProfileName::Namespace), namespace);
    }
}
