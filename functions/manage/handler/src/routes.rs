//! Finds the route of a request.

mod body;
mod dead_letters;
mod deliveries;
mod gate;
mod health;
mod keys;
mod parked;
mod poison;
mod redrives;
mod resend;
mod subscriptions;
mod topics;
mod trial;
mod validation;

use std::collections::BTreeSet;

use gridpost_core::{
    delivery::{
        Delivery,
        parking::{self, Parked},
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    document::{Code, Object, Problems, text},
    subscription::{SubscriptionKey, resource as subscription_resource},
    topic::resource as topic_resource,
};
use gridpost_ports::{Outgoing, PortError};
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use self::body::{document, document_around};
use crate::{Context, Reply, Request, page::Page, precondition::Precondition};

/// What a route answers: a refusal is a reply too, so that `?` can leave with it.
type Answer = Result<Reply, Reply>;

/// What a resource is to become.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    /// What this document says.
    Put(&'a Value),
    /// What it is, but for what this patch names.
    Patch(&'a Value),
}

/// What is stored, if the write `own` stored it, although it seemed to meet another: a call that is
/// repeated because its answer was lost meets itself. `own` says whether it was a creation, too.
fn stored_by<'s, T>(
    own: &Option<(bool, Uuid)>,
    stored: Option<&'s T>,
    tag: impl Fn(&T) -> Uuid,
) -> Option<(bool, &'s T)> {
    let (is_new, etag) = (*own)?;
    stored.filter(|stored| tag(stored) == etag).map(|stored| (is_new, stored))
}

/// Something that a path names.
enum Resource<'a> {
    Topics,
    Topic(&'a str),
    ListKeys(&'a str),
    RegenerateKey(&'a str),
    Subscriptions(&'a str),
    TestSubscription(&'a str),
    Explain(&'a str),
    Subscription(SubscriptionKey),
    FullUrl(SubscriptionKey),
    SendTestEvent(SubscriptionKey),
    Validation(SubscriptionKey),
    DeliveryAttributes(SubscriptionKey),
    SigningSecrets(SubscriptionKey),
    RotateSigningSecret(SubscriptionKey),
    Deliveries(SubscriptionKey),
    Delivery(SubscriptionKey, Uuid),
    ResendDelivery(SubscriptionKey, Uuid),
    Health(SubscriptionKey),
    ResetHealth(SubscriptionKey),
    DeadLetters(SubscriptionKey),
    CountDeadLetters(SubscriptionKey),
    DeadLetter(SubscriptionKey, &'a str),
    PurgeDeadLetters(SubscriptionKey),
    RedriveDeadLetters(SubscriptionKey),
    Redrives(SubscriptionKey),
    Redrive(SubscriptionKey, &'a str),
    CancelRedrive(SubscriptionKey, &'a str),
    ResumeRedrive(SubscriptionKey, &'a str),
    Poison,
    PoisonMessage(&'a str),
    ResendPoison,
    PurgePoison,
    Parked,
    ReleaseParked,
    CancelParked,
}

/// Answers a request that came by API Gateway.
pub async fn answer(context: &Context, request: &Request) -> Reply {
    let admitted = resource(&request.path)
        .and_then(|resource| gate::admit(context.settings.authorization, request, &resource));
    let reply = match admitted {
        Ok(()) => carry_out(context, request).await,
        Err(refusal) => refusal,
    };
    log_caller(request, &reply);
    reply
}

/// Leaves behind who asked for what. Reads show no secret and are many.
fn log_caller(request: &Request, reply: &Reply) {
    let Some(caller) = request.caller.as_ref().filter(|_| request.method != Method::GET) else {
        return;
    };
    tracing::info!(caller, status = reply.status, "{} {}", request.method, request.path);
}

/// Answers a request of any caller.
pub(crate) async fn carry_out(context: &Context, request: &Request) -> Reply {
    route(context, request).await.unwrap_or_else(|refusal| refusal)
}

/// Answers what a PUT of that document would refuse, but for the endpoint, which is not asked.
/// Nothing is stored.
pub(crate) async fn check_subscription(context: &Context, path: &str, document: &Value) -> Reply {
    let checked = match resource(path) {
        Ok(Resource::Subscription(key)) => subscriptions::check(context, &key, document).await,
        Ok(_) => Err(Reply::no_route(path)),
        Err(refusal) => Err(refusal),
    };
    checked.unwrap_or_else(|refusal| refusal)
}

async fn route(context: &Context, request: &Request) -> Answer {
    let method = &request.method;
    let resource = resource(&request.path)?;
    let precondition = || Precondition::of(&request.headers);
    match (method.as_str(), &resource) {
        ("GET", Resource::Topics) => topics::list(context, &Page::of(&request.query)?).await,
        ("PUT", Resource::Topic(name)) => {
            let document = document(request)?;
            topics::write(context, name, Change::Put(&document), &precondition()?).await
        }
        ("PATCH", Resource::Topic(name)) => {
            let patch = document(request)?;
            topics::write(context, name, Change::Patch(&patch), &precondition()?).await
        }
        ("GET", Resource::Topic(name)) => topics::get(context, name).await,
        ("DELETE", Resource::Topic(name)) => topics::delete(context, name, &precondition()?).await,
        ("POST", Resource::ListKeys(topic)) => keys::list(context, topic).await,
        ("POST", Resource::RegenerateKey(topic)) => {
            keys::regenerate(context, topic, &document(request)?).await
        }
        ("GET", Resource::Subscriptions(topic)) => {
            subscriptions::list(context, topic, &Page::of(&request.query)?).await
        }
        ("POST", Resource::TestSubscription(topic)) => {
            let (document, events) = document_around(request, "events")?;
            trial::test(context, topic, &document, events).await
        }
        ("POST", Resource::Explain(topic)) => {
            let (document, event) = document_around(request, "event")?;
            trial::explain(context, topic, &document, event).await
        }
        ("PUT", Resource::Subscription(key)) => {
            let document = document(request)?;
            subscriptions::write(context, key, Change::Put(&document), &precondition()?).await
        }
        ("PATCH", Resource::Subscription(key)) => {
            let patch = document(request)?;
            subscriptions::write(context, key, Change::Patch(&patch), &precondition()?).await
        }
        ("GET", Resource::Subscription(key)) => subscriptions::get(context, key).await,
        ("DELETE", Resource::Subscription(key)) => {
            subscriptions::delete(context, key, &precondition()?).await
        }
        ("POST", Resource::FullUrl(key)) => subscriptions::full_url(context, key).await,
        ("POST", Resource::SendTestEvent(key)) => {
            let (document, event) = document_around(request, "event")?;
            trial::send(context, key, &document, event).await
        }
        ("GET" | "POST", Resource::Validation(key)) => {
            validation::complete(context, key, request).await
        }
        ("POST", Resource::DeliveryAttributes(key)) => {
            subscriptions::delivery_attributes(context, key).await
        }
        ("POST", Resource::SigningSecrets(key)) => {
            subscriptions::signing_secrets(context, key).await
        }
        ("POST", Resource::RotateSigningSecret(key)) => {
            subscriptions::rotate_secret(context, key, &document(request)?).await
        }
        ("GET", Resource::Deliveries(key)) => {
            deliveries::list(context, key, &Page::of(&request.query)?).await
        }
        ("GET", Resource::Delivery(key, id)) => deliveries::show(context, key, *id).await,
        ("POST", Resource::ResendDelivery(key, id)) => resend::resend(context, key, *id).await,
        ("GET", Resource::Health(key)) => health::show(context, key).await,
        ("POST", Resource::ResetHealth(key)) => health::reset(context, key).await,
        (_, Resource::DeadLetters(..))
        | (_, Resource::CountDeadLetters(..))
        | (_, Resource::DeadLetter(..))
        | (_, Resource::PurgeDeadLetters(..))
        | (_, Resource::RedriveDeadLetters(..))
        | (_, Resource::Redrives(..))
        | (_, Resource::Redrive(..))
        | (_, Resource::CancelRedrive(..))
        | (_, Resource::ResumeRedrive(..)) => route_dead_letters(context, request, &resource).await,
        ("GET", Resource::Poison) => {
            poison::list(context, &Page::of_form(&request.query, poison::LIST)?).await
        }
        ("GET", Resource::PoisonMessage(id)) => poison::show(context, id).await,
        ("POST", Resource::ResendPoison) => poison::resend(context, &document(request)?).await,
        ("POST", Resource::PurgePoison) => poison::purge(context, &document(request)?).await,
        ("GET", Resource::Parked) => {
            parked::list(context, &Page::of_form(&request.query, parked::LIST)?).await
        }
        ("POST", Resource::ReleaseParked) => {
            let page = Page::of_form(&request.query, parked::CHANGE)?;
            parked::release(context, &page, &document(request)?).await
        }
        ("POST", Resource::CancelParked) => {
            let page = Page::of_form(&request.query, parked::CHANGE)?;
            parked::cancel(context, &page, &document(request)?).await
        }
        _ => Err(Reply::not_allowed(method, allowed(&resource))),
    }
}

/// The routes of dead letters, and of the jobs that send them again.
async fn route_dead_letters(
    context: &Context,
    request: &Request,
    resource: &Resource<'_>,
) -> Answer {
    let page = |form| Page::of_form(&request.query, form);
    match (request.method.as_str(), resource) {
        ("GET", Resource::DeadLetters(key)) => {
            dead_letters::list(context, key, &page(dead_letters::LIST)?).await
        }
        ("GET", Resource::CountDeadLetters(key)) => {
            dead_letters::count(context, key, &page(dead_letters::LIST)?).await
        }
        ("GET", Resource::DeadLetter(key, id)) => dead_letters::show(context, key, id).await,
        ("POST", Resource::PurgeDeadLetters(key)) => {
            let page = page(dead_letters::PURGE)?;
            dead_letters::purge(context, key, &page, &document(request)?).await
        }
        ("POST", Resource::RedriveDeadLetters(key)) => {
            redrives::start(context, key, &document(request)?).await
        }
        ("GET", Resource::Redrives(key)) => {
            redrives::list(context, key, &page(redrives::LIST)?).await
        }
        ("GET", Resource::Redrive(key, id)) => redrives::get(context, key, id).await,
        ("POST", Resource::CancelRedrive(key, id)) => redrives::cancel(context, key, id).await,
        ("POST", Resource::ResumeRedrive(key, id)) => {
            redrives::resume(context, key, id, &document(request)?).await
        }
        _ => Err(Reply::not_allowed(&request.method, allowed(resource))),
    }
}

/// What a path names, its names checked: one that breaks its rule names nothing that could exist.
fn resource(path: &str) -> Result<Resource<'_>, Reply> {
    let segments: Vec<_> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let (topic, rest) = match segments.as_slice() {
        ["topics"] => return Ok(Resource::Topics),
        ["poison"] => return Ok(Resource::Poison),
        ["poison", id] if !id.is_empty() => return Ok(Resource::PoisonMessage(id)),
        ["poison:resend"] => return Ok(Resource::ResendPoison),
        ["poison:purge"] => return Ok(Resource::PurgePoison),
        ["parked"] => return Ok(Resource::Parked),
        ["parked:release"] => return Ok(Resource::ReleaseParked),
        ["parked:cancel"] => return Ok(Resource::CancelParked),
        ["topics", topic, rest @ ..] if !topic.is_empty() => (*topic, rest),
        _ => return Err(Reply::no_route(path)),
    };
    let key = |name: &str| SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() };
    let (resource, subscription) = match rest {
        [] => (Resource::Topic(topic), None),
        ["listKeys"] => (Resource::ListKeys(topic), None),
        ["regenerateKey"] => (Resource::RegenerateKey(topic), None),
        ["explain"] => (Resource::Explain(topic), None),
        ["eventSubscriptions"] => (Resource::Subscriptions(topic), None),
        ["eventSubscriptions:test"] => (Resource::TestSubscription(topic), None),
        ["eventSubscriptions", name] if !name.is_empty() => {
            (Resource::Subscription(key(name)), Some(*name))
        }
        ["eventSubscriptions", name, action] => {
            let resource = match *action {
                "deliveries" => Resource::Deliveries,
                "health" => Resource::Health,
                "health:reset" => Resource::ResetHealth,
                "deadLetters" => Resource::DeadLetters,
                "deadLetters:count" => Resource::CountDeadLetters,
                "deadLetters:purge" => Resource::PurgeDeadLetters,
                "deadLetters:redrive" => Resource::RedriveDeadLetters,
                "redrives" => Resource::Redrives,
                "validate" => Resource::Validation,
                "getFullUrl" => Resource::FullUrl,
                "sendTestEvent" => Resource::SendTestEvent,
                "getDeliveryAttributes" => Resource::DeliveryAttributes,
                "getSigningSecrets" => Resource::SigningSecrets,
                "rotateSigningSecret" => Resource::RotateSigningSecret,
                _ => return Err(Reply::no_route(path)),
            };
            (resource(key(name)), Some(*name))
        }
        ["eventSubscriptions", name, "deliveries", id] => {
            (Resource::Delivery(key(name), delivery_id(id)?), Some(*name))
        }
        ["eventSubscriptions", name, "deliveries", id, "resend"] => {
            (Resource::ResendDelivery(key(name), delivery_id(id)?), Some(*name))
        }
        ["eventSubscriptions", name, "deadLetters", id] => {
            (Resource::DeadLetter(key(name), id), Some(*name))
        }
        ["eventSubscriptions", name, "redrives", id] => {
            (Resource::Redrive(key(name), id), Some(*name))
        }
        ["eventSubscriptions", name, "redrives", id, "cancel"] => {
            (Resource::CancelRedrive(key(name), id), Some(*name))
        }
        ["eventSubscriptions", name, "redrives", id, "resume"] => {
            (Resource::ResumeRedrive(key(name), id), Some(*name))
        }
        _ => return Err(Reply::no_route(path)),
    };
    topic_resource::check_name(topic)?;
    subscription.map_or(Ok(()), subscription_resource::check_name)?;
    Ok(resource)
}

fn delivery_id(text: &str) -> Result<Uuid, Reply> {
    text.parse().map_err(|_| Reply::no_delivery(text))
}

fn allowed(resource: &Resource<'_>) -> &'static [Method] {
    match resource {
        Resource::Topics
        | Resource::Subscriptions(_)
        | Resource::Deliveries(_)
        | Resource::Delivery(..)
        | Resource::Health(_)
        | Resource::DeadLetters(_)
        | Resource::CountDeadLetters(_)
        | Resource::DeadLetter(..)
        | Resource::Redrives(_)
        | Resource::Redrive(..)
        | Resource::Poison
        | Resource::PoisonMessage(_)
        | Resource::Parked => &[Method::GET],
        Resource::Topic(_) | Resource::Subscription(_) => {
            &[Method::PUT, Method::GET, Method::PATCH, Method::DELETE]
        }
        Resource::Validation(_) => &[Method::GET, Method::POST],
        Resource::ListKeys(_)
        | Resource::RegenerateKey(_)
        | Resource::FullUrl(_)
        | Resource::SendTestEvent(_)
        | Resource::DeliveryAttributes(_)
        | Resource::SigningSecrets(_)
        | Resource::RotateSigningSecret(_)
        | Resource::TestSubscription(_)
        | Resource::Explain(_)
        | Resource::ResetHealth(_)
        | Resource::ResendDelivery(..)
        | Resource::PurgeDeadLetters(_)
        | Resource::RedriveDeadLetters(_)
        | Resource::CancelRedrive(..)
        | Resource::ResumeRedrive(..)
        | Resource::ResendPoison
        | Resource::PurgePoison
        | Resource::ReleaseParked
        | Resource::CancelParked => &[Method::POST],
    }
}

/// What a document's `ids` choose, if it has them.
fn ids(root: &mut Object<'_>, most: usize, problems: &mut Problems) -> Option<BTreeSet<String>> {
    let given = root.list("ids", problems)?;
    if given.is_empty() || given.len() > most {
        let rule = format!("must have 1 to {most} elements, but has {}", given.len());
        problems.add(Code::OutOfRange, "ids", rule);
    }
    let given = given.iter().take(most);
    Some(given.filter_map(|(path, id)| text(id, path, problems)).map(str::to_owned).collect())
}

/// What there is to say of a delivery, without its events.
fn delivery_document(delivery: &Delivery) -> Value {
    let mut document = json!({
        "id": delivery.id,
        "topic": delivery.subscription.topic,
        "eventSubscription": delivery.subscription.name,
        "events": delivery.event_count(),
        "publishTime": delivery.publish_time.to_iso_8601(),
        "deliveryAttempts": delivery.attempts.made,
    });
    if let Some(due) = delivery.due {
        document["due"] = json!(due.to_iso_8601());
    }
    if let Some(outcome) = delivery.attempts.last_outcome {
        document["lastDeliveryOutcome"] = json!(outcome);
    }
    if let Some(status) = delivery.attempts.last_status {
        document["lastHttpStatusCode"] = json!(status);
    }
    document
}

/// The state of a delivery that has none.
fn first_state(delivery: &Delivery, standing: DeliveryStatus) -> DeliveryState {
    DeliveryState {
        id: delivery.id,
        subscription: delivery.subscription.clone(),
        subscription_uid: delivery.subscription_uid,
        publish_time: delivery.publish_time,
        redriven_at: delivery.redriven.map(|redriven| redriven.at),
        events: u32::try_from(delivery.event_count()).unwrap_or(u32::MAX),
        done: delivery.done.clone(),
        attempts: delivery.attempts.clone(),
        standing,
        past: Vec::new(),
        receipt: None,
        resend: None,
        revision: 0,
    }
}

/// The retry queue of a parked delivery, now.
fn retry_queue(context: &Context, parked: &Parked) -> Result<Queue, PortError> {
    let none = || PortError::new("sending a parked delivery", "there is no retry queue");
    parking::queue_now(parked.shard, context.settings.retry_shards).ok_or_else(none)
}

/// Sends one message; a failure is tried once more, which may send it twice.
async fn send_back(context: &Context, queue: Queue, message: Outgoing) -> Result<(), PortError> {
    let mut sent = context.sender.send(queue, vec![message.clone()]).await.pop();
    if !matches!(sent, Some(Ok(()))) {
        sent = context.sender.send(queue, vec![message]).await.pop();
    }
    sent.unwrap_or_else(|| Err(PortError::new("sending a message", "no answer came")))
}
