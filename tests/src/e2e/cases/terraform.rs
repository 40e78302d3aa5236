//! Event subscriptions made by the Terraform module.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::e2e::{
    configuration::Configuration,
    fixture::{self, EVENT_GRID, Fixture, Topic, refusal},
    receiver::{Arrival, Endpoint, Reply},
};

/// Time for a delivery. Dispatch may be killed meanwhile, and continues after 90 s.
const SOON: Duration = fixture::SOON.saturating_add(Duration::from_secs(90));

/// Two event subscriptions of one topic, one for each schema.
const CONFIGURATION: &str = r#"
variable "topic" {}
variable "name" {}
variable "properties" {}

variable "urls" {
  type      = map(string)
  sensitive = true
}

variable "token" {
  sensitive = true
}

module "subscription" {
  for_each = { eg = "EventGridSchema", ce = "CloudEventSchemaV1_0" }
  source   = "{infra}/modules/event-subscription"

  manage_function_name = "gridpost-manage"
  topic                = var.topic
  name                 = "${var.name}-${each.key}"
  endpoint_url         = var.urls[each.key]
  secret_headers       = { X-Token = var.token }
  document             = { properties = merge(var.properties, { eventDeliverySchema = each.value }) }
}

output "states" {
  value = values(module.subscription)[*].provisioning_state
}
"#;

const TOKEN: &str = "hush-hush";

/// An event subscription made by the module delivers with a dynamic and a secret header in either
/// schema. A plan lists every problem of a document; a change that an endpoint refused is tried
/// again; a new name replaces the event subscription, a removal deletes it.
pub async fn a_subscription_of_the_module_lives_and_goes(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("terraform", EVENT_GRID).await?;
    let configuration = Configuration::new(fixture.ground.terraform()?, CONFIGURATION).await?;
    let open = |name: &str| {
        fixture.receiver.endpoint(&format!("{}/{name}", topic.name), &[Reply::prompt(200)])
    };
    let (event_grid, cloud) = (open("eg"), open("ce"));
    let mut variables = json!({
        "topic": topic.name,
        "name": "made",
        "token": TOKEN,
        "urls": {"eg": with_code(&event_grid), "ce": with_code(&cloud)},
        "properties": {
            "signing": {"scheme": "StandardWebhooks"},
            "destination": {"endpointType": "WebHook", "properties": {
                "deliveryAttributeMappings": [
                    {"name": "X-Kind", "type": "Dynamic", "properties": {"sourceField": "data.of"}},
                ],
            }},
        },
    });
    a_plan_lists_every_problem(&configuration, &variables, &[&event_grid, &cloud]).await?;

    let said = configuration.apply(&variables).await?;
    ensure!(!said.contains(TOKEN) && !said.contains("code="), "a secret was shown: {said}");
    topic.publish(&[topic.plain_event("first")]).await?;
    for (name, endpoint, content_type) in [
        ("made-eg", &event_grid, "application/json; charset=utf-8"),
        ("made-ce", &cloud, "application/cloudevents+json; charset=utf-8"),
    ] {
        let deliveries = endpoint.wait_for(1, SOON).await?;
        check_delivery(&deliveries[0], content_type)?;
        check_signature(fixture, &topic.name, name, &deliveries[0]).await?;
    }
    a_replaced_secret_stays_valid(fixture, &topic, "made-eg", &event_grid).await?;
    a_change_without_consent_is_tried_again(fixture, &topic.name, &configuration, &mut variables)
        .await?;

    variables["name"] = json!("renamed");
    configuration.apply(&variables).await?;
    let names = names(fixture, &topic.name).await?;
    ensure!(names == ["renamed-ce", "renamed-eg"], "after the new name: {names:?}");
    // It may be gone already.
    fixture.api.delete_subscription(&topic.name, "renamed-eg").await?;
    configuration.destroy().await?;
    let gone = refusal(fixture.api.subscription(&topic.name, "renamed-ce").await)?;
    ensure!(gone.status == 404, "{gone:?}");
    Ok(())
}

fn with_code(endpoint: &Endpoint) -> String {
    format!("{}?code=hush", endpoint.url())
}

