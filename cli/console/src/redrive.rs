//! Dead letters sent again: counted first by a dry run, then sent by a job of the deployment, which goes
//! on whatever becomes of the console.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use gridpost_api::{
    redrive::Redrive,
    requests::{PurgeDeadLettersInput, RedriveInput, RedriveTarget, ResumeInput},
    schema::Time,
};
use gridpost_core::delivery::redrive::{JobPhase, JobStatus};
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::below::Below;
use super::failure::{self, Answer};
use super::form::{Look, given};
use super::kit;
use super::letters::Chosen;
use super::page::{Names, live_part};
use super::text;
use super::urls::{self, subscription_url};
use gridpost_ops::{failure::Misuse, manage_api::dead_letters::refusal_by_probation, output};

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
    fn input(&self, chosen: &Chosen) -> Result<RedriveInput, Misuse> {
        let number = |what: &str, text: &Option<String>, or: u32| match given(text.as_ref()) {
            None => Ok(or),
            Some(text) => {
                text.parse().map_err(|_| Misuse(format!("{what}: `{text}` is not a whole number")))
            }
        };
        let PurgeDeadLettersInput { from, to, reason, event_type, event_id, .. } =
            chosen.choice()?;
        let target = given(self.to_name.as_ref()).map(|name| RedriveTarget {
            event_subscription: Some(name),
            topic: given(self.to_topic.as_ref()),
        });
        Ok(RedriveInput {
            from,
            to,
            reason,
            event_type,
            event_id,
            target,
            events_per_second: Some(number("Events in a second", &self.rate, 100)?),
            max_redrives: Some(number("Sent again at most", &self.max_redrives, 3)?),
            send_again: Some(self.again.is_some()),
            dry_run: Some(self.action != "send"),
        })
    }
}

pub(super) async fn form(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(mut chosen): Query<Chosen>,
) -> Answer {
    chosen.clean();
    render(&app, &topic, &name, &chosen, &html! {}).await
}

async fn render(app: &App, topic: &str, name: &str, chosen: &Chosen, refused: &Markup) -> Answer {
    let jobs = app.api.redrives_page(topic, name, None).await?;
    let body = html! {
        (refused)
        @if app.may_change() { (begin_form(app, topic, name, chosen)) }
        h2 { "Redrives so far" }
        (list(topic, name, &jobs.items))
        @if jobs.next.is_some() { p.m { "These are the newest; the command line lists them all." } }
    };
    let flags = Chosen { sent: None, ..chosen.clone() }.flags();
    let command = ("dead-letter redrive", &*format!(" --dry-run{flags}"));
    let title = "Redrive dead letters";
    let runs = jobs.items.iter().any(|job| job.status == JobStatus::Running);
    let page = Below { of: (topic, name), tab: "/dead-letters", title, command };
    Ok(app.live_below(&page, runs, &body))
}

fn begin_form(app: &App, topic: &str, name: &str, chosen: &Chosen) -> Markup {
    // A list of those that were sent again is to be sent once more, and a job can't choose the others.
    let again = chosen.sent.as_deref() == Some("yes");
    let chosen = Chosen { sent: None, ..chosen.clone() };
    html! {
        p { "To be sent again: " (chosen.told()) " of " code { (topic) "/" (name) } ". First they are counted; nothing is "
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
            button.pri name="action" value="count" { "Count them (dry run)" }
        }
    }
}

