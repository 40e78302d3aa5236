//! A journal that answers from entries and counts in memory.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use gridpost_core::{
    journal::{
        Answer, AttemptsQuestion, Count, Entry, EntryKind, Known, LedgerQuestion, Owner, Question,
        Series, SeriesQuestion,
    },
    ledger::Ledger,
    name::is_same,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{JournalError, JournalReader, JournalReply, PortError, Progress, Reads};

/// A journal in memory.
#[derive(Debug, Default)]
pub struct FakeJournal {
    /// In the order in which they happened.
    entries: Mutex<Vec<Entry>>,
    /// With the times at which they were counted.
    counts: Mutex<Vec<(Timestamp, Count)>>,
    /// Failures instead of the next answers.
    instead: Mutex<VecDeque<Instead>>,
    asked: Mutex<Vec<(Question, Option<f64>)>>,
    settings: Mutex<JournalSettings>,
}

/// A failure instead of an answer.
#[derive(Clone, Debug)]
pub enum Instead {
    Running,
    TooDear,
    Error(JournalError),
}

/// How a journal answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalSettings {
    pub reads: Reads,
    pub known_until: Timestamp,
    pub begins: Option<Timestamp>,
    /// It leaves out first attempts that succeed.
    pub lacks_first_successes: bool,
    /// A page of a series has one step.
    pub gives_single_steps: bool,
    /// It says how many events wait.
    pub counts_waiting: bool,
}

impl FakeJournal {
    /// Adds an entry and its count.
    pub fn note(&self, entry: Entry) {
        if let Some(count) = entry.count() {
            self.count(entry.at, count);
        }
        self.entries.lock().expect("no panic").push(entry);
    }

    /// Counts at that time.
    pub fn count(&self, at: Timestamp, count: Count) {
        self.counts.lock().expect("no panic").push((at, count));
    }

    /// Has the next answers replaced.
    pub fn instead(&self, all: impl IntoIterator<Item = Instead>) {
        self.instead.lock().expect("no panic").extend(all);
    }

    pub fn set(&self, settings: JournalSettings) {
        *self.settings.lock().expect("no panic") = settings;
    }

    /// Returns the questions until now, and what each might cost.
    pub fn asked(&self) -> Vec<(Question, Option<f64>)> {
        self.asked.lock().expect("no panic").clone()
    }

    fn attempts(
        &self,
        asked: &AttemptsQuestion,
        page: Option<&str>,
    ) -> Result<(Known, Option<String>), JournalError> {
        let settings = *self.settings.lock().expect("no panic");
        let from = settings.begins.map_or(asked.from, |begins| begins.max(asked.from));
        let entries = self.entries.lock().expect("no panic");
        let mut found: Vec<_> = entries
            .iter()
            .filter(|entry| (from..asked.to).contains(&entry.at))
            .filter(|entry| wants(asked, entry))
            .filter(|entry| {
                let is_first = entry.kind == EntryKind::Success && entry.attempt == 1;
                !(settings.lacks_first_successes && is_first)
            })
            .map(|entry| (id_of(entry), entry.clone()))
            .collect();
        found.reverse();
        found.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at));
        let begin = match page {
            None => 0,
            Some(last) => {
                1 + found.iter().position(|(id, _)| id == last).ok_or(JournalError::Page)?
            }
        };
        let is_last = found.len() <= begin + asked.most;
        let page: Vec<_> = found.into_iter().skip(begin).take(asked.most).collect();
        let next = page.last().filter(|_| !is_last).map(|(id, _)| id.clone());
        Ok((Known::Attempts(page), next))
    }

    fn ledgers(&self, asked: &LedgerQuestion) -> Known {
        let mut periods = vec![Ledger::default(); asked.cuts.len() + 1];
        for (at, count) in self.counts.lock().expect("no panic").iter() {
            let is_of_the_time = count.publish_time.hour() >= asked.from.hour() && *at < asked.to;
            if is_of_the_time && is_of(&count.owner, &asked.topic, &asked.subscription) {
                periods[asked.cuts.partition_point(|cut| cut <= at)].count(count);
            }
        }
        Known::Ledger(periods)
    }

    fn series(
        &self,
        asked: &SeriesQuestion,
        page: Option<&str>,
    ) -> Result<(Known, Option<String>), JournalError> {
        let mut series = Series::of(asked.by);
        for (at, count) in self.counts.lock().expect("no panic").iter() {
            let is_of_the_time = (asked.from..asked.to).contains(at);
            if is_of_the_time && is_of(&count.owner, &asked.topic, &asked.subscription) {
                series.add(asked.begin(*at), count);
            }
        }
        let mut next = None;
        if self.settings.lock().expect("no panic").gives_single_steps {
            let place =
                page.map(|page| page.parse().map_err(|_| JournalError::Page)).transpose()?;
            let flows = &mut series.flows;
            flows.retain(|(begins, _), _| begins.as_millis() >= place.unwrap_or(i64::MIN));
            let first = flows.keys().next().map(|(begins, _)| *begins);
            next = flows.keys().map(|(begins, _)| *begins).find(|begins| Some(*begins) != first);
            flows.retain(|(begins, _), _| Some(*begins) == first);
        }
        Ok((Known::Series(series), next.map(|next| next.as_millis().to_string())))
    }
}

