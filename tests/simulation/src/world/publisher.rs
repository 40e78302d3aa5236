//! Publishers: they publish until they are accepted.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use gridpost_core::{
    event::{DeliverySchema, custom::Stamps},
    gateway::Request,
    publish,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{InputSchema, Topic},
};
use gridpost_ports::Clock;
use http::{HeaderMap, HeaderValue, Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CONFIGURATION_KEPT_FOR, Simulation};
use crate::{
    lambda::Function,
    scenario::{
        Publish, Scenario,
        filters::{self, EventFacts},
    },
};
use gridpost_testkit::{
    faults::Instance,
    history::{Confirmed, Published},
};

/// The longest time from matching a publish's events to its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

impl Simulation {
    /// Publishes as a publisher does: again and again until it is accepted.
    pub(super) async fn publish(&self, number: usize, publish: &Publish) {
        if self.scenario.keyed.contains(&publish.to.topic) {
            return self.publish_keyed(number, publish).await;
        }
        if let Some(form) = self.scenario.sources.get(&publish.to.topic) {
            return self.send_to_source(number, publish, *form);
        }
        for try_number in 0.. {
            let id = |event| format!("e{number}-{event}-{try_number}");
            let ids: Vec<_> = (0..publish.events.len()).map(id).collect();
            if self.publish_once(publish, &ids).await {
                return;
            }
            tokio::time::sleep(self.dice.millis(500..5_000)).await;
        }
    }

    /// Whether ingest has answered 200, after which every event must be in the queue, or get there if
    /// they are too many for that.
    async fn publish_once(&self, publish: &Publish, ids: &[String]) -> bool {
        let events = self.events(publish, ids);
        self.note_published(publish, ids, &events);
        let began_at = self.clock.now();
        let answered = self.ask_ingest(&self.request(publish, &events)).await;
        let Some(response) = answered else { return false };
        match response.status().as_u16() {
            200 => self.confirm(publish, ids, began_at),
            500.. => return false,
            status => {
                self.violation(&format!(
                    "a publish was refused with {status}: {}",
                    response.body()
                ));
            }
        }
        true
    }

    /// Returns the answer of a copy of ingest; `None` if it dies.
    pub(super) async fn ask_ingest(&self, request: &Request) -> Option<Response<String>> {
        let idle = self.ingests.borrow_mut().pop();
        let (instance, context) = idle.unwrap_or_else(|| {
            let instance = self.instance(Instance::default());
            let context = self.ingest(&instance);
            (instance, Rc::new(context))
        });
        instance.take(Vec::new(), Vec::new());
        instance.hold(request.body.len());
        let began_at = self.clock.now();
        let handled = async {
            tokio::select! { biased;
                response = self.at_its_pace(gridpost_ingest::handler::handle(&context, request)) => {
                    Some(response)
                }
                () = instance.died() => None,
                () = self.injector.moment_of_death() => {
                    self.injector.kill(&instance);
                    None
                }
            }
        };
        let response = self.while_it_lives(handled).await.flatten()?;
        self.note_used(Function::Ingest, &instance, began_at);
        context.meter.flush(self.clock.now());
        self.ingests.borrow_mut().push((instance, context));
        Some(response)
    }

    /// Notes a publish that was answered 200: from here on all of it must arrive.
    pub(super) fn confirm(&self, publish: &Publish, ids: &[String], began_at: Timestamp) {
        let mut history = self.history.lock().expect("no panic while held");
        *history.confirmed.entry(publish.to.topic.clone()).or_default() += ids.len() as u64;
        history.confirmed_events.extend(ids.iter().cloned());
        let took = self.clock.now().since(began_at);
        history.slowest_publish = history.slowest_publish.max(took);
        if self.is_changing(&publish.to.topic) {
            let (to, events) = (publish.to.clone(), ids.to_vec());
            let answered_at = self.clock.now();
            history.confirmed_publishes.push(Confirmed { to, began_at, answered_at, events });
            return;
        }
        if self.scenario.filtered.contains_key(&publish.to.topic) {
            // The checker's naive filters decide at the end which event subscriptions get it.
            return;
        }
        if history.deleted.contains_key(&publish.to) || self.may_lack_consent(&publish.to) {
            return;
        }
        if self.is_large(publish) {
            history.promised.extend(ids.iter().map(|id| (publish.to.clone(), id.clone())));
            return;
        }
        let carried = ids.iter().all(|id| history.carrier(&publish.to, id).is_some());
        drop(history);
        if !carried {
            self.violation("a publish was accepted, but not all of it is in the queue");
        }
    }

    /// Whether a publish may be accepted without its deliveries being in the queue.
    fn is_large(&self, publish: &Publish) -> bool {
        let topics = self.scenario.topics.iter();
        let own = topics.filter(|(topic, _)| topic.name == publish.to.topic);
        let deliveries = own.map(|(_, all)| all.len() * publish.events.len()).sum::<usize>();
        deliveries > self.scenario.inline_fan_out
    }

