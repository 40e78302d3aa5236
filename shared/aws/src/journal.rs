//! The journal's reader on the functions' logs.
//!
//! A small question is answered at once, from pages of lines, which are free. A large one is a run of Logs
//! Insights, which costs money and is looked at again.

mod lines;
mod plan;
mod query;
mod run;
mod service;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    journal::{Answer, AttemptsQuestion, Entry, Known, Question},
    time::Timestamp,
};
use gridpost_ports::{
    Clock, JournalError, JournalReader, JournalReply, PortError, Progress, Reads, Saved,
    log_store::{LogError, LogLine, LogQuery, LogRange, LogResults, LogStore, Row},
};
use tokio::time::{Instant, sleep_until};

use self::{
    lines::Counts,
    plan::{Plan, Position},
    query::ROWS_MAX,
};
pub use self::{
    run::{Part, Run, RunStore},
    service::{CloudWatchLogs, RunTable},
};

/// Pages that a question reads at most.
const PAGES_MAX: usize = 20;

/// How long it reads them at most; manage has 29 s.
const READS_FOR: Duration = Duration::from_secs(15);

/// Between two calls: the service takes five of a kind in a second from a whole account. Source: Amazon
/// CloudWatch Logs quotas.
const PAUSE: Duration = Duration::from_millis(220);

/// A question that reads more bytes is not tried by pages. A page has at most 1 MB of matching lines.
const TRIED_BYTES: f64 = 1e8;

/// How much longer each slice of time is than the newer one before it.
const SLICE_GROWTH: i64 = 16;

/// How long the last answer with counts is kept in memory for its next pages.
const REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);

/// Lines may be found some seconds after they were logged.
const SETTLES_FOR_MS: i64 = 10_000;

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// Entries with their ids.
type Entries = Vec<(Position, Entry)>;

/// The deployment whose logs are read.
#[derive(Clone, Debug)]
pub struct LoggedDeployment {
    pub name_prefix: String,
    /// Whether first attempts that succeed are logged.
    pub logs_first_successes: bool,
}

/// Reads the journal from CloudWatch Logs.
pub struct LoggedJournal {
    logs: Arc<dyn LogStore>,
    runs: Arc<dyn RunStore>,
    clock: Arc<dyn Clock>,
    deployment: LoggedDeployment,
    /// When the service may be called again.
    next_call: Mutex<Instant>,
    last: Mutex<Option<Remembered>>,
}

/// An answer with the key of its question, and when it was made.
struct Remembered {
    key: String,
    at: Instant,
    reply: JournalReply,
}

#[async_trait]
impl JournalReader for LoggedJournal {
    async fn ask(
        &self,
        question: &Question,
        page: Option<&str>,
        max_dollars: Option<f64>,
    ) -> Result<JournalReply> {
        let after = page.map(|token| Position::read(token, question)).transpose()?;
        let (key, now) = (plan::key(question), self.clock.now());
        // A further page of counts, whose reader cuts pages itself.
        if max_dollars.is_none()
            && let Some(reply) = self.remembered(&key)
        {
            return Ok(reply);
        }
        let stored = self.runs.load(&key).await?;
        if let Some((run, revision)) = &stored
            && run.is_known(now)
        {
            return self.look(question, after, &key, run.clone(), *revision).await;
        }
        let plan = self.plan(question, now).await?;
        let reads = plan.reads(now);
        if reads.gigabytes * 1e9 <= TRIED_BYTES || is_read_from_its_end(question) {
            let (known, next) = match Counts::of(question) {
                Some(counts) => (self.read_counts(&plan, counts).await?, None),
                None => self.read_entries(question, &plan, after).await?,
            };
            if let Some(known) = known {
                let progress = Progress::Answered(self.answer(known, now, plan.begins, next));
                let reply = JournalReply { reads: Reads::default(), progress };
                if Counts::of(question).is_some() {
                    let (at, reply) = (Instant::now(), reply.clone());
                    *self.last.lock().expect("no panic while held") =
                        Some(Remembered { key, at, reply });
                }
                return Ok(reply);
            }
        }
        plan::check_size(question)?;
        let Some(max_dollars) = max_dollars else { return Err(JournalError::Forgotten) };
        if reads.dollars > max_dollars {
            return Ok(JournalReply { reads, progress: Progress::TooDear });
        }
        let run = Run::of(question, plan, max_dollars, now);
        let revision = stored.map_or(0, |(_, revision)| revision);
        self.start(question, &key, run, revision).await
    }
}

