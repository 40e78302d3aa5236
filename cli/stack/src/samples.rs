//! Writes sample payloads next to `local.json`: those of `functions/*/samples`, with a valid key and an
//! existing event subscription. `cargo lambda invoke` takes them.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gridpost_api::subscription::{EventSubscriptionInput, EventSubscriptionSettings};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    demonstration::case::webhook,
    watched::{self, Relay},
};
use gridpost_ops::{
    aws_api::{AwsApi, Service},
    clock,
    home::{Home, connection::Connection, write_private},
    manage_api::ManageApi,
    receiver::{Answers, Behaviour, Receiver},
    target::{Target, TargetArguments},
};

/// The topic of the samples.
pub const TOPIC: &str = "sample";

/// The event subscription of the samples.
pub const SUBSCRIPTION: &str = "first";

/// The default port of `gridpost listen`: the event subscription's endpoint.
const PORT: u16 = 9000;

/// The emulator in `functions/local.env`.
const EMULATOR: &str = "http://127.0.0.1:14566";
const BUCKET: &str = "gridpost-dead-letters-000000000000-us-east-1";

/// The dispatch queue in the samples; watched functions have another.
const DISPATCH: &str = "gridpost-dispatch";

/// The facts of a stack that go into the samples.
#[derive(Clone, Debug)]
pub struct Facts {
    pub key: String,
    /// Tells the event subscription from others of that name.
    pub subscription_uid: String,
    pub bucket: String,
    /// The publish time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Writes the samples and the environment for `cargo lambda watch`, for the owner alone.
pub async fn write(
    workspace: &Path,
    home: &Home,
    api: &ManageApi,
    connection: &Connection,
) -> anyhow::Result<()> {
    subscribe(api).await.context("the event subscription of the samples can't be made")?;
    let of_stack = TargetArguments { home: Some(home.root().to_owned()), ..Default::default() };
    let target = of_stack.resolve()?;
    let key = connection.topics.get(TOPIC).and_then(|topic| topic.keys.first());
    let facts = Facts {
        key: key.context("the samples' topic has a key")?.clone(),
        subscription_uid: subscription_uid(&target).await?,
        bucket: connection.dead_letter_bucket.clone(),
        now_ms: clock::now_ms(),
    };
    for (path, text) in samples(&workspace.join("functions"))? {
        let sample = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let to = home.samples().join(&path);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        let fitted = fit(sample, &facts, clock::random_id);
        write_private(&to, &format!("{fitted:#}\n"))?;
    }
    let relay = Relay::open(&target, watched::PORT).await?;
    let template = workspace.join("functions/local.env");
    let text = fs::read_to_string(&template);
    let text = text.with_context(|| format!("{} can't be read", template.display()))?;
    let text = environment(&text, &connection.emulator_url, relay.queue_url());
    write_private(&home.environment_file(), &text)
}

/// Makes the environment: the stack's emulator, and a dispatch queue that no deployed function reads.
fn environment(template: &str, emulator_url: &str, queue_url: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((name @ "GRIDPOST_DISPATCH_QUEUE_URL", _)) => format!("{name}={queue_url}\n"),
        _ => format!("{}\n", line.replace(EMULATOR, emulator_url)),
    };
    template.lines().map(line).collect()
}

/// Reads all samples, with paths such as `wake/minute.json`.
fn samples(functions: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for function in fs::read_dir(functions)? {
        let function = function?;
        let Ok(files) = fs::read_dir(function.path().join("samples")) else { continue };
        for file in files {
            let file = file?;
            let path = Path::new(&function.file_name()).join(file.file_name());
            found.push((path, fs::read_to_string(file.path())?));
        }
    }
    Ok(found)
}

