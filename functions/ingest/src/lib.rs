//! ingest: accepts published events.
//!
//! The way of a request: [`gateway`] takes it out of API Gateway's event, [`route`] finds the
//! topic's name, [`handler`] lets the core authenticate, read, match and pack, and [`enqueue`] puts
//! the deliveries into the dispatch queue. It reads configuration and writes one queue, nothing
//! else; the publisher gets 200 only when every delivery is in the queue.

pub mod enqueue;
pub mod gateway;
pub mod handler;
pub mod route;

use std::sync::Arc;

use gridpost::{
    configuration::ConfigurationCache,
    ports::{Clock, Configuration, Dice, Meter, QueueSender},
};

/// What ingest needs of the world, made once for the life of the function.
pub struct Context {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub dice: Arc<dyn Dice>,
    /// Topics and event subscriptions.
    pub configuration: ConfigurationCache<Arc<dyn Configuration>>,
    /// Puts deliveries into the dispatch queue.
    pub sender: Arc<dyn QueueSender>,
    /// Counts.
    pub meter: Arc<dyn Meter>,
    /// The largest message that the queues take, in bytes: 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
}
