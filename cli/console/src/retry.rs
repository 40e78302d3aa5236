//! The timeline of an event subscription's retry policy, and of another one before it is saved.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gridpost_api::{
    client::Tagged,
    settings::{Document, setting},
    subscription::{EventSubscription, EventSubscriptionInput, EventSubscriptionSettings},
    topic::Topic,
};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::App;
use super::below::Below;
use super::chart::{self, Kind, Mark, Point};
use super::failure::{self, Answer};
use super::form::given;
use super::kit;
use super::made::{self, Made, is_conflict};
use super::page::{Names, done};
use super::text;
use super::urls::subscription_url;
use gridpost_ops::{
    attempt_lines::describe_reason,
    output,
    schedule::{Preview, PreviewedAttempt, hours, preview},
};

/// What is asked: another policy, and what the endpoint answers. Fields that are not given are as saved.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RetryForm {
    attempts: Option<String>,
    minutes: Option<String>,
    schedule: Option<String>,
    answers: Option<String>,
}

impl RetryForm {
    fn of(policy: &impl Serialize, answers: Option<String>) -> Self {
        let [attempts, minutes, schedule] = texts(policy).map(Some);
        Self { attempts, minutes, schedule, answers }
    }

    /// Returns the document with what is asked of its policy.
    fn document(&self, saved: &impl Serialize) -> Document {
        let mut document = Document::of(saved);
        let given_texts = [&self.attempts, &self.minutes, &self.schedule];
        for (path, text) in settings(&document).into_iter().zip(given_texts) {
            match (path, text.as_ref().map(|text| text.trim())) {
                (_, None) => {}
                (SCHEDULE, Some(text)) => {
                    let steps = text.split([',', ' ']).filter(|step| !step.is_empty());
                    document.set(path, &steps.map(str::to_owned).collect::<Vec<_>>());
                }
                (_, Some("")) => {}
                (_, Some(text)) => document.set(path, &[text.to_owned()]),
            }
        }
        document
    }
}

const SCHEDULE: &str = "retryPolicy.schedule";

/// The limits and the steps of a policy: namespace topics have limits of their own.
fn settings(document: &Document) -> [&'static str; 3] {
    match document.has("retryPolicy.maxDeliveryCount") {
        true => ["retryPolicy.maxDeliveryCount", "retryPolicy.eventTimeToLive", SCHEDULE],
        false => {
            ["retryPolicy.maxDeliveryAttempts", "retryPolicy.eventTimeToLiveInMinutes", SCHEDULE]
        }
    }
}

struct Saved {
    topic: Topic,
    subscription: Tagged<EventSubscription>,
}

/// Returns the part of a document that is edited: its retry policy.
fn editable(document: &EventSubscription) -> EventSubscriptionInput {
    let retry_policy = document.properties.settings.retry_policy.clone();
    let settings = EventSubscriptionSettings { retry_policy, ..Default::default() };
    EventSubscriptionInput { properties: Some(settings) }
}

impl Saved {
    async fn read(app: &App, topic: &str, name: &str) -> anyhow::Result<Self> {
        let (topic, subscription) =
            tokio::try_join!(app.api.topic(topic), app.api.subscription(topic, name))?;
        Ok(Self { topic: topic.document, subscription })
    }

    fn policy(&self) -> EventSubscriptionInput {
        editable(&self.subscription)
    }

    fn made(&self) -> Made {
        Made::of(self.subscription.etag.as_deref(), &self.policy())
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(asked): Query<RetryForm>,
) -> Answer {
    let saved = Saved::read(&app, &topic, &name).await?;
    let made = saved.made();
    let policy = saved.policy();
    let shown = Shown { saved: &Ok(saved), policy: &policy, asked: &asked, made: &made };
    Ok(render(&app, &topic, &name, &shown, &html! {}))
}

#[derive(Debug, Deserialize)]
pub(super) struct Typed {
    #[serde(flatten)]
    asked: RetryForm,
    #[serde(flatten)]
    made: Made,
}

/// The timeline of what was typed; the form stays of the state that its page was made from.
pub(super) async fn preview_typed(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Typed { asked, made }): Form<Typed>,
) -> Answer<Response> {
    let saved = Saved::read(&app, &topic, &name).await;
    let was = match (made.was(), &saved) {
        (Ok(was), _) => was,
        (Err(_), Ok(saved)) => saved.policy(),
        (Err(error), Err(_)) => return Err(error.into()),
    };
    let status = saved.as_ref().err().map_or(StatusCode::OK, failure::status);
    let shown = Shown { saved: &saved, policy: &was, asked: &asked, made: &made };
    Ok((status, render(&app, &topic, &name, &shown, &html! {})).into_response())
}

