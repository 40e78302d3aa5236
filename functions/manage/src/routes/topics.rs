//! Topics and their access keys.

use base64::{Engine, prelude::BASE64_STANDARD};
use gridpost_api::topic::{self, KeyName, Settings, TopicInput, TopicList, TopicPatch};
use gridpost_core::{
    access::Scope,
    secret::Secret,
    subscription::EventSubscription,
    time::Timestamp,
    topic::{AccessKeys, Changes, Topic},
};
use gridpost_ports::{DELETED_AT_ONCE_MAX, Dice, Saved};

use super::{Answer, Change, InContext, openapi::*, sent::Sent, stored_by};
use crate::{Context, Reply, TRIES_MAX, precondition::Precondition};

/// A page of the topics, by name
#[utoipa::path(
    get,
    path = "/topics",
    operation_id = "listTopics",
    params(Paging),
    responses((status = 200, description = "The page.", body = TopicList), Refused)
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, page) = (&context, &sent.page()?);
    let topics = in_scope(context, &sent.scope, page.after.clone(), page.most() + 1).await?;
    let found = topics.iter().map(|topic| (topic.name.as_str(), document(context, topic)));
    let url = format!("{}/topics", context.settings.manage_url);
    Ok(Reply::ok(page.write(&url, found.collect())))
}

/// Returns the first topics after a name that are in scope, by name.
async fn in_scope(
    context: &Context,
    scope: &Scope,
    mut after: Option<String>,
    most: usize,
) -> Result<Vec<Topic>, Reply> {
    let mut found = Vec::new();
    loop {
        let some = context.topics.topics(after.as_deref(), most).await?;
        let is_last = some.len() < most;
        after = some.last().map(|topic| topic.name.clone());
        found.extend(some.into_iter().filter(|topic| scope.has(&topic.name)));
        if is_last || found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
    }
}

/// Read a topic
#[utoipa::path(
    get,
    path = "/topics/{topic}",
    operation_id = "getTopic",
    params(InTopics),
    responses(
        (status = 200, description = "The topic.", body = topic::Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing
    )
)]
pub(super) async fn get(context: InContext, sent: Sent) -> Answer {
    let (context, name) = (&context, &sent.topic()?);
    let topic = existing(context, name).await?;
    Ok(Reply::ok(document(context, &topic)).tagged(topic.etag))
}

/// Create a topic, or give an existing one other settings
#[utoipa::path(
    put,
    path = "/topics/{topic}",
    operation_id = "putTopic",
    params(InTopics, Guard),
    request_body = Option<TopicInput>,
    responses(
        (status = 200, description = "It was there.", body = topic::Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        (status = 201, description = "It is new.", body = topic::Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Conflicts, Stale, NotDocument
    )
)]
pub(super) async fn put(context: InContext, sent: Sent) -> Answer {
    let document = sent.document()?;
    write(&context, &sent.topic()?, Change::Put(&document), &sent.precondition()?).await
}

