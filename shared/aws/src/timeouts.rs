//! How long a call to AWS may take.
//!
//! A connection that went stale while its function was frozen swallows a request silently. Without
//! a timeout, one such call would block its whole invocation.

use std::time::Duration;

use aws_smithy_types::timeout::TimeoutConfig;

/// How long the calls of a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The limit of one attempt; the SDK makes up to three.
    pub attempt: Duration,
    /// The limit of all attempts of a call together, with the pauses between them.
    pub operation: Duration,
}

impl Timeouts {
    /// For calls to SQS and DynamoDB, which answer within milliseconds: at most 1 MiB goes either way.
    pub const CALL: Self =
        Self { attempt: Duration::from_secs(2), operation: Duration::from_secs(6) };

    /// For calls to S3, whose objects may have some MB.
    pub const OBJECT: Self =
        Self { attempt: Duration::from_secs(5), operation: Duration::from_secs(15) };

    /// The configuration of a client.
    pub(crate) fn config(self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .operation_attempt_timeout(self.attempt)
            .operation_timeout(self.operation)
            .build()
    }
}
