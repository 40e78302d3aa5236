//! Judges the counts of an audit, for each event subscription and hour. Reads nothing.
//!
//! All counts are taken at one *cut-off*: what a function counted before it is balanced, what it
//! counted from then on only explains what was open at that moment. The queues are counted at the
//! cut-off too; the states of waiting deliveries are read a little later. What ends after that may be one
//! of those that waited, which explains nothing more: then nothing is accused, and nothing balances.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gridpost_api::{journal::JournalQuery, subscription::Destination};
use gridpost_core::ledger::{Account, Ledger};
use gridpost_core::publish::fan_out::PIECE_DELIVERIES_MAX;
use gridpost_core::subscription::{Batching, SubscriptionKey};
use gridpost_core::time::Timestamp;
use serde::Serialize;

/// How long after its beginning an hour stays open: publishes take up to 29 s, and their counts are in the
/// logs some seconds after that.
pub(super) const OPEN_FOR_MS: i64 = 65 * 60_000;

/// Messages in a deployment's queues, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    /// Deliveries without an attempt.
    pub dispatch: u64,
    /// Pieces of publishes that are still expanded.
    pub fan_out: u64,
    /// Deliveries that failed or were deferred.
    pub retry: u64,
    /// Deliveries that ended, on their way to S3.
    pub dead_letter: u64,
    pub poison: u64,
}

impl Queues {
    /// Adds a second count: deliveries sent back to a retry queue meanwhile were parked before.
    pub fn with_moved(self, again: Self) -> Self {
        Self { retry: self.retry.max(again.retry), ..self }
    }

    /// The count of the queue with that name behind the deployment's prefix, if it is one of ours.
    pub fn of(&mut self, role: &str) -> Option<&mut u64> {
        match role {
            "dispatch" => Some(&mut self.dispatch),
            "fan-out" => Some(&mut self.fan_out),
            "dead-letter" => Some(&mut self.dead_letter),
            "poison" => Some(&mut self.poison),
            "slow" => Some(&mut self.retry),
            _ => {
                let shard = role.strip_prefix("retry-")?;
                let is_number =
                    !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then_some(&mut self.retry)
            }
        }
    }
}

/// How the account of an event subscription and an hour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every event that matched has ended or waits.
    Balanced,
    /// The queues can hold what has no end yet, or the hour is still open.
    UnderWay {
        /// Events without a known end.
        events: u64,
    },
    /// The queues do not hold so many.
    Missing {
        /// Events without a known end that no queue has room for.
        events: u64,
    },
    TooMany {
        ends: u64,
    },
}

/// The account of an event subscription and an hour, judged.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    pub key: &'a SubscriptionKey,
    pub hour: Timestamp,
    /// The counts before the cut-off.
    pub account: &'a Account,
    /// Whether the hour is still open, so that nothing of it is called missing.
    pub is_open: bool,
    pub standing: Standing,
    /// Events of which it is not clear whether they ended or wait, and that are not accused therefore.
    unclear: u64,
    /// Events that ended after the cut-off: the difference has them, and they are not open.
    ended_since: u64,
}

struct Counted {
    standing: Standing,
    /// Events, ended after the states were read, that may be among those that waited then.
    unclear: u64,
    /// See [`Cell`].
    ended_since: u64,
}

/// The result of it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every event that matched has ended or waits.
    Balances,
    /// Events have no end yet, and the queues can hold them, or their hour is still open.
    UnderWay { events: u64 },
    /// Events have no known end, and no queue has room for them.
    Missing { events: u64 },
}

/// The size of an event subscription's deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub events_max: u64,
    /// When the event subscription was last changed: earlier deliveries may be larger.
    pub since: Timestamp,
}

/// How long a publish may still be matched by an event subscription as it was before a change, and more:
/// functions keep configuration for a minute that they can't read again.
const CHANGE_IS_KNOWN_AFTER_MS: i64 = 5 * 60_000;

/// The counts of an audit.
#[derive(Clone, Debug)]
pub struct Audit {
    pub asked: Timestamp,
    /// Events published since then: later than was asked where the journal keeps less.
    pub since: Timestamp,
    pub until: Timestamp,
    /// Counts before the cut-off, with what waits.
    pub ledger: Ledger,
    /// Counts from the cut-off until the states of waiting deliveries were read.
    pub after: Ledger,
    pub later: Ledger,
    /// Whether the journal divides its counts at these times. If it doesn't, the first has all.
    pub is_divided: bool,
    /// When the states of waiting deliveries had been read.
    pub states_read_at: Timestamp,
    /// The messages in the queues, or why they are not known.
    pub queues: Result<Queues, String>,
    /// Deliveries of all topics that have failed and wait in a retry queue, however old.
    pub waiting: u64,
    pub batches: BTreeMap<SubscriptionKey, Batch>,
    /// The gaps of the journal's answer, in words.
    pub left_out: Vec<String>,
    /// Event subscriptions of which more waits than was counted: nothing of theirs is called missing.
    pub partial: BTreeSet<SubscriptionKey>,
    /// Whether all parked deliveries were read, where they were; otherwise nothing is called missing.
    pub parked_is_whole: bool,
}

