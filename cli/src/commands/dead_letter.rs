//! `gridpost dead-letter`: lists, counts, exports, redrives and purges dead letters.

mod export;
pub(crate) mod purge;
pub mod redrive;
mod summary;
#[cfg(test)]
mod unread_tests;

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::Context;
use clap::{Args, Subcommand};
use gridpost_api::{
    dead_letter::{DeadLetter, DeadLetterContent, DeadLetterCount, DeadLetterShown},
    requests::PurgeDeadLettersInput,
    schema::Time,
    subscription::EventSubscription,
};
use gridpost_core::time::Timestamp;
use serde::Serialize;

use crate::{
    commands::{Owned, Scope, SubscriptionArgs, whose},
    output,
    target::{Common, before},
};
use gridpost_ops::{
    failure::{Refusal, chain},
    given::{TimeSpan, count_in, reason_name},
    lookup::if_there,
    manage_api::ManageApi,
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
            value_parser = count_in::<usize>(1..))]
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
    #[arg(long, value_name = "DATE-TIME", value_parser = date_time)]
    from: Option<Time>,

    /// Only dead letters written at or before this time
    #[arg(long, value_name = "DATE-TIME", value_parser = date_time)]
    to: Option<Time>,

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

fn date_time(given: &str) -> Result<Time, String> {
    let at = Timestamp::parse_rfc_3339(given);
    let problem =
        || format!("`{given}` is not a date and time; expected one such as 2026-01-31T08:00:00Z");
    at.map(Time).ok_or_else(problem)
}

impl Chosen {
    fn looks_back(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the choice, by the deployment's clock.
    fn choice(&self, now: Timestamp, redriven: Option<bool>) -> PurgeDeadLettersInput {
        let since = self.since.map(|since| Time(before(now, since)));
        PurgeDeadLettersInput {
            from: self.from.or(since),
            to: self.to,
            reason: self.reason.clone(),
            event_type: self.event_type.clone(),
            event_id: self.event_id.clone(),
            redriven,
            all: None,
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
            let found = found(&api, &filter, sent, now, limit).await?;
            common.output.tell(&found.list(), |_| found.text());
            if found.is_cut {
                output::note(&format!(
                    "There are more than these {limit}: --limit lists more, and `count` counts all."
                ));
            }
            found.unread.check()?;
        }
        DeadLetterCommand::Count { filter, sent } => {
            let counts = count(&api, &filter, sent, now).await?;
            common.output.tell(&counts, Counts::text);
            counts.unread.check()?;
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
            common.output.print_list(&jobs, redrive::list);
        }
        DeadLetterCommand::Cancel { id, whose: SubscriptionArgs { topic, subscription } } => {
            let job = api.cancel_redrive(&topic, &subscription, &id).await?;
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

/// Returns the event subscriptions that are named, or those that store dead letters.
async fn owners(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
) -> anyhow::Result<Vec<SubscriptionArgs>> {
    let stores =
        |one: &EventSubscription| one.properties.settings.dead_letter_destination.is_some();
    whose(api, topic, subscription, stores).await
}

async fn of(
    api: &ManageApi,
    Filter { scope, .. }: &Filter,
) -> anyhow::Result<Vec<SubscriptionArgs>> {
    owners(api, scope.topic.as_deref(), scope.subscription.as_deref()).await
}

/// A reason why the dead letters of an event subscription were not read, or not deleted.
#[derive(Debug, PartialEq, Serialize)]
struct Failed {
    whose: String,
    error: String,
}

/// The event subscriptions whose dead letters can't be read: they keep nothing of the others back, and are
/// named at the end.
#[derive(Debug, Default, Serialize)]
struct Unread {
    #[serde(skip)]
    all: usize,
    /// Whether it is the one that was named: it must exist.
    #[serde(skip)]
    is_named: bool,
    failed: Vec<Failed>,
}

impl Unread {
    fn of(filter: &Filter, whose: &[SubscriptionArgs]) -> Self {
        let is_named = filter.scope.subscription.is_some();
        Self { all: whose.len(), is_named, failed: Vec::new() }
    }

    /// Returns what was read of one event subscription: `None` if it was deleted since its name was read,
    /// or could not be read, which is kept for the end. Fails with what is wrong with the only one, or
    /// with the request, and so with all of them.
    fn take<T>(
        &mut self,
        whose: &SubscriptionArgs,
        read: anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let read = if self.is_named { read.map(Some) } else { if_there(read) };
        match read {
            Err(error) if self.all > 1 && !is_bad_request(&error) => {
                self.failed.push(Failed { whose: whose.to_string(), error: chain(&error) });
                Ok(None)
            }
            read => read.with_context(|| whose.to_string()),
        }
    }

    fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }

    fn told(&self) -> Option<String> {
        let line = |Failed { whose, error }: &Failed| format!("\n  {whose}: {error}");
        let lines: String = self.failed.iter().map(line).collect();
        let all = output::count(self.all as u64, "event subscription");
        (!lines.is_empty())
            .then(|| format!("{} of {all} could not be read:{lines}", self.failed.len()))
    }

    /// Says that there is nothing, as far as could be read.
    fn nothing_found(&self) -> String {
        let part = if self.is_empty() { "" } else { " in what could be read" };
        format!("There is no such dead letter{part}.")
    }

    /// Fails the command behind what it printed of the others.
    fn check(&self) -> anyhow::Result<()> {
        self.told().map_or(Ok(()), |told| Err(anyhow::Error::msg(told)))
    }
}

fn is_bad_request(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == 400)
}

/// Dead letters, up to a limit.
struct Letters {
    letters: Vec<Owned<DeadLetter>>,
    /// Whether there are more than the limit.
    is_cut: bool,
    unread: Unread,
}

/// [`Letters`] as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LetterList<'a> {
    value: &'a [Owned<DeadLetter>],
    is_complete: bool,
    #[serde(flatten)]
    unread: &'a Unread,
}

/// Reads the first `limit` dead letters that are chosen.
async fn found(
    api: &ManageApi,
    filter: &Filter,
    sent: Sent,
    now: Timestamp,
    limit: usize,
) -> anyhow::Result<Letters> {
    let choice = filter.chosen.choice(now, sent.wanted());
    let all = of(api, filter).await?;
    let (mut letters, mut unread) = (Vec::new(), Unread::of(filter, &all));
    for owner in all {
        // One more tells whether there are more.
        let most = limit.saturating_add(1) - letters.len();
        if most == 0 {
            break;
        }
        let SubscriptionArgs { topic, subscription } = &owner;
        let read = api.dead_letters(topic, subscription, &choice, most).await;
        let read = unread.take(&owner, read)?.unwrap_or_default();
        letters.extend(read.into_iter().map(|document| Owned { document, owner: owner.clone() }));
    }
    let is_cut = letters.len() > limit;
    letters.truncate(limit);
    Ok(Letters { letters, is_cut, unread })
}

impl Letters {
    fn is_complete(&self) -> bool {
        !self.is_cut && self.unread.is_empty()
    }

