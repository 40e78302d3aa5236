//! `gridpost poison`: what our own code could not settle, seen, sent back or removed.

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    output::{self, Output, text_at},
    target::Common,
};
use gridpost_ops::{failure::Misuse, given::count_in, manage_api::ManageApi};

/// Requests of one command that sends all of them back, or removes them: a message that comes back at
/// once must not be sent for ever.
const ROUNDS_MAX: usize = 1_000;

/// What to do with the poison queue.
#[derive(Subcommand, Debug)]
pub enum PoisonCommand {
    /// List the messages in the poison queue, without their bodies
    List {
        /// At most this many messages
        #[arg(long, visible_alias = "top", value_name = "COUNT", default_value = "100",
            value_parser = count_in::<u32>(1..=100))]
        limit: u32,
    },
    /// Show one message with its body, which holds the events
    Show {
        /// Its id (`poison list` prints it)
        id: String,
    },
    /// Send messages back to the queues that they came from
    Resend {
        /// Which messages
        #[command(flatten)]
        chosen: Chosen,

        /// Where to send messages that cannot be read: `retry` for deliveries, `dead-letter` for ended
        /// ones, `fan-out` for pieces of publishes
        #[arg(long, value_name = "QUEUE", value_parser = ["retry", "dead-letter", "fan-out"], conflicts_with = "all")]
        to: Option<String>,
    },
    /// Remove messages permanently: their events are counted and logged as dropped
    Purge {
        /// Which messages
        #[command(flatten)]
        chosen: Chosen,

        /// Confirm that these events will be lost
        #[arg(long)]
        yes: bool,
    },
}

/// Which messages.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Chosen {
    /// Ids of messages (`poison list` prints them)
    #[arg(value_name = "ID", num_args = 1..=100)]
    ids: Vec<String>,

    /// All messages
    #[arg(long)]
    all: bool,
}

/// Also fails when messages were not handled.
pub async fn run(command: PoisonCommand, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?;
    if let PoisonCommand::Purge { chosen, yes: false } = &command {
        let count = match chosen.all {
            true => api.poison(1).await?["approximateCount"].as_u64().unwrap_or(0),
            false => chosen.ids.len() as u64,
        };
        return Err(Misuse(consent(count)).into());
    }
    match command {
        PoisonCommand::List { limit } => common.output.print(&api.poison(limit).await?, list),
        PoisonCommand::Show { id } => {
            common.output.print(&api.poison_message(&id).await?, describe)
        }
        PoisonCommand::Resend { chosen, to } => {
            let to = to.as_deref();
            let done = handle(&api, &chosen, async |api, ids| api.resend_poison(ids, to).await);
            report(common.output, done.await, "Resent")?;
        }
        PoisonCommand::Purge { chosen, .. } => {
            let done = handle(&api, &chosen, async |api, ids| api.purge_poison(ids).await);
            report(common.output, done.await, "Purged")?;
        }
    }
    Ok(())
}

fn consent(messages: u64) -> String {
    format!(
        "This permanently deletes {} with the events in them. Repeat with --yes.",
        output::count(messages, "message")
    )
}

/// Asks as long as there is more and the last request got something out of the queue. All of it was meant:
/// it fails where the end of the queue was not seen.
async fn handle(
    api: &ManageApi,
    chosen: &Chosen,
    ask: impl AsyncFn(&ManageApi, &[String]) -> anyhow::Result<Value>,
) -> (Vec<Value>, anyhow::Result<()>) {
    let mut done: Vec<Value> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let answer = match ask(api, &chosen.ids).await {
            Ok(answer) => answer,
            Err(error) => return (done, Err(error)),
        };
        let value = answer["value"].as_array().cloned().unwrap_or_default();
        let removed = value.iter().any(|one| one["isRemoved"] == true);
        // What is not removed is there in the next round too: it is told of once.
        let is_new = |one: &Value| !done.iter().any(|told| told["id"] == one["id"]);
        let new: Vec<_> = value.into_iter().filter(is_new).collect();
        done.extend(new);
        if !chosen.all || answer["isComplete"] == true {
            return (done, Ok(()));
        }
        if !removed {
            break;
        }
    }
    let message = "the end of the poison queue was not reached: `gridpost poison list` shows what is left. \
                   Repeat the command to go on";
    (done, Err(anyhow::Error::msg(message)))
}

