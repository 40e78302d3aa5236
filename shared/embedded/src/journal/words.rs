//! Numbers for texts. A text keeps its number whatever a later version calls it.

use std::collections::{HashMap, HashSet};

use gridpost_core::{journal::Owner, name::is_same, subscription::SubscriptionKey};
use rusqlite::{Connection, OptionalExtension};

/// The number of all owners together. A topic with its event subscriptions has the number of its name, negative.
pub(super) const TOGETHER: i64 = 0;

/// Numbers that were looked up or given. What a transaction gave is void when it is rolled back.
#[derive(Default)]
pub(super) struct Numbers(HashMap<String, i64>);

impl Numbers {
    /// Returns the number of a text. A new text gets a new number.
    pub(super) fn of(&mut self, connection: &Connection, text: &str) -> rusqlite::Result<i64> {
        if let Some(number) = self.0.get(text) {
            return Ok(*number);
        }
        let select = "SELECT number FROM words WHERE text = ?1";
        let mut select = connection.prepare_cached(select)?;
        let stored = select.query_row([text], |row| row.get(0)).optional()?;
        let number = match stored {
            Some(number) => number,
            None => {
                let insert = "INSERT INTO words (text) VALUES (?1)";
                connection.prepare_cached(insert)?.execute([text])?;
                connection.last_insert_rowid()
            }
        };
        self.0.insert(text.to_owned(), number);
        Ok(number)
    }

    /// Returns the number of an owner's topic.
    pub(super) fn of_topic(
        &mut self,
        connection: &Connection,
        number: i64,
    ) -> rusqlite::Result<i64> {
        let select = "SELECT text FROM words WHERE number = ?1";
        let mut select = connection.prepare_cached(select)?;
        let text: String = select.query_row([number], |row| row.get(0))?;
        self.of(connection, owner(&text).topic())
    }
}

/// All texts by their numbers, to read.
pub(super) struct Words(HashMap<i64, String>);

impl Words {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare_cached("SELECT number, text FROM words")?;
        let words = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(words.collect::<rusqlite::Result<_>>()?))
    }

    pub(super) fn text(&self, number: i64) -> Option<&str> {
        self.0.get(&number).map(String::as_str)
    }

    /// Reads a text; `None` if another version wrote it.
    pub(super) fn parsed<T: std::str::FromStr>(&self, number: i64) -> Option<T> {
        self.text(number)?.parse().ok()
    }

    /// Returns the numbers of texts that hold.
    pub(super) fn numbers(&self, holds: impl Fn(&str) -> bool) -> HashSet<i64> {
        let texts = self.0.iter().filter(|(_, text)| holds(text));
        texts.map(|(number, _)| *number).collect()
    }

    /// Returns the owners of those names; `None` for all.
    pub(super) fn owners(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Option<HashSet<i64>> {
        let is_one = |text: &str| {
            let owner = owner(text);
            let name = |wanted| owner.name().is_some_and(|name| is_same(name, wanted));
            topic.is_none_or(|topic| is_same(topic, owner.topic())) && subscription.is_none_or(name)
        };
        (topic.is_some() || subscription.is_some()).then(|| self.numbers(is_one))
    }

    /// Returns the numbers of topics of that name, each with its event subscriptions.
    pub(super) fn whole_topics(&self, name: &str) -> HashSet<i64> {
        let topics = self.numbers(|text| !text.contains('/') && is_same(text, name));
        topics.into_iter().map(|number| -number).collect()
    }

    /// Returns an owner; of a topic with its event subscriptions, that topic; of all together, one without a name.
    pub(super) fn owner(&self, number: i64) -> Option<Owner> {
        match number {
            TOGETHER => Some(Owner::Topic(String::new())),
            number => self.text(number.abs()).map(owner),
        }
    }
}

/// Writes an owner: the name of the topic, and that of the event subscription behind a slash.
pub(super) fn owner_text(owner: &Owner) -> String {
    match owner {
        Owner::Topic(topic) => topic.clone(),
        Owner::Subscription(key) => key.to_string(),
    }
}

fn owner(text: &str) -> Owner {
    match text.split_once('/') {
        None => Owner::Topic(text.to_owned()),
        Some((topic, name)) => {
            let (topic, name) = (topic.to_owned(), name.to_owned());
            Owner::Subscription(SubscriptionKey { topic, name })
        }
    }
}
