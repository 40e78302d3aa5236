//! Maps the answers of AWS services to outcomes, as a table.
//!
//! The status of an outcome is its row in Event Grid's status table, not the status of AWS's
//! response: a queue that does not exist is HTTP 400 there, and 404 here.

use std::time::Duration;

use crate::{
    retry::outcome::{Answer, Outcome},
    subscription::ResourceKind,
};

/// A service's refusal of a call or an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    /// The service; `None` for all.
    pub kind: Option<ResourceKind>,
    /// As AWS documents it.
    pub code: &'static str,
    /// Text, in lower case, that the message must contain; may be empty.
    pub says: &'static str,
    pub outcome: Outcome,
    /// The row of the status table; `None` for outcomes without one.
    pub status: Option<u16>,
    pub source: &'static str,
}

const fn row(
    kind: Option<ResourceKind>,
    code: &'static str,
    says: &'static str,
    outcome: Outcome,
    source: &'static str,
) -> Row {
    Row { kind, code, says, outcome, status: status_of(outcome), source }
}

/// Returns the row of the status table for an outcome.
pub const fn status_of(outcome: Outcome) -> Option<u16> {
    match outcome {
        Outcome::Delivered => Some(200),
        Outcome::BadRequest => Some(400),
        Outcome::Unauthorized => Some(401),
        Outcome::Forbidden => Some(403),
        Outcome::NotFound => Some(404),
        Outcome::TimedOut => Some(408),
        Outcome::PayloadTooLarge => Some(413),
        Outcome::Busy => Some(503),
        Outcome::ServerError => Some(500),
        _ => None,
    }
}

const LAMBDA: Option<ResourceKind> = Some(ResourceKind::LambdaFunction);
const SQS: Option<ResourceKind> = Some(ResourceKind::SqsQueue);
const SNS: Option<ResourceKind> = Some(ResourceKind::SnsTopic);
const KINESIS: Option<ResourceKind> = Some(ResourceKind::KinesisStream);
const BUS: Option<ResourceKind> = Some(ResourceKind::EventBridgeBus);
const COMMON: &str = "AWS API references, \"Common errors\"";
const OF_INVOKE: &str = "Lambda API reference, Invoke, \"Errors\"";
const THROTTLES: &str = "Lambda API reference, TooManyRequestsException, \"Reason\"";
const MODEL: &str =
    "Lambda's API model, Invoke (boto/botocore botocore/data/lambda/2015-03-31/service-2.json)";
const TIMED_OUT: &str = "Recorded (aws-samples/amazon-textract-idp-cdk-constructs issue 80): a payload without errorType";
const PENDING: &str = "Recorded (keithrozario/Klayers issue 210, HTTP 500; \
    aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws issue 801, HTTP 409): \
    the function is being made ready, within two minutes";
const ROLE: &str =
    "Recorded (aws/chalice issue 1342): the function's role, not the caller, is refused";
const OF_SQS: &str = "SQS API reference, SendMessage and SendMessageBatch, \"Errors\"";
const OF_SNS: &str = "SNS API reference, PublishBatch, \"Errors\"";
const OF_SQS_MODEL: &str =
    "SQS's API model (awslabs/aws-sdk-rust sdk/sqs/src/protocol_serde/shape_send_message_batch.rs)";
const RECORDS_SIZE: &str = "Recorded (snowplow/enrich issue 685): the records of a call together";
const OF_KINESIS: &str = "Kinesis API reference, PutRecords, \"Errors\" and PutRecordsResultEntry";
const OF_BUS: &str = "EventBridge API reference, PutEventsResultEntry, \"ErrorCode\"";

use Outcome::{
    BadRequest, Busy, Disabled, Forbidden, Full, InvalidFunctionDestination, NotFound,
    PayloadTooLarge, ServerError, SessionQueueNotSupported, TimedOut, Unauthorized,
};

