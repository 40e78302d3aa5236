//! Attempts as they are made, and deliveries as they end.

use std::collections::HashSet;
use std::time::Duration;

use gridpost_core::name;

use crate::{
    attempt_lines::{AttemptLine, AttemptLog},
    given::TimeSpan,
    output::{in_line, or_dash},
    target::Target,
};

/// Ids of events in a line, at most; the number of events of a batch is shown, too.
const IDS_SHOWN_MAX: usize = 3;

/// Between two looks: FilterLogEvents takes five calls in a second for a whole account.
pub const POLL: Duration = Duration::from_secs(2);

/// How far back each look goes: lines of another instance may be found some time after they were
/// logged.
const OVERLAP_MS: i64 = 60_000;

/// How far behind the present a follower stays at most, however quiet it is. AWS refuses calls of a clock
/// that is further off, so that what is logged from now on is not older by any clock.
///
/// Source: AWS IAM user guide, "Elements of an AWS API request signature": five minutes.
const QUIET_MS: i64 = 300_000;

/// How much of the log is read at a time where a follower catches up.
const SLICE_MS: i64 = 600_000;

/// Lines of the log after which no further slice is read.
const READ_MAX: usize = 10_000;

/// A choice of attempts and ends.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub topic: Option<String>,
    pub name: Option<String>,
    /// Only attempts with one of these outcomes, such as `Busy`; none for all.
    pub outcome: Vec<String>,
    /// Only attempts that failed or succeeded too late, and deliveries that ended undelivered.
    pub failed: bool,
}

impl Filter {
    fn wants(&self, line: &AttemptLine) -> bool {
        let (topic, name) = line.subscription().unwrap_or_default();
        let outcome = line.outcome.as_deref().unwrap_or_default();
        (line.is_attempt() || line.is_end())
            && self.topic.as_ref().is_none_or(|wanted| name::is_same(wanted, topic))
            && self.name.as_ref().is_none_or(|wanted| name::is_same(wanted, name))
            && (self.outcome.is_empty() || self.outcome.iter().any(|wanted| wanted == outcome))
            && !(self.failed && outcome == "Delivered" && !line.is_late_success())
    }
}

/// Reads the chosen lines of the log, each once.
pub struct Follower {
    target: Target,
    log: AttemptLog,
    filter: Filter,
    seen: Seen,
}

/// The attempts made while a follower was away.
pub struct CaughtUp {
    /// The lines, oldest first.
    pub lines: Vec<AttemptLine>,
    /// The beginning of what is there: older attempts were not read, or are left out; `None` if all
    /// are there.
    pub begins_ms: Option<i64>,
}

impl Follower {
    /// Makes a follower that begins so long ago.
    pub async fn of(target: &Target, filter: Filter, since: TimeSpan) -> anyhow::Result<Self> {
        let log = AttemptLog::connect(target).await?;
        let began_ms = target.ago(since).await?.as_millis();
        let seen = Seen { began_ms, newest_ms: began_ms, ids: HashSet::new() };
        Ok(Self { target: target.clone(), log, filter, seen })
    }

    /// Makes a follower that goes on where another one was, and a little before: lines may be found
    /// late. So it gives some lines again.
    pub async fn resumed(
        target: &Target,
        filter: Filter,
        position_ms: i64,
    ) -> anyhow::Result<Self> {
        let log = AttemptLog::connect(target).await?;
        let began_ms = position_ms.saturating_sub(OVERLAP_MS);
        let seen = Seen { began_ms, newest_ms: position_ms, ids: HashSet::new() };
        Ok(Self { target: target.clone(), log, filter, seen })
    }

    /// How far it has come, in milliseconds since the Unix epoch.
    pub fn position_ms(&self) -> i64 {
        self.seen.newest_ms
    }

    /// Returns from when on it follows, if that is later than another time: the time between was never
    /// read.
    pub fn began_after(&self, at_ms: i64) -> Option<i64> {
        Some(self.seen.began_ms).filter(|began_ms| *began_ms > at_ms)
    }

    /// Returns the lines that are new since the last look.
    pub async fn look(&mut self) -> anyhow::Result<Vec<AttemptLine>> {
        let now_ms = self.target.now().await?.as_millis();
        let lines = self.log.read(self.seen.next_from(), None).await?;
        let fresh = self.seen.fresh(lines, now_ms).into_iter();
        Ok(fresh.filter(|line| self.filter.wants(line)).collect())
    }

