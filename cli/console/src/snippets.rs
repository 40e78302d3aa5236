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

const PYTHON: &str = r#"import os
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridPublisherClient

client = EventGridPublisherClient("ENDPOINT", AzureKeyCredential(os.getenv("KEY")))
client.send(EVENT)"#;

const DOTNET: &str = r#"using Azure;
using Azure.Messaging;
using Azure.Messaging.EventGrid;

var key = new AzureKeyCredential(Environment.GetEnvironmentVariable("KEY"));
var client = new EventGridPublisherClient(new Uri("ENDPOINT"), key);
await client.SendEventAsync(EVENT);"#;

const JAVA: &str = r#"var client = new EventGridPublisherClientBuilder().endpoint("ENDPOINT")
    .credential(new AzureKeyCredential(System.getenv("KEY"))).buildKINDPublisherClient();
client.sendEvent(EVENT);"#;

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
    let [kind, dotnet, java] = events(schema);
    let curl = format!(
        "curl {} -H \"aeg-sas-key: $KEY\" \\\n  -H \"content-type: {}\" -d '[{event}]'",
        word(endpoint),
        content_type(schema, b"[").split(';').next().unwrap_or_default(),
    );
    let sdks = [
        ("Python", PYTHON, event.replace("true", "True")),
        (".NET", DOTNET, dotnet.to_owned()),
        ("Java", JAVA, java.to_owned()),
    ];
    let program = |(language, text, event): (_, &str, String)| {
        let text = text.replace("ENDPOINT", endpoint).replace("KIND", kind);
        (language, text.replace("EVENT", &event))
    };
    // The SDKs have clients of their own for namespace topics.
    let sdks = sdks.into_iter().filter(|_| topic.kind != Kind::Namespace).map(program);
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
