//! Several deployments in one account, made by a user's own configuration.

use std::{env, time::Duration};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use gridpost_core::topic::InputSchema;
use gridpost_ops::home::connection::TopicConnection;
use gridpost_ops::manage_api::ManageApi;
use gridpost_stack::stack;
use serde_json::{Value, json};

use crate::e2e::{
    configuration::Configuration,
    fixture::{Fixture, post},
    inventory,
    receiver::{Endpoint, Reply},
};

/// Time for a delivery while other cases kill functions.
const SOON: Duration = Duration::from_secs(90);

/// The two prefixes, which are also the keys of `for_each`.
const NAMES: [&str; 2] = ["two-orders", "two-billing"];

/// The configuration of infra/README.md, with the settings that an emulator needs.
const CONFIGURATION: &str = r#"
variable "names" {}
variable "local" {}
variable "front_doors" {}

module "gridpost" {
  for_each = toset(var.names)
  source   = "{infra}"

  name_prefix        = each.key
  publish_front_door = var.front_doors[each.key]
  functions_dir      = var.local.functions_dir
  architecture       = var.local.architecture

  aws_endpoint_url          = var.local.aws_endpoint_url
  manage_authorization      = "NONE"
  endpoint_allowed_networks = ["127.0.0.0/8"]
  protect_data              = false
}

output "urls" {
  value = { for name, deployment in module.gridpost : name => {
    publish = deployment.publish_url
    manage  = deployment.manage_url
  } }
}
"#;

/// Two deployments by `for_each` are applied beside the one of the other cases. An event of either
/// reaches only its own receiver, although topics and event subscriptions have the same names. Each
/// refuses the other's key. One began with a function URL, and nothing of its grants is left once the
/// API takes its place. After a destroy, nothing is left in the emulator.
pub async fn two_in_one_account_keep_apart(fixture: &Fixture) -> anyhow::Result<()> {
    let terraform = fixture.ground.terraform()?;
    let configuration = Configuration::new(terraform, CONFIGURATION).await?;
    let mut variables = json!({
        "names": NAMES,
        "front_doors": {NAMES[0]: "HTTP_API", NAMES[1]: "FUNCTION_URL"},
        "local": {
            "functions_dir": terraform.functions(),
            "architecture": if env::consts::ARCH == "aarch64" { "arm64" } else { "x86_64" },
            "aws_endpoint_url": terraform.emulator_url(),
        },
    });
    let shown = show(fixture, &configuration, &mut variables).await;
    // Destroy in any case: a stack that is kept would hold them forever.
    let before = configuration.resources().unwrap_or_default();
    let destroyed = configuration.destroy().await;
    shown?;
    destroyed?;
    let left = configuration.resources()?;
    ensure!(left.is_empty(), "left in the state: {left:?}");
    let left = inventory::still_there(fixture, &before).await?;
    ensure!(left.is_empty(), "left in the emulator: {left:?}");
    Ok(())
}

async fn show(
    fixture: &Fixture,
    configuration: &Configuration,
    variables: &mut Value,
) -> anyhow::Result<()> {
    configuration.apply(variables).await?;
    leave_the_function_url(fixture, configuration, variables).await?;
    let there = inventory::still_there(fixture, &configuration.resources()?).await?;
    inventory::has_every_kind(&there)?;
    for name in NAMES {
        let own = there.iter().filter(|(_, of)| of.contains(name)).count();
        ensure!(own > 20, "the emulator has too little of {name}: {there:?}");
    }
    let urls = configuration.outputs().await?["urls"].take();
    let [one, other] = NAMES.map(|name| Deployed::reach(fixture, name, &urls[name]));
    let (one, other) = tokio::try_join!(one, other)?;
    try_join_all([one.publish(fixture, &one.topic), other.publish(fixture, &other.topic)]).await?;
    let arrived = try_join_all([&one, &other].map(|it| it.endpoint.wait_for(1, SOON))).await;
    arrived.context("an event of each")?;
    for (mine, others) in [(&one, &other), (&other, &one)] {
        let refused = mine.post(fixture, "stray", &others.topic).await?;
        ensure!(refused == 401, "{} took the key of another deployment: {refused}", mine.name);
        let ids: Vec<_> = mine.endpoint.deliveries().iter().flat_map(|it| it.ids()).collect();
        ensure!(ids == [mine.name], "{} delivered {ids:?}", mine.name);
    }
    Ok(())
}

