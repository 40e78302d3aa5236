//! What an audit found, and what it means. Nothing is read here.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gridpost_core::ledger::{Account, Intake, Ledger};
use gridpost_core::subscription::SubscriptionKey;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use crate::output;

/// Messages in a deployment's queues, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Deliveries that nobody has attempted, and publishes that are still expanded.
    pub dispatch: u64,
    /// Deliveries that failed or were deferred.
    pub retry: u64,
    /// Deliveries that ended, on their way to S3.
    pub dead_letter: u64,
    /// What the functions could not settle.
    pub poison: u64,
}

impl Queues {
    /// The count of the queue with that name behind the deployment's prefix, if it is one of ours.
    pub fn of(&mut self, role: &str) -> Option<&mut u64> {
        match role {
            "dispatch" | "fan-out" => Some(&mut self.dispatch),
            "dead-letter" => Some(&mut self.dead_letter),
            "poison" => Some(&mut self.poison),
            _ => {
                let shard = role.strip_prefix("retry-")?;
                let is_number =
                    !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then_some(&mut self.retry)
            }
        }
    }
}

/// Whether the ledger balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every event that matched has ended or waits.
    Balances,
    /// The queues hold messages that may carry the events whose end is not known.
    UnderWay {
        /// How many events have no known end.
        events: u64,
    },
    /// The queues do not hold so many.
    Missing {
        /// How many events have no known end.
        events: u64,
    },
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Events published since then.
    pub since: Timestamp,
    /// Until then.
    pub until: Timestamp,
    /// The accounts, what waits included.
    pub ledger: Ledger,
    /// What the queues hold, or why that is not known.
    pub queues: Result<Queues, String>,
    /// Deliveries that wait, of the event subscriptions that were looked at, however old.
    pub waiting: u64,
    /// Most events that a message may carry.
    pub largest_batch: u64,
}

impl Audit {
    /// Whether nothing is open: neither more nor fewer ends than events.
    pub fn balances(&self) -> bool {
        self.ledger.totals().values().all(|account| account.difference() == 0)
    }

    /// What it comes to. More ends than events are duplicates, and nothing is missing by them.
    pub fn verdict(&self) -> Verdict {
        let events = self.sum_of(|difference| u64::try_from(difference).unwrap_or(0));
        match (events, self.under_way()) {
            (0, _) => Verdict::Balances,
            (_, Some(messages)) if events > messages.saturating_mul(self.largest_batch) => {
                Verdict::Missing { events }
            }
            (_, None) => Verdict::Missing { events },
            _ => Verdict::UnderWay { events },
        }
    }

    fn sum_of(&self, part: impl Fn(i64) -> u64) -> u64 {
        let totals = self.ledger.totals();
        let parts = totals.values().map(|account| part(account.difference()));
        parts.fold(0, u64::saturating_add)
    }

    /// Messages in the queues whose events no count tells of: those of the retry queues that are not
    /// among the waiting deliveries were deferred before an attempt.
    fn under_way(&self) -> Option<u64> {
        let Queues { dispatch, retry, dead_letter, .. } = *self.queues.as_ref().ok()?;
        Some(dispatch + dead_letter + retry.saturating_sub(self.waiting))
    }

    fn topics(&self) -> BTreeMap<&str, Intake> {
        let mut topics: BTreeMap<_, Intake> = BTreeMap::new();
        for ((topic, _), intake) in &self.ledger.intakes {
            let sum = topics.entry(topic.as_str()).or_default();
            sum.accepted = sum.accepted.saturating_add(intake.accepted);
            sum.unmatched = sum.unmatched.saturating_add(intake.unmatched);
        }
        topics
    }

