//! `gridpost dead-letter purge`: counts first, then deletes for good, and says what was done even where
//! not all of it could be.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use gridpost_api::{dead_letter::DeadLettersPurged, requests::PurgeDeadLettersInput};
use gridpost_core::time::Timestamp;
use serde::Serialize;

use super::{Failed, Filter, Unread, counts_of, of};
use crate::{
    commands::SubscriptionArgs,
    output::{self, Output, count},
};
use gridpost_ops::{
    failure::{Misuse, chain},
    manage_api::{ManageApi, dead_letters::end_of_count},
};

/// Which dead letters, and the consent.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("of").required(true).args(["topic", "all"])))]
pub struct PurgeArguments {
    #[command(flatten)]
    filter: Filter,

    /// Dead letters of all topics
    #[arg(long)]
    all: bool,

    /// Only dead letters that were redriven
    #[arg(long)]
    redriven: bool,

    /// Count what would be deleted, without deleting it
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Confirm that these dead letters will be lost
    #[arg(long)]
    yes: bool,
}

/// Fails with [`Misuse`] without consent. What was done before a failure stays done. Nothing is deleted
/// of event subscriptions that could not be read.
pub(super) async fn run(
    arguments: &PurgeArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let choice = arguments.choice(now);
    let plan = Plan::read(arguments, api, &choice).await?;
    if arguments.dry_run {
        output.tell(&plan, Plan::text);
        return plan.unread.check();
    }
    if !arguments.yes {
        return Err(Misuse(plan.consent()).into());
    }
    if let Some(told) = plan.left_out() {
        output::note(&format!("! {told}"));
    }
    let all = plan.by_event_subscription.len() + plan.unread.failed.len();
    let purged = plan.delete(api, &choice).await;
    output.tell(&purged, Purged::text);
    purged.check(all)
}

impl PurgeArguments {
    /// Returns the choice. It ends where the count begins: what is written between the count and the
    /// deletion was not counted, and stays.
    fn choice(&self, now: Timestamp) -> PurgeDeadLettersInput {
        let choice = self.filter.chosen.choice(now, self.redriven.then_some(true));
        let to = Some(end_of_count(choice.to, now));
        PurgeDeadLettersInput { to, ..choice }
    }
}

/// The number of dead letters of an event subscription that a purge would delete.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    #[serde(flatten)]
    owner: SubscriptionArgs,
    events: u64,
    open_events: u64,
    unreadable: u64,
}

/// The dead letters that a purge would delete.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    dry_run: bool,
    events: u64,
    open_events: u64,
    unreadable: u64,
    by_event_subscription: Vec<Planned>,
    #[serde(flatten)]
    unread: Unread,
}

impl Plan {
    /// Counts what is chosen, by event subscription; those that have nothing of it are left out, and so are
    /// those that could not be counted whole.
    async fn read(
        arguments: &PurgeArguments,
        api: &ManageApi,
        choice: &PurgeDeadLettersInput,
    ) -> anyhow::Result<Self> {
        let all = of(api, &arguments.filter).await?;
        let unread = Unread::of(&arguments.filter, &all);
        let mut plan = Self { dry_run: true, unread, ..Self::default() };
        // What can't be read is deleted where nothing chooses by what it says.
        let has_unreadable = choice.redriven.is_none() && choice.filter().has_unreadable();
        for owner in all {
            let counted = counts_of(api, &owner, choice).await;
            let counts = plan.unread.take(&owner, counted)?.unwrap_or_default();
            let (events, open_events) =
                (counts.events, counts.events.saturating_sub(counts.redriven_events));
            let unreadable = if has_unreadable { counts.unreadable } else { 0 };
            plan.add(Planned { owner, events, open_events, unreadable });
        }
        Ok(plan)
    }

    fn add(&mut self, planned: Planned) {
        let Planned { events, open_events, unreadable, .. } = planned;
        if events + unreadable > 0 {
            self.events += events;
            self.open_events += open_events;
            self.unreadable += unreadable;
            self.by_event_subscription.push(planned);
        }
    }

    fn text(&self) -> String {
        if self.by_event_subscription.is_empty() {
            return self.unread.nothing_found();
        }
        let line = |Planned { owner, events, open_events, unreadable }: &Planned| {
            let letters = count(*events, "dead letter");
            let mut line = format!("  {owner}: {letters}, {open_events} never sent again");
            if *unreadable > 0 {
                let objects = count(*unreadable, "more object");
                line.push_str(&format!(", {objects} that can't be read"));
            }
            line
        };
        let lines: Vec<_> = self.by_event_subscription.iter().map(line).collect();
        format!("{} would be deleted:\n{}", count(self.events, "dead letter"), lines.join("\n"))
    }

