//! The journal's ports.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{
    journal::{Answer, Count, Entry, Question},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    Clock, Journal, JournalError, JournalReader, JournalReply, PortError, Progress, Reads,
};
use uuid::Uuid;

use crate::{
    database::{Database, OnFullDisk},
    journal::{answers, notes::Note},
    queues::in_hand,
};

/// The journal, as rows beside the messages.
pub struct JournalStore {
    pub(crate) database: Arc<Database>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A note is committed with the next write about its message or delivery: the deletion or hiding of the
/// message, the delivery's state, or its parking. If the message is received again before that, the note is
/// dropped: the work is done again. One without a message is committed after a minute at the latest. The
/// process that ends before loses it, with the write.
#[async_trait]
impl Journal for JournalStore {
    fn keeps_first_successes(&self) -> bool {
        true
    }

    fn note(&self, entry: Entry, receipt: Option<&str>) {
        let note = Note::entry(self.clock.now(), entry, receipt.and_then(in_hand));
        self.database.journal.note(note);
    }

    fn count(&self, count: Count, receipt: Option<&str>) {
        let note = Note::count(self.clock.now(), &count, receipt.and_then(in_hand));
        self.database.journal.note(note);
    }

    /// Does nothing: the counts of messages are committed with them.
    fn count_sent(&self, _: &[Count]) {}

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        let (journal, now) = (Arc::clone(&self.database.journal), self.clock.now());
        let write = move |_: &_| {
            journal.take_counts(&counts, now);
            Ok(())
        };
        let (call, full_disk) = ("journal: writing", OnFullDisk::Fail);
        self.database.write_then(call, full_disk, write, |()| ()).await
    }

    async fn commit(&self, delivery: Uuid) -> Result<(), PortError> {
        let journal = Arc::clone(&self.database.journal);
        let write = move |_: &_| {
            journal.take_delivery(delivery);
            Ok(())
        };
        self.database.write("journal: writing", write).await
    }
}

#[async_trait]
impl JournalReader for JournalStore {
    async fn ask(
        &self,
        question: &Question,
        page: Option<&str>,
        _: Option<f64>,
    ) -> Result<JournalReply, JournalError> {
        let place = page.map(|page| page.parse().map_err(|_| JournalError::Page)).transpose()?;
        let (question, now) = (question.clone(), self.clock.now());
        let journal = Arc::clone(&self.database.journal);
        let work = move |connection: &_| {
            // Before it reads: later commits may be missing.
            let known_until = journal.known_until(now);
            Ok((answers::page(connection, &question, place)?, known_until))
        };
        let (page, known_until) = self.database.read_much("journal: reading", work).await?;
        let answer = Answer {
            known: page.known,
            known_until,
            begins: page.begins,
            lacks_first_successes: false,
            next: page.next.map(|place| place.to_string()),
        };
        Ok(JournalReply { reads: Reads::default(), progress: Progress::Answered(answer) })
    }

    async fn waiting(&self, of: &[SubscriptionKey]) -> Result<Option<Vec<u64>>, PortError> {
        let waiting = self.waiting_of(of.to_vec()).await?;
        Ok(Some(waiting.into_iter().map(|(events, _)| events).collect()))
    }
}

impl JournalStore {
    /// Returns how many events of each event subscription wait, and when the hour began in which the oldest of them
    /// was published.
    pub async fn waiting_of(
        &self,
        of: Vec<SubscriptionKey>,
    ) -> Result<Vec<(u64, Option<Timestamp>)>, PortError> {
        let work = move |connection: &_| answers::waiting(connection, &of);
        let waiting = self.database.read_much("journal: reading", work).await?;
        let time = |oldest: Option<i64>| oldest.map(Timestamp::from_millis);
        Ok(waiting.into_iter().map(|(events, oldest)| (events, time(oldest))).collect())
    }
}

#[cfg(test)]
mod tests;