    /// It as JSON.
    pub fn document(&self) -> Value {
        let topics = self.topics().into_iter().map(|(name, Intake { accepted, unmatched })| {
            json!({"name": name, "accepted": accepted, "unmatched": unmatched})
        });
        let totals = self.ledger.totals();
        let subscriptions = totals.iter().map(|(key, account)| {
            let hours = self.ledger.accounts.iter().filter(|((of, _), _)| of == *key);
            let hours = hours.map(|((_, hour), account)| {
                let mut document = document(account);
                document["publishHour"] = json!(hour.to_iso_8601());
                document
            });
            let mut document = document(account);
            document["topic"] = json!(key.topic);
            document["name"] = json!(key.name);
            document["hours"] = hours.collect();
            document
        });
        let (verdict, missing) = match self.verdict() {
            Verdict::Balances => ("balances", 0),
            Verdict::UnderWay { events } => ("underWay", events),
            Verdict::Missing { events } => ("missing", events),
        };
        let queues = self.queues.as_ref().ok().map(|queues| {
            json!({
                "dispatch": queues.dispatch, "retry": queues.retry,
                "deadLetter": queues.dead_letter, "poison": queues.poison,
            })
        });
        json!({
            "since": self.since.to_iso_8601(),
            "until": self.until.to_iso_8601(),
            "topics": topics.collect::<Vec<_>>(),
            "eventSubscriptions": subscriptions.collect::<Vec<_>>(),
            "queues": queues,
            "verdict": verdict,
            "eventsWithoutEnd": missing,
            "endsTooMany": self.ends_too_many(),
        })
    }

    fn ends_too_many(&self) -> u64 {
        self.sum_of(|difference| if difference < 0 { difference.unsigned_abs() } else { 0 })
    }

    /// It for people.
    pub fn text(&self) -> String {
        let mut text = format!("events published from {} to {}\n\n", self.since, self.until);
        let totals = self.ledger.totals();
        if totals.is_empty() && self.ledger.intakes.is_empty() {
            text.push_str("no event was published\n");
        }
        let topics = self.topics();
        if !topics.is_empty() {
            let mut rows = vec![["TOPIC", "ACCEPTED", "UNMATCHED"].map(str::to_owned)];
            rows.extend(topics.iter().map(|(name, intake)| {
                [(*name).to_owned(), intake.accepted.to_string(), intake.unmatched.to_string()]
            }));
            let _ = writeln!(text, "{}\n", output::columns(&rows));
        }
        if !totals.is_empty() {
            let _ = writeln!(text, "{}\n", table(&totals));
        }
        for (key, account) in &totals {
            reasons(&mut text, key, "dead-lettered", &account.dead_lettered);
            reasons(&mut text, key, "dropped", &account.dropped);
        }
        for ((key, hour), account) in &self.ledger.accounts {
            let difference = account.difference();
            if difference != 0 {
                let _ = writeln!(text, "{key}: {difference:+} in the hour from {hour}");
            }
        }
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(&self.meaning());
        text.trim_end().to_owned()
    }

    /// What the difference means, and what to do.
    fn meaning(&self) -> String {
        let mut text = String::new();
        match &self.queues {
            Ok(Queues { dispatch, retry, dead_letter, poison }) => {
                let _ = writeln!(
                    text,
                    "about in the queues: {dispatch} messages for first attempts, {retry} for retries, \
                     {dead_letter} on their way to S3, {poison} in the poison queue"
                );
                if *poison > 0 {
                    text.push_str(POISONED);
                }
            }
            Err(reason) => {
                let _ = writeln!(text, "what the queues hold is not known: {reason}");
            }
        }
        match self.verdict() {
            Verdict::Balances if self.ends_too_many() == 0 => text.push_str(BALANCES),
            Verdict::Balances => {}
            Verdict::UnderWay { events } => {
                let _ = writeln!(text, "UNDER WAY: {events} events {UNDER_WAY}");
            }
            Verdict::Missing { events } => {
                let _ = writeln!(text, "MISSING: {events} events {MISSING}");
            }
        }
        match self.ends_too_many() {
            0 => {}
            more => {
                let _ = writeln!(text, "DUPLICATES: {more} {DUPLICATES}");
            }
        }
        text
    }
}

const BALANCES: &str = "The ledger balances: every event that matched was delivered, dead-lettered, dropped or waits.\n";

