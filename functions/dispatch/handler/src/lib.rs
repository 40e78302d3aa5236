//! dispatch: makes the attempts.
//!
//! It consumes the dispatch queue (first attempts only) and the retry queues (everything later). A batch
//! takes six steps, each readable alone: [`receive`] decodes it, [`load`] reads what is known, the core's
//! [`plan`](gridpost_core::delivery::plan) chooses what becomes of each delivery ([`planned`] carries out what is
//! no attempt), [`attempt`] makes the requests, [`decide`] says what follows, [`settle`] carries it out and is the
//! only writer. [`handler`] takes a batch through them, [`group`] the deliveries of one event subscription,
//! [`requests`] those that share a request; [`in_hand`] is the data that they hand on.
//!
//! Beside them: [`acquire`] gets what an attempt needs besides permission, [`health`] keeps what is known of
//! endpoints, [`lane`] keeps slow ones from holding what others need, [`rate`] keeps to what they allow, [`late_response`] hears responses that come after 30 s,
//! [`payload`] fetches what was too large for a message, [`in_flight`] watches how full the queues are,
//! [`attempt_log`] and [`count`] tell of it. [`resources`] attempts deliveries to AWS resources, through a port
//! of their own: this crate has no client of theirs, `gridpost-dispatch-resources` has.

pub mod acquire;
pub mod attempt;
pub mod attempt_log;
pub mod count;
pub mod decide;
pub mod group;
mod guard;
pub mod handler;
pub mod health;
pub mod in_flight;
pub mod in_hand;
pub mod lane;
pub mod late_response;
pub mod load;
pub mod payload;
pub mod planned;
pub mod rate;
pub mod receive;
pub mod record;
pub mod report;
pub mod requests;
pub mod resources;
pub mod settle;
#[cfg(test)]
mod world;

use std::sync::Arc;

use gridpost_core::retry::{health::Durations, lane::LaneSettings};
use gridpost_ports::{
    Clock, DeliveryStates, Dice, EndpointClient, LateListeners, Meter, ParkingLot, Payloads,
    QueueReceiver, QueueSender, ResourceClient, configuration::ConfigurationCache,
};

use health::HealthCache;
use in_flight::InFlight;
use rate::Rates;

/// What dispatch needs of the world, made once for the life of the function.
pub struct Context {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub dice: Arc<dyn Dice>,
    /// Puts messages into queues.
    pub sender: Arc<dyn QueueSender>,
    /// Settles received messages.
    pub receiver: Arc<dyn QueueReceiver>,
    /// The state of failing deliveries.
    pub states: Arc<dyn DeliveryStates>,
    /// How many messages wait in the retry queues.
    pub in_flight: InFlight,
    /// Long waits above the in-flight limit.
    pub parking: Arc<dyn ParkingLot>,
    /// Events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    /// Endpoints' health.
    pub healths: HealthCache,
    /// Counts the requests to endpoints that allow so many in a minute.
    pub rates: Rates,
    /// Topics and event subscriptions.
    pub configuration: ConfigurationCache,
    /// Who listens for late responses.
    pub listeners: Arc<dyn LateListeners>,
    /// Sends requests to endpoints.
    pub client: Arc<dyn EndpointClient>,
    /// Sends events to AWS resources.
    pub resources: Arc<dyn ResourceClient>,
    /// Counts.
    pub meter: Arc<dyn Meter>,
    /// The deployment's settings.
    pub settings: Settings,
}

/// The deployment's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long outcomes put a subscription on probation.
    pub probation: Durations,
    /// How many retry queues there are, 1 to 32.
    pub retry_shards: usize,
    /// When endpoints count as slow, and what they may hold then.
    pub lanes: LaneSettings,
    /// So many runs for first attempts may listen for late responses at the same time.
    pub first_listeners_max: usize,
    /// The same for each retry queue.
    pub retry_listeners_max: usize,
    /// Above so many messages in flight in a retry queue, long waits are parked: 0 to 120,000.
    pub retry_in_flight_limit: u64,
    /// How long an ended delivery waits for others to share its object: 0 to 900 seconds.
    pub dead_letter_delay_s: u32,
    /// Whether first attempts that succeed are logged; all others are.
    pub log_successful_attempts: bool,
    /// Whether durations of attempts and deliveries are metrics.
    pub latency_metrics: bool,
    /// `Origin` of CloudEvents deliveries, what receivers were asked to consent to.
    pub origin: String,
}
