//! `gridpost dead-letter purge`: counts first, then deletes for good, and says what was done even where
//! not all of it could be.

use clap::{ArgGroup, Args};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::{Filter, of};
use crate::commands::Whose;
use crate::failure::{Misuse, chain};
use crate::manage_api::ManageApi;
use crate::manage_api::dead_letters::LetterChoice;
use crate::output::{Output, count};

/// What an answer counts.
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

/// What is to be deleted of an event subscription.
#[derive(Debug)]
struct Planned {
    whose: Whose,
    events: u64,
    open: u64,
    unreadable: u64,
}

/// Runs `gridpost dead-letter purge`.
///
/// # Errors
///
/// [`Misuse`] without consent; a refusal or a transport failure, behind what was done before it.
pub(super) async fn run(
    arguments: &PurgeArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let redriven = arguments.redriven.then_some(true);
    let choice = LetterChoice { redriven, ..arguments.filter.chosen.choice(now) };
    let choice = until_counted(choice, now);
    let planned = plan(arguments, api, &choice).await?;
    if arguments.dry_run {
        output.print(&plan_document(&planned), |_| plan_text(&planned));
        return Ok(());
    }
    if !arguments.yes {
        return Err(Misuse(consent(&planned)).into());
    }
    let mut purged = Purged::default();
    for Planned { whose: Whose { topic, subscription }, .. } in &planned {
        let key = format!("{topic}/{subscription}");
        let mut counts = [0; 3];
        let take = |answer: &Value| add(&mut counts, answer);
        let done = api.purge_dead_letters(topic, subscription, &choice, take).await;
        purged.note(key, counts, done);
    }
    output.tell(&purged.document(), |_| purged.text());
    match purged.failed.len() {
        0 => Ok(()),
        failed => anyhow::bail!(
            "{failed} of {} could not be purged whole",
            count(planned.len() as u64, "event subscription")
        ),
    }
}

/// S3 tells times in whole seconds, and clocks differ a little.
const SETTLED_MS: i64 = 2_000;

/// What is chosen ends where the count begins: what is written between the count and the deletion was
/// not counted, and stays.
pub(crate) fn until_counted(choice: LetterChoice, now: Timestamp) -> LetterChoice {
    let counted = Timestamp::from_millis(now.as_millis() - SETTLED_MS);
    let asked = choice.to.as_deref().map(Timestamp::parse_rfc_3339);
    match asked {
        // One that is no time is the server's to refuse.
        Some(None) => choice,
        Some(Some(asked)) if asked <= counted => choice,
        Some(Some(_)) | None => LetterChoice { to: Some(counted.to_iso_8601()), ..choice },
    }
}

fn add(counts: &mut [u64; 3], answer: &Value) {
    for (sum, member) in counts.iter_mut().zip(MEMBERS) {
        *sum += answer[member].as_u64().unwrap_or(0);
    }
}

/// Counts what is chosen, by event subscription; those that have nothing of it are left out.
async fn plan(
    arguments: &PurgeArguments,
    api: &ManageApi,
    choice: &LetterChoice,
) -> anyhow::Result<Vec<Planned>> {
    let mut planned = Vec::new();
    for whose in of(api, &arguments.filter).await? {
        let [mut events, mut redriven, mut unreadable] = [0; 3];
        let take = |answer: &Value| {
            events += answer["events"].as_u64().unwrap_or(0);
            redriven += answer["redrivenEvents"].as_u64().unwrap_or(0);
            unreadable += answer["unreadable"].as_u64().unwrap_or(0);
        };
        api.count_dead_letters(&whose.topic, &whose.subscription, choice, take).await?;
        // What can't be read is deleted where nothing chooses by what it says.
        let unreadable = if choice.chooses_by_content() { 0 } else { unreadable };
        if events + unreadable > 0 {
            let open = events.saturating_sub(redriven);
            planned.push(Planned { whose, events, open, unreadable });
        }
    }
    Ok(planned)
}

fn plan_document(planned: &[Planned]) -> Value {
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
    })
}

fn plan_text(planned: &[Planned]) -> String {
    if planned.is_empty() {
        return "There is no such dead letter.".to_owned();
    }
    let line = |one: &Planned| {
        let Planned { whose: Whose { topic, subscription }, events, open, unreadable } = one;
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

fn consent(planned: &[Planned]) -> String {
    let events = planned.iter().map(|one| one.events).sum();
    let open: u64 = planned.iter().map(|one| one.open).sum();
    let mut letters = count(events, "dead letter");
    let unreadable: u64 = planned.iter().map(|one| one.unreadable).sum();
    if unreadable > 0 {
        letters.push_str(&format!(" and {} that can't be read", count(unreadable, "object")));
    }
    format!(
        "This permanently deletes {letters} of {}, {open} of them never sent again. Repeat with --yes. \
         (--dry-run lists them by event subscription, --redriven deletes only what was sent again.)",
        count(planned.len() as u64, "event subscription")
    )
}

/// What was done.
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
    use super::*;

    fn planned() -> Vec<Planned> {
        let whose = Whose { topic: "t".to_owned(), subscription: "s".to_owned() };
        vec![Planned { whose, events: 3, open: 2, unreadable: 1 }]
    }

    #[test]
    fn nothing_is_deleted_without_scope_count_and_consent() {
        use clap::Parser;

        #[derive(Parser, Debug)]
        struct Line {
            #[command(flatten)]
            arguments: PurgeArguments,
        }
        let parsed = |line: &str| {
            Line::try_parse_from(std::iter::once("purge").chain(line.split_whitespace()))
        };
        for line in ["--all --yes", "--topic t --yes", "--all --dry-run", "--topic t --redriven"] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in ["--yes", "", "--all --topic t --yes", "--topic t --yes --dry-run"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(consent(&planned()).starts_with(
            "This permanently deletes 3 dead letters and 1 object that can't be read of 1 event subscription, \
             2 of them never sent again. Repeat with --yes."
        ));
        let text = plan_text(&planned());
        assert!(
            text.contains("t/s: 3 dead letters, 2 never sent again, 1 more object that"),
            "{text}"
        );
        assert_eq!(plan_document(&planned())["openEvents"], 2);
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
        purged.note("t/b".to_owned(), [1, 1, 0], Err(anyhow::anyhow!("a redrive is running")));
        let text = purged.text();
        assert!(text.starts_with("5 dead letters in 3 objects deleted\n1 stay"), "{text}");
        assert!(text.ends_with("t/b: not purged whole: a redrive is running"), "{text}");
        let document = purged.document();
        assert_eq!((&document["purgedEvents"], &document["leftEvents"]), (&json!(5), &json!(1)));
        assert_eq!(document["byEventSubscription"]["t/a"]["purgedObjects"], 2);
        assert_eq!(document["failed"][0]["whose"], "t/b");
    }
}
