//! Handles one SQS batch; returns the ids of the messages that SQS keeps.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt,
    future::{join, join_all},
};
use gridpost_core::{delivery::queue::Queue, error::chain, time::Timestamp};
use gridpost_ports::Record;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{
    Context, group,
    guard::guarded,
    in_hand::Received,
    late_response::{self, Late},
    receive::{self, receive},
    report::Report,
};

/// What ends an invocation needs at most so much time after it has stopped listening.
const END_WAIT: Duration = Duration::from_secs(5);

/// Where others of the batch take longer than this, what is settled is deleted: the function may die
/// meanwhile, and SQS would hand it out again.
const DELETE_AFTER: Duration = Duration::from_secs(1);

/// Settles every record and answers which of them SQS keeps, by message id.
///
/// Lambda deletes each record that the reply does not name. So a record is left out only when its
/// delivery has ended or its successor is in another place; a retry that was hidden until it is due
/// is named. Whatever goes wrong with one record leaves the others alone.
pub async fn handle(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let queue = records.first().map(|record| record.queue);
    let all: Vec<_> = records.iter().map(|record| Arc::clone(&record.message_id)).collect();
    let (gone, settled) = mpsc::unbounded_channel();
    let report = Report { context, gone, deadline };
    let work = async {
        let report = report;
        let receive::Batch { groups, poisoned } = receive(context, records).await;
        report.all(poisoned).await;
        let works = groups.into_iter().map(|group| one_group(context, group, &report));
        join_all(works).await.into_iter().flatten().collect::<Vec<_>>()
    };
    let (late, mut gone) = join(work, collect(context, settled)).await;
    if let Some(queue) = queue.filter(|_| !late.is_empty()) {
        gone.delete(context).await;
        // What was only counted as failed is written as well: listening takes long.
        context.meter.flush(context.clock.now());
        let now = context.clock.now();
        let deadline = now + deadline.since(now).saturating_sub(END_WAIT);
        late_response::listen_all(context, queue, late, deadline).boxed().await;
    }
    let kept = all.iter().filter(|id| !gone.ids.contains(*id));
    kept.map(ToString::to_string).collect()
}

async fn one_group(context: &Context, group: Vec<Received>, report: &Report<'_>) -> Vec<Late> {
    let records: Vec<_> = group.iter().map(|received| received.record.without_body()).collect();
    match guarded(group::work(context, group, report)).await {
        Ok(late) => late,
        Err(error) => {
            report.all_failed(records, &error).await;
            Vec::new()
        }
    }
}

/// Records that may go.
#[derive(Default)]
struct Gone {
    ids: HashSet<Arc<str>>,
    not_deleted: Vec<Record>,
}

/// Gathers what is settled until all is, and deletes it where that takes long.
async fn collect(context: &Context, mut settled: UnboundedReceiver<Record>) -> Gone {
    let mut gone = Gone::default();
    loop {
        match tokio::time::timeout(DELETE_AFTER, settled.recv()).await {
            Ok(Some(record)) => {
                gone.ids.insert(Arc::clone(&record.message_id));
                gone.not_deleted.push(record);
            }
            Ok(None) => return gone,
            Err(_) => gone.delete(context).boxed().await,
        }
    }
}

impl Gone {
    /// Deletes what may go now. What is counted of it is written first: it comes back no more.
    async fn delete(&mut self, context: &Context) {
        if self.not_deleted.is_empty() {
            return;
        }
        context.meter.flush(context.clock.now());
        let mut receipts: BTreeMap<Queue, Vec<String>> = BTreeMap::new();
        for record in self.not_deleted.drain(..) {
            receipts.entry(record.queue).or_default().push(record.receipt.to_string());
        }
        for (queue, receipts) in receipts {
            if let Err(error) = context.receiver.delete(queue, receipts).await {
                // Lambda deletes them when the reply is there.
                tracing::warn!(error = %chain(&error), "settled records were not deleted early");
            }
        }
    }
}
