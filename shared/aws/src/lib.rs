//! The ports on AWS: they translate and call, without any rule of delivery. SDK types stay inside.

pub mod configuration;
#[cfg(feature = "resources")]
pub mod dispatch_function;
#[cfg(feature = "secrets")]
pub mod identity;
pub mod late_listeners;
pub mod lineage;
pub mod parking;
#[cfg(feature = "s3")]
pub mod payloads;
pub mod publishes;
pub mod redrives;
#[cfg(feature = "resources")]
pub mod resources;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "secrets")]
pub mod secrets;
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
    /// The SDK's default credential chain also reads files and calls services. A function on Lambda
    /// needs none of that, so it is not compiled in.
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

    /// With these credentials, in that region and, if given, at an endpoint other than AWS's own.
    pub fn new(credentials: Credentials, region: String, endpoint_url: Option<String>) -> Self {
        Self::of(SharedCredentialsProvider::new(credentials), region, endpoint_url)
    }

    /// With a credentials provider, which is asked again when credentials expire.
    pub fn of(
        credentials: SharedCredentialsProvider,
        region: String,
        endpoint_url: Option<String>,
    ) -> Self {
        // Without a shared HTTP client, each client would read the system's certificates again.
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

    /// With these timeouts for all calls.
    #[must_use]
    pub fn within(self, timeouts: Timeouts) -> Self {
        Self {
            calls: timeouts,
            #[cfg(feature = "s3")]
            objects: timeouts,
            ..self
        }
    }

    /// With that HTTP client.
    #[must_use]
    pub fn through(self, http: SharedHttpClient) -> Self {
        let config = self.config.into_builder().http_client(http).build();
        Self { config, ..self }
    }

    /// The configuration for clients of other services. It sets no timeouts.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        let config = aws_sdk_sqs::config::Builder::from(&self.config).interceptor(Lineage);
        aws_sdk_sqs::Client::from_conf(config.timeout_config(self.calls.config()).build())
    }

    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let config = aws_sdk_dynamodb::config::Builder::from(&self.config).interceptor(Lineage);
        aws_sdk_dynamodb::Client::from_conf(config.timeout_config(self.calls.config()).build())
    }

    /// A client of S3. An endpoint other than AWS's own is addressed by path, because its buckets
    /// have no host names.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let own_endpoint = self.config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&self.config).interceptor(Lineage);
        let config = config.timeout_config(self.objects.config());
        aws_sdk_s3::Client::from_conf(config.force_path_style(own_endpoint).build())
    }
}

/// Reads the bytes of an object. The SDK's own timeouts end at the head of the response.
#[cfg(feature = "s3")]
async fn whole(
    call: &'static str,
    body: aws_sdk_s3::primitives::ByteStream,
) -> Result<Vec<u8>, PortError> {
    let all = tokio::time::timeout(Timeouts::OBJECT.operation, body.collect()).await;
    let all = all.map_err(|_| PortError::new(call, "the object did not come in time"))?;
    Ok(all.map_err(|error| port_error(call, error))?.to_vec())
}

/// Converts an SDK error, with its causes, to a port's error.
fn port_error(call: &'static str, error: impl std::error::Error) -> PortError {
    PortError::new(call, DisplayErrorContext(error))
}
