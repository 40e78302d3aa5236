//! Whether the ledger balances, and what was published and became of it, hour by hour. What `gridpost
//! audit` reads.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::failure::{self, Answer};
use super::form::given;
use super::page::{self, Frame, Tab, number, subscription_url};
use super::picture::{self, Bar};
use gridpost_ops::{
    audit::{self, Effort, verdict::Audit},
    failure::Misuse,
    given::TimeSpan,
    output::{self, text_at},
};

/// How far back it looks, unless said otherwise.
const SINCE: &str = "6h";

#[derive(Deserialize)]
pub(super) struct LedgerQuery {
    since: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hour {
    delivered: u64,
    waiting: u64,
    dead_lettered: u64,
    dropped: u64,
}

pub(super) async fn show(
    State(app): State<App>,
    Query(asked): Query<LedgerQuery>,
) -> Answer<Response> {
    let since = given(asked.since.as_ref()).unwrap_or_else(|| SINCE.to_owned());
    let span: TimeSpan =
        since.parse().map_err(|error| Misuse(format!("Events published since: {error}")))?;
    let body = html! {
        form.row method="get" action="/ledger" {
            label { "Events published since " input name="since" size="5" value=(since); }
            button.second { "Look" }
        }
        p.muted { "It is read from the functions' logs, and what waits is counted, up to a limit that it tells. With much "
            "in the logs that takes some seconds." }
        (page::late())
    };
    let command = format!("audit --since {}", output::word(&since));
    let frame = Frame { tab: Tab::Ledger, title: "Ledger", above: Vec::new(), command };
    let page = app.page(&frame, &body);
    Ok(page::streamed(page, async move {
        match audit::look_back(&app.settings.target, span, Effort::OF_A_PAGE).await {
            Ok(audit) => told(&audit),
            Err(error) => html! { div.problem role="alert" { (failure::told(&error)) } },
        }
    }))
}

fn told(audit: &Audit) -> Markup {
    let document = audit.document();
    let class = match text_at(&document, "/verdict") {
        "balances" if audit.is_complete() => "done",
        "balances" | "underWay" => "empty",
        _ => "problem",
    };
    html! {
        div class=(class) role="status" { @for line in audit.meaning().lines() { p { (line) } } }
        (by_hour(&document))
        (by_subscription(&document))
        (by_topic(&document))
    }
}

fn hours(document: &Value) -> BTreeMap<String, Hour> {
    let mut found: BTreeMap<String, Hour> = BTreeMap::new();
    let all = document["eventSubscriptions"].as_array().into_iter().flatten();
    for hour in all.filter_map(|one| one["hours"].as_array()).flatten() {
        let count = |pointer: &str| hour.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let sum = found.entry(text_at(hour, "/publishHour").to_owned()).or_default();
        sum.delivered += count("/delivered");
        sum.waiting += count("/waiting");
        sum.dead_lettered += count("/deadLettered/total");
        sum.dropped += count("/dropped/total");
    }
    found
}

fn by_hour(document: &Value) -> Markup {
    let hours = hours(document);
    let bar = |(at, hour): (&String, &Hour)| Bar {
        name: at.get(11..16).unwrap_or(at).to_owned(),
        parts: vec![
            (hour.delivered, "s-good"),
            (hour.waiting, "s-all"),
            (hour.dead_lettered, "s-end"),
            (hour.dropped, "s-bad"),
        ],
        told: format!(
            "{at}: {} delivered, {} wait, {} dead-lettered, {} lost",
            hour.delivered, hour.waiting, hour.dead_lettered, hour.dropped
        ),
    };
    let bars: Vec<_> = hours.iter().map(bar).collect();
    let row = |(at, hour): (&String, &Hour)| {
        let counts = [hour.delivered, hour.waiting, hour.dead_lettered, hour.dropped];
        let cells = counts.map(|count| html! { (number(count)) });
        std::iter::once(page::time_or_text(at)).chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = hours.iter().map(row).collect();
    html! {
        h2 { "By the hour of the publish" }
        @if rows.is_empty() {
            (page::empty("No event was published in this time that an event subscription wanted.",
                "publish --topic demo --type Sample.Greeting"))
        } @else {
            (picture::bars("Events by the hour (UTC) in which they were published", &bars))
            (page::table("Events by hour", &["Hour", "Delivered", "Waiting", "Dead-lettered", "Lost"], &rows))
        }
    }
}

fn by_subscription(document: &Value) -> Markup {
    let row = |one: &Value| {
        let (topic, name) = (text_at(one, "/topic"), text_at(one, "/name"));
        let count = |pointer: &str| html! { (page::number_at(one, pointer)) };
        let latency = one.pointer("/latency/p95AtMostMs").and_then(Value::as_u64);
        vec![
            html! { a href=(subscription_url(topic, name, "")) { (topic) "/" (name) } },
            count("/matched"),
            count("/delivered"),
            count("/deadLettered/total"),
            count("/dropped/total"),
            count("/waiting"),
            html! { @if let Some(ms) = latency { "≤ " (number(ms)) " ms" } @else { "-" } },
        ]
    };
    let rows: Vec<_> =
        document["eventSubscriptions"].as_array().into_iter().flatten().map(row).collect();
    let head = [
        "Event subscription",
        "Matched",
        "Delivered",
        "Dead-lettered",
        "Lost",
        "Waiting",
        "Publish to delivery, p95",
    ];
    html! { @if !rows.is_empty() { h2 { "By event subscription" } (page::table("By event subscription", &head, &rows)) } }
}

fn by_topic(document: &Value) -> Markup {
    let row = |one: &Value| {
        let name = text_at(one, "/name");
        vec![
            html! { a href=(page::topic_url(name)) { (name) } },
            html! { (page::number_at(one, "/accepted")) },
            html! { (page::number_at(one, "/unmatched")) },
        ]
    };
    let rows: Vec<_> = document["topics"].as_array().into_iter().flatten().map(row).collect();
    html! { @if !rows.is_empty() {
        h2 { "By topic" } (page::table("By topic", &["Topic", "Accepted", "For no event subscription"], &rows))
    } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hours_of_all_event_subscriptions_are_added() {
        let hour = |delivered: u64| {
            json!({"publishHour": "2026-01-01T08:00:00.000Z", "delivered": delivered,
            "waiting": 1, "deadLettered": {"total": 2}, "dropped": {"total": 0}})
        };
        let document = json!({"eventSubscriptions": [{"hours": [hour(3)]}, {"hours": [hour(4)]}]});
        let want = Hour { delivered: 7, waiting: 2, dead_lettered: 4, dropped: 0 };
        assert_eq!(hours(&document).into_values().collect::<Vec<_>>(), [want]);
        assert!(by_hour(&json!({})).into_string().contains("No event was published"));
        assert!(by_hour(&document).into_string().contains("08:00"));
    }
}
