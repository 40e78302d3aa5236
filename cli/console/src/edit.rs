//! The pages that edit topics and event subscriptions, new ones and those that are there: as forms, one with
//! a preview, and as JSON. Only what was changed is sent, and only if no one else has changed it meanwhile.

mod fields;
#[cfg(test)]
mod tests;
mod view;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Form};
use gridpost_api::{
    client::Condition,
    settings::{Document, SETTINGS, Setting, TOPIC_SETTINGS},
    subscription::{EventSubscriptionInput, EventSubscriptionSettings, patch_of},
    topic::TopicPatch,
};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::App;
use super::annotated;
use super::below::Below;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Control, Field, View};
use super::form::{Fields, Posted, given};
use super::made::{self, Made, is_conflict, value};
use super::page::{Frame, Tab, done};
use super::retry::{self, Saved};
use super::text;
use super::urls::{above, subscription_url, topic_url};
use gridpost_ops::{failure::Misuse, output};

pub(super) const NEW_TOPIC: &str = "/create-topic";

/// Settings that can't be changed after their thing is made.
const FIXED: [&str; 2] = ["eventDeliverySchema", "inputSchema"];

/// Fields that are no settings: the document as JSON, the delivery profile of a new event subscription's
/// topic, and the answers that a timeline is made for.
const DOCUMENT: &str = "document";
const PROFILE: &str = "made.profile";
const ANSWERS: &str = "answers";

/// How a command gets changes.
const PATCH: &str = " --file patch.json";

/// A page that edits a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    NewTopic,
    Topic,
    NewSubscription,
    Subscription,
    /// An event subscription as JSON.
    Json,
    /// An event subscription's retry policy, with the timeline that follows from it.
    Retry,
}

impl Page {
    fn is_new(self) -> bool {
        matches!(self, Self::NewTopic | Self::NewSubscription)
    }

    /// Returns the settings that it may have fields for.
    fn settings(self) -> Vec<&'static Setting> {
        let all = match self {
            Self::NewTopic | Self::Topic => TOPIC_SETTINGS,
            _ => SETTINGS,
        };
        let has = |one: &&Setting| match self {
            Self::Retry => retry::SETTINGS.contains(&one.path),
            _ => self.is_new() || !FIXED.contains(&one.path),
        };
        all.iter().filter(has).collect()
    }
}

/// The names in a page's path. That of a new thing is in its form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Names {
    topic: String,
    name: String,
}

type Pairs = Vec<(String, String)>;

/// The content of a page: its fields, the state of the document that it was made from, what is wrong with
/// the fields, and which of them has the focus.
#[derive(Default)]
struct Shown {
    fields: Fields,
    made: Made,
    was: Value,
    problems: Placed,
    focus: Option<String>,
    notice: Markup,
    /// The saved state that a timeline is made for.
    saved: Option<anyhow::Result<Saved>>,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(page): Extension<Page>,
    Path(names): Path<Names>,
    Query(asked): Query<Pairs>,
) -> Answer {
    let editor = Editor { app: &app, page, names: &names };
    let mut shown = editor.read().await?;
    // A link may lead to the timeline of another policy than the one that is saved.
    if page == Page::Retry {
        let given = Posted::of(asked).fields;
        let names = retry::SETTINGS.into_iter().chain([ANSWERS]);
        names.for_each(|name| shown.fields.set(name, given.get(name)));
    }
    Ok(editor.render(&shown))
}

