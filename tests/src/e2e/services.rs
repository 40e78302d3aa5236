//! AWS resources that cases create, and permissions on them.

use std::collections::HashMap;

use anyhow::{Context, bail};
use aws_sdk_sqs::types::QueueAttributeName;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{fixture::Fixture, inside};

/// The name of the policy that denies something everywhere.
const POLICY: &str = "end-to-end-tests";

impl Fixture {
    /// Creates a queue with attributes; returns its URL.
    pub async fn queue(&self, name: &str, attributes: &[(&str, &str)]) -> anyhow::Result<String> {
        let attributes: HashMap<_, _> = attributes
            .iter()
            .map(|(name, value)| (QueueAttributeName::from(*name), (*value).to_owned()))
            .collect();
        let created = self.sqs().create_queue().queue_name(name).set_attributes(Some(attributes));
        created.send().await?.queue_url.context("a queue has a URL")
    }

    /// Lets other services send to a queue.
    pub async fn allow_all_to_send(&self, url: &str, arn: &str) -> anyhow::Result<()> {
        let policy = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn}]});
        let change = self.sqs().set_queue_attributes().queue_url(url);
        change.attributes(QueueAttributeName::Policy, policy.to_string()).send().await?;
        Ok(())
    }

    /// Denies an action to the role of a function, whatever else it is allowed.
    pub async fn deny(&self, function: &str, action: &str) -> anyhow::Result<()> {
        self.deny_on(function, POLICY, action, "*").await
    }

    /// Removes the denial.
    pub async fn deny_no_more(&self, function: &str) -> anyhow::Result<()> {
        self.deny_on_no_more(function, POLICY).await
    }

    /// Denies an action on one resource to the role of a function, with a policy of that name.
    pub async fn deny_on(
        &self,
        function: &str,
        policy: &str,
        action: &str,
        resource: &str,
    ) -> anyhow::Result<()> {
        let document = json!({"Version": "2012-10-17",
            "Statement": [{"Effect": "Deny", "Action": action, "Resource": resource}]});
        let document = document.to_string();
        let role = inside::role(&format!("gridpost-{function}"));
        let put =
            [("RoleName", role.as_str()), ("PolicyName", policy), ("PolicyDocument", &document)];
        self.aws_query("iam", "PutRolePolicy", &put).await.map(drop)
    }

    /// Removes the denial in the policy of that name.
    pub async fn deny_on_no_more(&self, function: &str, policy: &str) -> anyhow::Result<()> {
        let role = inside::role(&format!("gridpost-{function}"));
        let names = [("RoleName", role.as_str()), ("PolicyName", policy)];
        self.aws_query("iam", "DeleteRolePolicy", &names).await.map(drop)
    }

    /// Calls a service that takes forms; returns its answer.
    pub async fn aws_query(
        &self,
        service: &str,
        action: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let version = if service == "iam" { "2010-05-08" } else { "2010-03-31" };
        let own = [("Action", action), ("Version", version)];
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(own.iter().chain(more))
            .finish();
        let request = self.aws(service, Method::POST, "");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        said(action, request.body(form)).await
    }

    /// Calls a service that takes JSON with a target header; returns its answer.
    pub async fn aws_json(
        &self,
        service: &str,
        target: String,
        body: Value,
    ) -> anyhow::Result<Value> {
        let request = self.aws(service, Method::POST, "").header("x-amz-target", &target);
        let request = request.header("content-type", "application/x-amz-json-1.1");
        let text = said(&target, request.body(body.to_string())).await?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Calls a service that has a path for each resource; returns its answer.
    pub async fn aws_rest(
        &self,
        service: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let request = self.aws(service, method.parse()?, path);
        let request = if body.is_null() { request } else { request.json(body) };
        let text = said(path, request).await?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// A request to a service of the emulator.
    fn aws(&self, service: &str, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.ground.connection.emulator_url);
        self.http.request(method, url).header("authorization", inside::unsigned(service))
    }
}

async fn said(call: &str, request: RequestBuilder) -> anyhow::Result<String> {
    let answer = request.send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    if !status.is_success() {
        bail!("{call} was answered {status}: {text}");
    }
    Ok(text)
}
