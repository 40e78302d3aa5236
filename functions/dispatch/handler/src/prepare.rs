//! May this record's delivery be attempted now? If not, it is settled here.

use std::{sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{
        Delivery,
        parking::LAST_SECOND,
        queue::Queue,
        rate::Turn,
        state::{AttemptRecord, DeliveryState, DeliveryStatus},
    },
    retry::{
        self, EndReason, Rules,
        attempts::Attempts,
        health::{Admission, Asking, admit as admit_by_health},
        outcome::Outcome,
    },
    subscription::{DeadLetterDestination, EventSubscription},
    time::Timestamp,
};
use gridpost_ports::{
    PortError,
    configuration::{self, TopicSnapshot, Wanted},
};

use crate::{
    Context, health,
    payload::{self, Found},
    rate,
    record::{Fate, Record, Settled},
    settle,
};

/// A delivery in hand, with all that decisions about it need.
#[derive(Clone, Debug)]
pub struct Work {
    /// The record that carries it.
    pub record: Record,
    /// The delivery. Its attempts are the newest known.
    pub delivery: Delivery,
    /// Its topic.
    pub topic: Arc<TopicSnapshot>,
    /// Its event subscription.
    pub subscription: Arc<EventSubscription>,
    /// The revision of its stored state; 0 while it has none.
    pub revision: u64,
    /// Whether it probes an endpoint whose wait has ended.
    pub probes: bool,
    /// Its attempts one by one, as far as its state remembers them.
    pub past: Vec<AttemptRecord>,
    /// Whether somebody asked for an attempt now, whatever its endpoint's health.
    pub resend_requested: bool,
    /// When it took a slot of its endpoint's rate, where it has one already.
    pub slot_at: Option<Timestamp>,
}

impl Work {
    /// The rules it is under.
    pub fn rules(&self) -> Rules<'_> {
        Rules {
            profile: self.topic.topic.delivery_profile,
            kind: self.subscription.endpoint.kind(),
            policy: &self.subscription.retry_policy,
        }
    }

    /// When its time-to-live ends.
    pub fn expires_at(&self) -> Timestamp {
        retry::expires_at(&self.subscription.retry_policy, self.delivery.ttl_starts_at())
    }

    /// The state to write next.
    pub fn state(&self, standing: DeliveryStatus) -> DeliveryState {
        DeliveryState {
            id: self.delivery.id,
            subscription: self.delivery.subscription.clone(),
            subscription_uid: self.delivery.subscription_uid,
            publish_time: self.delivery.publish_time,
            redriven_at: self.delivery.redriven.map(|redriven| redriven.at),
            events: u32::try_from(self.delivery.event_count()).unwrap_or(u32::MAX),
            done: self.delivery.done.clone(),
            attempts: self.delivery.attempts.clone(),
            standing,
            past: self.past.clone(),
            receipt: self.receipt(standing),
            resend: None,
            revision: self.revision,
        }
    }

    /// What reaches its message while it is hidden. What comes from the dispatch queue waits as
    /// another message, which nobody has received yet.
    fn receipt(&self, standing: DeliveryStatus) -> Option<String> {
        let is_hidden = matches!(standing, DeliveryStatus::Waiting { .. })
            && matches!(self.record.queue, Queue::Retry(_));
        is_hidden.then(|| self.record.receipt.clone())
    }

    /// Takes over what a stored state knows.
    pub fn merge_state(&mut self, state: &DeliveryState) {
        self.revision = state.revision;
        self.resend_requested = state.resend.is_some();
        self.past.clone_from(&state.past);
        catch_up(&mut self.delivery, state);
    }

    /// Where its dead letter goes.
    pub fn destination(&self) -> Option<&DeadLetterDestination> {
        self.subscription.dead_letter.as_ref()
    }
}

/// Brings a delivery up to date with its state: its message is older.
fn catch_up(delivery: &mut Delivery, state: &DeliveryState) {
    delivery.done.add_all(&state.done);
    if state.attempts.made >= delivery.attempts.made {
        delivery.attempts = state.attempts.clone();
    }
}

/// What was found out.
pub enum Prepared {
    /// It may be attempted now.
    Ready(Box<Work>),
    /// It is settled.
    Settled(Fate),
}

