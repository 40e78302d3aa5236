//! Publishes that were repeated under a key: each has one set of deliveries, however often it was
//! repeated, and these are enqueued a second time only after a fault.

use super::Check;
use gridpost_testkit::history::KeyedPublish;

/// Checks every publish with a key.
pub(super) fn check(check: &mut Check<'_>) {
    let all: Vec<_> = check.remains.history.keyed.publishes().collect();
    for (number, publish) in all {
        one(check, number, publish);
    }
}

/// Whether expand sends it. What goes wrong there sends it again, and is no fault of a try. (How often
/// it is disturbed says nothing: to be sent once more is a disturbance itself.)
fn is_expanded(check: &Check<'_>, publish: &KeyedPublish, event: &str) -> bool {
    let of_it = (publish.to.clone(), event.to_owned());
    !check.remains.calm && check.remains.history.promised.contains(&of_it)
}

fn one(check: &mut Check<'_>, number: usize, publish: &KeyedPublish) {
    let KeyedPublish { to, events, tries, troubled } = publish;
    let accepted = &check.remains.history.accepted;
    let mut failures = Vec::new();
    for event in events {
        let carries = accepted
            .iter()
            .filter(|(_, found)| found.subscription == *to && found.events.contains(event));
        let sends: Vec<_> = carries.map(|(_, found)| found.lives_from.len()).collect();
        match sends[..] {
            [] => failures.push(format!("{event} of publish {number} to {to} was never sent")),
            // A fault in a try may send twice in it, and leave the work to the next one.
            [sent] if sent > 1 + 2 * troubled && !is_expanded(check, publish, event) => {
                failures.push(format!(
                    "{event} of publish {number} to {to} was sent {sent} times in {tries} tries, \
                     {troubled} of them with faults"
                ));
            }
            [_] => {}
            // Delivery ids depend on the hour, and a fast clock passes through many.
            _ if check.remains.speed > 1 && sends.len() <= 1 + troubled => {}
            _ => failures.push(format!(
                "{event} of publish {number} to {to} has {} deliveries after {tries} tries",
                sends.len()
            )),
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}
