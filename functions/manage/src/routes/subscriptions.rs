//! Event subscriptions of a topic.

use std::{fmt::Display, time::Duration};

use gridpost_api::{
    error::ErrorCode,
    subscription::{
        self, Consent, DeliveryAttributes, EventSubscriptionInput, EventSubscriptionList,
        EventSubscriptionPatch, FullUrl, Identity, RotateInput, Settings, SigningSecrets, signing,
    },
};
use gridpost_core::{
    delivery::resource_check::{self, Obstacle},
    event::DeliverySchema,
    name,
    secret::Secret,
    subscription::{
        Endpoint, EventSubscription, ProvisioningState, Resource, SubscriptionKey, Validation,
        attributes::fixed_headers, signing::Signing, validation::VALID_FOR,
    },
    topic::{Kind, Topic},
};
use gridpost_ports::{HandshakeError, PortError, Saved};
use serde_json::Value;
use uuid::Uuid;

use super::{Answer, Change, InContext, openapi::*, sent::Sent, stored_by, topics};
use crate::{
    Context, Reply, TRIES_MAX,
    handshake::{self, Handshake, WAIT_MAX, ask},
    page::Page,
    precondition::Precondition,
    url_below,
};

/// The most event subscriptions of a topic. Source: Event Grid, "Quotas and limits".
const SUBSCRIPTIONS_MAX: usize = 500;

/// The most stored bytes of a topic's event subscriptions together: every copy of ingest and dispatch
/// reads all of them.
const CONFIGURATION_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// An event subscription of this size always fits.
const ALWAYS_FITS_BYTES: usize = CONFIGURATION_BYTES_MAX / SUBSCRIPTIONS_MAX;

/// The time for the handshake and the wait for the data plane, out of API Gateway's 30 s; the rest is
/// for the function's start and the table.
const ANSWER_WITHIN: Duration = Duration::from_secs(27);

/// A page of the topic's event subscriptions, by name
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions",
    operation_id = "listEventSubscriptions",
    params(InTopics, Paging),
    responses(
        (status = 200, description = "The page.", body = EventSubscriptionList),
        Refused, Missing
    )
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, topic, page) = (&context, &sent.topic()?, &sent.page()?);
    let topic = topics::existing(context, topic).await?;
    let some = page_of(context, &topic, page).await?;
    let found = some.iter().map(|one| (one.key.name.as_str(), document(context, &topic, one)));
    let url = format!("{}{}/eventSubscriptions", context.settings.manage_url, topic.id());
    Ok(Reply::ok(page.write(&url, found.collect())))
}

/// Read an event subscription
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "getEventSubscription",
    params(InSubscription),
    responses(
        (status = 200, description = "The event subscription.", body = subscription::EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing
    )
)]
pub(super) async fn get(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    let (topic, subscription) = existing(context, key).await?;
    Ok(Reply::ok(document(context, &topic, &subscription)).tagged(subscription.etag))
}

/// The endpoint's URL, query included
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getFullUrl",
    operation_id = "getFullUrl",
    params(InSubscription),
    responses(
        (status = 200, description = "The URL.", body = FullUrl),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn full_url(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    let (_, subscription) = existing(context, key).await?;
    let url = subscription::full_url(&subscription);
    url.map(Reply::ok).ok_or_else(|| {
        let message = format!("'{key}' delivers to an AWS resource, which has no URL.");
        Reply::conflict("properties.destination", message)
    })
}

/// Its delivery attributes, secret values included
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
    operation_id = "getDeliveryAttributes",
    params(InSubscription),
    responses(
        (status = 200, description = "The attributes.", body = DeliveryAttributes),
        Refused, Missing
    )
)]
pub(super) async fn delivery_attributes(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    let (_, subscription) = existing(context, key).await?;
    Ok(Reply::ok(subscription::delivery_attributes(&subscription)))
}

