//! Runs dispatch for webhooks and AWS resources.

use std::sync::Arc;

use gridpost_aws::resources::AwsResources;
use gridpost_programs::run_dispatch;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run_dispatch(|clients| Arc::new(AwsResources::new(clients.config()))).await
}
