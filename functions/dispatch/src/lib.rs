//! dispatch's program: reads settings, builds the ports, and translates Lambda's events and
//! replies. `gridpost-dispatch-resources` is the same program with AWS resources as endpoints.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    late_listeners::ListenerTable,
    parking::ParkingTable,
    payloads::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::{
    delivery::{queue::Queue, resource_check::Finding},
    retry::{
        health::Durations, lane::LaneSettings, outcome::Outcome, response_text::ResponseBytes,
    },
    subscription::Resource,
    time::Timestamp,
};
use gridpost_dispatch_handler::{
    Context, Settings,
    handler::handle,
    health::HealthCache,
    in_flight::InFlight,
    rate::Rates,
    record::{Batch, Record},
};
use gridpost_ports::{
    Clock, Configuration, Meter, ResourceClient, configuration::ConfigurationCache,
};
use gridpost_runtime::{
    config::{self, configuration_limits},
    lambda,
    system::{self, SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_webhook::http::HttpClient;
use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
use serde::Serialize;

/// How long a check of a resource may wait for its service: a user waits for the answer.
const CHECK_WAIT: Duration = Duration::from_secs(8);

/// Runs the function. `resources` makes the client that delivers to AWS resources.
///
/// # Errors
///
/// The environment lacks a setting, or the Runtime API can't be reached.
pub async fn run(resources: impl FnOnce(&Clients) -> Arc<dyn ResourceClient>) -> Result<(), Error> {
    start_logging();
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let urls = QueueUrls::from_env()?;
    let clients = Clients::from_env()?;
    let resources = resources(&clients);
    let context = context(clients, urls.clone(), resources, Arc::clone(&meter)).await?;
    let (context, urls, meter) = (&context, &urls, &meter);
    // Without the runtime's own span per invocation: no log line shows it.
    lambda::run(Runtime::new(service_fn(move |event: LambdaEvent<Batch>| async move {
        let deadline = system::deadline(event.context.deadline, SystemClock.now());
        let reply = match &event.payload.check {
            Some(resource) => Reply::Check(check(context, resource).await),
            None => Reply::Batch(answer(context, urls, event.payload, deadline).await),
        };
        meter.flush(SystemClock.now());
        Ok::<_, Error>(reply)
    })))
    .await
}

async fn context(
    clients: Clients,
    urls: QueueUrls,
    resources: Arc<dyn ResourceClient>,
    meter: Arc<EmbeddedMeter>,
) -> Result<Context, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let retry_shards = urls.retry.len();
    let queues = Arc::new(SqsQueues::new(clients.sqs(), urls));
    let config_table = config::text("GRIDPOST_CONFIG_TABLE")?;
    let state_table = config::text("GRIDPOST_STATE_TABLE")?;
    let configuration = ConfigurationTable::new(clients.dynamodb(), config_table);
    configuration.connect().await;
    let configuration: Arc<dyn Configuration> = Arc::new(configuration);
    let states = Arc::new(StateTable::new(clients.dynamodb(), state_table.clone()));
    let listeners = Arc::new(ListenerTable::new(clients.dynamodb(), state_table.clone()));
    Ok(Context {
        clock: Arc::clone(&clock),
        dice: Arc::new(SystemDice),
        sender: Arc::clone(&queues) as _,
        in_flight: InFlight::new(Arc::clone(&queues) as _),
        receiver: queues,
        states: Arc::clone(&states) as _,
        parking: Arc::new(ParkingTable::new(clients.dynamodb(), state_table)),
        healths: HealthCache::new(Arc::clone(&states) as _, Arc::new(SystemDice)),
        rates: Rates::new(states),
        listeners,
        configuration: ConfigurationCache::new(
            configuration,
            Arc::clone(&clock),
            Arc::new(SystemDice),
            configuration_limits()?,
        ),
        client: Arc::new(endpoint_client(clock)?),
        resources,
        payloads: Arc::new(PayloadBucket::new(clients, config::text("GRIDPOST_PAYLOAD_BUCKET")?)),
        meter,
        settings: settings(retry_shards)?,
    })
}

fn endpoint_client(clock: Arc<dyn Clock>) -> Result<HttpClient, Error> {
    let kept = config::parsed_or("GRIDPOST_FAILED_RESPONSE_BYTES", ResponseBytes::default())?;
    Ok(HttpClient::new(config::allowed_endpoints()?, clock)?.keeping(kept))
}

fn settings(retry_shards: usize) -> Result<Settings, Error> {
    let own = config::parsed_or("GRIDPOST_PROBATION_SECONDS", "{}".to_owned())?;
    let own: BTreeMap<Outcome, u32> = serde_json::from_str(&own)?;
    Ok(Settings {
        probation: Durations::default().with(own),
        retry_shards,
        lanes: lanes()?,
        first_listeners_max: config::parsed_or("GRIDPOST_FIRST_ATTEMPT_LISTENERS", 55)?,
        retry_listeners_max: config::parsed_or("GRIDPOST_RETRY_LISTENERS", 5)?,
        retry_in_flight_limit: config::parsed_or("GRIDPOST_RETRY_IN_FLIGHT_LIMIT", 60_000)?,
        dead_letter_delay_s: config::parsed_or("GRIDPOST_DEAD_LETTER_DELAY_SECONDS", 300)?,
        log_successful_attempts: config::parsed_or("GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS", false)?,
        latency_metrics: config::parsed_or("GRIDPOST_LATENCY_METRICS", false)?,
        origin: config::parsed_or("GRIDPOST_VALIDATION_ORIGIN", "eventgrid.azure.net".to_owned())?,
    })
}

fn lanes() -> Result<LaneSettings, Error> {
    let own = LaneSettings::default();
    let slow_after_ms = config::parsed_or("GRIDPOST_SLOW_AFTER_MS", 500)?;
    Ok(LaneSettings { slow_after: Duration::from_millis(slow_after_ms), ..own })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply {
    Batch(BatchReply),
    Check(Finding),
}

/// Checks a resource before an event subscription may deliver to it.
async fn check(context: &Context, resource: &Resource) -> Finding {
    let found = tokio::time::timeout(CHECK_WAIT, context.resources.check(resource)).await;
    found.unwrap_or_else(|_| Finding { outcome: Outcome::TimedOut, says: String::new() })
}

/// The reply that names the messages that SQS keeps.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchReply {
    batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItemFailure {
    item_identifier: String,
}

/// Turns the Lambda event into records, and the kept ids into Lambda's reply. Ids are copied from
/// the event: an id that Lambda does not know would fail the whole batch.
async fn answer(
    context: &Context,
    urls: &QueueUrls,
    event: Batch,
    deadline: Timestamp,
) -> BatchReply {
    let now = context.clock.now();
    let mut reply = BatchReply::default();
    let mut keep = |item_identifier: String| {
        reply.batch_item_failures.push(BatchItemFailure { item_identifier })
    };
    let mut records = Vec::new();
    for message in event.records {
        let id = message.message_id.clone();
        match Record::of(message, now, |name| queue_of(urls, name)) {
            Some(record) => records.push(record),
            None => {
                tracing::error!(message.id = ?id, "kept a record of an unknown queue");
                id.into_iter().for_each(&mut keep);
            }
        }
    }
    handle(context, records, deadline).await.into_iter().for_each(&mut keep);
    reply
}

/// The role of a queue, by its name: the end of its URL and of its ARN.
fn queue_of(urls: &QueueUrls, name: &str) -> Option<Queue> {
    let is = |url: &String| url.rsplit('/').next() == Some(name);
    if is(&urls.dispatch) {
        return Some(Queue::Dispatch);
    }
    urls.retry.iter().position(is).map(Queue::Retry)
}