async fn names(fixture: &Fixture, topic: &str) -> anyhow::Result<Vec<String>> {
    let all = fixture.api.subscriptions(topic).await?;
    Ok(all.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
}

fn check_delivery(delivery: &Arrival, content_type: &str) -> anyhow::Result<()> {
    for (name, want) in [("content-type", content_type), ("x-kind", "first"), ("x-token", TOKEN)] {
        ensure!(delivery.header(name) == want, "{name} is {}", delivery.header(name));
    }
    ensure!(delivery.query == "code=hush", "the query is {}", delivery.query);
    Ok(())
}

/// The library of Standard Webhooks accepts the request, and no request with another body.
async fn check_signature(
    fixture: &Fixture,
    topic: &str,
    name: &str,
    delivery: &Arrival,
) -> anyhow::Result<()> {
    let secrets = fixture.api.signing_secrets(topic, name).await?;
    let secret = secrets["secret"].as_str().context("a signing secret")?;
    ensure!(secret.starts_with("whsec_"), "not of the form that the libraries take");
    let signed = signed(secret, delivery);
    let mut forged = signed.clone();
    forged["body"] = json!(String::from_utf8_lossy(&delivery.body).replace("first", "forged"));
    let verdicts = fixture.verify_signatures(json!([signed, forged])).await?;
    ensure!(verdicts[0].is_null() && verdicts[1].is_string(), "{name}: {verdicts}");
    Ok(())
}

/// A delivery as the library takes it, with the secret to verify it.
fn signed(secret: &str, delivery: &Arrival) -> Value {
    let header = |name: &str| (name.to_owned(), json!(delivery.header(name)));
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: Value = names.into_iter().map(header).collect::<serde_json::Map<_, _>>().into();
    json!({"secret": secret, "headers": headers, "body": String::from_utf8_lossy(&delivery.body)})
}

/// Once the secret has been replaced, the library accepts requests by the old one and by the new one.
async fn a_replaced_secret_stays_valid(
    fixture: &Fixture,
    topic: &Topic<'_>,
    name: &str,
    endpoint: &Endpoint,
) -> anyhow::Result<()> {
    let secrets = fixture.api.rotate_signing_secret(&topic.name, name).await?;
    let secret = |which: &str| secrets[which].as_str().context("a secret").map(str::to_owned);
    let (new, old) = (secret("secret")?, secret("previousSecret")?);
    topic.publish(&[topic.plain_event("second")]).await?;
    let deliveries = endpoint.wait_for(2, SOON).await?;
    let (before, after) = (&deliveries[0], &deliveries[1]);
    let rows = json!([signed(&new, after), signed(&old, after), signed(&new, before)]);
    let verdicts = fixture.verify_signatures(rows).await?;
    let [by_new, by_old, too_old] = [0, 1, 2].map(|row| verdicts[row].is_null());
    ensure!(by_new && by_old && !too_old, "{name}: {verdicts}");
    Ok(())
}

async fn a_plan_lists_every_problem(
    configuration: &Configuration,
    good: &Value,
    endpoints: &[&Endpoint],
) -> anyhow::Result<()> {
    let mut bad = good.clone();
    bad["properties"]["retryPolicy"] = json!({"maxDeliveryAttempts": 31, "patience": 1});
    let Err(refused) = configuration.plan(&bad).await else { bail!("the plan was not refused") };
    // Terraform breaks long lines where it likes.
    let said = refused.to_string();
    for path in ["properties.retryPolicy.maxDeliveryAttempts", "properties.retryPolicy.patience"] {
        ensure!(said.contains(path), "{path} is not named: {said}");
    }
    ensure!(!said.contains(TOKEN) && !said.contains("code="), "a secret was shown: {said}");
    ensure!(endpoints.iter().all(|one| one.handshakes().is_empty()), "an endpoint was asked");
    Ok(())
}

/// A change that an endpoint refuses does not count as done: the next apply makes it.
async fn a_change_without_consent_is_tried_again(
    fixture: &Fixture,
    topic: &str,
    configuration: &Configuration,
    variables: &mut Value,
) -> anyhow::Result<()> {
    let labels = async || -> anyhow::Result<Value> {
        let read = fixture.api.subscription(topic, "made-eg").await?;
        Ok(read["properties"]["labels"].clone())
    };
    let url = variables["urls"]["eg"].as_str().context("a URL")?.replace("/eg?", "/late?");
    variables["urls"]["eg"] = json!(url);
    variables["properties"]["labels"] = json!(["changed"]);
    // The endpoint does not exist yet.
    let Err(refused) = configuration.apply(variables).await else {
        bail!("the apply was not refused")
    };
    let refused = refused.to_string();
    ensure!(refused.contains("404") && !refused.contains("code="), "{refused}");
    ensure!(labels().await? != json!(["changed"]), "it was changed without consent");

    let late = fixture.receiver.endpoint(&format!("{topic}/late"), &[Reply::prompt(200)]);
    configuration.apply(variables).await?;
    ensure!(labels().await? == json!(["changed"]), "the change was forgotten");
    ensure!(late.handshakes().len() == 1, "{:?}", late.handshakes());
    let said = configuration.plan(variables).await?;
    ensure!(said.contains("No changes"), "a plan after the repair is not empty: {said}");
    Ok(())
}
