//! A new topic, by a form.

use axum::Form;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use gridpost_api::client::Condition;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::App;
use super::edit::notice;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Text, View};
use super::form::{Fields, Posted, meant, meant_value, written};
use super::page::{Frame, Tab, topic_url};
use super::subscribe::about_name;
use gridpost_ops::failure::Refusal;

pub(super) const URL: &str = "/create-topic";

/// How long keys of publishes are heeded.
const WINDOW: &str = "idempotency.windowInSeconds";

const MAPPING: &str = "inputSchemaMapping";

/// Members of Event Grid's envelope that a publisher's own schema can be mapped to, and whether each may
/// have a default.
const MAPPED: [(&str, &str, bool); 6] = [
    ("id", "Id", false),
    ("topic", "Topic", false),
    ("eventTime", "Event time", false),
    ("eventType", "Event type", true),
    ("subject", "Subject", true),
    ("dataVersion", "Data version", true),
];

pub(super) async fn show(State(app): State<App>) -> Markup {
    render(&app, &Fields::default(), &Placed::default(), &html! {})
}

pub(super) async fn create(
    State(app): State<App>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer<Response> {
    let fields = Posted::of(pairs).fields;
    let name = fields.get("name").trim();
    let error = match app
        .api
        .clone()
        .only_if(Some(Condition::IsNew))
        .put_topic(name, &document(&fields))
        .await
    {
        Ok(_) => {
            let url = format!("{}?done=created", topic_url(name));
            return Ok(Redirect::to(&url).into_response());
        }
        Err(error) => error,
    };
    let mut problems = error.downcast_ref::<Refusal>().map(Placed::of).unwrap_or_default();
    about_name(&error, name, &mut problems);
    let notice = notice(&error, &problems);
    Ok((failure::status(&error), render(&app, &fields, &problems, &notice)).into_response())
}

pub(super) fn document(fields: &Fields) -> Value {
    let given = |name: &str| Some(fields.get(name).trim()).filter(|text| !text.is_empty());
    let mut document = json!({"properties": {}});
    if let Some(kind) = given("kind") {
        document["kind"] = json!(kind);
    }
    for name in ["inputSchema", "deliveryProfile"] {
        if let Some(value) = given(name) {
            document["properties"][name] = json!(value);
        }
    }
    if fields.is_on("disableLocalAuth") {
        document["properties"]["disableLocalAuth"] = json!(true);
    }
    if let Some(seconds) = given(WINDOW) {
        document["properties"]["idempotency"] = json!({"windowInSeconds": meant_value(seconds)});
    }
    let mut mapped = Map::new();
    for (name, ..) in MAPPED {
        let mut member = Map::new();
        for part in ["sourceField", "defaultValue"] {
            if let Some(text) = given(&format!("{MAPPING}.{name}.{part}")) {
                member.insert(part.to_owned(), json!(meant(text)));
            }
        }
        if !member.is_empty() {
            mapped.insert(name.to_owned(), Value::Object(member));
        }
    }
    if !mapped.is_empty() {
        document["properties"][MAPPING] =
            json!({"inputSchemaMappingType": "Json", "properties": mapped});
    }
    document
}

fn settings(form: View<'_>) -> Markup {
    let kinds = [("custom", "custom"), ("namespace", "namespace")];
    let schemas = [
        ("", "the kind's: EventGridSchema, or CloudEventSchemaV1_0 for namespace"),
        ("EventGridSchema", "EventGridSchema"),
        ("CloudEventSchemaV1_0", "CloudEventSchemaV1_0"),
        ("CustomEventSchema", "CustomEventSchema: events of one's own"),
    ];
    let name_hint =
        "3 to 50 letters, digits and hyphens; not beginning with Microsoft, EventGrid or System.";
    let kind_hint = "Which path events are published to, and how many in a request.";
    let schema_hint = "The one schema that the topic takes. It can't be changed later.";
    html! {
        (form.text(Text { name: "name", label: "Name", hint: name_hint, ..Text::default() }))
        (form.select("kind", "Kind", kind_hint, &kinds))
        (form.select("inputSchema", "Input schema", schema_hint, &schemas))
        (changeable(form))
    }
}

/// Shows the settings that can be changed later too, except the mapping.
pub(super) fn changeable(form: View<'_>) -> Markup {
    let profiles = [
        ("", "the kind's: basic, or namespace"),
        ("basic", "basic"),
        ("basic2021", "basic2021"),
        ("namespace", "namespace"),
    ];
    let hint = "The table of retry rules, and the form of dead letters.";
    let repeats = "60 to 86400: a publish that is repeated under its Idempotency-Key or x-ms-client-request-id is \
                   delivered once. Empty: keys are not heeded. Costs two writes of the table for each publish with a key.";
    html! {
        (form.select("deliveryProfile", "Delivery profile", hint, &profiles))
        (form.check("disableLocalAuth", "Refuse access keys and SAS tokens", ""))
        (form.text(Text { name: WINDOW, label: "Recognise repeated publishes for (s)", hint: repeats, mode: Some("numeric"), also: Some("idempotency"), ..Text::default() }))
    }
}

pub(super) fn fields_of(document: &Value) -> Fields {
    let properties = &document["properties"];
    let mut fields = Fields::default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), written);
    if !properties["deliveryProfile"].is_null() {
        fields.set("deliveryProfile", text(&properties["deliveryProfile"]));
    }
    fields.tick("disableLocalAuth", properties["disableLocalAuth"] == true);
    let seconds = &properties["idempotency"]["windowInSeconds"];
    if !seconds.is_null() {
        fields.set(WINDOW, text(seconds));
    }
    for (name, ..) in MAPPED {
        for part in ["sourceField", "defaultValue"] {
            let value = &properties[MAPPING]["properties"][name][part];
            if !value.is_null() {
                fields.set(format!("{MAPPING}.{name}.{part}"), text(value));
            }
        }
    }
    fields
}

