//! Exports a deployment's topics and event subscriptions as a file that declares them.

use std::collections::{BTreeMap, BTreeSet};

use gridpost_api::{
    settings::Document,
    subscription::{EventSubscriptionInput, EventSubscriptionProperties},
    topic::{Topic, TopicSettings},
};
use gridpost_core::topic::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secrets::{escaped, placeholder, variable};
use crate::{failure::Refusal, manage_api::ManageApi, subscription::show::words};

const HEADERS: &str = "destination.deliveryAttributeMappings";

/// A file that declares topics: see [`declared`](super).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    pub topics: BTreeMap<String, ExportedTopic>,
}

/// A topic in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedTopic {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_subscriptions: BTreeMap<String, ExportedSubscription>,
    pub kind: Kind,
    pub properties: TopicSettings,
}

/// An event subscription in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedSubscription {
    /// Its settings, without those that are not set.
    properties: Value,
}

/// A deployment's topics and event subscriptions, without what belongs to the deployment itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    pub document: File,
    pub variables: Vec<String>,
    /// Things to know or do before it is applied elsewhere.
    pub notes: Vec<String>,
}

impl Export {
    /// Reads topics: all of them, or those that are named. Leaves secrets to the environment unless they are
    /// asked for.
    pub async fn read(
        api: &ManageApi,
        names: &[String],
        with_secrets: bool,
    ) -> anyhow::Result<Self> {
        let mut export = Self::default();
        let mut found = Vec::new();
        if names.is_empty() {
            found = api.topics().await?;
        }
        for name in names {
            found.push(api.topic(name).await?.document);
        }
        for Topic { name: topic, kind, properties, .. } in found {
            let mut event_subscriptions = BTreeMap::new();
            for read in api.subscriptions(&topic).await? {
                let one = One { api, topic: &topic, name: &read.name, with_secrets };
                let exported = export.subscription(&one, &read.properties).await?;
                event_subscriptions.insert(read.name.clone(), exported);
            }
            let exported =
                ExportedTopic { kind, properties: properties.settings, event_subscriptions };
            export.document.topics.insert(topic, exported);
        }
        Ok(export)
    }

    /// Writes an event subscription as a document that another deployment takes.
    async fn subscription(
        &mut self,
        one: &One<'_>,
        read: &EventSubscriptionProperties,
    ) -> anyhow::Result<ExportedSubscription> {
        if read.pause.is_some() {
            self.note(one, "it is paused here, and will not be where this is applied");
        }
        let input = EventSubscriptionInput { properties: Some(read.settings.clone()) };
        let mut settings = Document::of(&input);
        if settings.text("destination.endpointType") == "WebHook" {
            self.endpoint(one, &mut settings).await?;
        }
        self.headers(one, &mut settings).await?;
        if let Some(secret) = settings.stored_secret() {
            let what = words(secret.name());
            let text = self.secret(one, &what, &format!("the {what} of its authentication"));
            settings.set(secret.path, &[text]);
        }
        if settings.has("signing") {
            settings.set("signing", &[true.to_string()]);
            self.note(
                one,
                "a new signing secret is made where this is applied: tell its receiver \
                 (`gridpost subscription secrets`)",
            );
        }
        let mut properties = settings.into_properties();
        if let Some(members) = properties.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        Ok(ExportedSubscription { properties })
    }

    /// Puts the URL in the place of the part of it that reads show.
    async fn endpoint(&mut self, one: &One<'_>, settings: &mut Document) -> anyhow::Result<()> {
        let base = settings.take("destination.endpointBaseUrl").concat();
        let url = one.api.full_url(one.topic, one.name).await;
        let url = match url.as_ref().map(|url| url.endpoint_url.expose()) {
            Ok(url) if one.with_secrets || url == base => escaped(url),
            Ok(_) => {
                format!("{}?{}", escaped(&base), self.secret(one, "QUERY", "the query of its URL"))
            }
            Err(error) if is_forbidden(error) => {
                self.note(
                    one,
                    "you may not read its whole URL (POST …/getFullUrl): add its query, if it has \
                     one",
                );
                escaped(&base)
            }
            Err(_) => return url.map(|_| ()),
        };
        settings.set("destination.endpointUrl", &[url]);
        Ok(())
    }

