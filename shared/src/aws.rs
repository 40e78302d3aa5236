//! The ports on AWS: translate and call, no rule of delivery. SDK types stay inside.

pub mod configuration;
pub mod parking;
pub mod payloads;
pub mod s3;
pub mod sqs;
pub mod state;
mod table;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::error::DisplayErrorContext;

use crate::ports::PortError;

/// The account's settings: region, credentials, endpoint; from the environment of the function.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
}

impl Clients {
    /// Reads the environment. Call it once, before the first invocation.
    pub async fn from_env() -> Self {
        Self { config: aws_config::load_defaults(BehaviorVersion::latest()).await }
    }

    /// A client of SQS.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.config)
    }

    /// A client of DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.config)
    }

    /// A client of S3. Another endpoint than AWS's own is addressed by path: its buckets have no
    /// host names.
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let own_endpoint = self.config.endpoint_url().is_some();
        let config =
            aws_sdk_s3::config::Builder::from(&self.config).force_path_style(own_endpoint).build();
        aws_sdk_s3::Client::from_conf(config)
    }
}

/// An SDK error with its causes, as a port's error.
fn port_error(call: &'static str, error: impl std::error::Error) -> PortError {
    PortError::new(call, DisplayErrorContext(error))
}
