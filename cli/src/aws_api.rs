//! Calls of AWS services that speak JSON, signed, without a client library for each.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::sleep;

use crate::http_client;
use crate::local::terraform::REGION;
use crate::signing::Signer;
use crate::target::Target;
use crate::wall_clock;

/// How often a call is made that AWS asks to make later.
const TRIES_MAX: u32 = 6;

/// The wait before the second try; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// CloudWatch Logs.
    Logs,
    /// Service Quotas.
    Quotas,
    /// SQS.
    Sqs,
}

impl Service {
    /// Its name in hosts, signatures and permissions.
    fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Quotas => "servicequotas",
            Self::Sqs => "sqs",
        }
    }

    /// What stands before an operation in `x-amz-target`.
    ///
    /// Source: the services' API models, `targetPrefix`.
    fn target_prefix(self) -> &'static str {
        match self {
            Self::Logs => "Logs_20140328",
            Self::Quotas => "ServiceQuotasV20190624",
            Self::Sqs => "AmazonSQS",
        }
    }

    /// Source: the services' API models, `jsonVersion`.
    fn content_type(self) -> &'static str {
        match self {
            Self::Logs | Self::Quotas => "application/x-amz-json-1.1",
            Self::Sqs => "application/x-amz-json-1.0",
        }
    }
}

/// A call that the service refused.
#[derive(Debug, thiserror::Error)]
#[error("{call} was refused: {code}: {message}{}", hint(.code, .call))]
pub struct AwsRefusal {
    /// The operation with its service, which is also the permission for it: `logs:FilterLogEvents`.
    pub call: String,
    /// The service's code, such as `AccessDeniedException`.
    pub code: String,
    /// Its sentence.
    pub message: String,
}

fn hint(code: &str, call: &str) -> String {
    match code {
        "AccessDeniedException" | "AccessDenied" => {
            format!("; your AWS identity needs the permission {call}")
        }
        _ => String::new(),
    }
}

/// One service in the deployment's account and region.
#[derive(Clone, Debug)]
pub struct AwsApi {
    service: Service,
    url: String,
    http: reqwest::Client,
    signer: Signer,
}

impl AwsApi {
    /// The service where the deployment is.
    ///
    /// # Errors
    ///
    /// When signing needs a region or credentials that are not there.
    pub async fn connect(service: Service, target: &Target) -> anyhow::Result<Self> {
        let name = service.name();
        let (url, signer) = match target.emulator_url() {
            Some(url) => (url.to_owned(), Signer::of_emulator(name, REGION)),
            None => {
                let signer =
                    Signer::for_service(name, target.manage_url(), target.aws_profile()).await?;
                (endpoint(name, signer.region()), signer)
            }
        };
        Ok(Self { service, http: target.http_client(&url)?, url, signer })
    }

    /// The service in the account and region of the caller's environment, before there is a deployment.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn of_environment(service: Service) -> anyhow::Result<Self> {
        let signer = Signer::for_service(service.name(), None, None).await?;
        let url = endpoint(service.name(), signer.region());
        Ok(Self { service, http: http_client::for_url(&url)?, url, signer })
    }

    /// Makes a call; one that AWS asks to make later is made later.
    ///
    /// # Errors
    ///
    /// [`AwsRefusal`], or a transport failure.
    pub async fn call(&self, operation: &str, ask: &Value) -> anyhow::Result<Value> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES_MAX {
            match self.call_once(operation, ask).await {
                Err(error) if asks_to_wait(&error) => {
                    sleep(wait).await;
                    wait *= 2;
                }
                done => return done,
            }
        }
        self.call_once(operation, ask).await
    }

    async fn call_once(&self, operation: &str, ask: &Value) -> anyhow::Result<Value> {
        let Self { service, url, .. } = self;
        let call = format!("{}:{operation}", service.name());
        let target = format!("{}.{operation}", service.target_prefix());
        let given = [("content-type", service.content_type()), ("x-amz-target", target.as_str())];
        let body = ask.to_string();
        let now = wall_clock::now();
        let mut request = self.http.post(url);
        for (name, value) in given {
            request = request.header(name, value);
        }
        for (name, value) in self.signer.headers("POST", url, &given, body.as_bytes(), now).await? {
            request = request.header(name, value);
        }
        let answer = request.body(body).send().await;
        let answer = answer.with_context(|| format!("{call} got no answer from {url}"))?;
        let status = answer.status();
        let text = answer.text().await.with_context(|| format!("{call}: answer cut off"))?;
        if !status.is_success() {
            return Err(refusal(call, status.as_u16(), &text).into());
        }
        match text.trim() {
            "" => Ok(Value::Null),
            json => serde_json::from_str(json).with_context(|| format!("{call} answered no JSON")),
        }
    }
}

