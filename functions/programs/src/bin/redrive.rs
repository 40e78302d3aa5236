//! Wires up and runs redrive.

use std::sync::Arc;

use gridpost_aws::s3::S3Bucket;
use gridpost_core::delivery::queue::Queue;
use gridpost_programs::Started;
use gridpost_redrive::{Context, work};
use gridpost_runtime::{config, lambda, system::SystemClock};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let queues = started.queues()?;
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        letters: Arc::new(S3Bucket::new(started.clients.s3())),
        redrives: started.states()?,
        configuration: Arc::new(started.configuration()?),
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
    };
    let work = |records, deadline| work(&context, records, deadline);
    lambda::serve_queue(&started.meter, Queue::Redrive, work).await
}
