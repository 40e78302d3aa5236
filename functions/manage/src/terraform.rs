//! Event subscriptions as code. The module `infra/modules/event-subscription` invokes manage
//! directly: whoever may invoke the function may do what the resource API does.
//!
//! `validate` runs at plan and finds what `write` would refuse, but asks no endpoint and stores
//! nothing. `write` is a PUT and `remove` a DELETE.

use gridpost_api::{
    document::{self, Code, Problems},
    error::{Error, ErrorBody},
};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{Context, Reply, Request, routes};

/// The member that only such a payload has.
const OPERATION: &str = "terraform";

/// The member that Terraform adds with `lifecycle_scope = "CRUD"`.
const LIFE: &str = "tf";

/// Why nothing was done: every problem with its path, in one line, as Terraform shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Validate,
    Write,
    Remove,
}

/// A payload of the module.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
struct Invocation {
    #[schema(required = true)]
    terraform: Option<Operation>,
    /// The name of the topic.
    #[schema(required = true)]
    topic: Option<String>,
    /// The name of the event subscription.
    #[schema(required = true)]
    name: Option<String>,
    document: Option<Value>,
    tf: Option<Life>,
}

/// A resource for whose whole life Terraform invokes the function.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
struct Life {
    #[schema(required = true)]
    action: Option<Action>,
    /// The earlier input of the function.
    #[schema(read_only)]
    prev_input: Option<Value>,
}

/// An action on the resource. Only the end of its life matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Create,
    Update,
    Delete,
}

/// The answer to `validate`.
#[derive(Debug, Serialize)]
struct Checked {
    problems: Vec<String>,
}

/// Whether an event of the function is Terraform's.
pub fn is_invocation(event: &Value) -> bool {
    event.get(OPERATION).is_some()
}

/// Does what Terraform asks. Answers contain no secrets: Terraform keeps them in its state.
/// An error fails the invocation, and with it `terraform apply`.
pub async fn answer(context: &Context, event: &Value) -> Result<Value, Refused> {
    let invocation = read(event).map_err(|problems| Refused(explain(&problems.into())))?;
    let Invocation { terraform: operation, topic, name, document, tf } = invocation;
    let (topic, name) = (topic.unwrap_or_default(), name.unwrap_or_default());
    let document = document.unwrap_or_default();
    let life = tf.and_then(|life| life.action);
    let nothing = Value::Object(Map::new());
    let path = format!("/topics/{topic}/eventSubscriptions/{name}");
    let refused = |reply: &Reply| {
        Refused(format!("event subscription {name} of topic {topic}: {}", explain(reply)))
    };
    match operation.unwrap_or(Operation::Validate) {
        Operation::Validate => {
            let problems = match routes::check_subscription(context, &topic, &name, &document).await
            {
                Ok(()) => Vec::new(),
                Err(reply) if (400..500).contains(&reply.status) => problems(&reply),
                Err(reply) => return Err(refused(&reply)),
            };
            Ok(serde_json::to_value(Checked { problems }).unwrap_or_default())
        }
        Operation::Write => {
            let body = document.to_string().into_bytes();
            let reply = routes::carry_out(context, Request::new(Method::PUT, path, body)).await;
            match reply.status {
                200..300 => Ok(reply.body.unwrap_or_default()),
                _ => Err(refused(&reply)),
            }
        }
        Operation::Remove if life != Some(Action::Delete) => Ok(nothing),
        Operation::Remove => {
            let request = Request::new(Method::DELETE, path, Vec::new());
            let reply = routes::carry_out(context, request).await;
            match reply.status {
                // 404: the topic was deleted, and the event subscription with it.
                200..300 | 404 => Ok(nothing),
                _ => Err(refused(&reply)),
            }
        }
    }
}

fn read(event: &Value) -> Result<Invocation, Problems> {
    let mut problems = Problems::default();
    let given: Invocation = document::read(event, &mut problems);
    let missing = match given.terraform {
        Some(Operation::Remove) if given.tf.is_none() => {
            Some((LIFE, "what Terraform adds with lifecycle_scope = \"CRUD\""))
        }
        Some(Operation::Validate | Operation::Write) if given.document.is_none() => {
            Some(("document", "the event subscription's document"))
        }
        _ => None,
    };
    if let Some((name, what)) = missing {
        problems.add(Code::MissingMember, name, format!("is required: {what}"));
    }
    problems.or(Some(given))
}

/// Every problem of a refusal, each with its path.
fn problems(reply: &Reply) -> Vec<String> {
    let refusal = reply.body.clone().and_then(|body| serde_json::from_value(body).ok());
    let Some(Error { error: ErrorBody { message, details, .. } }) = refusal else {
        return Vec::new();
    };
    match details.is_empty() {
        true => vec![message],
        false => details.into_iter().map(|detail| detail.message).collect(),
    }
}

fn explain(reply: &Reply) -> String {
    let mut problems = problems(reply);
    match problems.len() {
        0 => format!("status {}", reply.status),
        1 => problems.remove(0),
        count => format!("{count} problems: {}", problems.join("; ")),
    }
}