/// The first matching row counts. Services spell codes differently: case, dots, prefixes ending in
/// `#`, `AWS.SimpleQueueService.` and the suffix `Exception` are ignored.
pub static TABLE: &[Row] = &[
    row(LAMBDA, "TooManyRequestsException", "concurren", Full, THROTTLES),
    row(LAMBDA, "TooManyRequestsException", "", Busy, THROTTLES),
    row(LAMBDA, "EC2ThrottledException", "", Busy, OF_INVOKE),
    row(LAMBDA, "SnapStartNotReadyException", "", Busy, OF_INVOKE),
    row(LAMBDA, "ENINotReadyException", "", Busy, OF_INVOKE),
    row(LAMBDA, "ENILimitReachedException", "", Full, OF_INVOKE),
    row(LAMBDA, "SubnetIPAddressLimitReachedException", "", Full, OF_INVOKE),
    row(LAMBDA, "ServiceQuotaExceededException", "", Full, OF_INVOKE),
    row(LAMBDA, "ResourceNotFoundException", "", NotFound, OF_INVOKE),
    row(LAMBDA, "RequestTooLargeException", "", PayloadTooLarge, OF_INVOKE),
    row(LAMBDA, "SerializedRequestEntityTooLargeException", "", PayloadTooLarge, OF_INVOKE),
    row(LAMBDA, "ResourceConflictException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "ResourceNotReadyException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "InvalidRuntimeException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "InvalidZipFileException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "InvalidSecurityGroupIDException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "InvalidSubnetIDException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "EC2AccessDeniedException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "EFSMountConnectivityException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "EFSMountFailureException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "EFSMountTimeoutException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "RecursiveInvocationException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "SnapStartException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "SnapStartTimeoutException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "ModeNotSupportedException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "NoPublishedVersionException", "", InvalidFunctionDestination, OF_INVOKE),
    row(LAMBDA, "CodeArtifactUserPendingException", "", Busy, PENDING),
    row(LAMBDA, "CodeArtifactUserDeletedException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "CodeArtifactUserFailedException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "EFSIOException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "RuntimeAliasDeletedException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "RuntimeVersionDeletedException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "S3FilesMountConnectivityException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "S3FilesMountFailureException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "S3FilesMountTimeoutException", "", InvalidFunctionDestination, MODEL),
    row(LAMBDA, "SnapStartRegenerationFailureException", "", InvalidFunctionDestination, MODEL),
    row(
        LAMBDA,
        "AccessDeniedException",
        "cannot be assumed by lambda",
        InvalidFunctionDestination,
        ROLE,
    ),
    row(LAMBDA, "KMSDisabledException", "", Disabled, OF_INVOKE),
    row(LAMBDA, "KMSInvalidStateException", "", Disabled, OF_INVOKE),
    row(LAMBDA, "KMSNotFoundException", "", Disabled, OF_INVOKE),
    row(LAMBDA, "KMSAccessDeniedException", "", Disabled, OF_INVOKE),
    row(LAMBDA, "InvalidParameterValueException", "", BadRequest, OF_INVOKE),
    row(LAMBDA, "InvalidRequestContentException", "", BadRequest, OF_INVOKE),
    row(LAMBDA, "UnsupportedMediaTypeException", "", BadRequest, OF_INVOKE),
    row(LAMBDA, "EC2UnexpectedException", "", ServerError, MODEL),
    row(LAMBDA, "ServiceException", "", ServerError, OF_INVOKE),
    // The function ran and failed: Gridpost's own codes for `X-Amz-Function-Error`.
    row(LAMBDA, FUNCTION_ERROR, "sandbox.timedout", TimedOut, OF_INVOKE),
    row(LAMBDA, FUNCTION_ERROR, "task timed out after", TimedOut, TIMED_OUT),
    row(LAMBDA, FUNCTION_ERROR, "", ServerError, OF_INVOKE),
    row(SQS, "QueueDoesNotExist", "", NotFound, OF_SQS),
    row(SQS, "AWS.SimpleQueueService.NonExistentQueue", "", NotFound, OF_SQS),
    row(SQS, "AWS.SimpleQueueService.QueueDeletedRecently", "", NotFound, OF_SQS),
    row(SQS, "OverLimit", "", Full, OF_SQS),
    row(SQS, "RequestThrottled", "", Busy, OF_SQS),
    row(SQS, "AWS.SimpleQueueService.BatchRequestTooLong", "", PayloadTooLarge, OF_SQS),
    row(SQS, "InvalidParameterValue", "must be shorter than", PayloadTooLarge, OF_SQS),
    row(SQS, "InvalidParameterValue", "messagegroupid", SessionQueueNotSupported, OF_SQS),
    row(SQS, "MissingParameter", "messagegroupid", SessionQueueNotSupported, OF_SQS),
    row(SQS, "InvalidParameterValue", "", BadRequest, OF_SQS),
    row(SQS, "MissingParameter", "", BadRequest, OF_SQS),
    row(SQS, "InvalidMessageContents", "", BadRequest, OF_SQS),
    row(SQS, "InvalidAttributeValue", "", BadRequest, OF_SQS),
    row(SQS, "AWS.SimpleQueueService.UnsupportedOperation", "", BadRequest, OF_SQS),
    row(SQS, "InvalidAddress", "", NotFound, OF_SQS),
    row(SQS, "InvalidSecurity", "", Unauthorized, OF_SQS),
    row(SQS, "KMS.AccessDeniedException", "", Forbidden, OF_SQS),
    row(SQS, "KMS.DisabledException", "", Disabled, OF_SQS),
    row(SQS, "KMS.InvalidStateException", "", Disabled, OF_SQS),
    row(SQS, "KMS.InvalidKeyUsageException", "", Disabled, OF_SQS),
    row(SQS, "KMS.NotFoundException", "", Disabled, OF_SQS),
    row(SQS, "KMS.OptInRequired", "", Disabled, OF_SQS),
    row(SQS, "KMS.ThrottlingException", "", Busy, OF_SQS),
    row(SQS, "KmsThrottled", "", Busy, OF_SQS_MODEL),
    row(SNS, "NotFound", "", NotFound, OF_SNS),
    row(SNS, "AuthorizationError", "", Forbidden, OF_SNS),
    row(SNS, "Throttled", "", Busy, OF_SNS),
    row(SNS, "BatchRequestTooLong", "", PayloadTooLarge, OF_SNS),
    row(SNS, "InvalidParameter", "too long", PayloadTooLarge, OF_SNS),
    row(SNS, "InvalidParameter", "messagegroupid", SessionQueueNotSupported, OF_SNS),
    row(SNS, "InvalidParameter", "", BadRequest, OF_SNS),
    row(SNS, "ParameterValueInvalid", "", BadRequest, OF_SNS),
    row(SNS, "ValidationException", "", BadRequest, OF_SNS),
    row(SNS, "InvalidSecurity", "", Unauthorized, OF_SNS),
    row(SNS, "InternalError", "", ServerError, OF_SNS),
    row(SNS, "EndpointDisabled", "", Disabled, OF_SNS),
    row(SNS, "PlatformApplicationDisabled", "", Disabled, OF_SNS),
    row(SNS, "KMSAccessDenied", "", Forbidden, OF_SNS),
    row(SNS, "KMSDisabled", "", Disabled, OF_SNS),
    row(SNS, "KMSInvalidState", "", Disabled, OF_SNS),
    row(SNS, "KMSNotFound", "", Disabled, OF_SNS),
    row(SNS, "KMSOptInRequired", "", Disabled, OF_SNS),
    row(SNS, "KMSThrottling", "", Busy, OF_SNS),
    row(KINESIS, "ResourceNotFoundException", "", NotFound, OF_KINESIS),
    row(KINESIS, "ResourceInUseException", "", Disabled, OF_KINESIS),
    row(KINESIS, "ProvisionedThroughputExceededException", "", Busy, OF_KINESIS),
    row(KINESIS, "LimitExceededException", "", Full, OF_KINESIS),
    row(KINESIS, "InvalidArgumentException", "records size exceeds", PayloadTooLarge, RECORDS_SIZE),
    row(KINESIS, "InvalidArgumentException", "", BadRequest, OF_KINESIS),
    // 1 MiB for some streams, 10 MiB (10485760) for others.
    row(KINESIS, "ValidationException", "or equal to 1048576", PayloadTooLarge, OF_KINESIS),
    row(KINESIS, "KMSAccessDeniedException", "", Forbidden, OF_KINESIS),
    row(KINESIS, "KMSDisabledException", "", Disabled, OF_KINESIS),
    row(KINESIS, "KMSInvalidStateException", "", Disabled, OF_KINESIS),
    row(KINESIS, "KMSNotFoundException", "", Disabled, OF_KINESIS),
    row(KINESIS, "KMSOptInRequired", "", Disabled, OF_KINESIS),
    row(KINESIS, "KMSThrottlingException", "", Busy, OF_KINESIS),
    row(BUS, "ResourceNotFoundException", "", NotFound, OF_BUS),
    row(BUS, "LimitExceededException", "", Full, OF_BUS),
    row(BUS, "InvalidArgument", "", BadRequest, OF_BUS),
    row(BUS, "MalformedDetail", "", BadRequest, OF_BUS),
    // Of one event and its source (a bus takes none that begins with `aws.`), not of the bus: an endpoint
    // that forbids ends its other events, too.
    row(BUS, "NotAuthorizedForSource", "", BadRequest, OF_BUS),
    row(BUS, "NotAuthorizedForDetailTypeException", "", BadRequest, OF_BUS),
    row(BUS, "ValidationException", "total size of the entries", PayloadTooLarge, OF_BUS),
    row(None, "AccessDeniedException", "", Forbidden, COMMON),
    row(None, "NotAuthorized", "", Forbidden, COMMON),
    row(None, "ExpiredTokenException", "", Unauthorized, COMMON),
    row(None, "IncompleteSignature", "", Unauthorized, COMMON),
    row(None, "InvalidClientTokenId", "", Unauthorized, COMMON),
    row(None, "InvalidSignatureException", "", Unauthorized, COMMON),
    row(None, "MissingAuthenticationToken", "", Unauthorized, COMMON),
    row(None, "OptInRequired", "", Unauthorized, COMMON),
    row(None, "RequestExpired", "", Unauthorized, COMMON),
    row(None, "SignatureDoesNotMatch", "", Unauthorized, COMMON),
    row(None, "UnrecognizedClientException", "", Unauthorized, COMMON),
    row(None, "ThrottlingException", "", Busy, COMMON),
    row(None, "ThrottledException", "", Busy, COMMON),
    row(None, "RequestLimitExceeded", "", Busy, COMMON),
    row(None, "TooManyRequestsException", "", Busy, COMMON),
    row(None, "ServiceUnavailable", "", Busy, COMMON),
    row(None, "RequestTimeout", "", TimedOut, COMMON),
    row(None, "RequestEntityTooLarge", "", PayloadTooLarge, COMMON),
    row(None, "ValidationError", "", BadRequest, COMMON),
    row(None, "ValidationException", "", BadRequest, COMMON),
    row(None, "InternalFailure", "", ServerError, COMMON),
];

/// The code of a function's own failure.
pub const FUNCTION_ERROR: &str = "FunctionError";

/// Returns the answer for a refusal. A code that the table lacks is judged by its HTTP status;
/// if that does not say who is at fault, it is the service's failure and is retried.
pub fn answer_of(kind: ResourceKind, refusal: &Refusal) -> Answer {
    let outcome = match row_of(kind, refusal) {
        Some(row) => row.outcome,
        None => match refusal.status {
            Some(401) => Unauthorized,
            Some(403) => Forbidden,
            Some(404) => NotFound,
            Some(408 | 504) => TimedOut,
            Some(413) => PayloadTooLarge,
            Some(429 | 503) => Busy,
            _ => ServerError,
        },
    };
    Answer { outcome, status: status_of(outcome), retry_after: refusal.retry_after }
}

/// Returns the row that matches a refusal.
pub fn row_of(kind: ResourceKind, refusal: &Refusal) -> Option<&'static Row> {
    let (code, message) = (plain(&refusal.code), refusal.message.to_ascii_lowercase());
    TABLE.iter().find(|row| {
        row.kind.is_none_or(|of| of == kind)
            && plain(row.code) == code
            && message.contains(row.says)
    })
}

