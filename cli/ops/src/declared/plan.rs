//! What an apply would change: the file's documents, read and written by the code of the API, compared
//! with what there is. Nothing is written, and no endpoint is asked.

use gridpost_api::{
    subscription::{self, Consent, Context, Identity, Settings},
    topic,
};
use gridpost_core::{
    subscription::{EventSubscription, ProvisioningState, SubscriptionKey},
    time::Timestamp,
    topic::Topic as Stored,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Declared, Topic,
    changes::between,
    export::is_forbidden,
    made::{Made, Outcome},
    of_refused, path_of, path_of_topic,
    trial::{everything, problems, unsaved},
};
use crate::{failure::InPart, lookup::if_there, manage_api::ManageApi};

/// Members of a webhook's properties.
const URL: &str = "endpointUrl";
const BASE_URL: &str = "endpointBaseUrl";
const HEADERS: &str = "deliveryAttributeMappings";

impl Declared {
    /// Says what [`make`](Self::make) would change. Fails with [`InPart`] where the API would refuse some of
    /// the file, as far as that can be said without the deployment's settings and the endpoints.
    pub async fn plan(&self, api: &ManageApi) -> anyhow::Result<Made> {
        let mut refused = self.problems.clone();
        let mut made = Made::default();
        for topic in &self.topics {
            let path = path_of_topic(topic);
            let name = topic::check_name(&topic.name).err();
            let settings = match (name, topic::read(&topic.document)) {
                (None, Ok(settings)) => settings,
                (name, _) => {
                    let name = name.map(|problem| format!("{path}: {problem}"));
                    refused.extend(of_refused(topic, name.into_iter().collect()));
                    refused.extend(problems(topic));
                    continue;
                }
            };
            let before = api.find_topic(&topic.name).await?;
            let stored = unsaved(&topic.name, settings);
            made.topics += 1;
            made.outcomes.push((path, outcome(before.as_ref(), &topic::write(&stored, ""))));
            plan_each(api, topic, &stored, &mut made, &mut refused).await?;
        }
        if refused.is_empty() {
            return Ok(made);
        }
        let mut members = made.members();
        members.insert("refused".to_owned(), json!(refused));
        let message = format!(
            "some of the file would be refused; of the rest, {}{}\nrefused:\n  {}",
            made.told(),
            made.lines(),
            refused.join("\n  ")
        );
        Err(InPart { message, members, is_misuse: !self.problems.is_empty() }.into())
    }
}

async fn plan_each(
    api: &ManageApi,
    topic: &Topic,
    stored: &Stored,
    made: &mut Made,
    refused: &mut Vec<String>,
) -> anyhow::Result<()> {
    let allowed = everything();
    for (name, document) in &topic.subscriptions {
        let path = path_of(topic, name);
        if let Err(problem) = subscription::check_name(name) {
            refused.push(format!("{path}: {problem}"));
            continue;
        }
        let before = match if_there(api.subscription(&topic.name, name).await)? {
            Some(read) => Some(revealed(api, &topic.name, name, read).await?),
            None => None,
        };
        let now = Timestamp::from_millis(0);
        let context = Context { topic: stored, existing: None, now, allowed: &allowed };
        let existing = before.as_ref().and_then(|before| existing(before, &context));
        let context = Context { existing: existing.as_ref(), ..context };
        match subscription::read(document, &context) {
            Ok(settings) => {
                let is_revealed = before.as_ref().is_none_or(|before| before.is_revealed);
                let after = unsaved_subscription(settings, stored);
                let after = written(&after, stored, is_revealed);
                made.subscriptions += 1;
                if before.is_some() {
                    let note = not_compared(&after, is_revealed);
                    made.warn(&path, note.map(str::to_owned).into_iter().collect());
                }
                let before = before.as_ref().map(|before| &before.document);
                made.outcomes.push((path, outcome(before, &after)));
            }
            // What it leaves out may be a secret that stays, and that no request reads.
            Err(problems) if before.is_some() && existing.is_none() => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                made.warn(&path, vec![format!("not compared: {}", problems.join("; "))]);
            }
            Err(problems) => {
                refused.extend(problems.iter().map(|problem| format!("{path}: {problem}")));
            }
        }
    }
    Ok(())
}

