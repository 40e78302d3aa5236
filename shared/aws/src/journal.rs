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
    log_store::{LogError, LogLine, LogQuery, LogRange, LogResults, LogStore},
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

/// How much shorter the first slice becomes where the log is denser than on average.
const SLICE_SHRINKAGE: i64 = 64;

/// How long the last answer is kept in memory for its next pages.
const REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);

/// Lines are mostly found within seconds. AWS promises less: the Lambda developer guide says "5 to 10
/// minutes".
const SETTLES_FOR_MS: i64 = 60_000;

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

/// The last answer.
struct Remembered {
    /// That of its question.
    key: String,
    at: Instant,
    /// Its entries come after this place.
    after: Option<Position>,
    found: Findings,
    read_at: Timestamp,
    begins: Option<Timestamp>,
}

/// The findings of a question; of entries, those of a page or more.
enum Findings {
    Counts(Known),
    /// The newest first, and the place after which more were not read.
    Entries(Entries, Option<Position>),
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
        // Counts have no further pages here: their reader cuts them.
        if max_dollars.is_none()
            && let Some(reply) = self.remembered(question, &key, after.as_ref())
        {
            return Ok(reply);
        }
        let stored = self.runs.load(&key).await?;
        if let Some((run, revision)) = &stored
            && run.is_known(now)
        {
            return self.look(question, after.as_ref(), &key, run.clone(), *revision).await;
        }
        let plan = self.plan(question, now).await?;
        let reads = plan.reads(now);
        if reads.gigabytes * 1e9 <= TRIED_BYTES || is_read_from_its_end(question) {
            let found = match Counts::of(question) {
                Some(counts) => self.read_counts(&plan, counts).await?,
                None => self.read_entries(question, &plan, after.as_ref()).await?,
            };
            if let Some(found) = found {
                let (at, read_at, begins) = (Instant::now(), now, plan.begins);
                let last = Remembered { key, at, after, found, read_at, begins };
                let reply = self.reply(question, &last, last.after.as_ref());
                *self.last.lock().expect("no panic while held") = Some(last);
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
    /// Pages that are kept for further tries.
    reserve: usize,
    until: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { pages: PAGES_MAX, reserve: 0, until: Instant::now() + READS_FOR }
    }

    fn is_left(&self) -> bool {
        self.pages > self.reserve && Instant::now() < self.until
    }

    /// Takes a page. Returns whether there may be one.
    fn take(&mut self) -> bool {
        let is_left = self.is_left();
        self.pages -= usize::from(is_left);
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

    /// Returns the page of the last answer that comes after that place, if it was read with it.
    fn remembered(
        &self,
        question: &Question,
        key: &str,
        after: Option<&Position>,
    ) -> Option<JournalReply> {
        let last = self.last.lock().expect("no panic while held");
        let last = last.as_ref().filter(|it| it.key == key && it.at.elapsed() < REMEMBERED_FOR)?;
        let first = last.after.as_ref();
        if first.is_some_and(|first| after.is_none_or(|after| after > first)) {
            return None;
        }
        let reply = self.reply(question, last, after);
        let is_beyond = matches!(
            &reply.progress,
            Progress::Answered(Answer { known: Known::Attempts(some), next: Some(_), .. })
                if some.is_empty()
        );
        (!is_beyond).then_some(reply)
    }

    /// Makes the free reply with a page of what was read.
    fn reply(
        &self,
        question: &Question,
        read: &Remembered,
        after: Option<&Position>,
    ) -> JournalReply {
        let (known, next) = page(question, &read.found, after);
        let answer = self.answer(known, read.read_at, read.begins, next);
        JournalReply { reads: Reads::default(), progress: Progress::Answered(answer) }
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

    /// Takes each line of a range, which may be empty. Returns whether all were read.
    async fn each_line(
        &self,
        range: &LogRange<'_>,
        budget: &mut Budget,
        mut take: impl FnMut(LogLine),
    ) -> Result<bool> {
        if range.from >= range.to {
            return Ok(true);
        }
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

    async fn read_counts(&self, plan: &Plan, mut counts: Counts<'_>) -> Result<Option<Findings>> {
        let mut budget = Budget::new();
        let pattern = counts.pattern();
        for group in &plan.groups {
            let range = LogRange { group, from: plan.from, to: plan.to, pattern: &pattern };
            let take = |line: LogLine| counts.take(line.at, &line.text);
            if !self.each_line(&range, &mut budget, take).await? {
                return Ok(None);
            }
        }
        Ok(Some(Findings::Counts(counts.known())))
    }

    /// Reads a page of entries or more, the newest slice of time first. Returns `None` if there may be more
    /// that belong to the page.
    async fn read_entries(
        &self,
        question: &Question,
        plan: &Plan,
        after: Option<&Position>,
    ) -> Result<Option<Findings>> {
        let Question::Attempts(asked) = question else { return Ok(None) };
        let pattern = lines::attempts_pattern(asked);
        let (mut budget, mut found, mut length_ms) = (Budget::new(), Vec::new(), plan.slice_ms());
        let end = after.map_or(plan.to, |it| Timestamp::from_millis(it.at.as_millis() + 1));
        let (end, is_by_pages) = (end.min(plan.to), is_read_from_its_end(question));
        let mut to = end;
        while to > plan.from && found.len() <= asked.most {
            let from = Timestamp::from_millis(to.as_millis() - length_ms).max(plan.from);
            let may_shrink = is_by_pages && to == end;
            budget.reserve = if may_shrink { budget.pages * 3 / 4 } else { 0 };
            let (mut slice, mut is_whole) = (Vec::new(), true);
            for group in &plan.groups {
                let range = LogRange { group, from, to, pattern: &pattern };
                let take = |line: LogLine| slice.extend(wanted(&line, asked, after));
                is_whole = is_whole && self.each_line(&range, &mut budget, take).await?;
            }
            if is_whole {
                found.append(&mut slice);
                to = from;
                length_ms = length_ms.saturating_mul(SLICE_GROWTH);
                continue;
            }
            budget.reserve = 0;
            if !may_shrink || !budget.is_left() {
                break;
            }
            length_ms = (length_ms / SLICE_SHRINKAGE).max(1);
        }
        let is_all = to <= plan.from || found.len() > asked.most;
        // A page shorter than was asked for is the last one: a further page may be empty, where a run
        // would have to be paid.
        let is_page = is_by_pages && to < end && (after.is_some() || !found.is_empty());
        if !is_all && !is_page {
            return Ok(None);
        }
        newest(&mut found);
        let rest = (to > plan.from).then(|| Position { at: to, id: String::new() });
        Ok(Some(Findings::Entries(found, rest)))
    }

    /// Starts the queries of a run that have not been started.
    async fn start(
        &self,
        question: &Question,
        key: &str,
        mut run: Run,
        revision: u64,
    ) -> Result<JournalReply> {
        // Its next looks are not for an older answer.
        self.last.lock().expect("no panic while held").take();
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

    /// Looks at a run, and goes on with it. Of entries, queries are looked at from the newest one on until
    /// they fill the page; only for its sake are they divided.
    async fn look(
        &self,
        question: &Question,
        after: Option<&Position>,
        key: &str,
        mut run: Run,
        revision: u64,
    ) -> Result<JournalReply> {
        if run.is_claimed(self.clock.now()) {
            return Ok(running(&run));
        }
        if run.parts.iter().any(|part| part.query_id.is_none()) {
            return self.start(question, key, run, revision).await;
        }
        let (mut counts, mut entries, mut begins) = (Counts::of(question), Vec::new(), run.begins);
        let (mut bytes, mut is_split) = (0.0, false);
        for index in (0..run.parts.len()).rev() {
            let part = run.parts[index].clone();
            if after.is_some_and(|after| after.at < part.from) {
                continue;
            }
            self.pause().await;
            let results = self.logs.results(part.query_id.as_deref().unwrap_or_default()).await;
            let (rows, bytes_read) = match results {
                // Too many calls: the query goes on all the same.
                Ok(LogResults::Running) | Err(LogError::Busy) => return Ok(running(&run)),
                Ok(LogResults::Complete { rows, bytes_read }) => (rows, bytes_read),
                Ok(LogResults::Ended(state)) => {
                    run.forget();
                    self.runs.save(key, &run, revision).await?;
                    let reason = format!("the query of the log ended as {state}: ask again");
                    return Err(PortError::new("logs:StartQuery", reason).into());
                }
                Err(error) => return Err(self.error(error)),
            };
            bytes += bytes_read;
            let is_full = rows.len() >= ROWS_MAX;
            if let Some(counts) = &mut counts {
                let sums = rows.iter().filter_map(|row| query::counts_of(row, part.from));
                sums.for_each(|(at, sums)| counts.add(at, sums));
                if is_full && !run.split(index) {
                    return Err(too_many_counts());
                }
                is_split |= is_full;
            }
            if let Question::Attempts(asked) = question {
                let lines = || rows.iter().filter_map(query::line_of);
                // Entries of the last one's millisecond may be missing.
                let oldest = lines().map(|line| line.at).min().filter(|_| is_full);
                let whole_from = oldest.map(|oldest| oldest + Duration::from_millis(1));
                let whole = lines().filter(|line| whole_from.is_none_or(|from| line.at >= from));
                entries.extend(whole.filter_map(|line| wanted(&line, asked, after)));
                newest(&mut entries);
                let is_page = entries.len() > asked.most;
                if is_page || is_full {
                    is_split = !is_page && run.split(index);
                    begins = begins.max(whole_from.filter(|_| !is_page && !is_split));
                    bytes = run.bytes;
                    break;
                }
            }
        }
        if is_split {
            return self.start(question, key, run, revision).await;
        }
        let found = match counts {
            Some(counts) => Findings::Counts(counts.known()),
            None => Findings::Entries(entries, None),
        };
        let (known, next) = page(question, &found, None);
        let answer = self.answer(known, run.started_at, begins, next);
        Ok(JournalReply { reads: plan::reads(bytes), progress: Progress::Answered(answer) })
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

/// Leaves each entry once, the newest first.
fn newest(found: &mut Entries) {
    found.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    found.dedup_by(|(one, _), (other, _)| one == other);
}

/// Makes a page of what comes after that place, and the token of the next one.
fn page(
    question: &Question,
    found: &Findings,
    after: Option<&Position>,
) -> (Known, Option<String>) {
    let (entries, rest) = match found {
        Findings::Counts(known) => return (known.clone(), None),
        Findings::Entries(entries, rest) => (entries, rest),
    };
    let most = match question {
        Question::Attempts(asked) => asked.most,
        Question::Ledger(_) | Question::Series(_) => 0,
    };
    let skipped = after.map_or(0, |after| entries.partition_point(|(at, _)| at >= after));
    let left = &entries[skipped..];
    let fit = &left[..most.min(left.len())];
    let last = fit.last().map(|(position, _)| position);
    let next = if fit.len() < left.len() { last } else { rest.as_ref() };
    let page = fit.iter().map(|(position, entry)| (position.id.clone(), entry.clone())).collect();
    (Known::Attempts(page), next.map(|next| next.token(question)))
}
