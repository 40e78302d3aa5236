//! Wires up and runs wake.

use std::{sync::Arc, time::Duration};

use gridpost_aws::{
    Clients,
    parking::ParkingTable,
    payloads::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_ports::{Clock, Meter};
use gridpost_runtime::{
    config,
    system::{self, SystemClock},
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_wake_handler::{Context, Settings, wake};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};

/// What is under way may take so long until the function's time is up.
const LAST_CALLS: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let context = context(Clients::from_env()?, Arc::clone(&meter))?;
    let (context, meter) = (&context, &meter);
    run(service_fn(move |schedule: LambdaEvent<Value>| async move {
        let deadline = system::deadline(schedule.context.deadline, context.clock.now());
        let left = deadline.since(context.clock.now());
        let woken = wake(context, context.clock.now() + left.saturating_sub(LAST_CALLS)).await;
        meter.flush(SystemClock.now());
        let woken = woken?;
        Ok::<_, Error>(json!({ "sent": woken.sent, "postponed": woken.postponed }))
    }))
    .await
}

fn context(clients: Clients, meter: Arc<EmbeddedMeter>) -> Result<Context, Error> {
    let table = config::text("GRIDPOST_STATE_TABLE")?;
    let parking = Arc::new(ParkingTable::new(clients.dynamodb(), table));
    let queues = SqsQueues::new(clients.sqs(), QueueUrls::from_env()?);
    let settings = Settings {
        retry_shards: queues.retry_shards(),
        queue_message_bytes_max: config::parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", 262_144)?,
    };
    Ok(Context {
        clock: Arc::new(SystemClock),
        sender: Arc::new(queues),
        parking: Arc::clone(&parking) as _,
        due: Arc::clone(&parking) as _,
        cursor: parking,
        payloads: Arc::new(PayloadBucket::new(clients, config::text("GRIDPOST_PAYLOAD_BUCKET")?)),
        meter,
        settings,
    })
}
