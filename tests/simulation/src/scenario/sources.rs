//! Worlds whose events come from services of AWS: worlds of their own, so that those of all other
//! seeds stay as they are.

use std::time::Duration;

use gridpost_core::{
    event::DeliverySchema,
    intake::{Carries, Content, Envelope, Source},
    retry::profile::ProfileName,
    subscription::{Batching, SubscriptionKey},
    time::Timestamp,
};
use gridpost_testkit::{clock::BEGINNING, dice::SeededDice, faults::Service};
use serde_json::{Value, json};

use super::{Publish, Scenario, key, seeds};

/// Tells these dice from those of other worlds.
const SOURCED: u64 = 0x50_0ced;

/// The form of a source's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Events of EventBridge.
    Bus,
    /// A bus by way of SNS.
    BusBySns,
    /// Messages of an application, by way of SNS.
    Messages,
    /// Notifications of S3, with a record for each event.
    Objects,
}

/// A message that does not have its source's form.
#[derive(Clone, Debug)]
pub struct Strange {
    pub at: Timestamp,
    pub topic: String,
}

impl Form {
    /// The source of a topic, as Terraform would set it.
    pub fn source(self, topic: &str) -> Source {
        let (envelope, carries) = match self {
            Self::Bus => (Envelope::None, Carries::EventBridge),
            Self::BusBySns => (Envelope::Sns, Carries::EventBridge),
            Self::Messages => (Envelope::Sns, Carries::Messages),
            Self::Objects => (Envelope::None, Carries::S3),
        };
        Source {
            name: format!("source-of-{topic}"),
            topic: topic.to_owned(),
            queue_arn: format!("arn:aws:sqs:eu-central-1:123456789012:{topic}"),
            source: "urn:simulation".to_owned(),
            event_type: "simulated".to_owned(),
            envelope,
            carries,
            content: Content::Auto,
            blobs: true,
        }
    }

    /// The bodies of the messages with these events, which have as many bytes of data.
    pub fn messages(self, to: &SubscriptionKey, ids: &[String], bytes: &[usize]) -> Vec<String> {
        let each = ids.iter().zip(bytes);
        match self {
            Self::Bus => each.map(|(id, bytes)| of_bus(to, id, *bytes).to_string()).collect(),
            Self::BusBySns => {
                each.map(|(id, bytes)| by_sns(to, id, &of_bus(to, id, *bytes))).collect()
            }
            Self::Messages => {
                each.map(|(id, bytes)| by_sns(to, id, &json!({ "pad": pad(*bytes) }))).collect()
            }
            Self::Objects => {
                let records: Vec<_> = ids.iter().map(|id| of_object(id)).collect();
                vec![json!({ "Records": records }).to_string()]
            }
        }
    }
}

fn pad(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn of_bus(to: &SubscriptionKey, id: &str, bytes: usize) -> Value {
    json!({
        "version": "0", "id": id, "detail-type": "simulated", "source": "simulation",
        "account": "123456789012", "time": "2026-01-01T00:00:00Z", "region": "eu-central-1",
        "resources": [to.to_string()], "detail": { "pad": pad(bytes) },
    })
}

fn by_sns(to: &SubscriptionKey, id: &str, message: &Value) -> String {
    let notification = json!({
        "Type": "Notification", "MessageId": id, "Subject": to.to_string(),
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:simulated",
        "Message": message.to_string(), "Timestamp": "2026-01-01T00:00:00.000Z",
    });
    notification.to_string()
}

fn of_object(id: &str) -> Value {
    json!({
        "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "eu-central-1",
        "eventTime": "2026-01-01T00:00:00.000Z", "eventName": "ObjectCreated:Put",
        "responseElements": { "x-amz-request-id": id, "x-amz-id-2": "host" },
        "s3": {
            "bucket": { "name": "simulated", "arn": "arn:aws:s3:::simulated" },
            "object": { "key": format!("{id}.txt"), "size": 1, "eTag": "e", "sequencer": "0A" },
        },
    })
}

/// A world with sources, chosen by a seed. All comes in the first ten minutes of an hour.
pub fn sourced(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed ^ SOURCED);
    let mut scenario = Scenario { jitter: dice.chance(0.5), ..Scenario::default() };
    scenario.queues.takes_refused = true;
    let at = || BEGINNING + Duration::from_secs(60) + dice.millis(0..480_000);
    for number in 0..dice.number(1..4) {
        let name = format!("topic-{number}");
        let form = dice.choose(&[Form::Bus, Form::BusBySns, Form::Messages, Form::Objects]);
        let schema = match form {
            // Their subjects do not name an event subscription, as those of events of blobs.
            Form::Objects => DeliverySchema::EventGridSchema,
            _ => dice
                .choose(&[DeliverySchema::EventGridSchema, DeliverySchema::CloudEventSchemaV1_0]),
        };
        let script = seeds::script(&dice);
        let batching =
            dice.chance(0.3).then_some(Batching { max_events: 3, preferred_kilobytes: 64 });
        scenario = scenario.with(&name, ProfileName::Basic, script, |subscription| {
            subscription.batching = batching;
            subscription.delivery_schema = schema;
            subscription.retry_policy.max_attempts = dice.choose(&[1, 3, 6]);
        });
        if dice.chance(0.3) {
            let further = dice.choose(&[1, 3]);
            scenario = scenario.multiplied(&name, further, |_, _| {});
        }
        for _ in 0..dice.number(1..8) {
            let events = (0..dice.number(1..9)).map(|_| dice.number(0..600) as usize).collect();
            scenario.publishes.push(Publish { at: at(), to: key(&name), events });
        }
        let strange = (0..dice.number(0..3)).map(|_| Strange { at: at(), topic: name.clone() });
        scenario.strange.extend(strange);
        scenario.sources.insert(name, form);
    }
    if dice.chance(0.7) {
        let services = [Service::Sqs, Service::DynamoDb, Service::S3];
        seeds::set_faults(&dice, &mut scenario.plan, &services);
        scenario.plan.undeleted = dice.choose(&[0.0, 0.05]);
        scenario.queues.duplicates = dice.choose(&[0.0, 0.05]);
    }
    scenario.cold_starts = dice.choose(&[0.0, 0.5]);
    if dice.chance(0.2) {
        scenario.inline_fan_out = 0;
        scenario.piece_deliveries_max = dice.choose(&[1, 2]);
    }
    scenario
}
