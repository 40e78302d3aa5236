//! The first step: splits an SQS batch into groups, one per event subscription, which take the other
//! steps. Records are reported as they are settled, so that they can be deleted early if the rest of
//! the batch takes long.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{join, join_all},
};
use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    error::chain,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Record, guard::guarded};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use uuid::Uuid;

use crate::{
    Context, group,
    late_response::{self, Late},
    loaded::{Received, SettledRecord, without_bodies},
    report::Report,
    settle,
};

/// The time kept free at the end of an invocation that listens.
const END_WAIT: Duration = Duration::from_secs(5);

/// If other records of the batch take longer than this, settled records are deleted right away:
/// should the function die meanwhile, SQS would deliver them again.
const DELETE_AFTER: Duration = Duration::from_secs(1);

/// Settles every record. Returns the ids of the messages that SQS keeps.
///
/// Lambda deletes each record that the reply does not name. So the reply omits a record only if its
/// delivery has ended or its successor is stored elsewhere; it names hidden retries. A failure of
/// one record does not affect the others.
pub async fn handle(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let queue = records.first().map(|record| record.queue);
    let all: Vec<_> = records.iter().map(|record| Arc::clone(&record.message_id)).collect();
    let (deletable, settled) = mpsc::unbounded_channel();
    let report = Report {
        context,
        deletable,
        deadline,
        fetched: AtomicUsize::new(0),
        fetched_by_probes: AtomicUsize::new(0),
    };
    let work = async {
        let report = report;
        let Batch { groups, poisoned } = receive(context, records).await;
        report.all(poisoned).await;
        let works = groups.into_iter().map(|group| one_group(group, &report));
        join_all(works).await.into_iter().flatten().collect::<Vec<_>>()
    };
    let (late, mut deletable) = join(work, collect(context, settled)).await;
    if let Some(queue) = queue.filter(|_| !late.is_empty()) {
        deletable.delete(context).await;
        // Flush the counts of failures too: listening takes long.
        context.meter.flush(context.clock.now());
        let deadline = context.clock.after(context.clock.left(deadline).saturating_sub(END_WAIT));
        late_response::listen_all(context, queue, late, deadline).boxed().await;
    }
    let kept = all.iter().filter(|id| !deletable.ids.contains(*id));
    kept.map(ToString::to_string).collect()
}

#[derive(Default)]
struct Batch {
    /// One group per event subscription, in the order received. A group shares what is loaded, and
    /// may share a request. Groups are independent of each other.
    groups: Vec<Vec<Received>>,
    /// Undecodable records, moved to the poison queue.
    poisoned: Vec<SettledRecord>,
}

async fn receive(context: &Context, records: Vec<Record>) -> Batch {
    let mut groups: BTreeMap<(SubscriptionKey, Uuid), Vec<Received>> = BTreeMap::new();
    let mut poisoned = Vec::new();
    for mut record in records {
        match Delivery::decode(&record.body) {
            Ok(delivery) => {
                record.body = String::new();
                let of = (delivery.subscription.clone(), delivery.subscription_uid);
                groups.entry(of).or_default().push(Received { record, delivery, state: None });
            }
            Err(error) => {
                let settled = settle::poison(context, &record, &error).await;
                poisoned.push((record, settled));
            }
        }
    }
    Batch { groups: groups.into_values().collect(), poisoned }
}

async fn one_group(group: Vec<Received>, report: &Report<'_>) -> Vec<Late> {
    let records = without_bodies(group.iter().map(|received| &received.record));
    let done = guarded("handling records", group::work(group, report)).await;
    match done.and_then(|done| done) {
        Ok(late) => late,
        Err(error) => {
            report.all_failed(records, &error).await;
            Vec::new()
        }
    }
}

#[derive(Default)]
struct Deletable {
    ids: HashSet<Arc<str>>,
    not_deleted: Vec<Record>,
}

/// Collects settled records until all are settled. Deletes them early if that takes long.
async fn collect(context: &Context, mut settled: UnboundedReceiver<Record>) -> Deletable {
    let mut deletable = Deletable::default();
    loop {
        match tokio::time::timeout(DELETE_AFTER, settled.recv()).await {
            Ok(Some(record)) => {
                deletable.ids.insert(Arc::clone(&record.message_id));
                deletable.not_deleted.push(record);
            }
            Ok(None) => return deletable,
            Err(_) => deletable.delete(context).boxed().await,
        }
    }
}

impl Deletable {
    /// Deletes the records. Flushes their metrics first: deleted records never come back to be
    /// counted.
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
                // Lambda deletes them once it has the reply.
                tracing::warn!(error = %chain(&error), "failed to delete settled records early; Lambda deletes them later");
            }
        }
    }
}
