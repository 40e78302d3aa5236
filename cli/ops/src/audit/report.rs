//! Prints an audit for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gridpost_core::ledger::{Account, Intake};
use gridpost_core::subscription::SubscriptionKey;
use gridpost_core::time::Timestamp;

use super::document::total;
use super::verdict::{Audit, Cell, OPEN_FOR_MS, Queues, Standing, Verdict};
use crate::{
    latency,
    output::{self, count},
};

impl Audit {
    /// Sums the intakes of all hours, by topic.
    pub fn topics(&self) -> BTreeMap<&str, Intake> {
        let mut topics: BTreeMap<_, Intake> = BTreeMap::new();
        for ((topic, _), intake) in &self.ledger.intakes {
            let sum = topics.entry(topic.as_str()).or_default();
            sum.accepted = sum.accepted.saturating_add(intake.accepted);
            sum.unmatched = sum.unmatched.saturating_add(intake.unmatched);
        }
        topics
    }

    /// Counts the events that its topic accepted and that the event subscription did not match: by its filter,
    /// or because it was not there.
    pub(super) fn filtered(&self, key: &SubscriptionKey) -> u64 {
        let intakes = self.ledger.intakes.iter().filter(|((topic, _), _)| *topic == key.topic);
        let accepted = intakes.fold(0_u64, |sum, (_, intake)| sum.saturating_add(intake.accepted));
        let accounts = self.ledger.accounts.iter().filter(|((of, _), _)| of == key);
        let matched = accounts.fold(0_u64, |sum, (_, one)| sum.saturating_add(one.matched));
        accepted.saturating_sub(matched)
    }

    /// Counts the events that were dropped: nothing has them any more.
    pub(super) fn lost(&self) -> u64 {
        let dropped = self.ledger.accounts.values().map(|account| total(&account.dropped));
        dropped.fold(0, u64::saturating_add)
    }

    /// Returns the report for people.
    pub fn text(&self) -> String {
        let mut text = format!("events published from {} to {}\n\n", self.since, self.until);
        let totals = self.ledger.totals();
        if totals.is_empty() && self.ledger.intakes.is_empty() {
            text.push_str("no event was published\n");
        }
        let topics = self.topics();
        if !topics.is_empty() {
            let head = ["TOPIC", "ACCEPTED", "FOR NO SUBSCRIPTION"];
            let rows = topics.iter().map(|(name, intake)| {
                [(*name).to_owned(), intake.accepted.to_string(), intake.unmatched.to_string()]
            });
            let _ = writeln!(text, "{}\n", output::table(head, rows));
        }
        if !totals.is_empty() {
            let _ = writeln!(text, "{}\n", self.table(&totals));
            if totals.keys().any(|key| self.filtered(key) > 0) {
                let _ = writeln!(text, "{FILTERED}\n");
            }
            text.push_str(&latencies(&totals));
        }
        for (key, account) in &totals {
            reasons(&mut text, key, "dead-lettered", &account.dead_lettered);
            reasons(&mut text, key, "LOST, dropped", &account.dropped);
        }
        for cell in self.cells() {
            if let Some(told) = told(&cell) {
                let _ = writeln!(text, "{told}");
            }
        }
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(&self.meaning());
        text.trim_end().to_owned()
    }

    fn table(&self, totals: &BTreeMap<&SubscriptionKey, Account>) -> String {
        let head = [
            "EVENT SUBSCRIPTION",
            "FILTERED",
            "MATCHED",
            "REDRIVEN",
            "DELIVERED",
            "DEAD-LETTERED",
            "LOST",
            "WAITING",
            "DIFFERENCE",
        ];
        let rows = totals.iter().map(|(key, account)| {
            [
                key.to_string(),
                self.filtered(key).to_string(),
                account.matched.to_string(),
                account.redriven.to_string(),
                account.delivered.to_string(),
                total(&account.dead_lettered).to_string(),
                total(&account.dropped).to_string(),
                account.waiting.to_string(),
                account.difference().to_string(),
            ]
        });
        output::table(head, rows)
    }

