//! A received delivery with everything that decisions about it need, and what SQS does with its
//! record. Data only.

use std::sync::Arc;

use gridpost_core::{
    delivery::{
        Delivery,
        plan::{Facts, Lane, SubscriptionFacts},
        queue::Queue,
        state::{AttemptRecord, DeliveryState, DeliveryStatus, Resend},
    },
    retry::{Rules, health::Admission},
    subscription::{DeadLetterDestination, EventSubscription},
    time::Timestamp,
};
use gridpost_ports::{Record, Result, configuration::Owner};

/// A received delivery, and its state if it has one.
#[derive(Clone, Debug)]
pub struct Received {
    pub record: Record,
    pub delivery: Delivery,
    pub state: Option<DeliveryState>,
}

/// A delivery with its topic, event subscription and state.
#[derive(Clone, Debug)]
pub struct LoadedDelivery {
    pub record: Record,
    /// The delivery, with the newest known attempts.
    pub delivery: Delivery,
    pub owner: Owner,
    /// Its stored status, if it has a state.
    pub status: Option<DeliveryStatus>,
    /// The revision of its stored state; 0 without one.
    pub revision: u64,
    pub past: Vec<AttemptRecord>,
    /// When the last known copy of its message comes back.
    pub copies_until: Option<Timestamp>,
    /// An operator's request for an attempt now, whatever its endpoint's health.
    pub resend: Option<Resend>,
    /// Whether an operator or another copy wrote its state meanwhile.
    pub is_contended: bool,
    /// When it took a slot of its endpoint's rate, if there is one.
    pub slot_at: Option<Timestamp>,
}

/// The action of SQS on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// SQS may delete it: its delivery has ended, or its successor is stored elsewhere.
    Delete,
    /// SQS keeps it: it is hidden until it is due, or comes back by itself.
    Keep,
}

/// A disposition, or the error of a failed call: then the record comes back by itself.
pub type Settled = Result<Disposition>;
pub type SettledRecord = (Record, Settled);

impl Received {
    /// Adds its topic and event subscription.
    pub fn of(self, owner: &Owner) -> LoadedDelivery {
        let Self { record, delivery, state } = self;
        let mut loaded = LoadedDelivery {
            record,
            delivery,
            owner: owner.clone(),
            status: None,
            revision: 0,
            past: Vec::new(),
            copies_until: None,
            resend: None,
            is_contended: false,
            slot_at: None,
        };
        if let Some(state) = &state {
            loaded.merge_state(state);
        }
        loaded
    }
}

impl LoadedDelivery {
    pub fn subscription(&self) -> &Arc<EventSubscription> {
        &self.owner.subscription
    }

    /// Whether it was received from the dispatch queue.
    pub fn is_first(&self) -> bool {
        self.record.queue == Queue::Dispatch
    }

