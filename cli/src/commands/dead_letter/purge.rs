//! `gridpost dead-letter purge`: counts first, then deletes for good, and says what was done even where
//! not all of it could be.

use clap::{ArgGroup, Args};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::unread::Unread;
use super::{Filter, counts_of, of};
use crate::{
    commands::SubscriptionArgs,
    output::{self, Output, count},
};
use gridpost_ops::{
    failure::{Misuse, chain},
    manage_api::{
        ManageApi,
        dead_letters::{LetterChoice, until_counted},
    },
};

const MEMBERS: [&str; 3] = ["purgedEvents", "purgedObjects", "leftEvents"];

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

#[derive(Debug)]
struct Planned {
    whose: SubscriptionArgs,
    events: u64,
    open: u64,
    unreadable: u64,
}

/// Fails with [`Misuse`] without consent. What was done before a failure stays done. Nothing is deleted
/// of event subscriptions that could not be read.
pub(super) async fn run(
    arguments: &PurgeArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let redriven = arguments.redriven.then_some(true);
    let choice = LetterChoice { redriven, ..arguments.filter.chosen.choice(now) };
    let choice = until_counted(choice, now);
    let (planned, unread) = plan(arguments, api, &choice).await?;
    if arguments.dry_run {
        output.tell(&plan_document(&planned, &unread), |_| plan_text(&planned, &unread));
        return unread.ended();
    }
    if !arguments.yes {
        return Err(Misuse(consent(&planned, &unread)).into());
    }
    if let Some(told) = left_out(&unread) {
        output::note(&format!("! {told}"));
    }
    let all = planned.len() + unread.failed.len();
    let purged = delete(api, &planned, unread, &choice).await;
    output.tell(&purged.document(), |_| purged.text());
    purged.ended(all)
}

/// Deletes what was counted of each; what could not be counted stays.
async fn delete(
    api: &ManageApi,
    planned: &[Planned],
    unread: Unread,
    choice: &LetterChoice,
) -> Purged {
    let uncounted = |(key, error): (String, String)| {
        (key, format!("it could not be read, so nothing of it is deleted: {error}"))
    };
    let failed = unread.failed.into_iter().map(uncounted).collect();
    let mut purged = Purged { failed, ..Purged::default() };
    for Planned { whose: SubscriptionArgs { topic, subscription }, .. } in planned {
        let key = format!("{topic}/{subscription}");
        let mut counts = [0; 3];
        let take = |answer: &Value| add(&mut counts, answer);
        let done = api.purge_dead_letters(topic, subscription, choice, take).await;
        purged.note(key, counts, done);
    }
    purged
}

fn add(counts: &mut [u64; 3], answer: &Value) {
    for (sum, member) in counts.iter_mut().zip(MEMBERS) {
        *sum += answer[member].as_u64().unwrap_or(0);
    }
}

/// Counts what is chosen, by event subscription; those that have nothing of it are left out, and so are
/// those that could not be counted whole.
async fn plan(
    arguments: &PurgeArguments,
    api: &ManageApi,
    choice: &LetterChoice,
) -> anyhow::Result<(Vec<Planned>, Unread)> {
    let all = of(api, &arguments.filter).await?;
    let (mut planned, mut unread) = (Vec::new(), Unread::of(&arguments.filter, &all));
    for whose in all {
        let counted = counts_of(api, &whose, choice).await;
        let answers = unread.take(&whose, counted)?.unwrap_or_default();
        let sum = |member: &str| -> u64 {
            answers.iter().filter_map(|answer| answer[member].as_u64()).sum()
        };
        let events = sum("events");
        // What can't be read is deleted where nothing chooses by what it says.
        let unreadable = if choice.chooses_by_content() { 0 } else { sum("unreadable") };
        if events + unreadable > 0 {
            let open = events.saturating_sub(sum("redrivenEvents"));
            planned.push(Planned { whose, events, open, unreadable });
        }
    }
    Ok((planned, unread))
}