pub(super) fn mapping(form: View<'_>) -> Markup {
    html! {
        details open[MAPPED.iter().any(|(name, ..)| {
            ["sourceField", "defaultValue"].iter().any(|part| !form.fields.get(&format!("{MAPPING}.{name}.{part}")).is_empty())
        })] {
            summary { "Events of one's own: which member is what" }
            p.hint { "For CustomEventSchema. A member that has a source and no default must be in every event." }
            @for (name, label, has_default) in MAPPED {
                fieldset {
                    legend { (label) }
                    (form.text(Text { name: &format!("{MAPPING}.{name}.sourceField"), label: &format!("{label}: member of the event"), ..Text::default() }))
                    @if has_default {
                        (form.text(Text { name: &format!("{MAPPING}.{name}.defaultValue"), label: &format!("{label}: where it is missing"), ..Text::default() }))
                    }
                }
            }
        }
    }
}

fn render(app: &App, fields: &Fields, problems: &Placed, notice: &Markup) -> Markup {
    let view = View { fields, problems, focus: None, may_change: app.may_change(), is_live: false };
    let all = html! { (settings(view)) (mapping(view)) };
    let body = html! {
        (notice)
        @if !problems.is_empty() { (view.summary("Nothing was made.")) }
        form.document method="post" action=(URL) novalidate {
            (app.token())
            (all)
            @if app.may_change() { button { "Create the topic" } }
            @else { p.muted { "This console is read-only: it makes nothing." } }
        }
    };
    let above = vec![("/topics".to_owned(), "Topics".to_owned())];
    let command = "topic create NAME".to_owned();
    app.page(&Frame { tab: Tab::Topics, title: "Create a topic", above, command }, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_left_to_the_defaults() {
        assert_eq!(document(&Fields::default()), json!({"properties": {}}));
        let mut fields = Fields::default();
        for (name, text) in [
            ("kind", "custom"),
            ("inputSchema", "CustomEventSchema"),
            ("inputSchemaMapping.id.sourceField", "orderId"),
            ("inputSchemaMapping.subject.defaultValue", "orders"),
            ("disableLocalAuth", "yes"),
            ("idempotency.windowInSeconds", "300"),
        ] {
            fields.set(name, text);
        }
        let want = json!({"kind": "custom", "properties": {"inputSchema": "CustomEventSchema",
            "disableLocalAuth": true, "idempotency": {"windowInSeconds": 300},
            "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": {"id": {"sourceField": "orderId"}, "subject": {"defaultValue": "orders"}}}}});
        assert_eq!(document(&fields), want);
        let mut back = fields_of(&want);
        back.set("kind", "custom");
        back.set("inputSchema", "CustomEventSchema");
        assert_eq!(back, fields);
    }
}
