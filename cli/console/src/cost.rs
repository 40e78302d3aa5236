//! Estimates a month of this deployment on AWS, by what it has and what was published lately.

use axum::extract::{Query, State};
use axum::response::Response;
use gridpost_core::subscription::ProvisioningState;
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::failure::{self, Answer};
use super::form::given;
use super::kit;
use super::lists::{Lists, lists};
use super::page::{self, Frame, Tab};
use super::text;
use gridpost_ops::{
    audit,
    cost::{
        Measured, Prices, as_of,
        month::{Estate, month, total},
        units,
    },
    failure::Misuse,
    given::TimeSpan,
    journal::Journal,
};

/// Hours that are counted where no number is given, and that a month has as AWS counts.
const COUNTED_HOURS: u32 = 24;
const MONTH_HOURS: u64 = 730;

/// Event subscriptions after which those of no further topic are counted.
const SUBSCRIPTIONS_MAX: usize = 2_000;

/// Events in a month; counted where it is not given.
#[derive(Deserialize)]
pub(super) struct CostQuery {
    events: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    Query(asked): Query<CostQuery>,
) -> Answer<Response> {
    let events = match given(asked.events.as_ref()) {
        Some(text) => {
            let rule = |_| Misuse(format!("Events in a month: `{text}` is not a whole number"));
            Some(text.parse::<u64>().map_err(rule)?)
        }
        None => None,
    };
    let body = html! {
        form.row method="get" action="/cost" {
            label { "With so many events in a month instead "
                input name="events" inputmode="numeric" value=(events.map(|it| it.to_string()).unwrap_or_default()); }
            button { "Calculate" }
        }
        (page::late())
    };
    let mut command = "cost month --topics N --event-subscriptions N --fan-out N".to_owned();
    if let Some(events) = events {
        command.push_str(&format!(" --events {events}"));
    }
    let frame = Frame { tab: Tab::Cost, title: "Cost", above: Vec::new(), command };
    let page = app.page(&frame, &body);
    Ok(page::streamed(page, async move {
        let read = tokio::try_join!(counted(&app), sizes(&app));
        failure::or_problem("", &read, |(counted, sizes)| told(*counted, sizes, events))
    }))
}

fn told((counted, fan_out): (u64, u32), sizes: &Sizes, events: Option<u64>) -> Markup {
    let events = events.unwrap_or(counted * MONTH_HOURS / u64::from(COUNTED_HOURS));
    let Sizes { topics, subscriptions, is_whole } = *sizes;
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
    let row = |line: &gridpost_ops::cost::month::MonthLine| {
        vec![
            html! { (line.what) },
            html! { (units(line.units)) },
            html! { "$" (format!("{:.2}", line.dollars)) },
        ]
    };
    let command = format!(
        "gridpost cost month --topics {topics} --event-subscriptions {subscriptions} --events {events} --fan-out {fan_out}"
    );
    html! {
        p { "A month like the last " (COUNTED_HOURS) " hours costs about " strong { "$" (format!("{:.2}", total(&lines))) }
            ", with " (text::number(topics)) " topics, " (text::number(subscriptions)) " event subscriptions and "
            (text::number(events)) " events, each for " (fan_out) " event subscriptions." }
        @if !is_whole {
            p.warn { "There are more topics and event subscriptions than that: only so many were counted." }
        }
        p.m { (text::number(counted)) " events were accepted in the last " (COUNTED_HOURS) " hours." }
        (kit::table("What a month costs", &[("What", ""), ("Units", ""), ("Dollars", "")],
            lines.iter().map(row)))
        p.m { "Prices of " (prices.region) ", " (as_of(&prices)) ", without free tiers, discounts and data transfer. "
            "The module's default settings are assumed: switches that cost (dashboard, more alarms, KMS keys) are flags of "
            "the command." }
        p { "With these numbers: " code { (command) } }
    }
}

/// Events accepted lately, and how many event subscriptions an event was for. The journal tells both: what
/// waits costs nothing by itself, and is not read.
async fn counted(app: &App) -> anyhow::Result<(u64, u32)> {
    let span = TimeSpan::minutes(COUNTED_HOURS * 60);
    let target = &app.settings.target;
    let journal = Journal::connect(target, None).await?;
    let (ledger, _) = audit::counted(&journal, target, None, span).await?;
    let accepted = ledger.intakes.values().map(|intake| intake.accepted);
    let matched = ledger.accounts.values().map(|account| account.matched);
    Ok(share(accepted.fold(0, u64::saturating_add), matched.fold(0, u64::saturating_add)))
}

/// The counts, and the whole number of event subscriptions that an event is for.
fn share(accepted: u64, matched: u64) -> (u64, u32) {
    let fan_out = matched.div_ceil(accepted.max(1)).clamp(1, 500);
    (accepted, u32::try_from(fan_out).unwrap_or(500))
}

struct Sizes {
    topics: u64,
    subscriptions: u64,
    is_whole: bool,
}

async fn sizes(app: &App) -> anyhow::Result<Sizes> {
    let (names, is_whole) = app.topic_names().await?;
    let topics = names.len() as u64;
    let of_topic = async |topic: String| app.api.subscriptions(&topic).await;
    let Lists { read, unread, left } = lists(names, SUBSCRIPTIONS_MAX, of_topic).await;
    if let Some((_, error)) = unread.into_iter().next() {
        return Err(error);
    }
    let real = ProvisioningState::Succeeded;
    let all = read.iter().flat_map(|(_, found)| found);
    let real = all.filter(|one| one.properties.provisioning_state == real);
    let subscriptions = real.count() as u64;
    Ok(Sizes { topics, subscriptions, is_whole: is_whole && left.is_empty() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_event_subscription_counts_whole() {
        assert_eq!((share(0, 0), share(10, 5), share(10, 21)), ((0, 1), (10, 1), (10, 3)));
    }
}