    /// The newest `most` of what was logged since it was left: the log of a busy deployment is read no
    /// further back than they reach.
    pub async fn catch_up(&mut self, most: usize) -> anyhow::Result<CaughtUp> {
        let began_ms = self.seen.began_ms;
        let now_ms = self.target.now().await?.as_millis();
        let (mut lines, mut read, mut reached_ms) = (Vec::new(), 0, began_ms);
        for slice in slices(began_ms, now_ms) {
            if lines.len() >= most || read >= READ_MAX {
                break;
            }
            let mut found = match slice.to_ms {
                None => {
                    let newest = self.log.read(slice.from_ms, None).await?;
                    self.seen.fresh(newest, now_ms)
                }
                Some(to_ms) => self.log.between(slice.from_ms, to_ms).await?,
            };
            read += found.len();
            found.retain(|line| self.filter.wants(line));
            found.append(&mut lines);
            (lines, reached_ms) = (found, slice.from_ms);
        }
        Ok(CaughtUp::newest(lines, most, (reached_ms > began_ms).then_some(reached_ms)))
    }
}

impl CaughtUp {
    /// The newest of lines in their order, which reach back to that time, or to where they should.
    fn newest(mut lines: Vec<AttemptLine>, most: usize, reached_ms: Option<i64>) -> Self {
        let is_cut = lines.len() > most;
        let lines = lines.split_off(lines.len().saturating_sub(most));
        let begins_ms = match lines.first() {
            Some(first) if is_cut => Some(first.at_ms),
            _ => reached_ms,
        };
        Self { lines, begins_ms }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    from_ms: i64,
    /// The newest one has no end.
    to_ms: Option<i64>,
}

/// The log between two times, the newest part first.
fn slices(from_ms: i64, now_ms: i64) -> impl Iterator<Item = Slice> {
    let newest = Slice { from_ms: (now_ms - SLICE_MS).max(from_ms), to_ms: None };
    std::iter::successors(Some(newest), move |newer| {
        let to_ms = newer.from_ms;
        (to_ms > from_ms)
            .then(|| Slice { from_ms: (to_ms - SLICE_MS).max(from_ms), to_ms: Some(to_ms) })
    })
}

/// The lines that were printed or passed over already.
struct Seen {
    began_ms: i64,
    newest_ms: i64,
    ids: HashSet<String>,
}

impl Seen {
    fn next_from(&self) -> i64 {
        (self.newest_ms - OVERLAP_MS).max(self.began_ms)
    }

