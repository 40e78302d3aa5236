//! Wires up and runs expand.

use std::sync::Arc;

use gridpost_core::delivery::queue::Queue;
use gridpost_expand::{Context, expand};
use gridpost_programs::Started;
use gridpost_runtime::{config, lambda, system::SystemClock};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: started.queues()?,
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
    };
    let work = |records, deadline| expand(&context, records, deadline);
    lambda::serve_queue(&started.meter, Queue::FanOut, work).await
}
