//! How to publish to a topic: by a command, and by Event Grid's SDKs.

use gridpost_api::topic::Topic;
use gridpost_core::topic::{InputSchema, Kind};
use gridpost_ops::{output::word, publish::input_schema};
use maud::{Markup, html};

use super::kit;
use super::publish::sample;

/// Programs by language: the whole with places for what depends on the schema, and these parts for
/// EventGridSchema, CloudEventSchemaV1_0 and CustomEventSchema.
type Snippet = (&'static str, &'static str, [[&'static str; 2]; 3]);

const SDKS: [Snippet; 3] = [
    (
        "Python",
        "import os
from azure.core.credentials import AzureKeyCredential
#1

client = EventGridPublisherClient(\"#URL\", AzureKeyCredential(os.environ[\"KEY\"]))
client.send(#2)",
        [
            [
                "from azure.eventgrid import EventGridEvent, EventGridPublisherClient",
                "EventGridEvent(
    event_type=\"Order.Placed\", subject=\"orders/1\", data={\"total\": 129.9}, data_version=\"1.0\")",
            ],
            [
                "from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient",
                "CloudEvent(type=\"Order.Placed\", source=\"/shop\", subject=\"orders/1\", data={\"total\": 129.9})",
            ],
            ["from azure.eventgrid import EventGridPublisherClient", "{\"orderId\": 1, \"total\": 129.9}"],
        ],
    ),
    (
        ".NET",
        "using Azure;
using #1;

var key = new AzureKeyCredential(Environment.GetEnvironmentVariable(\"KEY\"));
var client = new EventGridPublisherClient(new Uri(\"#URL\"), key);
await client.SendEventAsync(#2);",
        [
            [
                "Azure.Messaging.EventGrid",
                "new EventGridEvent(\"orders/1\", \"Order.Placed\", \"1.0\", new { total = 129.9 })",
            ],
            [
                "Azure.Messaging;
using Azure.Messaging.EventGrid",
                "new CloudEvent(\"/shop\", \"Order.Placed\", new { total = 129.9 })",
            ],
            [
                "Azure.Messaging.EventGrid",
                "BinaryData.FromObjectAsJson(new { orderId = 1, total = 129.9 })",
            ],
        ],
    ),
    (
        "Java",
        "var client = new EventGridPublisherClientBuilder().endpoint(\"#URL\")
    .credential(new AzureKeyCredential(System.getenv(\"KEY\"))).#1();
client.sendEvent(#2);",
        [
            [
                "buildEventGridEventPublisherClient",
                "new EventGridEvent(
    \"orders/1\", \"Order.Placed\", BinaryData.fromObject(Map.of(\"total\", 129.9)), \"1.0\")",
            ],
            [
                "buildCloudEventPublisherClient",
                "new CloudEvent(\"/shop\", \"Order.Placed\",
    BinaryData.fromObject(Map.of(\"total\", 129.9)), CloudEventDataFormat.JSON, \"application/json\")",
            ],
            [
                "buildCustomEventPublisherClient",
                "BinaryData.fromObject(Map.of(\"orderId\", 1, \"total\", 129.9))",
            ],
        ],
    ),
];

/// Shows a publish to the topic in several languages.
pub(super) fn card(topic: &Topic) -> Markup {
    let (schema, endpoint) = (input_schema(topic), &topic.properties.endpoint);
    let content_type = gridpost_ops::publish::content_type(schema, b"[");
    let curl = format!(
        "curl {} -H \"aeg-sas-key: $KEY\" -H \"content-type: {content_type}\" \\\n  -d '[{}]'",
        word(endpoint),
        sample(topic)
    );
    let of = match schema {
        InputSchema::EventGridSchema => 0,
        InputSchema::CloudEventSchemaV1_0 => 1,
        InputSchema::CustomEventSchema => 2,
    };
    let program = |(language, text, parts): Snippet| {
        let [first, second] = parts[of];
        (language, text.replace("#URL", endpoint).replace("#1", first).replace("#2", second))
    };
    // Event Grid's SDKs have clients of their own for namespace topics.
    let sdks = if topic.kind == Kind::Namespace { &[][..] } else { &SDKS };
    let all: Vec<_> =
        [("curl", curl)].into_iter().chain(sdks.iter().copied().map(program)).collect();
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