fn plain(code: &str) -> String {
    let code = code.rsplit('#').next().unwrap_or(code);
    let code = code.split([':', ';']).next().unwrap_or(code);
    let code = code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code);
    let code = code.strip_suffix("Exception").unwrap_or(code);
    code.replace('.', "").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_reached_by_its_own_code() {
        for row in TABLE {
            let kinds = match row.kind {
                Some(kind) => vec![kind],
                None => ResourceKind::ALL.map(|(_, kind)| kind).to_vec(),
            };
            let reaches = |kind| {
                let message = row.says.to_owned();
                let code = row.code.to_owned();
                let found = row_of(kind, &Refusal { code, message, ..Refusal::default() });
                found.is_some_and(|found| std::ptr::eq(found, row))
            };
            assert!(kinds.into_iter().any(reaches), "{row:?} is hidden by another");
            assert!(!row.source.is_empty());
        }
    }

    #[test]
    fn a_bus_that_refuses_one_event_refuses_no_other() {
        for code in
            ["NotAuthorizedForSource", "NotAuthorizedForDetailTypeException", "MalformedDetail"]
        {
            let refusal = Refusal { code: code.to_owned(), ..Refusal::default() };
            assert_eq!(
                answer_of(ResourceKind::EventBridgeBus, &refusal).outcome,
                BadRequest,
                "{code}"
            );
        }
    }

    #[test]
    fn codes_are_told_in_every_spelling() {
        let table = [
            ("com.amazonaws.sqs#QueueDoesNotExist", None, NotFound),
            ("AWS.SimpleQueueService.NonExistentQueue;Sender", None, NotFound),
            ("KmsDisabled", None, Disabled),
            ("KMS.DisabledException", None, Disabled),
            ("accessdenied", None, Forbidden),
            ("Throttling", None, Busy),
            ("KmsThrottled", None, Busy),
            ("ExpiredToken", None, Unauthorized),
            ("SomethingNew", Some(400), ServerError),
            ("SomethingNew", Some(403), Forbidden),
            ("SomethingNew", Some(503), Busy),
            ("", None, ServerError),
        ];
        for (code, status, want) in table {
            let refusal = Refusal { code: code.to_owned(), status, ..Refusal::default() };
            assert_eq!(answer_of(ResourceKind::SqsQueue, &refusal).outcome, want, "{code}");
        }
    }
}