fn plan_document(planned: &[Planned], unread: &Unread) -> Value {
    let one = |one: &Planned| {
        json!({
            "topic": one.whose.topic, "eventSubscription": one.whose.subscription,
            "events": one.events, "openEvents": one.open, "unreadable": one.unreadable,
        })
    };
    let sum = |part: fn(&Planned) -> u64| planned.iter().map(part).sum::<u64>();
    json!({
        "dryRun": true,
        "events": sum(|one| one.events),
        "openEvents": sum(|one| one.open),
        "unreadable": sum(|one| one.unreadable),
        "byEventSubscription": planned.iter().map(one).collect::<Value>(),
        "failed": unread.document(),
    })
}

fn plan_text(planned: &[Planned], unread: &Unread) -> String {
    if planned.is_empty() {
        return unread.nothing_found().to_owned();
    }
    let line = |one: &Planned| {
        let Planned { whose: SubscriptionArgs { topic, subscription }, events, open, unreadable } =
            one;
        let letters = count(*events, "dead letter");
        let mut line = format!("  {topic}/{subscription}: {letters}, {open} never sent again");
        if *unreadable > 0 {
            line.push_str(&format!(", {} that can't be read", count(*unreadable, "more object")));
        }
        line
    };
    let events = planned.iter().map(|one| one.events).sum();
    let lines: Vec<_> = planned.iter().map(line).collect();
    format!("{} would be deleted:\n{}", count(events, "dead letter"), lines.join("\n"))
}

/// What a purge leaves out because it could not be counted.
fn left_out(unread: &Unread) -> Option<String> {
    Some(format!("{}\nNothing of what could not be read is deleted.", unread.told()?))
}

/// What is lost; first of all, what is not in these numbers.
fn consent(planned: &[Planned], unread: &Unread) -> String {
    let events = planned.iter().map(|one| one.events).sum();
    let open: u64 = planned.iter().map(|one| one.open).sum();
    let mut letters = count(events, "dead letter");
    let unreadable: u64 = planned.iter().map(|one| one.unreadable).sum();
    if unreadable > 0 {
        letters.push_str(&format!(" and {} that can't be read", count(unreadable, "object")));
    }
    let left_out = left_out(unread).map(|told| format!("{told}\n")).unwrap_or_default();
    format!(
        "{left_out}This permanently deletes {letters} of {}, {open} of them never sent again. Repeat with --yes. \
         (--dry-run lists them by event subscription, --redriven deletes only what was sent again.)",
        count(planned.len() as u64, "event subscription")
    )
}

#[derive(Debug, Default)]
struct Purged {
    counts: [u64; 3],
    by_subscription: Vec<(String, [u64; 3])>,
    failed: Vec<(String, String)>,
}

impl Purged {
    fn note(&mut self, key: String, counts: [u64; 3], done: anyhow::Result<()>) {
        for (sum, one) in self.counts.iter_mut().zip(counts) {
            *sum += one;
        }
        if let Err(error) = done {
            self.failed.push((key.clone(), chain(&error)));
        }
        self.by_subscription.push((key, counts));
    }

    /// Fails the command where something stays, of so many event subscriptions.
    fn ended(&self, all: usize) -> anyhow::Result<()> {
        let names: Vec<_> = self.failed.iter().map(|(key, _)| key.as_str()).collect();
        anyhow::ensure!(
            names.is_empty(),
            "{} of {} could not be purged whole: {}",
            names.len(),
            count(all as u64, "event subscription"),
            names.join(", ")
        );
        Ok(())
    }

    fn document(&self) -> Value {
        let members = |counts: &[u64; 3]| -> Value {
            MEMBERS
                .into_iter()
                .zip(counts)
                .map(|(name, sum)| (name.to_owned(), json!(sum)))
                .collect()
        };
        let mut document = members(&self.counts);
        let by = self.by_subscription.iter().map(|(key, counts)| (key.clone(), members(counts)));
        document["byEventSubscription"] = by.collect();
        let failed = |(key, error): &(String, String)| json!({"whose": key, "error": error});
        document["failed"] = self.failed.iter().map(failed).collect();
        document
    }

