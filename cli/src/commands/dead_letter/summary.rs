//! `gridpost dead-letter summary`: groups dead letters that ended for one cause.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use clap::Args;
use gridpost_api::{
    dead_letter::{DeadLetterContent, DeadLetterRecord},
    schema::Time,
};
use gridpost_core::time::Timestamp;
use serde::Serialize;

use super::{Filter, Letters, Sent, Unread, found, unreadable};
use crate::output::{self, Output, or_dash};
use gridpost_ops::{given::count_in, manage_api::ManageApi};

/// The dead letters to group.
#[derive(Args, Debug)]
pub struct SummaryArguments {
    #[command(flatten)]
    pub(super) filter: Filter,

    #[command(flatten)]
    sent: Sent,

    /// Maximum number to read
    #[arg(long, visible_alias = "top", value_name = "COUNT", default_value = "10000",
        value_parser = count_in::<usize>(..))]
    limit: usize,
}

/// The cause that dead letters of one group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cause {
    dead_letter_reason: String,
    last_delivery_outcome: Option<String>,
    last_http_status_code: Option<u16>,
    event_type: String,
}

/// Dead letters with one cause.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    events: u64,
    #[serde(flatten)]
    cause: Cause,
    event_subscriptions: BTreeSet<String>,
    first_written_time: Time,
    last_written_time: Time,
    /// The id of one of them.
    example: String,
    /// The topic and event subscription of the example.
    example_of: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    events: u64,
    unreadable: u64,
    is_complete: bool,
    #[serde(skip)]
    is_cut: bool,
    groups: Vec<Group>,
    #[serde(flatten)]
    unread: Unread,
}

/// Prints the causes of the dead letters that the arguments choose.
pub(super) async fn run(
    arguments: &SummaryArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let SummaryArguments { filter, sent, limit } = arguments;
    let summary = Summary::of(found(api, filter, *sent, now, *limit).await?);
    output.tell(&summary, Summary::text);
    summary.unread.check()
}

impl Summary {
    fn of(found: Letters) -> Self {
        let is_complete = found.is_complete();
        let Letters { letters, is_cut, unread } = found;
        let (mut groups, mut events) = (BTreeMap::<Cause, Group>::new(), 0);
        for letter in &letters {
            if let DeadLetterContent::Record(record) = &letter.document.content {
                events += 1;
                let (owner, id) = (letter.owner.to_string(), &letter.document.id);
                groups
                    .entry(Cause::of(record))
                    .or_insert_with_key(|cause| Group::new(cause, id, &owner, record.written_time))
                    .add(owner, record.written_time);
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| Reverse(group.events));
        let unreadable = letters.len() as u64 - events;
        Self { events, unreadable, is_complete, is_cut, groups, unread }
    }

    fn text(&self) -> String {
        let events = output::count(self.events, "dead letter");
        let mut text = match self.is_cut {
            false => events,
            true => format!("of the first {events} (--limit looks at more)"),
        };
        if !self.groups.is_empty() {
            let head = ["EVENTS", "REASON", "LAST OUTCOME", "TYPE", "WHOSE", "LAST", "EXAMPLE"];
            let table = output::table(head, self.groups.iter().map(Group::row));
            text.push_str(&format!("\n\n{table}"));
        }
        text + &unreadable(self.unreadable)
    }
}

impl Cause {
    fn of(record: &DeadLetterRecord) -> Self {
        Self {
            dead_letter_reason: record.dead_letter_reason.clone(),
            last_delivery_outcome: record.last_delivery_outcome.clone(),
            last_http_status_code: record.last_http_status_code,
            event_type: record.event_type.clone(),
        }
    }
}

impl Group {
    /// Makes a group without dead letters, with the first one as its example.
    fn new(cause: &Cause, id: &str, owner: &str, written: Time) -> Self {
        Self {
            events: 0,
            cause: cause.clone(),
            event_subscriptions: BTreeSet::new(),
            first_written_time: written,
            last_written_time: written,
            example: id.to_owned(),
            example_of: owner.to_owned(),
        }
    }

    fn add(&mut self, owner: String, written: Time) {
        self.events += 1;
        self.event_subscriptions.insert(owner);
        self.first_written_time = self.first_written_time.min(written);
        self.last_written_time = self.last_written_time.max(written);
    }

    fn row(&self) -> [String; 7] {
        let Cause { dead_letter_reason, last_delivery_outcome, last_http_status_code, event_type } =
            &self.cause;
        let outcome = or_dash(last_delivery_outcome.as_ref());
        let outcome = match last_http_status_code {
            Some(status) => format!("{outcome} ({status})"),
            None => outcome,
        };
        let first = &self.example_of;
        let whose = match self.event_subscriptions.len() {
            0 | 1 => first.clone(),
            count => format!("{first} and {} more", count - 1),
        };
        [
            self.events.to_string(),
            dead_letter_reason.clone(),
            outcome,
            event_type.clone(),
            whose,
            self.last_written_time.to_string(),
            self.example.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents::dead_letter;
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::{Owned, SubscriptionArgs};

    fn owned(name: &str, document: Value) -> Owned<gridpost_api::dead_letter::DeadLetter> {
        let owner = SubscriptionArgs { topic: "t".to_owned(), subscription: name.to_owned() };
        Owned { document: serde_json::from_value(document).expect("whole"), owner }
    }

    fn letter(
        id: &str,
        name: &str,
        status: Option<u16>,
        day: u32,
    ) -> Owned<gridpost_api::dead_letter::DeadLetter> {
        let change = json!({"id": id, "writtenTime": format!("2026-01-0{day}T00:00:00Z"),
            "deadLetterReason": "R", "lastDeliveryOutcome": "BadRequest",
            "lastHttpStatusCode": status});
        owned(name, dead_letter(&change))
    }

    #[test]
    fn what_ended_alike_is_one_line() {
        let letters = || {
            vec![
                letter("l-1", "b", Some(400), 1),
                letter("l-2", "b", Some(400), 2),
                letter("l-3", "b", Some(400), 3),
                letter("l-4", "a", Some(400), 4),
                letter("l-5", "a", None, 5),
                owned("a", json!({"id": "l-6", "objectName": "o", "problem": "no JSON"})),
            ]
        };
        let of =
            |letters, is_cut| Summary::of(Letters { letters, is_cut, unread: Unread::default() });
        let all = of(letters(), false);
        let summary = json!(all);
        assert_eq!((&summary["events"], &summary["unreadable"]), (&json!(5), &json!(1)));
        let first = json!({"events": 4, "deadLetterReason": "R", "lastDeliveryOutcome": "BadRequest",
            "lastHttpStatusCode": 400, "eventType": "T", "eventSubscriptions": ["t/a", "t/b"],
            "firstWrittenTime": "2026-01-01T00:00:00.000Z",
            "lastWrittenTime": "2026-01-04T00:00:00.000Z", "example": "l-1", "exampleOf": "t/b"});
        assert_eq!(summary["groups"][0], first);
        assert_eq!(summary["groups"][1]["events"], 1);
        assert_eq!(summary["groups"][1]["lastHttpStatusCode"], Value::Null);
        assert_eq!((&summary["isComplete"], &summary["failed"]), (&json!(true), &json!([])));
        let told = all.text();
        for part in ["5 dead letters", "BadRequest (400)", "t/b and 1 more", "1 more objects"] {
            assert!(told.contains(part), "{part} is not in\n{told}");
        }
        let cut = of(letters(), true);
        assert!(!cut.is_complete && cut.text().starts_with("of the first 5 dead letters"));
        assert_eq!(of(Vec::new(), false).text(), "0 dead letters");
    }
}
