//! Publishes with an idempotency key, to topics that use keys.

use gridpost_core::publish::{
    PublishError,
    idempotency::{Keyed, Next, Record},
};
use gridpost_ports::{Kept, Result};
use uuid::Uuid;

use crate::Context;

/// How often a conditional write is tried if another copy has written first.
const LOOKS_MAX: u32 = 4;

/// Records a publish under its key before it is enqueued. Returns `None` if it was done before, and
/// is only to be answered.
/// Fails if the table fails twice: the publisher asked for no duplicates, and can retry.
pub(crate) async fn begin(
    context: &Context,
    keyed: &Keyed,
    by: Uuid,
) -> Result<Option<Record>, PublishError> {
    let (clock, mut stored) = (&context.clock, None);
    for _ in 0..LOOKS_MAX {
        let record = match keyed.next(stored.as_ref(), by, clock.now(), clock.pace())? {
            Next::Begin(record) => record,
            Next::Begun(record) => return Ok(Some(record)),
            Next::Repeated => {
                tracing::info!(
                    "a publish was repeated under its key: answered, not delivered again"
                );
                return Ok(None);
            }
        };
        let kept = save(context, keyed, &record).await;
        match kept.map_err(|error| PublishError::Unavailable(error.into()))? {
            Kept::Written => {
                return Ok(Some(Record { revision: record.revision + 1, ..record }));
            }
            Kept::Other(other) => stored = other,
        }
    }
    Err(PublishError::UnderWay { retry_after_s: 1 })
}

/// Records the result. If that fails, the lease expires, and a repetition may make duplicates: that
/// is no reason to refuse a publish whose deliveries are all in the queue.
pub(crate) async fn end(context: &Context, keyed: &Keyed, begun: Record, is_done: bool) {
    let now = context.clock.now();
    let record = if is_done { begun.done() } else { begun.given_up(now) };
    match save(context, keyed, &record).await {
        // `Other`: its own write, whose answer was lost, or another copy's after the lease.
        Ok(Kept::Written | Kept::Other(_)) => {}
        Err(error) => tracing::warn!(
            %error,
            is_done,
            "a publish was not recorded under its key; a repetition may be delivered again",
        ),
    }
}

/// Saves the record. Retries a failed call once.
async fn save(context: &Context, keyed: &Keyed, record: &Record) -> Result<Kept> {
    match context.records.save(keyed.key(), record).await {
        Ok(kept) => Ok(kept),
        Err(error) => {
            tracing::warn!(%error, "a publish was not recorded under its key, it is recorded again");
            context.records.save(keyed.key(), record).await
        }
    }
}
