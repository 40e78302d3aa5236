//! Publishes that were repeated under a key.

use std::collections::BTreeMap;

use gridpost_core::subscription::SubscriptionKey;

/// All of them, by their numbers.
#[derive(Debug, Default)]
pub struct Keyed(BTreeMap<usize, KeyedPublish>);

/// One of them.
#[derive(Clone, Debug)]
pub struct KeyedPublish {
    pub to: SubscriptionKey,
    pub events: Vec<String>,
    /// How often it was sent.
    pub tries: usize,
    /// Tries that may have had to be done again: a copy died, a call failed, or a lease passed.
    pub troubled: usize,
}

impl Keyed {
    pub fn begin(&mut self, number: usize, to: &SubscriptionKey, events: &[String]) {
        let (to, events) = (to.clone(), events.to_vec());
        self.0.insert(number, KeyedPublish { to, events, tries: 0, troubled: 0 });
    }

    /// Notes a try that has ended.
    pub fn note_try(&mut self, number: usize, is_troubled: bool) {
        if let Some(publish) = self.0.get_mut(&number) {
            publish.tries += 1;
            publish.troubled += usize::from(is_troubled);
        }
    }

    pub fn publishes(&self) -> impl Iterator<Item = (usize, &KeyedPublish)> {
        self.0.iter().map(|(number, publish)| (*number, publish))
    }

    /// Whether anything with a key was published to that topic.
    pub fn is_to(&self, topic: &str) -> bool {
        self.0.values().any(|publish| publish.to.topic == topic)
    }
}
