//! Whether the ledger balances, and what was published and became of it, hour by hour. What `gridpost
//! audit` reads.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::response::Response;
use gridpost_api::schema::Time;
use gridpost_core::{
    ledger::{Account, Intake, Latency, Ledger},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::failure::{self, Answer};
use super::form::given;
use super::page::{self, Frame, Tab, number, subscription_url};
use super::picture::{self, Bar};
use gridpost_ops::{
    audit::{
        self, Effort,
        document::total,
        verdict::{Audit, Verdict},
    },
    failure::Misuse,
    given::TimeSpan,
    output,
};

/// How far back it looks, unless said otherwise.
const SINCE: &str = "6h";

#[derive(Deserialize)]
pub(super) struct LedgerQuery {
    since: Option<String>,
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
        p.muted { "It is asked of the journal, and what waits is counted, up to a limit that it tells. On AWS that may take "
            "some seconds." }
        (page::late())
    };
    let command = format!("audit --since {}", output::word(&since));
    let frame = Frame { tab: Tab::Ledger, title: "Ledger", above: Vec::new(), command };
    let page = app.page(&frame, &body);
    Ok(page::streamed(page, async move {
        match audit::look_back(&app.settings.target, span, Effort::OF_A_PAGE).await {
            Ok(audit) => told(&audit),
            Err(error) => failure::problem("", &error),
        }
    }))
}

fn told(audit: &Audit) -> Markup {
    let class = match audit.verdict() {
        Verdict::Balances if audit.is_complete() => "done",
        Verdict::Balances | Verdict::UnderWay { .. } => "empty",
        Verdict::Missing { .. } => "problem",
    };
    html! {
        div class=(class) role="status" { @for line in audit.meaning().lines() { p { (line) } } }
        (by_hour(&audit.ledger))
        (by_subscription(&audit.ledger))
        (by_topic(audit))
    }
}

fn hours(ledger: &Ledger) -> BTreeMap<Timestamp, Account> {
    let mut hours: BTreeMap<_, Account> = BTreeMap::new();
    for ((_, hour), account) in &ledger.accounts {
        hours.entry(*hour).or_default().add(account);
    }
    hours
}

/// Counts the events that were delivered, that wait, that were dead-lettered, and that were dropped.
fn counts(account: &Account) -> [u64; 4] {
    let [dead_lettered, dropped] = [&account.dead_lettered, &account.dropped].map(total);
    [account.delivered, account.waiting, dead_lettered, dropped]
}

fn by_hour(ledger: &Ledger) -> Markup {
    let hours = hours(ledger);
    let bar = |(at, account): (&Timestamp, &Account)| {
        let at = at.to_iso_8601();
        let [delivered, waiting, dead_lettered, dropped] = counts(account);
        Bar {
            name: at.get(11..16).unwrap_or(&at).to_owned(),
            parts: vec![
                (delivered, "s-good"),
                (waiting, "s-all"),
                (dead_lettered, "s-end"),
                (dropped, "s-bad"),
            ],
            told: format!(
                "{at}: {delivered} delivered, {waiting} wait, {dead_lettered} dead-lettered, {dropped} lost"
            ),
        }
    };
    let bars: Vec<_> = hours.iter().map(bar).collect();
    let row = |(at, account): (&Timestamp, &Account)| {
        let cells = counts(account).map(|count| html! { (number(count)) });
        std::iter::once(page::time(Time(*at))).chain(cells).collect::<Vec<_>>()
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

fn by_subscription(ledger: &Ledger) -> Markup {
    let row = |(key, account): (&SubscriptionKey, Account)| {
        let [delivered, waiting, dead_lettered, dropped] = counts(&account);
        let counts = [account.matched, delivered, dead_lettered, dropped, waiting];
        let mut cells =
            vec![html! { a href=(subscription_url(&key.topic, &key.name, "")) { (key) } }];
        cells.extend(counts.map(|count| html! { (number(count)) }));
        cells.push(match account.latencies.percentile(95) {
            Some(Latency::AtMost(ms)) => html! { "≤ " (number(ms)) " ms" },
            Some(Latency::Above(_)) | None => html! { "-" },
        });
        cells
    };
    let rows: Vec<_> = ledger.totals().into_iter().map(row).collect();
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

fn by_topic(audit: &Audit) -> Markup {
    let row = |(name, Intake { accepted, unmatched }): (&str, Intake)| {
        vec![
            html! { a href=(page::topic_url(name)) { (name) } },
            html! { (number(accepted)) },
            html! { (number(unmatched)) },
        ]
    };
    let rows: Vec<_> = audit.topics().into_iter().map(row).collect();
    html! { @if !rows.is_empty() {
        h2 { "By topic" } (page::table("By topic", &["Topic", "Accepted", "For no event subscription"], &rows))
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_all_event_subscriptions_are_added() {
        let at = Timestamp::parse_rfc_3339("2026-01-01T08:00:00Z").expect("a time");
        let mut ledger = Ledger::default();
        assert!(by_hour(&ledger).into_string().contains("No event was published"));
        for (name, delivered) in [("a", 3), ("b", 4)] {
            let key = SubscriptionKey { topic: "t".to_owned(), name: name.to_owned() };
            let dead_lettered = [("Expired".to_owned(), 2)].into();
            let account = Account { delivered, waiting: 1, dead_lettered, ..Account::default() };
            ledger.accounts.insert((key, at), account);
        }
        assert_eq!(hours(&ledger).values().map(counts).collect::<Vec<_>>(), [[7, 2, 4, 0]]);
        assert!(by_hour(&ledger).into_string().contains("08:00"));
    }
}
