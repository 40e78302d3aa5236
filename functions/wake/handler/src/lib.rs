//! wake: sends parked deliveries that are due soon back to their retry queue, once a minute.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    future::join_all,
    stream::{self, StreamExt},
};
use gridpost_core::{
    delivery::{
        parking::{self, Parked},
        queue::Queue,
    },
    error::chain,
};
use gridpost_ports::{Clock, Outgoing, ParkingLot, PortError, QueueSender, WakeCursor};

/// What wake needs of the world.
pub struct Context {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Puts messages into the retry queues.
    pub sender: Arc<dyn QueueSender>,
    /// The parked deliveries.
    pub parking: Arc<dyn ParkingLot>,
    /// How far wake has come.
    pub cursor: Arc<dyn WakeCursor>,
}

/// Where wake begins when it has never run: deliveries parked longer ago than this do not exist
/// then.
const FIRST_LOOK_BACK_MINUTES: i64 = 60;

/// Messages that one call to SQS takes.
const BATCH: usize = 10;

/// Calls that are under way together.
const BATCHES_AT_ONCE: usize = 64;

/// Sends every parked delivery that is due by the end of the next minute back to its retry queue,
/// with the rest of its wait as delay, and then removes it. A crash between the two sends it again:
/// a duplicate, never a loss. Minutes that an earlier run did not finish, or that no run has seen,
/// are made up for. Answers how many were sent.
///
/// # Errors
///
/// Parked deliveries, or how far wake has come, could not be read or written. What could be read
/// was sent, and the next run begins where this one failed.
pub async fn wake(context: &Context) -> Result<usize, PortError> {
    let this_minute = context.clock.now().as_minutes();
    let noted = context.cursor.load().await?;
    let from = noted.unwrap_or(this_minute - FIRST_LOOK_BACK_MINUTES);
    let mut sent = 0;
    let mut first_unfinished = this_minute + 1;
    let mut failed = None;
    for minute in from..=this_minute + 1 {
        let finished = match context.parking.due_in(minute).await {
            Ok(due) => {
                let all = due.len();
                let done = send_back(context, due).await;
                sent += done;
                done == all
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        if !finished {
            first_unfinished = first_unfinished.min(minute);
        } else if minute < this_minute && first_unfinished > minute {
            // After a long outage one run may not get through: the next one goes on from here.
            context.cursor.save(minute + 1).await?;
        }
    }
    context.cursor.save(first_unfinished).await?;
    failed.map_or(Ok(sent), Err)
}

/// Sends parked deliveries to their queues; what could not be sent stays parked.
async fn send_back(context: &Context, due: Vec<Parked>) -> usize {
    let mut shards: BTreeMap<usize, Vec<Parked>> = BTreeMap::new();
    for parked in due {
        shards.entry(parked.shard).or_default().push(parked);
    }
    let mut batches = Vec::new();
    for (shard, mut all) in shards {
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(BATCH));
            batches.push((shard, std::mem::replace(&mut all, rest)));
        }
    }
    let sent = stream::iter(batches).map(|(shard, batch)| send_batch(context, shard, batch));
    sent.buffer_unordered(BATCHES_AT_ONCE).fold(0, |sum, sent| async move { sum + sent }).await
}

async fn send_batch(context: &Context, shard: usize, batch: Vec<Parked>) -> usize {
    let now = context.clock.now();
    let messages = batch.iter().map(|parked| Outgoing {
        body: parked.body.clone(),
        group: parked.group.clone(),
        delay_s: parking::delay_s(parked.due.since(now)),
    });
    let answers = context.sender.send(Queue::Retry(shard), messages.collect()).await;
    let (mut sent, mut kept) = (Vec::new(), 0);
    for (index, parked) in batch.iter().enumerate() {
        match answers.get(index) {
            Some(Ok(())) => sent.push(remove(context, parked)),
            _ => kept += 1,
        }
    }
    if kept > 0 {
        tracing::warn!(deliveries = kept, "parked deliveries were not sent back; next minute");
    }
    join_all(sent).await.len()
}

/// Removes what was sent. What can't be removed in two tries is left to expire: sending it again
/// every minute until it can would be worse.
async fn remove(context: &Context, parked: &Parked) {
    for last in [false, true] {
        match context.parking.remove(parked).await {
            Ok(()) => return,
            Err(error) if last => {
                tracing::warn!(delivery.id = %parked.id, error = %chain(&error), "sent, not removed");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use gridpost_core::time::Timestamp;
    use gridpost_testkit::{deployment::Deployment, faults::Plan};

    use super::*;

    /// What became of a run in minute 103, where minute 100 was noted last.
    struct Woken {
        answer: Result<usize, PortError>,
        /// Each minute that it noted, in order.
        noted: Vec<i64>,
        deployment: Deployment,
    }

    /// A run for deliveries that are due in the minutes 100 and 102, of whose calls to the parking lot
    /// those of these numbers fail.
    async fn woken(failing: &[u64]) -> Woken {
        let at_minute = |minute: i64| Timestamp::from_millis(minute * 60_000);
        let deployment = Deployment::at(at_minute(103));
        let tables = Arc::clone(&deployment.tables);
        WakeCursor::save(&*tables, 100).await.expect("noted");
        for minute in [100, 102] {
            let parked = Parked {
                id: uuid::Uuid::from_u128(1),
                due: at_minute(minute),
                shard: 0,
                group: "g".to_owned(),
                body: "{}".to_owned(),
            };
            tables.park(&parked).await.expect("parked");
        }
        let noted_in = |tables: &dyn WakeCursor| {
            let noted = tables.load().now_or_never().expect("a fake answers at once");
            noted.expect("readable").expect("a minute")
        };
        // The first call reads, each other one writes: what one has written is seen before the next.
        let noted = Arc::<Mutex<Vec<i64>>>::default();
        for number in 3..20 {
            let (noted, tables) = (Arc::clone(&noted), Arc::clone(&tables));
            deployment.injector.interfere(number, move || {
                noted.lock().expect("no panic while held").push(noted_in(&*tables));
            });
        }
        let context = Context {
            clock: Arc::clone(&deployment.clock) as _,
            sender: Arc::clone(&deployment.queues) as _,
            parking: deployment.apart(&tables, Plan::failing(failing.iter().copied())),
            cursor: deployment.of(&tables),
        };
        let answer = wake(&context).await;
        let mut noted = noted.lock().expect("no panic while held").clone();
        if deployment.injector.made() > 1 {
            noted.push(noted_in(&*tables));
        }
        Woken { answer, noted, deployment }
    }

    #[tokio::test(start_paused = true)]
    async fn each_minute_that_is_made_up_for_is_noted_at_once() {
        let Woken { answer, noted, deployment } = woken(&[]).await;
        assert_eq!(answer.expect("woken"), 2);
        assert_eq!(noted, [101, 102, 103, 104]);
        assert_eq!(deployment.queues.sent_to(Queue::Retry(0)).len(), 2);
        assert_eq!(deployment.tables.parked_ids().len(), 0, "what was sent is parked no more");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_run_begins_at_the_minute_that_failed() {
        // Minute 100 is read and what was in it removed; then minute 101 can't be read.
        let Woken { answer, noted, deployment } = woken(&[3]).await;
        assert!(answer.is_err());
        assert_eq!(noted, [101, 101]);
        let sent = deployment.queues.sent_to(Queue::Retry(0)).len();
        assert_eq!(sent, 2, "what could be read was sent");
    }
}
