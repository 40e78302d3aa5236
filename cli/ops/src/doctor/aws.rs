//! An account of AWS, asked about names by calls that read and change nothing.

use anyhow::Context;
use serde_json::{Value, json};

use super::names::{Kind, Look, NameState};
use crate::{
    aws_api::{AwsApi, Service},
    aws_refusal::AwsRefusal,
};

/// The account of the caller's environment, in one region.
#[derive(Debug)]
pub struct Aws {
    alarms: AwsApi,
    apis: AwsApi,
    buckets: AwsApi,
    functions: AwsApi,
    logs: AwsApi,
    queues: AwsApi,
    roles: AwsApi,
    schedules: AwsApi,
    tables: AwsApi,
}

impl Aws {
    pub(crate) async fn of_environment(region: Option<&str>) -> anyhow::Result<Self> {
        let of = |service| AwsApi::of_environment(service, region);
        Ok(Self {
            alarms: of(Service::Alarms).await?,
            apis: of(Service::Apis).await?,
            buckets: of(Service::Buckets).await?,
            functions: of(Service::Functions).await?,
            logs: of(Service::Logs).await?,
            queues: of(Service::Sqs).await?,
            roles: of(Service::Roles).await?,
            schedules: of(Service::Schedules).await?,
            tables: of(Service::Tables).await?,
        })
    }

    /// Whether one of the HTTP APIs is called so. Source: API Gateway V2 API reference, GetApis.
    async fn api(&self, name: &str) -> anyhow::Result<NameState> {
        let mut path = "/v2/apis?maxResults=100".to_owned();
        loop {
            let page = self.apis.call_path("GET", "GET", &path, None).await?;
            if has(&page, "items", "name", name)? {
                return Ok(NameState::Taken);
            }
            let Some(token) = page["nextToken"].as_str() else { return Ok(NameState::Free) };
            let token: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
            path = format!("/v2/apis?maxResults=100&nextToken={token}");
        }
    }

    /// Source: S3 API reference, HeadBucket. It answers 403 for another account's, too.
    async fn bucket(&self, name: &str) -> anyhow::Result<NameState> {
        let answer = self.buckets.call_path("ListBucket", "HEAD", &format!("/{name}"), None).await;
        let Err(error) = answer else { return Ok(NameState::Taken) };
        match error.downcast_ref::<AwsRefusal>().map(|refusal| refusal.code.as_str()) {
            Some("HTTP 404") => Ok(NameState::Free),
            // Of another region.
            Some("HTTP 301") => Ok(NameState::Taken),
            Some("HTTP 403") => Ok(NameState::Unclear(
                "it is another account's, or your AWS identity needs the permission s3:ListBucket"
                    .to_owned(),
            )),
            _ => Err(error),
        }
    }
}

impl Look for Aws {
    async fn look(&self, kind: Kind, name: &str) -> anyhow::Result<NameState> {
        match kind {
            Kind::Alarm => {
                let ask = json!({"AlarmNames": [name]});
                let answer = self.alarms.call("DescribeAlarms", &ask).await?;
                has(&answer, "MetricAlarms", "AlarmName", name).map(taken)
            }
            Kind::Api => self.api(name).await,
            Kind::Bucket => self.bucket(name).await,
            Kind::Function => {
                let path = format!("/2015-03-31/functions/{name}/configuration");
                there(
                    self.functions.call_path("GetFunctionConfiguration", "GET", &path, None).await,
                )
            }
            Kind::LogGroup => {
                // The group itself comes before those whose names begin with its name.
                let ask = json!({"logGroupNamePrefix": name});
                let answer = self.logs.call("DescribeLogGroups", &ask).await?;
                has(&answer, "logGroups", "logGroupName", name).map(taken)
            }
            Kind::Queue => {
                there(self.queues.call("GetQueueUrl", &json!({"QueueName": name})).await)
            }
            Kind::Role => {
                let form = [("Action", "GetRole"), ("Version", "2010-05-08"), ("RoleName", name)];
                let form = url::form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(form)
                    .finish();
                there(self.roles.call_form("GetRole", form).await)
            }
            Kind::Schedule => {
                let path = format!("/schedules/{name}?groupName=default");
                there(self.schedules.call_path("GetSchedule", "GET", &path, None).await)
            }
            Kind::Table => {
                there(self.tables.call("DescribeTable", &json!({"TableName": name})).await)
            }
        }
    }
}

fn has(answer: &Value, list: &str, member: &str, name: &str) -> anyhow::Result<bool> {
    let list = answer[list].as_array().with_context(|| format!("the answer has no {list}"))?;
    Ok(list.iter().any(|it| it[member] == name))
}

fn taken(is_there: bool) -> NameState {
    if is_there { NameState::Taken } else { NameState::Free }
}

/// The codes by which services say that something is not there.
///
/// Source: the services' API references. SQS has had two.
const ABSENT: [&str; 4] =
    ["ResourceNotFoundException", "QueueDoesNotExist", "NonExistentQueue", "NoSuchEntity"];

