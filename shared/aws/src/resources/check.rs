//! Checks a resource by a call that changes nothing.

use std::error::Error;

use aws_sdk_kinesis::types::StreamStatus;
use aws_sdk_lambda::types::InvocationType;
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use gridpost_core::{
    delivery::resource_check::Finding,
    retry::outcome::Outcome,
    subscription::{Resource, ResourceKind},
};

use super::{AwsResources, failure, queue};

/// Characters of a service's message that are passed on.
const SAYS_CHARS_MAX: usize = 300;

/// The permissions for this are next to those for delivering, in Terraform.
pub(crate) async fn check(clients: &AwsResources, resource: &Resource) -> Finding {
    let arn = resource.arn.to_string();
    match resource.kind {
        ResourceKind::LambdaFunction => {
            let call = clients.function.invoke().function_name(arn);
            found(resource, call.invocation_type(InvocationType::DryRun).send().await)
        }
        ResourceKind::SqsQueue => {
            let call = clients.queue.get_queue_attributes().queue_url(queue::url(&resource.arn));
            found(resource, call.attribute_names(QueueAttributeName::QueueArn).send().await)
        }
        ResourceKind::SnsTopic => {
            found(resource, clients.topic.get_topic_attributes().topic_arn(arn).send().await)
        }
        ResourceKind::KinesisStream => {
            let call = clients.stream.describe_stream_summary().stream_arn(arn).send().await;
            let summary = call.as_ref().ok().and_then(|found| found.stream_description_summary());
            if summary.is_some_and(|it| *it.stream_status() == StreamStatus::Deleting) {
                return Finding {
                    outcome: Outcome::NotFound,
                    says: "it is being deleted".to_owned(),
                };
            }
            found(resource, call)
        }
        ResourceKind::EventBridgeBus => {
            // Buses of other accounts are not checked.
            let bus = &resource.arn.resource;
            let name = bus.strip_prefix("event-bus/").unwrap_or(bus);
            found(resource, clients.bus.describe_event_bus().name(name).send().await)
        }
    }
}

fn found<T, E>(resource: &Resource, answered: Result<T, SdkError<E, HttpResponse>>) -> Finding
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let Err(error) = answered else {
        return Finding { outcome: Outcome::Delivered, says: String::new() };
    };
    let outcome = failure::answer(resource, &error).outcome;
    let service = error.as_service_error();
    let said = [service.and_then(|it| it.code()), service.and_then(|it| it.message())];
    let says: Vec<_> = said.into_iter().flatten().collect();
    Finding { outcome, says: says.join(": ").chars().take(SAYS_CHARS_MAX).collect() }
}