/// Adapts a sample to a stack: a publish gets a key; a delivery gets the event subscription, an id
/// (`new_id`) and a publish time.
pub fn fit(mut sample: Value, facts: &Facts, new_id: impl Fn() -> String) -> Value {
    if sample["headers"]["aeg-sas-key"].is_string() {
        sample["headers"]["aeg-sas-key"] = json!(facts.key);
    }
    let records = sample.get_mut("Records").and_then(Value::as_array_mut);
    for record in records.into_iter().flatten() {
        let body = record["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
        let Some(mut body) = body else { continue };
        fit_message(&mut body, facts, &new_id());
        record["body"] = json!(Value::to_string(&body));
        let arn = record["eventSourceARN"].as_str().unwrap_or_default();
        if let Some(place) = arn.strip_suffix(DISPATCH) {
            record["eventSourceARN"] = json!(format!("{place}{}", watched::QUEUE));
        }
        record["attributes"]["SentTimestamp"] = json!(facts.now_ms.to_string());
        record["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(facts.now_ms.to_string());
    }
    sample
}

/// Adapts the body of one queue message: a delivery, or an ended one.
fn fit_message(message: &mut Value, facts: &Facts, id: &str) {
    if message["destination"]["bucket"] == BUCKET {
        message["destination"]["bucket"] = json!(facts.bucket);
        message["at"] = json!(facts.now_ms);
    }
    let delivery = match message["delivery"].is_object() {
        true => &mut message["delivery"],
        false => message,
    };
    if !delivery["subscription"].is_object() {
        return;
    }
    delivery["id"] = json!(id);
    delivery["subscriptionUid"] = json!(facts.subscription_uid);
    for times in ["/publishTime", "/due", "/attempts/firstAt", "/attempts/lastAt"] {
        if let Some(time) = delivery.pointer_mut(times) {
            *time = json!(facts.now_ms);
        }
    }
}

/// Creates the event subscription if necessary. Unless `gridpost listen` runs and consents, this takes its
/// place until the endpoint has consented.
async fn subscribe(api: &ManageApi) -> anyhow::Result<()> {
    let there = api.subscriptions(TOPIC).await?;
    if there.iter().any(|one| one.name == SUBSCRIPTION) {
        return Ok(());
    }
    let mut refused = None;
    // If the port is taken, the samples have another endpoint.
    for port in [PORT, 0] {
        let (sender, _arrivals) = mpsc::unbounded_channel();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let behaviour = Behaviour::prompt(Answers::always(200));
        let receiver = Receiver::start(address, HashMap::new(), behaviour, sender).await;
        let url = match &receiver {
            Ok(receiver) => receiver.url("/hook"),
            Err(_) => format!("http://{address}/hook"),
        };
        let destination = Some(webhook(&url));
        let settings = EventSubscriptionSettings { destination, ..Default::default() };
        let document = EventSubscriptionInput { properties: Some(settings) };
        match api.put_subscription(TOPIC, SUBSCRIPTION, &document).await {
            Ok(_) => return Ok(()),
            Err(err) => refused = Some(err),
        }
    }
    Err(refused.context("no port was tried")?)
}

/// Reads the event subscription's uid, which no document has, from the emulator's table
/// (`shared/aws/src/configuration.rs`).
async fn subscription_uid(target: &Target) -> anyhow::Result<String> {
    let ask = json!({
        "TableName": "gridpost-config",
        "Key": {"pk": {"S": format!("TOPIC#{TOPIC}")}, "sk": {"S": format!("subscription#{SUBSCRIPTION}")}},
        "ConsistentRead": true,
    });
    let answer = AwsApi::connect(Service::Tables, target).await?.call("GetItem", &ask).await?;
    let document = answer["Item"]["document"]["S"].as_str().unwrap_or_default();
    let subscription: Value = serde_json::from_str(document).unwrap_or_default();
    match subscription["uid"].as_str() {
        Some(uid) => Ok(uid.to_owned()),
        None => bail!("the emulator's table has no uid of {TOPIC}/{SUBSCRIPTION}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            key: "valid".into(),
            subscription_uid: "0190a000-0000-7000-8000-00000000abcd".into(),
            bucket: "other-bucket".into(),
            now_ms: 1_900_000_000_000,
        }
    }

    /// Every sample of the repository, fitted.
    fn fitted() -> HashMap<String, Value> {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
        let found = samples(&workspace.join("functions")).expect("readable");
        let fit_one = |text: &str| {
            fit(serde_json::from_str(text).expect("JSON"), &facts(), || "an-id".to_owned())
        };
        found.iter().map(|(path, text)| (path.display().to_string(), fit_one(text))).collect()
    }

    #[test]
    fn a_publish_has_a_valid_key_and_deliveries_are_for_what_is_there() {
        let samples = fitted();
        assert_eq!(samples["ingest/publish.json"]["headers"]["aeg-sas-key"], "valid");
        for name in ["first-attempt", "retry"] {
            let record = &samples[&format!("dispatch/{name}.json")]["Records"][0];
            let body: Value =
                serde_json::from_str(record["body"].as_str().expect("text")).expect("JSON");
            assert_eq!(body["subscription"], json!({"topic": TOPIC, "name": SUBSCRIPTION}));
            assert_eq!(body["subscriptionUid"], facts().subscription_uid);
            assert_eq!(body["publishTime"], facts().now_ms);
            assert_eq!(body["id"], "an-id");
            let arn = record["eventSourceARN"].as_str().expect("text");
            let queue = if name == "retry" { "gridpost-retry-0" } else { watched::QUEUE };
            assert!(arn.ends_with(&format!(":{queue}")), "{arn}");
            assert_eq!(body["due"].is_null(), name == "first-attempt");
            assert_eq!(body["events"].as_array().map(Vec::len), Some(1));
        }
        let ended = &samples["dead-letter/two-ended-together.json"]["Records"];
        for record in ended.as_array().expect("records") {
            let body: Value =
                serde_json::from_str(record["body"].as_str().expect("text")).expect("JSON");
            assert_eq!(body["destination"]["bucket"], "other-bucket");
            assert_eq!(body["delivery"]["subscriptionUid"], facts().subscription_uid);
        }
    }

    #[test]
    fn what_needs_no_fact_of_the_stack_stays_as_it_is() {
        let samples = fitted();
        let body = &samples["dispatch/not-a-delivery.json"]["Records"][0]["body"];
        assert_eq!(body, r#"{"hello":"queue"}"#);
        assert_eq!(samples["wake/minute.json"], json!({}));
        assert_eq!(samples["manage/list-topics.json"]["routeKey"], "GET /topics");
    }

    #[test]
    fn the_environment_is_one_that_can_be_pointed_elsewhere_and_is_quiet() {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
        let text = fs::read_to_string(workspace.join("functions/local.env")).expect("readable");
        assert!(text.contains(&format!("AWS_ENDPOINT_URL={EMULATOR}\n")), "{text}");
        assert!(text.contains("GRIDPOST_LOG=info\n"), "{text}");
        let written = environment(&text, "http://e", "http://e/watched");
        assert!(written.contains("\nAWS_ENDPOINT_URL=http://e\n"), "{written}");
        assert!(written.contains("\nGRIDPOST_DISPATCH_QUEUE_URL=http://e/watched\n"), "{written}");
        assert!(!written.contains(EMULATOR), "{written}");
    }
}
