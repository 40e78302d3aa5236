//! Which event subscriptions want which of the published events.

use std::sync::Arc;

use crate::{
    event::ParsedEvent,
    subscription::{EventSubscription, ProvisioningState},
    time::Timestamp,
};

/// The events that one event subscription wants.
#[derive(Clone, Debug)]
pub struct Match {
    /// Who wants them.
    pub subscription: Arc<EventSubscription>,
    /// Their positions in the request, rising, at least one.
    pub events: Vec<usize>,
}

/// What became of the published events.
#[derive(Clone, Debug)]
pub struct Matched {
    /// Those that are wanted, by event subscription.
    pub matches: Vec<Match>,
    /// How many nobody wants.
    pub unmatched: usize,
}

/// Finds for every event subscription of the topic the events that it wants. One that has expired,
/// or whose endpoint has not been validated, wants none.
pub fn match_events(
    subscriptions: &[Arc<EventSubscription>],
    events: &[ParsedEvent<'_>],
    now: Timestamp,
) -> Matched {
    let mut matches = Vec::new();
    let mut wanted = vec![false; events.len()];
    for subscription in subscriptions.iter().filter(|subscription| is_active(subscription, now)) {
        let wants = |position: &usize| {
            let event = &events[*position];
            subscription.filter.matches(&event.event_type, &event.subject)
        };
        let positions: Vec<_> = (0..events.len()).filter(wants).collect();
        for position in &positions {
            wanted[*position] = true;
        }
        if !positions.is_empty() {
            matches.push(Match { subscription: Arc::clone(subscription), events: positions });
        }
    }
    Matched { matches, unmatched: wanted.iter().filter(|wanted| !**wanted).count() }
}

fn is_active(subscription: &EventSubscription, now: Timestamp) -> bool {
    subscription.provisioning_state == ProvisioningState::Succeeded && !subscription.is_expired(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::event_grid,
        publish::fixtures::{body, subscription},
        subscription::Filter,
    };

    #[test]
    fn every_subscription_gets_what_it_wants() {
        let now = Timestamp::from_millis(10_000);
        let (body, filter) = (body(&[("A", "x/1"), ("B", "y/2"), ("C", "x/3")]), Filter::default());
        let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
        let types = |types: &[&str]| Some(types.iter().map(|name| (*name).to_owned()).collect());
        let mut all = [
            subscription("all"),
            subscription("subject"),
            subscription("type"),
            subscription("none"),
            subscription("expired"),
            subscription("expiring"),
        ];
        all[1].filter = Filter { subject_begins_with: "X/".to_owned(), ..filter.clone() };
        all[2].filter = Filter { included_event_types: types(&["C", "Z"]), ..filter.clone() };
        all[3].filter = Filter { included_event_types: types(&["Z"]), ..filter };
        all[4].expires_at = Some(now);
        all[5].expires_at = Some(Timestamp::from_millis(10_001));
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();

        let got = |subscriptions: &[Arc<EventSubscription>]| {
            let matched = match_events(subscriptions, &events, now);
            let matches = matched.matches.into_iter();
            let matches: Vec<_> =
                matches.map(|found| (found.subscription.key.name.clone(), found.events)).collect();
            (matches, matched.unmatched)
        };
        let row = |name: &str, events: &[usize]| (name.to_owned(), events.to_vec());
        let want = vec![
            row("all", &[0, 1, 2]),
            row("subject", &[0, 2]),
            row("type", &[2]),
            row("expiring", &[0, 1, 2]),
        ];
        assert_eq!(got(&all), (want, 0));
        assert_eq!(got(&all[1..5]), (vec![row("subject", &[0, 2]), row("type", &[2])], 1));
        assert_eq!(got(&[]), (vec![], 3));
    }
}