    /// Fills in the values of secret headers, or leaves them to the environment.
    async fn headers(&mut self, one: &One<'_>, settings: &mut Document) -> anyhow::Result<()> {
        let field = |row: usize, member: &str| format!("{HEADERS}.{row}.{member}");
        let rows = 0..settings.rows(HEADERS);
        let secret: Vec<_> =
            rows.filter(|row| settings.text(&field(*row, "isSecret")) == "true").collect();
        let with_values = match one.with_secrets && !secret.is_empty() {
            true => one.api.delivery_attributes(one.topic, one.name).await?.value,
            false => Vec::new(),
        };
        for row in secret {
            let name = settings.text(&field(row, "name"));
            let properties = with_values.get(row).and_then(|header| header.properties.as_ref());
            let value = match properties.and_then(|properties| properties.value.as_ref()) {
                Some(value) => escaped(value.expose()),
                None => self.secret(one, &name, &format!("the value of its header {name}")),
            };
            settings.set(&field(row, "value"), &[value]);
        }
        Ok(())
    }

    /// Leaves a secret to a variable of its own.
    fn secret(&mut self, one: &One<'_>, secret: &str, what: &str) -> String {
        let wanted = variable(one.topic, one.name, secret);
        let mut name = wanted.clone();
        let mut number = 1;
        // Hyphens and case are lost, so two secrets may want one name.
        while self.variables.contains(&name) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        self.note(one, &format!("{what} is secret: it is left to the variable {name}"));
        self.variables.push(name.clone());
        placeholder(&name)
    }

    fn note(&mut self, one: &One<'_>, note: &str) {
        self.notes.push(format!("{}/{}: {note}", one.topic, one.name));
    }

    /// Returns the documents of all event subscriptions, with their topics and names.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&str, &str, Document)> {
        self.document.topics.iter().flat_map(|(topic, exported)| {
            let own = exported.event_subscriptions.iter();
            own.map(|(name, exported)| (topic.as_str(), name.as_str(), Document::of(exported)))
        })
    }

    /// Returns a setting's texts in the documents of all event subscriptions.
    pub fn texts(&self, path: &str) -> BTreeSet<String> {
        let texts = self.subscriptions().map(|(.., settings)| settings.text(path));
        texts.filter(|text| !text.is_empty()).collect()
    }
}

struct One<'a> {
    api: &'a ManageApi,
    topic: &'a str,
    name: &'a str,
    with_secrets: bool,
}

