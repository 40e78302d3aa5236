//! Calls of AWS services, signed, without a client library for each.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    aws_refusal::{asks_to_wait, refusal},
    clock, http_client,
    signing::{S3, Signer, endpoint},
    target::Target,
};

/// The region that the local stack pretends to be in.
pub const REGION: &str = "us-east-1";

/// How often a call is made that AWS asks to make later.
const TRIES_MAX: u32 = 6;

/// The wait before the second try; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Alarms,
    Apis,
    Buckets,
    Functions,
    Logs,
    Quotas,
    /// IAM, which is the same in all regions of a partition.
    Roles,
    Schedules,
    Sqs,
    Tables,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Alarms => "monitoring",
            Self::Apis => "apigateway",
            Self::Buckets => S3,
            Self::Functions => "lambda",
            Self::Logs => "logs",
            Self::Quotas => "servicequotas",
            Self::Roles => "iam",
            Self::Schedules => "scheduler",
            Self::Sqs => "sqs",
            Self::Tables => "dynamodb",
        }
    }

    fn permissions(self) -> &'static str {
        if self == Self::Alarms { "cloudwatch" } else { self.name() }
    }

    /// Returns what stands before an operation in `x-amz-target`, and the content type; none for
    /// services whose operations are methods of paths.
    ///
    /// Source: the services' API models, `targetPrefix` and `jsonVersion`. CloudWatch takes JSON
    /// beside forms and CBOR.
    fn json(self) -> Option<(&'static str, &'static str)> {
        const JSON_1_0: &str = "application/x-amz-json-1.0";
        const JSON_1_1: &str = "application/x-amz-json-1.1";
        match self {
            Self::Alarms => Some(("GraniteServiceVersion20100801", JSON_1_0)),
            Self::Logs => Some(("Logs_20140328", JSON_1_1)),
            Self::Quotas => Some(("ServiceQuotasV20190624", JSON_1_1)),
            Self::Sqs => Some(("AmazonSQS", JSON_1_0)),
            Self::Tables => Some(("DynamoDB_20120810", JSON_1_0)),
            Self::Apis | Self::Buckets | Self::Functions | Self::Roles | Self::Schedules => None,
        }
    }

    /// Returns AWS's host for a region, and the region of its signatures.
    ///
    /// Source: IAM, "Service endpoints": one for each partition.
    fn place(self, region: &str) -> (String, String) {
        let of = |url: &str, signed: &str| (url.to_owned(), signed.to_owned());
        match (self, region.split('-').next().unwrap_or_default()) {
            (Self::Roles, "cn") => of("https://iam.cn-north-1.amazonaws.com.cn/", "cn-north-1"),
            (Self::Roles, "eusc") => {
                of("https://iam.eusc-de-east-1.amazonaws.eu/", "eusc-de-east-1")
            }
            (Self::Roles, _) if region.starts_with("us-gov-") => {
                of("https://iam.us-gov.amazonaws.com/", "us-gov-west-1")
            }
            (Self::Roles, _) => of("https://iam.amazonaws.com/", "us-east-1"),
            _ => of(&endpoint(self.name(), region), region),
        }
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

#[derive(Clone, Debug)]
struct Request<'a> {
    /// The operation with its service, which is also the permission for it.
    call: String,
    method: &'static str,
    url: String,
    headers: Vec<(&'static str, &'a str)>,
    body: String,
}

impl AwsApi {
    /// The service where the deployment is.
    pub async fn connect(service: Service, target: &Target) -> anyhow::Result<Self> {
        let name = service.name();
        let (url, signer) = match target.emulator_url() {
            // It answers what a command asks of SQS.
            _ if let (Some(token), Some(url)) = (target.token(), target.manage_url()) => {
                (url.to_owned(), Signer::of_token(token.clone()))
            }
            Some(url) => (url.to_owned(), Signer::of_emulator(name, REGION)),
            None => {
                let signer =
                    Signer::for_service(name, target.manage_url(), target.aws_profile()).await?;
                let (url, region) = service.place(signer.region());
                (url, signer.in_region(&region))
            }
        };
        Ok(Self { service, http: target.http_client(&url)?, url, signer })
    }

