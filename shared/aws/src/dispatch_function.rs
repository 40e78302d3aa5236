//! Checks AWS resources through dispatch, by a synchronous `Invoke`.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_lambda::{
    Client, config::timeout::TimeoutConfig, error::DisplayErrorContext, primitives::Blob,
};
use aws_types::SdkConfig;
use gridpost_core::{
    delivery::resource_check::Finding, endpoint::arn::Arn, subscription::Resource,
};
use gridpost_ports::{PortError, ResourceChecker};
use serde_json::json;

const CALL: &str = "lambda:Invoke";

/// Includes a cold start; API Gateway gives up after 30 s.
const WAIT: Duration = Duration::from_secs(12);

/// The function dispatch.
#[derive(Clone, Debug)]
pub struct DispatchFunction {
    client: Client,
    arn: String,
}

impl DispatchFunction {
    /// Calls the function of that ARN with these credentials, region and connections.
    pub fn new(config: &SdkConfig, arn: &Arn) -> Self {
        let wait = TimeoutConfig::builder().operation_timeout(WAIT).build();
        let config = config.to_builder().timeout_config(wait).build();
        Self { client: Client::new(&config), arn: arn.to_string() }
    }
}

#[async_trait]
impl ResourceChecker for DispatchFunction {
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError> {
        let payload = json!({"check": resource}).to_string();
        let call = self.client.invoke().function_name(&self.arn).payload(Blob::new(payload));
        let output =
            call.send().await.map_err(|error| PortError::new(CALL, DisplayErrorContext(error)))?;
        let said = output.payload().map(Blob::as_ref).unwrap_or_default();
        serde_json::from_slice(said).map_err(|_| {
            let error = output.function_error().unwrap_or("an answer of another kind");
            PortError::new(CALL, format!("dispatch, asked to check a resource, failed: {error}"))
        })
    }
}
