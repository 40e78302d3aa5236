//! Wires up and runs wake.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    parking::ParkingTable,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_runtime::{config, system::SystemClock, telemetry::start_logging};
use gridpost_wake_handler::{Context, wake};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let clients = Clients::from_env()?;
    let table = config::text("GRIDPOST_STATE_TABLE")?;
    let parking = Arc::new(ParkingTable::new(clients.dynamodb(), table));
    let context = Context {
        clock: Arc::new(SystemClock),
        sender: Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?)),
        parking: Arc::clone(&parking) as _,
        cursor: parking,
    };
    let context = &context;
    run(service_fn(move |_schedule: LambdaEvent<Value>| async move {
        let sent = wake(context).await?;
        Ok::<_, Error>(json!({ "sent": sent }))
    }))
    .await
}
