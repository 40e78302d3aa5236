//! A call that was refused as a whole, or never got an answer.

use std::error::Error;

use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use gridpost_core::{
    delivery::resource_outcome::{Refusal, answer_of},
    retry::outcome::{Answer, Outcome, parse_retry_after},
    subscription::Resource,
};
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;

/// Returns the answer of a failed call, for each of its entries.
pub(crate) fn answer<E>(resource: &Resource, error: &SdkError<E, HttpResponse>) -> Answer
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let refusal = match error {
        SdkError::ServiceError(refused) => refusal(refused.err(), refused.raw()),
        SdkError::ResponseError(broken) => {
            Refusal { status: Some(broken.raw().status().as_u16()), ..Refusal::default() }
        }
        unanswered => {
            let outcome = without_response(unanswered);
            tracing::info!(resource = %resource.arn, %outcome, "a call got no answer");
            return Answer::without_status(outcome);
        }
    };
    let Refusal { code, message, status, .. } = &refusal;
    tracing::info!(resource = %resource.arn, code, message, status, "a call was refused");
    answer_of(resource.kind, &refusal)
}

fn refusal(error: &impl ProvideErrorMetadata, response: &HttpResponse) -> Refusal {
    let retry_after = response.headers().get("retry-after");
    Refusal {
        code: error.code().unwrap_or_default().to_owned(),
        message: error.message().unwrap_or_default().to_owned(),
        status: Some(response.status().as_u16()),
        retry_after: retry_after.and_then(|value| parse_retry_after(value, SystemClock.now())),
    }
}

fn without_response<E>(error: &SdkError<E, HttpResponse>) -> Outcome
where
    E: Error + 'static,
{
    match error {
        SdkError::TimeoutError(_) => Outcome::TimedOut,
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Outcome::TimedOut,
        SdkError::DispatchFailure(failure) if failure.is_io() => {
            let mut cause = failure.as_connector_error().and_then(Error::source);
            while let Some(found) = cause {
                if found.to_string().contains("dns error") {
                    return Outcome::ResolutionError;
                }
                cause = found.source();
            }
            Outcome::SocketError
        }
        SdkError::DispatchFailure(_) => Outcome::SocketError,
        // The request could not even be put together.
        _ => Outcome::ServerError,
    }
}
