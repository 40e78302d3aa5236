//! Runs functions on Lambda.

use std::{
    cell::Cell,
    fmt::Debug,
    future::{Ready, ready},
    sync::Arc,
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Clock, Meter, Record, SourceMessage};
use http::StatusCode;
use http_body_util::BodyExt;
use lambda_runtime::{
    Config, Context, Diagnostic, Error, LambdaEvent, LambdaInvocation, Runtime, Service,
    tower::{Layer, ServiceExt, util::ServiceFn},
};
use lambda_runtime_api_client::{PooledClient, body::Body, build_request};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    config, lineage,
    sqs::{self, Batch, BatchReply},
    system::{self, SystemClock},
    telemetry::EmbeddedMeter,
};

/// The path of the next invocation. Source: AWS Lambda, "Using the Lambda runtime API".
const NEXT: &str = "/2018-06-01/runtime/invocation/next";
const REQUEST_ID: &str = "lambda-runtime-aws-request-id";

/// Answers every invocation, given its event and when Lambda stops it. Metrics are written after each.
pub async fn serve<E, R, D, F>(
    meter: &EmbeddedMeter,
    answer: impl Fn(E, Timestamp) -> F,
) -> Result<(), Error>
where
    E: DeserializeOwned,
    R: Serialize,
    D: Into<Diagnostic> + Debug,
    F: Future<Output = Result<R, D>>,
{
    let answer = &answer;
    // Without the runtime's span, which none of our lines shows.
    run(Runtime::new(lambda_runtime::service_fn(move |event: LambdaEvent<E>| async move {
        let deadline = system::deadline(event.context.deadline, SystemClock.now());
        let reply = answer(event.payload, deadline).await;
        meter.flush(SystemClock.now());
        reply
    })))
    .await
}

/// [`serve`] for a function that a queue's mapping invokes; `handle` returns the ids of messages that SQS
/// keeps. It also keeps messages of another queue, as from a mapping that an update has not removed yet.
pub async fn serve_queue<F>(
    meter: &EmbeddedMeter,
    queue: Queue,
    handle: impl Fn(Vec<Record>, Timestamp) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Vec<String>>,
{
    let (handle, url) = (&handle, &config::queue_url(queue)?);
    serve(meter, move |batch: Batch, deadline| async move {
        let queue_of = |name: &str| sqs::is_queue_of(url, name).then_some(queue);
        let (records, mut reply) = sqs::records(batch.messages, SystemClock.now(), queue_of);
        reply.extend(handle(records, deadline).await);
        Ok::<BatchReply, Error>(reply)
    })
    .await
}

/// [`serve`] for intake, which the mapping of a source's queue invokes; `take` returns the ids of messages
/// that SQS keeps. It also keeps messages of another queue.
pub async fn serve_source<F>(
    meter: &EmbeddedMeter,
    queue_arn: &str,
    take: impl Fn(Vec<SourceMessage>) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Vec<String>>,
{
    let take = &take;
    serve(meter, move |batch: Batch, _deadline| async move {
        let (messages, mut reply) =
            sqs::source_messages(batch.messages, SystemClock.now(), queue_arn);
        reply.extend(take(messages).await);
        Ok::<BatchReply, Error>(reply)
    })
    .await
}

/// Runs invocations one after the other as [`Runtime::run`] does, but sets no `_X_AMZN_TRACE_ID`: glibc
/// keeps every value that a variable ever had, which is 100 MB after a million invocations. SDK clients
/// get the trace from [`lineage`] instead.
async fn run<S>(runtime: Runtime<S>) -> Result<(), Error>
where
    S: Service<LambdaInvocation, Response = (), Error = Error>,
{
    let taken = Cell::new(None);
    let _ = runtime.layer(Take(&taken));
    let mut service = taken.into_inner().ok_or("the runtime did not hand over its service")?;
    let config = Arc::new(Config::from_env());
    let client = PooledClient::builder().with_pool_size(1).build();
    loop {
        let (parts, body) =
            client.call(build_request().uri(NEXT).body(Body::empty())?).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        // cargo-lambda's emulator has no invocation.
        if parts.status == StatusCode::NO_CONTENT {
            continue;
        }
        let status = parts.status;
        let no_id = || format!("the Runtime API answered {status} without an invocation");
        let id = parts.headers.get(REQUEST_ID).ok_or_else(no_id)?.to_str()?;
        let context = Context::new(id, Arc::clone(&config), &parts.headers)?;
        lineage::begin(context.xray_trace_id.as_deref());
        service.ready().await?.call(LambdaInvocation { parts, body, context }).await?;
    }
}

/// Takes a runtime's service, which only layers are given.
struct Take<'a, S>(&'a Cell<Option<S>>);

impl<S> Layer<S> for Take<'_, S> {
    type Service = ServiceFn<fn(LambdaInvocation) -> Ready<Result<(), Error>>>;

    fn layer(&self, service: S) -> Self::Service {
        self.0.set(Some(service));
        lambda_runtime::service_fn(|_| ready(Ok(())))
    }
}
