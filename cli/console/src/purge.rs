//! Dead letters deleted for good: counted first, and only for one who types whose they are.

use axum::Form;
use axum::extract::{Path, Query, State};
use gridpost_api::{
    dead_letter::{DeadLetter, DeadLetterContent, DeadLetterCount, DeadLettersPurged},
    requests::PurgeDeadLettersInput,
};
use maud::{Markup, html};

use super::App;
use super::action::{Fields, typed};
use super::below::Below;
use super::failure::{self, Answer};
use super::kit;
use super::letters::{Chosen, count_some};
use super::page::Names;
use super::text;
use super::urls::{self, subscription_url};
use gridpost_ops::{failure::Misuse, manage_api::dead_letters::end_of_count};

pub(super) async fn form(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(fields): Query<Fields>,
) -> Answer {
    let chosen = until(&app, &Chosen::of(&fields).0).await?;
    let choice = chosen.choice()?;
    let counted = count_some(&app, &topic, &name, &choice).await?;
    let looked_through = match counted.unreadable {
        0 => Ok(Vec::new()),
        _ => first(&app, &topic, &name, &choice).await,
    };
    let (url, whole) = (subscription_url(&topic, &name, "/purge"), format!("{topic}/{name}"));
    let body = html! {
        (planned(&topic, &name, &chosen, &counted))
        (failure::or_problem("", &looked_through, |all| table_of_unreadable(&topic, &name, all)))
        @if app.may_change() {
            (app.act(&url, html! {
                (chosen.hidden())
                (typed(&whole, "they are given up"))
                button.dng.pri { "Delete them for good" }
            }))
        }
    };
    Ok(render(&app, &topic, &name, &chosen, &body))
}

/// Returns the choice with the end of its time: what is written after the count stays.
async fn until(app: &App, chosen: &Chosen) -> anyhow::Result<Chosen> {
    if chosen.get("sent") == "no" {
        let told = "A purge can't choose what was not sent again: choose by reason, type or time.";
        return Err(Misuse(told.to_owned()).into());
    }
    let to = end_of_count(chosen.choice()?.to, app.settings.target.now().await?);
    Ok(chosen.with("to", &to.to_string()))
}

/// Pages of dead letters that are looked through for those that can't be read.
const PAGES_MAX: usize = 10;

async fn first(
    app: &App,
    topic: &str,
    name: &str,
    choice: &PurgeDeadLettersInput,
) -> anyhow::Result<Vec<DeadLetter>> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = app.api.dead_letters_page(topic, name, choice, after.as_deref()).await?;
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

fn table_of_unreadable(topic: &str, name: &str, all: &[DeadLetter]) -> Markup {
    let row = |one: &DeadLetter| {
        let DeadLetterContent::Unreadable { problem } = &one.content else { return None };
        let url = subscription_url(topic, name, &format!("/dead-letters/{}", urls::part(&one.id)));
        let link = html! { a href=(url) { (text::soft(&one.object_name)) } };
        Some(vec![link, html! { (text::visible(problem)) }])
    };
    let rows: Vec<_> = all.iter().filter_map(row).collect();
    if rows.is_empty() {
        return html! {};
    }
    html! {
        h2 { "What can't be read" }
        p { "No redrive can send these again. They are deleted with the others, unless a reason, a type, an event or "
            "what was sent again is chosen." }
        (kit::table("Dead letters that can't be read", &[("Object", ""), ("Why it can't be read", "")],
            rows))
    }
}

fn planned(topic: &str, name: &str, chosen: &Chosen, counted: &DeadLetterCount) -> Markup {
    let more = if counted.next_link.is_some() { "at least " } else { "" };
    let open = counted.events.saturating_sub(counted.redriven_events);
    html! {
        div.problem role="note" {
            p { "This deletes " strong { (more) (text::number(counted.events)) } " of " code { (topic) "/" (name) }
                " for good: " (chosen.told()) "." }
            p { strong { (more) (text::number(open)) } " of them were never sent again." }
            @if counted.unreadable > 0 {
                p { (text::number(counted.unreadable)) " more objects or records can't be read." }
            }
        }
    }
}

pub(super) async fn run(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(fields): Form<Fields>,
) -> Answer {
    fields.confirmed(&format!("{topic}/{name}"))?;
    let (chosen, _) = Chosen::of(&fields);
    let (mut events, mut objects, mut left) = (0, 0, 0);
    let take = |answer: &DeadLettersPurged| {
        events += answer.purged_events;
        objects += answer.purged_objects;
        left += answer.left_events;
    };
    let mut choice = chosen.choice()?;
    choice.all = (choice == Default::default()).then_some(true);
    let done = app.api.purge_dead_letters(&topic, &name, &choice, take).await;
    let failed = match done {
        Err(error) if events + objects == 0 => return Err(error.into()),
        done => done.err(),
    };
    let body = html! {
        @if let Some(error) = &failed {
            (failure::problem("Not all of them were deleted.", error))
        }
        div.done role="status" {
            p { (text::number(events)) " dead letters in " (text::number(objects)) " objects are deleted." }
            @if left > 0 { p { (text::number(left)) " stay: their objects hold dead letters too that were not chosen." } }
        }
        p { a href=(subscription_url(&topic, &name, "/dead-letters")) { "Dead letters" } }
    };
    Ok(render(&app, &topic, &name, &chosen, &body))
}

fn render(app: &App, topic: &str, name: &str, chosen: &Chosen, body: &Markup) -> Markup {
    let command = ("dead-letter purge", &*format!("{} --dry-run", chosen.flags()));
    let title = "Purge dead letters";
    app.below(&Below { of: (topic, name), tab: "/dead-letters", title, command }, body)
}
