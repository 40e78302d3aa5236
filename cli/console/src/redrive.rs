//! Dead letters sent again: counted first by a dry run, then sent by a job of the deployment, which goes
//! on whatever becomes of the console.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::failure::{self, Answer};
use super::form::{Look, Nothing, given};
use super::letters::Chosen;
use super::page::{self, Frame, Tab, subscription_url};
use gridpost_ops::{
    failure::Misuse,
    manage_api::dead_letters::refusal_by_probation,
    output::{self, text_at},
};

type Names = Path<(String, String)>;

/// How a redrive is done, beside what it sends.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RedriveForm {
    rate: Option<String>,
    max_redrives: Option<String>,
    again: Option<String>,
    to_topic: Option<String>,
    to_name: Option<String>,
    on_probation: Option<String>,
    #[serde(default)]
    action: String,
}

impl RedriveForm {
    fn document(&self, chosen: &Chosen) -> Result<Value, Misuse> {
        let number = |what: &str, text: &Option<String>, or: u64| match given(text.as_ref()) {
            None => Ok(or),
            Some(text) => {
                text.parse().map_err(|_| Misuse(format!("{what}: `{text}` is no whole number")))
            }
        };
        // What a redrive sends is chosen by `sendAgain`, not by whether it was sent.
        let choice = gridpost_ops::manage_api::dead_letters::LetterChoice {
            redriven: None,
            ..chosen.choice()
        };
        let mut document = choice.document();
        document["eventsPerSecond"] = json!(number("Events in a second", &self.rate, 100)?);
        document["maxRedrives"] = json!(number("Sent again at most", &self.max_redrives, 3)?);
        document["sendAgain"] = json!(self.again.is_some());
        document["dryRun"] = json!(self.action != "send");
        if let Some(name) = given(self.to_name.as_ref()) {
            document["target"] =
                json!({"eventSubscription": name, "topic": given(self.to_topic.as_ref())});
        }
        Ok(document)
    }
}

pub(super) async fn form(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(chosen): Query<Chosen>,
) -> Answer {
    render(&app, &topic, &name, &chosen, &html! {}).await
}

async fn render(app: &App, topic: &str, name: &str, chosen: &Chosen, refused: &Markup) -> Answer {
    let jobs = app.api.redrives_page(topic, name, None).await?;
    let body = html! {
        (refused)
        @if app.may_change() { (begin_form(app, topic, name, chosen)) }
        h2 { "Redrives so far" }
        (list(topic, name, &jobs.items))
        @if jobs.next.is_some() { p.muted { "These are the newest; the command line lists them all." } }
    };
    let command = format!(
        "dead-letter redrive --topic {topic} --subscription {name} --dry-run{}",
        Chosen { sent: None, ..chosen.clone() }.flags()
    );
    let title = format!("Redrive dead letters of {topic}/{name}");
    let above = page::above(topic, name);
    Ok(app.page(&Frame { tab: Tab::DeadLetters, title: &title, above, command }, &body))
}

fn begin_form(app: &App, topic: &str, name: &str, chosen: &Chosen) -> Markup {
    // A list of those that were sent again is to be sent once more, and a job can't choose the others.
    let again = chosen.sent.as_deref() == Some("yes");
    let chosen = Chosen { sent: None, ..chosen.clone() };
    html! {
        p { "To be sent again: " (chosen.told()) "of " code { (topic) "/" (name) } ". First they are counted; nothing is "
            "sent before you say so." }
        form method="post" action=(subscription_url(topic, name, "/redrive")) {
            (app.token())
            (chosen.hidden())
            fieldset {
                legend { "How" }
                label { "Events in a second, 1 to 1000 " input name="rate" inputmode="numeric" value="100"; }
                label { "Skip events redriven N times or more " input name="max_redrives" inputmode="numeric" value="3"; }
                label.check { input type="checkbox" name="again" value="yes" checked[again]; "Send also what an earlier redrive has sent" }
                label { "To another event subscription (their own where empty) " input name="to_name"; }
                label { "of the topic (the same where empty) " input name="to_topic"; }
            }
            button name="action" value="count" { "Count them (dry run)" }
        }
    }
}

