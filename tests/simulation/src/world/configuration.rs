//! The configuration as its owner changes it, and the history of event subscriptions.

use gridpost_core::{
    subscription::{EventSubscription, SubscriptionKey},
    topic::Topic,
};
use gridpost_ports::Clock;

use super::Simulation;
use crate::scenario::Changed;
use gridpost_testkit::history::History;

impl Simulation {
    /// The topics, with all event subscriptions that they ever had.
    pub(super) fn topics(&self) -> Vec<(Topic, Vec<EventSubscription>)> {
        let topics = self.scenario.topics.iter().map(|(topic, _)| topic);
        topics.map(|topic| (topic.clone(), self.scenario.ever(&topic.name))).collect()
    }

    /// Notes those that are there from the beginning.
    pub(super) fn note_first(&self) {
        for subscription in self.scenario.topics.iter().flat_map(|(_, all)| all) {
            self.note_written(subscription);
        }
    }

    pub(super) fn change(&self, change: &Changed) {
        match change {
            Changed::Written(subscription) => {
                self.tables.write_subscription(subscription);
                self.note_written(subscription);
            }
            Changed::Deleted(key) => self.delete(key),
            Changed::CreatedAgain(name, subscriptions) => {
                let topics = self.scenario.topics.iter();
                let topic = topics.map(|(topic, _)| topic).find(|topic| topic.name == *name);
                let topic = topic.expect("a topic of the scenario").clone();
                let now = self.clock.now();
                self.tables.forget_topic(name);
                self.tables.configure(Topic { created_at: now, ..topic }, subscriptions.clone());
                self.note_gone(|key| key.topic == *name);
                subscriptions.iter().for_each(|subscription| self.note_written(subscription));
            }
        }
    }

    pub(super) fn delete(&self, key: &SubscriptionKey) {
        self.tables.delete_subscription(key);
        self.note_gone(|found| found == key);
        self.history().deleted.insert(key.clone(), self.clock.now());
    }

    /// Whether the event subscriptions of the topic change, so that who gets an event is left to the
    /// checker.
    pub(super) fn is_changing(&self, topic: &str) -> bool {
        self.scenario.changes.iter().any(|change| match &change.what {
            Changed::Written(written) => written.key.topic == topic,
            Changed::Deleted(key) => key.topic == topic,
            Changed::CreatedAgain(name, _) => name == topic,
        })
    }

    fn note_written(&self, subscription: &EventSubscription) {
        self.history().note_written(self.clock.now(), subscription);
    }

    fn note_gone(&self, is_gone: impl Fn(&SubscriptionKey) -> bool) {
        let now = self.clock.now();
        let mut history = self.history();
        history.trace(now, || "configuration: some are gone".to_owned());
        for life in history.lives.values_mut().filter(|life| is_gone(&life.subscription)) {
            life.until.get_or_insert(now);
        }
    }

    pub(super) fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().expect("no panic while held")
    }
}