/// Finds out whether a record's delivery may be attempted now.
///
/// # Errors
///
/// A call of ours failed; nothing was attempted and the record comes back.
pub async fn prepare(context: &Context, mut record: Record) -> Result<Prepared, PortError> {
    let mut delivery = match Delivery::decode(&record.body) {
        Ok(delivery) => delivery,
        Err(error) => return settle::poison(context, &record, &error).await.map(Prepared::Settled),
    };
    record.body = String::new();
    let state = match may_have_state(&record) {
        true => context.states.load(delivery.id).await?,
        false => None,
    };
    let standing = state.as_ref().map(|state| state.standing);
    match standing {
        Some(DeliveryStatus::Delivered) => {
            // A late success had no message in hand.
            payload::release(context, &delivery).await;
            return Ok(Prepared::Settled(Fate::Delete));
        }
        Some(DeliveryStatus::Ended) => return Ok(Prepared::Settled(Fate::Delete)),
        _ => {}
    }
    let found = find_subscription(context, &delivery, record.received_at).await?;
    let Some((topic, subscription)) = found else {
        let reason = EndReason::SubscriptionDeleted;
        if let Some(state) = &state {
            catch_up(&mut delivery, state);
        }
        return Ok(Prepared::Settled(settle::give_up(context, &delivery, state, reason).await));
    };
    let mut work = Work {
        record,
        delivery,
        topic,
        subscription,
        revision: 0,
        probes: false,
        past: Vec::new(),
        resend_requested: false,
        slot_at: None,
    };
    if let Some(state) = &state {
        work.merge_state(state);
    }
    let due = match standing {
        None => work.delivery.due,
        Some(DeliveryStatus::Waiting { due }) if work.record.queue != Queue::Dispatch => Some(due),
        // Its end was not carried out, or a crash left a first message behind whose successor may
        // never have been sent.
        Some(standing) => return settled(settle::follow(context, work, standing).await),
    };
    let early = due.map_or(Duration::ZERO, |due| due.since(context.clock.now()));
    match due {
        Some(due) if early >= LAST_SECOND => {
            return settle::wait(context, &work, due).await.map(Prepared::Settled);
        }
        // Queues count in whole seconds; the rest of the last one passes here.
        _ if !early.is_zero() => tokio::time::sleep(early).await,
        _ => {}
    }
    let now = context.clock.now();
    if now >= work.expires_at() {
        return settled(settle::end(context, work, EndReason::TimeToLiveExceeded).await);
    }
    if let Some(until) = work.subscription.waits_for_consent(now) {
        let until = until.min(work.expires_at());
        return settled(settle::wait(context, &work, until).await);
    }
    if work.resend_requested {
        return take_payload(context, work).await;
    }
    admit(context, work).await
}

/// A first receive from the dispatch queue has no state: nothing was attempted before it.
fn may_have_state(record: &Record) -> bool {
    record.queue != Queue::Dispatch || record.receive_count > 1
}

/// The event subscription of a delivery that arrived at that time, if there is one.
async fn find_subscription(
    context: &Context,
    delivery: &Delivery,
    received_at: Timestamp,
) -> Result<Option<configuration::Found>, PortError> {
    let (key, uid, revision) =
        (&delivery.subscription, delivery.subscription_uid, delivery.revision);
    context.configuration.subscription(Wanted { key, uid, revision, received_at }).await
}

/// Asks the endpoint's health. Claiming the probe is a conditional write: whoever loses asks again.
async fn admit(context: &Context, mut work: Work) -> Result<Prepared, PortError> {
    let subscription = Arc::clone(&work.subscription);
    loop {
        let now = context.clock.now();
        let known = context.healths.look(&subscription, now).await?;
        let asking = Asking {
            delivery: work.delivery.id,
            now,
            admitted: context.healths.admitted(&subscription, now),
            spread: health::spread(context, &subscription, now).await,
            dice: context.dice.roll(),
        };
        let policy = subscription.probation_policy;
        match admit_by_health(&known, work.rules(), policy, asking) {
            Admission::Attempt => {}
            Admission::Probe(claimed) => {
                // A claim whose probe then found no slot would keep the others from probing.
                if let Some(fate) = take_slot(context, &mut work).await? {
                    return Ok(Prepared::Settled(fate));
                }
                if !context.healths.write(&subscription, now, &claimed).await? {
                    continue;
                }
                work.probes = true;
            }
            Admission::Wait { until } => {
                return settled(settle::defer(context, &work, until).await);
            }
            Admission::End => {
                let attempts = &mut work.delivery.attempts;
                *attempts = Attempts { last_outcome: Some(Outcome::Probation), ..attempts.clone() };
                let reason = EndReason::UndeliverableDueToProbationCausedByClientError;
                return settled(settle::end(context, work, reason).await);
            }
        }
        context.healths.note_admitted(&subscription, now);
        return take_payload(context, work).await;
    }
}

/// Takes a slot of the endpoint's rate before the request is put together. Without one the delivery
/// is settled: it waits.
async fn take_slot(context: &Context, work: &mut Work) -> Result<Option<Fate>, PortError> {
    match rate::turn(context, &work.subscription, work.slot_at).await? {
        Turn::Go => {
            work.slot_at = work.subscription.allowed_rate.map(|_| context.clock.now());
            Ok(None)
        }
        Turn::Wait { until } => settle::defer(context, work, until).await.map(Some),
    }
}

async fn take_payload(context: &Context, mut work: Work) -> Result<Prepared, PortError> {
    // A large delivery is fetched when it may go, not each time it asks; hardly one shares a request.
    if work.delivery.is_claimed()
        && let Some(fate) = take_slot(context, &mut work).await?
    {
        return Ok(Prepared::Settled(fate));
    }
    match payload::take(context, &mut work.delivery).await? {
        Found::InHand => Ok(Prepared::Ready(Box::new(work))),
        Found::Ended => Ok(Prepared::Settled(Fate::Delete)),
        Found::Missing => {
            let state = (work.revision > 0).then(|| work.state(DeliveryStatus::Ended));
            let reason = EndReason::PayloadMissing;
            Ok(Prepared::Settled(settle::give_up(context, &work.delivery, state, reason).await))
        }
    }
}

fn settled(settled: Settled) -> Result<Prepared, PortError> {
    settled.map(Prepared::Settled)
}

#[cfg(test)]
mod tests;
