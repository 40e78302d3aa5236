//! How to publish to a topic: by a command, and by Event Grid's SDKs.

use gridpost_api::topic::Topic;
use gridpost_core::topic::{InputSchema, Kind};
use gridpost_ops::{
    output::word,
    publish::{content_type, input_schema},
};
use maud::{Markup, html};

use super::kit;
use super::publish::sample;

/// The names in Java, and the events in .NET and Java, of a schema.
fn events(schema: InputSchema) -> [&'static str; 3] {
    match schema {
        InputSchema::EventGridSchema => [
            "EventGridEvent",
            r#"new EventGridEvent("orders/1", "Order.Placed", "1.0", new { total = 129.9 })"#,
            r#"new EventGridEvent(
    "orders/1", "Order.Placed", BinaryData.fromObject(Map.of("total", 129.9)), "1.0")"#,
        ],
        InputSchema::CloudEventSchemaV1_0 => [
            "CloudEvent",
            r#"new CloudEvent("/shop", "Order.Placed", new { total = 129.9 })"#,
            r#"new CloudEvent("/shop", "Order.Placed",
    BinaryData.fromObject(Map.of("total", 129.9)), CloudEventDataFormat.JSON, "application/json")"#,
        ],
        InputSchema::CustomEventSchema => [
            "CustomEvent",
            "BinaryData.FromObjectAsJson(new { orderId = 1, total = 129.9 })",
            r#"BinaryData.fromObject(Map.of("orderId", 1, "total", 129.9))"#,
        ],
    }
}

/// Shows a publish to the topic in several languages.
pub(super) fn card(topic: &Topic) -> Markup {
    let (schema, endpoint, event) =
        (input_schema(topic), &topic.properties.endpoint, sample(topic));
    let [kind, for_dotnet, for_java] = events(schema);
    let for_python = event.replace("true", "True");
    let curl = format!(
        "curl {} -H \"aeg-sas-key: $KEY\" \\\n  -H \"content-type: {}\" -d '[{event}]'",
        word(endpoint),
        content_type(schema, b"[").split(';').next().unwrap_or_default(),
    );
    let python = format!(
        r#"import os
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridPublisherClient

client = EventGridPublisherClient("{endpoint}", AzureKeyCredential(os.getenv("KEY")))
client.send({for_python})"#
    );
    let dotnet = format!(
        r#"using Azure;
using Azure.Messaging;
using Azure.Messaging.EventGrid;

var key = new AzureKeyCredential(Environment.GetEnvironmentVariable("KEY"));
var client = new EventGridPublisherClient(new Uri("{endpoint}"), key);
await client.SendEventAsync({for_dotnet});"#
    );
    let java = format!(
        r#"var client = new EventGridPublisherClientBuilder().endpoint("{endpoint}")
    .credential(new AzureKeyCredential(System.getenv("KEY"))).build{kind}PublisherClient();
client.sendEvent({for_java});"#
    );
    let sdks = [("Python", python), (".NET", dotnet), ("Java", java)];
    // The SDKs have clients of their own for namespace topics.
    let sdks = sdks.into_iter().filter(|_| topic.kind != Kind::Namespace);
    let all: Vec<_> = [("curl", curl)].into_iter().chain(sdks).collect();
    let body = html! {
        @for (language, text) in &all {
            // One is open at a time.
            details name="language" open[*language == "curl"] {
                summary { (language) }
                (kit::block(&format!("Publish with {language}"), text))
            }
        }
        p.sm.m { "Publishers written for Event Grid work unchanged: give them this endpoint and a key." }
    };
    kit::card("From your code", "", body)
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_topic_may_have_any_name() {
        let topic = documents::topic("ENDPOINT-KIND-EVENT", &json!({}));
        let shown = card(&serde_json::from_value(topic).expect("a topic")).into_string();
        assert_eq!(shown.matches("/ENDPOINT-KIND-EVENT/api/events").count(), 4, "{shown}");
    }
}
