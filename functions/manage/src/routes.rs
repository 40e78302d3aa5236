//! Finds the route of a request.

mod deliveries;
mod keys;
mod subscriptions;
mod topics;
mod validation;

use gridpost::{
    document::parse,
    subscription::{SubscriptionKey, resource as subscription_resource},
    topic::resource as topic_resource,
};
use http::{Method, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::{Context, Reply, Request, page::Page, precondition::Precondition};

/// What a route answers: a refusal is a reply too, so that `?` can leave with it.
type Answer = Result<Reply, Reply>;

/// Bytes of a document. An item of DynamoDB has 400 KiB at most, and the largest honest document
/// has a few.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// What a resource is to become.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    /// What this document says.
    Put(&'a Value),
    /// What it is, but for what this patch names.
    Patch(&'a Value),
}

/// Something that a path names.
enum Resource<'a> {
    Topics,
    Topic(&'a str),
    ListKeys(&'a str),
    RegenerateKey(&'a str),
    Subscriptions(&'a str),
    TestSubscription(&'a str),
    Subscription(SubscriptionKey),
    FullUrl(SubscriptionKey),
    Validation(SubscriptionKey),
    DeliveryAttributes(SubscriptionKey),
    SigningSecrets(SubscriptionKey),
    RotateSigningSecret(SubscriptionKey),
    Deliveries(SubscriptionKey),
}

/// Answers a request.
pub async fn answer(context: &Context, request: &Request) -> Reply {
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
            subscriptions::test(context, topic, &document(request)?).await
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
        _ => Err(Reply::not_allowed(method, allowed(&resource))),
    }
}

/// What a path names, its names checked: one that breaks its rule names nothing that could exist.
fn resource(path: &str) -> Result<Resource<'_>, Reply> {
    let segments: Vec<_> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let (topic, rest) = match segments.as_slice() {
        ["topics"] => return Ok(Resource::Topics),
        ["topics", topic, rest @ ..] if !topic.is_empty() => (*topic, rest),
        _ => return Err(Reply::no_route(path)),
    };
    let key = |name: &str| SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() };
    let (resource, subscription) = match rest {
        [] => (Resource::Topic(topic), None),
        ["listKeys"] => (Resource::ListKeys(topic), None),
        ["regenerateKey"] => (Resource::RegenerateKey(topic), None),
        ["eventSubscriptions"] => (Resource::Subscriptions(topic), None),
        ["eventSubscriptions:test"] => (Resource::TestSubscription(topic), None),
        ["eventSubscriptions", name] if !name.is_empty() => {
            (Resource::Subscription(key(name)), Some(*name))
        }
        ["eventSubscriptions", name, action] => {
            let resource = match *action {
                "deliveries" => Resource::Deliveries,
                "validate" => Resource::Validation,
                "getFullUrl" => Resource::FullUrl,
                "getDeliveryAttributes" => Resource::DeliveryAttributes,
                "getSigningSecrets" => Resource::SigningSecrets,
                "rotateSigningSecret" => Resource::RotateSigningSecret,
                _ => return Err(Reply::no_route(path)),
            };
            (resource(key(name)), Some(*name))
        }
        _ => return Err(Reply::no_route(path)),
    };
    topic_resource::check_name(topic)?;
    subscription.map_or(Ok(()), subscription_resource::check_name)?;
    Ok(resource)
}

fn allowed(resource: &Resource<'_>) -> &'static [Method] {
    match resource {
        Resource::Topics | Resource::Subscriptions(_) | Resource::Deliveries(_) => &[Method::GET],
        Resource::Topic(_) | Resource::Subscription(_) => {
            &[Method::PUT, Method::GET, Method::PATCH, Method::DELETE]
        }
        Resource::Validation(_) => &[Method::GET, Method::POST],
        Resource::ListKeys(_)
        | Resource::RegenerateKey(_)
        | Resource::FullUrl(_)
        | Resource::DeliveryAttributes(_)
        | Resource::SigningSecrets(_)
        | Resource::RotateSigningSecret(_)
        | Resource::TestSubscription(_) => &[Method::POST],
    }
}

/// The request's document; one without a body is an empty object, for defaults exist.
fn document(request: &Request) -> Result<Value, Reply> {
    let bytes = request.body.len();
    if bytes > DOCUMENT_BYTES_MAX {
        let message = format!(
            "The document is {bytes} bytes, over the limit of {DOCUMENT_BYTES_MAX} bytes (256 KiB)."
        );
        return Err(Reply::error(413, "RequestEntityTooLarge", message));
    }
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    if let Some(given) = request.headers.get(CONTENT_TYPE) {
        let given = String::from_utf8_lossy(given.as_bytes());
        if !is_json(&given) {
            return Err(Reply::not_json(&given));
        }
    }
    Ok(parse(&request.body)?)
}

/// Whether a content type is JSON in UTF-8: `application/json`, `text/json`, or any `+json`, such as
/// a patch's `application/merge-patch+json`.
fn is_json(content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let of_json = matches!(essence, "application/json" | "text/json") || essence.ends_with("+json");
    let charset = parts.find_map(|parameter| parameter.strip_prefix("charset="));
    of_json && charset.is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
}