/// The secrets with which its requests are signed
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getSigningSecrets",
    operation_id = "getSigningSecrets",
    params(InSubscription),
    responses(
        (status = 200, description = "The secrets.", body = SigningSecrets),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn signing_secrets(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    let (_, subscription) = existing(context, key).await?;
    let signing = subscription.signing.ok_or_else(|| not_signed(key))?;
    Ok(Reply::ok(SigningSecrets::from(&signing)))
}

/// Makes a new signing secret; the one until now stays valid for a while
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
    operation_id = "rotateSigningSecret",
    params(InSubscription),
    request_body = RotateInput,
    responses(
        (status = 200, description = "The secrets.", body = SigningSecrets),
        Refused, Missing, Conflicts, NotDocument
    )
)]
pub(super) async fn rotate_secret(context: InContext, sent: Sent) -> Answer {
    sent.check_query()?;
    let (context, key, document) = (&context, &sent.key()?, &sent.document()?);
    let overlap = signing::read_rotation(document)?;
    let new = context.dice.key();
    let mut own = None;
    for _ in 0..TRIES_MAX {
        let (topic, subscription) = existing(context, key).await?;
        let signing = subscription.signing.clone().ok_or_else(|| not_signed(key))?;
        // A second rotation would make the new secret the previous one, and endpoints' secret invalid.
        if stored_by(&own, Some(&subscription), |stored| stored.etag).is_some() {
            return Ok(rotated(context, &subscription.key, &signing).await);
        }
        let signing = signing.rotated(new, context.clock.machine() + overlap);
        let (etag, modified_at) = (context.dice.id(), context.clock.now());
        let signed = Some(signing.clone());
        let subscription = EventSubscription { signing: signed, etag, modified_at, ..subscription };
        if context.subscriptions.save(&topic, &subscription).await? == Saved::Conflict {
            own = Some((false, etag));
            context.back_off().await;
            continue;
        }
        return Ok(rotated(context, &subscription.key, &signing).await);
    }
    Err(Reply::too_many_changes())
}

async fn rotated(context: &Context, key: &SubscriptionKey, signing: &Signing) -> Reply {
    log(key, "given a new signing secret");
    context.until_seen().await;
    Reply::ok(SigningSecrets::from(signing))
}

fn not_signed(key: &SubscriptionKey) -> Reply {
    let message = format!(
        "The requests of '{key}' are not signed. Write \"signing\": {{\"scheme\": \
         \"StandardWebhooks\"}} into the properties of its document first."
    );
    Reply::conflict("properties.signing", message)
}

