//! The loop of a function that is invoked without pause.

use std::{
    cell::Cell,
    future::{Ready, ready},
    sync::Arc,
};

use http::StatusCode;
use http_body_util::BodyExt;
use lambda_runtime::{
    Config, Context, Error, LambdaInvocation, Runtime, Service,
    tower::{Layer, ServiceExt, util::ServiceFn},
};
use lambda_runtime_api_client::{PooledClient, body::Body, build_request};

use crate::lineage;

/// The Runtime API's `next` (AWS Lambda: using the Lambda runtime API).
const NEXT: &str = "/2018-06-01/runtime/invocation/next";

/// The header that names an invocation.
const REQUEST_ID: &str = "lambda-runtime-aws-request-id";

/// Gives every invocation to the runtime's service, one after the other, as [`Runtime::run`] does,
/// and leaves out one thing: that sets `_X_AMZN_TRACE_ID` anew for each invocation, and glibc keeps
/// every value that a variable ever had. A process that is invoked a million times had grown by
/// some 100 MB. What the SDK reads there, its clients are given by [`lineage`] instead.
///
/// # Errors
///
/// The Runtime API can't be reached, or answers with what is no invocation.
pub async fn run<S>(runtime: Runtime<S>) -> Result<(), Error>
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
        // cargo-lambda's emulator has nothing to do for us.
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

/// Takes a runtime's service out of it: a layer is the one place that is given it.
struct Take<'a, S>(&'a Cell<Option<S>>);

impl<S> Layer<S> for Take<'_, S> {
    type Service = ServiceFn<fn(LambdaInvocation) -> Ready<Result<(), Error>>>;

    fn layer(&self, service: S) -> Self::Service {
        self.0.set(Some(service));
        lambda_runtime::service_fn(|_| ready(Ok(())))
    }
}
