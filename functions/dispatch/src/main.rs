//! Runs dispatch for webhooks alone, without AWS resources as endpoints.

use std::sync::Arc;

use gridpost_dispatch::run;
use gridpost_dispatch_handler::resources::NoResources;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(|_| Arc::new(NoResources)).await
}
