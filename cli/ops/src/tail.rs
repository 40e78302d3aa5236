//! Attempts as they are made, and deliveries as they end.

use std::{collections::HashSet, time::Duration};

use gridpost_api::journal::{
    JournalEntry, JournalQuery,
    query::{AttemptsQuery, JournalQueryInput},
};
use gridpost_core::{retry::outcome::Outcome, time::Timestamp};

use crate::{attempt_lines::AttemptLine, failure::Refusal, journal::Journal, output::in_line};

/// Ids of events in a line, at most; the number of events of a batch is shown, too.
const IDS_SHOWN_MAX: usize = 3;

/// Between two looks: behind the journal may be CloudWatch, whose calls have a rate for a whole account.
pub const POLL: Duration = Duration::from_secs(2);

/// How far before its position a resumed follower begins.
const OVERLAP_MS: i64 = 60_000;

/// A choice of attempts and ends.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub topic: Option<String>,
    pub name: Option<String>,
    /// Only attempts with one of these outcomes; none for all.
    pub outcome: Vec<Outcome>,
    /// Only attempts that failed or succeeded too late, and deliveries that ended undelivered.
    pub failed: bool,
}

impl Filter {
    fn from(&self, from: Timestamp) -> JournalQueryInput {
        let attempts = AttemptsQuery {
            topic: self.topic.clone(),
            event_subscription: self.name.clone(),
            event_id: None,
            from: Some(from.into()),
            to: None,
            failed: self.failed.then_some(true),
            outcomes: Some(self.outcome.clone()).filter(|outcomes| !outcomes.is_empty()),
        };
        JournalQueryInput { attempts: Some(attempts), ..JournalQueryInput::default() }
    }
}

/// Reads the chosen lines, each once.
pub struct Follower {
    journal: Journal,
    filter: Filter,
    seen: Seen,
    /// The gaps of the last answer, in words.
    pub gaps: Vec<String>,
}

/// The attempts made since a follower looked.
#[derive(Default)]
pub struct CaughtUp {
    /// The lines, oldest first.
    pub lines: Vec<AttemptLine>,
    /// The beginning of what is there: older attempts are left out, or no longer kept; `None` if all
    /// are there.
    pub begins_ms: Option<i64>,
}

impl Follower {
    /// Makes a follower that begins at that time.
    pub fn of(journal: Journal, filter: Filter, begin: Timestamp) -> Self {
        let seen = Seen { until: begin, ids: HashSet::new() };
        Self { journal, filter, seen, gaps: Vec::new() }
    }

    /// Makes a follower that goes on where another one was, and a little before: what happened may be known
    /// late. So it gives some lines again.
    pub fn resumed(journal: Journal, filter: Filter, position_ms: i64) -> Self {
        let begin = Timestamp::from_millis(position_ms.saturating_sub(OVERLAP_MS));
        Self::of(journal, filter, begin)
    }

    /// How far it has come, in milliseconds since the Unix epoch.
    pub fn position_ms(&self) -> i64 {
        self.seen.until.as_millis()
    }

    /// Returns the newest of the lines that are new since the last look, `most` at most; none where the journal asks to
    /// wait.
    pub async fn look(&mut self, most: usize) -> anyhow::Result<CaughtUp> {
        self.catch_up(most).await.or_else(|error| match error.downcast_ref::<Refusal>() {
            Some(refusal) if refusal.status == 429 => Ok(CaughtUp::default()),
            _ => Err(error),
        })
    }

    /// Returns the newest of what happened since it was left, `most` at most.
    pub async fn catch_up(&mut self, most: usize) -> anyhow::Result<CaughtUp> {
        let answer = self.journal.ask(self.filter.from(self.seen.until), most).await?;
        let oldest = answer.attempts.iter().flatten().next_back();
        // Lines older than one that was given have been given, too.
        let is_joined = oldest.is_some_and(|line| self.seen.ids.contains(&line.id));
        let (is_cut, begins) = (answer.next_link.is_some() && !is_joined, answer.begins);
        let mut lines = self.fresh(answer);
        let older = lines.len().saturating_sub(most);
        lines.drain(..older);
        let begins_ms = match lines.first() {
            Some(first) if is_cut || older > 0 => Some(first.time.0.as_millis()),
            _ => begins.map(|begins| begins.0.as_millis()),
        };
        Ok(CaughtUp { lines, begins_ms })
    }