/// Gives the second deployment an API in place of its function URL, and reads who may invoke ingest
/// before and after. `"Principal":"*"` would stay if the provider had added it itself.
async fn leave_the_function_url(
    fixture: &Fixture,
    configuration: &Configuration,
    variables: &mut Value,
) -> anyhow::Result<()> {
    let open = async || -> anyhow::Result<Vec<Value>> {
        let path = format!("/2015-03-31/functions/{}-ingest/policy", NAMES[1]);
        let told = fixture.aws_rest("lambda", "GET", &path, &Value::Null).await?;
        let policy: Value = serde_json::from_str(told["Policy"].as_str().context("a policy")?)?;
        let statements = policy["Statement"].as_array().context("statements")?;
        let is_open = |one: &&Value| matches!(one["Principal"].as_str(), Some("*"));
        Ok(statements.iter().filter(is_open).cloned().collect())
    };
    let by_url = open().await?;
    let bound = by_url.iter().filter(|one| one["Condition"].is_object()).count();
    ensure!(by_url.len() == 2 && bound == 2, "by its URL ingest is open to {by_url:?}");
    variables["front_doors"][NAMES[1]] = json!("HTTP_API");
    configuration.apply(variables).await?;
    let by_api = open().await?;
    ensure!(by_api.is_empty(), "without its URL ingest stays open to {by_api:?}");
    Ok(())
}

/// One of the two, with a topic and an event subscription.
struct Deployed {
    name: &'static str,
    topic: TopicConnection,
    endpoint: Endpoint,
}

impl Deployed {
    async fn reach(fixture: &Fixture, name: &'static str, urls: &Value) -> anyhow::Result<Self> {
        let url =
            |api: &str| urls[api].as_str().with_context(|| format!("{name} has no URL of {api}"));
        let api = ManageApi::connect(url("manage")?).await?;
        let schema = InputSchema::EventGridSchema;
        let topic = stack::reach_topic(&api, url("publish")?, "events", schema).await?;
        let endpoint = fixture.receiver.endpoint(&format!("{name}/all"), &[Reply::prompt(200)]);
        let destination =
            json!({"endpointType": "WebHook", "properties": {"endpointUrl": endpoint.url()}});
        let document = json!({"properties": {"destination": destination}});
        api.api.put_subscription("events", "all", &document).await.context(name)?;
        Ok(Self { name, topic, endpoint })
    }

    /// Publishes an event with the deployment's name as its id.
    async fn publish(&self, fixture: &Fixture, with: &TopicConnection) -> anyhow::Result<()> {
        let status = self.post(fixture, self.name, with).await?;
        ensure!(status == 200, "{} answered a publish with {status}", self.name);
        Ok(())
    }

    /// Publishes with a key of that topic; returns the answer's status.
    async fn post(
        &self,
        fixture: &Fixture,
        id: &str,
        with: &TopicConnection,
    ) -> anyhow::Result<u16> {
        let event = json!([{
            "id": id, "eventType": "Gridpost.Test", "subject": "e2e/two", "data": {},
            "eventTime": gridpost_ops::clock::now_rfc3339(), "dataVersion": "1.0",
        }]);
        let key = with.keys.first().context("a topic has keys")?;
        let url = &self.topic.endpoint;
        let answer = post(&fixture.http, url, key, "application/json", event.to_string()).await?;
        Ok(answer.0)
    }
}
