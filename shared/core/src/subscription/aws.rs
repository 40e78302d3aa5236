//! AWS resources as endpoints: the counterparts of the Azure resources that Event Grid delivers to.

use serde::{Deserialize, Serialize};

use super::Batching;
use crate::endpoint::arn::Arn;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr)]
pub enum ResourceKind {
    /// A Lambda function, for Azure's function.
    LambdaFunction,
    /// An SQS queue, for Azure's storage queue and Service Bus queue.
    SqsQueue,
    /// An SNS topic, for Azure's Service Bus topic.
    SnsTopic,
    /// A Kinesis data stream, for Azure's event hub.
    KinesisStream,
    /// An EventBridge event bus, for Azure's namespace topic.
    EventBridgeBus,
}

/// The properties of a kind of resource.
#[derive(Debug)]
pub struct KindRules {
    pub service: &'static str,
    /// The prefix of the last part of its ARNs.
    pub resource_prefix: &'static str,
    pub arn_form: &'static str,
    /// The IAM action for the check before an event subscription is stored.
    pub check_action: &'static str,
    pub call_entries_max: u32,
    /// The most bytes of all entries of one call, attributes included.
    pub call_bytes_max: usize,
    /// The most delivery attributes; 0 if the service has no place for them.
    pub attributes_max: usize,
    /// Whether there are FIFO variants, with message groups.
    pub has_groups: bool,
}

const MIB: usize = 1_048_576;

/// SQS messages have ten attributes at most, and four of Gridpost's describe the body. Source:
/// SQS developer guide, "Message attributes"; SNS delivers raw to SQS under the same limit.
const MESSAGE_ATTRIBUTES_MAX: usize = 6;

impl ResourceKind {
    /// All kinds, with their names in documents.
    pub const ALL: [(&'static str, Self); 5] = [
        ("EventBridgeBus", Self::EventBridgeBus),
        ("KinesisStream", Self::KinesisStream),
        ("LambdaFunction", Self::LambdaFunction),
        ("SnsTopic", Self::SnsTopic),
        ("SqsQueue", Self::SqsQueue),
    ];

    /// Finds a kind by its name in documents, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(known, kind)| known.eq_ignore_ascii_case(name).then_some(kind))
    }

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn rules(self) -> &'static KindRules {
        match self {
            // Source: Lambda API reference, `Invoke`, and developer guide, "Lambda quotas": 6 MB.
            Self::LambdaFunction => &KindRules {
                service: "lambda",
                resource_prefix: "function:",
                arn_form: "arn:aws:lambda:REGION:ACCOUNT:function:NAME, or with :ALIAS behind it",
                check_action: "lambda:InvokeFunction",
                call_entries_max: Batching::MAX_EVENTS_LIMIT,
                call_bytes_max: 6 * 1_024 * 1_024,
                attributes_max: super::attributes::ATTRIBUTES_MAX,
                has_groups: false,
            },
            // Source: SQS API reference, `SendMessageBatch`.
            Self::SqsQueue => &KindRules {
                service: "sqs",
                resource_prefix: "",
                arn_form: "arn:aws:sqs:REGION:ACCOUNT:NAME",
                check_action: "sqs:GetQueueAttributes",
                call_entries_max: 10,
                call_bytes_max: MIB,
                attributes_max: MESSAGE_ATTRIBUTES_MAX,
                has_groups: true,
            },
            // Source: SNS API reference, `PublishBatch`: 256 KiB, more where the topic says so.
            Self::SnsTopic => &KindRules {
                service: "sns",
                resource_prefix: "",
                arn_form: "arn:aws:sns:REGION:ACCOUNT:NAME",
                check_action: "sns:GetTopicAttributes",
                call_entries_max: 10,
                call_bytes_max: 262_144,
                attributes_max: MESSAGE_ATTRIBUTES_MAX,
                has_groups: true,
            },
            // Source: Kinesis API reference, `PutRecords`: 500 records, 10 MiB; 5 MiB until 2025.
            Self::KinesisStream => &KindRules {
                service: "kinesis",
                resource_prefix: "stream/",
                arn_form: "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME",
                check_action: "kinesis:DescribeStreamSummary",
                call_entries_max: 500,
                call_bytes_max: 5 * MIB,
                attributes_max: 0,
                has_groups: false,
            },
            // Source: EventBridge API reference, `PutEvents`: 10 entries; user guide, "Calculating
            // PutEvents event entry size": 256 KB together.
            Self::EventBridgeBus => &KindRules {
                service: "events",
                resource_prefix: "event-bus/",
                arn_form: "arn:aws:events:REGION:ACCOUNT:event-bus/NAME",
                check_action: "events:DescribeEventBus",
                call_entries_max: 10,
                call_bytes_max: 262_144,
                attributes_max: 0,
                has_groups: false,
            },
        }
    }

    pub fn is_of(self, arn: &Arn) -> bool {
        let rules = self.rules();
        let Some(name) = arn.resource.strip_prefix(rules.resource_prefix) else { return false };
        let colons = name.matches(':').count();
        let colons_max = usize::from(self == Self::LambdaFunction);
        arn.service == rules.service && !name.is_empty() && colons <= colons_max
    }
}