impl Audit {
    /// Returns an audit that has counted nothing so far but the messages in the queues.
    pub fn begun(since: Timestamp, until: Timestamp, queues: Result<Queues, String>) -> Self {
        Self {
            asked: since,
            since,
            until,
            ledger: Ledger::default(),
            after: Ledger::default(),
            later: Ledger::default(),
            is_divided: true,
            states_read_at: until,
            queues,
            waiting: 0,
            batches: BTreeMap::new(),
            left_out: Vec::new(),
            partial: BTreeSet::new(),
            parked_is_whole: true,
        }
    }

    /// Adds the answer of the journal, whose periods end at the cut-off, when the states had been read, and
    /// later.
    pub(super) fn add(&mut self, answer: JournalQuery) {
        let begins = answer.begins.map(|begins| first_whole_hour(begins.0));
        self.since = begins.map_or(self.asked, |begins| begins.max(self.asked));
        let since = self.since;
        let own = [&mut self.ledger, &mut self.after, &mut self.later];
        for (ledger, counted) in own.into_iter().zip(answer.ledgers(2)) {
            ledger.intakes.extend(counted.intakes);
            for (cell, account) in &counted.accounts {
                ledger.accounts.entry(cell.clone()).or_default().add(account);
            }
            ledger.accounts.retain(|(_, hour), _| *hour >= since);
            ledger.intakes.retain(|(_, hour), _| *hour >= since);
        }
        self.left_out = answer.leaves_out;
    }

