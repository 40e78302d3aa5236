//! Reports records as they are settled, so that they can be deleted early if the rest of the batch takes
//! long.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use gridpost_core::{error::chain, time::Timestamp};
use gridpost_ports::{PortError, Record};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    Context,
    loaded::{Disposition, Settled, SettledRecord},
    settle,
};

/// The most deliveries whose events one invocation fetches from the payload bucket, and the most probes. Each may
/// have 3 MiB of events, three times in memory: as an object, as events, and as a request.
const FETCHED_MAX: usize = 20;

/// Collects the results of records.
pub struct Report<'c> {
    pub context: &'c Context,
    /// Receives the records that SQS may delete.
    pub deletable: UnboundedSender<Record>,
    pub deadline: Timestamp,
    /// How many deliveries have fetched their events.
    pub fetched: AtomicUsize,
    /// How many probes have, which no other deliveries hold up.
    pub fetched_by_probes: AtomicUsize,
}

impl Report<'_> {
    /// Counts a delivery whose events are to be fetched. Returns whether they may be.
    pub fn may_fetch(&self, is_probe: bool) -> bool {
        let fetched = if is_probe { &self.fetched_by_probes } else { &self.fetched };
        fetched.fetch_add(1, Ordering::Relaxed) < FETCHED_MAX
    }

    /// Reports one record. SQS keeps every record that is not reported as deletable.
    pub async fn one(&self, record: Record, settled: Settled) {
        self.all(vec![(record, settled)]).await;
    }

    pub async fn all(&self, settled: Vec<SettledRecord>) {
        let mut failed = Vec::new();
        for (record, settled) in settled {
            match settled {
                // The receiver lives as long as the batch.
                Ok(Disposition::Delete) => drop(self.deletable.send(record)),
                Ok(Disposition::Keep) => {}
                Err(error) => failed.push((record, error)),
            }
        }
        join_all(failed.iter().map(|(record, error)| self.failed(record, error))).await;
    }

    /// Reports that none of these records was settled.
    pub async fn all_failed(&self, records: Vec<Record>, error: &PortError) {
        join_all(records.iter().map(|record| self.failed(record, error))).await;
    }

    async fn failed(&self, record: &Record, error: &PortError) {
        let (id, error) = (&record.message_id, chain(error));
        tracing::warn!(message.id = %id, %error, "failed to settle a record; it comes back");
        settle::retry_soon(self.context, record).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::fixture_for_tests::{Fixture, NOW};

    /// A provider of many endpoints may come back, and each has a probe with large events in one batch.
    #[tokio::test]
    async fn probes_are_bounded_by_themselves() {
        let fixture = Fixture::new(None);
        let (context, deletable) = (&fixture.context(), unbounded_channel().0);
        let (fetched, fetched_by_probes) = (AtomicUsize::new(FETCHED_MAX), AtomicUsize::new(0));
        let report = Report { context, deletable, deadline: NOW, fetched, fetched_by_probes };
        assert!(!report.may_fetch(false), "the others have had their part");
        let probes = (0..100).filter(|_| report.may_fetch(true)).count();
        assert_eq!(probes, FETCHED_MAX);
    }
}
