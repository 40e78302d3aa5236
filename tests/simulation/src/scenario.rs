//! What is to happen in a world. [`mixed`] makes one from a seed.

mod changes;
mod resources;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    ops::Range,
    time::Duration,
};

use gridpost_core::{
    event::DeliverySchema,
    publish::{fan_out::PIECE_DELIVERIES_MAX, pack::HEADROOM_BYTES},
    retry::{
        health::ProbationPolicy,
        outcome::Outcome,
        policy::{RetryPolicy, StatusRules},
        profile::{ProfileName, Rule},
    },
    secret::Secret,
    subscription::{
        Batching, DeadLetterDestination, Endpoint, EventSubscription, Filter, ProvisioningState,
        SubscriptionKey,
    },
    time::Timestamp,
    topic::{InputSchema, Kind, Topic},
};
use gridpost_ports::Dice;
use uuid::Uuid;

pub use self::changes::{CHANGING, Change, Changed, Changing};
use gridpost_testkit::{
    clock::BEGINNING,
    dice::SeededDice,
    endpoint::{Reaction, Script},
    faults::Plan,
    queue::QueueSettings,
};

/// A world to be.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Topics with their event subscriptions.
    pub topics: Vec<(Topic, Vec<EventSubscription>)>,
    /// How their endpoints behave; those not named always succeed.
    pub scripts: BTreeMap<SubscriptionKey, Script>,
    /// What is published.
    pub publishes: Vec<Publish>,
    /// Event subscriptions that are deleted, and when.
    pub deletions: Vec<(Timestamp, SubscriptionKey)>,
    /// What else is changed while events flow.
    pub changes: Vec<Change>,
    /// Endpoints that must consent anew.
    pub consents: Vec<Consent>,
    /// Buckets that do not exist.
    pub missing_buckets: BTreeSet<String>,
    /// When buckets refuse.
    pub bucket_refuses: Vec<Range<Timestamp>>,
    /// What goes wrong.
    pub plan: Plan,
    /// The queues.
    pub queues: QueueSettings,
    /// Above so many in flight, long waits are parked.
    pub retry_in_flight_limit: u64,
    /// Publishes with more deliveries are stored and expanded from the fan-out queue.
    pub inline_fan_out: usize,
    /// Most deliveries that are expanded at once.
    pub piece_deliveries_max: usize,
    /// Most invocations at the same time, for each queue.
    pub concurrency: usize,
    /// How often a fresh copy of a function is started though an idle one exists.
    pub cold_starts: f64,
    /// Whether waits have jitter.
    pub jitter: bool,
}

/// The events of one publish.
#[derive(Clone, Debug)]
pub struct Publish {
    /// When.
    pub at: Timestamp,
    /// To whom.
    pub to: SubscriptionKey,
    /// The bytes of each event's data.
    pub events: Vec<usize>,
}

/// A change of an event subscription to which its endpoint does not consent at once.
#[derive(Clone, Debug)]
pub struct Consent {
    /// Whose.
    pub of: SubscriptionKey,
    /// When it is asked.
    pub asked_at: Timestamp,
    /// When it consents, in time; `None`: never.
    pub given_at: Option<Timestamp>,
}

/// ingest's timeout, as deployed.
pub const INGEST_TIMEOUT: Duration = Duration::from_secs(29);

/// dispatch's timeout, as deployed.
pub const DISPATCH_TIMEOUT: Duration = Duration::from_secs(210);

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
            publishes: Vec::new(),
            deletions: Vec::new(),
            changes: Vec::new(),
            consents: Vec::new(),
            missing_buckets: BTreeSet::new(),
            bucket_refuses: Vec::new(),
            plan: Plan { latency_max: Duration::from_millis(20), ..Plan::default() },
            queues: QueueSettings {
                retry_shards: 4,
                visibility: DISPATCH_TIMEOUT + Duration::from_secs(30),
                keeps_log: false,
                ..QueueSettings::CALM
            },
            retry_in_flight_limit: 60_000,
            inline_fan_out: 10_000,
            piece_deliveries_max: PIECE_DELIVERIES_MAX,
            concurrency: 10,
            cold_starts: 0.0,
            jitter: false,
        }
    }
}

