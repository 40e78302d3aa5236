//! Answers the calls of SQS that the command line makes (`audit`) from the queues. Signatures are not checked.

use gridpost_core::delivery::queue::Queue;
use gridpost_embedded::Embedded;
use gridpost_ports::{PoisonQueue, PortError, QueueReceiver};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use crate::mapping::RETRY_QUEUES;

/// The prefix of queues: the deployment's default.
const PREFIX: &str = "gridpost";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    ListQueues,
    GetQueueAttributes,
}

pub(crate) fn operation(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Operation> {
    let is_call = method == Method::POST && uri.path() == "/";
    let target = headers.get("x-amz-target").filter(|_| is_call)?.to_str().ok()?;
    match target {
        "AmazonSQS.ListQueues" => Some(Operation::ListQueues),
        "AmazonSQS.GetQueueAttributes" => Some(Operation::GetQueueAttributes),
        _ => None,
    }
}

pub(crate) async fn answer(
    store: &Embedded,
    operation: Operation,
    body: &[u8],
) -> (StatusCode, Value) {
    let Ok(ask) = serde_json::from_slice::<Value>(body) else {
        return refusal("SerializationException", "the body is not JSON");
    };
    match operation {
        Operation::ListQueues => {
            let urls = names().map(|(name, _)| format!("http://127.0.0.1/{name}"));
            (StatusCode::OK, json!({"QueueUrls": urls.collect::<Vec<_>>()}))
        }
        Operation::GetQueueAttributes => match attributes(store, &ask).await {
            Ok(Some(attributes)) => (StatusCode::OK, json!({"Attributes": attributes})),
            Ok(None) => refusal("QueueDoesNotExist", "there is no such queue"),
            Err(error) => refusal("InternalError", &error.to_string()),
        },
    }
}

fn refusal(code: &str, text: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, json!({"__type": code, "message": text}))
}

fn names() -> impl Iterator<Item = (String, Queue)> {
    let own = [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive, Queue::Poison];
    let all = own.into_iter().chain((0..RETRY_QUEUES).map(Queue::Retry));
    all.map(|queue| (format!("{PREFIX}-{queue}"), queue))
}

async fn attributes(store: &Embedded, ask: &Value) -> Result<Option<Value>, PortError> {
    let url = ask["QueueUrl"].as_str().unwrap_or_default();
    let name = url.rsplit('/').next().unwrap_or_default();
    let Some((_, queue)) = names().find(|(known, _)| known == name) else { return Ok(None) };
    let queues = store.queues();
    let (held, hidden) = match queue {
        Queue::Poison => (PoisonQueue::count(&*queues).await?, 0),
        _ => (queues.backlog(queue).await?, queues.in_flight(queue).await?),
    };
    Ok(Some(json!({
        "ApproximateNumberOfMessages": held.saturating_sub(hidden).to_string(),
        "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0",
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_requests() {
        let mut headers = HeaderMap::new();
        let root = Uri::from_static("/");
        assert_eq!(operation(&Method::POST, &root, &headers), None);
        headers.insert("x-amz-target", "AmazonSQS.ListQueues".parse().expect("a value"));
        assert_eq!(operation(&Method::POST, &root, &headers), Some(Operation::ListQueues));
        assert_eq!(operation(&Method::GET, &root, &headers), None);
        assert_eq!(operation(&Method::POST, &Uri::from_static("/topics"), &headers), None);
        headers.insert("x-amz-target", "AmazonSQS.PurgeQueue".parse().expect("a value"));
        assert_eq!(operation(&Method::POST, &root, &headers), None);
    }
}