/// The source of a message group or partition key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum KeySource {
    Static {
        value: String,
    },
    /// A value of the delivered event.
    Dynamic {
        /// Names of members with dots between them, such as `data.key`.
        source_field: String,
    },
}

/// An AWS resource as an endpoint.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    pub kind: ResourceKind,
    pub arn: Arn,
    /// Required for FIFO queues and topics, optional for others.
    pub message_group_id: Option<KeySource>,
    /// Of a stream's records; `None` means the event's id.
    pub partition_key: Option<KeySource>,
}

impl Resource {
    /// Returns whether it keeps the order of a message group.
    pub fn is_fifo(&self) -> bool {
        self.kind.rules().has_groups && self.arn.resource.ends_with(".fifo")
    }

    /// Returns how many events one delivery carries, if the service decides that.
    pub fn own_batching(&self) -> Option<Batching> {
        let rules = self.kind.rules();
        let preferred = rules.call_bytes_max / 1_024;
        let preferred_kilobytes =
            u32::try_from(preferred).unwrap_or(u32::MAX).min(Batching::PREFERRED_KILOBYTES_LIMIT);
        let max_events = rules.call_entries_max;
        let own = self.kind != ResourceKind::LambdaFunction;
        own.then_some(Batching { max_events, preferred_kilobytes })
    }
}

/// The most characters of a message group. Source: SQS and SNS API references, `MessageGroupId`.
pub const GROUP_CHARS_MAX: usize = 128;

/// The most characters of a partition key. Source: Kinesis API reference, `PutRecordsRequestEntry`.
pub const PARTITION_KEY_CHARS_MAX: usize = 256;

/// Returns whether SQS, SNS and Kinesis accept a text as group or key.
pub fn is_key(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub fn is_group(text: &str) -> bool {
    is_key(text, GROUP_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_know_their_arns() {
        use ResourceKind::{EventBridgeBus, KinesisStream, LambdaFunction, SnsTopic, SqsQueue};
        let at = |service: &str, resource: &str| {
            let text = format!("arn:aws:{service}:us-east-1:123456789012:{resource}");
            text.parse::<Arn>().expect("an ARN")
        };
        let table = [
            (LambdaFunction, at("lambda", "function:f"), true),
            (LambdaFunction, at("lambda", "function:f:live"), true),
            (LambdaFunction, at("lambda", "function:f:live:x"), false),
            (LambdaFunction, at("lambda", "layer:f"), false),
            (SqsQueue, at("sqs", "q.fifo"), true),
            (SqsQueue, at("sns", "q"), false),
            (SnsTopic, at("sns", "t"), true),
            (SnsTopic, at("sns", "t:6b0e71bd-7e97-4d97-80ce-4a0994e55286"), false),
            (KinesisStream, at("kinesis", "stream/s"), true),
            (KinesisStream, at("kinesis", "stream/"), false),
            (KinesisStream, at("kinesis", "s"), false),
            (EventBridgeBus, at("events", "event-bus/b"), true),
            (EventBridgeBus, at("events", "rule/b"), false),
        ];
        for (kind, arn, want) in table {
            assert_eq!(kind.is_of(&arn), want, "{kind:?} {arn}");
        }
    }
}
