//! Topics and event subscriptions deleted: what goes with them is said first, and only who types the name
//! deletes.

use axum::extract::{Path, State};
use gridpost_api::{
    health::Health,
    subscription::{Bucket, DeadLetterDestination, EventSubscription},
};
use maud::{Markup, html};

use super::App;
use super::action::{Action, typed};
use super::below::Below;
use super::failure::{self, Answer};
use super::page::{Frame, Names, Tab};
use super::text::{self, number};
use super::tiles::waiting_tile;
use super::urls::{self, subscription_url, topic_url};
use gridpost_ops::subscription;

/// Event subscriptions that are named before their topic is deleted.
const SHOWN_MAX: usize = 50;

pub(super) async fn of_subscription(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let document = app.api.subscription(&topic, &name).await?;
    let health = app.api.health(&topic, &name).await.map(|health| vec![health]);
    let whole = format!("{topic}/{name}");
    let url = subscription_url(&topic, &name, "");
    let body = html! {
        div.problem role="note" {
            p { "This deletes the event subscription " code { (whole) } " for good. From then on no event goes to "
                code { (text::visible(&subscription::show::destination(&document.document))) } "." }
            (waits(&health))
            p { "Dead letters: " (letters(&document)) }
        }
        (confirm(&app, Action::DeleteSubscription, &url, &whole))
    };
    let (of, title) = ((&*topic, &*name), "Delete event subscription");
    let command = ("subscription delete", "");
    Ok(app.below(&Below { of, tab: "/delete", title, command }, &body))
}

pub(super) async fn of_topic(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    // A name that no topic has is not found, and not shown as empty.
    app.api.topic(&topic).await?;
    let mut all = app.api.subscriptions(&topic).await?;
    let count = all.len();
    all.truncate(SHOWN_MAX);
    let healths = app.api.healths(&topic).await;
    let healths = healths.map(|all| all.into_iter().map(|one| one.health).collect());
    let url = topic_url(&topic, "");
    let body = html! {
        div.problem role="note" {
            p { "This deletes the topic " code { (topic) } " with its keys for good. From then on publishers are "
                "refused with 404." }
            @if count == 0 { p { "It has no event subscription." } } @else {
                p { strong { (number(count as u64)) } " event subscriptions go with it"
                    @if count > all.len() { ", the first of them" } ":" }
                ul { @for one in &all {
                    li { a href=(subscription_url(&topic, &one.name, "")) { (one.name) } "; dead letters: " (letters(one)) }
                } }
                (waits(&healths))
            }
        }
        (confirm(&app, Action::DeleteTopic, &url, &topic))
    };
    let command = format!("topic delete {topic}");
    let above = urls::above(&[&topic]);
    Ok(app.page(&Frame { tab: Tab::Topics, title: "Delete topic", above, command }, &body))
}

/// Returns the bucket of an event subscription's dead letters.
pub(super) fn bucket(subscription: &EventSubscription) -> Option<&str> {
    let destination = subscription.properties.settings.dead_letter_destination.as_ref()?;
    let DeadLetterDestination::S3Bucket(Bucket { bucket_name, .. }) = destination;
    bucket_name.as_deref()
}

fn letters(subscription: &EventSubscription) -> Markup {
    html! {
        @match bucket(subscription) {
            Some(bucket) => {
                "those it has stay in the bucket " code { (text::visible(bucket)) } ", where no command lists, "
                "redrives or purges them until one of the same name, bucket and prefix is made again."
            }
            None => { "it keeps none." }
        }
    }
}

/// Says what waits by those healths, and what becomes of it.
fn waits(healths: &anyhow::Result<Vec<Health>>) -> Markup {
    html! {
        p { "Events that wait, and those under way, are dropped, counted and logged as SubscriptionDeleted; they become no "
            "dead letters." }
        @match healths {
            Ok(all) => div.g.gt { (waiting_tile("", &all.iter().collect::<Vec<_>>(), true, None)) },
            Err(error) => (failure::problem("Events that wait could not be counted.", error)),
        }
    }
}

/// The form that deletes it, for who types its name.
fn confirm(app: &App, action: Action, url: &str, name: &str) -> Markup {
    action.form(app, url, html! { (typed(name, "it is meant")) button.dng.pri { "Delete" } })
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_can_not_be_counted_is_said() {
        let of = |patch: Value| -> anyhow::Result<Vec<Health>> {
            let health = documents::health(&patch);
            Ok(vec![serde_json::from_value(health).expect("a health")])
        };
        let count = json!({"waitingDeliveries": {"count": 5, "isComplete": false}});
        let refused = gridpost_ops::failure::Refusal::from_answer(403, "{}").into();
        for (healths, want) in [
            (of(count), "more than 5 deliveries"),
            (of(json!({"newEvents": "Held"})), "not known"),
            (of(json!({"newEvents": "Held", "waitingEvents": 1_000})), "1\u{202f}000"),
            (Err(refused), "could not be counted"),
        ] {
            let shown = waits(&healths).into_string();
            assert!(shown.contains(want) && shown.contains("dropped"), "{want}: {shown}");
        }
    }
}