pub(super) fn is_forbidden(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == 403)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::{FakeApi, documents};

    fn header(name: &str, value: Option<&str>) -> Value {
        json!({"name": name, "type": "Static", "properties": {"value": value, "isSecret": true}})
    }

    fn read(name: &str, headers: &[Value]) -> Value {
        documents::subscription(
            name,
            &json!({"properties": {"labels": ["l"], "destination": {"properties": {
                "endpointBaseUrl": "https://e/hook", "maxEventsPerBatch": 1,
                "deliveryAttributeMappings": headers}}}}),
        )
    }

    async fn api() -> FakeApi {
        let defaults = json!({"properties": {"disableLocalAuth": null, "deliveryProfile": null}});
        let topic = documents::topic("orders", &defaults);
        let secret = read("a", &[header("X-T", None), header("x-t", None)]);
        let queue = json!({"endpointType": "SqsQueue",
            "properties": {"endpointBaseUrl": null, "resourceId": "arn"}});
        let resource =
            documents::subscription("q", &json!({"properties": { "destination": queue }}));
        let all = json!({"value": [secret, read("b", &[]), read("c", &[]), resource]});
        FakeApi::answering(&[
            ("GET /topics/orders/eventSubscriptions ", 200, all),
            ("GET /topics/orders ", 200, topic.clone()),
            ("GET /topics ", 200, json!({"value": [topic]})),
            (
                "POST /topics/orders/eventSubscriptions/a/getFullUrl ",
                200,
                json!({"endpointUrl": "https://e/hook?code=s"}),
            ),
            (
                "POST /topics/orders/eventSubscriptions/b/getFullUrl ",
                200,
                json!({"endpointUrl": "https://e/hook"}),
            ),
            ("POST /topics/orders/eventSubscriptions/c/getFullUrl ", 403, json!({"message": "no"})),
            (
                "POST /topics/orders/eventSubscriptions/a/getDeliveryAttributes ",
                200,
                json!({"value": [header("X-T", Some("s1")), header("x-t", Some("s2"))]}),
            ),
        ])
        .await
    }

    async fn exported(names: &[&str], with_secrets: bool) -> Export {
        let api = api().await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Export::read(&client, &names, with_secrets).await.expect("read")
    }

    fn destination(export: &Export, name: &str) -> Value {
        let orders = json!(export.document.topics["orders"]);
        orders["eventSubscriptions"][name]["properties"]["destination"]["properties"].clone()
    }

    #[tokio::test]
    async fn secrets_are_left_to_variables_and_told() {
        let export = exported(&[], false).await;
        let topic = json!(export.document.topics["orders"]);
        assert_eq!(topic["properties"], json!({"inputSchema": "EventGridSchema"}));
        let a = destination(&export, "a");
        assert_eq!(a["endpointUrl"], "https://e/hook?${SECRET_ORDERS_A_QUERY}");
        assert_eq!(
            a["deliveryAttributeMappings"],
            json!([
                header("X-T", Some("${SECRET_ORDERS_A_X_T}")),
                header("x-t", Some("${SECRET_ORDERS_A_X_T_2}")),
            ])
        );
        assert_eq!(
            topic["eventSubscriptions"]["b"],
            json!({"properties": {"labels": ["l"], "destination": {"endpointType": "WebHook",
                "properties": {"endpointUrl": "https://e/hook", "maxEventsPerBatch": 1,
                    "deliveryAttributeMappings": []}}}})
        );
        assert_eq!(destination(&export, "c")["endpointUrl"], "https://e/hook");
        assert_eq!(destination(&export, "q"), json!({"resourceId": "arn"}));
        assert_eq!(export.variables.len(), 3);
        assert_eq!(export.notes.len(), 4, "{:?}", export.notes);
        assert!(export.notes[3].starts_with("orders/c: you may not read"), "{:?}", export.notes);
    }

    #[tokio::test]
    async fn a_pause_is_left_out_and_told() {
        let mut one = read("p", &[]);
        let at = documents::TIME;
        one["properties"]["pause"] = json!({"since": at, "until": at, "timeToLiveRuns": false});
        let topic = documents::topic("orders", &json!({}));
        let fake = FakeApi::answering(&[
            ("GET /topics/orders/eventSubscriptions ", 200, json!({"value": [one]})),
            ("GET /topics/orders ", 200, topic),
            (
                "POST /topics/orders/eventSubscriptions/p/getFullUrl ",
                200,
                json!({"endpointUrl": "https://e/hook"}),
            ),
        ])
        .await;
        let client = ManageApi::connect(&fake.url()).await.expect("a client");
        let export = Export::read(&client, &["orders".to_owned()], false).await.expect("read");
        let orders = json!(export.document.topics["orders"]);
        assert_eq!(orders["eventSubscriptions"]["p"]["properties"]["pause"], Value::Null);
        let want = "orders/p: it is paused here, and will not be where this is applied";
        assert_eq!(export.notes, [want]);
    }

    #[tokio::test]
    async fn secrets_that_are_asked_for_are_written() {
        let export = exported(&["orders"], true).await;
        let a = destination(&export, "a");
        assert_eq!(a["endpointUrl"], "https://e/hook?code=s");
        let values = [header("X-T", Some("s1")), header("x-t", Some("s2"))];
        assert_eq!(a["deliveryAttributeMappings"], json!(values));
        assert!(export.variables.is_empty());
        assert_eq!(export.texts("destination.endpointType").len(), 2);
    }
}
