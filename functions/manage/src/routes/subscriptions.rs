//! Event subscriptions of a topic.

use std::time::Duration;

use gridpost::{
    endpoint::handshake::{Handshake, Question, ask, wait_within},
    ports::Saved,
    subscription::{
        Endpoint, EventSubscription, SubscriptionKey,
        resource::{self, Settings},
    },
    topic::Topic,
};
use serde_json::{Value, json};

use super::{Answer, topics};
use crate::{Context, Reply, TRIES_MAX};

/// Event subscriptions that a topic may have. Source: Event Grid, "Quotas and limits".
const SUBSCRIPTIONS_MAX: usize = 500;

/// What API Gateway's 30 s leave for the handshake and the wait until the data plane has seen the
/// change; the rest is for the function's start and the table.
const ANSWER_WITHIN: Duration = Duration::from_secs(27);

/// All event subscriptions of a topic, by name.
pub(super) async fn list(context: &Context, topic: &str) -> Answer {
    let topic = topics::existing(context, topic).await?;
    let all = context.configuration.subscriptions(&topic.name).await?;
    let documents: Vec<_> = all.iter().map(|one| document(&topic, one)).collect();
    Ok(Reply::ok(json!({"value": documents})))
}

/// One event subscription.
pub(super) async fn get(context: &Context, key: &SubscriptionKey) -> Answer {
    let (topic, subscription) = existing(context, key).await?;
    Ok(Reply::ok(document(&topic, &subscription)))
}

/// The URL of its endpoint, query included.
pub(super) async fn full_url(context: &Context, key: &SubscriptionKey) -> Answer {
    let (_, subscription) = existing(context, key).await?;
    Ok(Reply::ok(resource::full_url(&subscription)))
}

/// Creates an event subscription, or replaces an existing one, which then keeps its identity.
///
/// The endpoint must consent before anything is stored; it is asked only if it or the schema is new.
/// What is stored was checked against the topic as it then is: if it has changed meanwhile, all is
/// decided anew.
pub(super) async fn put(context: &Context, key: &SubscriptionKey, document: &Value) -> Answer {
    let mut consented: Option<Settings> = None;
    for _ in 0..TRIES_MAX {
        // The topic first: its revision then covers what is read after it.
        let topic = topics::existing(context, &key.topic).await?;
        let existing = context.subscriptions.subscription(key).await?;
        let settings = read(context, &topic, existing.as_ref(), document)?;
        if existing.is_none() {
            refuse_too_many(context, &topic).await?;
        }
        let needs_consent = settings.needs_consent(existing.as_ref());
        if needs_consent && consented.as_ref().is_none_or(|before| differs(before, &settings)) {
            prove_consent(context, key, &settings).await?;
            consented = Some(settings.clone());
        }
        let (uid, created_at) = match &existing {
            Some(existing) => (existing.uid, existing.created_at),
            None => (context.dice.id(), context.clock.now()),
        };
        let subscription = settings.into_subscription(key.clone(), uid, created_at);
        if context.subscriptions.save(&topic, &subscription).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        let verb = if existing.is_none() { "created" } else { "replaced" };
        log(key, verb);
        context.until_seen().await;
        let document = self::document(&topic, &subscription);
        return Ok(match existing {
            None => Reply::created(document),
            Some(_) => Reply::ok(document),
        });
    }
    Err(Reply::too_many_changes())
}

/// Refuses what [`put`] would refuse before it asks the endpoint.
pub(super) async fn check(context: &Context, key: &SubscriptionKey, document: &Value) -> Answer {
    let topic = topics::existing(context, &key.topic).await?;
    let existing = context.subscriptions.subscription(key).await?;
    read(context, &topic, existing.as_ref(), document)?;
    if existing.is_none() {
        refuse_too_many(context, &topic).await?;
    }
    Ok(Reply::ok(json!({})))
}

/// Deletes an event subscription.
pub(super) async fn delete(context: &Context, key: &SubscriptionKey) -> Answer {
    for _ in 0..TRIES_MAX {
        let topic = topics::existing(context, &key.topic).await?;
        if context.subscriptions.subscription(key).await?.is_none() {
            return Ok(Reply::nothing());
        }
        let names = [key.name.clone()];
        if context.subscriptions.delete(&topic, &names).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        log(key, "deleted");
        context.until_seen().await;
        return Ok(Reply::deleted());
    }
    Err(Reply::too_many_changes())
}

fn read(
    context: &Context,
    topic: &Topic,
    existing: Option<&EventSubscription>,
    document: &Value,
) -> Result<Settings, Reply> {
    let (now, allowed) = (context.clock.now(), &context.settings.allowed);
    Ok(resource::read(document, &resource::Context { topic, existing, now, allowed })?)
}

async fn refuse_too_many(context: &Context, topic: &Topic) -> Result<(), Reply> {
    if context.configuration.subscriptions(&topic.name).await?.len() < SUBSCRIPTIONS_MAX {
        return Ok(());
    }
    let message = format!(
        "The topic '{}' has {SUBSCRIPTIONS_MAX} event subscriptions, the most that a topic may have.",
        topic.name
    );
    Err(Reply::conflict("name", message))
}

/// Whether one consent does not stand for the other.
fn differs(before: &Settings, settings: &Settings) -> bool {
    before.endpoint != settings.endpoint || before.delivery_schema != settings.delivery_schema
}

async fn prove_consent(
    context: &Context,
    key: &SubscriptionKey,
    settings: &Settings,
) -> Result<(), Reply> {
    let Endpoint::WebHook { url } = &settings.endpoint;
    let question = Question::for_schema(
        settings.delivery_schema,
        context.dice.id(),
        context.clock.now(),
        &context.settings.validation_origin,
    );
    let wait = wait_within(ANSWER_WITHIN.saturating_sub(context.settings.configuration_kept_for));
    let handshake = Handshake { key: key.clone(), url: url.clone(), question, wait };
    ask(context.handshakes.as_ref(), &handshake).await.map_err(|refused| {
        let base = resource::base_url(url.expose());
        let message = format!(
            "The attempt to validate the provided endpoint {base} failed: {refused}. Nothing was \
             stored."
        );
        Reply::error(400, "Endpoint validation", message)
    })
}

async fn existing(
    context: &Context,
    key: &SubscriptionKey,
) -> Result<(Topic, EventSubscription), Reply> {
    let topic = topics::existing(context, &key.topic).await?;
    let subscription = context.subscriptions.subscription(key).await?;
    let missing = || Reply::no_subscription(&key.topic, &key.name);
    Ok((topic, subscription.ok_or_else(missing)?))
}

fn document(topic: &Topic, subscription: &EventSubscription) -> Value {
    resource::write(subscription, topic.delivery_profile)
}

fn log(key: &SubscriptionKey, verb: &str) {
    let SubscriptionKey { topic, name } = key;
    tracing::info!(
        topic.name = %topic,
        subscription.name = %name,
        "event subscription {key} {verb}"
    );
}
