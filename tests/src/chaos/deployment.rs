//! Points the deployed functions at the proxy, and back.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use aws_sdk_sqs::types::QueueAttributeName;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::proxy::Proxy;
use crate::e2e::{fixture::Fixture, inside};

/// The functions that events go through.
pub const FUNCTIONS: [&str; 6] = ["ingest", "expand", "dispatch", "dead-letter", "wake", "manage"];

/// During a run, publishes that make more deliveries than this are stored, and expanded after the
/// answer. Every fourth publish does.
const INLINE_FAN_OUT: &str = "60";

/// The queues' visibility timeout during a run, so that a killed function's messages come back
/// soon.
const VISIBILITY_S: u32 = 20;

/// Most concurrent copies of a function for one queue during a run. With as many as on AWS, a small
/// machine would only start programs, because each restart of the emulator ends all of them.
const COPIES_MAX: u64 = 16;

/// How long a function may take to get its new environment.
const UPDATE_MAX: Duration = Duration::from_secs(30);

/// The environments of the functions and the settings of their queues, as Terraform made them.
pub struct Deployment<'a> {
    fixture: &'a Fixture,
    environments: BTreeMap<&'static str, Value>,
    visibilities: BTreeMap<String, String>,
    /// How many copies each queue's mapping may run, by the mapping's id.
    copies: BTreeMap<String, u64>,
}

impl<'a> Deployment<'a> {
    /// Reads those of these functions.
    pub async fn of(fixture: &'a Fixture, functions: &[&'static str]) -> anyhow::Result<Self> {
        let (environments, visibilities) = (BTreeMap::new(), BTreeMap::new());
        let mut deployment = Self { fixture, environments, visibilities, copies: BTreeMap::new() };
        deployment.copies = deployment.mappings().await?;
        for &function in functions {
            let read = deployment.configuration(function).await?;
            let variables = read["Environment"]["Variables"].clone();
            ensure!(variables.is_object(), "{function} has no environment: {read}");
            deployment.environments.insert(function, variables);
        }
        for url in deployment.queue_urls() {
            let attributes = fixture.sqs().get_queue_attributes().queue_url(&url);
            let attributes = attributes.attribute_names(QueueAttributeName::VisibilityTimeout);
            let attributes = attributes.send().await?.attributes.unwrap_or_default();
            let visibility = attributes.get(&QueueAttributeName::VisibilityTimeout);
            let visibility = visibility.context("a queue has a visibility timeout")?.clone();
            deployment.visibilities.insert(url, visibility);
        }
        Ok(deployment)
    }

    /// Makes the functions call AWS through the proxy, and a killed function's messages come back
    /// soon. Without a proxy, restores everything.
    pub async fn turn_to(&self, proxy: Option<&Proxy>) -> anyhow::Result<()> {
        for (url, visibility) in &self.visibilities {
            let seconds = proxy.map_or_else(|| visibility.clone(), |_| VISIBILITY_S.to_string());
            let change = self.fixture.sqs().set_queue_attributes().queue_url(url);
            change.attributes(QueueAttributeName::VisibilityTimeout, seconds).send().await?;
        }
        for (mapping, most) in &self.copies {
            let most = proxy.map_or(*most, |_| COPIES_MAX.min(*most));
            let body = json!({"ScalingConfig": {"MaximumConcurrency": most}});
            self.lambda("PUT", &format!("event-source-mappings/{mapping}"), &body).await?;
        }
        for (function, variables) in &self.environments {
            let mut variables = variables.clone();
            if let Some(proxy) = proxy {
                variables["AWS_ENDPOINT_URL"] = json!(proxy.url());
                if *function == "ingest" {
                    variables["GRIDPOST_INLINE_FAN_OUT"] = json!(INLINE_FAN_OUT);
                }
            }
            self.configure(function, &variables).await?;
            // Running copies have the old environment.
            inside::kill(self.fixture.ground.home(), &name(function));
        }
        Ok(())
    }

    /// Makes a function run that program, a zip file, from now on.
    pub async fn run(&self, function: &str, zip: &[u8]) -> anyhow::Result<()> {
        let body = json!({"ZipFile": BASE64_STANDARD.encode(zip)});
        self.lambda("PUT", &format!("functions/{}/code", name(function)), &body).await?;
        // Running copies have the other program.
        inside::kill(self.fixture.ground.home(), &name(function));
        Ok(())
    }

    fn queue_urls(&self) -> Vec<String> {
        let names = [
            "GRIDPOST_DISPATCH_QUEUE_URL",
            "GRIDPOST_RETRY_QUEUE_URLS",
            "GRIDPOST_DEAD_LETTER_QUEUE_URL",
        ];
        let mut urls: Vec<String> = Vec::new();
        for variables in self.environments.values() {
            let values = names.iter().filter_map(|name| variables[name].as_str());
            urls.extend(values.flat_map(|value| value.split(',')).map(str::to_owned));
        }
        urls.sort_unstable();
        urls.dedup();
        urls
    }

    async fn configure(&self, function: &str, variables: &Value) -> anyhow::Result<()> {
        let body = json!({"Environment": {"Variables": variables}});
        self.lambda("PUT", &configuration_of(function), &body).await?;
        let mut waited = Duration::ZERO;
        while self.configuration(function).await?["Environment"]["Variables"] != *variables {
            ensure!(waited < UPDATE_MAX, "{function} does not take its environment");
            sleep(Duration::from_millis(200)).await;
            waited += Duration::from_millis(200);
        }
        Ok(())
    }

    /// The mappings whose copies are limited, and the limits.
    async fn mappings(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let answer = self.lambda("GET", "event-source-mappings/", &Value::Null).await?;
        let all = answer["EventSourceMappings"].as_array().context("no mappings")?;
        let limited = |mapping: &Value| {
            let most = mapping["ScalingConfig"]["MaximumConcurrency"].as_u64()?;
            Some((mapping["UUID"].as_str()?.to_owned(), most))
        };
        let limited: BTreeMap<_, _> = all.iter().filter_map(limited).collect();
        ensure!(!limited.is_empty(), "no queue's mapping has a limit: {answer}");
        Ok(limited)
    }

    async fn configuration(&self, function: &str) -> anyhow::Result<Value> {
        self.lambda("GET", &configuration_of(function), &Value::Null).await
    }

    async fn lambda(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.fixture.aws_rest("lambda", method, &format!("/2015-03-31/{path}"), body).await
    }
}

fn configuration_of(function: &str) -> String {
    format!("functions/{}/configuration", name(function))
}

/// A function's name in the stack.
pub fn name(function: &str) -> String {
    format!("gridpost-{function}")
}
