//! Walks through the dead letters of an event subscription, in the order of their objects' names,
//! which contain the hour: other hours are skipped unread.

use std::collections::VecDeque;

use futures::future::join_all;

use crate::{BucketError, DeadLetters, Listed};
use gridpost_core::{
    delivery::{
        dead_letter::{
            position::Position,
            stored::{self, Letter},
        },
        redrive::{LocatedLetter, RedriveFilter},
    },
    error::chain,
    event::DeliverySchema,
    subscription::SubscriptionKey,
};

/// The most objects read at the same time.
const OBJECTS_AT_ONCE: usize = 8;

/// The most bytes read at the same time, unless a single object is larger.
const BYTES_AT_ONCE: u64 = 16 * 1_048_576;

/// Larger objects are not read: dead-letter writes none.
const OBJECT_BYTES_MAX: u64 = 96 * 1_048_576;

/// Selects the dead letters of one event subscription.
#[derive(Clone, Debug)]
pub struct Source {
    pub subscription: SubscriptionKey,
    pub bucket: String,
    /// The prefix of its objects' names, without a trailing slash.
    pub folder: String,
    /// For objects that do not name theirs.
    pub schema: DeliverySchema,
}

/// A position of the walk, with its dead letter.
#[derive(Clone, Debug)]
pub struct Item {
    pub position: Position,
    /// Or why it can't be read.
    pub found: Result<LocatedLetter, String>,
    /// Whether it is the last one of its object.
    pub is_last: bool,
    /// Whether S3 refuses its object for now: it is archived, or its key is disabled.
    pub is_sealed: bool,
}

impl Item {
    /// Returns the next position; after the last letter of an object, one that does not exist.
    pub fn next(&self) -> Position {
        self.position.at(self.position.index + 1)
    }
}

/// A walk through the dead letters of the filter's time range.
pub struct Walk<'w> {
    letters: &'w dyn DeadLetters,
    source: &'w Source,
    wanted: &'w RedriveFilter,
    /// The position to begin at within the first object.
    from: Option<Position>,
    after: Option<String>,
    /// The last listed object, even if skipped.
    listed_to: Option<Position>,
    listed: VecDeque<(Position, Listed)>,
    items: VecDeque<Item>,
}

impl<'w> Walk<'w> {
    /// Begins at that position, or at the first dead letter.
    pub fn from(
        letters: &'w dyn DeadLetters,
        source: &'w Source,
        wanted: &'w RedriveFilter,
        from: Option<Position>,
    ) -> Self {
        let after = from.map(|position| position.before(&source.folder));
        let (listed, items) = (VecDeque::new(), VecDeque::new());
        Self { letters, source, wanted, from, after, listed_to: None, listed, items }
    }

    /// Returns the next letter; `None` after the last. Can be called again after an error, like
    /// [`Self::look`].
    pub async fn next(&mut self) -> Result<Option<Item>, BucketError> {
        while self.items.is_empty() {
            if !self.look().await? {
                return Ok(None);
            }
        }
        Ok(self.items.pop_front())
    }

    /// Reads ahead, which may find no letters. Returns whether more may follow.
    ///
    /// If a page or object can't be read, all letters before it were returned, and the next call tries
    /// it again.
    pub async fn look(&mut self) -> Result<bool, BucketError> {
        if self.listed.is_empty() && !self.list().await? {
            return Ok(false);
        }
        self.read().await?;
        Ok(true)
    }

    /// Returns the position of the next letter, if known: a place to resume from.
    pub fn position(&self) -> Option<Position> {
        let read = self.items.front().map(|item| item.position);
        read.or_else(|| self.listed.front().map(|(position, _)| *position))
    }

    /// Returns the position before which all is done. Unlike [`Self::position`], it is also known if
    /// everything that was listed was skipped.
    pub fn reached(&self) -> Option<Position> {
        self.position().or(self.listed_to)
    }

    /// Returns the next letter that was already read.
    pub fn at_hand(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    /// Lists one page. Returns whether there was one.
    async fn list(&mut self) -> Result<bool, BucketError> {
        let Source { bucket, folder, .. } = self.source;
        let hours = self.wanted.hours();
        let after = self.after.as_deref();
        let page = self.letters.list(bucket, &hours.prefix(folder), after).await?;
        let Some(last) = page.last() else { return Ok(false) };
        let mut after = last.name.clone();
        let mut passed = String::new();
        for object in page {
            let Some(position) = Position::first_of(folder, &object.name) else { continue };
            self.listed_to = Some(position);
            if object.name <= passed {
                continue;
            }
            match hours.pass_over(folder, &position) {
                Some(over) => passed = over,
                None if self.wanted.has_time(object.written_at) => {
                    self.listed.push_back((position, object));
                }
                None => {}
            }
        }
        if passed > after {
            after = passed;
        }
        self.after = Some(after);
        Ok(true)
    }

    async fn read(&mut self) -> Result<(), BucketError> {
        let mut bytes = 0;
        let fit = self.listed.iter().take(OBJECTS_AT_ONCE).take_while(|(_, object)| {
            bytes += object.bytes;
            bytes <= BYTES_AT_ONCE
        });
        let count = fit.count().max(1).min(self.listed.len());
        let some: Vec<_> = self.listed.drain(..count).collect();
        let read = some.iter().map(|(position, object)| self.read_one(*position, object));
        for (at, items) in join_all(read).await.into_iter().enumerate() {
            match items {
                Ok(items) => self.items.extend(items),
                Err(error) => {
                    // Letters are returned in order, so those after it are read again.
                    some[at..].iter().rev().for_each(|one| self.listed.push_front(one.clone()));
                    return if at == 0 { Err(error) } else { Ok(()) };
                }
            }
        }
        Ok(())
    }

    async fn read_one(
        &self,
        position: Position,
        object: &Listed,
    ) -> Result<Vec<Item>, BucketError> {
        let unreadable =
            |why: String| vec![Item { position, found: Err(why), is_last: true, is_sealed: false }];
        if object.bytes > OBJECT_BYTES_MAX {
            return Ok(unreadable(format!("its object has {} bytes", object.bytes)));
        }
        let got = match self.letters.get(&self.source.bucket, &object.name).await {
            Err(BucketError::Unreadable(error)) => {
                let found = Err(chain(&error));
                return Ok(vec![Item { position, found, is_last: true, is_sealed: true }]);
            }
            got => got?,
        };
        // It was deleted after it was listed.
        let Some((body, origin)) = got else { return Ok(Vec::new()) };
        if origin.as_ref().is_some_and(|origin| origin.subscription != self.source.subscription) {
            return Ok(Vec::new());
        }
        let schema = origin.map_or(self.source.schema, |origin| origin.schema);
        let letters = match stored::letters(&body, schema) {
            Ok(letters) => letters,
            Err(error) => return Ok(unreadable(format!("its object can't be read: {error}"))),
        };
        let count = letters.len();
        let item = |(index, letter): (usize, Result<Letter, String>)| {
            let position = position.at(index);
            let written_at = object.written_at;
            let found = letter.map(|letter| LocatedLetter { position, written_at, schema, letter });
            Item { position, found, is_last: index + 1 == count, is_sealed: false }
        };
        let all = letters.into_iter().enumerate().map(item);
        Ok(all.filter(|item| self.is_behind_start(&item.position)).collect())
    }

    fn is_behind_start(&self, position: &Position) -> bool {
        self.from.is_none_or(|from| !position.is_before(&from))
    }
}
