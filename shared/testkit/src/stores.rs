//! Stores of a real implementation in the place of the fakes' own: what happens is noted as ever, and
//! what is asked for comes from there. They must answer at once, and behave: what a service may do
//! besides, such as handing a message over twice, is left out.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{
    DeliveryStates, DueDeliveries, EndpointHealths, LateListeners, ParkingLot, PortError,
    QueueReceiver, QueueSender, RequestRates, WakeCursor,
};

/// What the data plane writes to the state table.
pub trait StateStores:
    DeliveryStates
    + EndpointHealths
    + RequestRates
    + ParkingLot
    + DueDeliveries
    + WakeCursor
    + LateListeners
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
{
}

/// A message as such a queue hands it over.
#[derive(Clone, Debug)]
pub struct Handed {
    /// Its id.
    pub message_id: String,
    /// What hides or deletes it.
    pub receipt: String,
    /// Its body.
    pub body: String,
    /// How often it was received, this time included.
    pub count: u32,
}

/// Queues.
#[async_trait]
pub trait MessageStores: QueueSender + QueueReceiver {
    /// Takes up to `most` visible messages.
    async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Handed>, PortError>;

    /// When the next message is visible, or since when the first one is.
    async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError>;
}

/// What a future answers that waits for nothing.
pub(crate) fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("stores in memory answer at once"),
    }
}
