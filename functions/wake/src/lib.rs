//! wake: sends parked deliveries that are due soon back to their retry queue, once a minute.

use std::sync::Arc;

use futures::future::join_all;
use gridpost::{
    delivery::parking::{self, Parked},
    ports::{Clock, Outgoing, ParkingLot, PortError, Queue, QueueSender, WakeCursor},
    telemetry::chain,
};

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
        }
    }
    context.cursor.save(first_unfinished).await?;
    failed.map_or(Ok(sent), Err)
}

/// Sends parked deliveries to their queues; what could not be sent stays parked.
async fn send_back(context: &Context, due: Vec<Parked>) -> usize {
    let now = context.clock.now();
    let all = join_all(due.into_iter().map(|parked| async move {
        let message = Outgoing {
            body: parked.body.clone(),
            group: parked.group.clone(),
            delay_s: parking::delay_s(parked.due.since(now)),
        };
        let sent = context.sender.send(Queue::Retry(parked.shard), vec![message]).await.pop();
        if let Some(Ok(())) = sent {
            remove(context, &parked).await;
            return true;
        }
        tracing::error!(delivery.id = %parked.id, "a parked delivery was not sent back; next minute");
        false
    }));
    all.await.into_iter().filter(|sent| *sent).count()
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