/// Whether some of the newest entries are an answer.
fn is_read_from_its_end(question: &Question) -> bool {
    matches!(question, Question::Attempts(AttemptsQuestion { event_id: None, .. }))
}

/// Pages that may still be read.
struct Budget {
    pages: usize,
    until: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { pages: PAGES_MAX, until: Instant::now() + READS_FOR }
    }

    /// Takes a page. Returns whether there may be one.
    fn take(&mut self) -> bool {
        let is_left = self.pages > 0 && Instant::now() < self.until;
        self.pages = self.pages.saturating_sub(1);
        is_left
    }
}

impl LoggedJournal {
    /// Makes a reader.
    pub fn new(
        logs: Arc<dyn LogStore>,
        runs: Arc<dyn RunStore>,
        clock: Arc<dyn Clock>,
        deployment: LoggedDeployment,
    ) -> Self {
        let next_call = Mutex::new(Instant::now());
        Self { logs, runs, clock, deployment, next_call, last: Mutex::default() }
    }

    fn remembered(&self, key: &str) -> Option<JournalReply> {
        let last = self.last.lock().expect("no panic while held");
        let last = last.as_ref().filter(|last| last.key == key);
        last.filter(|last| last.at.elapsed() < REMEMBERED_FOR).map(|last| last.reply.clone())
    }

    /// Waits for the turn of a call.
    async fn pause(&self) {
        let turn = {
            let mut next = self.next_call.lock().expect("no panic while held");
            let turn = (*next).max(Instant::now());
            *next = turn + PAUSE;
            turn
        };
        sleep_until(turn).await;
    }

    async fn plan(&self, question: &Question, now: Timestamp) -> Result<Plan> {
        let prefix = &self.deployment.name_prefix;
        let named = plan::group(prefix, "");
        let groups = self.logs.groups(&named).await.map_err(|error| self.error(error))?;
        let plan = Plan::of(question, groups, prefix, now);
        if plan.groups.is_empty() {
            let reason = format!("there is no log group of a function, such as {named}dispatch");
            return Err(PortError::new("logs:DescribeLogGroups", reason).into());
        }
        Ok(plan)
    }

    fn answer(
        &self,
        known: Known,
        read_at: Timestamp,
        begins: Option<Timestamp>,
        next: Option<String>,
    ) -> Answer {
        Answer {
            known,
            known_until: Timestamp::from_millis(read_at.as_millis() - SETTLES_FOR_MS),
            begins,
            lacks_first_successes: !self.deployment.logs_first_successes,
            next,
        }
    }

    fn error(&self, error: LogError) -> JournalError {
        match error {
            LogError::Missing => {
                PortError::new("logs", "the log group or the query is no longer there").into()
            }
            LogError::Busy => JournalError::Busy,
            LogError::Denied(permission) => JournalError::Denied(format!(
                "the role of the function {0}-manage lacks the permission {permission} for the \
                 log groups {1}…: apply the Terraform module of this version",
                self.deployment.name_prefix,
                plan::group(&self.deployment.name_prefix, "")
            )),
            LogError::Failed(error) => error.into(),
        }
    }

    /// Takes each line of a range. Returns whether all were read.
    async fn each_line(
        &self,
        range: &LogRange<'_>,
        budget: &mut Budget,
        mut take: impl FnMut(LogLine),
    ) -> Result<bool> {
        let mut token = None;
        loop {
            if !budget.take() {
                return Ok(false);
            }
            self.pause().await;
            let page = match self.logs.page(range, token).await {
                Ok(page) => page,
                // It was there when the question was planned.
                Err(LogError::Missing) => return Ok(true),
                Err(error) => return Err(self.error(error)),
            };
            page.lines.into_iter().for_each(&mut take);
            token = page.next;
            if token.is_none() {
                return Ok(true);
            }
        }
    }

    async fn read_counts(&self, plan: &Plan, mut counts: Counts<'_>) -> Result<Option<Known>> {
        let mut budget = Budget::new();
        let pattern = counts.pattern();
        for group in &plan.groups {
            let range = LogRange { group, from: plan.from, to: plan.to, pattern: &pattern };
            let take = |line: LogLine| counts.take(line.at, &line.text);
            if !self.each_line(&range, &mut budget, take).await? {
                return Ok(None);
            }
        }
        Ok(Some(counts.known()))
    }