    /// The service in the account of the caller's environment, before there is a deployment: in that region, or
    /// in the environment's.
    pub async fn of_environment(service: Service, region: Option<&str>) -> anyhow::Result<Self> {
        let signer = match region {
            Some(region) => Signer::for_service_in(service.name(), region),
            None => Signer::for_service(service.name(), None, None).await?,
        };
        let (url, region) = service.place(signer.region());
        let signer = signer.in_region(&region);
        Ok(Self { service, http: http_client::for_url(&url)?, url, signer })
    }

    /// The region that it is asked in.
    pub fn region(&self) -> &str {
        self.signer.region()
    }

    #[cfg(test)]
    pub(crate) fn at(service: Service, url: &str) -> Self {
        let signer = Signer::of_emulator(service.name(), REGION);
        let http = http_client::for_url(url).expect("a client");
        Self { service, url: url.to_owned(), http, signer }
    }

    /// Makes a call of a service that speaks JSON; one that AWS asks to make later is made later.
    pub async fn call(&self, operation: &str, input: &impl Serialize) -> anyhow::Result<Value> {
        let call = self.permission(operation);
        let Some((prefix, content_type)) = self.service.json() else {
            bail!("{call} is a method of a path");
        };
        let target = format!("{prefix}.{operation}");
        let headers = vec![("content-type", content_type), ("x-amz-target", target.as_str())];
        let (url, body) = (self.url.clone(), serde_json::to_string(input)?);
        self.made(&Request { call, method: "POST", url, headers, body }).await
    }

    /// Makes a call that is a method of a path, which begins with a slash; `operation` is its permission.
    pub async fn call_path(
        &self,
        operation: &str,
        method: &'static str,
        path: &str,
        ask: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let call = self.permission(operation);
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let headers = ask.map(|_| ("content-type", "application/json")).into_iter().collect();
        let body = ask.map(Value::to_string).unwrap_or_default();
        self.made(&Request { call, method, url, headers, body }).await
    }

    /// Whether a call that is a form, answered in XML, finds what it names.
    pub async fn call_form(&self, operation: &str, form: String) -> anyhow::Result<()> {
        let call = self.permission(operation);
        let headers = vec![("content-type", "application/x-www-form-urlencoded")];
        let request = Request { call, method: "POST", url: self.url.clone(), headers, body: form };
        self.answered(&request).await.map(drop)
    }

    /// The permission that an operation needs.
    pub fn permission(&self, operation: &str) -> String {
        format!("{}:{operation}", self.service.permissions())
    }

    async fn made(&self, request: &Request<'_>) -> anyhow::Result<Value> {
        let text = self.answered(request).await?;
        match text.trim() {
            "" => Ok(Value::Null),
            json => serde_json::from_str(json)
                .with_context(|| format!("{} answered no JSON", request.call)),
        }
    }

    /// The text of an answer that is no refusal.
    async fn answered(&self, request: &Request<'_>) -> anyhow::Result<String> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES_MAX {
            match self.answered_once(request).await {
                Err(error) if asks_to_wait(&error) => {
                    sleep(wait).await;
                    wait *= 2;
                }
                done => return done,
            }
        }
        self.answered_once(request).await
    }

    async fn answered_once(&self, asked: &Request<'_>) -> anyhow::Result<String> {
        let Request { call, method, url, headers, body } = asked;
        let now = clock::now();
        let mut request = self.http.request(method.parse()?, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let signed = self.signer.headers(method, url, headers, body.as_bytes(), now).await?;
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let answer = request.body(body.clone()).send().await;
        let answer = answer.with_context(|| format!("{call} got no answer from {}", self.url))?;
        let status = answer.status();
        let kind = answer.headers().get("x-amzn-errortype").and_then(|kind| kind.to_str().ok());
        let kind = kind.map(str::to_owned);
        let text = answer.text().await.with_context(|| format!("{call}: answer cut off"))?;
        if !status.is_success() {
            return Err(refusal(call.clone(), status.as_u16(), kind.as_deref(), &text).into());
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let roles = [
            ("eu-north-1", "https://iam.amazonaws.com/", "us-east-1"),
            ("us-gov-east-1", "https://iam.us-gov.amazonaws.com/", "us-gov-west-1"),
            ("cn-northwest-1", "https://iam.cn-north-1.amazonaws.com.cn/", "cn-north-1"),
        ];
        for (region, url, signed) in roles {
            assert_eq!(Service::Roles.place(region), (url.to_owned(), signed.to_owned()));
        }
        let alarms = Service::Alarms.place("eu-north-1").0;
        assert_eq!(alarms, "https://monitoring.eu-north-1.amazonaws.com/");
    }
}
