//! The ports on AWS: translate and call, no rule of delivery. SDK types stay inside.

pub mod configuration;
pub mod late_listeners;
pub mod lineage;
pub mod parking;
#[cfg(feature = "s3")]
pub mod payloads;
pub mod redrives;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sqs;
pub mod state;
mod table;
pub mod timeouts;

use std::env;

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::{SdkConfig, region::Region};

use self::{lineage::Lineage, timeouts::Timeouts};
use gridpost_ports::PortError;
use gridpost_runtime::config::{SettingError, text};

/// Clients of the services, which share connections and TLS.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
    calls: Timeouts,
    #[cfg(feature = "s3")]
    objects: Timeouts,
}

impl Clients {
    /// Reads region, credentials and endpoint from the environment, where Lambda puts them. Call it
    /// once, before the first invocation.
    ///
    /// The SDK's own way to find credentials looks into files and asks services besides. A function
    /// on Lambda needs none of that, so it is not in its program.
    ///
    /// # Errors
    ///
    /// [`SettingError`] when the environment holds no region or no credentials.
    pub fn from_env() -> Result<Self, SettingError> {
        let credentials = Credentials::new(
            text("AWS_ACCESS_KEY_ID")?,
            text("AWS_SECRET_ACCESS_KEY")?,
            env::var("AWS_SESSION_TOKEN").ok(),
            None,
            "the function's environment",
        );
        let region = text("AWS_REGION").or_else(|_| text("AWS_DEFAULT_REGION"))?;
        Ok(Self::new(credentials, region, env::var("AWS_ENDPOINT_URL").ok()))
    }

    /// The same with these credentials, in that region, and at another endpoint than AWS's own.
    pub fn new(credentials: Credentials, region: String, endpoint_url: Option<String>) -> Self {
        Self::of(SharedCredentialsProvider::new(credentials), region, endpoint_url)
    }

    /// The same with credentials that may be asked for again.
    pub fn of(
        credentials: SharedCredentialsProvider,
        region: String,
        endpoint_url: Option<String>,
    ) -> Self {
        // Without one of their own, each client would read the system's certificates again.
        let tls = Provider::Rustls(CryptoMode::AwsLc);
        let mut config = SdkConfig::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .region(Region::new(region))
            .credentials_provider(credentials)
            .http_client(Builder::new().tls_provider(tls).build_https());
        config.set_endpoint_url(endpoint_url);
        Self {
            config: config.build(),
            calls: Timeouts::CALL,
            #[cfg(feature = "s3")]
            objects: Timeouts::OBJECT,
        }
    }

    /// The same, whose calls all end within these times.
    #[must_use]
    pub fn within(self, timeouts: Timeouts) -> Self {
        Self {
            calls: timeouts,
            #[cfg(feature = "s3")]
            objects: timeouts,
            ..self
        }
    }

    /// The same, whose requests go through that client of HTTP.
    #[must_use]
    pub fn through(self, http: SharedHttpClient) -> Self {
        let config = self.config.into_builder().http_client(http).build();
        Self { config, ..self }
    }

    /// What clients of other services are made with. It says nothing of how long their calls may take.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    /// A client of SQS.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        let config = aws_sdk_sqs::config::Builder::from(&self.config).interceptor(Lineage);
        aws_sdk_sqs::Client::from_conf(config.timeout_config(self.calls.config()).build())
    }

    /// A client of DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let config = aws_sdk_dynamodb::config::Builder::from(&self.config).interceptor(Lineage);
        aws_sdk_dynamodb::Client::from_conf(config.timeout_config(self.calls.config()).build())
    }

    /// A client of S3. Another endpoint than AWS's own is addressed by path: its buckets have no
    /// host names.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let own_endpoint = self.config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&self.config).interceptor(Lineage);
        let config = config.timeout_config(self.objects.config());
        aws_sdk_s3::Client::from_conf(config.force_path_style(own_endpoint).build())
    }
}

/// The bytes of an object. The SDK's own limits end at the head of the response.
#[cfg(feature = "s3")]
async fn whole(
    call: &'static str,
    body: aws_sdk_s3::primitives::ByteStream,
) -> Result<Vec<u8>, PortError> {
    let all = tokio::time::timeout(Timeouts::OBJECT.operation, body.collect()).await;
    let all = all.map_err(|_| PortError::new(call, "the object did not come in time"))?;
    Ok(all.map_err(|error| port_error(call, error))?.to_vec())
}

/// An SDK error with its causes, as a port's error.
fn port_error(call: &'static str, error: impl std::error::Error) -> PortError {
    PortError::new(call, DisplayErrorContext(error))
}