fn list(topic: &str, name: &str, jobs: &[Value]) -> Markup {
    let row = |job: &Value| {
        let id = text_at(job, "/id");
        let url = subscription_url(topic, name, &format!("/redrives/{}", page::part(id)));
        vec![
            page::time_at(job, "/createdTime"),
            html! { a href=(url) id={ "to-" (id) } { (id) } },
            html! { (text_at(job, "/status")) @if job["dryRun"] == true { " (dry run)" } },
            html! { (page::number_at(job, "/redriven")) " of " (page::number_at(job, "/counted")) },
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    // Those that run are watched together.
    let runs = jobs.iter().any(|job| job["status"] == "Running");
    let url = runs.then(|| subscription_url(topic, name, "/redrive"));
    html! {
        section id="redrives" hx-get=[url] hx-select="#redrives" hx-target="#redrives" hx-swap="outerHTML"
            hx-trigger=[runs.then_some("every 2s")] {
            @if rows.is_empty() { p { "None so far." } }
            @else { (page::table("Redrives", &["Begun", "Job", "Status", "Sent"], &rows)) }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Begin {
    #[serde(flatten)]
    chosen: Chosen,
    #[serde(flatten)]
    form: RedriveForm,
}

/// Begins a job: a dry run, or what a dry run has counted.
pub(super) async fn begin(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Begin { chosen, form }): Form<Begin>,
) -> Answer<Response> {
    let begun = async {
        let document = form.document(&chosen)?;
        if document["dryRun"] == false && form.on_probation.is_none() {
            let (to_topic, to_name) = (given(form.to_topic.as_ref()), given(form.to_name.as_ref()));
            let to = (to_topic.as_deref().unwrap_or(&topic), to_name.as_deref().unwrap_or(&name));
            if let Some(refused) = probation(&app, to.0, to.1).await {
                return Err(Misuse(refused).into());
            }
        }
        app.api.redrive(&topic, &name, &document).await
    };
    match begun.await {
        Ok(job) => {
            let below = format!("/redrives/{}", page::part(text_at(&job, "/id")));
            Ok(Redirect::to(&subscription_url(&topic, &name, &below)).into_response())
        }
        Err(error) => {
            let refused = html! { div.problem role="alert" {
                p { strong { "Nothing was begun." } } (failure::told(&error))
            } };
            let page = render(&app, &topic, &name, &chosen, &refused).await?;
            Ok((failure::status(&error), page).into_response())
        }
    }
}

/// Why what is sent there now would end at once. What can't be read is no reason: a redrive may be
/// allowed where reading health is not.
async fn probation(app: &App, topic: &str, name: &str) -> Option<String> {
    let health = app.api.health(topic, name).await.ok()?;
    refusal_by_probation(topic, name, &health)
}

pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Query(look): Query<Look>,
) -> Answer {
    let job = app.api.redrive_job(&topic, &name, &id).await?;
    let url = subscription_url(&topic, &name, &format!("/redrives/{}", page::part(&id)));
    // A job that is over does not change: the page stops asking.
    // Without that a click anywhere in it would fetch it anew, and clear its boxes.
    let is_running = job["status"] == "Running";
    let (polled, trigger) = (is_running.then_some(url.as_str()), is_running.then_some("every 1s"));
    let to = (text_at(&job, "/target/topic"), text_at(&job, "/target/eventSubscription"));
    let refused = match text_at(&job, "/status") {
        "Completed" if job["dryRun"] != true => None,
        _ => probation(&app, to.0, to.1).await,
    };
    let body = html! {
        (page::done(look.done.as_deref()))
        section id="job" hx-get=[polled] hx-select="#job" hx-target="#job" hx-swap="outerHTML" hx-trigger=[trigger] {
            (progress(&job))
            @if let Some(refused) = &refused { div.problem role="alert" { p { (refused) } } }
            @if app.may_change() { (actions(&app, &url, (&topic, &name), &job, refused.is_some())) }
        }
        p { a href=(subscription_url(&topic, &name, "/redrive")) { "All redrives" } }
    };
    let command = format!(
        "dead-letter redrive --topic {topic} --subscription {name} --follow {}",
        output::word(&id)
    );
    let above = page::above(&topic, &name);
    let title = if job["dryRun"] == true { "Dry run of a redrive" } else { "Redrive" };
    Ok(app.page(&Frame { tab: Tab::DeadLetters, title, above, command }, &body))
}

fn progress(job: &Value) -> Markup {
    let count = |pointer: &str| job.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (counted, sent) = (count("/counted"), count("/redriven"));
    let target =
        format!("{}/{}", text_at(job, "/target/topic"), text_at(job, "/target/eventSubscription"));
    let is_counting = job["phase"] == "Counting" && job["status"] == "Running";
    html! {
        p role="status" {
            strong { (text_at(job, "/status")) } ": "
            @if is_counting { (page::number(counted)) " events counted so far." }
            @else if job["dryRun"] == true { (page::number(counted)) " events would be sent to " code { (target) } "." }
            @else { (page::number(sent)) " of " (page::number(counted)) " events sent to " code { (target) } "." }
        }
        @if job["dryRun"] != true && counted > 0 {
            label { "Sent " progress max=(counted) value=(sent) { (sent) " of " (counted) } }
        }
        @for (member, what) in LEFT_OUT {
            @let left = count(&format!("/leftOut/{member}"));
            @if left > 0 { p { "Left out: " (page::number(left)) " " (what) "." } }
        }
        @if counted == 0 && job["status"] == "Completed" {
            p.muted { "Dead letters of its last two seconds are left to the next redrive." }
        }
        @if let Some(problem) = job["problem"].as_str() { p.bad { (page::visible(problem)) } }
        (chosen_of(job))
    }
}

const LEFT_OUT: [(&str, &str); 4] = [
    ("redrivenTooOften", "that were sent again too often before"),
    ("sentBefore", "that an earlier redrive has sent"),
    ("otherSchema", "delivered in another schema than that event subscription's"),
    ("unreadable", "that can't be read"),
];

fn chosen_of(job: &Value) -> Markup {
    let names = [
        "reason",
        "eventType",
        "eventId",
        "from",
        "to",
        "eventsPerSecond",
        "maxRedrives",
        "createdTime",
    ];
    let row = |name: &&str| match &job[*name] {
        Value::Null => None,
        Value::String(text) => Some([(*name).to_owned(), page::visible(text)]),
        other => Some([(*name).to_owned(), other.to_string()]),
    };
    let rows: Vec<_> = names.iter().filter_map(row).collect();
    page::facts(&rows)
}

fn actions(app: &App, url: &str, of: (&str, &str), job: &Value, is_refused: bool) -> Markup {
    let counted = job["counted"].as_u64().unwrap_or(0);
    let is_dry = job["dryRun"] == true;
    html! {
        @match text_at(job, "/status") {
            "Completed" if is_dry && counted > 0 => {
                form method="post" action=(subscription_url(of.0, of.1, "/redrive")) {
                    (app.token())
                    (again(job))
                    @if is_refused {
                        label.check {
                            input type="checkbox" id="meant" name="on_probation" value="yes" required;
                            "Send all the same: each event ends at once, as a new dead letter."
                        }
                    }
                    button name="action" value="send" id="send" { "Send these " (page::number(counted)) @if counted == 1 { " event" } @else { " events" } }
                }
            }
            "Running" => {
                form method="post" action={ (url) "/cancel" } {
                    (app.token()) button.danger id="cancel" { "Cancel" }
                }
            }
            "Canceled" | "Failed" => {
                form method="post" action={ (url) "/resume" } {
                    (app.token())
                    @if is_refused && !is_dry {
                        label.check {
                            input type="checkbox" id="meant" name="on_probation" value="yes" required;
                            "Go on all the same: each event ends at once, as a new dead letter."
                        }
                    }
                    button id="resume" { "Go on with it" }
                }
            }
            _ => {}
        }
    }
}

/// The dry run's choice as fields of the form that sends: the same, until the time that it counted to.
fn again(job: &Value) -> Markup {
    let text = |pointer: &str| {
        job.pointer(pointer).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let fields = [
        ("reason", "/reason"),
        ("type", "/eventType"),
        ("event", "/eventId"),
        ("from", "/from"),
        ("to", "/to"),
        ("rate", "/eventsPerSecond"),
        ("max_redrives", "/maxRedrives"),
        ("to_topic", "/target/topic"),
        ("to_name", "/target/eventSubscription"),
    ];
    html! {
        @for (field, pointer) in fields {
            @if let Some(value) = text(pointer).filter(|value| value != "null") {
                input type="hidden" name=(field) value=(value);
            }
        }
        @if job["sendAgain"] == true { input type="hidden" name="again" value="yes"; }
    }
}

pub(super) async fn cancel(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer<Redirect> {
    let job = app.api.change_redrive(&topic, &name, &id, "cancel", None).await?;
    // One that was over already stays as it is.
    let done = if job["status"] == "Canceled" { "?done=canceled" } else { "" };
    let below = format!("/redrives/{}{done}", page::part(&id));
    Ok(Redirect::to(&subscription_url(&topic, &name, &below)))
}

/// Consent to an endpoint that ends what is sent to it.
#[derive(Deserialize)]
pub(super) struct Resume {
    on_probation: Option<String>,
}

pub(super) async fn resume(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Form(form): Form<Resume>,
) -> Answer<Redirect> {
    let job = app.api.redrive_job(&topic, &name, &id).await?;
    if form.on_probation.is_none() && job["dryRun"] != true {
        let to = (text_at(&job, "/target/topic"), text_at(&job, "/target/eventSubscription"));
        if let Some(refused) = probation(&app, to.0, to.1).await {
            return Err(Misuse(refused).into());
        }
    }
    app.api.change_redrive(&topic, &name, &id, "resume", None).await?;
    let below = format!("/redrives/{}?done=resumed", page::part(&id));
    Ok(Redirect::to(&subscription_url(&topic, &name, &below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_unless_it_is_asked_for() {
        let text = |text: &str| Some(text.to_owned());
        let chosen = Chosen { reason: text("R"), sent: text("no"), ..Chosen::default() };
        let form =
            RedriveForm { rate: text("7"), action: "count".to_owned(), ..RedriveForm::default() };
        let want = json!({"reason": "R", "eventsPerSecond": 7, "maxRedrives": 3, "sendAgain": false,
            "dryRun": true});
        assert_eq!(form.document(&chosen).expect("a document"), want);
        assert_eq!(RedriveForm::default().document(&chosen).expect("a document")["dryRun"], true);
        let send =
            RedriveForm { action: "send".to_owned(), to_name: text("s"), ..RedriveForm::default() };
        let sent = send.document(&chosen).expect("a document");
        assert_eq!(
            (&sent["dryRun"], &sent["target"]["eventSubscription"]),
            (&json!(false), &json!("s"))
        );
        let refused =
            RedriveForm { rate: text("fast"), ..RedriveForm::default() }.document(&chosen);
        assert!(refused.expect_err("no number").0.contains("`fast`"));
    }
}
