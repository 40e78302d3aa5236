//! A test event, published to a topic; before that, what is wrong with it, and who would get it.

mod draft;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Form};
use gridpost_api::{
    topic::Topic,
    trial::{ExplainedSubscription, FilterRefusal, SubscriptionState},
};
use gridpost_core::topic::InputSchema;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::App;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Control, Field, View, id_of};
use super::form::{Fields, Posted};
use super::kit;
use super::page::{Frame, Tab};
use super::text;
use super::urls::{self, above, subscription_url, topic_url};
use draft::{Draft, Member, SCHEMA, WHOLE};
use gridpost_ops::{clock, failure::Misuse, output::pretty, publish, subscription::send_test};

/// Makes a sample event of the topic's input schema.
pub(super) fn sample(topic: &Topic) -> String {
    let made = send_test::made(publish::input_schema(topic), clock::random_id());
    pretty(&made.unwrap_or_else(|_| Value::from_iter([("test", true)])))
}

#[derive(Deserialize)]
pub(super) struct Look {
    #[serde(rename = "as")]
    way: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    Query(look): Query<Look>,
) -> Answer {
    let document = app.api.topic(&topic).await?.document;
    let mut fields = draft::fields(publish::input_schema(&document));
    if look.way.as_deref() == Some("json") || draft::members(fields.get(SCHEMA)).is_empty() {
        fields.set(WHOLE, sample(&document));
    }
    Ok(render(&app, &topic, &fields, &Placed::default(), &html! {}))
}

