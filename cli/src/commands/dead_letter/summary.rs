//! `gridpost dead-letter summary`: what dead letters have in common. Many that ended for one cause are one
//! line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::unread::Unread;
use super::{Filter, Sent, found};
use crate::output::{self, Output, text_at};
use gridpost_ops::{given::count_in, manage_api::ManageApi};

/// Which ones.
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

/// What makes dead letters one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    reason: String,
    outcome: Option<String>,
    status: Option<u64>,
    event_type: String,
}

#[derive(Clone, Debug, Default)]
struct Group {
    events: u64,
    whose: BTreeSet<String>,
    written: Option<(String, String)>,
    example: String,
    /// The topic and event subscription of that one.
    owner: String,
}

/// Prints what those that the arguments choose have in common.
pub(super) async fn run(
    arguments: &SummaryArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let SummaryArguments { filter, sent, limit } = arguments;
    // One more says whether there are more.
    let (mut letters, unread) = found(api, filter, *sent, now, limit.saturating_add(1)).await?;
    let is_cut = letters.len() > *limit;
    letters.truncate(*limit);
    output.tell(&document(&letters, is_cut, &unread), |summary| text(summary, is_cut));
    unread.ended()
}

fn document(letters: &[Value], is_cut: bool, unread: &Unread) -> Value {
    let is_read = |letter: &&Value| letter["problem"].is_null();
    let (mut groups, mut events) = (BTreeMap::<Key, Group>::new(), 0_u64);
    for letter in letters.iter().filter(is_read) {
        events += 1;
        groups.entry(Key::of(letter)).or_default().add(letter);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.events));
    json!({
        "events": events,
        "unreadable": letters.len() as u64 - events,
        "isComplete": !is_cut && unread.is_empty(),
        "groups": groups.iter().map(|(key, group)| group.document(key)).collect::<Vec<_>>(),
        "failed": unread.document(),
    })
}

impl Key {
    fn of(letter: &Value) -> Self {
        Self {
            reason: text_at(letter, "/deadLetterReason").to_owned(),
            outcome: letter["lastDeliveryOutcome"].as_str().map(str::to_owned),
            status: letter["lastHttpStatusCode"].as_u64(),
            event_type: text_at(letter, "/eventType").to_owned(),
        }
    }
}

impl Group {
    fn add(&mut self, letter: &Value) {
        self.events += 1;
        let whose =
            format!("{}/{}", text_at(letter, "/topic"), text_at(letter, "/eventSubscription"));
        self.whose.insert(whose.clone());
        let at = text_at(letter, "/writtenTime").to_owned();
        self.written = match self.written.take() {
            None => {
                text_at(letter, "/id").clone_into(&mut self.example);
                self.owner = whose;
                Some((at.clone(), at))
            }
            Some((first, last)) => Some((first.min(at.clone()), last.max(at))),
        };
    }

    fn document(&self, key: &Key) -> Value {
        let (first, last) = self.written.clone().unwrap_or_default();
        json!({
            "events": self.events,
            "deadLetterReason": key.reason,
            "lastDeliveryOutcome": key.outcome,
            "lastHttpStatusCode": key.status,
            "eventType": key.event_type,
            "eventSubscriptions": self.whose,
            "firstWrittenTime": first,
            "lastWrittenTime": last,
            "example": self.example,
            "exampleOf": self.owner,
        })
    }
}

fn text(summary: &Value, is_cut: bool) -> String {
    let groups = summary["groups"].as_array().cloned().unwrap_or_default();
    let events = output::count(summary["events"].as_u64().unwrap_or(0), "dead letter");
    let mut text = match is_cut {
        false => events,
        true => format!("of the first {events} (--limit looks at more)"),
    };
    if !groups.is_empty() {
        let head = ["EVENTS", "REASON", "LAST OUTCOME", "TYPE", "WHOSE", "LAST", "EXAMPLE"];
        text.push_str(&format!("\n\n{}", output::table(head, groups.iter().map(row))));
    }
    match summary["unreadable"].as_u64() {
        None | Some(0) => text,
        Some(count) => format!("{text}\n\n{count} more objects or records can't be read"),
    }
}

fn row(group: &Value) -> [String; 7] {
    let at = |pointer| text_at(group, pointer).to_owned();
    let outcome = match group["lastHttpStatusCode"].as_u64() {
        Some(status) => format!("{} ({status})", at("/lastDeliveryOutcome")),
        None => at("/lastDeliveryOutcome"),
    };
    let whose: Vec<_> = group["eventSubscriptions"].as_array().into_iter().flatten().collect();
    let first = text_at(group, "/exampleOf");
    let whose = match whose.len() {
        0 | 1 => first.to_owned(),
        count => format!("{first} and {} more", count - 1),
    };
    let events = group["events"].to_string();
    [
        events,
        at("/deadLetterReason"),
        outcome,
        at("/eventType"),
        whose,
        at("/lastWrittenTime"),
        at("/example"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(id: &str, name: &str, status: Option<u64>, written: &str) -> Value {
        let mut letter = json!({"id": id, "topic": "t", "eventSubscription": name,
            "writtenTime": written, "eventType": "T", "deadLetterReason": "R",
            "lastDeliveryOutcome": "BadRequest"});
        if let Some(status) = status {
            letter["lastHttpStatusCode"] = json!(status);
        }
        letter
    }

    #[test]
    fn what_ended_alike_is_one_line() {
        let mut letters: Vec<_> = (1..=3)
            .map(|one| letter(&format!("l-{one}"), "b", Some(400), &format!("2026-01-0{one}")))
            .collect();
        letters.push(letter("l-4", "a", Some(400), "2026-01-04"));
        letters.push(letter("l-5", "a", None, "2026-01-05"));
        letters.push(json!({"id": "l-6", "topic": "t", "problem": "no JSON"}));
        let unread = Unread::default();
        let summary = document(&letters, false, &unread);
        assert_eq!((&summary["events"], &summary["unreadable"]), (&json!(5), &json!(1)));
        let first = json!({"events": 4, "deadLetterReason": "R", "lastDeliveryOutcome": "BadRequest",
            "lastHttpStatusCode": 400, "eventType": "T", "eventSubscriptions": ["t/a", "t/b"],
            "firstWrittenTime": "2026-01-01", "lastWrittenTime": "2026-01-04", "example": "l-1",
            "exampleOf": "t/b"});
        assert_eq!(summary["groups"][0], first);
        assert_eq!(summary["groups"][1]["events"], 1);
        assert_eq!((&summary["isComplete"], &summary["failed"]), (&json!(true), &json!([])));
        let told = text(&summary, false);
        for part in ["5 dead letters", "BadRequest (400)", "t/b and 1 more", "1 more objects"] {
            assert!(told.contains(part), "{part} is not in\n{told}");
        }
        let cut = document(&letters, true, &unread);
        assert_eq!(cut["isComplete"], false);
        assert!(text(&cut, true).starts_with("of the first 5 dead letters"));
        assert_eq!(text(&document(&[], false, &unread), false), "0 dead letters");
    }
}
