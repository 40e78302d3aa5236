//! `gridpost delivery`: deliveries that have failed, listed, shown with every attempt, attempted now.

use clap::{Args, Subcommand};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::attempt_lines::because_of;
use crate::commands::{Whose, if_there, whose};
use crate::document::outcome_name;
use crate::manage_api::ManageApi;
use crate::output::{self, Output, text_at};
use crate::target::TargetArguments;

/// Event subscriptions whose deliveries are read at the same time.
const AT_ONCE: usize = 8;

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
        DeliveryCommand::List { topic, subscription, outcome } => {
            let chosen = (topic.as_deref(), subscription.as_deref());
            let found = found(&api, chosen, outcome.as_deref()).await?;
            output.print(&json!({ "value": found }), |_| list(&found, subscription.is_none()));
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

/// Those of the event subscriptions that are chosen, whose last outcome is the chosen one, by publish time.
async fn found(
    api: &ManageApi,
    (topic, subscription): (Option<&str>, Option<&str>),
    outcome: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let of_one = async |of: Whose| -> anyhow::Result<Vec<Value>> {
        let mut found = Vec::new();
        let take = |delivery: &Value| {
            let last = delivery["lastDeliveryOutcome"].as_str();
            if outcome.is_none() || outcome == last {
                let mut one = delivery.clone();
                one["topic"] = json!(of.topic);
                one["eventSubscription"] = json!(of.subscription);
                found.push(one);
            }
        };
        let read = api.each_delivery(&of.topic, &of.subscription, take).await;
        match subscription {
            Some(_) => read?,
            // One that was deleted just now has none.
            None => drop(if_there(read)?),
        }
        Ok(found)
    };
    let whose = whose(api, topic, subscription, |_| true).await?;
    let lists = stream::iter(whose).map(of_one).buffered(AT_ONCE);
    let mut found = lists.try_collect::<Vec<_>>().await?.concat();
    found.sort_by(|one, other| text_at(one, "/publishTime").cmp(text_at(other, "/publishTime")));
    Ok(found)
}

fn list(found: &[Value], of_several: bool) -> String {
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
    let rows: Vec<_> = std::iter::once(head).chain(found.iter().map(row)).collect();
    if !of_several {
        return output::columns(&rows);
    }
    let names = found
        .iter()
        .map(|one| format!("{}/{}", text_at(one, "/topic"), text_at(one, "/eventSubscription")));
    let whose = std::iter::once("WHOSE".to_owned()).chain(names);
    let rows = rows.into_iter().zip(whose).map(|(row, whose)| {
        let [published, id, events, attempts, outcome, due] = row;
        [published, id, whose, events, attempts, outcome, due]
    });
    output::columns(&rows.collect::<Vec<_>>())
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
    use crate::manage_api::fake::FakeApi;

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

    /// `gone` was deleted after its name was read.
    #[tokio::test]
    async fn all_that_wait_are_listed_with_their_names() {
        let one = |id: &str, published: &str, outcome: &str| {
            json!({"id": id, "publishTime": published, "lastDeliveryOutcome": outcome,
                "events": 1, "deliveryAttempts": 1, "standing": "Waiting", "due": "D"})
        };
        let of = |found: Value| json!({ "value": found });
        let names = |names: &[&str]| of(names.iter().map(|name| json!({"name": name})).collect());
        let at = |topic: &str, name: &str| {
            format!("GET /topics/{topic}/eventSubscriptions/{name}/deliveries")
        };
        let (a, b, gone) = (at("one", "a"), at("two", "b"), at("two", "gone"));
        let api = FakeApi::answering(&[
            (a.as_str(), 200, of(json!([one("1", "T2", "Busy"), one("2", "T4", "TimedOut")]))),
            (b.as_str(), 200, of(json!([one("3", "T1", "Busy"), one("4", "T3", "Busy")]))),
            (gone.as_str(), 404, json!({})),
            ("GET /topics/one/eventSubscriptions", 200, names(&["a"])),
            ("GET /topics/two/eventSubscriptions", 200, names(&["b", "gone"])),
            ("GET /topics ", 200, names(&["one", "two"])),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.map(|it| (it, api)).expect("built");
        let table: [(_, _, &[&str]); 4] = [
            ((None, None), None, &["3", "1", "4", "2"]),
            ((None, None), Some("TimedOut"), &["2"]),
            ((Some("two"), None), None, &["3", "4"]),
            ((Some("one"), Some("a")), Some("Busy"), &["1"]),
        ];
        for (chosen, outcome, want) in table {
            let found = found(&api.0, chosen, outcome).await.expect("a list");
            let ids: Vec<_> = found.iter().map(|one| text_at(one, "/id")).collect();
            assert_eq!(ids, want, "{chosen:?} {outcome:?}");
            let first = if ids[0] == "3" { ("two", "b") } else { ("one", "a") };
            let whose = (text_at(&found[0], "/topic"), text_at(&found[0], "/eventSubscription"));
            assert_eq!(whose, first);
            let named = format!("  {}/{}  ", first.0, first.1);
            assert!(list(&found, true).contains(&named) && !list(&found, false).contains(&named));
        }
        assert!(found(&api.0, (Some("two"), Some("gone")), None).await.is_err(), "it was named");
    }
}
