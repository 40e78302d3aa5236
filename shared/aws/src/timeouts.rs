//! How long a call to AWS may take.
//!
//! A connection that went stale while its function was frozen swallows a request and says nothing.
//! Without a limit, one such call would hold everything that its invocation has in hand.

use std::time::Duration;

use aws_smithy_types::timeout::TimeoutConfig;

/// How long the calls of a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt: the SDK makes up to three.
    pub attempt: Duration,
    /// All attempts of a call together, with the pauses between them.
    pub operation: Duration,
}

impl Timeouts {
    /// For calls to SQS and DynamoDB, which answer within milliseconds: at most 1 MiB goes either way.
    pub const CALL: Self =
        Self { attempt: Duration::from_secs(2), operation: Duration::from_secs(6) };

    /// For calls to S3, whose objects may have some MB.
    pub const OBJECT: Self =
        Self { attempt: Duration::from_secs(5), operation: Duration::from_secs(15) };

    /// What a client is made with.
    pub(crate) fn config(self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .operation_attempt_timeout(self.attempt)
            .operation_timeout(self.operation)
            .build()
    }
}
