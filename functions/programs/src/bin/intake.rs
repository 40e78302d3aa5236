//! Wires up and runs intake.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    s3::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_intake::{Context, take};
use gridpost_ports::{Clock, configuration::ConfigurationCache};
use gridpost_runtime::{
    config::{self, configuration_limits},
    lambda,
    system::{SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let table = Arc::new(ConfigurationTable::new(clients.dynamodb(), config::config_table()?));
    let (dice, limits) = (Arc::new(SystemDice), configuration_limits()?);
    let context = Context {
        source: config::source()?,
        configuration: ConfigurationCache::new(table, Arc::clone(&clock), dice, limits),
        clock,
        dice: Arc::new(SystemDice),
        sender: Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?)),
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        meter: Arc::clone(&meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        inline_fan_out: config::inline_fan_out()?,
        piece_deliveries_max: PIECE_DELIVERIES_MAX,
    };
    let take = |messages| take(&context, messages);
    lambda::serve_source(&meter, &context.source.queue_arn, take).await
}