/// Create or replace an event subscription; a new endpoint is asked for its consent
#[utoipa::path(
    put,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "putEventSubscription",
    params(InSubscription, Guard),
    request_body = EventSubscriptionInput,
    responses(
        (status = 200, description = "It was there.", body = subscription::EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        (status = 201, description = "It is new.", body = subscription::EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
pub(super) async fn put(context: InContext, sent: Sent) -> Answer {
    let document = sent.document()?;
    write(&context, &sent.key()?, Change::Put(&document), &sent.precondition()?).await
}

/// Change what the patch names (JSON merge patch)
#[utoipa::path(
    patch,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "patchEventSubscription",
    params(InSubscription, Guard),
    request_body = Option<EventSubscriptionPatch>,
    responses(
        (status = 200, description = "The changed event subscription.", body = subscription::EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
pub(super) async fn patch(context: InContext, sent: Sent) -> Answer {
    let patch = sent.document()?;
    write(&context, &sent.key()?, Change::Patch(&patch), &sent.precondition()?).await
}

/// Creates an event subscription, or changes an existing one, which keeps its identity.
///
/// The endpoint must consent before anything is stored; it is asked only if it or the schema is new.
/// If the topic changes meanwhile, everything is checked again.
async fn write(
    context: &Context,
    key: &SubscriptionKey,
    change: Change<'_>,
    precondition: &Precondition,
) -> Answer {
    let mut asked: Option<(Settings, Consent)> = None;
    let (mut secret, mut own) = (None, None);
    for _ in 0..TRIES_MAX {
        // The topic first: its revision covers later reads.
        let topic = topics::existing(context, &key.topic).await?;
        let existing = context.configuration.subscription(key).await?;
        let key = &existing.as_ref().map_or_else(
            || SubscriptionKey { topic: topic.name.clone(), name: key.name.clone() },
            |existing| existing.key.clone(),
        );
        if let Some((is_new, stored)) = stored_by(&own, existing.as_ref(), |one| one.etag) {
            return Ok(written(context, &topic, stored, is_new).await);
        }
        let mut settings = read(context, &topic, key, existing.as_ref(), change)?;
        settings.make_secret(|| *secret.get_or_insert_with(|| context.dice.key()));
        precondition.check(existing.as_ref().map(|existing| existing.etag))?;
        if existing.is_none() {
            refuse_too_many(context, &topic).await?;
        }
        let kept = existing.as_ref().filter(|_| !settings.needs_consent(existing.as_ref()));
        let consent = match (kept, &asked) {
            (Some(kept), _) => Consent::of(kept),
            (None, Some((before, consent))) if !differs(before, &settings) => consent.clone(),
            (None, _) => {
                let known = existing.as_ref().map(|existing| &existing.endpoint);
                let consent = match &settings.endpoint {
                    Endpoint::WebHook { url } => {
                        ask_for_consent(context, key, topic.kind, url, &settings).await?
                    }
                    Endpoint::Resource(resource) => {
                        check_resource(context, resource, known).await?
                    }
                };
                asked = Some((settings.clone(), consent.clone()));
                consent
            }
        };
        let identity = match &existing {
            Some(existing) => changed_identity(context, existing, &settings),
            None => context.new_identity(),
        };
        // A change of the document must not end a pause.
        let pauses = existing.as_ref().map(|existing| existing.pauses.clone()).unwrap_or_default();
        let subscription = settings.into_subscription(key.clone(), identity, consent);
        let subscription = EventSubscription { pauses, ..subscription };
        refuse_too_large(context, &topic, existing.as_ref(), &subscription).await?;
        if existing.as_ref() == Some(&subscription) {
            // Its writer may not have waited for the data plane.
            context.until_seen().await;
            return Ok(
                Reply::ok(document(context, &topic, &subscription)).tagged(subscription.etag)
            );
        }
        let is_new = existing.is_none();
        let (etag, modified_at) = (context.dice.id(), context.clock.now());
        let subscription = EventSubscription { etag, modified_at, ..subscription };
        if context.subscriptions.save(&topic, &subscription).await? == Saved::Conflict {
            own = Some((is_new, subscription.etag));
            context.back_off().await;
            continue;
        }
        return Ok(written(context, &topic, &subscription, is_new).await);
    }
    Err(Reply::too_many_changes())
}

async fn written(
    context: &Context,
    topic: &Topic,
    subscription: &EventSubscription,
    is_new: bool,
) -> Reply {
    log(&subscription.key, if is_new { "created" } else { "replaced" });
    context.until_seen().await;
    let document = document(context, topic, subscription);
    let reply = if is_new { Reply::created(document) } else { Reply::ok(document) };
    reply.tagged(subscription.etag)
}

/// The identity of a changed event subscription. Another destination is another endpoint, which
/// begins healthy.
fn changed_identity(
    context: &Context,
    existing: &EventSubscription,
    settings: &Settings,
) -> Identity {
    let EventSubscription { uid, created_at, etag, modified_at, .. } = *existing;
    let endpoint_uid = match existing.endpoint == settings.endpoint {
        true => existing.endpoint_uid,
        false => Some(context.dice.id()),
    };
    Identity { uid, endpoint_uid, created_at, etag, modified_at }
}

/// Refuses what a PUT would refuse, without asking the endpoint.
pub(super) async fn check(
    context: &Context,
    key: &SubscriptionKey,
    document: &Value,
) -> Result<(), Reply> {
    let topic = topics::existing(context, &key.topic).await?;
    let existing = context.configuration.subscription(key).await?;
    read(context, &topic, key, existing.as_ref(), Change::Put(document))?;
    if existing.is_none() {
        refuse_too_many(context, &topic).await?;
    }
    Ok(())
}

/// Delete an event subscription
#[utoipa::path(
    delete,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "deleteEventSubscription",
    params(InSubscription, Guard),
    responses(
        (status = 200, description = "It is deleted."),
        (status = 204, description = "There was none."),
        Refused, Conflicts, Stale
    )
)]
// Deletes an event subscription. Without its topic, it does not exist.
pub(super) async fn delete(context: InContext, sent: Sent) -> Answer {
    let (context, key, precondition) = (&context, &sent.key()?, &sent.precondition()?);
    let mut asked_for: Option<Uuid> = None;
    for _ in 0..TRIES_MAX {
        let topic = context.configuration.topic(&key.topic).await?;
        let existing = context.without_secrets.subscription(key).await?;
        // An event subscription created meanwhile under the name is another one.
        let is_it = |one: &EventSubscription| asked_for.is_none_or(|uid| uid == one.uid);
        let Some((topic, existing)) = topic.zip(existing.filter(is_it)) else {
            if asked_for.is_some() {
                // Another caller has deleted it, or this one's write succeeded and its answer was lost.
                context.until_seen().await;
                return Ok(Reply::deleted());
            }
            return Ok(Reply::nothing());
        };
        precondition.check(Some(existing.etag))?;
        asked_for = Some(existing.uid);
        let names = [existing.key.name.clone()];
        if context.subscriptions.delete(&topic, &names).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        log(&existing.key, "deleted");
        context.until_seen().await;
        return Ok(Reply::deleted());
    }
    Err(Reply::too_many_changes())
}

fn read(
    context: &Context,
    topic: &Topic,
    key: &SubscriptionKey,
    existing: Option<&EventSubscription>,
    change: Change<'_>,
) -> Result<Settings, Reply> {
    let (now, allowed) = (context.clock.now(), &context.settings.allowed);
    let against = subscription::Context { topic, existing, now, allowed };
    match (change, existing) {
        (Change::Put(document), _) => Ok(subscription::read(document, &against)?),
        (Change::Patch(patch), Some(existing)) => {
            Ok(subscription::read_patch(patch, existing, &against)?)
        }
        (Change::Patch(_), None) => Err(Reply::no_subscription(&topic.name, &key.name)),
    }
}

async fn refuse_too_many(context: &Context, topic: &Topic) -> Result<(), Reply> {
    if context.without_secrets.subscriptions(&topic.name).await?.len() < SUBSCRIPTIONS_MAX {
        return Ok(());
    }
    let message = format!(
        "The topic '{}' has {SUBSCRIPTIONS_MAX} event subscriptions, the most that a topic may have.",
        topic.name
    );
    Err(Reply::conflict("name", message))
}

/// Refuses an event subscription with which its topic's configuration would not fit functions' memory,
/// unless the change makes it no larger.
async fn refuse_too_large(
    context: &Context,
    topic: &Topic,
    existing: Option<&EventSubscription>,
    subscription: &EventSubscription,
) -> Result<(), Reply> {
    let bytes = stored_bytes(subscription);
    if bytes <= existing.map_or(0, stored_bytes).max(ALWAYS_FITS_BYTES) {
        return Ok(());
    }
    let all = context.configuration.subscriptions(&topic.name).await?;
    let others = all.iter().filter(|other| other.key != subscription.key);
    let others_bytes: usize = others.map(stored_bytes).sum();
    if others_bytes + bytes <= CONFIGURATION_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "This event subscription takes {bytes} bytes and the others of the topic '{}' take \
         {others_bytes}, together more than the {CONFIGURATION_BYTES_MAX} that a topic's may take. \
         Shorten filters and lists, or spread event subscriptions over several topics.",
        topic.name
    );
    Err(Reply::conflict("properties", message))
}

fn stored_bytes(subscription: &EventSubscription) -> usize {
    serde_json::to_vec(subscription).map_or(0, |json| json.len())
}

/// Whether the settings need another consent.
fn differs(before: &Settings, settings: &Settings) -> bool {
    before.endpoint != settings.endpoint || before.delivery_schema != settings.delivery_schema
}

/// Checks that a resource exists, unless the event subscription has it already. The deployment's list
/// of resources is the consent.
async fn check_resource(
    context: &Context,
    resource: &Resource,
    known: Option<&Endpoint>,
) -> Result<Consent, Reply> {
    let is_known = matches!(known, Some(Endpoint::Resource(known)) if known.arn == resource.arn);
    let account = &context.settings.account;
    let obstacle = if is_known || !resource_check::is_askable(resource, account) {
        None
    } else {
        let finding = context.checker.check(resource).await?;
        resource_check::obstacle(resource, account, &finding)
    };
    let arn = &resource.arn;
    match obstacle {
        None => {}
        Some(Obstacle::Lasting(why)) => {
            return Err(Reply::error(400, ErrorCode::EndpointValidation, not_validated(arn, why)));
        }
        Some(Obstacle::Passing(why)) => {
            return Err(Reply::unavailable(not_validated(arn, why + ". Try again")));
        }
    }
    let state = ProvisioningState::Succeeded;
    Ok(Consent { state, validation: None, allowed_rate: None })
}

async fn ask_for_consent(
    context: &Context,
    key: &SubscriptionKey,
    kind: Kind,
    url: &Secret,
    settings: &Settings,
) -> Result<Consent, Reply> {
    let (code, now) = (context.dice.id(), context.clock.now());
    // Source: Event Grid, "Webhook" of namespace topics: consent is immediate.
    let validation = (kind == Kind::Custom).then(|| Validation {
        token: Validation::token_of(context.dice.key()),
        // People open the URL, in real time.
        until: now + context.clock.pace().to_clock(VALID_FOR),
        reason: None,
    });
    let validation_url = validation.as_ref().map(|it| validation_url(context, key, code, it));
    let is_cloud_events = settings.delivery_schema == DeliverySchema::CloudEventSchemaV1_0;
    let wait = ANSWER_WITHIN.saturating_sub(context.settings.configuration_kept_for).min(WAIT_MAX);
    let handshake = Handshake {
        key: key.clone(),
        url: url.clone(),
        attributes: fixed_headers(&settings.delivery_attributes),
        authentication: settings.authentication.clone(),
        signing: settings.signing.clone().map(|signing| (signing, context.clock.machine())),
        code,
        asked_at: now,
        origin: is_cloud_events.then(|| context.settings.validation_origin.clone()),
        validation_url,
        wait,
    };
    match ask(context.handshakes.as_ref(), &handshake).await {
        Ok(handshake::Consent::Given { allowed_rate }) => {
            Ok(Consent { state: ProvisioningState::Succeeded, validation: None, allowed_rate })
        }
        Ok(handshake::Consent::Later(why)) => {
            let state = ProvisioningState::AwaitingManualAction;
            let validation = validation.map(|one| Validation { reason: Some(why), ..one });
            Ok(Consent { state, validation, allowed_rate: None })
        }
        Err(handshake::Refused::NoResponse { failure: HandshakeError::NotMade, .. }) => {
            Err(Reply::not_asked())
        }
        Err(refused) => {
            let base = subscription::base_url(handshake.url.expose());
            Err(Reply::error(400, ErrorCode::EndpointValidation, not_validated(base, refused)))
        }
    }
}

fn not_validated(endpoint: impl Display, why: impl Display) -> String {
    format!(
        "The attempt to validate the provided endpoint {endpoint} failed: {why}. Nothing was stored."
    )
}

/// Makes a URL like Event Grid's. The secret token is the proof, not the code.
fn validation_url(
    context: &Context,
    key: &SubscriptionKey,
    code: Uuid,
    validation: &Validation,
) -> Secret {
    let url = url_below(&context.settings.validation_url, key, "validate");
    Secret::new(format!("{url}?id={code}&token={}", validation.token.expose()))
}

/// Returns the event subscriptions of a page, by name, and one more if there is one.
pub(super) async fn page_of(
    context: &Context,
    topic: &Topic,
    page: &Page,
) -> Result<Vec<EventSubscription>, PortError> {
    // At most 500.
    let all = context.configuration.subscriptions(&topic.name).await?;
    let behind = |one: &EventSubscription| {
        page.after.as_ref().is_none_or(|at| name::compare(&one.key.name, at).is_gt())
    };
    Ok(all.into_iter().filter(behind).take(page.most() + 1).collect())
}

pub(super) async fn existing(
    context: &Context,
    key: &SubscriptionKey,
) -> Result<(Topic, EventSubscription), Reply> {
    let topic = topics::existing(context, &key.topic).await?;
    let subscription = context.configuration.subscription(key).await?;
    let missing = || Reply::no_subscription(&key.topic, &key.name);
    Ok((topic, subscription.ok_or_else(missing)?))
}

/// Makes the document of the present state: an expired validation has failed.
fn document(
    context: &Context,
    topic: &Topic,
    subscription: &EventSubscription,
) -> subscription::EventSubscription {
    let provisioning_state = subscription.state(context.clock.now());
    let pauses = subscription.pauses.as_of(context.clock.now());
    let now = EventSubscription { provisioning_state, pauses, ..subscription.clone() };
    subscription::write(&now, topic.delivery_profile)
}

pub(super) fn log(key: &SubscriptionKey, verb: &str) {
    let SubscriptionKey { topic, name } = key;
    tracing::info!(
        topic.name = %topic,
        subscription.name = %name,
        "event subscription {key} {verb}"
    );
}
