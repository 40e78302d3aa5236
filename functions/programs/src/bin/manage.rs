//! Wires up and runs manage.

use std::sync::Arc;

use gridpost_aws::{
    Clients,
    authentication::{self, AwsSecrets},
    dispatch_function::DispatchFunction,
    journal::{CloudWatchLogs, LoggedDeployment, LoggedJournal, RunTable},
    s3::S3Bucket,
    sqs::SqsQueues,
};
use gridpost_core::endpoint::arn::Arn;
use gridpost_manage::{Context, Settings, not_base64, respond, terraform};
use gridpost_ports::{
    Clock, WithSecrets,
    authentication::{Authenticated, Tokens},
};
use gridpost_programs::Started;
use gridpost_runtime::{
    config, gateway, lambda,
    system::{SystemClock, SystemDice},
};
use gridpost_webhook::{
    http::{HttpClient, client_for_services},
    keys::PrivateKeys,
};
use lambda_runtime::{Diagnostic, Error};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let started = Started::from_env()?;
    let context = &context(&started)?;
    lambda::serve(&started.meter, move |event: Value, _deadline| handle(context, event)).await
}

fn context(started: &Started) -> Result<Context, Error> {
    let (clients, dispatch) = (&started.clients, config::dispatch_arn()?);
    let (table, parking) = (Arc::new(started.configuration()?), started.parking()?);
    let (states, queues) = (started.states()?, started.queues()?);
    let settings = settings(&queues, &dispatch)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let checker = DispatchFunction::new(clients.config(), &dispatch);
    let make_client = Box::new(client_for_services(&clock));
    let services = authentication::services(clients.config(), &clock, make_client);
    let client = HttpClient::new(settings.allowed.clone(), Arc::clone(&clock))?;
    let client = client.reading(Arc::new(AwsSecrets::new(Arc::clone(&services))));
    let tokens = tokens(clients, services, &client, &settings, &clock);
    let authenticated = |client| Authenticated::new(client, Arc::clone(&tokens));
    Ok(Context {
        configuration: Arc::new(WithSecrets(Arc::clone(&table))),
        without_secrets: Arc::clone(&table) as _,
        keys: Arc::clone(&table) as _,
        topics: Arc::clone(&table) as _,
        subscriptions: table,
        deliveries: Arc::clone(&states) as _,
        handshakes: Arc::new(authenticated(client.clone())),
        endpoints: Arc::new(authenticated(client.keeping(config::failed_response_bytes()?))),
        checker: Arc::new(checker),
        poison: Arc::clone(&queues) as _,
        receiver: Arc::clone(&queues) as _,
        sender: queues,
        parked: Arc::clone(&parking) as _,
        parking,
        healths: Arc::clone(&states) as _,
        states: Arc::clone(&states) as _,
        dead_letters: Arc::new(S3Bucket::new(clients.s3())),
        payloads: started.payloads()?,
        redrives: states,
        journal_reader: Arc::new(journal(clients, &clock)?),
        meter: Arc::clone(&started.meter) as _,
        journal: Arc::clone(&started.meter) as _,
        clock,
        dice: Arc::new(SystemDice),
        settings,
    })
}

fn journal(
    clients: &Clients,
    clock: &Arc<dyn Clock>,
) -> Result<LoggedJournal, config::SettingError> {
    let logs = Arc::new(CloudWatchLogs::new(clients.logs()));
    let runs = Arc::new(RunTable::new(clients.dynamodb(), config::state_table()?));
    let deployment = LoggedDeployment {
        name_prefix: config::name_prefix()?,
        logs_first_successes: config::log_successful_attempts()?,
    };
    Ok(LoggedJournal::new(logs, runs, Arc::clone(clock), deployment))
}

fn tokens(
    clients: &Clients,
    services: Arc<authentication::Services>,
    client: &HttpClient,
    settings: &Settings,
    clock: &Arc<dyn Clock>,
) -> Arc<Tokens> {
    let secrets = Arc::new(AwsSecrets::new(Arc::clone(&services)));
    let signer = authentication::signer(clients.config(), services);
    let named = settings.allowed.secrets.clone();
    let tokens = Tokens::new(Arc::new(client.clone()), secrets, named, Arc::clone(clock));
    let tokens = tokens.signing(Arc::new(PrivateKeys), Arc::new(SystemDice));
    Arc::new(tokens.proving(Arc::new(signer), settings.allowed.identities.clone()))
}

/// Answers Terraform, for a resource of the module `event-subscription`, or API Gateway, with a
/// request in payload format 2.0. Terraform shows a failure as it is.
async fn handle(context: &Context, event: Value) -> Result<Value, Diagnostic> {
    if terraform::is_invocation(&event) {
        let answered = terraform::answer(context, &event).await;
        return answered.map_err(|refused| Diagnostic {
            error_type: "Refused".to_owned(),
            error_message: refused.to_string(),
        });
    }
    let event = serde_json::from_value(event).map_err(Error::from)?;
    let answered = gateway::answer(event, not_base64, |request| async move {
        let response = respond(context, &request).await;
        response.map(|document| String::from_utf8_lossy(&document).into_owned())
    });
    Ok(serde_json::to_value(answered.await.map_err(Error::from)?).map_err(Error::from)?)
}

fn settings(queues: &SqsQueues, dispatch: &Arn) -> Result<Settings, config::SettingError> {
    Ok(Settings {
        allowed: config::allowed_endpoints()?,
        validation_origin: config::validation_origin()?,
        publish_url: config::publish_url()?,
        manage_url: config::manage_url()?,
        validation_url: config::manage_url()?,
        configuration_kept_for: config::configuration_kept_for()?,
        dispatch_keeps_configuration: config::dispatch_keeps_configuration()?,
        account: dispatch.account.clone(),
        retry_shards: queues.retry_shards(),
        has_slow_queue: queues.has_slow_queue(),
        queue_message_bytes_max: config::queue_message_bytes_max()?,
        authorization: config::manage_authorization()?,
    })
}
