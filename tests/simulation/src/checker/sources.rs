//! Messages of sources: each is taken in, or refused and kept for an operator; and it is handed over
//! again only after something went wrong.

use super::Check;
use gridpost_testkit::history::SourcedMessage;

/// Checks every message. That the events of one that was let go are carried is checked as with any
/// publish that was promised.
pub(super) fn check(check: &mut Check<'_>) {
    let all: Vec<_> = check.remains.history.sourced.messages().collect();
    for (topic, message) in &all {
        one(check, topic, message);
    }
    for refused in &check.remains.refused {
        if !all.iter().any(|(_, message)| message.body == *refused) {
            check.fail(format!("in a poison queue, and no source's message: {refused:.200}"));
        }
    }
}

fn one(check: &mut Check<'_>, topic: &str, message: &SourcedMessage) {
    let SourcedMessage { body, events, handed, troubled } = message;
    let refused = check.remains.refused.iter().filter(|refused| *refused == body).count();
    let mut failures = Vec::new();
    if *handed > 1 + troubled {
        failures.push(format!("was handed over {handed} times, {troubled} of them with faults"));
    }
    match (events.is_empty(), refused) {
        (true, 0) => failures.push("was not mapped, and is not kept".to_owned()),
        (false, 1..) => failures.push("was refused".to_owned()),
        // A send may be repeated within the call.
        _ if refused > 2 * handed => failures.push(format!("is kept {refused} times")),
        _ => {}
    }
    for event in events {
        let history = &check.remains.history;
        for (of, carriers) in history.carriers.iter().filter(|(of, _)| of.topic == topic) {
            let carries = |accepted: &&gridpost_testkit::history::Accepted| {
                accepted.subscription == *of && accepted.events.contains(event)
            };
            let deliveries = history.accepted.values().filter(carries).count();
            if carriers.contains_key(event) && deliveries > *handed {
                failures.push(format!(
                    "has {deliveries} deliveries of {event} to {of}, but was handed over {handed} \
                     times"
                ));
            }
        }
    }
    for failure in failures {
        check.fail(format!("a message of {topic} {failure}: {body:.200}"));
    }
}