fn outcome(before: Option<&Value>, after: &Value) -> Outcome {
    let Some(before) = before else { return Outcome::Created };
    match between(before, after) {
        changes if changes.is_empty() => Outcome::Unchanged,
        changes => Outcome::Changed(changes),
    }
}

/// An event subscription as it is, and whether its secrets are in it.
struct Before {
    document: Value,
    is_revealed: bool,
}

/// Adds the URL's query and the values of secret headers, if the caller may read them.
async fn revealed(api: &ManageApi, topic: &str, name: &str, read: Value) -> anyhow::Result<Before> {
    let mut document = read.clone();
    let reveal = async {
        let Some(members) = destination(&mut document) else { return Ok(()) };
        if members.contains_key(BASE_URL) {
            members.insert(URL.to_owned(), api.full_url(topic, name).await?.into());
            members.remove(BASE_URL);
        }
        if members.get(HEADERS).is_some_and(has_secret) {
            members.insert(HEADERS.to_owned(), api.delivery_attributes(topic, name).await?);
        }
        Ok(())
    };
    match reveal.await {
        Ok(()) => Ok(Before { document, is_revealed: true }),
        Err(error) if is_forbidden(&error) => Ok(Before { document: read, is_revealed: false }),
        Err(error) => Err(error),
    }
}

fn destination(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.pointer_mut("/properties/destination/properties")?.as_object_mut()
}

fn has_secret(headers: &Value) -> bool {
    let mut headers = headers.as_array().into_iter().flatten();
    headers.any(|header| header["properties"]["isSecret"] == true)
}

/// The event subscription that is there, for documents that leave out its secrets. `None` where no
/// request reads one of them.
fn existing(before: &Before, context: &Context<'_>) -> Option<EventSubscription> {
    let settings = subscription::read(&before.document, context).ok()?;
    Some(unsaved_subscription(settings, context.topic))
}

/// An event subscription with these settings that is stored nowhere.
fn unsaved_subscription(mut settings: Settings, topic: &Stored) -> EventSubscription {
    settings.make_secret(|| [0; 32]);
    let key = SubscriptionKey { topic: topic.name.clone(), name: String::new() };
    let (uid, etag) = (Uuid::nil(), Uuid::nil());
    let created_at = Timestamp::from_millis(0);
    let identity = Identity { uid, endpoint_uid: None, created_at, etag };
    let state = ProvisioningState::Succeeded;
    let consent = Consent { state, validation: None, allowed_rate: None };
    settings.into_subscription(key, identity, consent)
}

/// The document of a read, with secrets if they are to be compared.
fn written(subscription: &EventSubscription, topic: &Stored, is_revealed: bool) -> Value {
    let mut document = subscription::write(subscription, topic.delivery_profile);
    if let Some(members) = destination(&mut document).filter(|_| is_revealed) {
        if let Some(url) = subscription::full_url(subscription) {
            members.remove(BASE_URL);
            members.insert(URL.to_owned(), url["endpointUrl"].clone());
        }
        if members.contains_key(HEADERS) {
            let all = subscription::delivery_attributes(subscription);
            members.insert(HEADERS.to_owned(), all["value"].clone());
        }
    }
    document
}

/// What of an event subscription can't be compared, if anything.
fn not_compared(after: &Value, is_revealed: bool) -> Option<&'static str> {
    let by = after.pointer("/properties/destination/properties/authentication/properties");
    let is_hidden = |name| by.and_then(|by| by.get(name)).is_some_and(Value::is_null);
    match is_revealed {
        false => Some("not compared: its secrets, which you may not read"),
        true if ["clientSecret", "privateKey"].into_iter().any(is_hidden) => {
            Some("not compared: the secret of its authentication, which no request reads")
        }
        true => None,
    }
}