    fn topic(&self, name: &str) -> &(Topic, Vec<EventSubscription>) {
        let mut topics = self.scenario.topics.iter();
        topics.find(|(found, _)| found.name == name).expect("a topic of the scenario")
    }

    fn schema(&self, topic: &str) -> InputSchema {
        self.topic(topic).0.input_schema
    }

    /// The events of a publish, each as JSON.
    pub(super) fn events(&self, publish: &Publish, ids: &[String]) -> Vec<String> {
        let schema = self.schema(&publish.to.topic);
        let is_cloud_event = schema == InputSchema::CloudEventSchemaV1_0;
        let to = publish.to.to_string();
        let one = |(mark, bytes): (&String, &usize)| match self
            .scenario
            .filtered
            .get(&publish.to.topic)
        {
            None => event(&publish.to, schema, mark, *bytes).to_string(),
            Some(filtered) => {
                // A repeated publish has the same id.
                let id = mark.rsplit_once('-').map_or(mark.as_str(), |(id, _)| id);
                let said = EventFacts { to: &to, mark, id, bytes: *bytes, is_cloud_event };
                filters::event(*filtered, &said)
            }
        };
        ids.iter().zip(&publish.events).map(one).collect()
    }

    fn note_published(&self, publish: &Publish, names: &[String], events: &[String]) {
        let Scenario { filtered, converted, .. } = &self.scenario;
        let name = &publish.to.topic;
        if !filtered.contains_key(name) && !converted.contains(name) {
            return;
        }
        let mut history = self.history.lock().expect("no panic while held");
        let (topic, subscriptions) = self.topic(name);
        for (name, text) in names.iter().zip(events) {
            let published = Published {
                topic: topic.name.clone(),
                text: text.clone(),
                is_own: topic.input_schema == InputSchema::CustomEventSchema,
                forms: forms(topic, subscriptions, text),
            };
            history.published.insert(name.clone(), published);
        }
    }

    pub(super) fn request(&self, publish: &Publish, events: &[String]) -> Request {
        let schema = self.schema(&publish.to.topic);
        let content_type = match schema {
            InputSchema::EventGridSchema | InputSchema::CustomEventSchema => "application/json",
            InputSchema::CloudEventSchemaV1_0 => "application/cloudevents-batch+json",
        };
        let mut headers = HeaderMap::new();
        headers.insert("aeg-sas-key", HeaderValue::from_static("a2V5MQ=="));
        headers.insert("content-type", HeaderValue::from_static(content_type));
        Request {
            method: Method::POST,
            path: self.topic(&publish.to.topic).0.publish_path(),
            query: String::new(),
            headers,
            authorizer: None,
            caller: None,
            route: None,
            body: format!("[{}]", events.join(",")).into_bytes(),
        }
    }

    /// Whether a publish that is answered now may have met an event subscription without consent,
    /// which matches nothing.
    fn may_lack_consent(&self, key: &SubscriptionKey) -> bool {
        let now = self.clock.now();
        let noticed_within = self.clock.pace().to_clock(CONFIGURATION_KEPT_FOR + ANSWERED_WITHIN);
        self.scenario.consents.iter().filter(|consent| consent.of == *key).any(|consent| {
            let over = consent.given_at.map(|at| at + noticed_within);
            now >= consent.asked_at && over.is_none_or(|over| now < over)
        })
    }
}

/// An event that says whose it is.
fn event(to: &SubscriptionKey, schema: InputSchema, id: &str, data_bytes: usize) -> Value {
    let data = "x".repeat(data_bytes);
    match schema {
        InputSchema::EventGridSchema => json!({
            "id": id, "subject": to.to_string(), "eventType": "simulated", "data": data,
            "dataVersion": "1", "eventTime": "2026-01-01T00:00:00Z",
        }),
        InputSchema::CloudEventSchemaV1_0 => json!({
            "specversion": "1.0", "id": id, "source": "/simulation", "type": "simulated",
            "subject": to.to_string(), "data": data,
        }),
        // The mark tells events apart whose id is not mapped.
        InputSchema::CustomEventSchema => json!({
            "id": id, "mark": id, "whose": to.to_string(), "kind": true, "version": 2.50,
            "at": "2026-01-01T01:00:00.12+01:00", "where": "/somewhere", "pad": data,
        }),
    }
}

/// Returns an event's form in each schema that it is delivered in. Its unmapped id is nil, and its
/// unmapped time the beginning of time.
fn forms(
    topic: &Topic,
    subscriptions: &[EventSubscription],
    text: &str,
) -> BTreeMap<DeliverySchema, String> {
    let topic_id = topic.id();
    let body = format!("[{text}]");
    let stamps = Stamps { now: Timestamp::default(), id: &mut Uuid::nil };
    let events = publish::read(topic, &topic_id, body.as_bytes(), stamps);
    let events = events.expect("an event of its schema");
    let schemas = subscriptions.iter().map(|one| one.delivery_schema);
    schemas.map(|schema| (schema, events[0].in_schema(schema))).collect()
}
