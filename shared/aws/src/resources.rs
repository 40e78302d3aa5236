//! AWS resources as endpoints: one module for each service's call and answers. What answers mean is in
//! [`gridpost_core::delivery::resource_outcome`].
//!
//! Only the program `dispatch-resources` has them, because five SDK clients make it larger: Terraform
//! deploys it if `resource_destinations` names any.

mod bus;
mod check;
mod failure;
mod function;
mod queue;
mod stream;
mod topic;

#[cfg(test)]
mod shapes_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_types::{retry::RetryConfig, timeout::TimeoutConfig};
use aws_types::SdkConfig;
use gridpost_core::{
    delivery::{
        resource_check::Finding,
        resource_outcome::{Refusal, answer_of, status_of},
        resource_request::Entry,
    },
    retry::outcome::{Answer, Outcome},
    subscription::{Resource, ResourceKind},
};
use gridpost_ports::ResourceClient;

use crate::Lineage;

/// How long a service may take to accept events; a batch may have 5 MB.
const SERVICE_WAIT: Duration = Duration::from_secs(10);

/// Clients of the five services.
#[derive(Clone, Debug)]
pub struct AwsResources {
    bus: aws_sdk_eventbridge::Client,
    function: aws_sdk_lambda::Client,
    queue: aws_sdk_sqs::Client,
    stream: aws_sdk_kinesis::Client,
    topic: aws_sdk_sns::Client,
}

impl AwsResources {
    /// Makes clients with these credentials, region and connections. The SDK does not retry: an attempt is
    /// one call, and Gridpost decides about the next.
    pub fn new(config: &SdkConfig) -> Self {
        // A function answers when it is done, which the time of an attempt bounds.
        let function = config.to_builder().retry_config(RetryConfig::disabled()).build();
        let wait = TimeoutConfig::builder().operation_timeout(SERVICE_WAIT).build();
        let config = function.to_builder().timeout_config(wait).build();
        // Each service has its own type of settings.
        macro_rules! client {
            ($sdk:ident, $config:expr) => {
                $sdk::Client::from_conf(
                    $sdk::config::Builder::from($config).interceptor(Lineage).build(),
                )
            };
        }
        Self {
            bus: client!(aws_sdk_eventbridge, &config),
            function: client!(aws_sdk_lambda, &function),
            queue: client!(aws_sdk_sqs, &config),
            stream: client!(aws_sdk_kinesis, &config),
            topic: client!(aws_sdk_sns, &config),
        }
    }
}

#[async_trait]
impl ResourceClient for AwsResources {
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer> {
        let count = entries.len();
        let sent = match resource.kind {
            ResourceKind::LambdaFunction => {
                function::invoke(&self.function, resource, entries).await
            }
            ResourceKind::SqsQueue => queue::send(&self.queue, resource, entries).await,
            ResourceKind::SnsTopic => topic::publish(&self.topic, resource, entries).await,
            ResourceKind::KinesisStream => stream::put(&self.stream, resource, entries).await,
            ResourceKind::EventBridgeBus => bus::put(&self.bus, resource, entries).await,
        };
        // A refused call refuses each entry.
        sent.unwrap_or_else(|refused| vec![refused; count])
    }

    async fn check(&self, resource: &Resource) -> Finding {
        check::check(self, resource).await
    }
}

/// The answers of a call's entries, or the refusal of the whole call.
type Sent = Result<Vec<Answer>, Answer>;

fn delivered() -> Answer {
    let outcome = Outcome::Delivered;
    Answer { outcome, status: status_of(outcome), retry_after: None }
}

fn refused(kind: ResourceKind, code: &str, message: Option<&str>) -> Answer {
    let message = message.unwrap_or_default();
    tracing::info!(code, message, "an entry was refused");
    let refusal =
        Refusal { code: code.to_owned(), message: message.to_owned(), ..Refusal::default() };
    answer_of(kind, &refusal)
}

/// Returns the answers of entries by their numbers, which are their ids in the call. An entry that the
/// service does not mention may not have arrived.
fn by_number<'a>(
    kind: ResourceKind,
    count: usize,
    accepted: impl IntoIterator<Item = &'a str>,
    failed: impl IntoIterator<Item = (&'a str, &'a str, Option<&'a str>)>,
) -> Vec<Answer> {
    let unknown = answer_of(kind, &Refusal::default());
    let mut answers = vec![unknown; count];
    let mut note = |number: &str, answer: Answer| {
        let place = number.parse().ok().and_then(|number: usize| answers.get_mut(number));
        if let Some(place) = place {
            *place = answer;
        }
    };
    accepted.into_iter().for_each(|number| note(number, delivered()));
    for (number, code, message) in failed {
        note(number, refused(kind, code, message));
    }
    answers
}
