//! CloudWatch Logs in memory, in virtual time: groups, pages of lines, and queries of Logs Insights.
//!
//! Its limits are the service's: pages of 1 MB and 10,000 lines, five calls of a kind in a second, 10,000
//! rows of a query, which takes longer the more it reads. A page looks at a bounded part of the log, so that
//! it may be empty and not the last. Many equal lines are kept as one.
//!
//! Source: Amazon CloudWatch Logs API reference and quotas. How fast a query reads is an assumption.

mod insights;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::time::Timestamp;
use gridpost_ports::{
    PortError,
    log_store::{
        LogError, LogGroup, LogLine, LogPage, LogQuery, LogRange, LogResults, LogStore, Row,
    },
};
use tokio::time::{Instant, sleep};

// The calls, by the permissions for them.
const GROUPS: &str = "logs:DescribeLogGroups";
const PAGE: &str = "logs:FilterLogEvents";
const START: &str = "logs:StartQuery";
const RESULTS: &str = "logs:GetQueryResults";

const PAGE_BYTES_MAX: u64 = 1_000_000;
const PAGE_LINES_MAX: u64 = 10_000;
/// What a page looks at, whether it matches or not.
const LOOKED_AT_BYTES_MAX: u64 = 10_000_000;
const PATTERN_MAX: usize = 1_024;
const CALLS_A_SECOND: usize = 5;
const QUERY_ROWS_MAX: usize = 10_000;
const CALL: Duration = Duration::from_millis(100);
const QUERY_STARTS_AFTER: Duration = Duration::from_secs(2);
const QUERY_BYTES_A_SECOND: f64 = 5e8;

type Result<T, E = LogError> = std::result::Result<T, E>;

/// Equal lines.
#[derive(Clone, Debug)]
struct Lines {
    at: Timestamp,
    text: String,
    times: u64,
}

#[derive(Debug)]
struct Group {
    created: Timestamp,
    kept_days: Option<u32>,
    lines: Vec<Lines>,
}

#[derive(Debug)]
struct Query {
    ends: Instant,
    rows: Vec<Row>,
    bytes: f64,
    fails: bool,
}

#[derive(Debug, Default)]
struct State {
    groups: BTreeMap<String, Group>,
    denied: BTreeSet<(&'static str, String)>,
    calls: BTreeMap<&'static str, (usize, VecDeque<Instant>)>,
    queries: Vec<Query>,
    texts: Vec<String>,
    next_fail: bool,
    /// Queries at the same time.
    queries_max: Option<usize>,
    busy_until: Option<Instant>,
}

/// CloudWatch Logs.
#[derive(Debug, Default)]
pub struct CloudLogs {
    state: Mutex<State>,
}

impl CloudLogs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    pub fn create_group(&self, name: &str, created: Timestamp, kept_days: Option<u32>) {
        let group = Group { created, kept_days, lines: Vec::new() };
        self.state().groups.insert(name.to_owned(), group);
    }

    /// Logs a line that many times.
    pub fn log(&self, group: &str, at: Timestamp, text: &str, times: u64) {
        let mut state = self.state();
        let group = state.groups.get_mut(group).expect("a group");
        let index = group.lines.partition_point(|line| line.at <= at);
        group.lines.insert(index, Lines { at, text: text.to_owned(), times });
    }

    /// Denies a call on groups whose names contain a text.
    pub fn deny(&self, permission: &'static str, group: &str) {
        self.state().denied.insert((permission, group.to_owned()));
    }

    /// Lets the next query fail.
    pub fn fail_next_query(&self) {
        self.state().next_fail = true;
    }

    /// Allows that many queries at the same time.
    pub fn allow_queries(&self, most: usize) {
        self.state().queries_max = Some(most);
    }

    /// Lets others use up all calls for a while.
    pub fn keep_busy(&self, length: Duration) {
        self.state().busy_until = Some(Instant::now() + length);
    }