pub(super) async fn save(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Typed { asked, made }): Form<Typed>,
) -> Answer<Response> {
    let was = made.was()?;
    let mine = asked.document(&was).into_document();
    let error = match made::save(&app, (&topic, &name), &made, &mine).await {
        Ok(code) => return Ok(done(&subscription_url(&topic, &name, ""), code)),
        Err(error) => error,
    };
    let saved = Saved::read(&app, &topic, &name).await;
    let typed = Shown { saved: &saved, policy: &was, asked: &asked, made: &made };
    let page = match &saved {
        Ok(now) if is_conflict(&error) => {
            let (made, now) = (now.made(), now.policy());
            let in_form = made::merged(&was, &now, &mine);
            let both = html! { div.problem role="alert" { (made::told(&was, &now, &in_form)) } };
            let asked = RetryForm::of(&in_form, asked.answers.clone());
            let merged = Shown { saved: &saved, policy: &now, asked: &asked, made: &made };
            render(&app, &topic, &name, &merged, &both)
        }
        Err(unread) if is_conflict(&error) => {
            render(&app, &topic, &name, &typed, &made::unread(unread))
        }
        _ => {
            let refused = failure::problem("Nothing was saved.", &error);
            render(&app, &topic, &name, &typed, &refused)
        }
    };
    Ok((failure::status(&error), page).into_response())
}

/// The content of a page: the saved state as far as it could be read, the policy for fields that
/// are not given, what was typed, and the state that the form was made from.
struct Shown<'a> {
    saved: &'a anyhow::Result<Saved>,
    policy: &'a EventSubscriptionInput,
    asked: &'a RetryForm,
    made: &'a Made,
}

fn render(app: &App, topic: &str, name: &str, shown: &Shown<'_>, refused: &Markup) -> Markup {
    let Shown { saved, policy, asked, .. } = *shown;
    let answers = given(asked.answers.as_ref()).unwrap_or_else(|| "500".to_owned());
    let body = html! {
        (refused)
        (form(app, &subscription_url(topic, name, "/retry"), shown, &answers))
        div id="timeline" {
            (failure::or_problem("The timeline can't be shown. What you have typed is kept.", saved, |saved| {
                of_saved(saved, policy, asked, &answers)
            }))
        }
    };
    let command = ("schedule", &*format!(" --answer {}", output::word(&answers)));
    app.below(&Below { of: (topic, name), tab: "/retry", title: "Retry policy", command }, &body)
}

fn of_saved(
    saved: &Saved,
    policy: &EventSubscriptionInput,
    asked: &RetryForm,
    answers: &str,
) -> Markup {
    let Saved { topic, subscription } = saved;
    let policy = asked.document(policy).into_retry_policy();
    match &preview(topic, &subscription.document, Some(policy), answers) {
        Ok(document) => timeline(document),
        Err(misuse) => html! {
            div.problem role="alert" { @for line in misuse.0.lines() { p { (text::prose(line)) } } }
        },
    }
}

/// A policy's limits and steps as the form has them.
fn texts(policy: &impl Serialize) -> [String; 3] {
    let document = Document::of(policy);
    settings(&document).map(|path| document.texts(path).join(", "))
}

fn form(app: &App, url: &str, shown: &Shown<'_>, answers: &str) -> Markup {
    let Shown { policy, asked, made, .. } = *shown;
    let [_, minutes, _] = settings(&Document::of(policy));
    let label = setting(minutes).map_or("", |setting| setting.label);
    let or = |given: &Option<String>, saved: String| given.clone().unwrap_or(saved);
    let [attempts, time_to_live, steps] = texts(policy);
    let preview = format!("{url}/preview");
    html! {
        form.row method="post" action=(url) data-preview=(preview) data-parts="timeline" {
            (app.token())
            (made.fields())
            label { "Attempts at most "
                input name="attempts" inputmode="numeric" value=(or(&asked.attempts, attempts)); }
            label { (label) " "
                input name="minutes" value=(or(&asked.minutes, time_to_live)); }
            label { "Own schedule: seconds after the first attempt "
                input.code name="schedule" placeholder="the profile's" value=(or(&asked.schedule, steps)); }
            label { "The endpoint answers "
                input.code name="answers" value=(answers) aria-describedby="answers-help"; }
            button formaction=(preview) { "Show" }
            @if app.may_change() { button.pri { "Save" } }
        }
        p.m id="answers-help" {
            "Answers in order, the last one repeats: 500,408,200, or TimedOut, SocketError, ResolutionError. They are "
            "not saved." (text::hidden_in(answers))
        }
    }
}

