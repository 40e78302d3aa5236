//! Event subscriptions as code. The module `infra/modules/event-subscription` invokes manage itself,
//! with a payload of its own instead of a request of API Gateway: whoever may invoke the function
//! may do what the resource API does.
//!
//! `validate` is asked at plan and finds what `write` would refuse, but asks no endpoint and stores
//! nothing. `write` is a PUT and `remove` a DELETE: each goes the way of such a request.

use gridpost_api::document::{Object, Problems};
use http::Method;
use serde_json::{Value, json};

use crate::{Context, Reply, Request, routes};

/// The member that tells such a payload from a request, which has none of that name.
const OPERATION: &str = "terraform";

/// The member that Terraform adds to an invocation which follows the life of a resource.
const LIFE: &str = "tf";

/// Why nothing was done: every problem with its path, in one line, for Terraform shows it as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Validate,
    Write,
    Remove,
}

const OPERATIONS: [(&str, Operation); 3] =
    [("validate", Operation::Validate), ("write", Operation::Write), ("remove", Operation::Remove)];

/// What is done with a resource for whose whole life Terraform invokes the function. Only the end of
/// that life matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Goes,
    Stays,
}

const ACTIONS: [(&str, Life); 3] =
    [("create", Life::Stays), ("update", Life::Stays), ("delete", Life::Goes)];

/// A payload, read.
struct Invocation<'p> {
    operation: Operation,
    topic: &'p str,
    name: &'p str,
    document: &'p Value,
    life: Life,
}

/// Whether an event of the function is Terraform's.
pub fn is_invocation(event: &Value) -> bool {
    event.get(OPERATION).is_some()
}

/// Does what Terraform asks. No answer holds a secret: Terraform keeps it in its state.
/// An error fails the invocation, and with it `terraform apply`.
pub async fn answer(context: &Context, event: &Value) -> Result<Value, Refused> {
    let invocation = read(event).map_err(|problems| Refused(explain(&problems.into())))?;
    let Invocation { operation, topic, name, document, life } = invocation;
    let path = format!("/topics/{topic}/eventSubscriptions/{name}");
    let refused = |reply: &Reply| {
        Refused(format!("event subscription {name} of topic {topic}: {}", explain(reply)))
    };
    match operation {
        Operation::Validate => {
            let reply = routes::check_subscription(context, topic, name, document).await;
            match reply.status {
                200 => Ok(json!({"problems": []})),
                400..500 => Ok(json!({"problems": problems(&reply)})),
                _ => Err(refused(&reply)),
            }
        }
        Operation::Write => {
            let body = document.to_string().into_bytes();
            let reply = routes::carry_out(context, Request::new(Method::PUT, path, body)).await;
            match reply.status {
                200..300 => Ok(reply.body.unwrap_or_default()),
                _ => Err(refused(&reply)),
            }
        }
        Operation::Remove if life == Life::Stays => Ok(json!({})),
        Operation::Remove => {
            let request = Request::new(Method::DELETE, path, Vec::new());
            let reply = routes::carry_out(context, request).await;
            match reply.status {
                // With its topic it is gone as well.
                200..300 | 404 => Ok(json!({})),
                _ => Err(refused(&reply)),
            }
        }
    }
}

fn read(event: &Value) -> Result<Invocation<'_>, Problems> {
    let mut problems = Problems::default();
    let invocation = read_members(event, &mut problems);
    problems.or(invocation)
}

fn read_members<'p>(event: &'p Value, problems: &mut Problems) -> Option<Invocation<'p>> {
    const NO_DOCUMENT: &Value = &Value::Null;
    let mut root = Object::root(event, problems)?;
    root.required(OPERATION, "'validate', 'write' or 'remove'", problems);
    let operation = root.choice(OPERATION, &OPERATIONS, None, problems);
    let topic = root.required_text("topic", "the name of the topic", problems);
    let name = root.required_text("name", "the name of the event subscription", problems);
    let mut document = Some(NO_DOCUMENT);
    let mut life = Some(Life::Stays);
    if operation == Some(Operation::Remove) {
        let what = "what Terraform adds with lifecycle_scope = \"CRUD\"";
        life = root.required_object(LIFE, what, problems).and_then(|mut member| {
            member.required("action", "'create', 'update' or 'delete'", problems);
            member.choice("action", &ACTIONS, None, problems)
        });
    } else {
        document = root.required("document", "the event subscription's document", problems);
    }
    root.finish(problems);
    Some(Invocation {
        operation: operation?,
        topic: topic?,
        name: name?,
        document: document?,
        life: life?,
    })
}

/// Every problem of a refusal, each with its path.
fn problems(reply: &Reply) -> Vec<String> {
    let error = reply.body.as_ref().map_or(&Value::Null, |body| &body["error"]);
    let text = |value: &Value| value["message"].as_str().map(str::to_owned);
    let details: Vec<_> =
        error["details"].as_array().into_iter().flatten().filter_map(text).collect();
    if details.is_empty() { text(error).into_iter().collect() } else { details }
}

fn explain(reply: &Reply) -> String {
    let mut problems = problems(reply);
    match problems.len() {
        0 => format!("status {}", reply.status),
        1 => problems.remove(0),
        count => format!("{count} problems: {}", problems.join("; ")),
    }
}
