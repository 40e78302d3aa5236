//! Who of a batch is settled already, told as it happens: what may go is deleted early where others
//! take long.

use futures::future::join_all;
use gridpost_core::{error::chain, time::Timestamp};
use gridpost_ports::{PortError, Record};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    Context,
    record::{Fate, Settled},
    settle,
};

/// Where the steps tell what became of records.
pub struct Report<'c> {
    /// The function's context.
    pub context: &'c Context,
    /// Takes those records that may go.
    pub gone: UnboundedSender<Record>,
    /// When Lambda stops the invocation.
    pub deadline: Timestamp,
}

impl Report<'_> {
    /// Tells what became of a record. SQS keeps what is not told to be gone.
    pub async fn one(&self, record: Record, settled: Settled) {
        self.all(vec![(record, settled)]).await;
    }

    /// Tells what became of several.
    pub async fn all(&self, settled: Vec<(Record, Settled)>) {
        let mut failed = Vec::new();
        for (record, settled) in settled {
            match settled {
                // The receiver lives as long as the batch.
                Ok(Fate::Delete) => drop(self.gone.send(record)),
                Ok(Fate::Keep) => {}
                Err(error) => failed.push((record, error)),
            }
        }
        join_all(failed.iter().map(|(record, error)| self.failed(record, error))).await;
    }

    /// Tells that none of them was settled.
    pub async fn all_failed(&self, records: Vec<Record>, error: &PortError) {
        join_all(records.iter().map(|record| self.failed(record, error))).await;
    }

    async fn failed(&self, record: &Record, error: &PortError) {
        let (id, error) = (&record.message_id, chain(error));
        tracing::warn!(message.id = %id, %error, "a record was not settled and comes back");
        settle::retry_soon(self.context, record).await;
    }
}
