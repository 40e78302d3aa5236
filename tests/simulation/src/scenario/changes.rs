//! Event subscriptions that come, change and go while events flow.

use std::time::Duration;

use gridpost_core::{
    retry::profile::ProfileName,
    secret::Secret,
    subscription::{
        DeliveryAttribute, Endpoint, EventSubscription, SubscriptionKey, attributes::AttributeValue,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{Publish, Scenario, subscription};
use gridpost_testkit::{clock::BEGINNING, dice::SeededDice, endpoint::GENERATION};

/// A change of the configuration.
#[derive(Clone, Debug)]
pub struct Change {
    pub at: Timestamp,
    pub what: Changed,
}

/// The value that a change writes.
#[derive(Clone, Debug)]
pub enum Changed {
    /// An event subscription, in the place of the one of that name.
    Written(Box<EventSubscription>),
    /// Deletes it, if it is there.
    Deleted(SubscriptionKey),
    /// The topic is deleted with all event subscriptions, and created again with these.
    CreatedAgain(String, Vec<EventSubscription>),
}

/// The topic whose event subscriptions change.
pub const CHANGING: &str = "changing";

/// How a world's configuration changes.
#[derive(Clone, Copy, Debug)]
pub struct Changing {
    /// Event subscriptions that are created, changed, deleted and created again, beside one that stays.
    pub subscriptions: u32,
    /// For how long events are published.
    pub lasts: Duration,
    /// Events in a second; each is for one of them and for the one that stays.
    pub per_second: u32,
}

/// One of the event subscriptions that change: which one, how often it was created before, and how
/// often it was changed since.
fn one(number: u32, created: u32, changed: u32) -> EventSubscription {
    let uid = 1 << 100 | u128::from(number) << 32 | u128::from(created + 1);
    let mut one = subscription(CHANGING, ProfileName::Basic, uid);
    one.key.name = format!("c{number}");
    one.filter.subject_ends_with = format!("/c{number}");
    // The retry policies of all creations are the same: the checker knows event subscriptions by name.
    set_generation(&mut one, &format!("c{number}/{created}/{changed}"));
    one.endpoint_uid = (changed > 0).then(|| Uuid::from_u128(1 << 101 | uid));
    one
}

/// Gives it an endpoint whose path, query and secret header say which one it is: the last two are stored
/// apart, and endpoints refuse requests with those of another one.
fn set_generation(one: &mut EventSubscription, generation: &str) {
    let topic = &one.key.topic;
    let url = format!("https://{topic}.example/{generation}?{GENERATION}={generation}");
    one.endpoint = Endpoint::WebHook { url: Secret::new(url) };
    let value = AttributeValue::Secret { value: Secret::new(generation) };
    one.delivery_attributes = vec![DeliveryAttribute { name: GENERATION.to_owned(), value }];
}

impl Scenario {
    /// Adds a topic whose event subscription gets so many other endpoints, with other secrets, and publishes
    /// to it all the while.
    #[must_use]
    pub fn rotating(self, times: u32, every: Duration) -> Self {
        const ROTATING: &str = "rotating";
        let mut scenario =
            self.with(ROTATING, ProfileName::Basic, None, |one| set_generation(one, "0"));
        let (_, all) = scenario.topics.last().expect("it was added");
        let mut one = all[0].clone();
        for number in 1..=times {
            set_generation(&mut one, &number.to_string());
            one.endpoint_uid = Some(Uuid::from_u128(1 << 102 | u128::from(number)));
            let what = Changed::Written(Box::new(one.clone()));
            scenario.changes.push(Change { at: BEGINNING + every * number, what });
        }
        let lasts_ms = u64::try_from((every * times).as_millis()).unwrap_or(u64::MAX);
        (0..lasts_ms)
            .step_by(10)
            .fold(scenario, |scenario, at| scenario.publish(ROTATING, at, &[10]))
    }

    /// Adds a topic whose event subscriptions change, each at times of its own, and publishes to them
    /// all the while, whether they are there or not. At half of the time the topic is created again.
    #[must_use]
    pub fn changing(mut self, changing: Changing, dice: &SeededDice) -> Self {
        self = self.with(CHANGING, ProfileName::Basic, None, |_| {});
        let lasts_ms = u64::try_from(changing.lasts.as_millis()).unwrap_or(u64::MAX);
        let half = lasts_ms / 2;
        let halves = [(0, 0..half.max(1)), (1, half..lasts_ms.max(half + 1))];
        for number in 0..changing.subscriptions {
            for (creation, times) in halves.clone() {
                let mut at: Vec<_> =
                    (0..4).map(|_| BEGINNING + dice.millis(times.clone())).collect();
                at.sort_unstable();
                let key = one(number, 0, 0).key;
                let first = 2 * creation;
                let steps = [
                    Changed::Written(Box::new(one(number, first, 0))),
                    Changed::Written(Box::new(one(number, first, 1))),
                    Changed::Deleted(key),
                    Changed::Written(Box::new(one(number, first + 1, 0))),
                ];
                let steps = at.into_iter().zip(steps).map(|(at, what)| Change { at, what });
                self.changes.extend(steps);
            }
        }
        let stays = subscription(CHANGING, ProfileName::Basic, 1 << 99);
        let at = BEGINNING + Duration::from_millis(half);
        let what = Changed::CreatedAgain(CHANGING.to_owned(), vec![stays]);
        self.changes.push(Change { at, what });
        self.changes.sort_by_key(|change| change.at);
        let events = u64::from(changing.per_second) * lasts_ms / 1_000;
        for number in 0..events {
            let at = BEGINNING + Duration::from_millis(lasts_ms * number / events);
            let which = dice.number(0..u64::from(changing.subscriptions.max(1)));
            let to = SubscriptionKey { topic: CHANGING.to_owned(), name: format!("c{which}") };
            self.publishes.push(Publish { at, to, events: vec![10] });
        }
        self
    }

    /// All event subscriptions of a topic that there ever are, one for each name.
    pub(crate) fn ever(&self, topic: &str) -> Vec<EventSubscription> {
        let own = self.topics.iter().filter(|(found, _)| found.name == topic);
        let first = own.flat_map(|(_, all)| all);
        let written = self.changes.iter().flat_map(|change| match &change.what {
            Changed::Written(written) => std::slice::from_ref(&**written),
            Changed::CreatedAgain(_, all) => all.as_slice(),
            Changed::Deleted(_) => &[],
        });
        let mut all: Vec<EventSubscription> = Vec::new();
        for one in first.chain(written).filter(|one| one.key.topic == topic) {
            if all.iter().all(|known| known.key != one.key) {
                all.push(one.clone());
            }
        }
        all
    }
}

/// A few that change, in some of the worlds of [`super::mixed`].
pub(super) fn set(dice: &SeededDice, scenario: Scenario) -> Scenario {
    if !dice.chance(0.15) {
        return scenario;
    }
    let lasts = Duration::from_secs(dice.choose(&[1, 20, 60]));
    let subscriptions = dice.number(1..5) as u32;
    scenario.changing(Changing { subscriptions, lasts, per_second: 2 }, dice)
}
