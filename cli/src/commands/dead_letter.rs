//! `gridpost dead-letter`: dead letters seen, sent again or removed.

mod export;
pub(crate) mod purge;
pub mod redrive;
mod summary;
mod unread;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use self::unread::Unread;
use crate::{
    commands::{Scope, SubscriptionArgs, whose},
    output::{self, Output, text_at},
    target::{Common, before},
};
use gridpost_ops::{
    given::{TimeSpan, count_in, reason_name},
    manage_api::{ManageApi, dead_letters::LetterChoice},
};

/// What to do with dead letters.
#[derive(Subcommand, Debug)]
pub enum DeadLetterCommand {
    /// List dead letters, without their events
    List {
        /// Which ones
        #[command(flatten)]
        filter: Filter,

        /// Which of them
        #[command(flatten)]
        sent: Sent,

        /// Maximum number to list
        #[arg(long, visible_alias = "top", value_name = "COUNT", default_value = "100",
            value_parser = count_in::<usize>(..))]
        limit: usize,
    },
    /// Count dead letters by reason and event type, and how many of them were not redriven
    Count {
        /// Which ones
        #[command(flatten)]
        filter: Filter,

        /// Which of them
        #[command(flatten)]
        sent: Sent,
    },
    /// Group dead letters by reason, last answer and event type, the largest group first
    Summary(summary::SummaryArguments),
    /// Write dead letters with their events to a file, one JSON document per line
    Export(Box<export::ExportArguments>),
    /// Show one dead letter with its event
    Show {
        /// The dead letter's id (`dead-letter list` prints it)
        id: String,

        /// Whose it is
        #[command(flatten)]
        whose: SubscriptionArgs,
    },
    /// Send dead letters again with a job that the deployment runs, and show its progress
    Redrive(Box<redrive::RedriveArguments>),
    /// List redrive jobs, newest first
    Redrives(SubscriptionArgs),
    /// Cancel a redrive job; `dead-letter redrive --resume` continues it
    Cancel {
        /// The job's id (`dead-letter redrives` prints it)
        id: String,

        /// Whose dead letters it sends
        #[command(flatten)]
        whose: SubscriptionArgs,
    },
    /// Delete dead letters permanently, object by object
    Purge(Box<purge::PurgeArguments>),
}

impl DeadLetterCommand {
    /// Whether it needs the deployment's time: AWS tells it by an answer, which takes a request more.
    fn looks_back(&self) -> bool {
        match self {
            Self::List { filter, .. } | Self::Count { filter, .. } => filter.chosen.looks_back(),
            Self::Summary(arguments) => arguments.filter.chosen.looks_back(),
            Self::Export(arguments) => arguments.filter.chosen.looks_back(),
            Self::Redrive(arguments) => arguments.chosen.looks_back(),
            // It deletes nothing that was written after its count.
            Self::Purge(_) => true,
            Self::Show { .. } | Self::Redrives(_) | Self::Cancel { .. } => false,
        }
    }
}

/// Dead letters by whether a redrive has sent them again.
#[derive(Args, Clone, Copy, Debug)]
pub struct Sent {
    /// Only dead letters that were redriven
    #[arg(long)]
    redriven: bool,

    /// Only dead letters that were not redriven
    #[arg(long, conflicts_with = "redriven")]
    open: bool,
}

impl Sent {
    fn wanted(self) -> Option<bool> {
        (self.redriven || self.open).then_some(self.redriven)
    }
}

/// Which dead letters.
#[derive(Args, Debug)]
pub struct Filter {
    /// Whose
    #[command(flatten)]
    scope: Scope,

    /// Which of them
    #[command(flatten)]
    chosen: Chosen,
}

/// Which dead letters of an event subscription.
#[derive(Args, Debug)]
pub struct Chosen {
    /// Only dead letters written at or after this time, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "DATE-TIME")]
    from: Option<String>,

