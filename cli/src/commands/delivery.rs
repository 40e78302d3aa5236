//! `gridpost delivery`: deliveries that have failed, listed, shown with every attempt, attempted now.

mod list;

use std::num::NonZeroUsize;

use clap::{Args, Subcommand};
use serde_json::Value;

use self::list::{Chosen, found};
use crate::attempt_lines::{because_of, met};
use crate::commands::Whose;
use crate::document::outcome_name;
use crate::output::{self, Output, text_at};
use crate::target::TargetArguments;

/// What to do with deliveries that have failed.
#[derive(Subcommand, Debug)]
pub enum DeliveryCommand {
    /// List deliveries that have failed and not ended, by publish time
    List {
        /// Only those of this topic [default: all topics]
        #[arg(long, value_name = "NAME")]
        topic: Option<String>,

        /// Only those of this event subscription of the topic [default: all]
        #[arg(long, alias = "name", value_name = "NAME", requires = "topic")]
        subscription: Option<String>,

        /// Only those whose last attempt had this outcome, such as Busy or TimedOut
        #[arg(long, value_name = "OUTCOME", value_parser = outcome_name)]
        outcome: Option<String>,

        /// How many at most, those that were published first; how many more there are is told
        #[arg(long, value_name = "N", default_value = "100")]
        limit: NonZeroUsize,
    },
    /// Show one with every attempt, and what comes next
    Show(OneArguments),
    /// Attempt a waiting one now, whatever its wait and its endpoint's health
    Resend(OneArguments),
}

/// Which delivery.
#[derive(Args, Debug)]
pub struct OneArguments {
    /// Its id (`delivery list`, `explain` and `tail` print it)
    id: String,

    #[command(flatten)]
    of: Whose,
}

/// Runs `gridpost delivery`.
///
/// # Errors
///
/// A refusal by the server, or a transport failure.
pub async fn run(
    command: DeliveryCommand,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let api = target.resolve()?.manage_api().await?;
    match command {
        DeliveryCommand::List { topic, subscription, outcome, limit } => {
            let chosen = Chosen { topic, subscription, outcome, limit: limit.get() };
            let found = found(&api, &chosen).await?;
            output.print(&found.document(), |_| found.text(chosen.subscription.is_none()));
        }
        DeliveryCommand::Show(OneArguments { id, of: Whose { topic, subscription } }) => {
            output.print(&api.delivery(&topic, &subscription, &id).await?, describe);
        }
        DeliveryCommand::Resend(OneArguments { id, of: Whose { topic, subscription } }) => {
            let done = api.resend(&topic, &subscription, &id).await?;
            output.print(&done, |done| match text_at(done, "/result") {
                "Requested" => {
                    let by = text_at(done, "/expectedBy");
                    format!("asked for; {} About {by} at the latest.", text_at(done, "/message"))
                }
                _ => "sent: it is attempted now".to_owned(),
            });
        }
    }
    Ok(())
}

/// A delivery in words: where it stands, its attempts, and what comes next.
pub fn describe(delivery: &Value) -> String {
    let at = |pointer| text_at(delivery, pointer);
    let mut text = format!(
        "delivery {}: {}, {} published at {}\n",
        at("/id"),
        standing(delivery),
        output::count(delivery["events"].as_u64().unwrap_or(0), "event"),
        at("/publishTime"),
    );
    let row = |attempt: &Value| {
        let at = |pointer| text_at(attempt, pointer).to_owned();
        let met = met(&at("/outcome"), attempt["httpStatusCode"].as_u64());
        let met = format!("{met} after {} ms", attempt["durationInMs"]);
        let met = match attempt["events"].as_u64() {
            Some(events) => format!("{met}, of {}", output::count(events, "event")),
            None => met,
        };
        let met = match attempt["response"].as_str() {
            Some(said) => format!("{met}; it said: {said}"),
            None => met,
        };
        [format!("  {}", attempt["attempt"]), at("/startTime"), met]
    };
    let rows: Vec<_> = delivery["attempts"].as_array().into_iter().flatten().map(row).collect();
    text.push_str(&output::columns(&rows));
    if let Some(next) = delivery.get("next") {
        text.push_str(&format!("\n{}", next_in_words(next)));
    }
    text
}

fn standing(delivery: &Value) -> String {
    match text_at(delivery, "/standing") {
        "Waiting" => "waits".to_owned(),
        "Ending" => format!("ends: {}", text_at(delivery, "/reason")),
        "Ended" => "ended undelivered".to_owned(),
        "Delivered" => "delivered".to_owned(),
        other => other.to_owned(),
    }
}

fn next_in_words(next: &Value) -> String {
    let at = |pointer| text_at(next, pointer);
    let (not_before, expires) = (at("/notBefore"), at("/expires"));
    let from = match next["endpointWaitsUntil"].as_str() {
        Some(until) => until,
        None => not_before,
    };
    // Both are UTC in one form: as texts they are in the order of time.
    if from >= expires {
        return format!(
            "next: its time-to-live ends at {expires}, before attempt {}",
            next["attempt"]
        );
    }
    let because = next["because"].as_str().map(|because| format!(", {}", because_of(because)));
    format!(
        "next: attempt {} not before {from}{}; its time-to-live ends at {expires}",
        next["attempt"],
        because.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delivery_is_told_in_words() {
        let mut delivery = json!({
            "id": "d-1", "standing": "Waiting", "events": 3, "publishTime": "P",
            "attempts": [{"attempt": 2, "startTime": "S", "durationInMs": 41, "outcome": "Busy",
                "httpStatusCode": 503}],
            "next": {"attempt": 3, "notBefore": "2026-01-01", "because": "LeastWait",
                "expires": "2026-01-02"},
        });
        let text = describe(&delivery);
        assert_eq!(
            text,
            "delivery d-1: waits, 3 events published at P\n  2  S  Busy (503) after 41 ms\n\
             next: attempt 3 not before 2026-01-01, the least wait of its outcome; its time-to-live \
             ends at 2026-01-02"
        );
        delivery["attempts"][0]["response"] = json!("no \\n such order");
        let text = describe(&delivery);
        assert!(text.contains("after 41 ms; it said: no \\n such order\n"), "{text}");
        delivery["next"]["endpointWaitsUntil"] = json!("2026-01-03");
        let text = describe(&delivery);
        assert!(text.ends_with("its time-to-live ends at 2026-01-02, before attempt 3"), "{text}");
    }
}