/// Returns the key of an entry.
fn id_of(entry: &Entry) -> String {
    let Entry { kind, delivery, attempt, part, .. } = entry;
    format!("{delivery}/{attempt}/{kind}/{part}")
}

fn wants(asked: &AttemptsQuestion, entry: &Entry) -> bool {
    let ids: Vec<String> = serde_json::from_str(&entry.event_ids).unwrap_or_default();
    is_of(&Owner::Subscription(entry.subscription.clone()), &asked.topic, &asked.subscription)
        && asked.event_id.as_ref().is_none_or(|id| ids.contains(id))
        && (!asked.failed || entry.kind.is_failed())
        && (asked.outcomes.is_empty()
            || entry.outcome.is_some_and(|outcome| asked.outcomes.contains(&outcome)))
}

/// Whether something is a topic's or an event subscription's of those names. A topic has no name of an event
/// subscription.
pub(crate) fn is_of(owner: &Owner, topic: &Option<String>, subscription: &Option<String>) -> bool {
    topic.as_ref().is_none_or(|topic| is_same(topic, owner.topic()))
        && subscription
            .as_ref()
            .is_none_or(|name| owner.name().is_some_and(|own| is_same(name, own)))
}

#[async_trait]
impl JournalReader for FakeJournal {
    async fn ask(
        &self,
        question: &Question,
        page: Option<&str>,
        max_dollars: Option<f64>,
    ) -> Result<JournalReply, JournalError> {
        self.asked.lock().expect("no panic").push((question.clone(), max_dollars));
        let settings = *self.settings.lock().expect("no panic");
        let reply = |progress| Ok(JournalReply { reads: settings.reads, progress });
        match self.instead.lock().expect("no panic").pop_front() {
            Some(Instead::Running) => return reply(Progress::Running),
            Some(Instead::TooDear) => return reply(Progress::TooDear),
            Some(Instead::Error(error)) => return Err(error),
            None => {}
        }
        let (known, next) = match question {
            Question::Attempts(asked) => self.attempts(asked, page)?,
            Question::Ledger(asked) => (self.ledgers(asked), None),
            Question::Series(asked) => self.series(asked, page)?,
        };
        reply(Progress::Answered(Answer {
            known,
            known_until: settings.known_until,
            begins: settings.begins,
            lacks_first_successes: settings.lacks_first_successes,
            next,
        }))
    }

    async fn waiting(&self, of: &[SubscriptionKey]) -> Result<Option<Vec<u64>>, PortError> {
        if !self.settings.lock().expect("no panic").counts_waiting {
            return Ok(None);
        }
        let counts = self.counts.lock().expect("no panic");
        let waiting = |key: &SubscriptionKey| {
            let own = Owner::Subscription(key.clone());
            let counts = counts.iter().filter(|(_, count)| count.owner == own);
            let changes = counts.map(|(_, count)| {
                count.counted.waiting_change() * i64::try_from(count.events).expect("few")
            });
            u64::try_from(changes.sum::<i64>()).unwrap_or(0)
        };
        Ok(Some(of.iter().map(waiting).collect()))
    }
}
