//! `gridpost delivery`: deliveries that have failed, listed, shown with every attempt, attempted now.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::attempt_lines::because_of;
use crate::commands::Whose;
use crate::document::outcome_name;
use crate::output::{self, Output, text_at};
use crate::target::TargetArguments;

/// What to do with deliveries that have failed.
#[derive(Subcommand, Debug)]
pub enum DeliveryCommand {
    /// List deliveries that have failed and not ended, by publish time
    List {
        /// Whose
        #[command(flatten)]
        of: Whose,

        /// Only those whose last attempt met this, such as Busy or TimedOut
        #[arg(long, value_name = "OUTCOME", value_parser = outcome_name)]
        outcome: Option<String>,
    },
    /// Show one with every attempt, and what comes next
    Show(OneArguments),
    /// Have a waiting one attempted now, whatever its wait and its endpoint's health
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
        DeliveryCommand::List { of: Whose { topic, subscription }, outcome } => {
            let mut found = Vec::new();
            let take = |delivery: &Value| {
                let last = delivery["lastDeliveryOutcome"].as_str();
                if outcome.is_none() || outcome.as_deref() == last {
                    found.push(delivery.clone());
                }
            };
            api.each_delivery(&topic, &subscription, take).await?;
            output.print(&json!({ "value": found }), |_| list(&found));
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

fn list(found: &[Value]) -> String {
    if found.is_empty() {
        return "No failing deliveries are waiting.".to_owned();
    }
    let head = ["PUBLISHED", "ID", "EVENTS", "ATTEMPTS", "LAST OUTCOME", "DUE"].map(str::to_owned);
    let row = |one: &Value| {
        let at = |pointer| text_at(one, pointer).to_owned();
        let due = match at("/standing").as_str() {
            "Waiting" => at("/due"),
            other => other.to_owned(),
        };
        let counts = ["events", "deliveryAttempts"].map(|name| one[name].to_string());
        let [events, attempts] = counts;
        [at("/publishTime"), at("/id"), events, attempts, outcome(one), due]
    };
    output::columns(&std::iter::once(head).chain(found.iter().map(row)).collect::<Vec<_>>())
}

fn outcome(delivery: &Value) -> String {
    let outcome = text_at(delivery, "/lastDeliveryOutcome");
    match delivery["lastHttpStatusCode"].as_u64() {
        Some(status) => format!("{outcome} ({status})"),
        None => outcome.to_owned(),
    }
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
        let status = attempt["httpStatusCode"].as_u64().map(|status| format!(" ({status})"));
        let met = format!(
            "{}{} after {} ms",
            at("/outcome"),
            status.unwrap_or_default(),
            attempt["durationInMs"]
        );
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