fn there<T>(answer: anyhow::Result<T>) -> anyhow::Result<NameState> {
    match answer {
        Ok(_) => Ok(NameState::Taken),
        Err(error) => match error.downcast_ref::<AwsRefusal>() {
            Some(refusal) if ABSENT.contains(&refusal.code.as_str()) => Ok(NameState::Free),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeApi;

    /// All services at one place that answers so.
    async fn account(rows: &[(&str, u16, Value)]) -> (FakeApi, Aws) {
        let fake = FakeApi::answering(rows).await;
        let url = fake.url();
        let at = |service| AwsApi::at(service, &url);
        let account = Aws {
            alarms: at(Service::Alarms),
            apis: at(Service::Apis),
            buckets: at(Service::Buckets),
            functions: at(Service::Functions),
            logs: at(Service::Logs),
            queues: at(Service::Sqs),
            roles: at(Service::Roles),
            schedules: at(Service::Schedules),
            tables: at(Service::Tables),
        };
        (fake, account)
    }

    fn refused(code: &str) -> Value {
        json!({"__type": code, "message": "told"})
    }

    /// (kind, the request, status and answer, what is found; none where the answer is an error)
    #[tokio::test]
    async fn services_tell_what_is_there_each_in_its_own_way() {
        let function = "GET /2015-03-31/functions/n/configuration ";
        let schedule = "GET /schedules/n?groupName=default ";
        let (free, taken) = (Some(NameState::Free), Some(NameState::Taken));
        let log_groups = |name: &str| json!({"logGroups": [{"logGroupName": name}]});
        let table: Vec<(Kind, &str, u16, Value, Option<NameState>)> = vec![
            (Kind::Function, function, 200, json!({"FunctionName": "n"}), taken.clone()),
            (Kind::Function, function, 404, refused("ResourceNotFoundException"), free.clone()),
            (Kind::Function, function, 403, refused("AccessDeniedException"), None),
            (Kind::Schedule, schedule, 200, json!({}), taken.clone()),
            (Kind::Schedule, schedule, 404, refused("ResourceNotFoundException"), free.clone()),
            (Kind::Queue, "POST /", 200, json!({"QueueUrl": "u"}), taken.clone()),
            (
                Kind::Queue,
                "POST /",
                400,
                refused("com.amazonaws.sqs#QueueDoesNotExist"),
                free.clone(),
            ),
            (Kind::Table, "POST /", 200, json!({"Table": {}}), taken.clone()),
            (Kind::Table, "POST /", 400, refused("x#ResourceNotFoundException"), free.clone()),
            (Kind::Role, "POST /", 200, json!({}), taken.clone()),
            (Kind::Role, "POST /", 404, refused("NoSuchEntity"), free.clone()),
            (
                Kind::Alarm,
                "POST /",
                200,
                json!({"MetricAlarms": [{"AlarmName": "n"}]}),
                taken.clone(),
            ),
            (Kind::Alarm, "POST /", 200, json!({"MetricAlarms": []}), free.clone()),
            (Kind::Alarm, "POST /", 200, json!({}), None),
            (Kind::LogGroup, "POST /", 200, log_groups("n"), taken.clone()),
            (Kind::LogGroup, "POST /", 200, log_groups("n-more"), free.clone()),
            (Kind::Api, "GET /v2/apis?", 200, json!({"items": [{"name": "n"}]}), taken.clone()),
            (Kind::Api, "GET /v2/apis?", 200, json!({"items": []}), free.clone()),
            (Kind::Bucket, "HEAD /n ", 200, Value::Null, taken.clone()),
            (Kind::Bucket, "HEAD /n ", 301, Value::Null, taken),
            (Kind::Bucket, "HEAD /n ", 404, Value::Null, free),
        ];
        for (kind, line, status, answer, want) in table {
            let (_fake, account) = account(&[(line, status, answer.clone())]).await;
            let found = account.look(kind, "n").await;
            assert_eq!(found.ok(), want, "{kind:?}: {status} {answer}");
        }
        let (_fake, account) = account(&[("HEAD /n ", 403, Value::Null)]).await;
        let found = account.look(Kind::Bucket, "n").await.expect("an answer");
        assert!(matches!(found, NameState::Unclear(_)), "{found:?}");
    }

    #[tokio::test]
    async fn apis_are_read_to_the_last_page() {
        let first = json!({"items": [{"name": "other"}], "nextToken": "a="});
        let last = json!({"items": [{"name": "n"}]});
        let rows = [
            ("GET /v2/apis?maxResults=100 ", 200, first),
            ("GET /v2/apis?maxResults=100&nextToken=a%3D ", 200, last),
        ];
        let (_fake, account) = account(&rows).await;
        assert_eq!(account.look(Kind::Api, "n").await.expect("pages"), NameState::Taken);
    }
}
