//! Wires up and runs manage.

mod checker;

use std::sync::Arc;

use aws_lambda_events::{apigw::ApiGatewayV2httpResponse, encodings::Body, http::Response};
use gridpost_aws::{
    Clients,
    configuration::ConfigurationTable,
    parking::ParkingTable,
    payloads::PayloadBucket,
    redrives::RedriveTable,
    s3::S3Bucket,
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::{endpoint::arn::Arn, retry::response_text::ResponseBytes};
use gridpost_manage_handler::{Authorization, Context, Settings, respond_event, terraform};
use gridpost_ports::{Clock, Meter};
use gridpost_runtime::{
    config,
    system::{SystemClock, SystemDice},
    telemetry::{EmbeddedMeter, start_logging},
};
use gridpost_webhook::http::HttpClient;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, run, service_fn};
use serde_json::Value;

use checker::DispatchFunction;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    start_logging();
    let urls = QueueUrls::from_env()?;
    let dispatch: Arn = config::text("GRIDPOST_DISPATCH_ARN")?.parse()?;
    let settings = settings(urls.retry.len(), &dispatch)?;
    let clients = Clients::from_env()?;
    let name = config::text("GRIDPOST_CONFIG_TABLE")?;
    let table = Arc::new(ConfigurationTable::new(clients.dynamodb(), name));
    let state_table = config::text("GRIDPOST_STATE_TABLE")?;
    let parking = Arc::new(ParkingTable::new(clients.dynamodb(), state_table.clone()));
    let redrives = Arc::new(RedriveTable::new(clients.dynamodb(), state_table.clone()));
    let states = Arc::new(StateTable::new(clients.dynamodb(), state_table));
    let queues = Arc::new(SqsQueues::new(clients.sqs(), urls));
    let meter = Arc::new(EmbeddedMeter::from_env()?);
    let clock = Arc::new(SystemClock);
    let checker = DispatchFunction::new(clients.config(), &dispatch);
    let kept = config::parsed_or("GRIDPOST_FAILED_RESPONSE_BYTES", ResponseBytes::default())?;
    let client = HttpClient::new(settings.allowed.clone(), Arc::clone(&clock) as _)?;
    let context = Context {
        configuration: Arc::clone(&table) as _,
        keys: Arc::clone(&table) as _,
        topics: Arc::clone(&table) as _,
        subscriptions: table,
        deliveries: Arc::clone(&states) as _,
        handshakes: Arc::new(client.clone()),
        endpoints: Arc::new(client.keeping(kept)),
        checker: Arc::new(checker),
        poison: Arc::clone(&queues) as _,
        receiver: Arc::clone(&queues) as _,
        sender: queues,
        parked: Arc::clone(&parking) as _,
        parking,
        healths: Arc::clone(&states) as _,
        states,
        dead_letters: Arc::new(S3Bucket::new(clients.s3())),
        payloads: Arc::new(PayloadBucket::new(clients, config::text("GRIDPOST_PAYLOAD_BUCKET")?)),
        redrives,
        meter: Arc::clone(&meter) as _,
        clock,
        dice: Arc::new(SystemDice),
        settings,
    };
    let (context, meter) = (&context, &meter);
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        let answered = handle(context, event.payload).await;
        meter.flush(SystemClock.now());
        answered
    }))
    .await
}

/// What invokes the function.
enum Invocation {
    /// Terraform, for a resource of the module `event-subscription`.
    Terraform(Value),
    /// API Gateway, with a request in payload format 2.0.
    Gateway(Value),
}

impl From<Value> for Invocation {
    fn from(event: Value) -> Self {
        if terraform::is_invocation(&event) { Self::Terraform(event) } else { Self::Gateway(event) }
    }
}

/// Answers either of them; both go through the same router. Terraform shows a failure as it is.
async fn handle(context: &Context, event: Value) -> Result<Value, Diagnostic> {
    match Invocation::from(event) {
        Invocation::Terraform(event) => {
            let answered = terraform::answer(context, &event).await;
            answered.map_err(|refused| Diagnostic {
                error_type: "Refused".to_owned(),
                error_message: refused.to_string(),
            })
        }
        Invocation::Gateway(event) => {
            let answered = respond_event(context, event).await.map_err(Error::from)?;
            Ok(serde_json::to_value(response(answered)).map_err(Error::from)?)
        }
    }
}

fn settings(retry_shards: usize, dispatch: &Arn) -> Result<Settings, config::SettingError> {
    let origin = "eventgrid.azure.net".to_owned();
    Ok(Settings {
        allowed: config::allowed_endpoints()?,
        validation_origin: config::parsed_or("GRIDPOST_VALIDATION_ORIGIN", origin)?,
        publish_url: config::text("GRIDPOST_PUBLISH_URL")?,
        manage_url: config::text("GRIDPOST_MANAGE_URL")?.trim_end_matches('/').to_owned(),
        configuration_kept_for: config::configuration_kept_for()?,
        dispatch_keeps_configuration: config::dispatch_keeps_configuration()?,
        account: dispatch.account.clone(),
        retry_shards,
        queue_message_bytes_max: config::parsed_or("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", 262_144)?,
        authorization: config::parsed_or("GRIDPOST_MANAGE_AUTHORIZATION", Authorization::Iam)?,
    })
}

/// The response in API Gateway's terms: documents are text.
fn response(response: Response<impl AsRef<[u8]>>) -> ApiGatewayV2httpResponse {
    let (parts, body) = response.into_parts();
    let mut answer = ApiGatewayV2httpResponse::default();
    answer.status_code = i64::from(parts.status.as_u16());
    answer.headers = parts.headers;
    let text = String::from_utf8_lossy(body.as_ref());
    answer.body = (!text.is_empty()).then(|| Body::Text(text.into_owned()));
    answer
}
