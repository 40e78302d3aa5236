//! What a deployment has, as a file that declares it.

use std::collections::BTreeSet;

use gridpost_api::settings::Document;
use serde_json::{Map, Value, json};

use super::secrets::{escaped, placeholder, variable};
use crate::{failure::Refusal, manage_api::ManageApi, output::text_at, subscription::show::words};

const HEADERS: &str = "destination.deliveryAttributeMappings";

/// Members that the deployment gives, of a topic's properties and of an event subscription's.
const GIVEN: [&str; 7] = [
    "endpoint",
    "provisioningState",
    "metricResourceId",
    "topic",
    "allowedRate",
    "pause",
    "validation",
];

/// A deployment's topics and event subscriptions, without what belongs to the deployment itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// The file: see [`declared`](super).
    pub document: Value,
    pub variables: Vec<String>,
    /// What else is to be known, or done, before it is applied elsewhere.
    pub notes: Vec<String>,
}

impl Export {
    /// Reads topics, all of them or those that are named. Secrets are left to the environment
    /// unless they are asked for.
    pub async fn read(
        api: &ManageApi,
        names: &[String],
        with_secrets: bool,
    ) -> anyhow::Result<Self> {
        let mut export = Self::default();
        let mut topics = Map::new();
        let found = match names {
            [] => api.topics().await?,
            names => {
                let mut found = Vec::new();
                for name in names {
                    found.push(api.topic(name).await?);
                }
                found
            }
        };
        for topic in found {
            let name = text_at(&topic, "/name").to_owned();
            let mut document = json!({
                "kind": topic["kind"],
                "properties": own(topic["properties"].clone()),
            });
            let mut subscriptions = Map::new();
            for read in api.subscriptions(&name).await? {
                let own_name = text_at(&read, "/name").to_owned();
                let one = One { api, topic: &name, name: &own_name, with_secrets };
                subscriptions.insert(own_name.clone(), export.subscription(&one, read).await?);
            }
            if !subscriptions.is_empty() {
                document["eventSubscriptions"] = subscriptions.into();
            }
            topics.insert(name, document);
        }
        export.document = json!({ "topics": topics });
        Ok(export)
    }

    /// An event subscription as a document that another deployment takes.
    async fn subscription(&mut self, one: &One<'_>, read: Value) -> anyhow::Result<Value> {
        if read["properties"]["pause"].is_object() {
            self.note(one, "it is paused here, and will not be where this is applied");
        }
        let mut settings = Document::of(&json!({"properties": own(read["properties"].clone())}));
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
        Ok(json!({ "properties": settings.into_properties() }))
    }

    /// Puts the URL in the place of the part of it that reads show.
    async fn endpoint(&mut self, one: &One<'_>, settings: &mut Document) -> anyhow::Result<()> {
        let base = settings.take("destination.endpointBaseUrl").concat();
        let url = match one.api.full_url(one.topic, one.name).await {
            Ok(url) if one.with_secrets || url == base => escaped(&url),
            Ok(_) => {
                format!("{}?{}", escaped(&base), self.secret(one, "QUERY", "the query of its URL"))
            }
            Err(error) if is_forbidden(&error) => {
                self.note(
                    one,
                    "you may not read its whole URL (POST …/getFullUrl): add its query, if it has \
                     one",
                );
                escaped(&base)
            }
            Err(error) => return Err(error),
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
            true => one.api.delivery_attributes(one.topic, one.name).await?,
            false => Value::Null,
        };
        for row in secret {
            let name = settings.text(&field(row, "name"));
            let value = match one.with_secrets {
                true => escaped(text_at(&with_values[row], "/properties/value")),
                false => self.secret(one, &name, &format!("the value of its header {name}")),
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

    /// The documents of all event subscriptions, with their topics and names.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let topics = self.document["topics"].as_object().into_iter().flatten();
        topics.flat_map(|(topic, document)| {
            let own = document["eventSubscriptions"].as_object().into_iter().flatten();
            own.map(|(name, document)| (topic.as_str(), name.as_str(), document))
        })
    }

    /// A setting's texts in the documents of all event subscriptions.
    pub fn texts(&self, path: &str) -> BTreeSet<String> {
        let texts = self.subscriptions().map(|(.., document)| Document::of(document).text(path));
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

/// Properties without what the deployment gives, and without what is null.
pub(super) fn own(mut properties: Value) -> Value {
    if let Some(members) = properties.as_object_mut() {
        members.retain(|name, value| !value.is_null() && !GIVEN.contains(&name.as_str()));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeApi;

    fn header(name: &str, value: Option<&str>) -> Value {
        json!({"name": name, "type": "Static", "properties": {"value": value, "isSecret": true}})
    }

    fn read(name: &str, headers: &[Value]) -> Value {
        json!({"id": "i", "name": name, "type": "t", "properties": {
            "topic": "/topics/orders", "provisioningState": "Succeeded", "allowedRate": null,
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointBaseUrl": "https://e/hook", "maxEventsPerBatch": 1,
                "deliveryAttributeMappings": headers,
            }},
            "signing": null, "labels": ["l"],
        }})
    }

    async fn api() -> FakeApi {
        let topic = json!({"id": "i", "name": "orders", "type": "t", "kind": "custom", "properties": {
            "inputSchema": "EventGridSchema", "endpoint": "https://p/x", "provisioningState": "S"}});
        let secret = read("a", &[header("X-T", None), header("x-t", None)]);
        let resource = json!({"name": "q", "properties": {"destination": {"endpointType": "SqsQueue",
            "properties": {"resourceId": "arn"}}}});
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

    fn destination<'a>(export: &'a Export, name: &str) -> &'a Value {
        let all = &export.document["topics"]["orders"]["eventSubscriptions"];
        &all[name]["properties"]["destination"]["properties"]
    }

    #[tokio::test]
    async fn secrets_are_left_to_variables_and_told() {
        let export = exported(&[], false).await;
        let topic = &export.document["topics"]["orders"];
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
        assert_eq!(destination(&export, "q"), &json!({"resourceId": "arn"}));
        assert_eq!(export.variables.len(), 3);
        assert_eq!(export.notes.len(), 4, "{:?}", export.notes);
        assert!(export.notes[3].starts_with("orders/c: you may not read"), "{:?}", export.notes);
    }

    #[tokio::test]
    async fn a_pause_is_left_out_and_told() {
        let mut one = read("p", &[]);
        one["properties"]["pause"] = json!({"since": "T", "by": "arn:aws:iam::1:user/u"});
        let topic = json!({"name": "orders", "kind": "custom", "properties": {}});
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
        let all = &export.document["topics"]["orders"]["eventSubscriptions"];
        assert_eq!(all["p"]["properties"]["pause"], Value::Null);
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
