//! Sources: a queue for each topic that has one, and copies of intake that read it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use gridpost_core::{
    intake::{self, Mapped, Message},
    time::Timestamp,
};
use gridpost_intake::{Context, take};
use gridpost_ports::{Clock, SourceMessage};
use gridpost_testkit::{faults::Instance, history::SourcedMessage};
use tokio::sync::Notify;

use super::Simulation;
use crate::{
    lambda::Function,
    scenario::{Form, INGEST_TIMEOUT, Publish},
};

/// The timeout of intake, as deployed.
const INTAKE_TIMEOUT: Duration = INGEST_TIMEOUT;

/// For how long a received message is hidden, as deployed.
const HIDDEN_FOR: Duration = INTAKE_TIMEOUT.saturating_add(Duration::from_secs(30));

/// Most messages of one invocation, as deployed.
const BATCH: usize = 10;

/// A message that no source sends.
const STRANGE: &str = "strange";

/// The sources of a world, by topic.
pub(super) type Sources = BTreeMap<String, SourceQueue>;

/// A source's queue.
#[derive(Default)]
pub(super) struct SourceQueue {
    waiting: RefCell<Vec<Waiting>>,
    came: Notify,
    /// Copies of intake that wait for work.
    idle: RefCell<Vec<(Arc<Instance>, Rc<Context>)>>,
}

struct Waiting {
    message: SourceMessage,
    visible_at: Timestamp,
}

impl SourceQueue {
    fn put(&self, message: SourceMessage) {
        let visible_at = message.sent_at;
        self.waiting.borrow_mut().push(Waiting { message, visible_at });
        self.came.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Takes what is visible; waits while that is nothing.
    async fn receive(&self, world: &Simulation, topic: &str) -> Vec<SourceMessage> {
        loop {
            let next = self.waiting.borrow().iter().map(|one| one.visible_at).min();
            match next {
                None => self.came.notified().await,
                Some(next) => tokio::select! { biased;
                    () = world.clock.sleep_until(next) => {
                        // Other messages may come meanwhile.
                        tokio::time::sleep(world.dice.millis(0..500)).await;
                        return self.hide(world, topic);
                    }
                    () = self.came.notified() => {}
                },
            }
        }
    }

    /// Hides visible messages, as many as an invocation takes.
    fn hide(&self, world: &Simulation, topic: &str) -> Vec<SourceMessage> {
        let now = world.clock.now();
        let mut waiting = self.waiting.borrow_mut();
        let visible = waiting.iter_mut().filter(|one| one.visible_at <= now).take(BATCH);
        let hide = |one: &mut Waiting| {
            let gives_again = world.dice.chance(world.scenario.queues.duplicates);
            one.visible_at = if gives_again { now } else { now + HIDDEN_FOR };
            if gives_again {
                world.note_trouble(topic, &one.message.message_id);
            }
            one.message.clone()
        };
        visible.map(hide).collect()
    }

    /// Whether the message was still there.
    fn delete(&self, id: &str) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        waiting.retain(|one| *one.message.message_id != *id);
        waiting.len() < before
    }
}

impl Simulation {
    /// Whether messages of a source are still to be taken in.
    pub(super) fn anything_comes(&self) -> bool {
        self.sources.values().any(|source| !source.is_empty())
    }

    /// Sends the events of a publish to the queue of the topic's source.
    pub(super) fn send_to_source(&self, number: usize, publish: &Publish, form: Form) {
        let id = |event| format!("e{number}-{event}-0");
        let ids: Vec<_> = (0..publish.events.len()).map(id).collect();
        let bodies = form.messages(&publish.to, &ids, &publish.events);
        let events = ids.len() / bodies.len();
        for (nth, body) in bodies.into_iter().enumerate() {
            self.send_message(&publish.to.topic, &format!("m{number}-{nth}"), body, events);
        }
    }

    /// Sends what does not have its source's form.
    pub(super) fn send_strange(&self, number: usize, topic: &str) {
        let id = format!("m{number}-{STRANGE}");
        self.send_message(topic, &id, format!("{STRANGE} {id}"), 0);
    }