/// Saves what was changed, or shows each problem at its field; or adds and removes rows.
pub(super) async fn save(
    State(app): State<App>,
    Extension(page): Extension<Page>,
    Path(names): Path<Names>,
    Form(pairs): Form<Pairs>,
) -> Answer<Response> {
    let editor = Editor { app: &app, page, names: &names };
    let mut posted = Posted::of(pairs);
    let was = editor.was(&posted.made);
    let focus = fields::arranged(&mut posted, was.as_ref().unwrap_or(&Value::Null));
    let Posted { fields, made, .. } = posted;
    let mut shown = Shown { fields, made, focus, ..Shown::default() };
    let read = was.map(|was| shown.was = was);
    if shown.focus.is_some() {
        return Ok(editor.render(&shown).into_response());
    }
    let document = read.map_err(Into::into);
    let document = document.and_then(|()| editor.document(&shown.fields, &shown.was));
    let (error, mine) = match document {
        Ok((_, problems)) if !problems.is_empty() => {
            shown.problems = problems;
            return Ok((StatusCode::BAD_REQUEST, editor.render(&shown)).into_response());
        }
        Ok((mine, _)) => match editor.send(&shown, &mine).await {
            Ok((url, code)) => return Ok(done(&url, code)),
            Err(error) => (error, mine),
        },
        Err(error) => (error, Value::Null),
    };
    shown = match is_conflict(&error) && !page.is_new() {
        true => editor.conflict(shown, mine).await,
        false => editor.refused(shown, &error),
    };
    if page == Page::Retry && shown.saved.is_none() {
        shown.saved = Some(editor.saved().await);
    }
    Ok((failure::status(&error), editor.render(&shown)).into_response())
}

/// Shows the timeline of what was typed; the form stays of the state that its page was made from.
pub(super) async fn preview(
    State(app): State<App>,
    Path(names): Path<Names>,
    Form(pairs): Form<Pairs>,
) -> Answer<Response> {
    let editor = Editor { app: &app, page: Page::Retry, names: &names };
    let Posted { fields, made, .. } = Posted::of(pairs);
    let saved = editor.saved().await;
    let was = match (editor.was(&made), &saved) {
        (Ok(was), _) => was,
        (Err(_), Ok(saved)) => policy_of(saved),
        (Err(error), Err(_)) => return Err(error.into()),
    };
    let status = saved.as_ref().err().map_or(StatusCode::OK, failure::status);
    let shown = Shown { fields, made, was, saved: Some(saved), ..Shown::default() };
    Ok((status, editor.render(&shown)).into_response())
}

/// Returns the part of a document that the page of a retry policy edits.
fn policy_of(saved: &Saved) -> Value {
    let retry_policy = saved.subscription.properties.settings.retry_policy.clone();
    let settings = EventSubscriptionSettings { retry_policy, ..Default::default() };
    value(&EventSubscriptionInput { properties: Some(settings) })
}

/// Edits the document of a topic or an event subscription on a page.
struct Editor<'a> {
    app: &'a App,
    page: Page,
    names: &'a Names,
}

