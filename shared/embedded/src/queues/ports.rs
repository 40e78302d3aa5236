//! The ports of queues.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::queue::{DELAY_S_MAX, Queue},
    poison::Poisoned,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PoisonQueue, PortError, QueueReceiver, QueueSender};
use rusqlite::Connection;

use crate::database::{OnFullDisk, is_full_disk};

use super::{
    Queues,
    contents::{Message, ReceiptError},
    receipt, rows,
};

const LOOKED_AT_MAX: usize = 10;

/// The id of a written message, or why it was refused.
type Written = Result<i64, String>;

/// Publishes are refused while the disk is full, and their pieces come again; what is under way waits for room.
fn on_full_disk(queue: Queue) -> OnFullDisk {
    match queue {
        Queue::Dispatch | Queue::FanOut => OnFullDisk::Fail,
        Queue::Retry(_) | Queue::Slow | Queue::DeadLetter | Queue::Redrive | Queue::Poison => {
            OnFullDisk::Wait
        }
    }
}

fn visible_at(message: &Outgoing, now: Timestamp) -> Timestamp {
    now + Duration::from_secs(u64::from(message.delay_s))
}

/// Returns why that message is refused, if it is.
fn refusal(message: &Outgoing, bytes_max: usize) -> Option<String> {
    if message.delay_s > DELAY_S_MAX {
        return Some(format!("a delay of {} s is longer than {DELAY_S_MAX}", message.delay_s));
    }
    let bytes = message.body.len();
    (bytes > bytes_max).then(|| format!("{bytes} bytes are more than {bytes_max}"))
}

#[async_trait]
impl QueueSender for Queues {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        const CALL: &str = "queue: sending";
        let count = messages.len();
        let sent = async {
            self.line(CALL, queue)?;
            let (now, bytes_max) = (self.clock.now(), self.message_bytes_max);
            let (all, ids, budget) =
                (Arc::clone(&self.all), Arc::clone(&self.ids), Arc::clone(&self.budget));
            let journal = Arc::clone(&self.database.journal);
            let messages = Arc::new(messages);
            let writes = Arc::clone(&messages);
            let write = move |connection: &Connection| {
                let write = |message: &Outgoing| {
                    let id = ids.next();
                    if let Some(reason) = refusal(message, bytes_max) {
                        return Ok(Err(reason));
                    }
                    let visible_at = visible_at(message, now);
                    let texts = (message.group.as_str(), message.body.as_str());
                    match rows::insert(connection, id, queue, (now, visible_at), texts) {
                        // Rolled back: further inserts would commit on their own.
                        Err(error) if connection.is_autocommit() || is_full_disk(&error) => {
                            Err(error)
                        }
                        Err(error) => Ok(Err(error.to_string())),
                        Ok(()) => {
                            journal.take_counts(&message.counts, now);
                            Ok(Ok(id))
                        }
                    }
                };
                writes.iter().map(write).collect::<rusqlite::Result<Vec<Written>>>()
            };
            let then = move |written: Vec<Written>| {
                let line = &all[&queue];
                let mut contents = line.contents();
                let messages = Arc::unwrap_or_clone(messages);
                let put = |(message, written): (Outgoing, Written)| {
                    written.map(|id| {
                        let visible_at = visible_at(&message, now);
                        let body = budget.keep(message.body);
                        let group = message.group.into();
                        let (sent_at, receives, in_flight) = (now, 0, false);
                        let message = Message { sent_at, visible_at, receives, in_flight, group };
                        contents.add(id, message, body);
                    })
                };
                let answers: Vec<_> = messages.into_iter().zip(written).map(put).collect();
                line.change();
                answers
            };
            self.database.write_then(CALL, on_full_disk(queue), write, then).await
        };
        match sent.await {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| answer.map_err(|reason| PortError::new(CALL, reason)))
                .collect(),
            Err(error) => vec![Err(error); count],
        }
    }
}

#[async_trait]
impl QueueReceiver for Queues {
    /// Unlike in SQS, a message that was received long ago may be hidden for 12 hours again.
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        const CALL: &str = "queue: hiding";
        let unknown = || PortError::new(CALL, "an unknown receipt");
        let void = |error: ReceiptError| PortError::new(CALL, error.reason());
        let line = self.line(CALL, queue)?;
        let (id, receives) = receipt::read(receipt).ok_or_else(unknown)?;
        let now = self.clock.now();
        line.contents().check(id, receives, now).map_err(void)?;
        let until = now + Duration::from_secs(u64::from(seconds));
        let (all, journal) = (Arc::clone(&self.all), Arc::clone(&self.database.journal));
        let write = move |connection: &Connection| {
            let is_there = rows::hide(connection, id, receives, until)?;
            if is_there {
                journal.take_message((id, receives));
            }
            Ok(is_there)
        };
        let then = move |is_there: bool| {
            if !is_there {
                return Err(ReceiptError::Gone);
            }
            let line = &all[&queue];
            line.contents().hide(id, receives, until)?;
            line.change();
            Ok(())
        };
        self.database.write_then(CALL, OnFullDisk::Wait, write, then).await?.map_err(void)
    }

    /// Only the latest receipt deletes a message; SQS does not specify this.
    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        const CALL: &str = "queue: deleting";
        let ids: Vec<_> = {
            let contents = self.line(CALL, queue)?.contents();
            let read = receipts.iter().filter_map(|receipt| receipt::read(receipt));
            let newest = read.filter(|(id, receives)| contents.is_newest(*id, *receives));
            newest.collect()
        };
        if ids.is_empty() {
            return Ok(());
        }
        let (all, budget, deleted) = (Arc::clone(&self.all), Arc::clone(&self.budget), ids.clone());
        let journal = Arc::clone(&self.database.journal);
        let write = move |connection: &Connection| {
            for in_hand in &deleted {
                if rows::delete(connection, in_hand.0)? {
                    journal.take_message(*in_hand);
                }
            }
            Ok(())
        };
        let then = move |()| {
            let mut contents = all[&queue].contents();
            for (_, body) in ids.into_iter().filter_map(|(id, _)| contents.remove(id)) {
                budget.release(body.as_deref());
            }
        };
        self.database.write_then(CALL, OnFullDisk::Wait, write, then).await
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        let now = self.clock.now();
        Ok(self.line("queue: counting", queue)?.contents().in_flight(now) as u64)
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        Ok(self.line("queue: counting", queue)?.contents().len() as u64)
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        let now = self.clock.now();
        Ok(self.line("queue: counting", queue)?.contents().visible(now) as u64)
    }
}

#[async_trait]
impl PoisonQueue for Queues {
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        const CALL: &str = "queue: receiving";
        let hidden_for = Duration::from_secs(u64::from(hidden_s));
        let taken = self.take(Queue::Poison, LOOKED_AT_MAX, hidden_for).await?;
        let poisoned = taken.into_iter().map(|received| {
            let moved_from = receipt::read(&received.receipt).and_then(|(id, _)| {
                let read = self.database.read(CALL, |it| rows::moved_from(it, id));
                read.inspect_err(
                    |error| tracing::warn!(%error, id, "a poison message's queue is not known"),
                )
                .ok()?
            });
            Poisoned {
                id: received.message_id,
                receipt: received.receipt,
                body: received.body,
                sent_at: received.sent_at,
                receive_count: received.receives,
                moved_from,
                group: Some(received.group),
            }
        });
        Ok(poisoned.collect())
    }

    async fn count(&self) -> Result<u64, PortError> {
        self.backlog(Queue::Poison).await
    }
}
