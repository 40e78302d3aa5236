//! Topics whose events are delivered in another schema than they are published in, events of a
//! publisher's own schema, namespace topics, SNS and FIFO resources: what was added to worlds then,
//! with dice of its own. What came after these is in [`super::streams`].

use gridpost_core::{
    event::{
        DeliverySchema,
        mapping::{Field, InputSchemaMapping},
    },
    retry::profile::ProfileName,
    subscription::{Endpoint, EventSubscription, KeySource, ResourceKind},
    topic::{InputSchema, Kind, Topic},
};
use gridpost_testkit::dice::SeededDice;

use super::{CHANGING, Scenario, TOLD, unconverted};

/// Tells these dice from those of all earlier steps.
const CONVERTED: u64 = 0xc0_4e27ed;

/// A world of many kinds, chosen by a seed, without what was added last.
pub fn converted(seed: u64) -> Scenario {
    let mut scenario = unconverted(seed);
    let dice = SeededDice::new(seed ^ CONVERTED);
    let Scenario { topics, filtered, converted, .. } = &mut scenario;
    for (topic, subscriptions) in topics {
        let (is_converted, is_namespace) = (dice.chance(0.4), dice.chance(0.4));
        if [CHANGING, TOLD].contains(&topic.name.as_str()) {
            continue;
        }
        if is_converted {
            convert(&dice, topic, subscriptions, filtered.contains_key(&topic.name));
            converted.insert(topic.name.clone());
        } else if is_namespace
            && topic.delivery_profile == ProfileName::Namespace
            && topic.input_schema == InputSchema::CloudEventSchemaV1_0
        {
            topic.kind = Kind::Namespace;
        }
        set_resource(&dice, &mut subscriptions[0]);
    }
    scenario
}

/// Gives a topic another input schema than its event subscriptions', or some of those another one
/// than its own.
fn convert(
    dice: &SeededDice,
    topic: &mut Topic,
    subscriptions: &mut [EventSubscription],
    is_filtered: bool,
) {
    // Filters ask for members that events of another form do not have.
    let is_own = dice.chance(0.6) && !is_filtered;
    topic.input_schema = match is_own {
        true => InputSchema::CustomEventSchema,
        false => InputSchema::EventGridSchema,
    };
    let to_resource = matches!(subscriptions[0].endpoint, Endpoint::Resource(_));
    topic.input_schema_mapping = is_own.then(|| mapping(dice, to_resource));
    for subscription in subscriptions {
        let other = dice.choose(&[
            DeliverySchema::CloudEventSchemaV1_0,
            DeliverySchema::EventGridSchema,
            DeliverySchema::CustomInputSchema,
        ]);
        let is_allowed = is_own || other != DeliverySchema::CustomInputSchema;
        // Dead letters of a namespace are CloudEvents.
        if is_allowed && topic.delivery_profile != ProfileName::Namespace {
            subscription.delivery_schema = other;
        }
    }
}

/// Where the members of the envelope come from: see `publisher::event`.
fn mapping(dice: &SeededDice, to_resource: bool) -> InputSchemaMapping {
    let text = |text: &str| Some(text.to_owned());
    let field = |source, default: Option<&str>| Field {
        source_field: source,
        default_value: default.map(str::to_owned),
    };
    InputSchemaMapping {
        // Where an endpoint answers for each event, ids must tell them apart.
        id: if to_resource || dice.chance(0.6) { text("id") } else { None },
        topic: if dice.chance(0.2) { text("where") } else { None },
        event_time: if dice.chance(0.5) { text("at") } else { None },
        event_type: match dice.number(0..4) {
            0 => Field::default(),
            1 => field(None, Some("of.all")),
            2 => field(text("kind"), None),
            _ => field(text("missing"), Some("a \"default\"\u{e4}")),
        },
        subject: field(text("whose"), None),
        data_version: match dice.number(0..3) {
            0 => Field::default(),
            1 => field(text("version"), None),
            _ => field(text("missing"), Some("7")),
        },
    }
}

/// Makes some queues SNS topics, and some of both FIFO.
fn set_resource(dice: &SeededDice, subscription: &mut EventSubscription) {
    let (is_topic, is_fifo, by_event) = (dice.chance(0.4), dice.chance(0.4), dice.chance(0.5));
    let Endpoint::Resource(resource) = &mut subscription.endpoint else { return };
    if resource.kind != ResourceKind::SqsQueue {
        return;
    }
    let (kind, service) = match is_topic {
        true => (ResourceKind::SnsTopic, "sns"),
        false => (ResourceKind::SqsQueue, "sqs"),
    };
    let end = if is_fifo { ".fifo" } else { "" };
    let arn = format!("arn:aws:{service}:r:123456789012:{}{end}", subscription.key.topic);
    (resource.kind, resource.arn) = (kind, arn.parse().expect("an ARN"));
    let of_event = KeySource::Dynamic { source_field: "id".to_owned() };
    let of_all = KeySource::Static { value: "all".to_owned() };
    resource.message_group_id = is_fifo.then_some(if by_event { of_event } else { of_all });
}