impl Scenario {
    /// Adds a topic of that profile with one event subscription, `s`, that `set` may change.
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

    /// Gives a topic so many event subscriptions like its first: `s0`, `s1` and so on. Dead letters do
    /// not tell them apart.
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

    /// Publishes one event to subscription `s` of a topic, so many milliseconds after the beginning.
    #[must_use]
    pub fn publish(mut self, topic: &str, at_ms: u64, events: &[usize]) -> Self {
        let at = BEGINNING + Duration::from_millis(at_ms);
        self.publishes.push(Publish { at, to: key(topic), events: events.to_vec() });
        self
    }

    /// Asks the endpoint of subscription `s` of a topic for its consent, and has it given, at those
    /// seconds after the beginning.
    #[must_use]
    pub fn ask(mut self, topic: &str, asked_at_s: u64, given_at_s: Option<u64>) -> Self {
        let at = |seconds| BEGINNING + Duration::from_secs(seconds);
        let (asked_at, given_at) = (at(asked_at_s), given_at_s.map(at));
        self.consents.push(Consent { of: key(topic), asked_at, given_at });
        self
    }
}

fn key(topic: &str) -> SubscriptionKey {
    SubscriptionKey { topic: topic.to_owned(), name: "s".to_owned() }
}

fn topic(name: &str, profile: ProfileName) -> Topic {
    Topic {
        name: name.to_owned(),
        kind: Kind::Custom,
        input_schema: InputSchema::EventGridSchema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: profile,
        keys: [Secret::new("a"), Secret::new("b")],
        etag: uuid::Uuid::nil(),
        created_at: BEGINNING,
        revision: 0,
    }
}

fn subscription(topic: &str, profile: ProfileName, number: u128) -> EventSubscription {
    EventSubscription {
        key: key(topic),
        uid: Uuid::from_u128(number),
        endpoint: Endpoint::WebHook { url: Secret::new(format!("https://{topic}.example/hook")) },
        endpoint_uid: None,
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
        delivery_attributes: Vec::new(),
        signing: None,
    }
}

/// A world of many kinds, chosen by a seed.
pub fn mixed(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed);
    let mut scenario = Scenario { jitter: dice.chance(0.8), ..Scenario::default() };
    for number in 0..dice.number(1..5) {
        let profile = dice.choose(&[
            ProfileName::Basic,
            ProfileName::Basic,
            ProfileName::Basic2021,
            ProfileName::Namespace,
        ]);
        let name = format!("topic-{number}");
        let script = script(&dice);
        scenario = scenario.with(&name, profile, script, |subscription| {
            set_subscription(&dice, profile, subscription);
        });
        let batched = scenario.topics.last().and_then(|(_, all)| all[0].batching);
        scenario.publishes.extend(publishes(&dice, &name, batched));
        if dice.chance(0.05) {
            let at = BEGINNING + dice.millis(0..3_600_000);
            scenario.deletions.push((at, key(&name)));
        }
    }
    set_world(&dice, &mut scenario);
    set_rates(&dice, &mut scenario);
    let mut scenario = set_consents(&dice, scenario);
    resources::set(&dice, &mut scenario);
    if dice.chance(0.25) {
        scenario.inline_fan_out = dice.choose(&[0, 0, 1, 4]);
        scenario.piece_deliveries_max = dice.choose(&[1, 2, 5]);
    }
    changes::set(&dice, scenario)
}

fn set_rates(dice: &SeededDice, scenario: &mut Scenario) {
    for subscription in scenario.topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        if dice.chance(0.2) {
            subscription.allowed_rate = NonZeroU32::new(dice.choose(&[1, 2, 5, 10, 30]));
        }
    }
}

