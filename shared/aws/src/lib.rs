//! The ports on AWS: they translate and call, without rules of delivery. SDK types stay inside.

#[cfg(feature = "secrets")]
pub mod authentication;
pub mod configuration;
#[cfg(feature = "resources")]
pub mod dispatch_function;
#[cfg(feature = "journal")]
pub mod journal;
pub mod parking;
#[cfg(feature = "resources")]
pub mod resources;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sqs;
pub mod state;
mod table;

use std::{env, time::Duration};

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        http::SharedHttpClient,
        interceptors::{Intercept, context::BeforeTransmitInterceptorContextMut},
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{config_bag::ConfigBag, timeout::TimeoutConfig};
use aws_types::{SdkConfig, region::Region};
use gridpost_ports::PortError;
use gridpost_runtime::{
    config::{SettingError, text},
    lineage,
};

/// Makes clients of the services, which share connections and TLS.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
    calls: Timeouts,
    #[cfg(any(feature = "s3", feature = "journal"))]
    objects: Timeouts,
}

impl Clients {
    /// Reads region, credentials and endpoint from the environment, where Lambda puts them. Call it
    /// once, before the first invocation. The SDK's default credential chain is not compiled in: a
    /// function needs no files or services for it.
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

    /// Uses these credentials, that region and, if given, an endpoint other than AWS's own.
    pub fn new(credentials: Credentials, region: String, endpoint_url: Option<String>) -> Self {
        Self::of(SharedCredentialsProvider::new(credentials), region, endpoint_url)
    }

    /// Uses a credentials provider, which is asked again when credentials expire.
    pub fn of(
        credentials: SharedCredentialsProvider,
        region: String,
        endpoint_url: Option<String>,
    ) -> Self {
        // Shared, because each HTTP client reads the system's certificates.
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
            #[cfg(any(feature = "s3", feature = "journal"))]
            objects: Timeouts::OBJECT,
        }
    }

    /// Sets these timeouts for all calls.
    #[must_use]
    pub fn within(self, timeouts: Timeouts) -> Self {
        Self {
            calls: timeouts,
            #[cfg(any(feature = "s3", feature = "journal"))]
            objects: timeouts,
            ..self
        }
    }

    /// Sets the HTTP client.
    #[must_use]
    pub fn through(self, http: SharedHttpClient) -> Self {
        let config = self.config.into_builder().http_client(http).build();
        Self { config, ..self }
    }

    /// Returns the configuration for clients of other services. It sets no timeouts.
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

    /// Makes a client of CloudWatch Logs.
    #[cfg(feature = "journal")]
    pub fn logs(&self) -> aws_sdk_cloudwatchlogs::Client {
        let config = aws_sdk_cloudwatchlogs::config::Builder::from(&self.config);
        let config = config.interceptor(Lineage).timeout_config(self.objects.config());
        aws_sdk_cloudwatchlogs::Client::from_conf(config.build())
    }

    /// Makes a client of S3. Endpoints other than AWS's own are addressed by path, as their buckets
    /// have no host names.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let own_endpoint = self.config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&self.config).interceptor(Lineage);
        let config = config.timeout_config(self.objects.config());
        aws_sdk_s3::Client::from_conf(config.force_path_style(own_endpoint).build())
    }
}

/// How long the calls of a client may take. A connection that went stale while its function was frozen
/// swallows requests silently, which would block the invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For one attempt; the SDK makes up to three.
    pub attempt: Duration,
    /// For all attempts of a call and the pauses between them.
    pub operation: Duration,
}

impl Timeouts {
    /// For SQS and DynamoDB, which answer within milliseconds and take at most 1 MiB.
    pub const CALL: Self =
        Self { attempt: Duration::from_secs(2), operation: Duration::from_secs(6) };

    /// For S3 and logs, whose objects and pages may have some MB.
    pub const OBJECT: Self =
        Self { attempt: Duration::from_secs(5), operation: Duration::from_secs(15) };

    fn config(self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .operation_attempt_timeout(self.attempt)
            .operation_timeout(self.operation)
            .build()
    }
}

/// Adds the invocation's trace to every call, by which Lambda detects recursive loops. The SDK reads it
/// from the environment, where [`gridpost_runtime::lambda`] does not put it.
#[derive(Clone, Copy, Debug)]
struct Lineage;

impl Intercept for Lineage {
    fn name(&self) -> &'static str {
        "Lineage"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(trace) = lineage::current() {
            // A trace that can't be a header is not Lambda's.
            let _ = context.request_mut().headers_mut().try_insert("x-amzn-trace-id", trace);
        }
        Ok(())
    }
}

fn port_error(call: &'static str, error: impl std::error::Error) -> PortError {
    PortError::new(call, DisplayErrorContext(error))
}