/// Publishes what was typed, or says who would get it, or what is wrong with it so far. The path of
/// checks publishes nothing, and neither does a console that is read-only.
pub(super) async fn answer(
    State(app): State<App>,
    Extension(publishes): Extension<bool>,
    Path(topic): Path<String>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Response {
    let (app, topic) = (&app, topic.as_str());
    let mut fields = Posted::of(pairs).fields;
    let read = app.api.topic(topic).await;
    let drafted = read.and_then(|read| Ok((Draft::of(&read.document, &fields)?, read.document)));
    let (Draft { text, problems }, document) = match drafted {
        Ok(drafted) => drafted,
        Err(error) => {
            let failed = failure::problem("Nothing was published.", &error);
            let page = render(app, topic, &fields, &Placed::default(), &failed);
            return (failure::status(&error), page).into_response();
        }
    };
    fields.set(SCHEMA, <&str>::from(publish::input_schema(&document)));
    let done = match fields.get("action") {
        _ if !problems.is_empty() => Ok(html! {}),
        "check" => check(app, topic, &text).await,
        "publish" if publishes && app.may_change() => publish(app, topic, &document, &text).await,
        _ => Ok(html! { p.t-ok { "The topic takes this event." } }),
    };
    let result = done.unwrap_or_else(|error| failure::problem("Refused.", &error));
    render(app, topic, &fields, &problems, &result).into_response()
}

async fn check(app: &App, topic: &str, event: &str) -> anyhow::Result<Markup> {
    let verdicts = app.api.explain(topic, &json_text(event)?).await?;
    Ok(html! {
        div role="status" {
            h2 { "Who would get it" }
            (table_of_verdicts(topic, &verdicts.value))
        }
    })
}

/// Lists event subscriptions: whether each wants the event, and which part of it says no.
fn table_of_verdicts(topic: &str, all: &[ExplainedSubscription]) -> Markup {
    let row = |one: &ExplainedSubscription| {
        let name = &one.event_subscription;
        vec![
            html! { a href=(subscription_url(topic, name, "")) { (name) } },
            wanted(one.verdict.matches),
            html! {
                @if one.state != SubscriptionState::Active { "it is " (one.state.to_string()) }
                (parts(&one.verdict.refused_by))
            },
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    match rows.is_empty() {
        true => {
            kit::empty("The topic has no event subscription: the event would reach no one.", "")
        }
        false => kit::table(
            "Who wants it",
            &[("Event subscription", ""), ("Wants it", ""), ("Which part says no", "gr")],
            &rows,
        ),
    }
}

/// Shows whether an event is wanted.
pub(super) fn wanted(matches: bool) -> Markup {
    html! { @if matches { span.t-ok { "yes" } } @else { span.t-bad { "no" } } }
}

/// Lists the parts of a filter that refuse an event.
pub(super) fn parts(refused: &[FilterRefusal]) -> Markup {
    html! {
        @for part in refused { div { code { (text::soft(&part.path)) } ": " (text::prose(&part.message)) } }
    }
}

async fn publish(app: &App, topic: &str, document: &Topic, event: &str) -> anyhow::Result<Markup> {
    let target = &app.settings.target;
    let schema = publish::input_schema(document);
    let is_array = matches!(serde_json::from_str(event), Ok(Value::Array(_)));
    // Event Grid's schema, and one's own, take a list alone.
    let body = match schema {
        InputSchema::CloudEventSchemaV1_0 => event.to_owned(),
        _ if is_array => event.to_owned(),
        _ => format!("[{}]", json_text(event)?.get()),
    };
    let url = publish::events_url(topic, Some(document), target)?;
    let keys = app.api.keys(topic).await?;
    let content_type = publish::content_type(schema, body.as_bytes());
    publish::post(target, &url, keys.key1.expose(), content_type, body.into_bytes()).await?;
    let WithId { id } = serde_json::from_str(event).unwrap_or_default();
    let found = super::sought::event_url(topic, &id);
    Ok(html! {
        div.done role="status" {
            p { "Accepted: Gridpost has stored it. " @if !id.is_empty() { a href=(found) { "What becomes of it" } } }
        }
    })
}

/// The id of an event in any of Event Grid's schemas.
#[derive(Default, Deserialize)]
struct WithId {
    #[serde(default)]
    id: String,
}

/// Reads JSON without changing its text.
pub(super) fn json_text(text: &str) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_str(text)
        .map_err(|error| Misuse(format!("That is not JSON: {error} of the text")).into())
}

fn render(app: &App, topic: &str, fields: &Fields, problems: &Placed, result: &Markup) -> Markup {
    let may_change = app.may_change();
    let view = View { fields, problems, focus: None, may_change, is_live: true };
    let (url, check) = (topic_url(topic, "/publish"), topic_url(topic, "/publish/check"));
    // Where the topic can't be read, the form is of the schema that it was made for.
    let schema = fields.get(SCHEMA);
    let (members, is_whole) = (draft::members(schema), fields.has(WHOLE));
    let own = if is_whole { &[][..] } else { members };
    let names = own.iter().map(|member| draft::field(member.name));
    let names = names.chain(is_whole.then(|| WHOLE.to_owned()));
    let fresh = names.map(|name| format!("{}-problem", id_of(&name)) + " ").collect::<String>();
    let all = html! {
        @if is_whole { (view.field(Field::json(WHOLE, "Event"))) }
        @for Member { name, label, hint, is_json, .. } in own {
            @let name = &draft::field(name);
            @let control = if *is_json { Control::Json } else { Control::Line };
            (view.field(Field { control, ..Field::of(name, label, hint) }))
        }
    };
    let body = html! {
        p { @if !schema.is_empty() { "The topic takes " strong { (text::visible(schema)) } ". " } "Every event subscription whose filter wants the event gets it."
            @if is_whole && !members.is_empty() {
                " " a href=(url) { "Type it in fields" }
            }
            @else if !is_whole { " " a href=(urls::with_query(&url, &[("as", "json")])) { "Type it as JSON" } }
        }
        // The script has the text checked while the user types; the buttons work without it.
        form.document method="post" action=(url) data-preview=(check) data-parts={ (fresh) "checked" } {
            (app.token())
            input type="hidden" name=(SCHEMA) value=(schema);
            div id="checked" role="status" {
                (result)
                @if !problems.is_empty() { (view.summary("Refused.")) }
            }
            (all)
            @if may_change { button.pri name="action" value="publish" { "Publish" } " " }
            button name="action" value="check" formaction=(check) { "Who would get it?" }
            @if !may_change { p.m { "This console is read-only: it publishes nothing." } }
        }
    };
    let above = above(&[topic]);
    let command = format!("publish --topic {topic} --file event.json");
    let frame = Frame { tab: Tab::Topics, title: "Publish a test event", above, command };
    app.page(&frame, &body)
}
