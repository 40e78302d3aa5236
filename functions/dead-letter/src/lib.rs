//! dead-letter: writes ended deliveries to their dead-letter destinations.
//!
//! dispatch sends what ended into the dead-letter queue with a delay (five minutes), so that what
//! ended together arrives together; [`gather`] makes one object of what shares a subscription, and
//! [`notify`] tells of it.

pub mod gather;
pub mod notify;

use std::{sync::Arc, time::Duration};

use gridpost_ports::{Bucket, Clock, Meter, Payloads, QueueReceiver, QueueSender};

/// What dead-letter needs of the world, made once for the life of the function.
pub struct Context {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Puts messages into the poison queue.
    pub sender: Arc<dyn QueueSender>,
    /// Hides messages whose destination refuses.
    pub receiver: Arc<dyn QueueReceiver>,
    /// Where objects are stored.
    pub bucket: Arc<dyn Bucket>,
    /// Events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    /// Counts.
    pub meter: Arc<dyn Meter>,
    /// Tells of what is written, where somebody is to be told.
    pub notifier: Option<notify::Notifier>,
    /// From when a delivery ended until it is dropped because its destination refuses. Event Grid:
    /// 4 hours.
    pub give_up_after: Duration,
}
