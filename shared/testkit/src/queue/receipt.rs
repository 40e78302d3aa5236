//! What names a message that was handed over.

use gridpost_core::{delivery::queue::Queue, time::Timestamp};

use super::{Carried, Received};

/// A message as it is handed over, with a receipt of its own; what it carries is left open.
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

/// The message that a receipt is of, and the receipt's number.
pub(super) fn read_receipt(receipt: &str) -> Option<(u64, u64)> {
    let (id, number) = receipt.split_once('/')?;
    Some((id.parse().ok()?, number.parse().ok()?))
}
