//! expand: makes the deliveries of stored publishes, piece by piece.
//!
//! ingest stores a publish that makes more deliveries than a request has time for, and sends a
//! message for each piece. The stored publish is matched already, so expand only sends.

use std::{sync::Arc, time::Duration};

use gridpost_core::{
    delivery::queue::Queue,
    error::chain,
    metric, poison,
    publish::{
        fan_out::{self, Piece},
        pack::{Packed, UnsentDelivery},
    },
    time::Timestamp,
};
use gridpost_ingest::publish::{DeliverySink, enqueue_wave, send_each, send_pieces, waves};
use gridpost_ports::{Clock, Meter, Outgoing, Payloads, QueueSender, Record, Result};

/// How long the SQS calls for one wave take at most, including the retry: no wave begins that could
/// not be finished.
const WAVE_WAIT: Duration = Duration::from_secs(13);

/// The ports of expand.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub sender: Arc<dyn QueueSender>,
    /// Holds the stored publishes, and events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    /// 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
}

impl Context {
    fn sink(&self) -> DeliverySink<'_> {
        DeliverySink { sender: &*self.sender, payloads: &*self.payloads }
    }
}

/// Sends the deliveries of each record's piece. Returns the ids of the messages that SQS keeps.
///
/// SQS deletes a record once all of its deliveries are in the dispatch queue, or a new message
/// stands for the rest. A crash before that sends some of them again, with the same ids.
pub async fn expand(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let mut kept = Vec::new();
    for record in records {
        let expanded = match take(context, &record).await {
            Ok(Some((piece, packed))) => expand_piece(context, &piece, &packed, deadline).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = expanded {
            tracing::warn!(
                message.id = %record.message_id,
                error = %chain(&error),
                "a piece of a publish was not expanded and comes back",
            );
            // One failure is normal.
            if record.receive_count > 1 {
                context.meter.count(metric::KEPT_COUNT, &[], 1);
            }
            kept.push(record.message_id.to_string());
        }
    }
    kept
}

/// Reads a record's piece and publish. Returns `None` if retrying can't help.
async fn take(context: &Context, record: &Record) -> Result<Option<(Piece, Packed<'static>)>> {
    let piece = match Piece::decode(&record.body) {
        Ok(piece) => piece,
        Err(error) => return poison(context, record, &chain(&error)).await,
    };
    let Some(object) = context.payloads.get(&fan_out::key(piece.publish)).await? else {
        return poison(context, record, "its publish is not in the payload bucket").await;
    };
    match fan_out::decode(&object, context.queue_message_bytes_max) {
        Ok(packed) => Ok(Some((piece, packed))),
        Err(error) => poison(context, record, &chain(&error)).await,
    }
}

async fn expand_piece(
    context: &Context,
    piece: &Piece,
    packed: &Packed<'_>,
    deadline: Timestamp,
) -> Result<()> {
    let unsent = piece.unsent(packed);
    let rest = |wave: &[UnsentDelivery<'_>]| vec![piece.rest(wave[0].place)];
    for (number, wave) in waves(&unsent).into_iter().enumerate() {
        let left = context.clock.left(deadline);
        // Always send the first wave: otherwise a slow run could requeue the piece forever.
        if number > 0 && left < WAVE_WAIT {
            return send_pieces(context.sink(), packed.topic(), rest(wave)).await;
        }
        match enqueue_wave(context.sink(), packed, wave, |_| Vec::new()).await {
            Ok(()) => {}
            Err(error) if number == 0 => return Err(error),
            Err(error) => {
                // A message for the rest alone: the waves before it are not sent again.
                tracing::warn!(error = %chain(&error), "the rest of a piece is put off");
                return send_pieces(context.sink(), packed.topic(), rest(wave)).await;
            }
        }
    }
    Ok(())
}

async fn poison<T>(context: &Context, record: &Record, reason: &str) -> Result<Option<T>> {
    tracing::error!(
        message.id = %record.message_id,
        reason,
        "a message is no piece of a stored publish and goes to the poison queue; look at it there",
    );
    let message = |body: &&str| Outgoing::new((*body).to_owned(), poison::group(Queue::FanOut), 0);
    send_each(&*context.sender, Queue::Poison, vec![record.body.as_str()], message).await?;
    context.meter.count(metric::POISON_COUNT, &[("Queue", "FanOut")], 1);
    Ok(None)
}