    fn list(&self) -> LetterList<'_> {
        let Self { letters, unread, .. } = self;
        LetterList { value: letters, is_complete: self.is_complete(), unread }
    }

    fn text(&self) -> String {
        if self.letters.is_empty() {
            return self.unread.nothing_found();
        }
        let head = [
            "ID",
            "WHOSE",
            "WRITTEN",
            "EVENT",
            "TYPE",
            "ATTEMPTS",
            "REDRIVES",
            "SENT AGAIN",
            "REASON",
        ];
        output::table(head, self.letters.iter().map(row))
    }
}

fn row(
    Owned { document: DeadLetter { id, content, .. }, owner }: &Owned<DeadLetter>,
) -> [String; 9] {
    let dash = || "-".to_owned();
    let cells = match content {
        DeadLetterContent::Record(record) => [
            record.written_time.to_string(),
            record.event_id.clone(),
            record.event_type.clone(),
            record.delivery_attempts.to_string(),
            record.redrive_count.to_string(),
            if record.is_redriven { "yes" } else { "no" }.to_owned(),
            record.dead_letter_reason.clone(),
        ],
        DeadLetterContent::Unreadable { problem } => {
            [dash(), dash(), dash(), dash(), dash(), dash(), problem.clone()]
        }
    };
    let [written, event, kind, attempts, redrives, sent, reason] = cells;
    [id.clone(), owner.to_string(), written, event, kind, attempts, redrives, sent, reason]
}

/// Counts the chosen dead letters of one event subscription. Fails if not all answers came.
async fn counts_of(
    api: &ManageApi,
    SubscriptionArgs { topic, subscription }: &SubscriptionArgs,
    choice: &PurgeDeadLettersInput,
) -> anyhow::Result<DeadLetterCount> {
    let mut sum = DeadLetterCount::default();
    let take = |count: &DeadLetterCount| {
        add(&mut sum, count);
        ControlFlow::Continue(())
    };
    api.count_dead_letters(topic, subscription, choice, take).await?;
    Ok(sum)
}

