//! Publishes that come with a key, to topics that heed keys.

use gridpost_core::publish::{
    PublishError,
    idempotency::{Keyed, Next, Record},
};
use gridpost_ports::{Kept, PortError};
use uuid::Uuid;

use crate::Context;

/// How often a copy looks again because another one has written meanwhile.
const LOOKS_MAX: u32 = 4;

/// Takes a publish under its key, before anything of it is enqueued; `None` where it was done
/// before, and is to be answered as it was then.
/// It also fails when the table failed twice: the publisher asked for no second delivery, and sends
/// the publish again.
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

/// Records how it went. What can't be recorded is left to the lease: a repetition may then make
/// duplicates. It is no reason to refuse a publish whose deliveries are all in the queue.
pub(crate) async fn end(context: &Context, keyed: &Keyed, begun: Record, is_done: bool) {
    let now = context.clock.now();
    let record = if is_done { begun.done() } else { begun.given_up(now) };
    match save(context, keyed, &record).await {
        Ok(Kept::Written) => {}
        // Its own write, whose answer was lost; or another copy has it, because the lease was over.
        Ok(Kept::Other(_)) => {}
        Err(error) => tracing::warn!(
            %error,
            is_done,
            "a publish was not recorded under its key; a repetition may be delivered again",
        ),
    }
}

/// A call that fails is made once more.
async fn save(context: &Context, keyed: &Keyed, record: &Record) -> Result<Kept, PortError> {
    match context.records.save(keyed.key(), record).await {
        Ok(kept) => Ok(kept),
        Err(error) => {
            tracing::warn!(%error, "a publish was not recorded under its key, it is recorded again");
            context.records.save(keyed.key(), record).await
        }
    }
}
