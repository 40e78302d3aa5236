//! The plan of a world. [`mixed`] makes one from a seed.

mod additions;
mod batches;
mod changes;
mod conversions;
pub(crate) mod filters;
mod operations;
mod patience;
mod pauses;
mod repeats;
mod resources;
mod restarts;
mod seeds;
mod sources;
mod speeds;
mod streams;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use gridpost_core::{
    event::DeliverySchema,
    publish::fan_out::PIECE_DELIVERIES_MAX,
    retry::{health::ProbationPolicy, policy::RetryPolicy, profile::ProfileName},
    secret::Secret,
    subscription::{
        DeadLetterDestination, Endpoint, EventSubscription, Filter, Pauses, ProvisioningState,
        SubscriptionKey,
    },
    time::Timestamp,
    topic::{Idempotency, InputSchema, Kind, Topic},
};
use uuid::Uuid;

pub use self::changes::{CHANGING, Change, Changed, Changing};
pub use self::{
    additions::unconverted,
    batches::batched,
    conversions::converted,
    filters::Filtered,
    operations::{Operate, Operation, TOLD},
    patience::mixed,
    pauses::paused,
    repeats::repeated,
    restarts::{killed, restarted},
    seeds::plain,
    sources::{Form, Strange, sourced},
    speeds::fast,
    streams::streamed,
};
use crate::lambda::{Readings, Wakes};

use gridpost_testkit::{
    clock::BEGINNING, dice::SeededDice, endpoint::Script, faults::Limits, faults::Plan,
    queue::QueueSettings,
};

/// The plan of a world.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub topics: Vec<(Topic, Vec<EventSubscription>)>,
    /// How their endpoints behave; those not named always succeed.
    pub scripts: BTreeMap<SubscriptionKey, Script>,
    /// Topics whose event subscriptions have filters, and what is published to them.
    pub filtered: BTreeMap<String, Filtered>,
    /// Topics whose events are delivered in another schema than they are published in.
    pub converted: BTreeSet<String>,
    pub publishes: Vec<Publish>,
    /// Topics that heed keys; what is published to them has one.
    pub keyed: BTreeSet<String>,
    /// Topics whose events come from a source of AWS, and the form of its messages.
    pub sources: BTreeMap<String, Form>,
    /// Messages on the queues of sources that do not have their form.
    pub strange: Vec<Strange>,
    /// Event subscriptions that are deleted, and when.
    pub deletions: Vec<(Timestamp, SubscriptionKey)>,
    /// Other changes while events flow.
    pub changes: Vec<Change>,
    pub consents: Vec<Consent>,
    pub operations: Vec<Operation>,
    /// The topic for dead-letter events, if any.
    pub told: Option<String>,
    pub missing_buckets: BTreeSet<String>,
    pub bucket_refuses: Vec<Range<Timestamp>>,
    pub plan: Plan,
    pub queues: QueueSettings,
    /// The number in flight above which long waits are parked.
    pub retry_in_flight_limit: u64,
    /// Publishes with more deliveries are stored and expanded from the fan-out queue.
    pub inline_fan_out: usize,
    /// Most deliveries that are expanded at once.
    pub piece_deliveries_max: usize,
    /// How Lambda reads the queues.
    pub readings: Readings,
    /// How wake's schedule keeps time; `None`: to the second.
    pub wakes: Option<Wakes>,
    /// Most parked deliveries of one page that wake reads.
    pub parked_page_max: usize,
    /// Times from which new messages use another number of retry queues; the other queues are
    /// emptied.
    pub retry_shards_from: Vec<(Timestamp, usize)>,
    /// Times from which new copies have other settings; the queues' limits stay.
    pub settings_from: Vec<(Timestamp, Settings)>,
    /// How often a fresh copy of a function is started though an idle one exists.
    pub cold_starts: f64,
    /// Whether Lambda takes the idle copy that was used last, or any.
    pub last_used_first: bool,
    /// The differences of clocks, and delays outside of ports.
    pub pace: Pace,
    /// When the process of one machine is killed and started again.
    pub restarts: Vec<Timestamp>,
    /// How many times faster than real time the clock of the process runs.
    pub speed: u32,
    pub jitter: bool,
    /// How long an event of a healthy endpoint may wait for its first attempt; `None`: it is not promised.
    pub first_attempt_within: Option<Duration>,
    /// Whether the journal is asked in the end; its lines take time to write.
    pub asks_journal: bool,
}