    /// Sends a message with so many events; none if it is strange.
    fn send_message(&self, topic: &str, id: &str, body: String, count: usize) {
        let sent_at = self.clock.now();
        let source = self.scenario.sources[topic].source(topic);
        let events: Vec<_> = match intake::map(&source, &Message { id, body: &body, sent_at }) {
            Ok(Mapped::Events(events)) => events.iter().map(|event| event.id.to_string()).collect(),
            Ok(Mapped::TestEvent) | Err(_) => Vec::new(),
        };
        if events.len() != count {
            self.violation(&format!("{} of {count} events are mapped: {body}", events.len()));
        }
        let noted = SourcedMessage { body: body.clone(), events, ..SourcedMessage::default() };
        self.history().sourced.begin(topic, id, noted);
        self.sources[topic].put(SourceMessage { message_id: id.into(), body, sent_at });
    }

    /// Reads a source's queue for ever, as Lambda does.
    pub(super) async fn read_source(self: Rc<Self>, topic: String) {
        loop {
            let batch = self.sources[&topic].receive(&self, &topic).await;
            if batch.is_empty() {
                continue;
            }
            self.begin();
            let (world, topic) = (Rc::clone(&self), topic.clone());
            tokio::task::spawn_local(async move {
                world.take_in(&topic, batch).await;
                world.end();
            });
        }
    }

    async fn take_in(&self, topic: &str, batch: Vec<SourceMessage>) {
        let (instance, context) = self.copy_of_intake(topic);
        instance.take(Vec::new(), Vec::new());
        instance.hold(batch.iter().map(|message| message.body.len()).sum());
        let ids: BTreeSet<_> = batch.iter().map(|message| message.message_id.to_string()).collect();
        let (before, began_at) = (self.history().faults, self.clock.now());
        let reply = tokio::select! { biased;
            reply = self.at_its_pace(take(&context, batch)) => Some(reply),
            () = instance.died() => None,
            () = self.injector.moment_of_death() => {
                self.injector.kill(&instance);
                None
            }
            () = tokio::time::sleep(INTAKE_TIMEOUT) => {
                self.injector.kill(&instance);
                None
            }
        };
        self.note_used(Function::Intake, &instance, began_at);
        let is_troubled = reply.is_none() || self.history().faults > before;
        for id in &ids {
            if let Some(message) = self.history().sourced.get_mut(topic, id) {
                message.handed += 1;
                message.troubled += usize::from(is_troubled);
            }
        }
        let Some(kept) = reply else { return };
        context.meter.flush(self.clock.now());
        let kept: BTreeSet<_> = kept.into_iter().collect();
        if !kept.is_subset(&ids) {
            self.violation("a reply of intake names a message that it was not given");
        }
        for id in ids.difference(&kept) {
            self.let_go(topic, id);
        }
        self.sources[topic].idle.borrow_mut().push((instance, context));
    }

    /// Deletes a message, unless that fails: then it comes back.
    fn let_go(&self, topic: &str, id: &str) {
        let is_undeleted = self.injector.is_undeleted(None);
        if is_undeleted {
            self.note_trouble(topic, id);
        }
        // A second copy may have been handed over before.
        let is_gone = !is_undeleted && self.sources[topic].delete(id);
        let mut history = self.history();
        let Some(message) = history.sourced.get_mut(topic, id) else { return };
        if !is_gone {
            return;
        }
        let events = message.events.clone();
        *history.confirmed.entry(topic.to_owned()).or_default() += events.len() as u64;
        let mut topics = self.scenario.topics.iter();
        let (_, all) = topics.find(|(one, _)| one.name == topic).expect("its topic");
        for subscription in all {
            let promised = events.iter().map(|event| (subscription.key.clone(), event.clone()));
            history.promised.extend(promised);
        }
        history.confirmed_events.extend(events);
    }

    /// Notes that a message comes once more.
    fn note_trouble(&self, topic: &str, id: &str) {
        if let Some(message) = self.history().sourced.get_mut(topic, id) {
            message.troubled += 1;
        }
    }

    fn copy_of_intake(&self, topic: &str) -> (Arc<Instance>, Rc<Context>) {
        let idle = self.sources[topic].idle.borrow_mut().pop();
        idle.filter(|_| !self.dice.chance(self.cold_starts)).unwrap_or_else(|| {
            let instance = self.instance(Instance::default());
            let source = self.scenario.sources[topic].source(topic);
            let context = self.intake(&instance, source);
            (instance, Rc::new(context))
        })
    }
}
