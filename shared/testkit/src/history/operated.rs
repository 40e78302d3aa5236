//! The effects of operators' actions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use gridpost_core::{
    delivery::{
        Delivery,
        redrive::Job,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::EndReason,
    subscription::{Endpoint, EventSubscription, Pauses},
    time::Timestamp,
};
use uuid::Uuid;

use super::{Held, History, SubscriptionLife, TWO_WAKES};

/// Everything that operators did in one fixture.
#[derive(Debug, Default)]
pub struct Operated {
    /// When they wrote the health of an endpoint, by its uid.
    pub resets: BTreeMap<Uuid, Vec<Timestamp>>,
    /// When a waiting delivery was made due at once.
    pub hurried: BTreeMap<Uuid, Vec<Timestamp>>,
    /// When a waiting delivery was made due at once, whatever its endpoint's health.
    pub resent: BTreeMap<Uuid, Vec<Timestamp>>,
    /// When the end of a waiting delivery was decided.
    pub canceled: BTreeMap<Uuid, Vec<Timestamp>>,
    /// Objects of dead letters that were deleted, and when.
    pub deleted_letters: BTreeMap<String, Timestamp>,
    /// Redrive jobs in their final state.
    pub jobs: Vec<Job>,
    /// The operations, by name and status.
    pub answers: BTreeSet<(&'static str, u16)>,
    pub at_work: Vec<Range<Timestamp>>,
}

impl Operated {
    /// Records a state that operators have written.
    pub fn note_state(&mut self, at: Timestamp, state: &DeliveryState) {
        let of_it = match state.status {
            DeliveryStatus::Waiting { .. } => {
                if state.resend.is_some() {
                    self.resent.entry(state.id).or_default().push(at);
                }
                &mut self.hurried
            }
            DeliveryStatus::Ending { reason: EndReason::CanceledByOperator, .. } => {
                &mut self.canceled
            }
            _ => return,
        };
        of_it.entry(state.id).or_default().push(at);
    }

    /// Records a message that an operator sent. If the delivery's state could not be written, only this
    /// message says that it is due.
    pub fn note_sent(&mut self, at: Timestamp, body: &str) {
        let Ok(delivery) = Delivery::decode(body) else { return };
        if delivery.due.is_some_and(|due| due <= at) && !self.canceled.contains_key(&delivery.id) {
            self.hurried.entry(delivery.id).or_default().push(at);
        }
    }
}

/// The longest delay of deliveries that leave a lot: until dispatch has heard that the pause is
/// over, and spread by the size of the lot.
const LET_GO: Duration = Duration::from_secs(75);

impl History {
    /// A pause holds a delivery.
    pub fn note_held(&mut self, at: Timestamp, delivery: Uuid) {
        let held = self.held.entry(delivery).or_default();
        if held.last().is_none_or(|last| last.gone_at.is_some()) {
            held.push(Held { at, gone_at: None });
        }
        self.trace(at, || format!("hold {delivery}"));
    }

    /// Notes that it left its lot.
    pub fn note_let_go(&mut self, at: Timestamp, delivery: Uuid) {
        let held = self.held.entry(delivery).or_default().last_mut();
        if let Some(held) = held {
            if held.gone_at.is_some() {
                self.disturb(at, delivery, TWO_WAKES);
            } else {
                held.gone_at = Some(at);
                let during = held.at..at + LET_GO;
                self.held_back.entry(delivery).or_default().push(during);
            }
        }
        self.trace(at, || format!("let go {delivery}"));
    }

    /// Records a written event subscription.
    pub fn note_written(&mut self, at: Timestamp, subscription: &EventSubscription) {
        let url = match &subscription.endpoint {
            Endpoint::WebHook { url } => url.expose().to_owned(),
            Endpoint::Resource(_) => String::new(),
        };
        let key = &subscription.key;
        let pauses = self.pauses.entry(subscription.uid).or_default();
        if pauses.last().map_or(&Pauses::default(), |(_, last)| last) != &subscription.pauses {
            pauses.push((at, subscription.pauses.clone()));
        }
        self.trace(at, || format!("configuration: {key} {} to {url}", subscription.uid));
        let life = self.lives.entry(subscription.uid).or_insert_with(|| SubscriptionLife {
            subscription: key.clone(),
            from: at,
            until: None,
            schema: subscription.delivery_schema,
            urls: Vec::new(),
            endpoints: Vec::new(),
        });
        if life.urls.last().is_none_or(|(_, last)| *last != url) {
            life.urls.push((at, url));
            life.endpoints.push(subscription.endpoint_uid());
        }
    }
}
