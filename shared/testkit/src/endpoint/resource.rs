//! AWS resources: they answer for each event.

use std::time::Duration;

use async_trait::async_trait;
use gridpost_core::{
    delivery::{resource_check::Finding, resource_request::Entry},
    retry::outcome::{Answer, Outcome, RESPONSE_WAIT},
    subscription::{Resource, ResourceKind, SubscriptionKey},
};
use gridpost_ports::{Clock, ResourceClient};
use uuid::Uuid;

use super::{Endpoints, Event, Reaction, Script, events, hash_of, is_picked, said_of};
use crate::history::{EventOutcome, History, Request};

/// The result of a call.
struct Reply {
    request: usize,
    after: Duration,
    /// One answer per entry; `None` if the call is never answered.
    answers: Option<Vec<Answer>>,
}

/// The event subscription of a resource: simulated ones are named after their topic.
fn subscription_of(resource: &Resource) -> SubscriptionKey {
    let name = resource.arn.resource.rsplit([':', '/']).next().unwrap_or_default();
    let name = name.strip_suffix(".fifo").unwrap_or(name);
    SubscriptionKey { topic: name.to_owned(), name: "sub".to_owned() }
}

impl Endpoints {
    fn called(
        &self,
        in_hand: &[Uuid],
        resource: &Resource,
        entries: &[Entry],
    ) -> Result<Reply, String> {
        let subscription = subscription_of(resource);
        let now = self.clock.now();
        let carried: Result<Vec<Vec<Event>>, _> =
            entries.iter().map(|entry| events(entry.body.as_bytes())).collect();
        let carried = carried.map_err(|error| error.to_string())?;
        let is_function = resource.kind == ResourceKind::LambdaFunction;
        let entries_max = resource.kind.rules().call_entries_max as usize;
        if entries.len() > entries_max
            || !is_function && carried.iter().any(|events| events.len() != 1)
        {
            return Err("entries that its service does not take".to_owned());
        }
        wrong_members(resource, entries).map_or(Ok(()), Err)?;
        let made = attempts_made(resource, entries)?;
        let mut history = self.history.lock().expect("no panic while held");
        let all: Vec<Event> = carried.iter().flatten().map(Event::clone).collect();
        let reaction = self.react(&subscription, &all, now);
        let answers = self.answers(&subscription, &carried, reaction, is_function);
        let met = Self::met(&mut history, (&subscription, in_hand), &carried, answers.as_deref())?;
        let mut deliveries: Vec<_> = met.iter().map(|met| met.delivery).collect();
        deliveries.dedup();
        history.trace(now, || format!("call {subscription} {} {met:?}", made + 1));
        let overall = answers
            .as_ref()
            .map(|answers| (now + self.clock.pace().to_clock(reaction.after), overall(answers)));
        history.requests.push(Request {
            url: String::new(),
            subscription,
            deliveries,
            events: met.len(),
            events_bytes: all.iter().map(|event| event.text.len()).sum(),
            body_hash: hash_of(entries.iter().map(|entry| entry.body.as_bytes())),
            number: made + 1,
            began_at: now,
            answered: overall,
            heard: None,
            heard_late: None,
            met,
        });
        Ok(Reply { request: history.requests.len() - 1, after: reaction.after, answers })
    }

    /// The answer to each entry. A function answers for all of its events at once.
    fn answers(
        &self,
        subscription: &SubscriptionKey,
        carried: &[Vec<Event>],
        reaction: Reaction,
        is_function: bool,
    ) -> Option<Vec<Answer>> {
        let answer = reaction.answer?;
        let ok = Answer::of_status(200, None);
        let each = |events: &Vec<Event>| match self.scripts().get(subscription) {
            Some(Script::Partly { rate, answers }) if self.dice.chance(*rate) => {
                self.dice.choose(answers)
            }
            Some(Script::Picky { one_in, status }) if !is_function => {
                let refused = events.iter().any(|event| is_picked(event, *one_in));
                if refused { Answer::of_status(*status, None) } else { ok }
            }
            _ => answer,
        };
        Some(carried.iter().map(each).collect())
    }