    /// Says what a purge leaves out because it could not be counted.
    fn left_out(&self) -> Option<String> {
        Some(format!("{}\nNothing of what could not be read is deleted.", self.unread.told()?))
    }

    /// Says what is lost; first of all, what is not in these numbers.
    fn consent(&self) -> String {
        let Self { events, open_events: open, unreadable, by_event_subscription, .. } = self;
        let mut letters = count(*events, "dead letter");
        if *unreadable > 0 {
            letters.push_str(&format!(" and {} that can't be read", count(*unreadable, "object")));
        }
        let left_out = self.left_out().map(|told| format!("{told}\n")).unwrap_or_default();
        format!(
            "{left_out}This permanently deletes {letters} of {}, {open} of them never sent again. Repeat with --yes. \
             (--dry-run lists them by event subscription, --redriven deletes only what was sent again.)",
            count(by_event_subscription.len() as u64, "event subscription")
        )
    }

    /// Deletes what was counted of each event subscription; what could not be counted stays.
    async fn delete(self, api: &ManageApi, choice: &PurgeDeadLettersInput) -> Purged {
        let uncounted = |Failed { whose, error }| {
            let error = format!("it could not be read, so nothing of it is deleted: {error}");
            Failed { whose, error }
        };
        let failed = self.unread.failed.into_iter().map(uncounted).collect();
        let mut purged = Purged { failed, ..Purged::default() };
        for Planned { owner, .. } in self.by_event_subscription {
            let SubscriptionArgs { topic, subscription } = &owner;
            let mut sum = DeadLettersPurged::default();
            let take = |answer: &DeadLettersPurged| add(&mut sum, answer);
            let done = api.purge_dead_letters(topic, subscription, choice, take).await;
            purged.note(owner.to_string(), sum, done.map(|_| ()));
        }
        purged
    }
}

fn add(sum: &mut DeadLettersPurged, purged: &DeadLettersPurged) {
    sum.purged_events += purged.purged_events;
    sum.purged_objects += purged.purged_objects;
    sum.left_events += purged.left_events;
}

/// The result of a purge.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Purged {
    #[serde(flatten)]
    sum: DeadLettersPurged,
    by_event_subscription: BTreeMap<String, DeadLettersPurged>,
    failed: Vec<Failed>,
}

impl Purged {
    fn note(&mut self, whose: String, purged: DeadLettersPurged, done: anyhow::Result<()>) {
        add(&mut self.sum, &purged);
        if let Err(error) = done {
            self.failed.push(Failed { whose: whose.clone(), error: chain(&error) });
        }
        self.by_event_subscription.insert(whose, purged);
    }

    /// Fails the command where something stays, of so many event subscriptions.
    fn check(&self, all: usize) -> anyhow::Result<()> {
        let names: Vec<_> = self.failed.iter().map(|failed| failed.whose.as_str()).collect();
        anyhow::ensure!(
            names.is_empty(),
            "{} of {} could not be purged whole: {}",
            names.len(),
            count(all as u64, "event subscription"),
            names.join(", ")
        );
        Ok(())
    }