/// Settings of a deployment that its operator may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number in flight above which long waits are parked.
    pub retry_in_flight_limit: u64,
    /// The largest message that functions send, in bytes.
    pub message_bytes_max: usize,
}

/// Machines whose clocks differ or that stall, and connections that take time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The most that a copy's clock is ahead or behind.
    pub skew_max: Duration,
    /// The longest time to connect to an endpoint.
    pub dial_max: Duration,
    /// How often an invocation stalls once, between two of its steps.
    pub stalls: f64,
    pub stall_max: Duration,
}

impl Pace {
    /// How much a time that a copy records may differ from the world's.
    pub fn tolerance(&self) -> Duration {
        self.skew_max * 2 + self.dial_max
    }

    /// How much later prompt events may be.
    pub fn lateness(&self) -> Duration {
        let stall = if self.stalls > 0.0 { self.stall_max } else { Duration::ZERO };
        self.tolerance() + stall * 2
    }
}

/// The events of one publish.
#[derive(Clone, Debug)]
pub struct Publish {
    pub at: Timestamp,
    pub to: SubscriptionKey,
    /// The bytes of each event's data.
    pub events: Vec<usize>,
}

/// A change of an event subscription to which its endpoint does not consent at once.
#[derive(Clone, Debug)]
pub struct Consent {
    pub of: SubscriptionKey,
    pub asked_at: Timestamp,
    /// When it consents, in time; `None`: never.
    pub given_at: Option<Timestamp>,
}

/// Timeout of ingest and of expand, as deployed.
pub const INGEST_TIMEOUT: Duration = Duration::from_secs(29);

/// dispatch's timeout, as deployed.
pub const DISPATCH_TIMEOUT: Duration = Duration::from_secs(210);

/// Timeout of dead-letter and of redrive, as deployed.
pub const DEAD_LETTER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long dead letters wait for others, as deployed, in seconds.
pub const DEAD_LETTER_DELAY_S: u32 = 300;

/// When ended events are dropped because their destination refuses, as deployed.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(4 * 60 * 60);

impl Default for Scenario {
    /// A calm world with nothing in it: no faults, no duplicates, no jitter.
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            scripts: BTreeMap::new(),
            filtered: BTreeMap::new(),
            converted: BTreeSet::new(),
            publishes: Vec::new(),
            keyed: BTreeSet::new(),
            sources: BTreeMap::new(),
            strange: Vec::new(),
            deletions: Vec::new(),
            changes: Vec::new(),
            consents: Vec::new(),
            operations: Vec::new(),
            told: None,
            missing_buckets: BTreeSet::new(),
            bucket_refuses: Vec::new(),
            plan: Plan {
                latency_max: Duration::from_millis(20),
                partition: Some(Limits::DYNAMODB),
                ..Plan::default()
            },
            queues: QueueSettings {
                retry_shards: 4,
                visibility: DISPATCH_TIMEOUT + Duration::from_secs(30),
                keeps_log: false,
                ..QueueSettings::CALM
            },
            retry_in_flight_limit: 60_000,
            inline_fan_out: 10_000,
            piece_deliveries_max: PIECE_DELIVERIES_MAX,
            readings: Readings::of(10),
            wakes: None,
            parked_page_max: 20,
            retry_shards_from: Vec::new(),
            settings_from: Vec::new(),
            cold_starts: 0.0,
            last_used_first: false,
            pace: Pace::default(),
            restarts: Vec::new(),
            speed: 1,
            jitter: false,
            first_attempt_within: None,
            asks_journal: true,
        }
    }
}

