//! CloudWatch Logs, as far as the journal reads it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use gridpost_core::time::Timestamp;

use super::PortError;

/// CloudWatch Logs.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Returns the log groups whose names begin so.
    async fn groups(&self, prefix: &str) -> Result<Vec<LogGroup>, LogError>;

    /// Reads a page of lines, oldest first. A page without lines may have a successor.
    async fn page(&self, of: &LogRange<'_>, token: Option<String>) -> Result<LogPage, LogError>;

    /// Starts a query of Logs Insights and returns its id.
    async fn start(&self, query: &LogQuery<'_>) -> Result<String, LogError>;

    /// Looks at a query.
    async fn results(&self, query_id: &str) -> Result<LogResults, LogError>;
}

#[derive(Clone, Debug)]
pub struct LogGroup {
    pub name: String,
    pub created: Timestamp,
    /// `None` keeps lines for ever.
    pub kept_days: Option<u32>,
    /// After compression; some hours old.
    pub stored_bytes: u64,
}

/// Lines of a log group that match a filter pattern.
#[derive(Clone, Debug)]
pub struct LogRange<'a> {
    pub group: &'a str,
    pub from: Timestamp,
    /// Before this time.
    pub to: Timestamp,
    pub pattern: &'a str,
}

#[derive(Clone, Debug, Default)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// When it was logged.
    pub at: Timestamp,
    pub text: String,
}

/// A query of Logs Insights, which reads whole seconds.
#[derive(Clone, Debug)]
pub struct LogQuery<'a> {
    pub groups: &'a [String],
    pub from: Timestamp,
    /// Before this time.
    pub to: Timestamp,
    pub text: String,
}

/// How far a query is.
#[derive(Clone, Debug)]
pub enum LogResults {
    Running,
    Complete {
        rows: Vec<Row>,
        bytes_read: f64,
    },
    /// With its state: failed, cancelled or timed out.
    Ended(String),
}

/// A row of a query's results: values by field.
pub type Row = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub enum LogError {
    /// There is no such log group or query.
    Missing,
    /// The service is asked too often.
    Busy,
    /// The permission of that name is missing.
    Denied(&'static str),
    Failed(PortError),
}
