//! Replaces the fakes' own stores with a real implementation's: the history is recorded as before.
//! The implementation must answer at once; faults of services, such as delivering a message twice,
//! are left out.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{
    DeliveryStates, DueDeliveries, EndpointHealths, LateListeners, ParkingLot, PortError,
    PublishRecords, QueueReceiver, QueueSender, RequestRates, WakeCursor,
};

/// The ports by which the data plane writes to the state table.
pub trait StateStores:
    DeliveryStates
    + EndpointHealths
    + RequestRates
    + ParkingLot
    + DueDeliveries
    + WakeCursor
    + LateListeners
    + PublishRecords
{
}

impl<T> StateStores for T where
    T: DeliveryStates
        + EndpointHealths
        + RequestRates
        + ParkingLot
        + DueDeliveries
        + WakeCursor
        + LateListeners
        + PublishRecords
        + PublishRecords
{
}

/// A message received from such a queue.
#[derive(Clone, Debug)]
pub struct Handed {
    pub message_id: String,
    pub receipt: String,
    pub body: String,
    /// How often it was received, this time included.
    pub count: u32,
}

/// Queues.
#[async_trait]
pub trait MessageStores: QueueSender + QueueReceiver {
    /// Receives up to `most` visible messages.
    async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Handed>, PortError>;

    /// When the next message is visible, or since when the first one is.
    async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError>;
}

/// The result of a future that waits for nothing.
pub(crate) fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("stores in memory answer at once"),
    }
}
