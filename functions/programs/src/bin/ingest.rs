//! Wires up and runs ingest.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    s3::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_ingest::{
    Authorization, Context,
    handler::{handle, not_base64},
};
use gridpost_ports::{Clock, configuration::ConfigurationCache};
use gridpost_runtime::{
    config::{self, configuration_limits},
    gateway, lambda,
    system::{SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let context = context(Arc::clone(&meter)).await?;
    let context = &context;
    lambda::serve(&meter, move |event: gateway::Event, _deadline| async move {
        let respond = move |request| async move { handle(context, &request).await };
        gateway::answer(event, not_base64, respond).await.map_err(Error::from)
    })
    .await
}

async fn context(meter: Arc<EmbeddedMeter>) -> Result<Context, Error> {
    let clients = Clients::from_env()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config_table = config::config_table()?;
    let dynamodb = clients.dynamodb();
    let configuration = ConfigurationTable::new(dynamodb.clone(), config_table);
    configuration.connect().await;
    let table = Arc::new(configuration);
    let authorization = config::publish_authorization()?;
    let (dice, limits) = (Arc::new(SystemDice), configuration_limits()?);
    let cache = ConfigurationCache::new(Arc::clone(&table) as _, Arc::clone(&clock), dice, limits);
    Ok(Context {
        configuration: match authorization {
            Authorization::Keys => cache.with_keys(table),
            Authorization::Gateway(_) => cache,
        },
        clock,
        dice: Arc::new(SystemDice),
        sender: Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?)),
        payloads: Arc::new(PayloadBucket::new(clients, config::payload_bucket()?)),
        records: Arc::new(StateTable::new(dynamodb, config::state_table()?)),
        meter,
        latency_metrics: config::latency_metrics()?,
        authorization,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        inline_fan_out: config::inline_fan_out()?,
        piece_deliveries_max: PIECE_DELIVERIES_MAX,
    })
}
