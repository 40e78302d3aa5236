//! A new topic, by a form.

use std::collections::BTreeMap;

use axum::Form;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gridpost_api::{
    client::Condition,
    document::{literal, quoted},
    topic::{IdempotencySettings, Mapping, TopicInput, TopicPatch, TopicSettings},
};
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use super::App;
use super::edit::notice;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Text, View};
use super::form::{Fields, Posted, meant, written};
use super::made::value;
use super::page::{Frame, Tab, done};
use super::subscribe::about_name;
use super::urls::{above, topic_url};

pub(super) const URL: &str = "/create-topic";

/// How long keys of publishes are heeded.
const WINDOW: &str = "idempotency.windowInSeconds";

/// The parts of a mapping's member.
const PARTS: [&str; 2] = ["sourceField", "defaultValue"];

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
    let (document, problems) = document(&fields);
    if !problems.is_empty() {
        let page = render(&app, &fields, &problems, &html! {});
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    let name = fields.get("name").trim();
    let api = app.api.clone().only_if(Some(Condition::IsNew));
    let error = match api.put_topic(name, &document).await {
        Ok(_) => return Ok(done(&topic_url(name, ""), "created")),
        Err(error) => error,
    };
    let mut problems = Placed::of(&error);
    about_name(&error, name, &mut problems);
    let notice = notice(&error, &problems);
    Ok((failure::status(&error), render(&app, &fields, &problems, &notice)).into_response())
}

/// The rule of a field with a list of choices.
const CHOICE: &str = "one of the choices";

/// Returns the text of a field; none where it is empty.
fn given<'f>(fields: &'f Fields, name: &str) -> Option<&'f str> {
    Some(fields.get(name).trim()).filter(|text| !text.is_empty())
}

/// Reads a field as a member of a topic, or adds to the problems what the member must be.
fn read<D: DeserializeOwned>(
    fields: &Fields,
    name: &str,
    must_be: &str,
    problems: &mut Placed,
) -> Option<D> {
    let text = given(fields, name)?;
    let read = serde_json::from_value(literal(text));
    read.map_err(|_| problems.add(name, format!("must be {must_be}, but is {}", quoted(text)))).ok()
}

/// Returns the topic that the fields mean, and what they say that no topic can have.
pub(super) fn document(fields: &Fields) -> (TopicInput, Placed) {
    let mut problems = Placed::default();
    let kind = read(fields, "kind", CHOICE, &mut problems);
    let window = read(fields, WINDOW, "a whole number", &mut problems);
    let settings = TopicSettings {
        input_schema: read(fields, "inputSchema", CHOICE, &mut problems),
        input_schema_mapping: mapped(fields),
        disable_local_auth: fields.is_on("disableLocalAuth").then_some(true),
        delivery_profile: read(fields, "deliveryProfile", CHOICE, &mut problems),
        idempotency: window.map(|seconds| IdempotencySettings { window_in_seconds: Some(seconds) }),
    };
    (TopicInput { kind, properties: Some(settings) }, problems)
}

fn mapped(fields: &Fields) -> Option<Mapping> {
    let mut members = BTreeMap::new();
    for (name, ..) in MAPPED {
        let part = |part| Some((part, meant(given(fields, &field_of(name, part))?)));
        let parts: BTreeMap<_, _> = PARTS.into_iter().filter_map(part).collect();
        if !parts.is_empty() {
            members.insert(name, parts);
        }
    }
    let mapping = (!members.is_empty()).then(|| serde_json::from_value(value(&members)));
    mapping?.ok().map(Mapping::Json)
}

/// Returns the name of the field that has a part of a mapping's member.
fn field_of(name: &str, part: &str) -> String {
    format!("inputSchemaMapping.{name}.{part}")
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

pub(super) fn fields_of(patch: &TopicPatch) -> Fields {
    let mut fields = Fields::default();
    let Some(settings) = &patch.properties else { return fields };
    fields.set("deliveryProfile", settings.delivery_profile.map_or("", Into::into));
    fields.tick("disableLocalAuth", settings.disable_local_auth == Some(true));
    let window = settings.idempotency.as_ref().and_then(|it| it.window_in_seconds);
    fields.set(WINDOW, window.map_or_else(String::new, |seconds| seconds.to_string()));
    let mapping = settings.input_schema_mapping.as_ref().map(|Mapping::Json(it)| value(it));
    let members = serde_json::from_value(mapping.unwrap_or_default());
    let members: BTreeMap<String, BTreeMap<String, String>> = members.unwrap_or_default();
    for (name, parts) in &members {
        for (part, text) in parts {
            fields.set(field_of(name, part), written(text));
        }
    }
    fields
}

pub(super) fn mapping(form: View<'_>) -> Markup {
    html! {
        details open[MAPPED.iter().any(|(name, ..)| {
            PARTS.iter().any(|part| !form.fields.get(&field_of(name, part)).is_empty())
        })] {
            summary { "Events of one's own: which member is what" }
            p.hint { "For CustomEventSchema. A member that has a source and no default must be in every event." }
            @for (name, label, has_default) in MAPPED {
                fieldset {
                    legend { (label) }
                    (form.text(Text { name: &field_of(name, PARTS[0]), label: &format!("{label}: member of the event"), ..Text::default() }))
                    @if has_default {
                        (form.text(Text { name: &field_of(name, PARTS[1]), label: &format!("{label}: where it is missing"), ..Text::default() }))
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
            (app.button("Create topic", "makes nothing"))
        }
    };
    let above = above(&[]);
    let command = "topic create NAME".to_owned();
    app.page(&Frame { tab: Tab::Topics, title: "Create topic", above, command }, &body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_empty_is_left_to_the_defaults() {
        let settings = document(&Fields::default()).0.properties;
        assert_eq!(settings, Some(TopicSettings::default()));
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
        let (TopicInput { kind, properties }, problems) = document(&fields);
        assert!(problems.is_empty());
        assert_eq!(value(&TopicPatch { kind, properties }), want);
    }
}
