//! Batches that may end in parts: a bad event ends alone, and the others do not end with it.

use gridpost_core::{retry::outcome::Outcome, subscription::EventSubscription};
use gridpost_testkit::history::Request;
use uuid::Uuid;

use super::{Check, ends_in_parts, model, records};

/// Whether an outcome may be about what is in a request.
fn is_about_events(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::BadRequest | Outcome::PayloadTooLarge | Outcome::ServerError)
}

/// Whether an answer to a request ends none of its events, because they can be told apart.
pub(super) fn is_split(subscription: &EventSubscription, made: &Request, answer: Outcome) -> bool {
    let is_spent = made.number >= subscription.retry_policy.max_attempts;
    subscription.batch_failure.bisects && made.events > 1 && !is_spent && is_about_events(answer)
}

/// No event is refused for good by an answer that was not to it alone, as long as there are
/// attempts; none is sent more often with one number than copies of it explain.
pub(super) fn check(check: &mut Check<'_>) {
    let history = &check.remains.history;
    for (delivery, accepted) in &history.accepted {
        let (_, subscription) = check.owners[&accepted.subscription];
        if !ends_in_parts(subscription) || history.twins.contains_key(delivery) {
            continue;
        }
        for event in &accepted.events {
            one(check, subscription, *delivery, event);
        }
    }
}

fn one(check: &mut Check<'_>, subscription: &EventSubscription, delivery: Uuid, event: &str) {
    let (topic, _) = check.owners[&subscription.key];
    let requests = check.requests_of(delivery);
    let own: Vec<_> =
        requests.iter().filter_map(|made| Some((*made, made.met_by(delivery, event)?))).collect();
    for (index, (made, _)) in own.iter().enumerate() {
        let same = own[..=index].iter().filter(|(other, _)| other.number == made.number).count();
        let disturbed = check.disturbed_until(delivery, made.began_at);
        if same > 1 << disturbed.min(16) {
            let number = made.number;
            check.fail(format!(
                "event {event} of {delivery} was sent {same} times as attempt {number}, {disturbed} \
                 disturbances"
            ));
            return;
        }
    }
    let is_delivered = own.iter().any(|(_, met)| met.answer.outcome == Outcome::Delivered);
    let Some((last, met)) = own.last().filter(|_| !is_delivered) else { return };
    let ended = model::follows(topic, subscription, met.answer) == model::Follows::End
        && records::ended_by(check, delivery, event, met.answer);
    if ended && is_split(subscription, last, met.answer.outcome) && !check.is_disturbed(delivery) {
        let (others, number) = (last.events - 1, last.number);
        check.fail(format!(
            "event {event} of {delivery} ended with attempt {number}, together with {others} others"
        ));
    }
}
