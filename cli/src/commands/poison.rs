//! `gridpost poison`: what our own code could not settle, seen, sent back or removed.

use std::collections::BTreeSet;

use anyhow::Context;
use clap::{Args, Subcommand};
use gridpost_api::{
    requests::{PurgeInput, ResendInput},
    waiting::{Handled, HandledMessage, HandledResult, PoisonList, PoisonMessage, PoisonShown},
};
use gridpost_core::poison::ResendTarget;

use crate::{
    output::{self, Output},
    target::Common,
};
use gridpost_ops::{
    failure::Misuse,
    given::count_in,
    output::{indented, or_dash, pretty},
};

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

impl Chosen {
    /// Returns the ids, or that all are meant, as a request says it.
    fn input(&self) -> (Option<BTreeSet<String>>, Option<bool>) {
        match self.ids.is_empty() {
            true => (None, Some(true)),
            false => (Some(self.ids.iter().cloned().collect()), None),
        }
    }
}

/// Also fails when messages were not handled.
pub async fn run(command: PoisonCommand, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?;
    if let PoisonCommand::Purge { chosen, yes: false } = &command {
        let count = match chosen.all {
            true => api.poison(1).await?.approximate_count,
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
            let (ids, all) = chosen.input();
            let to = to.map(|to| to.parse::<ResendTarget>()).transpose()?;
            let input = ResendInput { ids, all, to };
            let done = handle(&chosen, async || api.resend_poison(&input).await).await;
            report(common.output, done, HandledResult::Resent)?;
        }
        PoisonCommand::Purge { chosen, .. } => {
            let (ids, all) = chosen.input();
            let input = PurgeInput { ids, all };
            let done = handle(&chosen, async || api.purge_poison(&input).await).await;
            report(common.output, done, HandledResult::Purged)?;
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

/// Repeats a request as long as there is more and the last one got something out of the queue. Fails
/// where all were meant and the end of the queue was not seen.
async fn handle(
    chosen: &Chosen,
    request: impl AsyncFn() -> anyhow::Result<Handled>,
) -> (Vec<HandledMessage>, anyhow::Result<()>) {
    let mut done: Vec<HandledMessage> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let Handled { value, is_complete } = match request().await {
            Ok(handled) => handled,
            Err(error) => return (done, Err(error)),
        };
        let removed = value.iter().any(|one| one.is_removed == Some(true));
        // A message that is not removed comes in the next round too, and is listed once.
        for one in value {
            if !done.iter().any(|known| known.id == one.id) {
                done.push(one);
            }
        }
        if !chosen.all || is_complete {
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

/// Prints the result of each message. Fails if one was not handled, or a request failed behind others.
fn report(
    output: Output,
    (done, end): (Vec<HandledMessage>, anyhow::Result<()>),
    good: HandledResult,
) -> anyhow::Result<()> {
    if done.is_empty() {
        end?;
        output.tell_list(&done, results);
        return Ok(());
    }
    let left = done.iter().filter(|one| one.result != good).count();
    output.tell_list(&done, results);
    end.with_context(|| format!("{} messages were looked at, others were not", done.len()))?;
    anyhow::ensure!(left == 0, "{left} of {} messages were not handled", done.len());
    Ok(())
}

fn results(done: &[HandledMessage]) -> String {
    if done.is_empty() {
        return "No message was found. Those that were looked at within the last minute are hidden until it is \
                over: `gridpost poison list` counts them."
            .to_owned();
    }
    let row = |one: &HandledMessage| {
        let more = match (&one.to, one.dropped_events) {
            (Some(queue), _) if one.is_removed == Some(false) => {
                format!("to {queue}, and not removed here: it may come twice")
            }
            (Some(queue), _) => format!("to {queue}"),
            (None, Some(events)) => format!("{} dropped", output::count(events, "event")),
            (None, None) => one.message.clone().unwrap_or_default(),
        };
        [one.id.clone(), one.result.to_string(), more]
    };
    output::columns(&done.iter().map(row).collect::<Vec<_>>())
}

fn list(PoisonList { value, approximate_count, is_complete }: &PoisonList) -> String {
    let mut text = match value.is_empty() {
        true if *approximate_count > 0 => {
            "No message of the poison queue can be seen now.".to_owned()
        }
        true => "The poison queue is empty.".to_owned(),
        false => {
            let head = ["ID", "KIND", "FROM", "SENT", "EVENTS", "WHOSE"];
            output::table(head, value.iter().map(row))
        }
    };
    if !is_complete || *approximate_count > value.len() as u64 {
        text.push_str(&format!(
            "\nSQS counts about {approximate_count}. It returns messages in no order, and hides a \
             message for a minute after anyone has read it: list again to see more."
        ));
    }
    text
}

fn row(message: &PoisonMessage) -> [String; 6] {
    let from = match message.moved_by {
        Some(by) => format!("{} (by {by})", or_dash(message.from_queue.as_ref())),
        None => "unknown".to_owned(),
    };
    let whose = match &message.delivery {
        Some(delivery) => format!("{}/{}", delivery.topic, delivery.event_subscription),
        None => or_dash(message.problem.as_ref()),
    };
    let events = or_dash(message.delivery.as_ref().map(|delivery| delivery.events));
    let (kind, sent) = (message.kind.to_string(), message.sent_time.to_string());
    [message.id.clone(), kind, from, sent, events, whose]
}

fn describe(PoisonShown { message, body, is_body_cut }: &PoisonShown) -> String {
    let body = indented(body).unwrap_or_else(|| body.clone());
    let cut = if *is_body_cut { "\n… (the rest is not shown)" } else { "" };
    format!("{}\n\n{body}{cut}", pretty(message))
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    fn handled(result: HandledResult, is_removed: bool) -> HandledMessage {
        HandledMessage {
            id: "m".to_owned(),
            result,
            message: None,
            is_removed: Some(is_removed),
            to: None,
            dropped_events: None,
        }
    }

    #[tokio::test]
    async fn all_of_them_is_done_only_at_the_end_of_the_queue() {
        let purged = |is_removed| vec![handled(HandledResult::Purged, is_removed)];
        // (what was handled, whether the end was seen, ids, whether it is done)
        let table: [(_, bool, &[&str], bool); 6] = [
            (vec![], true, &[], true),
            (vec![], false, &[], false),
            (purged(true), true, &[], true),
            (purged(false), true, &[], true),
            (purged(false), false, &[], false),
            (purged(true), false, &["m"], true),
        ];
        for (value, is_complete, ids, is_done) in table {
            let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
            let chosen = Chosen { all: ids.is_empty(), ids };
            let answer = Handled { value, is_complete };
            let (done, end) = handle(&chosen, async || Ok(answer.clone())).await;
            assert_eq!((&done, end.is_ok()), (&answer.value, is_done), "{answer:?}");
        }
    }

    /// The queue hands the same message out for ever.
    #[tokio::test]
    async fn what_comes_back_each_time_ends_as_a_failure() {
        let value = vec![handled(HandledResult::Resent, true)];
        let answer = Handled { value, is_complete: false };
        let chosen = Chosen { ids: Vec::new(), all: true };
        let resent = handle(&chosen, async || Ok(answer.clone())).await;
        let failed = report(Output::new(true), resent, HandledResult::Resent);
        let told = format!("{:#}", failed.expect_err("for ever"));
        assert!(told.starts_with("1 messages were looked at, others were not: the end"), "{told}");
    }

    #[test]
    fn lists_say_what_they_may_have_missed() {
        let delivery =
            documents::waiting_delivery(&json!({"topic": "t", "eventSubscription": "s"}));
        let message = documents::poison(&json!({"kind": "Delivery", "delivery": delivery}));
        let missed = "SQS counts about";
        let table = [
            (json!({"value": [message], "approximateCount": 1, "isComplete": true}), "t/s", false),
            (json!({"value": [message], "approximateCount": 9, "isComplete": true}), "t/s", true),
            (json!({"value": [message], "approximateCount": 1, "isComplete": false}), "t/s", true),
            (json!({"value": [], "approximateCount": 0, "isComplete": true}), "is empty.", false),
            (json!({"value": [], "approximateCount": 2, "isComplete": true}), "No message", true),
        ];
        for (document, has, misses) in table {
            let text = list(&serde_json::from_value(document).expect("a list"));
            assert_eq!((text.contains(has), text.contains(missed)), (true, misses), "{text}");
        }
    }

    #[test]
    fn a_purge_says_how_many_it_would_delete() {
        assert!(consent(1).starts_with("This permanently deletes 1 message with"));
    }

    #[test]
    fn what_was_not_handled_makes_the_command_fail() {
        let resent = || handled(HandledResult::Resent, true);
        let report = |done, end| report(Output::new(true), (done, end), HandledResult::Resent);
        assert!(report(vec![resent()], Ok(())).is_ok());
        assert!(report(vec![], Ok(())).is_ok());
        let both = vec![resent(), handled(HandledResult::Refused, false)];
        let left = report(both, Ok(())).expect_err("left");
        assert_eq!(left.to_string(), "1 of 2 messages were not handled");
        // A later request fails: the results are printed, and the command fails.
        let failed = || Err(anyhow::anyhow!("503"));
        assert!(report(vec![resent()], failed()).is_err());
        assert!(report(vec![], failed()).is_err());
    }
}
