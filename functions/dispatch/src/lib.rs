//! dispatch: makes the delivery attempts.
//!
//! It consumes the dispatch queue (first attempts only), the retry queues (everything later), and the slow
//! queue (what is held back for slow endpoints). A
//! batch takes six steps: [`handler`] decodes it, [`load`] reads configuration and state, the
//! core's [`plan`](gridpost_core::delivery::plan) chooses what happens to each delivery
//! ([`planned`] reads the health and carries out every plan but an attempt), [`attempt`] makes the
//! requests, [`decide`] chooses what follows, and [`settle`] carries it out: it alone writes states
//! and sends deliveries on. [`group`] takes the deliveries of one event subscription through the steps,
//! [`requests`] those that share a request. The steps pass [`loaded`]'s data on.
//!
//! [`bisect`] splits refused batches, [`acquire`] gets what an attempt needs besides permission,
//! [`health`] caches endpoints' health, [`slow_endpoint`] bounds the slots of slow endpoints,
//! [`rate`] enforces the rates that endpoints allow, [`late_response`] listens for responses after
//! 30 s, [`payload`] fetches events that are too large for a message, [`in_flight`] samples how full
//! the queues are, and [`entry`] makes the journal's entries,
//! and [`count`] measures. [`resources`] makes attempts at AWS
//! resources through a port, whose clients are in `gridpost_aws::resources`.

pub mod acquire;
pub mod attempt;
pub mod bisect;
pub mod count;
pub mod decide;
pub mod entry;
#[cfg(test)]
mod fixture_for_tests;
pub mod group;
pub mod handler;
pub mod health;
pub mod in_flight;
pub mod late_response;
pub mod load;
pub mod loaded;
pub mod payload;
pub mod planned;
pub mod rate;
pub mod report;
pub mod requests;
pub mod resources;
pub mod response;
pub mod settle;
pub mod slow_endpoint;

use std::sync::Arc;

use gridpost_core::{
    delivery::plan::Lane,
    retry::{health::Durations, slow_endpoint::SlowEndpointSettings},
};
use gridpost_ports::{
    Clock, DeliveryStates, Dice, EndpointClient, Journal, LateListeners, Meter, ParkingLot,
    Payloads, QueueReceiver, QueueSender, Record, ResourceClient,
    configuration::ConfigurationCache,
};

use health::HealthCache;
use in_flight::InFlight;
use rate::Rates;

/// The ports and caches of dispatch, made once for the life of the function.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub sender: Arc<dyn QueueSender>,
    pub receiver: Arc<dyn QueueReceiver>,
    pub states: Arc<dyn DeliveryStates>,
    pub in_flight: InFlight,
    /// Holds long waits above the in-flight limit.
    pub parking: Arc<dyn ParkingLot>,
    /// Holds events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    pub healths: HealthCache,
    pub rates: Rates,
    pub configuration: ConfigurationCache,
    pub listeners: Arc<dyn LateListeners>,
    pub client: Arc<dyn EndpointClient>,
    pub resources: Arc<dyn ResourceClient>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    pub settings: Settings,
}

impl Context {
    /// Tells the lane from which a record was received.
    pub fn lane_of(&self, record: &Record) -> Lane {
        Lane::of(record.queue, self.settings.sends_to_slow)
    }
}

/// The deployment's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long outcomes put an endpoint on probation.
    pub probation: Durations,
    /// How many retry queues there are, 1 to 32.
    pub retry_shards: usize,
    /// Whether what is held back for slow endpoints goes to the slow queue. If there is one all the same, it
    /// is being emptied.
    pub sends_to_slow: bool,
    /// When endpoints count as slow, and what they may hold then.
    pub lanes: SlowEndpointSettings,
    /// How many invocations for first attempts may listen for late responses at the same time.
    pub first_listeners_max: usize,
    /// The most listeners of each retry queue.
    pub retry_listeners_max: usize,
    /// The most listeners of the slow queue.
    pub slow_listeners_max: usize,
    /// The number of messages in flight in a retry queue above which long waits are parked: 0 to
    /// 120,000.
    pub retry_in_flight_limit: u64,
    pub queue_message_bytes_max: usize,
    /// How long an ended delivery waits for others to share its object: 0 to 900 seconds.
    pub dead_letter_delay_s: u32,
    /// Whether durations of attempts and deliveries are metrics.
    pub latency_metrics: bool,
    /// `Origin` of CloudEvents deliveries, what receivers were asked to consent to.
    pub origin: String,
}
