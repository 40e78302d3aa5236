//! Wires up and runs dead-letter.

use std::sync::{Arc, atomic::AtomicBool};

use gridpost_aws::s3::S3Bucket;
use gridpost_core::delivery::queue::Queue;
use gridpost_dead_letter::{Context, gather, notify::Notifier};
use gridpost_programs::{Started, cached};
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
        bucket: Arc::new(S3Bucket::new(started.clients.s3())),
        notifier: notifier(&started)?,
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        give_up_after: config::dead_letter_give_up_after()?,
    };
    let work = |records, _deadline| gather(&context, records);
    lambda::serve_queue(&started.meter, Queue::DeadLetter, work).await
}

fn notifier(started: &Started) -> Result<Option<Notifier>, Error> {
    let Some(topic) = config::dead_letter_topic()? else { return Ok(None) };
    Ok(Some(Notifier {
        topic,
        configuration: cached(Arc::new(started.configuration()?))?,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        has_complained: AtomicBool::new(false),
    }))
}