    /// Reads a page of entries, the newest slice of time first. Returns `None` if there may be more that
    /// belong to it.
    async fn read_entries(
        &self,
        question: &Question,
        plan: &Plan,
        after: Option<Position>,
    ) -> Result<(Option<Known>, Option<String>)> {
        let Question::Attempts(asked) = question else { return Ok((None, None)) };
        let pattern = lines::attempts_pattern(asked);
        let (mut budget, mut found, mut length_ms) = (Budget::new(), Vec::new(), plan.slice_ms());
        let end = after.as_ref().map(|it| Timestamp::from_millis(it.at.as_millis() + 1));
        let mut to = end.unwrap_or(plan.to).min(plan.to);
        while to > plan.from && found.len() <= asked.most {
            let from = Timestamp::from_millis(to.as_millis() - length_ms).max(plan.from);
            let mut slice = Vec::new();
            for group in &plan.groups {
                let range = LogRange { group, from, to, pattern: &pattern };
                let take = |line: LogLine| slice.extend(wanted(&line, asked, after.as_ref()));
                if !self.each_line(&range, &mut budget, take).await? {
                    // A page shorter than was asked for is the last one.
                    let is_page = is_read_from_its_end(question) && !found.is_empty();
                    let rest = Position { at: to, id: String::new() };
                    let page = is_page.then(|| page(question, found, Some(rest)));
                    return Ok(page.map_or((None, None), |(known, next)| (Some(known), next)));
                }
            }
            found.append(&mut slice);
            to = from;
            length_ms = length_ms.saturating_mul(SLICE_GROWTH);
        }
        let rest = (to > plan.from).then(|| Position { at: to, id: String::new() });
        let (known, next) = page(question, found, rest);
        Ok((Some(known), next))
    }

    /// Starts the queries of a run that have not been started.
    async fn start(
        &self,
        question: &Question,
        key: &str,
        mut run: Run,
        revision: u64,
    ) -> Result<JournalReply> {
        run.claim(self.clock.now());
        if self.runs.save(key, &run, revision).await? == Saved::Conflict {
            return Ok(running(&run));
        }
        let (groups, mut refused) = (run.groups.clone(), None);
        for part in run.parts.iter_mut().filter(|part| part.query_id.is_none()) {
            let (from, to) = (part.from, part.to);
            let text = query::text(question, from, to);
            self.pause().await;
            match self.logs.start(&LogQuery { groups: &groups, from, to, text }).await {
                Ok(id) => part.query_id = Some(id),
                Err(error) => {
                    refused = Some(self.error(error));
                    break;
                }
            }
        }
        run.release();
        self.runs.save(key, &run, revision + 1).await?;
        // Where some are under way, the next look starts the others.
        let is_under_way = run.parts.iter().any(|part| part.query_id.is_some());
        match refused {
            Some(JournalError::Busy) if is_under_way => Ok(running(&run)),
            Some(error) => Err(error),
            None => Ok(running(&run)),
        }
    }

    /// Looks at a run, and goes on with it.
    async fn look(
        &self,
        question: &Question,
        after: Option<Position>,
        key: &str,
        mut run: Run,
        revision: u64,
    ) -> Result<JournalReply> {
        if run.is_claimed(self.clock.now()) {
            return Ok(running(&run));
        }
        let mut reading = Reading::of(question, run.begins);
        for part in run.parts.iter().filter(|part| part.query_id.is_some()) {
            self.pause().await;
            let id = part.query_id.as_deref().unwrap_or_default();
            let results = match self.logs.results(id).await {
                // Too many calls: the query goes on all the same.
                Err(LogError::Busy) => LogResults::Running,
                results => results.map_err(|error| self.error(error))?,
            };
            match results {
                LogResults::Running => {}
                LogResults::Complete { rows, bytes_read } => {
                    reading.bytes += bytes_read;
                    reading.take(question, after.as_ref(), part, &rows);
                }
                LogResults::Ended(state) => {
                    run.forget();
                    self.runs.save(key, &run, revision).await?;
                    let reason = format!("the query of the log ended as {state}: ask again");
                    return Err(PortError::new("logs:StartQuery", reason).into());
                }
            }
        }
        let is_all = reading.parts == run.parts.len();
        let mut is_split = false;
        for part in &reading.full {
            let index = run.parts.iter().position(|it| it == part);
            is_split |= index.is_some_and(|index| run.split(index));
        }
        if is_split || run.parts.iter().any(|part| part.query_id.is_none()) {
            return self.start(question, key, run, revision).await;
        }
        if !is_all {
            return Ok(running(&run));
        }
        let reads = plan::reads(reading.bytes);
        let begins = reading.begins;
        let (known, next) = reading.known(question)?;
        let answer = self.answer(known, run.started_at, begins, next);
        Ok(JournalReply { reads, progress: Progress::Answered(answer) })
    }
}