/// Where AWS has a service. China and the European Sovereign Cloud have domains of their own.
pub(crate) fn endpoint(service: &str, region: &str) -> String {
    let domain = match region.split('-').next() {
        Some("cn") => "amazonaws.com.cn",
        Some("eusc") => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("https://{service}.{region}.{domain}/")
}

/// Reads `{"__type":"ns#Code","message":…}`, or whatever came instead.
fn refusal(call: String, status: u16, text: &str) -> AwsRefusal {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let member = |names: &[&str]| {
        names.iter().find_map(|name| document.get(*name).and_then(Value::as_str)).map(str::to_owned)
    };
    let code = member(&["__type", "code"]).unwrap_or_else(|| format!("HTTP {status}"));
    let code = code.rsplit(['#', '.']).next().unwrap_or_default().to_owned();
    let message = member(&["message", "Message"]);
    AwsRefusal { call, code, message: message.unwrap_or_else(|| text.chars().take(300).collect()) }
}

fn asks_to_wait(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AwsRefusal>().is_some_and(|refusal| {
        let code = refusal.code.as_str();
        code.contains("Throttl")
            || code.contains("TooManyRequests")
            || matches!(code, "ServiceUnavailable" | "ServiceUnavailableException")
    })
}

/// Bails with what is wrong where a call was refused for what it names, `None` where that is not there.
///
/// # Errors
///
/// Any other failure.
pub fn if_found(answer: anyhow::Result<Value>) -> anyhow::Result<Option<Value>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref::<AwsRefusal>() {
            Some(refusal) if refusal.code == "ResourceNotFoundException" => Ok(None),
            _ => bail!(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_whatever_they_look_like() {
        for (status, text, want) in [
            (
                400,
                r#"{"__type":"com.amazonaws.logs#ThrottlingException","message":"Rate exceeded"}"#,
                "ThrottlingException: Rate exceeded",
            ),
            (
                400,
                r#"{"__type":"AccessDeniedException","Message":"no"}"#,
                "AccessDeniedException: no; your AWS identity needs the permission logs:F",
            ),
            (
                400,
                r#"{"__type":"AWS.SimpleQueueService.NonExistentQueue","message":"gone"}"#,
                "NonExistentQueue: gone",
            ),
            (502, "<html>", "HTTP 502: <html>"),
        ] {
            let refusal = refusal("logs:F".to_owned(), status, text);
            assert_eq!(refusal.to_string(), format!("logs:F was refused: {want}"));
            let waits = text.contains("Throttl");
            assert_eq!(asks_to_wait(&refusal.into()), waits, "{text}");
        }
    }

    #[test]
    fn services_have_an_endpoint_in_each_region() {
        let table = [
            ("eu-north-1", "https://logs.eu-north-1.amazonaws.com/"),
            ("cn-north-1", "https://logs.cn-north-1.amazonaws.com.cn/"),
            ("eusc-de-east-1", "https://logs.eusc-de-east-1.amazonaws.eu/"),
        ];
        for (region, want) in table {
            assert_eq!(endpoint("logs", region), want);
        }
    }
}
