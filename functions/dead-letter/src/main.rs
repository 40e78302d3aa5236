//! Wires up and runs dead-letter.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    payloads::PayloadBucket,
    redrives::RedriveTable,
    s3::S3Bucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_dead_letter_handler::{
    Context,
    gather::{Record, gather},
    notify::Notifier,
    redrive,
};
use gridpost_ports::{Clock, Configuration, Meter, configuration::ConfigurationCache};
use gridpost_runtime::{
    config,
    system::{self, SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let urls = QueueUrls::from_env()?;
    let redrive_queue = name_in(&urls.redrive).to_owned();
    let queues = Arc::new(SqsQueues::new(clients.sqs(), urls));
    let bucket = Arc::new(S3Bucket::new(clients.s3()));
    let payload_bucket = config::text("GRIDPOST_PAYLOAD_BUCKET")?;
    let payloads = Arc::new(PayloadBucket::new(clients.clone(), payload_bucket));
    let (config_table, state_table) =
        (config::text("GRIDPOST_CONFIG_TABLE")?, config::text("GRIDPOST_STATE_TABLE")?);
    let queue_message_bytes_max = config::parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", 262_144)?;
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
    let topic: String = config::parsed_or("GRIDPOST_DEAD_LETTER_TOPIC", String::new())?;
    let limits = config::configuration_limits()?;
    let notifier = (!topic.is_empty()).then(|| Notifier {
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
    let give_up_s = config::parsed_or("GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS", 4 * 60 * 60)?;
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        bucket,
        payloads,
        meter: Arc::clone(&meter) as _,
        notifier,
        give_up_after: Duration::from_secs(give_up_s),
    };
    let (context, redrives, meter, redrive_queue) = (&context, &redrives, &meter, &redrive_queue);
    run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let deadline = system::deadline(event.context.deadline, SystemClock.now());
        let mut kept = Vec::new();
        let is_redrive = is_from(&event.payload, redrive_queue);
        let records = records(event.payload, &mut kept);
        kept.extend(match is_redrive {
            true => redrive::work(redrives, records, deadline).await,
            false => gather(context, records).await,
        });
        let reply = reply(kept);
        meter.flush(SystemClock.now());
        Ok::<_, Error>(reply)
    }))
    .await
}

/// The name of a queue, out of its URL or ARN.
fn name_in(queue: &str) -> &str {
    queue.rsplit(['/', ':']).next().unwrap_or_default()
}

/// Whether the event is of the queue of that name: each mapping hands over those of one queue.
fn is_from(event: &SqsEvent, queue: &str) -> bool {
    let source = event.records.first().and_then(|record| record.event_source_arn.as_deref());
    !queue.is_empty() && source.is_some_and(|source| name_in(source) == queue)
}

/// Turns the Lambda event into records.
fn records(event: SqsEvent, kept: &mut Vec<String>) -> Vec<Record> {
    let mut records = Vec::new();
    for message in event.records {
        let id = message.message_id.clone();
        match record(message) {
            Some(record) => records.push(record),
            None => {
                tracing::error!(message.id = ?id, "a record without a receipt is kept");
                kept.extend(id);
            }
        }
    }
    records
}

/// Turns kept ids into Lambda's reply. They are copied from the event: one that Lambda does not know
/// would fail the whole batch.
fn reply(kept: Vec<String>) -> SqsBatchResponse {
    let mut reply = SqsBatchResponse::default();
    for id in kept {
        let mut failure = BatchItemFailure::default();
        failure.item_identifier = id;
        reply.batch_item_failures.push(failure);
    }
    reply
}

/// SQS always gives id and receipt; a record without them could not be settled in any way.
fn record(message: SqsMessage) -> Option<Record> {
    let count = message.attributes.get("ApproximateReceiveCount");
    Some(Record {
        message_id: message.message_id?,
        receipt: message.receipt_handle?,
        body: message.body.unwrap_or_default(),
        receive_count: count.and_then(|count| count.parse().ok()).unwrap_or(1),
    })
}
