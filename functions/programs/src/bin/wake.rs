//! Wires up and runs wake.

use std::{sync::Arc, time::Duration};

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    parking::ParkingTable,
    s3::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_runtime::{
    config, lambda,
    system::SystemClock,
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_wake::{Context, Settings, wake};
use lambda_runtime::Error;
use serde_json::{Value, json};

/// The time kept for calls under way before the function's time is up.
const LAST_CALLS: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let context = context(Clients::from_env()?, Arc::clone(&meter))?;
    let context = &context;
    lambda::serve(&meter, move |_schedule: Value, deadline| async move {
        let left = context.clock.left(deadline).saturating_sub(LAST_CALLS);
        let woken = wake(context, context.clock.after(left)).await?;
        Ok::<_, Error>(json!({ "sent": woken.sent, "postponed": woken.postponed }))
    })
    .await
}

fn context(clients: Clients, meter: Arc<EmbeddedMeter>) -> Result<Context, Error> {
    let table = config::state_table()?;
    let parking = Arc::new(ParkingTable::new(clients.dynamodb(), table));
    let configuration = config::config_table()?;
    let subscriptions = Arc::new(ConfigurationTable::new(clients.dynamodb(), configuration));
    let queues = SqsQueues::new(clients.sqs(), QueueUrls::from_env()?);
    let settings = Settings {
        retry_shards: queues.retry_shards(),
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        configuration_kept_for: config::dispatch_keeps_configuration()?,
        configuration_stale_for: config::configuration_stale_for()?,
    };
    Ok(Context {
        clock: Arc::new(SystemClock),
        sender: Arc::new(queues),
        parking: Arc::clone(&parking) as _,
        due: Arc::clone(&parking) as _,
        cursor: parking,
        subscriptions,
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        meter,
        settings,
    })
}
