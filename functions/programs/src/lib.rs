//! Shares among the programs how they start, and wires up dispatch, which has a program with AWS
//! resources as endpoints and one without.

use std::{sync::Arc, time::Duration};

use gridpost_aws::{
    Clients,
    authentication::{self, AwsSecrets},
    configuration::ConfigurationTable,
    parking::ParkingTable,
    s3::PayloadBucket,
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::{
    delivery::resource_check::Finding, retry::outcome::Outcome, subscription::Resource,
};
use gridpost_dispatch::{
    Context, Settings, handler::handle, health::HealthCache, in_flight::InFlight, rate::Rates,
};
use gridpost_ports::{
    Clock, Configuration, EndpointClient, ResourceClient, WithSecrets,
    authentication::{Authenticated, Tokens},
    configuration::ConfigurationCache,
};
use gridpost_runtime::{
    config::{self, SettingError},
    lambda,
    sqs::{self, BatchReply, Message},
    system::{SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_webhook::{
    http::{HttpClient, client_for_services},
    keys::PrivateKeys,
};
use lambda_runtime::Error;
use serde::{Deserialize, Serialize};

/// The clients and the meter that every function starts with.
pub struct Started {
    pub clients: Clients,
    pub meter: Arc<EmbeddedMeter>,
}

impl Started {
    /// Starts logging, and reads the environment.
    pub fn from_env() -> Result<Self, Error> {
        start_logging();
        Ok(Self { clients: Clients::from_env()?, meter: Arc::new(EmbeddedMeter::from_env()?) })
    }

    pub fn queues(&self) -> Result<Arc<SqsQueues>, Error> {
        Ok(Arc::new(SqsQueues::new(self.clients.sqs(), QueueUrls::from_env()?)))
    }

    pub fn payloads(&self) -> Result<Arc<PayloadBucket>, Error> {
        Ok(Arc::new(PayloadBucket::new(self.clients.clone(), config::payload_bucket()?)))
    }

    pub fn configuration(&self) -> Result<ConfigurationTable, Error> {
        Ok(ConfigurationTable::new(self.clients.dynamodb(), config::config_table()?))
    }

    pub fn states(&self) -> Result<Arc<StateTable>, Error> {
        Ok(Arc::new(StateTable::new(self.clients.dynamodb(), config::state_table()?)))
    }

    pub fn parking(&self) -> Result<Arc<ParkingTable>, Error> {
        Ok(Arc::new(ParkingTable::new(self.clients.dynamodb(), config::state_table()?)))
    }
}

/// Caches that configuration in memory.
pub fn cached(table: Arc<dyn Configuration>) -> Result<ConfigurationCache, Error> {
    let (clock, dice) = (Arc::new(SystemClock), Arc::new(SystemDice));
    Ok(ConfigurationCache::new(table, clock, dice, config::configuration_limits()?))
}

/// How long a check of a resource may wait for its service, while a user waits.
const CHECK_WAIT: Duration = Duration::from_secs(8);

/// Runs dispatch. `resources` makes the client for AWS resources.
pub async fn run_dispatch(
    resources: impl FnOnce(&Clients) -> Arc<dyn ResourceClient>,
) -> Result<(), Error> {
    let started = Started::from_env()?;
    let resources = resources(&started.clients);
    let (context, urls) = (&context(&started, resources).await?, &QueueUrls::from_env()?);
    lambda::serve(&started.meter, move |event: Event, deadline| async move {
        if let Some(resource) = &event.check {
            return Ok::<_, Error>(Reply::Check(check(context, resource).await));
        }
        let (records, mut reply) =
            sqs::records(event.messages, context.clock.now(), |name| urls.named(name));
        reply.extend(handle(context, records, deadline).await);
        Ok(Reply::Batch(reply))
    })
    .await
}

async fn context(started: &Started, resources: Arc<dyn ResourceClient>) -> Result<Context, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let queues = started.queues()?;
    let (retry_shards, sends_to_slow) = (queues.retry_shards(), queues.sends_to_slow());
    let configuration = started.configuration()?;
    configuration.connect().await;
    let states = started.states()?;
    Ok(Context {
        clock: Arc::clone(&clock),
        dice: Arc::new(SystemDice),
        sender: Arc::clone(&queues) as _,
        in_flight: InFlight::new(Arc::clone(&queues) as _),
        receiver: queues,
        states: Arc::clone(&states) as _,
        parking: started.parking()?,
        healths: HealthCache::new(Arc::clone(&states) as _, Arc::new(SystemDice)),
        rates: Rates::new(Arc::clone(&states) as _),
        listeners: states,
        configuration: cached(Arc::new(WithSecrets(Arc::new(configuration))))?,
        client: endpoint_client(&started.clients, clock)?,
        resources,
        payloads: started.payloads()?,
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        settings: settings(retry_shards, sends_to_slow)?,
    })
}

fn endpoint_client(
    clients: &Clients,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn EndpointClient>, Error> {
    let (kept, allowed) = (config::failed_response_bytes()?, config::allowed_endpoints()?);
    let make_client = Box::new(client_for_services(&clock));
    let services = authentication::services(clients.config(), &clock, make_client);
    let secrets = Arc::new(AwsSecrets::new(Arc::clone(&services)));
    let signer = authentication::signer(clients.config(), services);
    let (named, identities) = (allowed.secrets.clone(), allowed.identities.clone());
    let client = HttpClient::new(allowed, Arc::clone(&clock))?;
    let client = client.reading(Arc::clone(&secrets) as _);
    let tokens = Tokens::new(Arc::new(client.clone()), secrets, named, clock);
    let tokens = tokens.signing(Arc::new(PrivateKeys), Arc::new(SystemDice));
    let tokens = tokens.proving(Arc::new(signer), identities);
    Ok(Arc::new(Authenticated::new(client.keeping(kept), Arc::new(tokens))))
}

fn settings(retry_shards: usize, sends_to_slow: bool) -> Result<Settings, SettingError> {
    let [first_listeners_max, retry_listeners_max, slow_listeners_max] = config::listeners_max()?;
    Ok(Settings {
        probation: config::probation()?,
        retry_shards,
        sends_to_slow,
        lanes: config::lanes()?,
        first_listeners_max,
        retry_listeners_max,
        slow_listeners_max,
        retry_in_flight_limit: config::retry_in_flight_limit()?,
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        dead_letter_delay_s: config::dead_letter_delay_s()?,
        latency_metrics: config::latency_metrics()?,
        origin: config::validation_origin()?,
    })
}

/// The function's input: messages from a queue, or a resource that manage wants to be checked.
#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "Records")]
    messages: Vec<Message>,
    #[serde(default)]
    check: Option<Resource>,
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
