//! Matches published events with event subscriptions.

use std::sync::Arc;

use crate::{
    event::{ParsedEvent, mapping::InputSchemaMapping},
    subscription::{EventSubscription, ProvisioningState, filter::Filters},
    time::Timestamp,
    topic::InputSchema,
};

/// The events that one event subscription matches.
#[derive(Clone, Debug)]
pub struct Match {
    pub subscription: Arc<EventSubscription>,
    /// Positions in the request, ascending, at least one.
    pub events: Vec<usize>,
}

/// The result of matching a publish.
#[derive(Clone, Debug)]
pub struct Matched {
    /// By event subscription.
    pub matches: Vec<Match>,
    pub unmatched: usize,
}

/// A topic's event subscriptions with their compiled filters.
#[derive(Debug)]
pub struct Matcher {
    subscriptions: Vec<Arc<EventSubscription>>,
    filters: Filters,
}

impl Matcher {
    /// Compiles the filters of event subscriptions. `schema` and `mapping` are the topic's.
    pub fn new(
        schema: InputSchema,
        mapping: Option<&InputSchemaMapping>,
        subscriptions: &[Arc<EventSubscription>],
    ) -> Self {
        let filters = subscriptions.iter().map(|subscription| &subscription.filter);
        let filters = Filters::compile(schema, mapping, filters);
        Self { filters, subscriptions: subscriptions.to_vec() }
    }

    /// Finds the events that each event subscription matches unless it is expired or not validated.
    pub fn match_events(&self, events: &[ParsedEvent<'_>], now: Timestamp) -> Matched {
        let active: Vec<_> =
            self.subscriptions.iter().map(|subscription| is_active(subscription, now)).collect();
        let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); self.subscriptions.len()];
        let mut unmatched = 0;
        for (position, event) in events.iter().enumerate() {
            let mut is_wanted = false;
            self.filters.ask(event, |subscription| {
                if active[subscription] {
                    wanted[subscription].push(position);
                    is_wanted = true;
                }
            });
            unmatched += usize::from(!is_wanted);
        }
        let wanted = self.subscriptions.iter().zip(wanted);
        let matches = wanted.filter(|(_, events)| !events.is_empty());
        let matches = matches
            .map(|(subscription, events)| Match { subscription: Arc::clone(subscription), events });
        Matched { matches: matches.collect(), unmatched }
    }
}

fn is_active(subscription: &EventSubscription, now: Timestamp) -> bool {
    subscription.provisioning_state == ProvisioningState::Succeeded && !subscription.is_expired(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::event_grid,
        fixtures::{body, subscription},
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
            let matcher = Matcher::new(InputSchema::EventGridSchema, None, subscriptions);
            let matched = matcher.match_events(&events, now);
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
