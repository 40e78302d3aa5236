//! Runs dispatch for webhooks alone, without AWS resources as endpoints.

use std::sync::Arc;

use gridpost_dispatch::resources::NoResources;
use gridpost_programs::run_dispatch;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run_dispatch(|_| Arc::new(NoResources)).await
}