    /// Returns the lines that were not there before; forgets what no later look reads. A look that
    /// finds nothing has seen all until some minutes ago.
    fn fresh(&mut self, lines: Vec<AttemptLine>, now_ms: i64) -> Vec<AttemptLine> {
        let ids = lines.iter().map(|line| line.id.clone()).collect();
        let before = std::mem::replace(&mut self.ids, ids);
        let newest = lines.iter().map(|line| line.at_ms).max();
        self.newest_ms = self.newest_ms.max(newest.unwrap_or(self.newest_ms));
        let fresh: Vec<_> = lines.into_iter().filter(|line| !before.contains(&line.id)).collect();
        if fresh.is_empty() {
            self.newest_ms = self.newest_ms.max(now_ms - QUIET_MS);
        }
        fresh
    }
}

/// Describes a line of the log: when, whose, which, what.
pub fn describe(line: &AttemptLine) -> String {
    let attempt = match line.attempt {
        Some(number) => format!("#{number}"),
        None if line.is_late_success() => "late".to_owned(),
        None => "end".to_owned(),
    };
    let AttemptLine { timestamp, delivery, .. } = line;
    let subscription = or_dash(line.subscription.as_ref());
    let described = line.describe();
    let mut text = format!("{timestamp}  {subscription}  {delivery}  {attempt}  {described}");
    for id in line.event_ids().iter().take(IDS_SHOWN_MAX) {
        text.push_str(&format!("  {}", in_line(id)));
    }
    if let Some(events) = line.events.filter(|events| *events > 1) {
        text.push_str(&format!("  ({events} events)"));
    }
    if let Some(trace) = &line.traceparent {
        text.push_str(&format!("  {trace}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str, at_ms: i64, outcome: &str) -> AttemptLine {
        let line = json!({"message": "attempt failed", "timestamp": "T", "delivery.id": "d",
            "subscription": "orders/billing", "outcome": outcome, "attempt": 1, "events": 2});
        let line = serde_json::from_value(line).expect("a line");
        AttemptLine { id: id.to_owned(), at_ms, ..line }
    }

    fn arguments() -> Filter {
        Filter::default()
    }

    #[test]
    fn filter_table() {
        let text = |text: &str| Some(text.to_owned());
        let table = [
            (arguments(), true, true),
            (Filter { topic: text("orders"), ..arguments() }, true, true),
            (Filter { topic: text("order"), ..arguments() }, false, false),
            (Filter { name: text("billing"), ..arguments() }, true, true),
            (Filter { name: text("audit"), ..arguments() }, false, false),
            (Filter { outcome: vec!["Busy".to_owned()], ..arguments() }, true, false),
            (Filter { failed: true, ..arguments() }, true, false),
        ];
        for (arguments, busy, delivered) in table {
            let wants = |outcome| arguments.wants(&line("1", 1, outcome));
            assert_eq!((wants("Busy"), wants("Delivered")), (busy, delivered), "{arguments:?}");
        }
    }

    #[test]
    fn a_late_success_is_among_what_failed() {
        let mut late = line("1", 1, "Delivered");
        late.message = "attempt succeeded late and is taken out of retry".to_owned();
        late.attempt = None;
        let filter = Filter { failed: true, ..arguments() };
        assert!(filter.wants(&late) && describe(&late).contains("  late  Delivered"));
    }

    #[test]
    fn a_line_is_printed_once() {
        let mut seen = Seen { began_ms: 1_000, newest_ms: 1_000, ids: HashSet::new() };
        let ids = |lines: Vec<AttemptLine>| lines.into_iter().map(|it| it.id).collect::<Vec<_>>();
        let [a, b, c] =
            [("a", 1_000), ("b", 200_000), ("c", 190_000)].map(|(id, at)| line(id, at, "Busy"));
        assert_eq!(ids(seen.fresh(vec![a.clone()], 2_000)), ["a"]);
        assert_eq!(
            (ids(seen.fresh(vec![a, b.clone()], 200_000)), seen.next_from()),
            (vec!["b".into()], 140_000)
        );
        // One of another instance, found late.
        assert_eq!(ids(seen.fresh(vec![c, b], 200_000)), ["c"]);
        assert!(describe(&line("1", 1, "Busy")).ends_with("#1  Busy  (2 events)"));
    }

    #[test]
    fn a_look_that_finds_nothing_moves_on() {
        let hour = 3_600_000;
        let mut seen = Seen { began_ms: 0, newest_ms: 0, ids: HashSet::new() };
        assert!(seen.fresh(Vec::new(), hour).is_empty());
        assert_eq!((seen.newest_ms, seen.next_from()), (hour - QUIET_MS, hour - QUIET_MS - 60_000));
        // A clock that is behind what was logged takes nothing back.
        seen.fresh(vec![line("a", hour, "Busy")], hour - 10);
        seen.fresh(Vec::new(), hour + 10);
        assert_eq!(seen.newest_ms, hour);
    }

    #[test]
    fn the_log_is_read_from_its_end() {
        let of = |from, now| slices(from, now).map(|it| (it.from_ms, it.to_ms)).collect::<Vec<_>>();
        assert_eq!(of(0, 500_000), [(0, None)]);
        assert_eq!(of(7, 7), [(7, None)]);
        assert_eq!(
            of(100_000, 1_500_000),
            [(900_000, None), (300_000, Some(900_000)), (100_000, Some(300_000))]
        );
    }

    #[test]
    fn what_is_left_out_is_known() {
        let lines = || (1..=5).map(|at| line(&at.to_string(), at, "Busy")).collect::<Vec<_>>();
        let of = |most, reached| {
            let CaughtUp { lines, begins_ms } = CaughtUp::newest(lines(), most, reached);
            (lines.len(), begins_ms)
        };
        assert_eq!(of(9, None), (5, None), "all of them");
        assert_eq!(of(9, Some(1)), (5, Some(1)), "not read any further");
        assert_eq!(of(2, None), (2, Some(4)), "too many");
        assert_eq!(CaughtUp::newest(Vec::new(), 2, None).begins_ms, None);
    }
}
