//! Wires up and runs dead-letter.

use std::{sync::Arc, time::Duration};

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use gridpost::{
    aws::{
        Clients,
        payloads::PayloadBucket,
        s3::S3Bucket,
        sqs::{QueueUrls, SqsQueues},
    },
    config,
    ports::{Clock, Meter},
    system::SystemClock,
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_dead_letter::{
    Context,
    gather::{Record, gather},
};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let meter = Arc::new(EmbeddedMeter::default());
    let queues = Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?));
    let give_up_s = config::parsed_or("GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS", 4 * 60 * 60)?;
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::clone(&queues) as _,
        receiver: queues,
        bucket: Arc::new(S3Bucket::new(clients.s3())),
        payloads: Arc::new(PayloadBucket::new(clients, config::text("GRIDPOST_PAYLOAD_BUCKET")?)),
        meter: Arc::clone(&meter) as _,
        give_up_after: Duration::from_secs(give_up_s),
    };
    let (context, meter) = (&context, &meter);
    run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let reply = answer(context, event.payload).await;
        meter.flush(SystemClock.now());
        Ok::<_, Error>(reply)
    }))
    .await
}

/// Turns the Lambda event into records and the kept ids into Lambda's reply. Ids are copied from the
/// event: one that Lambda does not know would fail the whole batch.
async fn answer(context: &Context, event: SqsEvent) -> SqsBatchResponse {
    let records = event.records.into_iter().filter_map(record).collect();
    let mut reply = SqsBatchResponse::default();
    for id in gather(context, records).await {
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
