//! What this deployment would cost in a month on AWS, by what it has and what was published lately.

use axum::extract::{Query, State};
use maud::html;
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::failure::Answer;
use super::forms::given;
use super::page::{self, Frame, Tab};
use crate::commands::audit;
use crate::commands::cost::{as_of, month::units};
use crate::cost::month::{Estate, month, total};
use crate::cost::{Measured, Prices};
use crate::document::TimeToLive;
use crate::failure::Misuse;

/// Hours that are counted where no number is given, and that a month has as AWS reckons.
const COUNTED_HOURS: u32 = 24;
const MONTH_HOURS: u64 = 730;

/// Events in a month; counted where it is not given.
#[derive(Deserialize)]
pub(super) struct Asked {
    events: Option<String>,
}

/// The page.
pub(super) async fn show(State(app): State<App>, Query(asked): Query<Asked>) -> Answer {
    let (counted, fan_out) = counted(&app).await?;
    let events = match given(asked.events.as_ref()) {
        Some(text) => text
            .parse()
            .map_err(|_| Misuse(format!("Events in a month: `{text}` is no whole number")))?,
        None => counted * MONTH_HOURS / u64::from(COUNTED_HOURS),
    };
    let (topics, subscriptions) = sizes(&app).await?;
    let (prices, measured) = (Prices::current(), Measured::current());
    #[expect(clippy::cast_precision_loss, reason = "2^53 events cost more than there is money")]
    let estate = Estate {
        topics: topics as f64,
        event_subscriptions: subscriptions as f64,
        events: events as f64,
        fan_out,
        ..Estate::default()
    };
    let lines = month(&estate, &prices, &measured);
    let row = |line: &crate::cost::month::MonthLine| {
        vec![
            html! { (line.what) },
            html! { (units(line.units)) },
            html! { "$" (format!("{:.2}", line.dollars)) },
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let body = html! {
        p { "A month like the last " (COUNTED_HOURS) " hours costs about " strong { "$" (format!("{:.2}", total(&lines))) }
            ", with " (page::number(topics)) " topics, " (page::number(subscriptions)) " event subscriptions and "
            (page::number(events)) " events, each for " (fan_out) " event subscriptions." }
        p.muted { (page::number(counted)) " events were accepted in the last " (COUNTED_HOURS) " hours." }
        form.row method="get" action="/cost" {
            label { "With so many events in a month instead " input name="events" inputmode="numeric" value=(events); }
            button.second { "Reckon" }
        }
        (page::table("What a month costs", &["What", "Units", "Dollars"], &rows))
        p.muted { "Prices of " (prices.region) ", " (as_of(&prices)) ", without free tiers, discounts and data transfer. "
            "The module's default settings are assumed: switches that cost (dashboard, more alarms, KMS keys) are flags of "
            "the command." }
    };
    let command = format!(
        "cost month --topics {topics} --event-subscriptions {subscriptions} --events {events} --fan-out {fan_out}"
    );
    let frame = Frame { tab: Tab::Cost, title: "Cost", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

/// Events accepted lately, and how many event subscriptions an event was for. The logs alone tell both: what
/// waits costs nothing by itself, and is not read.
async fn counted(app: &App) -> anyhow::Result<(u64, u32)> {
    let span = TimeToLive { minutes: COUNTED_HOURS * 60 };
    let ledger = audit::logs::counted(&app.settings.target, span).await?;
    let accepted = ledger.intakes.values().map(|intake| intake.accepted);
    let matched = ledger.accounts.values().map(|account| account.matched);
    Ok(share(accepted.fold(0, u64::saturating_add), matched.fold(0, u64::saturating_add)))
}

/// The counts, and the whole number of event subscriptions that an event is for.
fn share(accepted: u64, matched: u64) -> (u64, u32) {
    let fan_out = matched.div_ceil(accepted.max(1)).clamp(1, 500);
    (accepted, u32::try_from(fan_out).unwrap_or(500))
}

async fn sizes(app: &App) -> anyhow::Result<(u64, u64)> {
    let topics = app.api.topics().await?;
    let mut subscriptions = 0;
    for topic in &topics {
        let name = topic["name"].as_str().unwrap_or_default();
        subscriptions += app.api.subscriptions(name).await?.iter().filter(|it| is_real(it)).count();
    }
    Ok((topics.len() as u64, subscriptions as u64))
}

/// Whether it gets events.
fn is_real(subscription: &Value) -> bool {
    subscription.pointer("/properties/provisioningState").and_then(Value::as_str)
        == Some("Succeeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_event_subscription_counts_whole() {
        assert_eq!((share(0, 0), share(10, 5), share(10, 21)), ((0, 1), (10, 1), (10, 3)));
    }
}
