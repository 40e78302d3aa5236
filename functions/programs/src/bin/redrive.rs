//! Wires up and runs redrive.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    s3::{PayloadBucket, S3Bucket},
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::delivery::queue::Queue;
use gridpost_redrive::{Context, work};
use gridpost_runtime::{
    config, lambda,
    system::SystemClock,
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let queues = Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?));
    let (config_table, state_table) = (config::config_table()?, config::state_table()?);
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        letters: Arc::new(S3Bucket::new(clients.s3())),
        redrives: Arc::new(StateTable::new(clients.dynamodb(), state_table)),
        configuration: Arc::new(ConfigurationTable::new(clients.dynamodb(), config_table)),
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        meter: Arc::clone(&meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
    };
    let work = |records, deadline| work(&context, records, deadline);
    lambda::serve_queue(&meter, Queue::Redrive, work).await
}
