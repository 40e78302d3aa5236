//! Dead letters sent again: counted first by a dry run, then sent by a job of the deployment, which goes
//! on whatever becomes of the console.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use gridpost_api::{
    client::Page,
    redrive::Redrive,
    requests::{PurgeDeadLettersInput, RedriveInput, RedriveTarget},
    schema::Time,
};
use gridpost_core::delivery::redrive::{JobPhase, JobStatus};
use maud::{Markup, html};

use super::App;
use super::action::{Action, Fields};
use super::below::Below;
use super::failure::{self, Answer};
use super::form::Look;
use super::kit;
use super::letters::Chosen;
use super::page::{Names, live_part};
use super::text;
use super::urls::{self, subscription_url};
use gridpost_ops::{failure::Misuse, output};

/// Reads what a dry run counts.
fn counting(fields: &Fields) -> Result<RedriveInput, Misuse> {
    let number = |what: &str, field: &str, or: u32| match fields.first(field) {
        "" => Ok(or),
        text => text.parse().map_err(|_| Misuse(format!("{what}: `{text}` is not a whole number"))),
    };
    let name = |field: &str| Some(fields.first(field).to_owned()).filter(|name| !name.is_empty());
    let PurgeDeadLettersInput { from, to, reason, event_type, event_id, .. } =
        Chosen::of(fields).0.choice()?;
    let target = name("to_name")
        .map(|target| RedriveTarget { event_subscription: Some(target), topic: name("to_topic") });
    if target.is_none() && name("to_topic").is_some() {
        let told = "To another topic: type the event subscription there, too.";
        return Err(Misuse(told.to_owned()));
    }
    Ok(RedriveInput {
        from,
        to,
        reason,
        event_type,
        event_id,
        target,
        events_per_second: Some(number("Events in a second", "rate", 100)?),
        max_redrives: Some(number("Sent again at most", "max_redrives", 3)?),
        send_again: Some(!fields.first("again").is_empty()),
        dry_run: Some(true),
    })
}

pub(super) async fn form(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(fields): Query<Fields>,
) -> Answer {
    let jobs = app.api.redrives_page(&topic, &name, None).await?;
    Ok(render(&app, (&topic, &name), &fields, &Ok(jobs), &html! {}))
}

fn render(
    app: &App,
    (topic, name): (&str, &str),
    fields: &Fields,
    jobs: &anyhow::Result<Page<Redrive>>,
    refused: &Markup,
) -> Markup {
    let (chosen, _) = Chosen::of(fields);
    let body = html! {
        (refused)
        @if app.may_change() { (begin_form(app, topic, name, &chosen, fields)) }
        h2 { "Redrives so far" }
        (failure::or_problem("", jobs, |jobs| html! {
            (list(topic, name, &jobs.items))
            @if jobs.next.is_some() { p.m { "These are the newest; the command line lists them all." } }
        }))
    };
    let flags = chosen.with("sent", "").flags();
    let command = ("dead-letter redrive", &*format!(" --dry-run{flags}"));
    let title = "Redrive dead letters";
    let is_running = |job: &Redrive| job.status == JobStatus::Running;
    let runs = jobs.as_ref().is_ok_and(|jobs| jobs.items.iter().any(is_running));
    let page = Below { of: (topic, name), tab: "/dead-letters", title, command };
    app.live_below(&page, runs, &body)
}

fn begin_form(app: &App, topic: &str, name: &str, chosen: &Chosen, fields: &Fields) -> Markup {
    // A list of those that were sent again is to be sent once more, and a job can't choose the others.
    let again = chosen.get("sent") == "yes" || !fields.first("again").is_empty();
    let typed = |field: &str, or: &'static str| match fields.first(field) {
        "" => or.to_owned(),
        text => text.to_owned(),
    };
    let chosen = chosen.with("sent", "");
    html! {
        p { "To be sent again: " (chosen.told()) " of " code { (topic) "/" (name) } ". First they are counted; nothing is "
            "sent before you say so." }
        form method="post" action=(subscription_url(topic, name, "/redrive")) {
            (app.token())
            (chosen.hidden())
            fieldset {
                legend { "How" }
                label { "Events in a second, 1 to 1000 " input name="rate" inputmode="numeric" value=(typed("rate", "100")); }
                label { "Skip events redriven N times or more " input name="max_redrives" inputmode="numeric" value=(typed("max_redrives", "3")); }
                label.check { input type="checkbox" name="again" value="yes" checked[again]; "Send also what an earlier redrive has sent" }
                label { "To another event subscription (their own where empty) " input name="to_name" value=(typed("to_name", "")); }
                label { "of the topic (the same where empty) " input name="to_topic" value=(typed("to_topic", "")); }
            }
            button.pri { "Count them (dry run)" }
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

/// Begins a dry run.
pub(super) async fn begin(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(fields): Form<Fields>,
) -> Answer<Response> {
    let begun = async { app.api.redrive(&topic, &name, &counting(&fields)?).await };
    match begun.await {
        Ok(job) => {
            let below = format!("/redrives/{}", job.id);
            Ok(Redirect::to(&subscription_url(&topic, &name, &below)).into_response())
        }
        Err(error) => {
            let refused = failure::problem("Nothing was begun.", &error);
            // The typed text is shown again, whether the API answers or not.
            let jobs = app.api.redrives_page(&topic, &name, None).await;
            let page = render(&app, (&topic, &name), &fields, &jobs, &refused);
            Ok((failure::status(&error), page).into_response())
        }
    }
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
        _ => app.probation(&job).await,
    };
    let body = html! {
        (kit::done(look.done.as_deref()))
        (live_part("job", &html! {
            (progress(&job))
            @if let Some(refused) = &refused { div.problem role="alert" { p { (refused) } } }
            (actions(&app, &url, &job, refused.is_some()))
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

fn actions(app: &App, url: &str, job: &Redrive, is_refused: bool) -> Markup {
    html! {
        @match job.status {
            JobStatus::Completed if job.dry_run && job.counted > 0 => (Action::Redrive.form(app, url, html! {
                @if is_refused { (meant("Send all the same")) }
                button.pri id="send" { "Send these " (text::counted(job.counted, "event", "events")) }
            })),
            JobStatus::Running => (Action::CancelRedrive.form(app, url, html! {
                button.dng.pri id="cancel" { "Cancel" }
            })),
            JobStatus::Canceled | JobStatus::Failed => (Action::ResumeRedrive.form(app, url, html! {
                @if is_refused && !job.dry_run { (meant("Go on all the same")) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_before_it_is_counted() {
        let to = |rate: &str, field: &str| {
            let pairs = [("reason", "R"), ("sent", "no"), ("rate", rate), (field, "s")];
            let pairs = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
            counting(&Fields(pairs.to_vec()))
        };
        let of = |rate: &str| to(rate, "to_name");
        assert!(to("7", "to_topic").is_err(), "a topic has no dead letters of its own");
        let text = |text: &str| Some(text.to_owned());
        let counted = of("7").expect("an input");
        let to = counted.target.and_then(|target| target.event_subscription);
        assert_eq!((counted.reason, counted.send_again, to), (text("R"), Some(false), text("s")));
        assert_eq!((counted.events_per_second, counted.max_redrives), (Some(7), Some(3)));
        assert_eq!(counted.dry_run, Some(true));
        assert!(of("fast").expect_err("no number").0.contains("`fast`"));
    }
}