/// Prints what became of each; one that was not handled makes the command fail, and so does a request
/// behind others that were.
fn report(
    output: Output,
    (done, asked): (Vec<Value>, anyhow::Result<()>),
    good: &str,
) -> anyhow::Result<()> {
    if done.is_empty() {
        asked?;
        output.tell(&json!({ "value": done }), |_| results(&done));
        return Ok(());
    }
    let left = done.iter().filter(|one| one["result"] != good).count();
    output.tell(&json!({ "value": done }), |_| results(&done));
    asked.with_context(|| format!("{} messages were looked at, others were not", done.len()))?;
    anyhow::ensure!(left == 0, "{left} of {} messages were not handled", done.len());
    Ok(())
}

fn results(done: &[Value]) -> String {
    if done.is_empty() {
        return "No message was found. Those that were looked at within the last minute are hidden until it is \
                over: `gridpost poison list` counts them."
            .to_owned();
    }
    let row = |one: &Value| {
        let more =
            match (one["to"].as_str(), one["droppedEvents"].as_u64(), one["message"].as_str()) {
                (Some(queue), ..) if one["isRemoved"] == false => {
                    format!("to {queue}, and not removed here: it may come twice")
                }
                (Some(queue), ..) => format!("to {queue}"),
                (_, Some(events), _) => format!("{} dropped", output::count(events, "event")),
                (.., message) => message.unwrap_or_default().to_owned(),
            };
        [text_at(one, "/id").to_owned(), text_at(one, "/result").to_owned(), more]
    };
    output::columns(&done.iter().map(row).collect::<Vec<_>>())
}

fn list(document: &Value) -> String {
    let messages = document["value"].as_array().cloned().unwrap_or_default();
    let mut text = match messages.is_empty() {
        true if document["approximateCount"].as_u64().unwrap_or(0) > 0 => {
            "No message of the poison queue can be seen now.".to_owned()
        }
        true => "The poison queue is empty.".to_owned(),
        false => {
            let head = ["ID", "KIND", "FROM", "SENT", "EVENTS", "WHOSE"];
            output::table(head, messages.iter().map(row))
        }
    };
    let count = document["approximateCount"].as_u64().unwrap_or(0);
    if document["isComplete"] != true || count > messages.len() as u64 {
        text.push_str(&format!(
            "\nSQS counts about {count}. It hands out in no order, and hides for a minute what somebody else \
             looks at: list again to see others."
        ));
    }
    text
}

fn row(message: &Value) -> [String; 6] {
    let at = |pointer| text_at(message, pointer).to_owned();
    let from = match message["movedBy"].as_str() {
        Some(by) => format!("{} (by {by})", text_at(message, "/fromQueue")),
        None => "unknown".to_owned(),
    };
    let whose = match message["delivery"].is_object() {
        true => format!("{}/{}", at("/delivery/topic"), at("/delivery/eventSubscription")),
        false => at("/problem"),
    };
    let events = message["delivery"]["events"].as_u64();
    let events = events.map_or_else(|| "-".to_owned(), |events| events.to_string());
    [at("/id"), at("/kind"), from, at("/sentTime"), events, whose]
}

