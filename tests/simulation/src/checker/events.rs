//! If an endpoint answers for each event, each of them ends once, and is not sent after that.

use gridpost_core::retry::outcome::Outcome;
use uuid::Uuid;

use super::{Check, batches, model};
use gridpost_testkit::history::{Drop, EventOutcome, Request};

/// Checks the events of one delivery to an AWS resource, or of one that may end in parts.
pub(super) fn check(check: &mut Check<'_>, delivery: Uuid, requests: &[&Request]) {
    let events = check.remains.history.accepted[&delivery].events.clone();
    for event in events {
        one(check, delivery, &event, requests);
    }
}

fn one(check: &mut Check<'_>, delivery: Uuid, event: &str, requests: &[&Request]) {
    let history = &check.remains.history;
    let subscription = &history.accepted[&delivery].subscription;
    let sent: Vec<_> =
        requests.iter().filter_map(|made| Some((*made, made.met_by(delivery, event)?))).collect();
    let is_delivered = |answer: Outcome| answer == Outcome::Delivered;
    let delivered = sent
        .iter()
        .filter(|(made, met)| made.heard.is_some() && is_delivered(met.answer.outcome))
        .count();
    let perhaps = sent
        .iter()
        .any(|(made, _)| made.answered.is_some_and(|(_, answer)| is_delivered(answer.outcome)));
    let records = check.records_of(delivery).iter().filter(|id| **id == event).count();
    let drops = check.drops_of(delivery).iter();
    // Of several events with one id, the log does not tell which was dropped.
    let (own, perhaps_own) = drops
        .filter(|drop| drop.ids.is_empty() || drop.events.iter().any(|id| id == event))
        .partition::<Vec<&&Drop>, _>(|drop| drop.ids.is_empty() || drop.is_of(event));
    let is_among = delivered == 0 && !perhaps_own.is_empty();
    let drops = own.len() + usize::from(is_among && own.is_empty());
    if delivered == 0 && records == 0 && drops == 0 && !perhaps {
        check
            .fail(format!("event {event} of {delivery} to {subscription} never ended: it is lost"));
    }
    let disturbances = check.disturbances(delivery);
    let ends = delivered + records + drops;
    if ends > 1 + disturbances || (ends == 0 && disturbances == 0) {
        check.fail(format!(
            "event {event} of {delivery}: {delivered} delivered, {records} dead letters, {drops} drops, \
             {disturbances} disturbances"
        ));
    }
    let (topic, settings) = check.owners[subscription];
    // An end that could not be recorded is unknown: what follows is as if it had not happened.
    let is_over = |(made, met): &(&Request, &EventOutcome)| {
        made.heard.is_some()
            && (is_delivered(met.answer.outcome)
                || (model::follows(topic, settings, met.answer) == model::Follows::End
                    && !batches::is_split(settings, made, met.answer.outcome)))
    };
    let before_last = &sent[..sent.len().saturating_sub(1)];
    let forgotten = before_last.iter().filter(|found| is_over(found)).count();
    if forgotten > disturbances {
        check.fail(format!(
            "event {event} of {delivery} was sent after {forgotten} ends, {disturbances} disturbances"
        ));
    }
}