/// Change what the patch names (JSON merge patch)
#[utoipa::path(
    patch,
    path = "/topics/{topic}",
    operation_id = "patchTopic",
    params(InTopics, Guard),
    request_body = Option<TopicPatch>,
    responses(
        (status = 200, description = "The changed topic.", body = topic::Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
pub(super) async fn patch(context: InContext, sent: Sent) -> Answer {
    let patch = sent.document()?;
    write(&context, &sent.topic()?, Change::Patch(&patch), &sent.precondition()?).await
}

/// Creates a topic, or changes the settings of an existing one, which keeps its keys.
async fn write(
    context: &Context,
    name: &str,
    change: Change<'_>,
    precondition: &Precondition,
) -> Answer {
    let mut own = None;
    for _ in 0..TRIES_MAX {
        let existing = context.configuration.topic(name).await?;
        if let Some((is_new, stored)) = stored_by(&own, existing.as_ref(), |topic| topic.etag) {
            return Ok(written(context, stored, is_new).await);
        }
        let settings = match (change, &existing) {
            (Change::Put(document), _) => topic::read(document)?,
            (Change::Patch(patch), Some(existing)) => topic::read_patch(patch, existing)?,
            (Change::Patch(_), None) => return Err(Reply::no_topic(name)),
        };
        precondition.check(existing.as_ref().map(|existing| existing.etag))?;
        let topic = match &existing {
            None => new(context, name, settings.clone()),
            Some(existing) => changed(context, existing, settings.clone()).await?,
        };
        if existing.as_ref() == Some(&topic) {
            // Its writer may not have waited for the data plane.
            context.until_seen().await;
            return Ok(Reply::ok(document(context, &topic)).tagged(topic.etag));
        }
        let topic = Topic { etag: context.dice.id(), ..topic };
        let is_new = existing.is_none();
        let keys = is_new.then(|| AccessKeys([(); 2].map(|()| new_key(&*context.dice))));
        if context.topics.save(&topic, keys.as_ref()).await? == Saved::Conflict {
            own = Some((is_new, topic.etag));
            context.back_off().await;
            continue;
        }
        return Ok(written(context, &topic, is_new).await);
    }
    Err(Reply::too_many_changes())
}

async fn written(context: &Context, topic: &Topic, is_new: bool) -> Reply {
    let (name, verb) = (&topic.name, if is_new { "created" } else { "replaced" });
    tracing::info!(topic.name = %name, "topic {name} {verb}");
    context.until_seen().await;
    let document = document(context, topic);
    let reply = if is_new { Reply::created(document) } else { Reply::ok(document) };
    reply.tagged(topic.etag)
}

/// Delete a topic with its event subscriptions
#[utoipa::path(
    delete,
    path = "/topics/{topic}",
    operation_id = "deleteTopic",
    params(InTopics, Guard),
    responses(
        (status = 200, description = "It is deleted."),
        (status = 204, description = "There was none."),
        Refused, Conflicts, Stale
    )
)]
// Deletes a topic with its event subscriptions.
//
// Event subscriptions are deleted first, and the topic only if it has none at the revision read:
// after a crash in between, the same request continues.
pub(super) async fn delete(context: InContext, sent: Sent) -> Answer {
    let (context, name, precondition) = (&context, &sent.topic()?, &sent.precondition()?);
    let mut asked_for: Option<Timestamp> = None;
    let mut conflicts = 0;
    while conflicts < TRIES_MAX {
        let topic = context.configuration.topic(name).await?;
        // A topic created meanwhile under the name is another one.
        let is_other = |topic: &Topic| asked_for.is_some_and(|it| topic.created_at != it);
        let Some(topic) = topic.filter(|topic| !is_other(topic)) else {
            if asked_for.is_some() {
                // Another caller has deleted the rest.
                context.until_seen().await;
                return Ok(Reply::deleted());
            }
            return Ok(Reply::nothing());
        };
        // Check each time: another caller may have changed the topic.
        precondition.check(Some(topic.etag))?;
        asked_for = Some(topic.created_at);
        let subscriptions = context.without_secrets.subscriptions(name).await?;
        let names: Vec<_> = subscriptions
            .into_iter()
            .take(DELETED_AT_ONCE_MAX)
            .map(|subscription| subscription.key.name)
            .collect();
        let saved = if names.is_empty() {
            context.topics.delete(&topic).await?
        } else {
            context.subscriptions.delete(&topic, &names).await?
        };
        match saved {
            Saved::Written if names.is_empty() => {
                let name = &topic.name;
                tracing::info!(topic.name = %name, "topic {name} deleted");
                context.until_seen().await;
                return Ok(Reply::deleted());
            }
            Saved::Written => {}
            Saved::Conflict => {
                conflicts += 1;
                context.back_off().await;
            }
        }
    }
    Err(Reply::too_many_changes())
}

/// The two access keys
#[utoipa::path(
    post,
    path = "/topics/{topic}/listKeys",
    operation_id = "listKeys",
    params(InTopics),
    responses((status = 200, description = "Both keys.", body = topic::Keys), Refused, Missing)
)]
pub(super) async fn list_keys(context: InContext, sent: Sent) -> Answer {
    let (context, topic) = (&context, &sent.topic()?);
    existing(context, topic).await?;
    Ok(Reply::ok(topic::Keys::from(stored_keys(context, topic).await?)))
}