fn describe(message: &Value) -> String {
    let mut head = message.clone();
    let body = head.as_object_mut().and_then(|head| head.remove("body"));
    let body = body.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let body = output::indented(&body).unwrap_or(body);
    let cut = match message["isBodyCut"] == true {
        true => "\n… (the rest is not shown)",
        false => "",
    };
    format!("{}\n\n{body}{cut}", output::pretty(&head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::testkit::FakeApi;

    #[tokio::test]
    async fn all_of_them_is_done_only_at_the_end_of_the_queue() {
        let purged = |removed: bool| json!([{"id": "m", "result": "Purged", "isRemoved": removed}]);
        let of = |ids: &[&str]| Chosen {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            all: ids.is_empty(),
        };
        // (what was handled, whether the end was seen, ids, whether it is done)
        let table: [(Value, bool, &[&str], bool); 6] = [
            (json!([]), true, &[], true),
            (json!([]), false, &[], false),
            (purged(true), true, &[], true),
            (purged(false), true, &[], true),
            (purged(false), false, &[], false),
            (purged(true), false, &["m"], true),
        ];
        for (value, is_complete, ids, is_done) in table {
            let answer = json!({"value": value, "isComplete": is_complete});
            let api = FakeApi::answering(&[("POST /poison:purge ", 200, answer.clone())]).await;
            let manage = ManageApi::connect(&api.url()).await.expect("a client");
            let chosen = of(ids);
            let purge = handle(&manage, &chosen, async |api, ids| api.purge_poison(ids).await);
            let (done, asked) = purge.await;
            assert_eq!((json!(done), asked.is_ok()), (value, is_done), "{answer}");
        }
    }

    /// The fake hands the same message out for ever.
    #[tokio::test]
    async fn what_comes_back_each_time_ends_as_a_failure() {
        let value = json!([{"id": "m", "result": "Resent", "isRemoved": true}]);
        let answer = json!({"value": value, "isComplete": false});
        let api = FakeApi::answering(&[("POST /poison:resend ", 200, answer)]).await;
        let manage = ManageApi::connect(&api.url()).await.expect("a client");
        let chosen = Chosen { ids: Vec::new(), all: true };
        let resent = handle(&manage, &chosen, async |api, ids| api.resend_poison(ids, None).await);
        let failed = report(Output::new(true), resent.await, "Resent").expect_err("for ever");
        let told = format!("{failed:#}");
        assert!(told.starts_with("1 messages were looked at, others were not: the end"), "{told}");
    }

    #[test]
    fn lists_say_what_they_may_have_missed() {
        let message = json!({"id": "m-1", "kind": "Delivery", "movedBy": "SQS", "fromQueue": "q",
            "sentTime": "2026-01-01T00:00:00.000Z",
            "delivery": {"topic": "t", "eventSubscription": "s", "events": 2}});
        let missed = "SQS counts about";
        let table = [
            (json!({"value": [message], "approximateCount": 1, "isComplete": true}), "t/s", false),
            (json!({"value": [message], "approximateCount": 9, "isComplete": true}), "t/s", true),
            (json!({"value": [message], "approximateCount": 1, "isComplete": false}), "t/s", true),
            (json!({"value": [], "approximateCount": 0, "isComplete": true}), "is empty.", false),
            (json!({"value": [], "approximateCount": 2, "isComplete": true}), "No message", true),
        ];
        for (document, has, misses) in table {
            let text = list(&document);
            assert_eq!((text.contains(has), text.contains(missed)), (true, misses), "{text}");
        }
    }

    #[test]
    fn a_purge_says_how_many_it_would_delete() {
        assert!(consent(1).starts_with("This permanently deletes 1 message with"));
    }

    #[test]
    fn what_was_not_handled_makes_the_command_fail() {
        let one =
            |result: &str| json!({"id": "m", "result": result, "isRemoved": result == "Resent"});
        let output = Output::new(true);
        let good = || Ok(());
        assert!(report(output, (vec![one("Resent")], good()), "Resent").is_ok());
        assert!(report(output, (vec![], good()), "Resent").is_ok());
        let both = vec![one("Resent"), one("Refused")];
        let left = report(output, (both, good()), "Resent").expect_err("left");
        // A later request fails: what was done is told, and it fails.
        let failed = || Err(anyhow::anyhow!("503"));
        assert!(report(output, (vec![one("Resent")], failed()), "Resent").is_err());
        assert!(report(output, (vec![], failed()), "Resent").is_err());
        assert_eq!(left.to_string(), "1 of 2 messages were not handled");
    }
}
