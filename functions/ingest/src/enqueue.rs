//! Puts the deliveries of one publish into the dispatch queue.

use futures::future::join_all;
use gridpost::{
    delivery::claim,
    ports::{Outgoing, Payloads, PortError, Queue, QueueSender},
    publish::pack::{Packed, Parcel},
};

use crate::Context;

/// Most deliveries that are sent at once: fifty batch requests of SQS.
const WAVE_PARCELS_MAX: usize = 500;

/// Most bytes that are sent at once, but for one delivery that is larger: what bounds the memory of
/// a publish to hundreds of subscriptions.
const WAVE_BYTES_MAX: usize = 8 * 1_048_576;

/// Sends every delivery, each failed one once more.
///
/// # Errors
///
/// A delivery could not be sent, twice. Others have been sent then, and nothing takes them back:
/// the publisher's retry makes them duplicates, which are allowed; losses are not.
pub async fn enqueue(context: &Context, packed: &Packed) -> Result<(), PortError> {
    let (sender, payloads) = (&*context.sender, &*context.payloads);
    for wave in waves(&packed.parcels) {
        store(payloads, packed, wave).await?;
        let failed = send(sender, packed, wave.iter().collect()).await;
        if let Some((_, error)) = failed.first() {
            let count = failed.len();
            tracing::warn!(count, %error, "{count} deliveries were not sent, they are sent again");
            let failed = failed.into_iter().map(|(parcel, _)| parcel).collect();
            let failed_again = send(sender, packed, failed).await;
            failed_again.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))?;
        }
    }
    Ok(())
}

/// Stores the events that are too large for a message, before any message asks for them; each
/// failed call is made once more.
async fn store(
    payloads: &dyn Payloads,
    packed: &Packed,
    parcels: &[Parcel],
) -> Result<(), PortError> {
    let stored = parcels.iter().filter(|parcel| parcel.claimed).map(|parcel| async move {
        let object = claim::encode(packed.delivery(parcel).events());
        let key = claim::key(parcel.id);
        match payloads.put(&key, object.clone()).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "events were not stored, they are stored again");
                payloads.put(&key, object).await
            }
        }
    });
    join_all(stored).await.into_iter().collect()
}

/// Sends parcels; answers those that may not have been sent.
async fn send<'a>(
    sender: &dyn QueueSender,
    packed: &Packed,
    parcels: Vec<&'a Parcel>,
) -> Vec<(&'a Parcel, PortError)> {
    let message = |parcel: &&Parcel| Outgoing {
        body: packed.encode(parcel),
        group: parcel.subscription.key.to_string(),
        delay_s: 0,
    };
    let messages = parcels.iter().map(message).collect();
    let mut answers = sender.send(Queue::Dispatch, messages).await.into_iter();
    let failure = |parcel| match answers.next() {
        Some(Ok(())) => None,
        Some(Err(error)) => Some((parcel, error)),
        None => Some((parcel, PortError::new("sending a message", "no answer came"))),
    };
    parcels.into_iter().filter_map(failure).collect()
}

/// Cuts parcels, in order, into what is sent at once.
fn waves(parcels: &[Parcel]) -> Vec<&[Parcel]> {
    let mut waves = Vec::new();
    let mut rest = parcels;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |parcel: &&Parcel| {
            bytes += parcel.encoded_bytes;
            bytes <= WAVE_BYTES_MAX
        };
        let count = rest.iter().take(WAVE_PARCELS_MAX).take_while(fits).count().max(1);
        let (wave, after) = rest.split_at(count);
        waves.push(wave);
        rest = after;
    }
    waves
}