    fn text(&self) -> String {
        let DeadLettersPurged { purged_events, purged_objects, left_events: left, .. } = self.sum;
        let letters = count(purged_events, "dead letter");
        let mut text = format!("{letters} in {} deleted", count(purged_objects, "object"));
        if left > 0 {
            text.push_str(&format!(
                "\n{left} stay: their objects hold dead letters too that were not chosen"
            ));
        }
        for Failed { whose, error } in &self.failed {
            text.push_str(&format!("\n{whose}: not purged whole: {error}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use gridpost_api::schema::Time;
    use gridpost_ops::testkit::{
        FakeApi,
        documents::{list, subscription},
    };
    use serde_json::json;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        arguments: PurgeArguments,
    }

    fn plan() -> Plan {
        let owner = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        let mut plan = Plan { dry_run: true, ..Plan::default() };
        plan.add(Planned { owner, events: 3, open_events: 2, unreadable: 1 });
        plan
    }

    #[test]
    fn nothing_is_deleted_without_scope_count_and_consent() {
        let parsed = |line: &str| {
            Line::try_parse_from(std::iter::once("purge").chain(line.split_whitespace()))
        };
        for line in ["--all --yes", "--topic t --yes", "--all --dry-run", "--topic t --redriven"] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in ["--yes", "", "--all --topic t --yes", "--topic t --yes --dry-run"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(plan().consent().starts_with(
            "This permanently deletes 3 dead letters and 1 object that can't be read of 1 event subscription, \
             2 of them never sent again. Repeat with --yes."
        ));
        let text = plan().text();
        assert!(
            text.contains("t/s: 3 dead letters, 2 never sent again, 1 more object that"),
            "{text}"
        );
        assert_eq!(json!(plan())["openEvents"], 2);
    }

    /// Of `t/a` nothing can be read, and nothing is deleted: the fake has no answer for that.
    #[tokio::test]
    async fn what_can_not_be_counted_is_told_before_the_consent_and_stays() {
        let one = |name: &str| {
            let bucket = json!({"endpointType": "S3Bucket", "properties": {"bucketName": "b"}});
            subscription(name, &json!({"properties": {"deadLetterDestination": bucket}}))
        };
        let counted = json!({"events": 3, "redrivenEvents": 1, "byReason": {}, "byEventType": {},
            "unreadable": 0});
        let purged = json!({"purgedEvents": 3, "purgedObjects": 1, "leftEvents": 0});
        let of = |name: &str| format!("/topics/t/eventSubscriptions/{name}/deadLetters");
        let [count_a, count_b] = ["a", "b"].map(|name| format!("GET {}:count", of(name)));
        let purge_b = format!("POST {}:purge", of("b"));
        let refused = json!({"error": {"code": "Conflict", "message": "no bucket"}});
        let fake = FakeApi::answering(&[
            (count_a.as_str(), 409, refused),
            (count_b.as_str(), 200, counted),
            (purge_b.as_str(), 200, purged),
            ("GET /topics/t/eventSubscriptions ", 200, list(&[one("a"), one("b")])),
        ])
        .await;
        let api = ManageApi::connect(&fake.url()).await.expect("built");
        let now = Timestamp::parse_rfc_3339("2026-01-01T00:00:12Z").expect("a time");
        let purge = async |flags: &[&str]| {
            let words = ["purge", "--topic", "t"].into_iter().chain(flags.iter().copied());
            let Line { arguments } = Line::parse_from(words);
            run(&arguments, &api, now, Output::new(true)).await.expect_err("not all")
        };
        let told = purge(&["--dry-run"]).await.to_string();
        assert!(told.contains("1 of 2") && told.contains("t/a: Conflict"), "{told}");
        let asked = purge(&[]).await;
        let told = asked.to_string();
        let (left_out, lost) = told.split_once("This permanently").expect("both");
        assert!(asked.is::<Misuse>() && left_out.contains("t/a: Conflict"), "{told}");
        assert!(lost.contains("3 dead letters of 1 event subscription,"), "{told}");
        let told = purge(&["--yes"]).await.to_string();
        assert_eq!(told, "1 of 2 event subscriptions could not be purged whole: t/a");
    }

    #[test]
    fn what_is_written_after_the_count_stays() {
        let time = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
        let now = time("2026-01-01T00:00:12Z");
        let table = [
            ("", "2026-01-01T00:00:10Z"),
            ("--to 2026-01-02T00:00:00Z", "2026-01-01T00:00:10Z"),
            ("--to 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ];
        for (to, want) in table {
            let line = format!("purge --all --reason TimeToLiveExceeded {to}");
            let choice = Line::parse_from(line.split_whitespace()).arguments.choice(now);
            assert_eq!(choice.to, Some(Time(time(want))), "{to}");
            assert_eq!(choice.reason.as_deref(), Some("TimeToLiveExceeded"));
        }
    }

    #[test]
    fn what_was_deleted_before_a_failure_is_told() {
        let sum = |purged_events, purged_objects, left_events| DeadLettersPurged {
            purged_events,
            purged_objects,
            left_events,
            next_link: None,
        };
        let mut purged = Purged::default();
        purged.note("t/a".to_owned(), sum(4, 2, 1), Ok(()));
        assert!(purged.check(2).is_ok());
        purged.note("t/b".to_owned(), sum(1, 1, 0), Err(anyhow::anyhow!("a redrive is running")));
        assert!(purged.check(2).is_err());
        let text = purged.text();
        assert!(text.starts_with("5 dead letters in 3 objects deleted\n1 stay"), "{text}");
        assert!(text.ends_with("t/b: not purged whole: a redrive is running"), "{text}");
        let document = json!(purged);
        assert_eq!((&document["purgedEvents"], &document["leftEvents"]), (&json!(5), &json!(1)));
        assert_eq!(document["byEventSubscription"]["t/a"]["purgedObjects"], 2);
        assert_eq!(document["failed"][0]["whose"], "t/b");
    }
}
