//! Wires up and runs dead-letter.

use std::sync::{Arc, atomic::AtomicBool};

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    payloads::PayloadBucket,
    redrives::RedriveTable,
    s3::S3Bucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::delivery::queue::Queue;
use gridpost_dead_letter_handler::{Context, gather::gather, notify::Notifier, redrive};
use gridpost_ports::{Clock, Configuration, configuration::ConfigurationCache};
use gridpost_runtime::{
    config, lambda,
    sqs::{self, Batch},
    system::{SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let urls = QueueUrls::from_env()?;
    let redrive_queue = urls.redrive.rsplit('/').next().unwrap_or_default().to_owned();
    let queues = Arc::new(SqsQueues::new(clients.sqs(), urls));
    let bucket = Arc::new(S3Bucket::new(clients.s3()));
    let payloads = Arc::new(PayloadBucket::new(clients.clone(), config::payload_bucket()?));
    let (config_table, state_table) = (config::config_table()?, config::state_table()?);
    let queue_message_bytes_max = config::queue_message_bytes_max()?;
    let configuration: Arc<dyn Configuration> =
        Arc::new(ConfigurationTable::new(clients.dynamodb(), config_table));
    let redrives = redrive::Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: Arc::clone(&queues) as _,
        letters: Arc::clone(&bucket) as _,
        redrives: Arc::new(RedriveTable::new(clients.dynamodb(), state_table)),
        configuration: Arc::clone(&configuration),
        payloads: Arc::clone(&payloads) as _,
        meter: Arc::clone(&meter) as _,
        queue_message_bytes_max,
    };
    let limits = config::configuration_limits()?;
    let notifier = config::dead_letter_topic()?.map(|topic| Notifier {
        topic,
        configuration: ConfigurationCache::new(
            configuration,
            Arc::new(SystemClock),
            Arc::new(SystemDice),
            limits,
        ),
        queue_message_bytes_max,
        has_complained: AtomicBool::new(false),
    });
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        bucket,
        payloads,
        meter: Arc::clone(&meter) as _,
        notifier,
        give_up_after: config::dead_letter_give_up_after()?,
    };
    let (context, redrives, redrive_queue) = (&context, &redrives, &redrive_queue);
    lambda::serve(&meter, move |batch: Batch, deadline| async move {
        let queue_of = |name: &str| match name == redrive_queue {
            true => Some(Queue::Redrive),
            false => Some(Queue::DeadLetter),
        };
        let (records, mut reply) = sqs::records(batch.messages, SystemClock.now(), queue_of);
        // Each mapping hands over the messages of one queue.
        let is_redrive = records.first().is_some_and(|record| record.queue == Queue::Redrive);
        reply.extend(match is_redrive {
            true => redrive::work(redrives, records, deadline).await,
            false => gather(context, records).await,
        });
        Ok::<_, Error>(reply)
    })
    .await
}