fn set_consents(dice: &SeededDice, mut scenario: Scenario) -> Scenario {
    let names: Vec<_> = scenario.topics.iter().map(|(topic, _)| topic.name.clone()).collect();
    for name in names {
        if dice.chance(0.1) {
            let asked_at_s = dice.number(0..dice.choose(&[60, 3_600]));
            let given_at_s = dice.chance(0.7).then(|| asked_at_s + dice.number(1..600));
            scenario = scenario.ask(&name, asked_at_s, given_at_s);
        }
    }
    scenario
}

fn failure(dice: &SeededDice) -> Reaction {
    let transport =
        [Outcome::SocketError, Outcome::ResolutionError, Outcome::SocketError, Outcome::TimedOut];
    match dice.number(0..12) {
        0 => Reaction::NEVER,
        1 => Reaction::failing(dice.choose(&transport[..3])),
        2 => Reaction::status(200).after(dice.millis(31_000..240_000)),
        3 => Reaction::status(dice.choose(&[401, 403, 404, 410])),
        4 => Reaction::status(dice.choose(&[400, 413, 414])),
        5 => Reaction::status(429).with_retry_after(dice.number(0..900)),
        6 => Reaction::status(503).with_retry_after(dice.number(0..200_000)),
        7 => Reaction::status(dice.choose(&[408, 504, 302, 205])),
        _ => Reaction::status(dice.choose(&[500, 500, 502, 503, 429])),
    }
    .delayed(dice.millis(0..500))
}

fn script(dice: &SeededDice) -> Option<Script> {
    let hour = 3_600;
    Some(match dice.number(0..10) {
        0 | 1 => return None,
        2 => Script::Answers(vec![failure(dice)]),
        3 => {
            let mut answers: Vec<_> = (0..dice.number(1..15)).map(|_| failure(dice)).collect();
            answers.push(Reaction::status(200));
            Script::Answers(answers)
        }
        4 | 5 => {
            let longest = dice.choose(&[60, 600, hour, 6 * hour, 24 * hour, 96 * hour]);
            let from = dice.number(0..600);
            let windows = vec![(from, from + 1 + dice.number(0..longest))];
            Script::Outage { windows, reaction: failure(dice) }
        }
        6 | 7 => Script::Flaky {
            rate: dice.choose(&[0.02, 0.2, 0.6]),
            reactions: (0..dice.number(1..4)).map(|_| failure(dice)).collect(),
        },
        8 => {
            let retry_after = dice.chance(0.5).then(|| dice.millis(0..60_000));
            Script::Limited { per_second: dice.number(1..5) as usize, retry_after }
        }
        _ if dice.chance(0.5) => {
            Script::Picky { one_in: dice.number(2..9), status: dice.choose(&[400, 413, 500, 404]) }
        }
        _ => Script::Slow {
            seconds_max: dice.choose(&[1, 40, 250]),
            status: dice.choose(&[200, 200, 500]),
        },
    })
}

fn set_subscription(dice: &SeededDice, profile: ProfileName, subscription: &mut EventSubscription) {
    let policy = &mut subscription.retry_policy;
    let (attempts_max, minutes_max) = (policy.max_attempts, policy.time_to_live_minutes);
    if dice.chance(0.5) {
        policy.max_attempts = 1 + dice.number(0..u64::from(attempts_max)) as u32;
    }
    if dice.chance(0.7) {
        let minutes = dice.choose(&[1, 5, 30, 60, 300, 1_440]);
        policy.time_to_live_minutes = minutes.min(minutes_max);
    }
    if dice.chance(0.2) {
        let life_s = policy.time_to_live_minutes * 60;
        let mut steps = BTreeSet::new();
        for _ in 0..dice.number(1..8) {
            steps.insert(1 + dice.number(0..u64::from(life_s.min(3_600))) as u32);
        }
        policy.schedule_s = Some(steps.into_iter().collect());
    }
    if dice.chance(0.2) {
        policy.status_rules = status_rules(dice);
    }
    if dice.chance(0.3) {
        subscription.batching = Some(Batching {
            max_events: dice.choose(&[1, 2, 5, 100]),
            preferred_kilobytes: dice.choose(&[1, 4, 64]),
        });
    }
    if dice.chance(0.3) {
        subscription.probation_policy = ProbationPolicy::Delay;
    }
    if dice.chance(0.3) {
        subscription.dead_letter = None;
    }
    if profile == ProfileName::Namespace || dice.chance(0.3) {
        subscription.delivery_schema = DeliverySchema::CloudEventSchemaV1_0;
    }
}

