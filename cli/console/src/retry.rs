//! The timeline of an event subscription's retry policy, and of another one before it is saved.

use gridpost_api::{client::Tagged, subscription::EventSubscription, topic::Topic};
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::chart::{self, Kind, Mark, Point};
use super::kit;
use super::text;
use gridpost_ops::{
    attempt_lines::describe_reason,
    schedule::{Preview, PreviewedAttempt, hours, preview},
};

/// The limits and the steps of a policy: namespace topics have limits of their own.
pub(super) const SETTINGS: [&str; 5] = [
    "retryPolicy.maxDeliveryAttempts",
    "retryPolicy.eventTimeToLiveInMinutes",
    "retryPolicy.maxDeliveryCount",
    "retryPolicy.eventTimeToLive",
    "retryPolicy.schedule",
];

/// The saved state that a timeline is made for.
pub(super) struct Saved {
    topic: Topic,
    pub(super) subscription: Tagged<EventSubscription>,
}

impl Saved {
    pub(super) async fn read(app: &App, topic: &str, name: &str) -> anyhow::Result<Self> {
        let (topic, subscription) =
            tokio::try_join!(app.api.topic(topic), app.api.subscription(topic, name))?;
        Ok(Self { topic: topic.document, subscription })
    }
}

/// Shows when attempts come by that policy, if the endpoint answers so.
pub(super) fn timeline(saved: &Saved, policy: Value, answers: &str) -> Markup {
    match &preview(&saved.topic, &saved.subscription, Some(policy), answers) {
        Ok(preview) => shown(preview),
        Err(misuse) => html! {
            div.problem role="alert" { @for line in misuse.0.lines() { p { (text::prose(line)) } } }
        },
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

fn shown(preview: &Preview) -> Markup {
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
