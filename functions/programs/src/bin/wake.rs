//! Wires up and runs wake.

use std::{sync::Arc, time::Duration};

use gridpost_programs::Started;
use gridpost_runtime::{config, lambda, system::SystemClock};
use gridpost_wake::{Context, Settings, wake};
use lambda_runtime::Error;
use serde_json::{Value, json};

/// The time kept for calls under way before the function's time is up.
const LAST_CALLS: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let context = &context(&started)?;
    lambda::serve(&started.meter, move |_schedule: Value, deadline| async move {
        let left = context.clock.left(deadline).saturating_sub(LAST_CALLS);
        let woken = wake(context, context.clock.after(left)).await?;
        Ok::<_, Error>(json!({ "sent": woken.sent, "postponed": woken.postponed }))
    })
    .await
}

fn context(started: &Started) -> Result<Context, Error> {
    let (parking, queues) = (started.parking()?, started.queues()?);
    let settings = Settings {
        retry_shards: queues.retry_shards(),
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        configuration_kept_for: config::dispatch_keeps_configuration()?,
        configuration_stale_for: config::configuration_stale_for()?,
    };
    Ok(Context {
        clock: Arc::new(SystemClock),
        sender: queues,
        parking: Arc::clone(&parking) as _,
        due: Arc::clone(&parking) as _,
        cursor: parking,
        configuration: Arc::new(started.configuration()?),
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        settings,
    })
}