/// Rows of every kind, against the profile's and in its way.
fn status_rules(dice: &SeededDice) -> StatusRules {
    let wait = |most| Rule::Retry { min_s: dice.number(1..most) as u32 };
    let mut rules = StatusRules::default();
    rules.statuses.insert(404, Rule::End);
    rules.statuses.insert(400, wait(60));
    if dice.chance(0.5) {
        rules.statuses.insert(dice.choose(&[429, 500, 502]), Rule::End);
    }
    if dice.chance(0.3) {
        rules.statuses.insert(dice.choose(&[401, 403]), wait(600));
    }
    rules.classes.insert(5, wait(120));
    rules.outcomes.insert(Outcome::SocketError, wait(30));
    if dice.chance(0.3) {
        rules.outcomes.insert(Outcome::TimedOut, Rule::End);
    }
    rules
}

fn publishes(dice: &SeededDice, topic: &str, batched: Option<Batching>) -> Vec<Publish> {
    let spread_ms = dice.choose(&[1, 1_000, 60_000, 3_600_000]);
    let most = if batched.is_some() || dice.chance(0.2) { 12 } else { 1 };
    let count = dice.choose(if most > 1 { &[1, 3, 6] } else { &[1, 5, 12, 40] });
    let one = |_| {
        let events = (0..1 + dice.number(0..most)).map(|_| dice.number(0..600) as usize);
        let at = BEGINNING + dice.millis(0..spread_ms);
        Publish { at, to: key(topic), events: events.collect() }
    };
    (0..dice.number(1..count + 1)).map(one).collect()
}

fn set_world(dice: &SeededDice, scenario: &mut Scenario) {
    let hour_ms = 3_600_000;
    let window = |longest_ms| {
        let from = BEGINNING + dice.millis(0..2 * hour_ms);
        from..from + dice.millis(1_000..longest_ms)
    };
    let rate = |dice: &SeededDice| dice.choose(&[0.001, 0.01, 0.05]);
    if dice.chance(0.6) {
        let plan = &mut scenario.plan;
        for share in [&mut plan.fails_before, &mut plan.fails_after, &mut plan.dies] {
            if dice.chance(0.6) {
                *share = rate(dice);
            }
        }
        plan.dies /= 4.0;
        if dice.chance(0.15) {
            plan.throttled.push(window(hour_ms));
        }
        if dice.chance(0.1) {
            plan.latency_max = Duration::from_millis(500);
        }
    }
    if dice.chance(0.4) {
        scenario.queues.duplicates = rate(dice);
    }
    if dice.chance(0.3) {
        scenario.queues.late = 0.1;
    }
    if dice.chance(0.15) {
        scenario.bucket_refuses.push(window(dice.choose(&[1, 6, 24]) * hour_ms));
    }
    if dice.chance(0.05) {
        scenario.missing_buckets.insert("dead-letters".to_owned());
    }
    if dice.chance(0.15) {
        scenario.retry_in_flight_limit = dice.choose(&[0, 3]);
    }
    if dice.chance(0.1) {
        scenario.queues.in_flight_max = 30;
        scenario.retry_in_flight_limit = 5;
    }
    scenario.queues.retry_shards = dice.choose(&[1, 2, 4]);
    scenario.concurrency = dice.choose(&[2, 3, 10]);
    scenario.cold_starts = dice.choose(&[0.0, 0.1, 0.5]);
    if dice.chance(0.15) {
        // Events of 300 to 600 bytes then do not fit a message.
        scenario.queues.message_bytes_max = HEADROOM_BYTES + 800;
    }
    // Somebody else's draws must not move when this function changes.
    let _ = dice.roll();
}