    fn met(
        history: &mut History,
        (subscription, in_hand): (&SubscriptionKey, &[Uuid]),
        carried: &[Vec<Event>],
        answers: Option<&[Answer]>,
    ) -> Result<Vec<EventOutcome>, String> {
        let unheard = Answer::without_status(Outcome::TimedOut);
        let mut met = Vec::new();
        for (number, events) in carried.iter().enumerate() {
            let answer = answers.map_or(unheard, |answers| answers[number]);
            for event in events {
                let now: Vec<_> = met.iter().map(|met: &EventOutcome| met.delivery).collect();
                let said = |delivery: &Uuid| said_of(history, &now, delivery);
                let delivery = history.carrier_in(subscription, &event.id, in_hand, said);
                let delivery = delivery.ok_or("another's event")?;
                history.note_twins(subscription, &event.id, in_hand);
                if let Some(wrong) = history.wrong_with(delivery, &event.id, &event.text) {
                    return Err(wrong);
                }
                met.push(EventOutcome { delivery, event: event.id.clone(), answer });
            }
        }
        Ok(met)
    }

    fn told(&self, request: usize, answers: Vec<Answer>) -> Vec<Answer> {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.requests[request].heard = Some((now, overall(&answers)));
        history.trace(now, || format!("answers {answers:?}"));
        answers
    }
}

/// Returns the problem with members of entries that only some services take.
fn wrong_members(resource: &Resource, entries: &[Entry]) -> Option<String> {
    let is_stream = resource.kind == ResourceKind::KinesisStream;
    let is_bus = resource.kind == ResourceKind::EventBridgeBus;
    if (resource.is_fifo() || is_stream) != entries.iter().all(|entry| entry.key.is_some()) {
        return Some("entries without their message group or partition key".to_owned());
    }
    if is_bus != entries.iter().all(|entry| entry.bus.is_some()) {
        return Some("entries without the members of an event bus".to_owned());
    }
    let has_attributes = entries.iter().any(|entry| !entry.attributes.is_empty());
    ((is_stream || is_bus) && has_attributes)
        .then(|| "attributes for which its service has no place".to_owned())
}

/// How many attempts were made before, as the entries say it.
fn attempts_made(resource: &Resource, entries: &[Entry]) -> Result<u32, String> {
    let first = entries.first().ok_or("no entries")?;
    if resource.kind.rules().attributes_max == 0 {
        return Ok(first.attempts_made);
    }
    let mut found = first.attributes.iter().filter(|(name, _)| name == "aeg-delivery-count");
    let count = found.next().and_then(|(_, value)| value.expose().parse::<u32>().ok());
    match count.ok_or("no aeg-delivery-count")? {
        count if count == first.attempts_made => Ok(count),
        count => Err(format!("a count of {count}, not {}", first.attempts_made)),
    }
}

/// The answer that counts for the endpoint's health: an endpoint that accepts some entries works.
fn overall(answers: &[Answer]) -> Answer {
    let taken = answers.iter().find(|answer| answer.outcome == Outcome::Delivered);
    *taken.or(answers.first()).expect("a call has an entry")
}

#[async_trait]
impl ResourceClient for Endpoints {
    async fn check(&self, _: &Resource) -> Finding {
        Finding { outcome: Outcome::Delivered, says: String::new() }
    }

    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer> {
        self.send_by(&[], resource, entries).await
    }
}

impl Endpoints {
    /// A call of a caller that has these deliveries in hand.
    pub(crate) async fn send_by(
        &self,
        in_hand: &[Uuid],
        resource: &Resource,
        entries: Vec<Entry>,
    ) -> Vec<Answer> {
        let count = entries.len();
        let reply = match self.called(in_hand, resource, &entries) {
            Ok(reply) => reply,
            Err(strange) => {
                let mut history = self.history.lock().expect("no panic while held");
                history.violation(self.clock.now(), format!("a call with {strange}"));
                return vec![Answer::of_status(400, None); count];
            }
        };
        match reply.answers.filter(|_| reply.after < RESPONSE_WAIT) {
            Some(answers) => {
                tokio::time::sleep(reply.after).await;
                self.told(reply.request, answers)
            }
            None => {
                tokio::time::sleep(RESPONSE_WAIT).await;
                let timed_out = Answer::without_status(Outcome::TimedOut);
                {
                    let mut history = self.history.lock().expect("no panic while held");
                    history.requests[reply.request]
                        .met
                        .iter_mut()
                        .for_each(|met| met.answer = timed_out);
                }
                self.told(reply.request, vec![timed_out; count])
            }
        }
    }
}