/// The findings of a run's queries; of entries, those of a page alone.
struct Reading<'q> {
    counts: Option<Counts<'q>>,
    found: Entries,
    begins: Option<Timestamp>,
    /// Bytes that were read.
    bytes: f64,
    /// Queries that are complete.
    parts: usize,
    /// Those that may have left out rows.
    full: Vec<Part>,
}

impl<'q> Reading<'q> {
    fn of(question: &'q Question, begins: Option<Timestamp>) -> Self {
        let (counts, found, full) = (Counts::of(question), Vec::new(), Vec::new());
        Self { counts, found, begins, bytes: 0.0, parts: 0, full }
    }

    fn take(&mut self, question: &Question, after: Option<&Position>, part: &Part, rows: &[Row]) {
        self.parts += 1;
        let is_full = rows.len() >= ROWS_MAX;
        self.full.extend(is_full.then(|| part.clone()));
        if let Some(counts) = &mut self.counts {
            for line in rows.iter().filter_map(|row| query::counts_of(row, part.from)) {
                counts.take(line.at, &line.text);
            }
        }
        if let Question::Attempts(asked) = question {
            let lines = || rows.iter().filter_map(query::line_of);
            // Entries of the last one's millisecond may be missing.
            if is_full && let Some(oldest) = lines().map(|line| line.at).min() {
                self.begins = self.begins.max(Some(oldest + Duration::from_millis(1)));
            }
            self.found.extend(lines().filter_map(|line| wanted(&line, asked, after)));
            newest(&mut self.found, asked.most + 1);
        }
    }

    fn known(mut self, question: &Question) -> Result<(Known, Option<String>)> {
        if let Some(counts) = self.counts {
            let is_whole = self.full.is_empty();
            return if is_whole { Ok((counts.known(), None)) } else { Err(too_many_counts()) };
        }
        let begins = self.begins;
        self.found.retain(|(position, _)| begins.is_none_or(|begins| position.at >= begins));
        Ok(page(question, self.found, None))
    }
}

fn running(run: &Run) -> JournalReply {
    JournalReply { reads: plan::reads(run.bytes), progress: Progress::Running }
}

fn too_many_counts() -> JournalError {
    JournalError::TooMuch(format!(
        "the counts have more than {ROWS_MAX} rows: name a topic or an event subscription, or ask for \
         less time"
    ))
}

/// Reads a line's entry, if it is asked for and comes after that place.
fn wanted(
    line: &LogLine,
    asked: &AttemptsQuestion,
    after: Option<&Position>,
) -> Option<(Position, Entry)> {
    let (id, entry) = lines::entry(line)?;
    let position = Position { at: entry.at, id };
    let is_after = after.is_none_or(|after| position < *after);
    (is_after && lines::is_wanted(&entry, asked)).then_some((position, entry))
}

/// Leaves the newest entries, each once, newest first.
fn newest(found: &mut Entries, most: usize) {
    found.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    found.dedup_by(|(one, _), (other, _)| one == other);
    found.truncate(most);
}

/// Makes a page of the newest entries, and the token of the next one. `rest` is the place after which more
/// were not read.
fn page(
    question: &Question,
    mut found: Entries,
    rest: Option<Position>,
) -> (Known, Option<String>) {
    let most = match question {
        Question::Attempts(asked) => asked.most,
        Question::Ledger(_) | Question::Series(_) => 0,
    };
    newest(&mut found, most + 1);
    let is_cut = found.len() > most;
    found.truncate(most);
    let last = found.last().map(|(position, _)| position.clone());
    let next = if is_cut { last } else { rest };
    let entries = found.into_iter().map(|(position, entry)| (position.id, entry)).collect();
    (Known::Attempts(entries), next.map(|next| next.token(question)))
}