    /// Only dead letters written at or before this time
    #[arg(long, value_name = "DATE-TIME")]
    to: Option<String>,

    /// Only dead letters no older than this, such as 90m, 24h or 7d
    #[arg(long, value_name = "TIME", conflicts_with = "from")]
    since: Option<TimeSpan>,

    /// Only dead letters with this reason, such as TimeToLiveExceeded
    #[arg(long, value_name = "REASON", value_parser = reason_name)]
    reason: Option<String>,

    /// Only dead letters with this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,

    /// Only dead letters of the event with this id
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
}

impl Chosen {
    fn looks_back(&self) -> bool {
        self.since.is_some()
    }

    /// The choice, by what the deployment's clock shows.
    fn choice(&self, now: Timestamp) -> LetterChoice {
        let since = self.since.map(|since| before(now, since).to_iso_8601());
        LetterChoice {
            from: self.from.clone().or(since),
            to: self.to.clone(),
            reason: self.reason.clone(),
            event_type: self.event_type.clone(),
            event_id: self.event_id.clone(),
            redriven: None,
        }
    }
}

/// Also fails when a job did not come to its end, or dead letters of some event subscriptions could not
/// be read: what was read of the others is printed before.
pub async fn run(command: DeadLetterCommand, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let api = target.manage_api().await?;
    let now = if command.looks_back() { target.now().await? } else { Timestamp::default() };
    match command {
        DeadLetterCommand::List { filter, sent, limit } => {
            // One more tells whether there are more.
            let found = found(&api, &filter, sent, now, limit.saturating_add(1)).await?;
            print_list(found, limit, common.output)?;
        }
        DeadLetterCommand::Count { filter, sent } => {
            let (counted, unread) = count(&api, &filter, sent, now).await?;
            common.output.tell(&counted, count_text);
            unread.ended()?;
        }
        DeadLetterCommand::Summary(arguments) => {
            summary::run(&arguments, &api, now, common.output).await?;
        }
        DeadLetterCommand::Show { id, whose: SubscriptionArgs { topic, subscription } } => {
            common.output.print(&api.dead_letter(&topic, &subscription, &id).await?, describe);
        }
        DeadLetterCommand::Redrive(arguments) => {
            redrive::run(&arguments, &api, now, common.output).await?;
        }
        DeadLetterCommand::Redrives(SubscriptionArgs { topic, subscription }) => {
            let jobs = api.redrives(&topic, &subscription).await?;
            common.output.print(&json!({ "value": jobs }), |_| redrive::list(&jobs));
        }
        DeadLetterCommand::Cancel { id, whose: SubscriptionArgs { topic, subscription } } => {
            let job = api.change_redrive(&topic, &subscription, &id, "cancel", None).await?;
            common.output.print(&job, redrive::summary);
        }
        DeadLetterCommand::Export(arguments) => {
            export::run(&arguments, &api, now, common.output).await?;
        }
        DeadLetterCommand::Purge(arguments) => {
            purge::run(&arguments, &api, now, common.output).await?
        }
    }
    Ok(())
}

/// The event subscriptions that are named, of those that have their dead letters stored.
async fn owners(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
) -> anyhow::Result<Vec<SubscriptionArgs>> {
    let has_letters = |one: &Value| {
        one.pointer("/properties/deadLetterDestination").is_some_and(Value::is_object)
    };
    whose(api, topic, subscription, has_letters).await
}

async fn of(api: &ManageApi, filter: &Filter) -> anyhow::Result<Vec<SubscriptionArgs>> {
    owners(api, filter.scope.topic.as_deref(), filter.scope.subscription.as_deref()).await
}

