//! Wires up and runs ingest.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    payloads::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_ingest_handler::{
    Authorization, Context,
    expand::expand,
    gateway::{GatewayEvent, Invocation, Reply, invocation},
    handler::handle,
};
use gridpost_ports::{Clock, Meter, configuration::ConfigurationCache};
use gridpost_runtime::{
    config::{self, configuration_limits},
    lambda,
    system::{self, SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let context = context(Arc::clone(&meter)).await?;
    let (context, meter) = (&context, &meter);
    // Without the runtime's own span for each invocation: no line of ours shows it.
    lambda::run(Runtime::new(service_fn(move |event: LambdaEvent<GatewayEvent>| async move {
        let deadline = system::deadline(event.context.deadline, SystemClock.now());
        let reply = match invocation(event.payload)? {
            Invocation::Publish(request) => Reply::Publish(handle(context, &request).await),
            Invocation::Expand(records) => {
                Reply::Expand(expand(context, records, deadline).await.into_iter().collect())
            }
        };
        meter.flush(SystemClock.now());
        Ok::<_, Error>(reply)
    })))
    .await
}

async fn context(meter: Arc<EmbeddedMeter>) -> Result<Context, Error> {
    let clients = Clients::from_env()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config_table = config::text("GRIDPOST_CONFIG_TABLE")?;
    let configuration = ConfigurationTable::new(clients.dynamodb(), config_table);
    configuration.connect().await;
    let table = Arc::new(configuration);
    let authorization = config::parsed_or("GRIDPOST_PUBLISH_AUTHORIZATION", Authorization::Keys)?;
    let (dice, limits) = (Arc::new(SystemDice), configuration_limits()?);
    let cache = ConfigurationCache::new(Arc::clone(&table) as _, Arc::clone(&clock), dice, limits);
    Ok(Context {
        configuration: match authorization {
            Authorization::Keys => cache.with_keys(table),
            // The keys of topics open nothing here.
            Authorization::Gateway(_) => cache,
        },
        clock,
        dice: Arc::new(SystemDice),
        sender: Arc::new(SqsQueues::new(clients.sqs(), QueueUrls::from_env()?)),
        payloads: Arc::new(PayloadBucket::new(clients, config::text("GRIDPOST_PAYLOAD_BUCKET")?)),
        meter,
        latency_metrics: config::parsed_or("GRIDPOST_LATENCY_METRICS", false)?,
        authorization,
        queue_message_bytes_max: config::parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", 262_144)?,
        inline_fan_out: config::parsed_or("GRIDPOST_INLINE_FAN_OUT", 10_000)?,
        piece_deliveries_max: PIECE_DELIVERIES_MAX,
    })
}