    fn fresh(&mut self, answer: JournalQuery) -> Vec<AttemptLine> {
        self.gaps = answer.gaps();
        self.seen.fresh(answer)
    }
}

/// The entries that were given already.
struct Seen {
    /// Until then nothing is missing.
    until: Timestamp,
    /// The ids of later lines.
    ids: HashSet<String>,
}

impl Seen {
    /// Returns the lines that were not there before, oldest first; forgets what no later look reads.
    fn fresh(&mut self, answer: JournalQuery) -> Vec<AttemptLine> {
        let mut lines: Vec<AttemptLine> =
            answer.attempts.into_iter().flatten().map(AttemptLine).collect();
        lines.reverse();
        let ids = lines.iter().map(|line| line.id.clone()).collect();
        let before = std::mem::replace(&mut self.ids, ids);
        self.until = self.until.max(answer.known_until.map_or(self.until, |until| until.0));
        lines.retain(|line| !before.contains(&line.id));
        lines
    }
}

/// Describes a line: when, whose, which, what.
pub fn describe(line: &AttemptLine) -> String {
    let JournalEntry { time, delivery_id, event_ids, events, .. } = &line.0;
    let (subscription, label, described) = (line.subscription(), line.label(), line.describe());
    let mut text = format!("{time}  {subscription}  {delivery_id}  {label}  {described}");
    for id in event_ids.iter().take(IDS_SHOWN_MAX) {
        text.push_str(&format!("  {}", in_line(id)));
    }
    if *events > 1 {
        text.push_str(&format!("  ({events} events)"));
    }
    if let Some(trace) = &line.traceparent {
        text.push_str(&format!("  {}", in_line(trace)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        manage_api::ManageApi,
        testkit::{FakeApi, documents},
    };

    fn entry(id: &str, time: &str) -> Value {
        documents::journal_entry(&json!({"id": id, "time": time, "events": 2}))
    }

    fn answer(entries: &[Value], patch: &Value) -> Value {
        let mut answer = documents::journal_query(patch);
        answer["attempts"] = json!(entries);
        answer
    }

    fn seen(document: Value) -> JournalQuery {
        serde_json::from_value(document).expect("an answer")
    }

    fn ids(lines: &[AttemptLine]) -> Vec<&str> {
        lines.iter().map(|line| line.id.as_str()).collect()
    }

    async fn follower(rows: &[(&str, u16, Value)]) -> (FakeApi, Follower) {
        let api = FakeApi::answering(rows).await;
        let manage = ManageApi::connect(&api.url()).await.expect("a client");
        let journal = Journal::of(manage, None);
        (api, Follower::of(journal, Filter::default(), Timestamp::from_millis(0)))
    }

    #[test]
    fn a_filter_is_asked_of_the_journal() {
        let from = Timestamp::from_millis(1);
        let text = |text: &str| Some(text.to_owned());
        let filter = Filter { topic: text("orders"), name: text("one"), ..Filter::default() };
        let failed = Filter { failed: true, ..Filter::default() };
        let busy = Filter { outcome: vec![Outcome::Busy], ..Filter::default() };
        let time = "1970-01-01T00:00:00.001Z";
        for (filter, want) in [
            (filter, json!({"topic": "orders", "eventSubscription": "one", "from": time})),
            (failed, json!({"failed": true, "from": time})),
            (busy, json!({"outcomes": ["Busy"], "from": time})),
        ] {
            assert_eq!(json!(filter.from(from)), json!({"attempts": want}));
        }
    }

    #[test]
    fn a_line_is_given_once() {
        let mut state = Seen { until: Timestamp::from_millis(0), ids: HashSet::new() };
        let [early, late] = ["2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"];
        let known = json!({"knownUntil": "2026-01-01T00:00:05Z"});
        let first = state.fresh(seen(answer(&[entry("b", late), entry("a", early)], &known)));
        assert_eq!(ids(&first), ["a", "b"]);
        assert_eq!(state.until.to_iso_8601(), "2026-01-01T00:00:05.000Z");
        // One that became known late.
        let second = state.fresh(seen(answer(&[entry("b", late), entry("c", late)], &known)));
        assert_eq!(ids(&second), ["c"]);
        let back = json!({"knownUntil": "2026-01-01T00:00:00Z"});
        assert!(state.fresh(seen(answer(&[entry("b", late)], &back))).is_empty());
        assert_eq!(state.until.to_iso_8601(), "2026-01-01T00:00:05.000Z", "never back");
    }

    #[tokio::test]
    async fn a_follower_reads_all_pages_and_waits_where_it_is_asked_to() {
        let time = "2026-01-01T00:00:01Z";
        let next = "/journalQueries/q?$skiptoken=x";
        let first = answer(&[entry("b", time)], &json!({"nextLink": next}));
        let rest = answer(&[entry("a", time)], &json!({}));
        let rows = [("POST /journalQueries ", 200, first), ("GET /journalQueries/q?", 200, rest)];
        let (_api, mut all) = follower(&rows).await;
        assert_eq!(ids(&all.look(usize::MAX).await.expect("lines").lines), ["a", "b"]);
        assert!(all.look(usize::MAX).await.expect("lines").lines.is_empty(), "each once");
        let (_api, mut busy) = follower(&[("POST /journalQueries ", 429, json!({}))]).await;
        assert!(busy.look(1).await.expect("no error").lines.is_empty());
        let (_api, mut denied) = follower(&[("POST /journalQueries ", 403, json!({}))]).await;
        assert!(denied.look(1).await.is_err());
    }

    #[tokio::test]
    async fn what_is_left_out_is_known() {
        let entries = ["5", "4", "3"].map(|at| entry(at, &format!("2026-01-01T00:00:0{at}Z")));
        let ms = |time: &str| Timestamp::parse_rfc_3339(time).map(Timestamp::as_millis);
        let next = json!({"nextLink": "/journalQueries/q?x"});
        // (what the answer says, how many lines are wanted, the one that was given before, where what is there begins)
        for (patch, most, given, want) in [
            (json!({}), 3, "", None),
            (json!({}), 2, "", ms("2026-01-01T00:00:04Z")),
            (json!({"begins": "2026-01-01T00:00:02Z"}), 3, "", ms("2026-01-01T00:00:02Z")),
            (next.clone(), 3, "", ms("2026-01-01T00:00:03Z")),
            (next.clone(), 2, "3", None),
            (next, 1, "3", ms("2026-01-01T00:00:05Z")),
        ] {
            let rows = [("POST /journalQueries ", 200, answer(&entries, &patch))];
            let (_api, mut follower) = follower(&rows).await;
            follower.seen.ids.insert(given.to_owned());
            let CaughtUp { lines, begins_ms } = follower.look(most).await.expect("a look");
            let all = ["3", "4", "5"];
            assert_eq!((ids(&lines), begins_ms), (all[3 - most..].to_vec(), want), "{patch}");
        }
    }

    #[test]
    fn a_line_is_told() {
        let told = |patch: &Value| {
            let entry = serde_json::from_value(documents::journal_entry(patch));
            describe(&AttemptLine(entry.expect("an entry")))
        };
        let line = told(&json!({"events": 2, "eventIds": ["a\u{1b}[2J"], "traceparent": "t"}));
        assert!(line.starts_with("2026-01-01T00:00:00.000Z  orders/one  0000"), "{line}");
        assert!(line.contains("  #1  Busy (503) after 41 ms  a"), "{line}");
        assert!(line.ends_with("  (2 events)  t") && !line.contains('\u{1b}'), "{line}");
        let late = json!({"kind": "LateSuccess", "outcome": "Delivered"});
        assert!(told(&late).contains("  late  Delivered"));
        assert!(told(&json!({"kind": "Dropped"})).contains("  end  LOST"));
    }
}
