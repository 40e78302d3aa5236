//! Receipts of received messages.

use gridpost_core::{delivery::queue::Queue, time::Timestamp};

use super::{Carried, Received};

/// A received message with a receipt of its own; `carried` is still empty.
pub(super) fn received(
    queue: Queue,
    id: u64,
    receipt: u64,
    body: String,
    count: u32,
    at: Timestamp,
) -> Received {
    let message_id = format!("{queue:?}-{id:016x}");
    let receipt = format!("{id}/{receipt}");
    Received { message_id, receipt, body, count, at, carried: Carried::default() }
}

/// The message of a receipt, and the receipt's number.
pub(super) fn read_receipt(receipt: &str) -> Option<(u64, u64)> {
    let (id, number) = receipt.split_once('/')?;
    Some((id.parse().ok()?, number.parse().ok()?))
}