/// The first `limit` of those that are chosen, and whose could not be read.
async fn found(
    api: &ManageApi,
    filter: &Filter,
    sent: Sent,
    now: Timestamp,
    limit: usize,
) -> anyhow::Result<(Vec<Value>, Unread)> {
    let choice = LetterChoice { redriven: sent.wanted(), ..filter.chosen.choice(now) };
    let all = of(api, filter).await?;
    let (mut found, mut unread) = (Vec::new(), Unread::of(filter, &all));
    for whose in &all {
        let SubscriptionArgs { topic, subscription } = whose;
        let most = limit.saturating_sub(found.len());
        let read = api.dead_letters(topic, subscription, &choice, most).await;
        for mut one in unread.take(whose, read)?.unwrap_or_default() {
            one["topic"] = json!(topic);
            one["eventSubscription"] = json!(subscription);
            found.push(one);
        }
    }
    Ok((found, unread))
}

fn print_list(
    (mut found, unread): (Vec<Value>, Unread),
    limit: usize,
    output: Output,
) -> anyhow::Result<()> {
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let is_complete = !is_cut && unread.is_empty();
    let document = json!({"value": found, "isComplete": is_complete, "failed": unread.document()});
    output.tell(&document, |_| list(&found, &unread));
    if is_cut {
        output::note(&format!(
            "There are more than these {limit}: --limit lists more, and `count` counts all."
        ));
    }
    unread.ended()
}

/// The answers that count what is chosen of one; an error where not all of them came.
async fn counts_of(
    api: &ManageApi,
    whose: &SubscriptionArgs,
    choice: &LetterChoice,
) -> anyhow::Result<Vec<Value>> {
    let mut answers = Vec::new();
    let take = |answer: &Value| answers.push(answer.clone());
    api.count_dead_letters(&whose.topic, &whose.subscription, choice, take).await?;
    Ok(answers)
}

/// How many there are, and whose could not be read: of these nothing is counted.
async fn count(
    api: &ManageApi,
    filter: &Filter,
    sent: Sent,
    now: Timestamp,
) -> anyhow::Result<(Value, Unread)> {
    let choice = LetterChoice { redriven: sent.wanted(), ..filter.chosen.choice(now) };
    let (mut events, mut redriven, mut unreadable) = (0_u64, 0_u64, 0);
    let mut sums: [BTreeMap<String, u64>; 3] = Default::default();
    let all = of(api, filter).await?;
    let mut unread = Unread::of(filter, &all);
    for whose in &all {
        let answers = unread.take(whose, counts_of(api, whose, &choice).await)?;
        for answer in answers.iter().flatten() {
            let of_this = answer["events"].as_u64().unwrap_or(0);
            events += of_this;
            redriven += answer["redrivenEvents"].as_u64().unwrap_or(0);
            unreadable += answer["unreadable"].as_u64().unwrap_or(0);
            let key = format!("{}/{}", whose.topic, whose.subscription);
            *sums[0].entry(key).or_default() += of_this;
            for (sum, member) in sums[1..].iter_mut().zip(["byReason", "byEventType"]) {
                for (name, count) in answer[member].as_object().into_iter().flatten() {
                    *sum.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
                }
            }
        }
    }
    let [by_subscription, by_reason, by_type] = sums;
    let counted = json!({
        "events": events, "redrivenEvents": redriven,
        "openEvents": events.saturating_sub(redriven), "byEventSubscription": by_subscription, "byReason": by_reason,
        "byEventType": by_type, "unreadable": unreadable, "failed": unread.document(),
    });
    Ok((counted, unread))
}

fn count_text(counted: &Value) -> String {
    let number = |member: &str| counted[member].as_u64().unwrap_or(0);
    let letters = output::count(number("events"), "dead letter");
    let (redriven, open) = (number("redrivenEvents"), number("openEvents"));
    let mut text = format!("{letters}: {redriven} sent again by a redrive, {open} open");
    for member in ["byEventSubscription", "byReason", "byEventType"] {
        let counts = counted[member].as_object().into_iter().flatten();
        let rows: Vec<_> = counts.map(|(name, count)| [name.clone(), count.to_string()]).collect();
        if !rows.is_empty() {
            text.push_str(&format!("\n\n{}", output::columns(&rows)));
        }
    }
    match counted["unreadable"].as_u64() {
        None | Some(0) => text,
        Some(count) => format!("{text}\n\n{count} more objects or records can't be read"),
    }
}

