//! Plans an apply: compares the file's documents, read and written by the code of the API, with what there
//! is. Nothing is stored, and no endpoint gets a request.

use gridpost_api::{
    subscription::{self, Consent, Context, Destination, Identity, Settings},
    topic,
};
use gridpost_core::{
    subscription::{
        EventSubscription, ProvisioningState, SubscriptionKey,
        authentication::{Authentication, Client, ClientSecret, certificate::Material},
    },
    time::Timestamp,
    topic::Topic as Stored,
};
use uuid::Uuid;

use super::{
    Declared, Topic,
    changes::{Resource, between},
    export::is_forbidden,
    made::{Made, Outcome},
    of_refused, path_of, path_of_topic,
    trial::{everything, problems, unsaved},
};
use crate::{failure::InPart, lookup::if_there, manage_api::ManageApi};

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
            let before = if_there(api.topic(&topic.name).await)?.map(|read| read.document);
            let stored = unsaved(&topic.name, settings);
            made.topics += 1;
            made.outcomes.push((path, outcome(before.as_ref(), &topic::write(&stored, ""))));
            plan_each(api, topic, &stored, &mut made, &mut refused).await?;
        }
        if refused.is_empty() {
            return Ok(made);
        }
        let members = made.members(&refused);
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
            Some(read) => Some(revealed(api, &topic.name, name, read.document).await?),
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
                let note = not_compared(&after, is_revealed);
                let after = written(&after, stored, is_revealed);
                made.subscriptions += 1;
                if before.is_some() {
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

fn outcome<R: Resource>(before: Option<&R>, after: &R) -> Outcome {
    let Some(before) = before else { return Outcome::Created };
    match between(before, after) {
        changes if changes.is_empty() => Outcome::Unchanged,
        changes => Outcome::Changed(changes),
    }
}

/// An event subscription as it is, and whether its secrets are in it.
struct Before {
    document: subscription::EventSubscription,
    is_revealed: bool,
}

async fn revealed(
    api: &ManageApi,
    topic: &str,
    name: &str,
    read: subscription::EventSubscription,
) -> anyhow::Result<Before> {
    let mut document = read.clone();
    match reveal(api, topic, name, &mut document).await {
        Ok(()) => Ok(Before { document, is_revealed: true }),
        Err(error) if is_forbidden(&error) => Ok(Before { document: read, is_revealed: false }),
        Err(error) => Err(error),
    }
}

/// Adds the URL's query and the values of secret headers. Fails with 403 if the caller may not read them.
async fn reveal(
    api: &ManageApi,
    topic: &str,
    name: &str,
    document: &mut subscription::EventSubscription,
) -> anyhow::Result<()> {
    let Some(destination) = &mut document.properties.settings.destination else { return Ok(()) };
    if let Destination::WebHook(webhook) = destination {
        webhook.endpoint_base_url = None;
        webhook.endpoint_url = Some(api.full_url(topic, name).await?.endpoint_url);
    }
    let attributes = destination.attributes_mut();
    let properties = attributes.iter().flatten().filter_map(|header| header.properties.as_ref());
    if properties.into_iter().any(|properties| properties.is_secret == Some(true)) {
        *attributes = Some(api.delivery_attributes(topic, name).await?.value);
    }
    Ok(())
}

/// Returns the event subscription that is there, for documents that leave out its secrets. `None` where no
/// request reads one of them.
fn existing(before: &Before, context: &Context<'_>) -> Option<EventSubscription> {
    let document = serde_json::to_value(&before.document).ok()?;
    let settings = subscription::read(&document, context).ok()?;
    Some(unsaved_subscription(settings, context.topic))
}

/// Makes an event subscription with these settings that is stored nowhere.
fn unsaved_subscription(mut settings: Settings, topic: &Stored) -> EventSubscription {
    settings.make_secret(|| [0; 32]);
    let key = SubscriptionKey { topic: topic.name.clone(), name: String::new() };
    let (uid, etag) = (Uuid::nil(), Uuid::nil());
    let [created_at, modified_at] = [Timestamp::from_millis(0); 2];
    let identity = Identity { uid, endpoint_uid: None, created_at, etag, modified_at };
    let state = ProvisioningState::Succeeded;
    let consent = Consent { state, validation: None, allowed_rate: None };
    settings.into_subscription(key, identity, consent)
}

/// Writes an event subscription as a read shows it, with secrets if they are to be compared.
fn written(
    stored: &EventSubscription,
    topic: &Stored,
    is_revealed: bool,
) -> subscription::EventSubscription {
    let mut document = subscription::write(stored, topic.delivery_profile);
    let destination = &mut document.properties.settings.destination;
    if let Some(destination) = destination.as_mut().filter(|_| is_revealed) {
        if let Destination::WebHook(webhook) = destination {
            webhook.endpoint_base_url = None;
            webhook.endpoint_url = subscription::full_url(stored).map(|url| url.endpoint_url);
        }
        if let Some(attributes) = destination.attributes_mut() {
            *attributes = subscription::delivery_attributes(stored).value;
        }
    }
    document
}

/// Says what of an event subscription can't be compared, if anything.
fn not_compared(after: &EventSubscription, is_revealed: bool) -> Option<&'static str> {
    let has_secret = match after.authentication.as_deref() {
        Some(Authentication::ClientCredentials(by)) => {
            matches!(by.client, Client::Own { secret: ClientSecret::Inline { .. }, .. })
        }
        Some(Authentication::ClientCertificate(by)) => {
            matches!(by.material, Material::Inline { .. })
        }
        _ => false,
    };
    match is_revealed {
        false => Some("not compared: its secrets, which you may not read"),
        true if has_secret => {
            Some("not compared: the secret of its authentication, which no request reads")
        }
        true => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{FakeApi, documents};

    fn document(url: &str, authentication: &Value) -> Value {
        json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": url, "authentication": authentication}}}})
    }

    fn client(secret: &Value) -> Value {
        json!({"type": "OAuth2ClientCredentials", "properties": {
            "tokenUrl": "https://id/token", "clientId": "c", "clientSecret": secret}})
    }

    fn stored(name: &str, authentication: Value) -> Value {
        let properties =
            json!({"endpointBaseUrl": "https://e/hook", "authentication": authentication});
        let patch = json!({"properties": {"destination": {"properties": properties}}});
        documents::subscription(name, &patch)
    }

    /// Plans one event subscription that is there.
    async fn planned(read: Value, full_url: (u16, Value), declared: Value) -> anyhow::Result<Made> {
        let topic = topic::read(&json!({})).expect("defaults");
        let topic = json!(topic::write(&unsaved("orders", topic), "https://p"));
        let own = "/topics/orders/eventSubscriptions/s1";
        let api = FakeApi::answering(&[
            (&format!("POST {own}/getFullUrl "), full_url.0, full_url.1),
            (&format!("GET {own} "), 200, read),
            ("GET /topics/orders ", 200, topic),
            ("GET ", 404, json!({})),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let file = json!({"topics": {"orders": {"eventSubscriptions": {"s1": declared}}}});
        Declared::of(file, |_| None).plan(&client).await
    }

    #[tokio::test]
    async fn what_can_not_be_compared_is_told() {
        let url = |query: &str| (200, json!({"endpointUrl": format!("https://e/hook{query}")}));
        let forbidden = || (403, json!({}));
        let wanted = |by: &Value| document("https://e/hook?k=1", by);
        let (own, null) = (client(&json!("s")), Value::Null);
        let read_client = || client(&null);
        let member = "properties.destination.properties.endpointUrl: changed (secret)";
        for (read, full_url, declared, change, warning) in [
            (stored("s1", null.clone()), url("?k=1"), wanted(&null), None, None),
            (stored("s1", null.clone()), url("?k=2"), wanted(&null), Some(member), None),
            (
                stored("s1", null.clone()),
                forbidden(),
                wanted(&null),
                None,
                Some("its secrets, which you may not read"),
            ),
            (
                stored("s1", read_client()),
                url("?k=1"),
                wanted(&own),
                None,
                Some("the secret of its authentication, which no request reads"),
            ),
            // It keeps the secret that no request reads.
            (
                stored("s1", read_client()),
                url("?k=1"),
                wanted(&read_client()),
                None,
                Some("clientSecret"),
            ),
        ] {
            let made = planned(read, full_url, declared.clone()).await.expect("a plan");
            let lines = made.lines();
            // Defaults that the answer of this test leaves out are told, too.
            assert_eq!(lines.contains("(secret)"), change.is_some(), "{lines}");
            assert!(change.is_none_or(|change| lines.contains(change)), "{lines}");
            assert_eq!(made.warnings.len(), usize::from(warning.is_some()), "{:?}", made.warnings);
            for (told, want) in made.warnings.iter().zip(warning) {
                let path = "topics.orders.eventSubscriptions.s1: not compared: ";
                assert!(told.starts_with(path) && told.contains(want), "{told}");
            }
        }
    }

    #[tokio::test]
    async fn what_would_be_refused_is_told_behind_the_rest() {
        let api = FakeApi::answering(&[("GET ", 404, json!({}))]).await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let good = document("https://e/hook", &Value::Null);
        let file = json!({"topics": {
            "o/k": {"properties": {"inputSchema": "Xml"}},
            "orders": {"eventSubscriptions": {
                "good": good, "bad": {"properties": {"labels": 1}}, "x y": good}},
        }});
        let refused = Declared::of(file, |_| None).plan(&client).await.expect_err("some of it");
        let part = refused.downcast::<InPart>().expect("told with the rest");
        let created = ["topics.orders", "topics.orders.eventSubscriptions.good"];
        assert_eq!(part.members["created"], json!(created));
        for want in [
            "  created: topics.orders, topics.orders.eventSubscriptions.good\nrefused:\n",
            "topics.o/k: name must be 3 to 50",
            "topics.o/k: properties.inputSchema must be",
            "topics.orders.eventSubscriptions.bad: properties.labels must be",
            "topics.orders.eventSubscriptions.x y: ",
        ] {
            assert!(part.message.contains(want), "{want} in {}", part.message);
        }
    }
}