const UNDER_WAY: &str = "\
have no end that is known, and the queues hold messages that may carry them:
  first attempts, deliveries that wait behind an endpoint in trouble before their first attempt,
  and dead letters that wait to be written (five minutes by default). Look again when the queues
  are shorter, or give --wait.";

const MISSING: &str = "\
have no end that is known, and the queues hold too few messages for them. What it can be:
  - counts that are not there yet: logs take some seconds to be found. Look again, or give --wait
  - a function killed between the end of a delivery and the write of its counts: look for
    `Task timed out`, `signal: killed` and `Runtime exited` in the functions' logs of that hour
  - log groups that keep less than the time asked for (Terraform variable log_retention_days)
  - deliveries parked before their first attempt, messages in the poison queue, and messages that
    lay in a queue for 14 days
  - if it is none of these, it is a loss, which must not happen: please report it with --json";

const DUPLICATES: &str = "\
ends more than events that matched. It can be events delivered twice (SQS, crashes and endpoints that
  answer too late make duplicates), publishes that were answered 503 and sent again, or an ingest that
  was killed before it wrote its counts. As many may hide others that are missing.";

const POISONED: &str =
    "  the poison queue is not empty: its messages have no end before they are re-sent\n";

fn document(account: &Account) -> Value {
    let by_reason =
        |reasons: &BTreeMap<String, u64>| json!({"total": total(reasons), "byReason": reasons});
    json!({
        "matched": account.matched,
        "redriven": account.redriven,
        "delivered": account.delivered,
        "deadLettered": by_reason(&account.dead_lettered),
        "dropped": by_reason(&account.dropped),
        "waiting": account.waiting,
        "difference": account.difference(),
    })
}

fn total(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().copied().fold(0, u64::saturating_add)
}

