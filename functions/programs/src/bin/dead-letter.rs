//! Wires up and runs dead-letter.

use std::sync::{Arc, atomic::AtomicBool};

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    s3::{PayloadBucket, S3Bucket},
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::delivery::queue::Queue;
use gridpost_dead_letter::{Context, gather, notify::Notifier};
use gridpost_ports::configuration::ConfigurationCache;
use gridpost_runtime::{
    config::{self, SettingError},
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
    let queues = Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?));
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        bucket: Arc::new(S3Bucket::new(clients.s3())),
        notifier: notifier(&clients)?,
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        meter: Arc::clone(&meter) as _,
        give_up_after: config::dead_letter_give_up_after()?,
    };
    let work = |records, _deadline| gather(&context, records);
    lambda::serve_queue(&meter, Queue::DeadLetter, work).await
}

fn notifier(clients: &Clients) -> Result<Option<Notifier>, SettingError> {
    let Some(topic) = config::dead_letter_topic()? else { return Ok(None) };
    let table = Arc::new(ConfigurationTable::new(clients.dynamodb(), config::config_table()?));
    let (clock, dice) = (Arc::new(SystemClock), Arc::new(SystemDice));
    Ok(Some(Notifier {
        topic,
        configuration: ConfigurationCache::new(table, clock, dice, config::configuration_limits()?),
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        has_complained: AtomicBool::new(false),
    }))
}