/// Shows when an event subscription's attempts come if its endpoint always answers 500, and how that ends.
pub(super) fn picture(topic: &Topic, subscription: &EventSubscription) -> Markup {
    match preview(topic, subscription, None, "500") {
        Ok(preview) => html! {
            p.sm.m { "If every attempt were answered 500:" }
            (axis(&preview, Kind::Acc))
            (ends(&preview))
        },
        Err(misuse) => html! { p { (text::visible(&misuse.0)) } },
    }
}

fn ends(preview: &Preview) -> Markup {
    let end = &preview.end;
    html! {
        p { "Ends after " strong { (hours(end.at)) } ": " strong { (text::words(&end.reason)) } ", with " (preview.attempts.len()) " attempts. "
            span.m { "Up to a tenth of each wait is added by chance." } }
    }
}

fn axis(preview: &Preview, failed: Kind) -> Markup {
    let Preview { attempts, end, .. } = preview;
    let point = |attempt: &PreviewedAttempt| {
        let PreviewedAttempt { number, at, response, .. } = attempt;
        let kind = if response.starts_with('2') { Kind::Ok } else { failed };
        let told = format!("attempt {number}, answered {response}");
        Point { at: at.as_secs_f64(), mark: Mark::Dot(kind), label: number.to_string(), told }
    };
    let mut points: Vec<_> = attempts.iter().map(point).collect();
    if end.reason != "Delivered" {
        points.push(Point {
            at: end.at.as_secs_f64(),
            mark: Mark::End,
            label: "end".to_owned(),
            told: end.reason.clone(),
        });
    }
    let name = "Attempts by the time since the first one";
    chart::axis(name, &points)
}

fn timeline(preview: &Preview) -> Markup {
    let Preview { attempts, warnings, .. } = preview;
    let row = |attempt: &PreviewedAttempt| {
        vec![
            html! { (attempt.number) },
            html! { (hours(attempt.at)) },
            html! { (attempt.response) },
            html! { (attempt.wait_because.map(describe_reason).unwrap_or_default()) },
        ]
    };
    html! {
        (ends(preview))
        @for warning in warnings { p.warn { (warning) } }
        (axis(preview, Kind::Bad))
        (kit::table("Attempts", &[("Attempt", ""), ("At", ""), ("Answer", ""), ("Waited for", "")],
            attempts.iter().map(row)))
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::subscription::patch_of;
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_takes_the_place_of_what_is_saved() {
        let saved = json!({"properties": {"retryPolicy":
            {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440, "schedule": [1]}}});
        let policy = |form: &RetryForm| form.document(&saved).into_retry_policy();
        let text = |text: &str| Some(text.to_owned());
        let asked =
            RetryForm { attempts: text("5"), schedule: text("1, 5 30"), ..RetryForm::default() };
        let want = json!({"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 1440, "schedule": [1, 5, 30]});
        assert_eq!(policy(&asked), want);
        let none = RetryForm { schedule: text(""), ..RetryForm::default() };
        assert!(policy(&none).get("schedule").is_none());
        let soon = policy(&RetryForm { minutes: text("soon"), ..RetryForm::default() });
        assert_eq!(soon["eventTimeToLiveInMinutes"], "soon", "the API refuses it in its words");
    }

    #[test]
    fn a_policy_that_is_sent_as_it_is_changes_nothing() {
        let rules = json!({"404": "deadLetter", "5xx": {"retryAfterSeconds": 10}});
        for policy in [
            json!({"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440}),
            json!({"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5, "schedule": [1, 5],
                "statusRules": rules}),
            json!({"maxDeliveryCount": 10, "eventTimeToLive": "P7D"}),
        ] {
            let patch = json!({"properties": {"retryPolicy": policy}});
            let document = serde_json::from_value(documents::subscription("s", &patch));
            let was = editable(&document.expect("whole"));
            let mine = RetryForm::of(&was, None).document(&was).into_document();
            assert_eq!(patch_of(&made::value(&was), &mine), json!({}));
        }
    }
}
