//! Wires up and runs expand.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    s3::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::delivery::queue::Queue;
use gridpost_expand::{Context, expand};
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
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?)),
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        meter: Arc::clone(&meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
    };
    let work = |records, deadline| expand(&context, records, deadline);
    lambda::serve_queue(&meter, Queue::FanOut, work).await
}