impl Scenario {
    /// Adds a topic of that profile with one event subscription, `sub`, that `set` may change.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        profile: ProfileName,
        script: Option<Script>,
        set: impl FnOnce(&mut EventSubscription),
    ) -> Self {
        let mut subscription = subscription(name, profile, self.topics.len() as u128 + 1);
        set(&mut subscription);
        if let Some(script) = script {
            self.scripts.insert(subscription.key.clone(), script);
        }
        let mut topic = topic(name, profile);
        // Events are delivered as they were published.
        topic.input_schema = match subscription.delivery_schema {
            DeliverySchema::EventGridSchema => InputSchema::EventGridSchema,
            DeliverySchema::CloudEventSchemaV1_0 => InputSchema::CloudEventSchemaV1_0,
            DeliverySchema::CustomInputSchema => InputSchema::CustomEventSchema,
        };
        self.topics.push((topic, vec![subscription]));
        self
    }

    /// Gives a topic so many event subscriptions like its first: `s0`, `s1` and so on.
    #[must_use]
    pub fn multiplied(
        mut self,
        topic: &str,
        by: usize,
        set: impl Fn(usize, &mut EventSubscription),
    ) -> Self {
        let (_, subscriptions) =
            self.topics.iter_mut().find(|(found, _)| found.name == topic).expect("its topic");
        let first = subscriptions[0].clone();
        let further = |number| {
            let mut further = first.clone();
            further.key.name = format!("s{number}");
            further.uid = Uuid::from_u128(first.uid.as_u128() << 64 | (number as u128 + 1));
            set(number, &mut further);
            further
        };
        subscriptions.extend((0..by).map(further));
        self
    }

    /// Publishes one event to subscription `sub` of a topic, so many milliseconds after the beginning.
    #[must_use]
    pub fn publish(mut self, topic: &str, at_ms: u64, events: &[usize]) -> Self {
        let at = BEGINNING + Duration::from_millis(at_ms);
        self.publishes.push(Publish { at, to: key(topic), events: events.to_vec() });
        self
    }

    /// Makes all topics heed keys for a day, and all publishers send some.
    #[must_use]
    pub fn with_keys(mut self) -> Self {
        for (topic, _) in &mut self.topics {
            topic.idempotency = Some(Idempotency { window_in_seconds: 86_400 });
            self.keyed.insert(topic.name.clone());
        }
        self
    }

    /// Asks the endpoint of subscription `sub` of a topic for its consent, and has it given, at those
    /// seconds after the beginning.
    #[must_use]
    pub fn ask(mut self, topic: &str, asked_at_s: u64, given_at_s: Option<u64>) -> Self {
        let at = |seconds| BEGINNING + Duration::from_secs(seconds);
        let (asked_at, given_at) = (at(asked_at_s), given_at_s.map(at));
        self.consents.push(Consent { of: key(topic), asked_at, given_at });
        self
    }
}

/// The key of subscription `sub` of a topic. (manage knows no shorter names.)
pub fn key(topic: &str) -> SubscriptionKey {
    SubscriptionKey { topic: topic.to_owned(), name: "sub".to_owned() }
}

fn topic(name: &str, profile: ProfileName) -> Topic {
    Topic {
        name: name.to_owned(),
        kind: Kind::Custom,
        input_schema: InputSchema::EventGridSchema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: profile,
        idempotency: None,
        etag: uuid::Uuid::nil(),
        created_at: BEGINNING,
        revision: 0,
        changes: Default::default(),
    }
}

fn subscription(topic: &str, profile: ProfileName, number: u128) -> EventSubscription {
    EventSubscription {
        key: key(topic),
        uid: Uuid::from_u128(number),
        endpoint_uid: None,
        endpoint: Endpoint::WebHook { url: Secret::new(format!("https://{topic}.example/hook")) },
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::EventGridSchema,
        retry_policy: RetryPolicy::default_of(profile),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: Some(DeadLetterDestination {
            bucket: "dead-letters".to_owned(),
            prefix: String::new(),
        }),
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: None,
        etag: uuid::Uuid::nil(),
        created_at: BEGINNING,
        modified_at: BEGINNING,
        delivery_attributes: Vec::new(),
        signing: None,
        pauses: Pauses::default(),
        authentication: None,
        batch_failure: gridpost_core::subscription::BatchFailure::default(),
    }
}