fn list(found: &[Value], unread: &Unread) -> String {
    if found.is_empty() {
        return unread.nothing_found().to_owned();
    }
    let head =
        ["ID", "WHOSE", "WRITTEN", "EVENT", "TYPE", "ATTEMPTS", "REDRIVES", "SENT AGAIN", "REASON"];
    let row = |one: &Value| {
        let at = |pointer| text_at(one, pointer).to_owned();
        let number = |member: &str| {
            one[member].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        let whose = format!("{}/{}", at("/topic"), at("/eventSubscription"));
        let reason = one["problem"].as_str().map(str::to_owned);
        let reason = reason.unwrap_or_else(|| at("/deadLetterReason"));
        let (attempts, redrives) = (number("deliveryAttempts"), number("redriveCount"));
        let (written, id) = (at("/writtenTime"), at("/id"));
        let sent = match one["isRedriven"].as_bool() {
            None => "-",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let (event, kind) = (at("/eventId"), at("/eventType"));
        [id, whose, written, event, kind, attempts, redrives, sent.to_owned(), reason]
    };
    output::table(head, found.iter().map(row))
}

fn describe(letter: &Value) -> String {
    let mut head = letter.clone();
    let event = head.as_object_mut().and_then(|head| head.remove("event"));
    let event = event.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let event = output::indented(&event).unwrap_or(event);
    format!("{}\n\n{event}", output::pretty(&head)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: DeadLetterCommand,
    }

    #[test]
    fn only_what_looks_back_asks_for_the_time() {
        let whose = "--topic t --subscription s";
        let table = [
            ("list".to_owned(), false),
            ("list --since 1h".to_owned(), true),
            ("list --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z".to_owned(), false),
            ("count --since 1h".to_owned(), true),
            ("count".to_owned(), false),
            ("summary".to_owned(), false),
            ("summary --since 1h".to_owned(), true),
            ("export --to-file f".to_owned(), false),
            ("export --to-file f --since 1h".to_owned(), true),
            ("redrive --topic t".to_owned(), false),
            ("redrive --topic t --since 1h".to_owned(), true),
            ("purge --all".to_owned(), true),
            (format!("show i {whose}"), false),
            (format!("redrives {whose}"), false),
            (format!("cancel i {whose}"), false),
        ];
        for (line, want) in table {
            let words = std::iter::once("dead-letter").chain(line.split_whitespace());
            let Line { command } = Line::try_parse_from(words).expect(&line);
            assert_eq!(command.looks_back(), want, "{line}");
        }
    }

    #[test]
    fn lists_and_counts_read_well() {
        let letter = json!({"id": "2026-1-1-0-u-0", "topic": "t", "eventSubscription": "s",
            "writtenTime": "W", "eventId": "7", "eventType": "T", "deliveryAttempts": 3,
            "redriveCount": 1, "isRedriven": true, "deadLetterReason": "R"});
        let problem =
            json!({"id": "i", "topic": "t", "eventSubscription": "s", "problem": "no JSON"});
        let text = list(&[letter, problem], &Unread::default());
        let rows: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["2026-1-1-0-u-0", "t/s", "W", "7", "T", "3", "1", "yes", "R"]);
        assert_eq!(rows[1], ["i", "t/s", "-", "-", "-", "-", "-", "-", "no", "JSON"]);
        let counted = json!({"events": 5, "redrivenEvents": 3, "openEvents": 2, "byReason": {"R": 5},
                "byEventType": {}, "unreadable": 2});
        let want = "5 dead letters: 3 sent again by a redrive, 2 open\n\nR  5\n\n2 more objects or \
                    records can't be read";
        assert_eq!(count_text(&counted), want);
    }
}