/// Replace one access key
#[utoipa::path(
    post,
    path = "/topics/{topic}/regenerateKey",
    operation_id = "regenerateKey",
    params(InTopics),
    request_body = KeyName,
    responses(
        (status = 200, description = "Both keys, one of them new.", body = topic::Keys),
        Refused, Missing, Conflicts, NotDocument
    )
)]
// Replaces one access key. The other stays valid, so that publishers can switch.
pub(super) async fn regenerate_key(context: InContext, sent: Sent) -> Answer {
    sent.check_query()?;
    let (context, name, document) = (&context, &sent.topic()?, &sent.document()?);
    let index = topic::read_key_name(document)?;
    let key = new_key(context.dice.as_ref());
    for _ in 0..TRIES_MAX {
        // The topic first: a later change of the keys changes its revision.
        let topic = existing(context, name).await?;
        let mut keys = stored_keys(context, name).await?;
        keys.0[index] = key.clone();
        if context.topics.save(&topic, Some(&keys)).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        let name = &topic.name;
        tracing::info!(topic.name = %name, "key {} of topic {name} regenerated", index + 1);
        context.until_seen().await;
        return Ok(Reply::ok(topic::Keys::from(keys)));
    }
    Err(Reply::too_many_changes())
}

async fn stored_keys(context: &Context, topic: &str) -> Result<AccessKeys, Reply> {
    let found = context.keys.keys(topic).await?;
    found.map(|(keys, _)| keys).ok_or_else(|| Reply::no_topic(topic))
}

pub(super) async fn existing(context: &Context, name: &str) -> Result<Topic, Reply> {
    context.configuration.topic(name).await?.ok_or_else(|| Reply::no_topic(name))
}

/// A new access key: 32 bytes, base64, as Event Grid's are.
fn new_key(dice: &dyn Dice) -> Secret {
    Secret::new(BASE64_STANDARD.encode(dice.key()))
}

fn document(context: &Context, topic: &Topic) -> topic::Topic {
    topic::write(topic, &context.settings.publish_url)
}

fn new(context: &Context, name: &str, settings: Settings) -> Topic {
    let dice = context.dice.as_ref();
    Topic {
        name: name.to_owned(),
        kind: settings.kind,
        input_schema: settings.input_schema,
        input_schema_mapping: settings.input_schema_mapping,
        disable_local_auth: settings.disable_local_auth,
        delivery_profile: settings.delivery_profile,
        idempotency: settings.idempotency,
        created_at: context.clock.now(),
        etag: dice.id(),
        revision: 0,
        changes: Changes::default(),
    }
}

/// Changes a topic's settings, if its event subscriptions allow them.
async fn changed(context: &Context, existing: &Topic, settings: Settings) -> Result<Topic, Reply> {
    let again = "delete the topic and create it again";
    if settings.kind != existing.kind {
        let message = format!("The kind of a topic can't change; {again}.");
        return Err(Reply::conflict("kind", message));
    }
    if settings.input_schema != existing.input_schema {
        let message = format!("The inputSchema of a topic can't change; {again}.");
        return Err(Reply::conflict("properties.inputSchema", message));
    }
    if settings.delivery_profile != existing.delivery_profile {
        let subscriptions = context.configuration.subscriptions(&existing.name).await?;
        refuse_outgrown(&subscriptions, &settings)?;
    }
    Ok(Topic {
        input_schema_mapping: settings.input_schema_mapping,
        disable_local_auth: settings.disable_local_auth,
        delivery_profile: settings.delivery_profile,
        idempotency: settings.idempotency,
        ..existing.clone()
    })
}

/// Refuses a delivery profile whose ranges exclude an existing retry policy.
fn refuse_outgrown(subscriptions: &[EventSubscription], settings: &Settings) -> Result<(), Reply> {
    const NAMED_MAX: usize = 10;
    let profile = settings.delivery_profile.profile();
    let outgrown: Vec<_> = subscriptions
        .iter()
        .filter(|subscription| {
            let policy = &subscription.retry_policy;
            policy.max_attempts > profile.attempts_max
                || policy.time_to_live_minutes > profile.time_to_live_minutes_max
        })
        .map(|subscription| subscription.key.name.as_str())
        .collect();
    if outgrown.is_empty() {
        return Ok(());
    }
    let named = outgrown[..outgrown.len().min(NAMED_MAX)].join(", ");
    let message = format!(
        "The new deliveryProfile allows at most {} attempts and {} minutes of time-to-live; the \
         retry policies of {} event subscriptions ask for more, first {named}.",
        profile.attempts_max,
        profile.time_to_live_minutes_max,
        outgrown.len(),
    );
    Err(Reply::conflict("properties.deliveryProfile", message))
}