    pub fn rules(&self) -> Rules<'_> {
        Rules {
            profile: self.owner.topic.topic.delivery_profile,
            kind: self.subscription().endpoint.kind(),
            policy: &self.subscription().retry_policy,
        }
    }

    pub fn expires_at(&self) -> Timestamp {
        self.subscription().time_to_live_ends(self.delivery.ttl_starts_at())
    }

    pub fn facts(
        &self,
        lane: Lane,
        (admission, is_slow): (Admission, bool),
        now: Timestamp,
    ) -> Facts {
        let expires_at = self.expires_at();
        Facts {
            lane,
            status: self.status,
            due: self.delivery.due,
            resend_requested: self.resend.is_some(),
            subscription: Some(SubscriptionFacts {
                expires_at,
                held_until: self.subscription().holds_until(expires_at, now),
                consent_until: self.subscription().waits_for_consent(now),
                admission,
                is_slow,
            }),
        }
    }

    pub fn state(&self, status: DeliveryStatus) -> DeliveryState {
        DeliveryState {
            id: self.delivery.id,
            subscription: self.delivery.subscription.clone(),
            subscription_uid: self.delivery.subscription_uid,
            publish_time: self.delivery.publish_time,
            redriven_at: self.delivery.redriven.map(|redriven| redriven.at),
            events: u32::try_from(self.delivery.event_count()).unwrap_or(u32::MAX),
            done: self.delivery.done.clone(),
            attempts: self.delivery.attempts.clone(),
            status,
            past: self.past.clone(),
            receipt: self.receipt(status),
            copies_until: match status {
                DeliveryStatus::Waiting { due } => self.copies_until.filter(|at| *at > due),
                _ => self.copies_until,
            },
            resend: None,
            revision: self.revision,
        }
    }

    /// The receipt of its hidden message. A delivery from the dispatch queue waits as another message,
    /// which was not received yet.
    fn receipt(&self, status: DeliveryStatus) -> Option<String> {
        let is_hidden = matches!(status, DeliveryStatus::Waiting { .. }) && !self.is_first();
        is_hidden.then(|| self.record.receipt.to_string())
    }

    /// Merges a stored state. If the last write failed, the message has more attempts and the due
    /// time: then the state's wait is over.
    pub fn merge_state(&mut self, state: &DeliveryState) {
        let is_behind = state.attempts.made < self.delivery.attempts.made
            && matches!(state.status, DeliveryStatus::Waiting { .. });
        self.status = (!is_behind).then_some(state.status);
        self.revision = state.revision;
        self.copies_until = state.last_copy_at();
        self.resend = state.resend;
        self.past.clone_from(&state.past);
        catch_up(&mut self.delivery, state);
    }

    /// Returns what this copy writes over a state that another writer has stored meanwhile, or
    /// `None` if that one holds.
    ///
    /// An operator may have requested an attempt during this one. The write still includes this
    /// attempt, or the endpoint would get one too many; the requested attempt comes next. If this
    /// attempt was the requested one, it answers the request, even if another copy's concurrent
    /// attempt was recorded first.
    pub fn state_over(
        &mut self,
        stored: &DeliveryState,
        status: DeliveryStatus,
    ) -> Option<DeliveryState> {
        self.is_contended = true;
        self.copies_until = self.copies_until.max(stored.last_copy_at());
        let is_answered = stored.resend.is_some() && stored.resend == self.resend;
        let is_behind = stored.attempts.made >= self.delivery.attempts.made;
        let is_asked = matches!(stored.status, DeliveryStatus::Waiting { .. });
        if !is_asked || (is_behind && !is_answered) {
            return None;
        }
        // Events that the other copy has delivered or ended stay done, whatever this one's attempts.
        self.delivery.done.add_all(&stored.done);
        if is_behind {
            self.add_to(stored);
        }
        if self.delivery.event_count() == 0 {
            return None;
        }
        let is_wait = matches!(status, DeliveryStatus::Waiting { .. });
        let resend = stored.resend.filter(|_| is_wait && !is_answered);
        let status = if resend.is_some() { stored.status } else { status };
        self.revision = stored.revision;
        Some(DeliveryState { status, resend, ..self.state(status) })
    }

    /// Adds its last attempt to those of a state that another copy has written.
    fn add_to(&mut self, stored: &DeliveryState) {
        let last = self.past.pop();
        self.past.clone_from(&stored.past);
        if let Some(last) = last.filter(|last| !stored.past.contains(last)) {
            last.add_to(&mut self.past);
        }
        if stored.attempts.made > self.delivery.attempts.made {
            self.delivery.attempts = stored.attempts.clone();
        }
    }

    pub fn destination(&self) -> Option<&DeadLetterDestination> {
        self.subscription().dead_letter.as_ref()
    }
}

/// Brings a delivery up to date with its state, which is newer than its message.
pub fn catch_up(delivery: &mut Delivery, state: &DeliveryState) {
    delivery.done.add_all(&state.done);
    if state.attempts.made >= delivery.attempts.made {
        delivery.attempts = state.attempts.clone();
    }
}

/// Copies records without their bodies, enough to settle them.
pub fn without_bodies<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}