fn table(totals: &BTreeMap<&SubscriptionKey, Account>) -> String {
    let head = [
        "EVENT SUBSCRIPTION",
        "MATCHED",
        "REDRIVEN",
        "DELIVERED",
        "DEAD-LETTERED",
        "DROPPED",
        "WAITING",
        "DIFFERENCE",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(totals.iter().map(|(key, account)| {
        [
            key.to_string(),
            account.matched.to_string(),
            account.redriven.to_string(),
            account.delivered.to_string(),
            total(&account.dead_lettered).to_string(),
            total(&account.dropped).to_string(),
            account.waiting.to_string(),
            account.difference().to_string(),
        ]
    }));
    output::columns(&rows)
}

fn reasons(text: &mut String, key: &SubscriptionKey, what: &str, reasons: &BTreeMap<String, u64>) {
    for (reason, count) in reasons {
        let _ = writeln!(text, "{key}: {what} {count} for {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Timestamp = Timestamp::from_millis(1_795_248_000_000);

    fn key(name: &str) -> SubscriptionKey {
        SubscriptionKey { topic: "shop".to_owned(), name: name.to_owned() }
    }

    /// An audit of event subscriptions that have so many events matched and delivered.
    fn audit(counts: &[(&str, u64, u64)], queues: Result<Queues, String>) -> Audit {
        let mut ledger = Ledger::default();
        for (name, matched, delivered) in counts {
            let account =
                Account { matched: *matched, delivered: *delivered, ..Account::default() };
            ledger.accounts.insert((key(name), HOUR), account);
        }
        Audit { since: HOUR, until: HOUR, ledger, queues, waiting: 0, largest_batch: 1 }
    }

    #[test]
    fn verdict_table() {
        let empty = Queues::default();
        let dispatch = Queues { dispatch: 2, ..empty };
        let dead_letter = Queues { dead_letter: 2, ..empty };
        let retry = Queues { retry: 5, ..empty };
        let poison = Queues { poison: 9, ..empty };
        let under_way = |events| Verdict::UnderWay { events };
        let missing = |events| Verdict::Missing { events };
        // matched less delivered, messages in queues, deliveries waiting, largest batch
        let table = [
            (0, Ok(empty), 0, 1, Verdict::Balances),
            (0, Ok(dispatch), 0, 1, Verdict::Balances),
            (2, Ok(dispatch), 0, 1, under_way(2)),
            (2, Ok(dead_letter), 0, 1, under_way(2)),
            (3, Ok(dispatch), 0, 1, missing(3)),
            (200, Ok(dispatch), 0, 100, under_way(200)),
            (201, Ok(dispatch), 0, 100, missing(201)),
            (5, Ok(retry), 0, 1, under_way(5)),
            (5, Ok(retry), 1, 1, missing(5)),
            (1, Ok(retry), 9, 1, missing(1)),
            (1, Ok(poison), 0, 1, missing(1)),
            (1, Err("no permission".to_owned()), 0, 1, missing(1)),
            (0, Err("no permission".to_owned()), 0, 1, Verdict::Balances),
        ];
        for (difference, queues, waiting, largest_batch, want) in table {
            let audit = Audit {
                waiting,
                largest_batch,
                ..audit(&[("a", 10 + difference, 10), ("b", 1, 2)], queues)
            };
            assert_eq!(audit.verdict(), want, "{difference} {:?}", audit.queues);
        }
    }

    #[test]
    fn queues_are_told_by_their_names() {
        let mut queues = Queues::default();
        for role in ["dispatch", "fan-out", "retry-0", "retry-31", "dead-letter", "poison"] {
            *queues.of(role).expect(role) += 1;
        }
        assert_eq!(queues, Queues { dispatch: 2, retry: 2, dead_letter: 1, poison: 1 });
        for role in ["", "retry-", "retry-x", "2-dispatch", "dispatch-2"] {
            assert_eq!(queues.of(role), None, "{role}");
        }
    }

    #[test]
    fn more_ends_than_events_are_told_and_are_no_loss() {
        let audit = audit(&[("a", 10, 10), ("b", 5, 7)], Ok(Queues::default()));
        assert_eq!((audit.verdict(), audit.balances()), (Verdict::Balances, false));
        let text = audit.text();
        assert!(text.contains("DUPLICATES: 2 ends more"), "{text}");
        assert!(text.contains("shop/b: -2 in the hour from 2026-11-21T08:00:00.000Z"), "{text}");
        assert!(!text.contains(BALANCES), "{text}");
    }

    #[test]
    fn an_audit_prints_its_columns_and_reasons() {
        let mut audit = audit(&[("a", 10, 7)], Ok(Queues { poison: 1, ..Queues::default() }));
        let intake = Intake { accepted: 12, unmatched: 2 };
        audit.ledger.intakes.insert(("shop".to_owned(), HOUR), intake);
        audit.ledger.wait(&key("a"), HOUR, 1);
        let account = audit.ledger.accounts.get_mut(&(key("a"), HOUR)).expect("a");
        account.dead_lettered.insert("TimeToLiveExceeded".to_owned(), 2);
        let text = audit.text();
        for part in [
            "TOPIC  ACCEPTED  UNMATCHED\nshop   12        2",
            "EVENT SUBSCRIPTION  MATCHED  REDRIVEN  DELIVERED  DEAD-LETTERED  DROPPED  WAITING  DIFFERENCE",
            "shop/a              10       0         7          2              0        1        0",
            "shop/a: dead-lettered 2 for TimeToLiveExceeded",
            "1 in the poison queue",
            "the poison queue is not empty",
            "The ledger balances",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let document = audit.document();
        assert_eq!(document["verdict"], "balances");
        assert_eq!(document["topics"][0]["accepted"], 12);
        let of_a = &document["eventSubscriptions"][0];
        assert_eq!(of_a["deadLettered"]["byReason"]["TimeToLiveExceeded"], 2);
        assert_eq!(of_a["hours"][0]["publishHour"], "2026-11-21T08:00:00.000Z");
        assert_eq!(of_a["hours"][0]["waiting"], 1);
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        let text = audit(&[("a", 10, 7)], Err("sqs:ListQueues was refused".to_owned())).text();
        assert!(text.contains("MISSING: 3 events have no end"), "{text}");
        assert!(text.contains("what the queues hold is not known: sqs:ListQueues"), "{text}");
        let empty = audit(&[], Ok(Queues::default())).text();
        assert!(empty.contains("no event was published"), "{empty}");
    }
}