    /// Returns how often each call was made.
    pub fn calls(&self) -> BTreeMap<&'static str, usize> {
        self.state().calls.iter().map(|(operation, (count, _))| (*operation, *count)).collect()
    }

    /// Returns the texts of the queries.
    pub fn queries(&self) -> Vec<String> {
        self.state().texts.clone()
    }

    /// Returns the pages of 1 MB that all lines fill.
    pub fn pages(&self) -> u64 {
        let state = self.state();
        let lines = state.groups.values().flat_map(|group| &group.lines);
        lines.map(Lines::bytes).sum::<u64>() / PAGE_BYTES_MAX
    }

    async fn begin(&self, operation: &'static str, groups: &[&str]) -> Result<()> {
        sleep(CALL).await;
        let mut state = self.state();
        let now = Instant::now();
        let is_busy = state.busy_until.is_some_and(|until| now < until);
        let is_denied = state.denied.iter().any(|(denied, part)| {
            *denied == operation && groups.iter().any(|group| group.contains(part.as_str()))
        });
        let (count, recent) = state.calls.entry(operation).or_default();
        *count += 1;
        recent.retain(|at| now.duration_since(*at) < Duration::from_secs(1));
        if is_busy || recent.len() >= CALLS_A_SECOND {
            return Err(LogError::Busy);
        }
        recent.push_back(now);
        let is_missing = |group: &&str| operation != GROUPS && !state.groups.contains_key(*group);
        match is_denied {
            true => Err(LogError::Denied(operation)),
            false if groups.iter().any(is_missing) => Err(LogError::Missing),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl LogStore for CloudLogs {
    async fn groups(&self, prefix: &str) -> Result<Vec<LogGroup>> {
        self.begin(GROUPS, &[prefix]).await?;
        let state = self.state();
        let named = state.groups.iter().filter(|(name, _)| name.starts_with(prefix));
        Ok(named.map(|(name, group)| group.shown(name)).collect())
    }

    async fn page(&self, of: &LogRange<'_>, token: Option<String>) -> Result<LogPage> {
        self.begin(PAGE, &[of.group]).await?;
        if of.from >= of.to || of.pattern.len() > PATTERN_MAX {
            return Err(LogError::Failed(PortError::new(PAGE, "an invalid parameter")));
        }
        let state = self.state();
        let lines = &state.groups[of.group].lines;
        let first = lines.partition_point(|line| line.at < of.from);
        let end = lines.partition_point(|line| line.at < of.to);
        let (mut index, mut skipped) = match token {
            None => (first, 0),
            Some(token) => {
                let (index, skipped) = token.split_once('/').expect("a token of this log");
                (index.parse().expect("an index"), skipped.parse().expect("a number"))
            }
        };
        let (mut page, mut bytes, mut looked_at) = (LogPage::default(), 0, 0);
        while index < end {
            let line = &lines[index];
            let size = line.bytes() / line.times.max(1);
            let is_found = is_match(&line.text, of.pattern);
            while skipped < line.times {
                let is_full =
                    bytes + size > PAGE_BYTES_MAX || page.lines.len() as u64 >= PAGE_LINES_MAX;
                if is_found && is_full || looked_at > LOOKED_AT_BYTES_MAX {
                    page.next = Some(format!("{index}/{skipped}"));
                    return Ok(page);
                }
                looked_at += size;
                skipped += 1;
                if is_found {
                    bytes += size;
                    page.lines.push(LogLine { at: line.at, text: line.text.clone() });
                }
            }
            (index, skipped) = (index + 1, 0);
        }
        Ok(page)
    }

    async fn start(&self, query: &LogQuery<'_>) -> Result<String> {
        let groups: Vec<_> = query.groups.iter().map(String::as_str).collect();
        self.begin(START, &groups).await?;
        let mut state = self.state();
        let now = Instant::now();
        let running = state.queries.iter().filter(|query| query.ends > now).count();
        if state.queries_max.is_some_and(|most| running >= most) {
            return Err(LogError::Busy);
        }
        let last = Timestamp::from_millis(query.to.as_millis() - 1);
        let seconds = query.from.as_seconds()..=last.as_seconds();
        let named = groups.iter().flat_map(|name| &state.groups[*name].lines);
        let lines: Vec<_> = named.filter(|line| seconds.contains(&line.at.as_seconds())).collect();
        let bytes = lines.iter().map(|line| line.bytes()).sum::<u64>() as f64;
        let weighed = lines.iter().map(|line| (line.at, line.text.as_str(), line.times));
        let rows = insights::rows(&query.text, weighed, QUERY_ROWS_MAX);
        let rows = rows.ok_or_else(|| LogError::Failed(PortError::new(START, "malformed")))?;
        let took = Duration::from_secs_f64(bytes / QUERY_BYTES_A_SECOND);
        let fails = std::mem::take(&mut state.next_fail);
        let ends = now + QUERY_STARTS_AFTER + took;
        state.texts.push(query.text.clone());
        state.queries.push(Query { ends, rows, bytes, fails });
        Ok(format!("query-{}", state.queries.len() - 1))
    }

    async fn results(&self, query_id: &str) -> Result<LogResults> {
        self.begin(RESULTS, &[]).await?;
        let state = self.state();
        let index = query_id.strip_prefix("query-").and_then(|index| index.parse::<usize>().ok());
        let query = index.and_then(|index| state.queries.get(index)).ok_or(LogError::Missing)?;
        if query.ends > Instant::now() {
            return Ok(LogResults::Running);
        }
        if query.fails {
            return Ok(LogResults::Ended("Failed".to_owned()));
        }
        Ok(LogResults::Complete { rows: query.rows.clone(), bytes_read: query.bytes })
    }
}

impl Lines {
    /// The service adds 26 bytes to each line.
    fn bytes(&self) -> u64 {
        (self.text.len() as u64 + 26) * self.times
    }
}

impl Group {
    fn shown(&self, name: &str) -> LogGroup {
        let bytes = self.lines.iter().map(Lines::bytes).sum::<u64>();
        LogGroup {
            name: name.to_owned(),
            created: self.created,
            kept_days: self.kept_days,
            stored_bytes: bytes * 15 / 100,
        }
    }
}

/// Whether a line matches a filter pattern: all its terms, or any of those with a question mark. Terms with
/// a quotation mark inside are not supported, as by the service.
fn is_match(text: &str, pattern: &str) -> bool {
    let terms = || {
        let parts = pattern.split(' ').filter(|part| !part.is_empty());
        parts.map(|part| (part.strip_prefix('?'), part))
    };
    let has = |term: &str| text.contains(term.trim_matches('"'));
    let mut optional = terms().filter_map(|(optional, _)| optional).peekable();
    let mut needed = terms().filter_map(|(optional, all)| optional.is_none().then_some(all));
    (optional.peek().is_none() || optional.any(has)) && needed.all(has)
}

#[cfg(test)]
mod tests;