    /// Says what the queues hold, what the journal lacks, what the difference means, and what to do.
    fn meaning(&self) -> String {
        let mut text = String::new();
        if let Ok(Queues { dispatch, fan_out, retry, dead_letter, poison }) = &self.queues {
            let _ = writeln!(
                text,
                "about in the queues: {dispatch} messages for first attempts, {fan_out} pieces of large \
                 publishes, {retry} for retries and slow endpoints, {dead_letter} on their way to S3, \
                 {poison} in the poison queue"
            );
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "{left_out}");
        }
        let poison = self.queues.as_ref().map_or(0, |queues| queues.poison);
        let is_whole = self.ends_too_many() == 0 && poison == 0 && self.is_complete();
        if self.verdict() == Verdict::Balances && is_whole {
            let _ = writeln!(text, "{BALANCES}");
        }
        for (word, remark) in self.remarks() {
            let word = if word.is_empty() { String::new() } else { format!("{word}: ") };
            let _ = writeln!(text, "{word}{remark}.");
        }
        text
    }

    /// Returns what the counts come to and what they lack, in sentences without the last full stop, each with a
    /// word for it, which may be empty.
    pub fn remarks(&self) -> Vec<(&'static str, String)> {
        let some = |number, what: &str, told: &str| {
            (number > 0).then(|| format!("{} {told}", count(number, what)))
        };
        let Self { asked, since, until, .. } = self;
        let queues = match &self.queues {
            Err(reason) => Some(format!(
                "what the queues hold is not known, so nothing is called missing: {reason}"
            )),
            Ok(queues) => some(queues.poison, "message", POISONED),
        };
        let ended = format!("of the difference ended after the cut-off at {until}");
        let is_partial = !self.has_all_that_waits();
        let open = self.ledger.accounts.keys().map(|(_, hour)| *hour);
        let open = open.filter(|hour| self.is_open(*hour));
        let judged = |last: Timestamp| Timestamp::from_millis(last.as_millis() + OPEN_FOR_MS);
        let open = open.clone().min().zip(open.max().map(judged));
        let open = open.map(|(first, judged)| {
            format!(
                "hours that are open are not judged yet: the first began {first}, the last is judged \
                 {judged}"
            )
        });
        let (missing, under_way) = match self.verdict() {
            Verdict::Balances => (0, 0),
            Verdict::UnderWay { events } => (0, events),
            Verdict::Missing { events } => (events, 0),
        };
        let all = [
            ("", queues),
            ("", some(self.ended_since(), "event", &ended)),
            ("PARTIAL", self.is_cut().then(|| format!("asked since {asked} but {CUT} {since}"))),
            ("PARTIAL", is_partial.then(|| format!("{PARTIAL}{}", uncounted(&self.partial)))),
            ("UNDER WAY", some(under_way, "event", UNDER_WAY)),
            ("MISSING", some(missing, "event", MISSING)),
            ("", open),
            ("DUPLICATES", some(self.ends_too_many(), "end", DUPLICATES)),
            ("LOST FOR GOOD", some(self.lost(), "event", LOST)),
        ];
        all.into_iter().filter_map(|(word, told)| Some((word, told?))).collect()
    }
}

fn uncounted(partial: &BTreeSet<SubscriptionKey>) -> String {
    const TOLD: usize = 5;
    let mut names: Vec<_> = partial.iter().take(TOLD).map(ToString::to_string).collect();
    match partial.len() {
        0 => return String::new(),
        more if more > TOLD => names.push("\u{2026}".to_owned()),
        _ => {}
    }
    let all = count(partial.len() as u64, "event subscription");
    format!(". {all} with more that waits: {}", names.join(", "))
}

/// How long delivered events took, where some were delivered.
fn latencies(totals: &BTreeMap<&SubscriptionKey, Account>) -> String {
    let [p50, p95, p99] = latency::HEAD;
    let mut rows = vec![["PUBLISH TO DELIVERY", p50, p95, p99].map(str::to_owned)];
    let timed = totals.iter().filter(|(_, account)| account.latencies.events() > 0);
    rows.extend(timed.map(|(key, account)| {
        let [p50, p95, p99] = latency::cells(&account.latencies);
        [key.to_string(), p50, p95, p99]
    }));
    if rows.len() == 1 { String::new() } else { format!("{}\n\n", output::columns(&rows)) }
}

/// An account and an hour that are not balanced, in a line.
fn told(cell: &Cell<'_>) -> Option<String> {
    let (what, many) = match cell.standing {
        Standing::Balanced => return None,
        Standing::UnderWay { events } => ("under way", count(events, "event")),
        Standing::Missing { events } => ("MISSING", count(events, "event")),
        Standing::TooMany { ends } => ("too many", count(ends, "end")),
    };
    let open = if cell.is_open { ", which is still open" } else { "" };
    Some(format!("{}: {many} {what} in the hour from {}{open}", cell.key, cell.hour))
}

const BALANCES: &str =
    "The ledger balances: every event that matched was delivered, dead-lettered, dropped or waits.";

const FILTERED: &str = "\
FILTERED: events of the topic that the event subscription did not match, by its filter or because it
  was not there. `gridpost subscription test` and `gridpost explain --event FILE` say why.";

const POISONED: &str = "in the poison queue, with no end before they are sent again";

const PARTIAL: &str = "\
more waits than was counted for this look, so nothing is called missing, and what waits is less than there is. \
gridpost audit counts all of it";

const CUT: &str = "\
the journal keeps less (on AWS as long as the Terraform variable log_retention_days says): nothing is known of \
events published before";

const LOST: &str = "\
dropped. There is no dead letter to send again: the event subscription had no dead-letter destination, or the \
destination could not be written";

const UNDER_WAY: &str = "\
waiting, as far as is known: their hour is still open, or the queues hold messages that may carry them: first attempts, \
deliveries that wait behind an endpoint in trouble before their first attempt, and dead letters that wait to be \
written (five minutes by default). Look again when the hour is over for five minutes and the queues are shorter";

const MISSING: &str = "\
without a known end, and the queues hold too few messages for them. It can be a function that was killed between \
the end of a delivery and the write of its counts (look for Task timed out, signal: killed and Runtime exited in \
the functions' logs of that hour), a delivery that was parked before its first attempt, a message in the poison \
queue, or a message that was in a queue for 14 days. Anything else is a loss, which must not happen: please report \
it with the output of gridpost audit --json";

const DUPLICATES: &str = "\
more than events that matched. It can be events delivered twice (SQS, crashes and endpoints that answer too late \
make duplicates), publishes that were answered 503 and sent again, or an ingest that was killed before it wrote \
its counts. In the same hour as many may hide others that are missing";

fn reasons(text: &mut String, key: &SubscriptionKey, what: &str, reasons: &BTreeMap<String, u64>) {
    for (reason, count) in reasons {
        let _ = writeln!(text, "{key}: {what} {count} for {reason}");
    }
}

#[cfg(test)]
mod tests;
