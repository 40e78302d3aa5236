//! CloudWatch Logs and the runs' table by AWS's clients.

use async_trait::async_trait;
use aws_sdk_cloudwatchlogs::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{QueryStatus, ResultField},
};
use gridpost_core::time::Timestamp;
use gridpost_ports::{
    PortError, Saved,
    log_store::{
        LogError, LogGroup, LogLine, LogPage, LogQuery, LogRange, LogResults, LogStore, Row,
    },
};

use super::run::{Run, RunStore};
use crate::{port_error, table::Table};

/// The sort key of a run.
const ALONE: &str = "-";

/// CloudWatch Logs.
#[derive(Clone, Debug)]
pub struct CloudWatchLogs {
    client: Client,
}

impl CloudWatchLogs {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl LogStore for CloudWatchLogs {
    async fn groups(&self, prefix: &str) -> Result<Vec<LogGroup>, LogError> {
        let ask = self.client.describe_log_groups().log_group_name_prefix(prefix);
        let mut pages = ask.into_paginator().send();
        let mut groups = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| refusal("logs:DescribeLogGroups", error))?;
            groups.extend(page.log_groups().iter().map(|group| LogGroup {
                name: group.log_group_name().unwrap_or_default().to_owned(),
                created: Timestamp::from_millis(group.creation_time().unwrap_or_default()),
                kept_days: group.retention_in_days().and_then(|days| days.try_into().ok()),
                stored_bytes: group.stored_bytes().unwrap_or_default().try_into().unwrap_or(0),
            }));
        }
        Ok(groups)
    }

    async fn page(&self, of: &LogRange<'_>, token: Option<String>) -> Result<LogPage, LogError> {
        let ask = self.client.filter_log_events().log_group_name(of.group).set_next_token(token);
        // The last millisecond is among those that are returned.
        let (from, last) = (of.from.as_millis().max(0), of.to.as_millis() - 1);
        let ask = ask.start_time(from).end_time(last.max(0)).filter_pattern(of.pattern);
        let page = ask.send().await.map_err(|error| refusal("logs:FilterLogEvents", error))?;
        let lines = page.events().iter().map(|event| LogLine {
            at: Timestamp::from_millis(event.timestamp().unwrap_or_default()),
            text: event.message().unwrap_or_default().to_owned(),
        });
        Ok(LogPage { lines: lines.collect(), next: page.next_token().map(str::to_owned) })
    }

    async fn start(&self, query: &LogQuery<'_>) -> Result<String, LogError> {
        const CALL: &str = "logs:StartQuery";
        let last = Timestamp::from_millis(query.to.as_millis() - 1);
        let ask = self.client.start_query().set_log_group_names(Some(query.groups.to_vec()));
        let ask = ask.start_time(query.from.as_seconds().max(0)).end_time(last.as_seconds().max(0));
        let started = ask.query_string(&query.text).send().await;
        let started = started.map_err(|error| refusal(CALL, error))?;
        let id = started.query_id().map(str::to_owned);
        id.ok_or_else(|| LogError::Failed(PortError::new(CALL, "the answer has no id")))
    }

    async fn results(&self, query_id: &str) -> Result<LogResults, LogError> {
        let (mut rows, mut token) = (Vec::new(), None);
        loop {
            let ask = self.client.get_query_results().query_id(query_id).set_next_token(token);
            let page = ask.send().await.map_err(|error| refusal("logs:GetQueryResults", error))?;
            match page.status() {
                Some(QueryStatus::Complete) => {}
                Some(QueryStatus::Running | QueryStatus::Scheduled) => {
                    return Ok(LogResults::Running);
                }
                status => {
                    let status = status.map_or("unknown", QueryStatus::as_str);
                    return Ok(LogResults::Ended(status.to_owned()));
                }
            }
            let bytes_read = page.statistics().map_or(0.0, |all| all.bytes_scanned());
            // Moved, not copied: they may be most of the function's memory.
            rows.extend(page.results.into_iter().flatten().map(row));
            token = page.next_token;
            if token.is_none() {
                return Ok(LogResults::Complete { rows, bytes_read });
            }
        }
    }
}

fn row(fields: Vec<ResultField>) -> Row {
    fields.into_iter().filter_map(|it| Some((it.field?, it.value?))).collect()
}

/// Tells a refusal that the caller can name from others. `call` is also the permission for it.
fn refusal<E>(call: &'static str, error: SdkError<E>) -> LogError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match error.as_service_error().and_then(ProvideErrorMetadata::code) {
        Some("ResourceNotFoundException") => LogError::Missing,
        Some("ThrottlingException" | "LimitExceededException") => LogError::Busy,
        Some("AccessDeniedException") => LogError::Denied(call),
        _ => LogError::Failed(port_error(call, error)),
    }
}

/// The runs, in the state table.
#[derive(Clone, Debug)]
pub struct RunTable {
    table: Table,
}

impl RunTable {
    pub fn new(client: aws_sdk_dynamodb::Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }
}

#[async_trait]
impl RunStore for RunTable {
    async fn load(&self, key: &str) -> Result<Option<(Run, u64)>, PortError> {
        self.table.load(pk(key), ALONE).await
    }

    async fn save(&self, key: &str, run: &Run, revision: u64) -> Result<Saved, PortError> {
        let forget_at = Some(run.forget_at());
        self.table.save((pk(key), ALONE), run, revision, forget_at, None).await
    }
}

fn pk(key: &str) -> String {
    format!("JOURNAL#{key}")
}
