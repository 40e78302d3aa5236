//! Webhooks that say something about single events of a request, and what its events have met.

use gridpost_core::{
    delivery::partial_results::{self, ResponseBody},
    retry::outcome::{Answer, Outcome},
    subscription::SubscriptionKey,
};
use serde_json::{json, value::RawValue};
use uuid::Uuid;

use super::{Endpoints, Event, Reaction, Script};
use crate::{event, history::EventOutcome};

/// Bodies that can't be understood: what follows is that all events are retried.
const GARBLED: [&str; 4] = [
    "{\"results\":[{\"id\":",
    "{\"results\":7}",
    "{\"results\":[{\"id\":\"unknown\",\"status\":\"end\"}]}",
    "{\"results\":[7]}",
];

impl Endpoints {
    /// The body of a response, if it is read.
    pub(super) fn body(
        &self,
        subscription: &SubscriptionKey,
        events: &[Event],
        reaction: Reaction,
        reads_results: bool,
    ) -> Option<ResponseBody> {
        let is_accepted =
            reaction.answer.is_some_and(|answer| answer.outcome == Outcome::Delivered);
        if !reads_results || !is_accepted {
            return None;
        }
        let whole = |text: String| Some(ResponseBody { bytes: text.into_bytes(), is_whole: true });
        let scripts = self.scripts();
        let Some(Script::Naming { rate, garbled }) = scripts.get(subscription) else {
            return whole(String::new());
        };
        if self.dice.chance(*garbled) {
            return whole(self.dice.choose(&GARBLED).to_owned());
        }
        let named = events.iter().filter(|_| self.dice.chance(*rate)).map(|event| {
            let status = self.dice.choose(&["retry", "retry", "end", "delivered", "?"]);
            json!({"id": event::id(&event.text), "source": event.source(), "status": status})
        });
        whole(json!({"results": named.collect::<Vec<_>>()}).to_string())
    }

    /// Returns the outcome of each event of a request, where deliveries may end in parts; otherwise
    /// nothing.
    pub(super) fn met_by_each(
        &self,
        subscription: &SubscriptionKey,
        reaction: Reaction,
        body: &Option<ResponseBody>,
        (events, carriers): (&[Event], &[Uuid]),
    ) -> Vec<EventOutcome> {
        if !self.in_parts.lock().expect("no panic while held").contains(subscription) {
            return Vec::new();
        }
        let unheard = Answer::without_status(Outcome::TimedOut);
        let answer = reaction.answer.unwrap_or(unheard);
        let raw: Vec<&RawValue> = events
            .iter()
            .map(|event| serde_json::from_str(&event.text).expect("an event is JSON"))
            .collect();
        let named =
            body.as_ref().and_then(|body| partial_results::read(body, answer, raw.into_iter()));
        let answers = named.unwrap_or_else(|| vec![answer; events.len()]);
        let met = events.iter().zip(carriers).zip(answers);
        met.map(|((event, delivery), answer)| EventOutcome {
            delivery: *delivery,
            event: event.id.clone(),
            answer,
        })
        .collect()
    }
}

impl Event {
    /// Its source, if it is a CloudEvent.
    fn source(&self) -> Option<String> {
        let event: serde_json::Value = serde_json::from_str(&self.text).ok()?;
        event["source"].as_str().map(str::to_owned)
    }
}