impl Editor<'_> {
    /// Returns the URL below its thing.
    fn url(&self, below: &str) -> String {
        let Names { topic, name } = self.names;
        match name.is_empty() {
            true => topic_url(topic, below),
            false => subscription_url(topic, name, below),
        }
    }

    async fn saved(&self) -> anyhow::Result<Saved> {
        Saved::read(self.app, &self.names.topic, &self.names.name).await
    }

    /// Reads what the page begins with: the part of the saved document that it edits.
    async fn read(&self) -> anyhow::Result<Shown> {
        let (api, Names { topic, name }) = (&self.app.api, self.names);
        let mut shown = Shown::default();
        let (etag, was) = match self.page {
            Page::NewTopic => return Ok(shown),
            Page::NewSubscription => {
                let profile = api.topic(topic).await?.properties.settings.delivery_profile;
                shown.fields.set(fields::TYPE, "WebHook");
                // The form's own profile says which limits it has, so that no call has to.
                shown.fields.set(PROFILE, profile.map_or("-", Into::into));
                return Ok(shown);
            }
            Page::Topic => {
                let read = api.topic(topic).await?;
                let properties = Some(read.document.properties.settings);
                let was = TopicPatch { kind: None, properties };
                shown.fields = self.fields_of(&was);
                (read.etag, value(&was))
            }
            Page::Retry => {
                let saved = self.saved().await?;
                let was = policy_of(&saved);
                shown.fields = self.fields_of(&was);
                shown.fields.set(ANSWERS, "500");
                let etag = saved.subscription.etag.clone();
                shown.saved = Some(Ok(saved));
                (etag, was)
            }
            Page::Subscription | Page::Json => {
                let read = api.subscription(topic, name).await?;
                let properties = Some(read.document.properties.settings);
                let was = EventSubscriptionInput { properties };
                shown.fields = self.fields_of(&was);
                (read.etag, value(&was))
            }
        };
        shown.made = Made::of(etag.as_deref(), &was);
        shown.was = was;
        Ok(shown)
    }

    fn fields_of(&self, document: &impl Serialize) -> Fields {
        if self.page != Page::Json {
            return fields::fields_of(document);
        }
        let mut fields = Fields::default();
        fields.set(DOCUMENT, output::pretty(document));
        fields
    }

    /// Returns the state of the document that a form was made from.
    fn was(&self, made: &Made) -> Result<Value, Misuse> {
        Ok(match self.page {
            Page::NewTopic | Page::NewSubscription => json!({}),
            Page::Topic => value(&made.was::<TopicPatch>()?),
            _ => value(&made.was::<EventSubscriptionInput>()?),
        })
    }

    /// Returns the document that the fields mean, and what they say that no document can.
    fn document(&self, fields: &Fields, was: &Value) -> anyhow::Result<(Value, Placed)> {
        if self.page == Page::Json {
            return Ok((document_of(fields.get(DOCUMENT))?, Placed::default()));
        }
        let (document, problems) = fields::document(fields, was, &self.page.settings());
        let mut document = document.into_document();
        let kind = Some(fields.get("kind")).filter(|kind| !kind.is_empty());
        if let Some(kind) = kind.filter(|_| self.page == Page::NewTopic) {
            document["kind"] = kind.into();
        }
        Ok((document, problems))
    }

    /// Sends what is new or was changed, if anything was. Returns the page that says what was done, and its
    /// code.
    async fn send(&self, shown: &Shown, mine: &Value) -> anyhow::Result<(String, &'static str)> {
        let (api, Names { topic, name }) = (self.app.api.clone(), self.names);
        if self.page.is_new() {
            let api = api.only_if(Some(Condition::IsNew));
            let new = shown.fields.get("name").trim();
            if self.page == Page::NewTopic {
                api.put_topic(new, mine).await?;
                return Ok((topic_url(new, ""), "created"));
            }
            api.put_subscription(topic, new, mine).await?;
            return Ok((subscription_url(topic, new, ""), "created"));
        }
        let patch = patch_of(&shown.was, mine);
        if patch.as_object().is_some_and(Map::is_empty) {
            return Ok((self.url(""), "unchanged"));
        }
        let api = api.only_if(shown.made.condition()?);
        if self.page == Page::Topic {
            api.patch_topic(topic, &patch).await?;
        } else {
            api.patch_subscription(topic, name, &patch).await?;
        }
        Ok((self.url(""), "saved"))
    }

    /// Adds what is wrong to what was typed.
    fn refused(&self, mut shown: Shown, error: &anyhow::Error) -> Shown {
        if self.page == Page::Json {
            let document = document_of(shown.fields.get(DOCUMENT)).ok();
            shown.notice = annotated::refused(error, document.as_ref());
            return shown;
        }
        let mut problems = fields::placed(error, &shown.fields);
        if self.page.is_new() {
            let name = shown.fields.get("name").trim();
            if is_conflict(error) {
                let told = format!("{name} is there already: edit it, or choose another name.");
                problems.add("name", told);
            } else if gridpost_ops::failure::is_misuse(error) {
                problems.add("name", error.to_string());
            }
        }
        if problems.is_empty() {
            shown.notice = failure::problem("Nothing was saved.", error);
        }
        Shown { problems, ..shown }
    }

    /// Shows the saved state with the changes made here, and the changes of another operator. Where that
    /// can't be read, shows what was typed with the state that it was made from, so that it can't be saved
    /// unseen.
    async fn conflict(&self, shown: Shown, mine: Value) -> Shown {
        let now = match self.read().await {
            Ok(now) => now,
            Err(error) => return Shown { notice: made::unread(&error), ..shown },
        };
        let (mine, had_secrets) = match self.page {
            Page::Json => (mine, false),
            _ => fields::without_secrets(&mine),
        };
        let merged = made::merged(&shown.was, &now.was, &mine);
        let mut fields = self.fields_of(&merged);
        fields.fill(&shown.fields, ANSWERS);
        if self.page == Page::Topic && !has_mapping(&Document::of(&now.was)) {
            fields.clear("inputSchemaMapping");
        }
        // A destination of another type has other fields: what was typed into those that are gone is told.
        let in_form = self.document(&fields, &now.was).map_or(merged, |(document, _)| document);
        let notice = html! {
            div.problem role="alert" {
                (made::told(&shown.was, &now.was, &in_form))
                (made::lost(&shown.was, &mine, &in_form, self.page == Page::Subscription))
                @if had_secrets { (not_shown()) }
            }
        };
        Shown { fields, notice, ..now }
    }

    fn render(&self, shown: &Shown) -> Markup {
        let Self { app, page, names: Names { topic, name } } = *self;
        let Shown { fields, made, was, problems, focus, notice, saved } = shown;
        let (label, does_not, nothing) = match page {
            Page::NewTopic => ("Create topic", "makes nothing", "Nothing was made."),
            Page::NewSubscription => {
                ("Create event subscription", "makes nothing", "Nothing was made.")
            }
            _ => ("Save", "saves nothing", "Nothing was saved."),
        };
        let (below, title, command, flags) = self.head(fields);
        let action = if topic.is_empty() { NEW_TOPIC.to_owned() } else { self.url(below) };
        let (focus, may_change) = (focus.as_deref(), app.may_change());
        let view = View { fields, problems, focus, may_change, is_live: false };
        let all = self.fields(view, was);
        let preview = (page == Page::Retry).then(|| self.url("/retry/preview"));
        let is_long = matches!(page, Page::NewSubscription | Page::Subscription);
        let body = html! {
            (notice)
            @if fields::has_secrets(fields) { (not_shown()) }
            @if !problems.is_empty() { (view.summary(nothing)) }
            (self.about())
            form.document method="post" action=(action) novalidate
                data-preview=[&preview] data-parts=[preview.as_ref().map(|_| "timeline")] {
                (app.token())
                @if !page.is_new() { (made.fields()) }
                // The Enter key presses a form's first button.
                @if is_long && may_change { button.pri { (label) } }
                (all)
                @if let Some(preview) = &preview { button formaction=(preview) { "Show" } " " }
                (app.button(label, does_not))
            }
            @if let Some(saved) = saved {
                div id="timeline" { (self.timeline(shown, saved)) }
            }
        };
        if name.is_empty() {
            let names = [topic.as_str()].into_iter().filter(|name| !name.is_empty());
            let above = above(&names.collect::<Vec<_>>());
            let command = format!("{command}{flags}");
            return app.page(&Frame { tab: Tab::Topics, title, above, command }, &body);
        }
        let (of, tab) = ((topic.as_str(), name.as_str()), below.trim_end_matches("/json"));
        app.below(&Below { of, tab, title, command: (&command, &flags) }, &body)
    }

    /// Returns its form's URL below its thing, its title, and the command that does the same: what comes
    /// before and after the flags that name an event subscription.
    fn head(&self, fields: &Fields) -> (&'static str, &'static str, String, String) {
        let topic = &self.names.topic;
        let (below, title, command, flags) = match self.page {
            Page::NewTopic => ("", "Create topic", "topic create NAME", ""),
            Page::Topic => ("/edit", "Topic settings", &*format!("topic update {topic}"), PATCH),
            Page::NewSubscription => (
                "/subscribe",
                "New event subscription",
                &*format!("subscription create --topic {topic} --subscription NAME"),
                " --file document.json",
            ),
            Page::Subscription => ("/edit", "Settings", "subscription update", PATCH),
            Page::Json => ("/edit/json", "Settings as JSON", "subscription update", PATCH),
            Page::Retry => {
                let flags = format!(" --answer {}", output::word(&answers(fields)));
                return ("/retry", "Retry policy", "schedule".to_owned(), flags);
            }
        };
        (below, title, command.to_owned(), flags.to_owned())
    }

    /// Says what becomes of what is typed.
    fn about(&self) -> Markup {
        match self.page {
            Page::NewTopic | Page::Retry => html! {},
            Page::Topic => html! {
                p { "Only what you change is sent. A topic's kind and its input schema can't be changed." }
            },
            Page::NewSubscription => html! {
                p {
                    "Its endpoint gets the events of " code { (self.names.topic) }
                    " that its filter wants, as soon as it has consented."
                }
            },
            Page::Subscription => html! {
                p { "Only what you change is sent. " a href=(self.url("/edit/json")) { "Edit it as JSON" } }
            },
            Page::Json => html! {
                p { a href=(self.url("/edit")) { "Edit it as a form" } }
                p {
                    "What you change is sent as a patch; secrets that show no value, or "
                    code { "Hidden" } ", stay as they are. To change the endpoint, add "
                    code { "endpointUrl" } " to the destination's properties: the new one is asked for its consent."
                }
            },
        }
    }

    /// Shows the fields of its form.
    fn fields(&self, view: View<'_>, was: &Value) -> Markup {
        let settings = self.page.settings();
        let was = Document::of(was);
        let schema = was.text(FIXED[0]);
        match self.page {
            Page::NewTopic => html! {
                (view.field(Field::of("name", "Name", "3 to 50 letters, digits and hyphens; not beginning with \
                    Microsoft, EventGrid or System.")))
                (view.field(Field {
                    control: Control::Select(&[("custom", "custom"), ("namespace", "namespace")]),
                    ..Field::of("kind", "Kind", "Which path events are published to, and how many in a request.")
                }))
                (view::of_topic(view, &settings, true))
            },
            Page::Topic => view::of_topic(view, &settings, has_mapping(&was)),
            Page::NewSubscription => html! {
                input type="hidden" name=(PROFILE) value=(view.fields.get(PROFILE));
                (view.field(Field::of("name", "Name", "2 to 64 letters, digits and hyphens.")))
                (view::of_subscription(view, &settings, view.fields.get(PROFILE), &was))
            },
            Page::Subscription => html! {
                (view::of_subscription(view, &settings, profile(&was), &was))
                @if !schema.is_empty() { p.m { "Events are delivered as " (schema) ", which can't be changed." } }
            },
            Page::Json => view.field(Field::json(DOCUMENT, "Document")),
            Page::Retry => html! {
                @for one in settings.iter().filter(|one| one.is_of_profile(profile(&was))) {
                    (view::field(&view, one, one.path))
                }
                (view.field(Field::of(ANSWERS, "The endpoint answers", "Answers in order, the last one repeats: \
                    500,408,200, or TimedOut, SocketError, ResolutionError. They are not saved.")))
                @let hidden = text::hidden_in(view.fields.get(ANSWERS));
                @if !hidden.0.is_empty() { p { (hidden) } }
            },
        }
    }

    /// Shows when attempts come by the policy in the fields.
    fn timeline(&self, shown: &Shown, saved: &anyhow::Result<Saved>) -> Markup {
        let head = "The timeline can't be shown. What you have typed is kept.";
        failure::or_problem(head, saved, |saved| {
            let (typed, _) = fields::document(&shown.fields, &shown.was, &self.page.settings());
            retry::timeline(saved, typed.into_retry_policy(), &answers(&shown.fields))
        })
    }
}

/// Says what becomes of a secret that was typed, and not saved.
fn not_shown() -> Markup {
    html! { p.warn { "A secret that you have typed is not shown again: type it once more." } }
}

/// Reads what was typed as a document.
fn document_of(text: &str) -> anyhow::Result<Value> {
    let new: Value = serde_json::from_str(text)
        .map_err(|error| Misuse(format!("That is not JSON: {error} of the text")))?;
    if !new.is_object() {
        return Err(Misuse("The document is an object: {\"properties\": …}".to_owned()).into());
    }
    Ok(new)
}

/// Returns the answers that a timeline is made for.
fn answers(fields: &Fields) -> String {
    given(Some(&fields.get(ANSWERS).to_owned())).unwrap_or_else(|| "500".to_owned())
}

/// Whether a topic takes events of one's own, which a mapping explains.
fn has_mapping(settings: &Document) -> bool {
    settings.text(FIXED[1]) == "CustomEventSchema"
}

/// Returns the delivery profile that an event subscription's limits are of.
fn profile(settings: &Document) -> &'static str {
    if settings.has("retryPolicy.maxDeliveryCount") { "namespace" } else { "basic" }
}