    fn text(&self) -> String {
        let [events, objects, left] = self.counts;
        let (letters, in_objects) = (count(events, "dead letter"), count(objects, "object"));
        let mut text = format!("{letters} in {in_objects} deleted");
        if left > 0 {
            text.push_str(&format!(
                "\n{left} stay: their objects hold dead letters too that were not chosen"
            ));
        }
        for (key, error) in &self.failed {
            text.push_str(&format!("\n{key}: not purged whole: {error}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use gridpost_ops::testkit::FakeApi;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        arguments: PurgeArguments,
    }

    fn planned() -> Vec<Planned> {
        let whose = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        vec![Planned { whose, events: 3, open: 2, unreadable: 1 }]
    }

    #[test]
    fn nothing_is_deleted_without_scope_count_and_consent() {
        let unread = Unread::default();
        let parsed = |line: &str| {
            Line::try_parse_from(std::iter::once("purge").chain(line.split_whitespace()))
        };
        for line in ["--all --yes", "--topic t --yes", "--all --dry-run", "--topic t --redriven"] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in ["--yes", "", "--all --topic t --yes", "--topic t --yes --dry-run"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(consent(&planned(), &unread).starts_with(
            "This permanently deletes 3 dead letters and 1 object that can't be read of 1 event subscription, \
             2 of them never sent again. Repeat with --yes."
        ));
        let text = plan_text(&planned(), &unread);
        assert!(
            text.contains("t/s: 3 dead letters, 2 never sent again, 1 more object that"),
            "{text}"
        );
        assert_eq!(plan_document(&planned(), &unread)["openEvents"], 2);
    }

    /// Of `t/a` nothing can be read, and nothing is deleted: the fake has no answer for that.
    #[tokio::test]
    async fn what_can_not_be_counted_is_told_before_the_consent_and_stays() {
        let one = |name: &str| json!({"name": name, "properties": {"deadLetterDestination": {}}});
        let of = |name: &str| format!("/topics/t/eventSubscriptions/{name}/deadLetters");
        let [count_a, count_b] = ["a", "b"].map(|name| format!("GET {}:count", of(name)));
        let purge_b = format!("POST {}:purge", of("b"));
        let refused = json!({"error": {"code": "Conflict", "message": "no bucket"}});
        let fake = FakeApi::answering(&[
            (count_a.as_str(), 409, refused),
            (count_b.as_str(), 200, json!({"events": 3, "redrivenEvents": 1})),
            (purge_b.as_str(), 200, json!({"purgedEvents": 3, "purgedObjects": 1})),
            ("GET /topics/t/eventSubscriptions ", 200, json!({"value": [one("a"), one("b")]})),
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
        let now = Timestamp::parse_rfc_3339("2026-01-01T00:00:12Z").expect("a time");
        let table = [
            (None, "2026-01-01T00:00:10.000Z"),
            (Some("2026-01-02T00:00:00Z"), "2026-01-01T00:00:10.000Z"),
            (Some("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z"),
            (Some("soon"), "soon"),
        ];
        for (to, want) in table {
            let reason = Some("R".to_owned());
            let choice =
                LetterChoice { to: to.map(str::to_owned), reason, ..LetterChoice::default() };
            let choice = until_counted(choice, now);
            assert_eq!((choice.to.as_deref(), choice.reason.as_deref()), (Some(want), Some("R")));
        }
    }

    #[test]
    fn what_was_deleted_before_a_failure_is_told() {
        let mut purged = Purged::default();
        purged.note("t/a".to_owned(), [4, 2, 1], Ok(()));
        assert!(purged.ended(2).is_ok());
        purged.note("t/b".to_owned(), [1, 1, 0], Err(anyhow::anyhow!("a redrive is running")));
        assert!(purged.ended(2).is_err());
        let text = purged.text();
        assert!(text.starts_with("5 dead letters in 3 objects deleted\n1 stay"), "{text}");
        assert!(text.ends_with("t/b: not purged whole: a redrive is running"), "{text}");
        let document = purged.document();
        assert_eq!((&document["purgedEvents"], &document["leftEvents"]), (&json!(5), &json!(1)));
        assert_eq!(document["byEventSubscription"]["t/a"]["purgedObjects"], 2);
        assert_eq!(document["failed"][0]["whose"], "t/b");
    }
}
