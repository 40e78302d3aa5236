//! Messages of sources, and what became of them.

use std::collections::BTreeMap;

/// All of them, by topic and id.
#[derive(Debug, Default)]
pub struct Sourced(BTreeMap<(String, String), SourcedMessage>);

/// One of them.
#[derive(Clone, Debug, Default)]
pub struct SourcedMessage {
    pub body: String,
    /// The identities of its events; none if it does not have its source's form.
    pub events: Vec<String>,
    /// How often intake was given it.
    pub handed: usize,
    /// Times after which it may have to be taken in again: a copy died, a call failed, or the queue
    /// gave it once more.
    pub troubled: usize,
}

impl Sourced {
    /// Notes a message that was sent.
    pub fn begin(&mut self, topic: &str, id: &str, message: SourcedMessage) {
        self.0.insert((topic.to_owned(), id.to_owned()), message);
    }

    /// A message that was noted.
    pub fn get_mut(&mut self, topic: &str, id: &str) -> Option<&mut SourcedMessage> {
        self.0.get_mut(&(topic.to_owned(), id.to_owned()))
    }

    /// All of them, with their topics.
    pub fn messages(&self) -> impl Iterator<Item = (&str, &SourcedMessage)> {
        self.0.iter().map(|((topic, _), message)| (topic.as_str(), message))
    }

    /// Whether that topic has a source.
    pub fn is_to(&self, topic: &str) -> bool {
        self.0.keys().any(|(found, _)| found == topic)
    }
}
