//! Lambda functions, by a synchronous `Invoke`.

use std::time::Duration;

use aws_sdk_lambda::{
    Client, operation::invoke::InvokeError, primitives::Blob, types::InvocationType,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use gridpost_core::{
    delivery::{
        resource_outcome::{FUNCTION_ERROR, Refusal, answer_of},
        resource_request::Entry,
    },
    retry::outcome::Answer,
    subscription::Resource,
};
use serde_json::{Map, Value, json};

use super::{Sent, delivered, failure, refused};

/// Bytes of a client context before encoding. Source: Lambda API reference,
/// `Invoke`: 3,583 bytes of base64.
const CONTEXT_BYTES_MAX: usize = 3_583 / 4 * 3;

/// Characters of a function's error that are read.
const ERROR_CHARS_MAX: usize = 256;

/// Invokes the function for each entry: a webhook's headers become the client context's `custom`, its
/// body the payload.
pub(crate) async fn invoke(client: &Client, resource: &Resource, entries: Vec<Entry>) -> Sent {
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        answers.push(one(client, resource, entry).await);
    }
    Ok(answers)
}

async fn one(client: &Client, resource: &Resource, entry: Entry) -> Answer {
    let call = client
        .invoke()
        .function_name(resource.arn.to_string())
        .invocation_type(InvocationType::RequestResponse)
        .client_context(context(&entry))
        .payload(Blob::new(entry.body))
        .send();
    let output = match call.await {
        Ok(output) => output,
        Err(error) => {
            let answer = failure::answer(resource, &error);
            return match error.as_service_error() {
                Some(error) => throttled(resource, error).unwrap_or(answer),
                None => answer,
            };
        }
    };
    if output.function_error().is_none() {
        return delivered();
    }
    let said = output.payload().map(|payload| payload.as_ref()).unwrap_or_default();
    let said: Value = serde_json::from_slice(said).unwrap_or_default();
    let text = |name: &str| said[name].as_str().unwrap_or_default().chars().take(ERROR_CHARS_MAX);
    let message: String =
        text("errorType").chain(": ".chars()).chain(text("errorMessage")).collect();
    refused(resource.kind, FUNCTION_ERROR, Some(&message))
}

/// Reads the limit that throttled the invocation: concurrency or a rate.
fn throttled(resource: &Resource, error: &InvokeError) -> Option<Answer> {
    let InvokeError::TooManyRequestsException(throttled) = error else { return None };
    let message = throttled.reason().map(|reason| reason.as_str().to_owned()).unwrap_or_default();
    let retry_after = throttled.retry_after_seconds().and_then(|text| text.parse().ok());
    let refusal = Refusal {
        code: "TooManyRequestsException".to_owned(),
        message,
        status: Some(429),
        retry_after: retry_after.map(Duration::from_secs),
    };
    Some(answer_of(resource.kind, &refusal))
}

/// Encodes as many attributes as fit.
pub(crate) fn context(entry: &Entry) -> String {
    let mut custom = Map::new();
    let mut bytes = json!({"custom": {}}).to_string().len();
    for (name, value) in &entry.attributes {
        let value = Value::from(value.expose());
        bytes += name.len() + value.to_string().len() + r#""":,"#.len();
        if bytes > CONTEXT_BYTES_MAX {
            break;
        }
        custom.insert(name.clone(), value);
    }
    BASE64_STANDARD.encode(json!({"custom": custom}).to_string())
}