fn list(topic: &str, name: &str, jobs: &[Redrive]) -> Markup {
    let row = |job: &Redrive| {
        let url = subscription_url(topic, name, &format!("/redrives/{}", job.id));
        vec![
            text::time(job.created_time),
            html! { a href=(url) id={ "to-" (job.id) } { (job.id) } },
            html! { (job.status.to_string()) @if job.dry_run { " (dry run)" } },
            html! { (text::number(job.redriven)) " of " (text::number(job.counted)) },
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    live_part(
        "redrives",
        &html! {
            @if rows.is_empty() { p { "None so far." } }
            @else { (kit::table("Redrives", &[("Begun", "nw"), ("Job", "gr"), ("Status", ""), ("Sent", "n")], &rows)) }
        },
    )
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
    Form(Begin { mut chosen, form }): Form<Begin>,
) -> Answer<Response> {
    chosen.clean();
    let begun = async {
        let input = form.input(&chosen)?;
        if input.dry_run == Some(false) && form.on_probation.is_none() {
            let (to_topic, to_name) = (given(form.to_topic.as_ref()), given(form.to_name.as_ref()));
            let to = (to_topic.as_deref().unwrap_or(&topic), to_name.as_deref().unwrap_or(&name));
            if let Some(refused) = probation(&app, to.0, to.1).await {
                return Err(Misuse(refused).into());
            }
        }
        app.api.redrive(&topic, &name, &input).await
    };
    match begun.await {
        Ok(job) => {
            let below = format!("/redrives/{}", job.id);
            Ok(Redirect::to(&subscription_url(&topic, &name, &below)).into_response())
        }
        Err(error) => {
            let refused = failure::problem("Nothing was begun.", &error);
            let page = render(&app, &topic, &name, &chosen, &refused).await?;
            Ok((failure::status(&error), page).into_response())
        }
    }
}

/// Returns why events sent there now would end at once. `None` also if the health can't be read: a
/// redrive may be allowed where reading health is not.
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
    let url = subscription_url(&topic, &name, &format!("/redrives/{}", urls::part(&id)));
    // A job that is over does not change: the page stops asking.
    let runs = job.status == JobStatus::Running;
    let refused = match job.status {
        JobStatus::Completed if !job.dry_run => None,
        _ => probation(&app, &job.target.topic, &job.target.event_subscription).await,
    };
    let body = html! {
        (kit::done(look.done.as_deref()))
        (live_part("job", &html! {
            (progress(&job))
            @if let Some(refused) = &refused { div.problem role="alert" { p { (refused) } } }
            @if app.may_change() { (actions(&app, &url, (&topic, &name), &job, refused.is_some())) }
        }))
        p { a href=(subscription_url(&topic, &name, "/redrive")) { "All redrives" } }
    };
    let command = ("dead-letter redrive", &*format!(" --follow {}", output::word(&id)));
    let title = if job.dry_run { "Dry run of a redrive" } else { "Redrive" };
    let page = Below { of: (&topic, &name), tab: "/dead-letters", title, command };
    Ok(app.live_below(&page, runs, &body))
}

fn progress(job: &Redrive) -> Markup {
    let (counted, sent, left) = (job.counted, job.redriven, &job.left_out);
    let target = format!("{}/{}", job.target.topic, job.target.event_subscription);
    let is_counting = job.phase == JobPhase::Counting && job.status == JobStatus::Running;
    let left_out = [
        (left.redriven_too_often, "that were sent again too often before"),
        (left.sent_before, "that an earlier redrive has sent"),
        (left.other_schema, "delivered in another schema than that event subscription's"),
        (left.unreadable, "that can't be read"),
    ];
    html! {
        p role="status" {
            strong { (job.status.to_string()) } ": "
            @if is_counting { (text::number(counted)) " events counted so far." }
            @else if job.dry_run { (text::number(counted)) " events would be sent to " code { (target) } "." }
            @else { (text::number(sent)) " of " (text::number(counted)) " events sent to " code { (target) } "." }
        }
        @if !job.dry_run && counted > 0 {
            label { "Sent " progress max=(counted) value=(sent) { (sent) " of " (counted) } }
        }
        @for (left, what) in left_out {
            @if left > 0 { p { "Left out: " (text::number(left)) " " (what) "." } }
        }
        @if counted == 0 && job.status == JobStatus::Completed {
            p.m { "Dead letters of its last two seconds are left to the next redrive." }
        }
        @if let Some(problem) = &job.problem { p.bad { (text::prose(problem)) } }
        (chosen_of(job))
    }
}

fn chosen_of(job: &Redrive) -> Markup {
    let text = |text: &Option<String>| text.as_deref().map(text::soft).unwrap_or_default();
    let time = |at: Option<Time>| at.map(text::time).unwrap_or_default();
    kit::kv(&[
        ("reason", text(&job.reason)),
        ("eventType", text(&job.event_type)),
        ("eventId", text(&job.event_id)),
        ("from", time(job.from)),
        ("to", time(job.to)),
        ("eventsPerSecond", html! { (job.events_per_second) }),
        ("maxRedrives", html! { (job.max_redrives) }),
        ("createdTime", text::time(job.created_time)),
    ])
}

fn actions(app: &App, url: &str, of: (&str, &str), job: &Redrive, is_refused: bool) -> Markup {
    let (counted, is_dry) = (job.counted, job.dry_run);
    html! {
        @match job.status {
            JobStatus::Completed if is_dry && counted > 0 => (app.act(&subscription_url(of.0, of.1, "/redrive"), html! {
                (again(job))
                @if is_refused { (meant("Send all the same")) }
                button.pri name="action" value="send" id="send" {
                    "Send these " (text::counted(counted, "event", "events"))
                }
            })),
            JobStatus::Running => (app.act(&format!("{url}/cancel"), html! {
                button.dng.pri id="cancel" { "Cancel" }
            })),
            JobStatus::Canceled | JobStatus::Failed => (app.act(&format!("{url}/resume"), html! {
                @if is_refused && !is_dry { (meant("Go on all the same")) }
                button.pri id="resume" { "Go on with it" }
            })),
            JobStatus::Completed => {}
        }
    }
}

/// Takes consent to an endpoint that ends what is sent to it.
fn meant(what: &str) -> Markup {
    html! {
        label.check {
            input type="checkbox" id="meant" name="on_probation" value="yes" required;
            (what) ": each event ends at once, as a new dead letter."
        }
    }
}

/// The dry run's choice as fields of the form that sends: the same, until the time that it counted to.
fn again(job: &Redrive) -> Markup {
    let fields = [
        ("reason", job.reason.clone()),
        ("type", job.event_type.clone()),
        ("event", job.event_id.clone()),
        ("from", job.from.map(|from| from.to_string())),
        ("to", job.to.map(|to| to.to_string())),
        ("rate", Some(job.events_per_second.to_string())),
        ("max_redrives", Some(job.max_redrives.to_string())),
        ("to_topic", Some(job.target.topic.clone())),
        ("to_name", Some(job.target.event_subscription.clone())),
    ];
    html! {
        @for (field, value) in fields {
            @if let Some(value) = value { input type="hidden" name=(field) value=(value); }
        }
        @if job.send_again { input type="hidden" name="again" value="yes"; }
    }
}

pub(super) async fn cancel(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
) -> Answer<Redirect> {
    let job = app.api.cancel_redrive(&topic, &name, &id).await?;
    // A job that was over stays as it is.
    let done = if job.status == JobStatus::Canceled { "?done=canceled" } else { "" };
    let below = format!("/redrives/{}{done}", urls::part(&id));
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
    if form.on_probation.is_none()
        && !job.dry_run
        && let Some(refused) =
            probation(&app, &job.target.topic, &job.target.event_subscription).await
    {
        return Err(Misuse(refused).into());
    }
    app.api.resume_redrive(&topic, &name, &id, &ResumeInput::default()).await?;
    let below = format!("/redrives/{}?done=resumed", urls::part(&id));
    Ok(Redirect::to(&subscription_url(&topic, &name, &below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_unless_it_is_asked_for() {
        let text = |text: &str| Some(text.to_owned());
        let chosen = Chosen { reason: text("R"), sent: text("no"), ..Chosen::default() };
        let of = |rate: Option<String>, action: &str| {
            let form = RedriveForm {
                rate,
                action: action.to_owned(),
                to_name: text("s"),
                ..RedriveForm::default()
            };
            form.input(&chosen)
        };
        let counted = of(text("7"), "").expect("an input");
        let to = counted.target.as_ref().and_then(|target| target.event_subscription.clone());
        assert_eq!((counted.reason, counted.send_again, to), (text("R"), Some(false), text("s")));
        assert_eq!((counted.events_per_second, counted.max_redrives), (Some(7), Some(3)));
        for (action, want) in [("", true), ("count", true), ("send", false)] {
            assert_eq!(of(None, action).expect("an input").dry_run, Some(want), "{action}");
        }
        assert!(of(text("fast"), "").expect_err("no number").0.contains("`fast`"));
    }
}