fn add(sum: &mut DeadLetterCount, count: &DeadLetterCount) {
    sum.events += count.events;
    sum.redriven_events += count.redriven_events;
    sum.unreadable += count.unreadable;
    for (sums, counts) in
        [(&mut sum.by_reason, &count.by_reason), (&mut sum.by_event_type, &count.by_event_type)]
    {
        for (name, count) in counts {
            *sums.entry(name.clone()).or_default() += count;
        }
    }
}

/// The numbers of dead letters. Nothing is counted of those whose could not be read.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    #[serde(flatten)]
    sum: DeadLetterCount,
    open_events: u64,
    by_event_subscription: BTreeMap<String, u64>,
    #[serde(flatten)]
    unread: Unread,
}

async fn count(
    api: &ManageApi,
    filter: &Filter,
    sent: Sent,
    now: Timestamp,
) -> anyhow::Result<Counts> {
    let choice = filter.chosen.choice(now, sent.wanted());
    let all = of(api, filter).await?;
    let mut counts = Counts { unread: Unread::of(filter, &all), ..Counts::default() };
    for owner in all {
        let counted = counts_of(api, &owner, &choice).await;
        if let Some(count) = counts.unread.take(&owner, counted)? {
            add(&mut counts.sum, &count);
            counts.by_event_subscription.insert(owner.to_string(), count.events);
        }
    }
    counts.open_events = counts.sum.events.saturating_sub(counts.sum.redriven_events);
    Ok(counts)
}

impl Counts {
    fn text(&self) -> String {
        let Self { sum, open_events: open, by_event_subscription, .. } = self;
        let letters = output::count(sum.events, "dead letter");
        let redriven = sum.redriven_events;
        let mut text = format!("{letters}: {redriven} sent again by a redrive, {open} open");
        for counts in [by_event_subscription, &sum.by_reason, &sum.by_event_type] {
            let rows: Vec<_> =
                counts.iter().map(|(name, count)| [name.clone(), count.to_string()]).collect();
            if !rows.is_empty() {
                text.push_str(&format!("\n\n{}", output::columns(&rows)));
            }
        }
        text + &unreadable(sum.unreadable)
    }
}

/// Tells of objects and records that can't be read, if there are any.
fn unreadable(count: u64) -> String {
    match count {
        0 => String::new(),
        count => format!("\n\n{count} more objects or records can't be read"),
    }
}

fn describe(shown: &DeadLetterShown) -> String {
    let head = DeadLetterShown { event: None, ..shown.clone() };
    let event = shown.event.as_deref().unwrap_or_default();
    let event = output::indented(event).unwrap_or_else(|| event.to_owned());
    format!("{}\n\n{event}", output::pretty(&head)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use gridpost_ops::testkit::documents::dead_letter;
    use serde_json::{Value, json};

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
    fn a_time_is_checked_where_it_is_given() {
        let words = ["dead-letter", "list", "--from", "soon"];
        let refused = Line::try_parse_from(words).map(|_| ()).expect_err("no time").to_string();
        assert!(refused.contains("`soon` is not a date and time"), "{refused}");
    }

    #[test]
    fn lists_and_counts_read_well() {
        let of = |document: &Value| {
            let owner = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
            Owned { document: serde_json::from_value(document.clone()).expect("whole"), owner }
        };
        let read = dead_letter(&json!({"id": "2026-1-1-0-u-0", "eventId": "7",
            "deliveryAttempts": 3, "redriveCount": 1, "isRedriven": true, "deadLetterReason": "R"}));
        let unread = json!({"id": "i", "objectName": "o", "problem": "no JSON"});
        let letters = vec![of(&read), of(&unread)];
        let letters = Letters { letters, is_cut: false, unread: Unread::default() };
        let text = letters.text();
        let rows: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let written = "2026-01-01T00:00:00.000Z";
        assert_eq!(rows[0], ["2026-1-1-0-u-0", "t/s", written, "7", "T", "3", "1", "yes", "R"]);
        assert_eq!(rows[1], ["i", "t/s", "-", "-", "-", "-", "-", "-", "no", "JSON"]);
        let by_reason = BTreeMap::from([("R".to_owned(), 5)]);
        let sum = DeadLetterCount {
            events: 5,
            redriven_events: 3,
            by_reason,
            unreadable: 2,
            ..DeadLetterCount::default()
        };
        let counts = Counts { sum, open_events: 2, ..Counts::default() };
        let want = "5 dead letters: 3 sent again by a redrive, 2 open\n\nR  5\n\n2 more objects or \
                    records can't be read";
        assert_eq!(counts.text(), want);
        let document = json!(counts);
        assert_eq!((&document["redrivenEvents"], &document["failed"]), (&json!(3), &json!([])));
    }
}
