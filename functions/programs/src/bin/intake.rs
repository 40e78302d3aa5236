//! Wires up and runs intake.

use std::sync::Arc;

use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_intake::{Context, take};
use gridpost_programs::{Started, cached};
use gridpost_runtime::{
    config, lambda,
    system::{SystemClock, SystemDice},
};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let context = Context {
        source: config::source()?,
        configuration: cached(Arc::new(started.configuration()?))?,
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        sender: started.queues()?,
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        inline_fan_out: config::inline_fan_out()?,
        piece_deliveries_max: PIECE_DELIVERIES_MAX,
    };
    let take = |messages| take(&context, messages);
    lambda::serve_source(&started.meter, &context.source.queue_arn, take).await
}
