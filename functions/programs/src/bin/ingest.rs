//! Wires up and runs ingest.

use std::sync::Arc;

use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_ingest::{
    Authorization, Context,
    handler::{handle, not_base64},
};
use gridpost_programs::{Started, cached};
use gridpost_runtime::{
    config, gateway, lambda,
    system::{SystemClock, SystemDice},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let context = &context(&started).await?;
    lambda::serve(&started.meter, move |event: gateway::Event, _deadline| async move {
        let respond = move |request| async move { handle(context, &request).await };
        gateway::answer(event, not_base64, respond).await.map_err(Error::from)
    })
    .await
}

async fn context(started: &Started) -> Result<Context, Error> {
    let table = Arc::new(started.configuration()?);
    table.connect().await;
    let authorization = config::publish_authorization()?;
    let cache = cached(Arc::clone(&table) as _)?;
    Ok(Context {
        configuration: match authorization {
            Authorization::Keys => cache.with_keys(table),
            Authorization::Gateway(_) => cache,
        },
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        sender: started.queues()?,
        payloads: started.payloads()?,
        records: started.states()?,
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        latency_metrics: config::latency_metrics()?,
        authorization,
        origin_secrets: config::origin_secrets()?,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        inline_fan_out: config::inline_fan_out()?,
        piece_deliveries_max: PIECE_DELIVERIES_MAX,
    })
}
