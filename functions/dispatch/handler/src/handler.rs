//! A batch of records in, the records that SQS keeps out.

use std::{collections::HashMap, panic::AssertUnwindSafe, time::Duration};

use futures::{
    FutureExt,
    future::{join_all, select},
    pin_mut,
};
use gridpost_core::{
    delivery::{
        batch::{self, Load},
        queue::Queue,
        rate::Turn,
    },
    error::chain,
    retry::outcome::RESPONSE_WAIT,
    time::Timestamp,
};
use gridpost_ports::PortError;
use uuid::Uuid;

use crate::{
    Context,
    attempt::{Made, attempt},
    late::{self, Late},
    prepare::{Prepared, Work, prepare},
    rate,
    record::{Fate, Record, Settled},
    settle,
};

/// What settling takes at most after an attempt; nothing is started that could not be finished.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// Settles every record and answers which of them SQS keeps, by message id.
///
/// Lambda deletes each record that the reply does not name. So a record is left out only when its
/// delivery has ended or its successor is in another place; a retry that was hidden until it is due
/// is named. Whatever goes wrong with one record leaves the others alone.
pub async fn handle(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let prepared = records.into_iter().map(|record| async move {
        let kept = record.without_body();
        let prepared = guarded(prepare(context, record)).await.and_then(|prepared| prepared);
        (kept, prepared)
    });
    let mut ready = Vec::new();
    let mut settled: Vec<(Record, Settled)> = Vec::new();
    for (record, prepared) in join_all(prepared).await {
        match prepared {
            Ok(Prepared::Ready(work)) => ready.push(*work),
            Ok(Prepared::Settled(fate)) => settled.push((record, Ok(fate))),
            Err(error) => settled.push((record, Err(error))),
        }
    }
    let mut listening = Vec::new();
    let attempts = requests(ready).into_iter().map(|works| make(context, works, deadline));
    for made in join_all(attempts).await {
        settled.extend(made.settled);
        listening.extend(made.late);
    }
    let (kept, gone) = let_go(context, settled).await;
    if !listening.is_empty() {
        context.meter.flush(context.clock.now());
        delete(context, gone).await;
        listen(context, listening, deadline).await;
    }
    kept
}

/// Groups what may go out together: the same subscription, equally many attempts, no probe.
fn requests(ready: Vec<Work>) -> Vec<Vec<Work>> {
    let mut alone = Vec::new();
    let mut groups: HashMap<(Uuid, u32), Vec<Work>> = HashMap::new();
    for work in ready {
        if work.probes {
            alone.push(vec![work]);
        } else {
            let key = (work.subscription.uid, work.delivery.attempts.made);
            groups.entry(key).or_default().push(work);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, _)| *key);
    alone.extend(groups.into_iter().flat_map(|(_, works)| join(works)));
    alone
}

fn join(works: Vec<Work>) -> Vec<Vec<Work>> {
    let load = |work: &Work| Load {
        events: work.delivery.event_count(),
        bytes: work.delivery.events_bytes(),
    };
    let loads: Vec<_> = works.iter().map(load).collect();
    let Some(first) = works.first() else { return Vec::new() };
    let joined = batch::join(&loads, first.subscription.batching());
    let mut works = works.into_iter();
    joined.into_iter().map(|positions| works.by_ref().take(positions.len()).collect()).collect()
}

/// Makes one request, unless the function would be stopped before it is settled.
async fn make(context: &Context, works: Vec<Work>, deadline: Timestamp) -> Made {
    let records: Vec<_> = works.iter().map(|work| work.record.without_body()).collect();
    let left = deadline.since(context.clock.now());
    let made = if left < RESPONSE_WAIT + SETTLE_WAIT {
        Err(PortError::new("making an attempt", "too little time is left in this invocation"))
    } else {
        guarded(request(context, works)).await.and_then(|made| made)
    };
    made.unwrap_or_else(|error| {
        let failed = |record| (record, Err(PortError::new(error.call, &error.reason)));
        Made { settled: records.into_iter().map(failed).collect(), late: None }
    })
}

/// Makes one request, if its endpoint allows it in this minute.
async fn request(context: &Context, works: Vec<Work>) -> Result<Made, PortError> {
    let slot_at = works.iter().filter_map(|work| work.slot_at).max();
    let turn = match works.first() {
        Some(work) => rate::turn(context, &work.subscription, slot_at).await?,
        None => Turn::Go,
    };
    Ok(match turn {
        Turn::Go => attempt(context, works).await,
        Turn::Wait { until } => rate::wait(context, works, until).await,
    })
}

/// A panic in one record's way must fail that record alone.
async fn guarded<T>(work: impl Future<Output = T>) -> Result<T, PortError> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        let reason = message.unwrap_or_else(|| "a panic".to_owned());
        tracing::error!(reason, "a record's task panicked: a defect of ours");
        PortError::new("settling a record", reason)
    })
}

/// Sorts records into those that SQS keeps, by id, and those that may go.
async fn let_go(context: &Context, settled: Vec<(Record, Settled)>) -> (Vec<String>, Vec<Record>) {
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for (record, settled) in settled {
        match settled {
            Ok(Fate::Delete) => gone.push(record),
            Ok(Fate::Keep) => kept.push(record.message_id),
            Err(error) => {
                tracing::warn!(
                    message.id = %record.message_id,
                    error = %chain(&error),
                    "a record was not settled and comes back",
                );
                settle::come_back(context, &record).await;
                kept.push(record.message_id);
            }
        }
    }
    (kept, gone)
}

/// Deletes what may go now, before a long wait in which the function may die.
async fn delete(context: &Context, gone: Vec<Record>) {
    let mut receipts: HashMap<Queue, Vec<String>> = HashMap::new();
    for record in gone {
        receipts.entry(record.queue).or_default().push(record.receipt);
    }
    for (queue, receipts) in receipts {
        if let Err(error) = context.receiver.delete(queue, receipts).await {
            // Lambda deletes them when the reply is there.
            tracing::warn!(error = %chain(&error), "settled records were not deleted early");
        }
    }
}

/// Listens for late responses as long as the invocation lasts.
async fn listen(context: &Context, listening: Vec<Late>, deadline: Timestamp) {
    let all = join_all(listening.into_iter().map(|late| guarded(late::listen(context, late))));
    let left = deadline.since(context.clock.now()).saturating_sub(SETTLE_WAIT);
    let over = tokio::time::sleep(left);
    pin_mut!(all, over);
    select(all, over).await;
}
