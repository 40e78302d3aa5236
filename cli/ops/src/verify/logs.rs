//! Reads what Lambda itself writes to the functions' logs: no other part of the command line reads logs.

use anyhow::Context;
use gridpost_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{aws_api::AwsApi, aws_refusal::if_found, failure::Misuse, target::Target};

/// A `FilterLogEvents` request.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogQuery {
    log_group_name: String,
    /// Milliseconds since the Unix epoch.
    start_time: i64,
    end_time: i64,
    filter_pattern: &'static str,
    next_token: Option<String>,
}

#[derive(Deserialize)]
struct LogEvent {
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPage {
    #[serde(default)]
    events: Vec<LogEvent>,
    next_token: Option<String>,
}

/// Takes each line in which Lambda reports a run of a function, from one time to another, page after page,
/// until `take` wants no more.
pub(super) async fn each_report(
    logs: &AwsApi,
    target: &Target,
    function: &str,
    (from, to): (Timestamp, Timestamp),
    mut take: impl FnMut(&str) -> bool,
) -> anyhow::Result<()> {
    let group = format!("/aws/lambda/{}-{function}", target.name_prefix());
    let mut query = LogQuery {
        log_group_name: group.clone(),
        start_time: from.as_millis(),
        end_time: to.as_millis(),
        filter_pattern: "REPORT",
        next_token: None,
    };
    loop {
        let answer = logs.call("FilterLogEvents", &query).await;
        let Some(page) = if_found(answer)? else { return Err(no_group(&group).into()) };
        let LogPage { events, next_token } =
            serde_json::from_value(page).context("the lines of a log group can't be read")?;
        let wants_more = events.iter().all(|event| take(&event.message));
        if !wants_more || next_token.is_none() {
            return Ok(());
        }
        query.next_token = next_token;
    }
}

fn no_group(group: &str) -> Misuse {
    Misuse(format!(
        "there is no log group {group}: give the deployment's --name-prefix (GRIDPOST_NAME_PREFIX), and its \
         region by --manage-url or AWS_REGION"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{aws_api::Service, testkit::FakeApi};

    #[tokio::test]
    async fn reports_are_read_page_after_page_until_there_are_enough() {
        let target = Target::default();
        let group = format!("\"logGroupName\":\"/aws/lambda/{}-ingest\"", target.name_prefix());
        let events = |texts: &[&str]| -> Vec<_> {
            texts.iter().map(|text| json!({"timestamp": 7, "message": text})).collect()
        };
        let missing = json!({"__type": "ResourceNotFoundException", "message": "no such group"});
        let api = FakeApi::naming(&[
            ("\"nextToken\":\"t\"", 200, json!({"events": events(&["c"])})),
            (&group, 200, json!({"events": events(&["a", "b"]), "nextToken": "t"})),
            ("", 400, missing),
        ])
        .await;
        let logs = AwsApi::at(Service::Logs, &api.url());
        let time = (Timestamp::from_millis(0), Timestamp::from_millis(9));
        for (most, want) in [(9, "abc"), (1, "a")] {
            let mut read = String::new();
            let take = |line: &str| {
                read.push_str(line);
                read.len() < most
            };
            each_report(&logs, &target, "ingest", time, take).await.expect("read");
            assert_eq!(read, want);
        }
        let none = each_report(&logs, &target, "wake", time, |_| true).await.expect_err("none");
        assert!(none.is::<Misuse>() && none.to_string().contains("-wake"), "{none}");
    }
}