    /// Every account, judged, by event subscription and hour.
    ///
    /// What lies in the queues is taken for the newest events first: what they have no room for is
    /// then the oldest, which had the most time to end.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        let cells = self.ledger.accounts.iter().map(|((key, hour), account)| {
            let Counted { standing, unclear, ended_since } = self.counted(key, *hour, account);
            let is_open = self.is_open(*hour);
            Cell { key, hour: *hour, account, is_open, standing, unclear, ended_since }
        });
        let mut cells: Vec<_> = cells.collect();
        cells.sort_by_key(|cell| Reverse(cell.hour));
        let mut room = self.room();
        for cell in &mut cells {
            let Standing::UnderWay { events } = cell.standing else { continue };
            let batch = self.batch_of(cell.key, cell.hour);
            let in_queues = events.saturating_sub(cell.unclear);
            let held = in_queues.min(room.saturating_mul(batch));
            room = room.saturating_sub(held.div_ceil(batch));
            let is_counted = self.parked_is_whole && !self.partial.contains(cell.key);
            let is_known = is_counted && self.queues.is_ok();
            if held < in_queues && !cell.is_open && is_known {
                cell.standing = Standing::Missing { events: in_queues - held };
            }
        }
        cells.sort_by_key(|cell| (cell.key, cell.hour));
        cells
    }

    pub(super) fn is_open(&self, hour: Timestamp) -> bool {
        hour.as_millis() + OPEN_FOR_MS > self.until.as_millis()
    }

    /// Judges the counts before the queues are looked at.
    fn counted(&self, key: &SubscriptionKey, hour: Timestamp, account: &Account) -> Counted {
        let cell = (key.clone(), hour);
        let [(begun, ended), (begun_later, ended_later)] =
            [&self.after, &self.later].map(|ledger| match ledger.accounts.get(&cell) {
                Some(account) => moved(account),
                None => (0, 0),
            });
        let unclear = ended_later.min(account.waiting);
        let difference = account.difference();
        let explained = match difference > 0 {
            true => ended.saturating_add(ended_later - unclear),
            // Waiting events may have ended before the undivided counts were read.
            false if !self.is_divided => account.waiting,
            false => begun.saturating_add(begun_later),
        };
        let all = difference.unsigned_abs();
        // Ends of what began since then tell nothing of what was open at the cut-off.
        let begun_since = begun.saturating_add(begun_later);
        let sure = explained.saturating_sub(begun_since);
        let ended_since = if difference > 0 { all.min(sure) } else { 0 };
        let (standing, unclear) = match all.saturating_sub(explained) {
            0 => (Standing::Balanced, 0),
            events if difference > 0 => (Standing::UnderWay { events }, unclear),
            ends => (Standing::TooMany { ends }, 0),
        };
        Counted { standing, unclear, ended_since }
    }

    /// Deliveries that the queues may hold and of which no count tells. Those of the retry queues that
    /// are not among the waiting ones were deferred before an attempt.
    fn room(&self) -> u64 {
        let Ok(Queues { dispatch, fan_out, retry, dead_letter, .. }) = self.queues else {
            return 0;
        };
        let pieces = fan_out.saturating_mul(PIECE_DELIVERIES_MAX as u64);
        let deferred = retry.saturating_sub(self.waiting);
        [pieces, dead_letter, deferred].into_iter().fold(dispatch, u64::saturating_add)
    }

    /// Returns the most events that a delivery of that hour carries. Nothing is known of an event subscription
    /// that is gone, or that was changed since.
    fn batch_of(&self, key: &SubscriptionKey, hour: Timestamp) -> u64 {
        let is_known =
            |batch: &&Batch| batch.since.as_millis() + CHANGE_IS_KNOWN_AFTER_MS <= hour.as_millis();
        let most = self.batches.get(key).filter(is_known).map(|batch| batch.events_max);
        most.unwrap_or(u64::from(Batching::MAX_EVENTS_LIMIT)).max(1)
    }

    /// Whether all that waits was counted, and all the time that was asked for is in the journal.
    pub fn is_complete(&self) -> bool {
        self.has_all_that_waits() && !self.is_cut()
    }

    pub(super) fn has_all_that_waits(&self) -> bool {
        self.partial.is_empty() && self.parked_is_whole
    }

    /// Whether the journal keeps less than was asked for.
    pub(super) fn is_cut(&self) -> bool {
        self.asked < self.since
    }

    /// Whether nothing is open: neither more nor fewer ends than events.
    pub fn balances(&self) -> bool {
        self.cells().iter().all(|cell| cell.standing == Standing::Balanced)
    }

    /// Returns the verdict. More ends than events are duplicates, and do not show that anything is
    /// missing.
    pub fn verdict(&self) -> Verdict {
        match (self.missing(), self.under_way()) {
            (0, 0) => Verdict::Balances,
            (0, events) => Verdict::UnderWay { events },
            (events, _) => Verdict::Missing { events },
        }
    }

    /// Events that no queue has room for.
    pub fn missing(&self) -> u64 {
        self.sum(|standing| if let Standing::Missing { events } = standing { events } else { 0 })
    }

    /// Events without an end that may be under way.
    pub fn under_way(&self) -> u64 {
        self.sum(|standing| if let Standing::UnderWay { events } = standing { events } else { 0 })
    }

    /// Events that ended after the cut-off, while the audit was made.
    pub fn ended_since(&self) -> u64 {
        self.cells().iter().map(|cell| cell.ended_since).fold(0, u64::saturating_add)
    }

    /// Ends more than events.
    pub fn ends_too_many(&self) -> u64 {
        self.sum(|standing| if let Standing::TooMany { ends } = standing { ends } else { 0 })
    }

    fn sum(&self, of: impl Fn(Standing) -> u64) -> u64 {
        self.cells().iter().map(|cell| of(cell.standing)).fold(0, u64::saturating_add)
    }
}

/// Returns the first hour that is whole from its beginning.
fn first_whole_hour(begins: Timestamp) -> Timestamp {
    const HOUR_MS: i64 = 3_600_000;
    Timestamp::from_millis(begins.as_millis().saturating_add(HOUR_MS - 1)).hour()
}

/// How many events began in an account, and how many ended.
fn moved(account: &Account) -> (u64, u64) {
    let begun = account.matched.saturating_add(account.redriven);
    let ended = i128::from(begun) - i128::from(account.difference());
    (begun, u64::try_from(ended).unwrap_or(0))
}

/// Returns the most events that a delivery to a destination carries: what is set, or what the AWS service
/// takes with one call.
pub fn largest_batch(destination: &Destination) -> u64 {
    let (batch, of_call) = match (destination, destination.resource()) {
        (Destination::WebHook(webhook), _) => (webhook.max_events_per_batch, 1),
        (_, Some((kind, set))) => (set.max_events_per_batch, kind.rules().call_entries_max),
        (_, None) => (None, 1),
    };
    u64::from(batch.unwrap_or(of_call))
}

#[cfg(test)]
mod tests;
