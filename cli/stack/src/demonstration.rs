//! Demonstrates the stack: published events are delivered, retried on schedule, and dead-lettered. All
//! cases run at once and take about half a minute.

pub mod case;
pub mod own;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join_all, try_join_all};
use gridpost_api::{
    dead_letter::{DeadLetter, DeadLetterContent},
    requests::PurgeDeadLettersInput,
};
use gridpost_core::{event::DeliverySchema, topic::InputSchema};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::demonstration::case::{CASES, Case, Seen};
use crate::{child, python::Environment};
use gridpost_ops::{
    clock, failure,
    home::connection::{Connection, TopicConnection},
    http_client,
    manage_api::ManageApi,
    progress::Progress,
    publish::{Event, content_type},
    receiver::{Answers, Arrival, Behaviour, Purpose, Receiver},
};

const PUBLISH: &str = include_str!("demonstration/publish.py");

/// From the publish to the end of the last case; the schedule needs 33 s of it.
const CASES_MAX: Duration = Duration::from_secs(90);
/// For Azure's SDK to start and publish four events.
const PUBLISH_MAX: Duration = Duration::from_secs(60);
/// Between two checks for the dead letter.
const POLL: Duration = Duration::from_millis(500);

/// The lines that a case showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub title: &'static str,
    pub lines: Vec<String>,
}

/// The demonstration's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Show<'a> {
    pub connection: &'a Connection,
    pub publisher: Publisher<'a>,
    /// The place of dead-letter buckets: `s3:/`, or a folder; `None` in memory.
    pub buckets: Option<&'a str>,
    /// Returns where a bucket has the object of that name.
    pub path_of: fn(&str) -> String,
    /// The clock's speed, at least 1.
    pub speed: u32,
}

/// The publisher.
#[derive(Clone, Copy, Debug)]
pub enum Publisher<'a> {
    AzureSdk(&'a Environment),
    Own,
}

/// Runs all cases.
pub async fn run(show: Show<'_>, progress: &Progress) -> anyhow::Result<Vec<Shown>> {
    let connection = show.connection;
    let (sender, arrivals) = mpsc::unbounded_channel();
    let scripts = CASES.iter().filter_map(|case| {
        let answers: Answers = case.answers.parse().ok()?;
        Some((case.path(), Behaviour::prompt(answers)))
    });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let otherwise = Behaviour::prompt(Answers::always(404));
    let receiver = Receiver::start(address, scripts.collect(), otherwise, sender).await?;
    let api = connection.manage_api().await?;
    let run = Run { show, connection, api, receiver, run_id: clock::random_id(), progress };
    let shown = run.show(arrivals).await;
    run.unsubscribe().await;
    shown
}

struct Run<'a> {
    show: Show<'a>,
    connection: &'a Connection,
    api: ManageApi,
    receiver: Receiver,
    /// Distinguishes this run's events and dead letters.
    run_id: String,
    progress: &'a Progress,
}

impl Run<'_> {
    async fn show(
        &self,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    ) -> anyhow::Result<Vec<Shown>> {
        let step = self.progress.step("Demonstrating: subscribing a built-in endpoint");
        try_join_all(CASES.iter().map(|case| self.subscribe(case))).await?;
        step.done("Subscribed a built-in endpoint; both handshakes passed");
        let with = match self.show.publisher {
            Publisher::AzureSdk(_) => " with Azure's SDK",
            Publisher::Own => "",
        };
        let step = self.progress.step(&format!("Demonstrating: publishing{with}"));
        self.publish().await?;
        let published = Instant::now();
        step.done(&format!("Published an event for each case{with}"));

        let step =
            self.progress.step("Demonstrating: delivering, retrying, dead-lettering (about 30 s)");
        step.total(CASES.iter().map(|case| case.attempts() as u64).sum());
        let deadline = published + CASES_MAX;
        let follow = async {
            let mut seen = Seen::default();
            while !seen.is_complete() {
                let Ok(Some(arrival)) = timeout_at(deadline, arrivals.recv()).await else { break };
                if let Some(case) = self.case_of(&arrival) {
                    let since = arrival.at.saturating_duration_since(published);
                    let since = since * self.show.speed;
                    self.progress.line(&log_line(&arrival, case, since));
                    step.advance(case.title);
                    seen.add(case, &arrival);
                }
            }
            seen
        };
        let dead_letter = async {
            let found = self.dead_letter(deadline).await;
            if found.is_ok() {
                let since_s = (published.elapsed() * self.show.speed).as_secs_f64();
                let place = self.place("");
                self.progress.line(&format!(
                    "  {since_s:>5.1} s  {:<14} dead letter in {place}",
                    "dead-lettered"
                ));
            }
            found
        };
        let (seen, dead_letter) = tokio::join!(follow, dead_letter);
        drop(step);
        self.judge(&seen, dead_letter)
    }

    /// Waits until the manage API lists the last case's dead letter.
    async fn dead_letter(&self, deadline: Instant) -> anyhow::Result<DeadLetter> {
        let [.., case] = &CASES;
        let (subscription, all) = (case.subscription_name(), PurgeDeadLettersInput::default());
        loop {
            // Failures are retried; the last one is reported.
            let found = self.api.dead_letters(case.topic, &subscription, &all, 1).await;
            match found.map(|letters| letters.into_iter().next()) {
                Ok(Some(letter)) => return Ok(letter),
                Ok(None) | Err(_) if Instant::now() < deadline => sleep(POLL).await,
                Ok(None) => {
                    bail!("no dead letter was written for event subscription {subscription}")
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the place of an object with dead letters; with an empty name, of all.
    fn place(&self, object: &str) -> String {
        let Show { buckets, path_of, .. } = self.show;
        match buckets {
            Some(buckets) => {
                let object = if object.is_empty() { String::new() } else { path_of(object) };
                format!("{buckets}/{}/{object}", self.connection.dead_letter_bucket)
            }
            None if object.is_empty() => "memory".to_owned(),
            None => "in memory".to_owned(),
        }
    }

    /// Returns the case of an arrival; `None` for handshakes and others' events.
    fn case_of(&self, arrival: &Arrival) -> Option<&'static Case> {
        let case = CASES.iter().find(|case| case.path() == arrival.path)?;
        let id = self.event_id(case);
        let is_ours = arrival.events().iter().any(|event| event["id"] == id.as_str());
        (arrival.purpose == Purpose::Delivery && is_ours).then_some(case)
    }

    fn judge(
        &self,
        seen: &Seen,
        dead_letter: anyhow::Result<DeadLetter>,
    ) -> anyhow::Result<Vec<Shown>> {
        let mut shown = Vec::new();
        let mut problems = Vec::new();
        for case in &CASES {
            match case.judge(seen.of(case), self.show.speed) {
                Ok(lines) => shown.push(Shown { title: case.title, lines }),
                Err(problem) => problems.push(format!("{}: {problem}", case.title)),
            }
        }
        let last = shown.last_mut();
        match (dead_letter, last) {
            (Ok(letter), Some(last)) => {
                last.lines.extend([self.place(&letter.object_name), describe(&letter.content)]);
            }
            (Err(err), _) => problems.push(failure::chain(&err)),
            (Ok(_), None) => {}
        }
        if !problems.is_empty() {
            bail!("the demonstration did not show what it should:\n  {}", problems.join("\n  "));
        }
        Ok(shown)
    }

    async fn subscribe(&self, case: &Case) -> anyhow::Result<()> {
        let url = self.receiver.url(&case.path());
        let bucket = &self.connection.dead_letter_bucket;
        let document = case.subscription(&url, bucket, &self.dead_letter_prefix());
        let name = case.subscription_name();
        let created = self.api.put_subscription(case.topic, &name, &document).await;
        created
            .with_context(|| format!("event subscription {name} of topic {} failed", case.topic))?;
        Ok(())
    }

    /// Removes the event subscriptions. One that cannot be removed is replaced by the next run.
    async fn unsubscribe(&self) {
        let names = CASES.iter().map(|case| (case.topic, case.subscription_name()));
        let deletes = names.map(|(topic, name)| async move {
            if let Err(err) = self.api.delete_subscription(topic, &name).await {
                self.progress.line(&format!("event subscription {name} is left behind: {err:#}"));
            }
        });
        join_all(deletes).await;
    }

    async fn publish(&self) -> anyhow::Result<()> {
        match self.show.publisher {
            Publisher::AzureSdk(environment) => self.publish_by_sdk(environment).await,
            Publisher::Own => {
                try_join_all(CASES.iter().map(|case| self.publish_one(case))).await.map(drop)
            }
        }
    }

    async fn publish_one(&self, case: &Case) -> anyhow::Result<()> {
        let topic = self.topic_of(case)?;
        let (id, time) = (self.event_id(case), clock::now_rfc3339());
        let schema = match case.schema {
            DeliverySchema::CloudEventSchemaV1_0 => InputSchema::CloudEventSchemaV1_0,
            _ => InputSchema::EventGridSchema,
        };
        let event = Event {
            id: &id,
            event_type: &case.event_type(),
            subject: &format!("demonstration/{}", case.name),
            source: "/gridpost/demonstration",
            time: &time,
            data: &json!({"message": "Hello from Gridpost", "case": case.name}).to_string(),
        };
        let body = event.body(schema);
        let ca_file = self.connection.ca_file.as_deref();
        let request = http_client::trusting(&topic.endpoint, ca_file)?.post(&topic.endpoint);
        let request = request.header("content-type", content_type(schema, body.as_bytes()));
        let request = request.header("aeg-sas-key", topic.keys.first().map_or("", String::as_str));
        let answer = request.body(body).send().await?;
        let status = answer.status();
        if !status.is_success() {
            bail!("publishing to {} failed: HTTP {}", case.topic, status.as_u16());
        }
        Ok(())
    }

    fn topic_of(&self, case: &Case) -> anyhow::Result<&TopicConnection> {
        let topic = self.connection.topics.get(case.topic);
        topic.with_context(|| format!("topic {} is not there", case.topic))
    }

    async fn publish_by_sdk(&self, environment: &Environment) -> anyhow::Result<()> {
        let publishes =
            CASES.iter().map(|case| self.publish_of(case)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut python = child::command(&environment.python());
        python.args(["-c", PUBLISH]).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut python = python.spawn().context("Python cannot be started")?;
        if let Some(mut stdin) = python.stdin.take() {
            stdin.write_all(Value::from(publishes).to_string().as_bytes()).await?;
        }
        let deadline = Instant::now() + PUBLISH_MAX;
        let output = timeout_at(deadline, python.wait_with_output()).await;
        let output = output.context("Azure's SDK did not end its publishing in time")??;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("publishing with Azure's SDK failed:\n{}", stderr.trim_end());
        }
        Ok(())
    }

    fn publish_of(&self, case: &Case) -> anyhow::Result<Value> {
        let topic = self.topic_of(case)?;
        let key = topic.keys.first().with_context(|| format!("topic {} has no key", case.topic))?;
        Ok(json!({
            "endpoint": topic.endpoint,
            "key": key,
            "schema": case.schema,
            "event": {
                "id": self.event_id(case),
                "type": case.event_type(),
                "subject": format!("demonstration/{}", case.name),
                "data": {"message": "Hello from Azure's SDK", "case": case.name},
            },
        }))
    }

    fn event_id(&self, case: &Case) -> String {
        format!("{}-{}", self.run_id, case.name)
    }

    fn dead_letter_prefix(&self) -> String {
        format!("demonstration/{}/", self.run_id)
    }
}

fn log_line(arrival: &Arrival, case: &Case, since_published: Duration) -> String {
    let since_s = since_published.as_secs_f64();
    let count = arrival.header("aeg-delivery-count").unwrap_or("-");
    let events = arrival.events();
    let text = |event: &Value, members: [&str; 2]| {
        members.iter().find_map(|member| event[member].as_str()).unwrap_or("-").to_owned()
    };
    let event_type =
        events.first().map_or_else(|| "-".to_owned(), |e| text(e, ["eventType", "type"]));
    format!(
        "  {since_s:>5.1} s  {:<14} attempt {}  {event_type:<37} aeg-delivery-count: {count}  → answered {}",
        case.name,
        count.parse::<u32>().map_or_else(|_| "?".to_owned(), |made| (made + 1).to_string()),
        arrival.status,
    )
}

fn describe(content: &DeadLetterContent) -> String {
    let letter = match content {
        DeadLetterContent::Record(letter) => letter,
        DeadLetterContent::Unreadable { problem } => return format!("problem {problem:?}"),
    };
    let outcome = letter.last_delivery_outcome.as_ref();
    let members = [
        Some(format!("eventType {:?}", letter.event_type)),
        Some(format!("deadLetterReason {:?}", letter.dead_letter_reason)),
        outcome.map(|outcome| format!("lastDeliveryOutcome {outcome:?}")),
        letter.last_http_status_code.map(|status| format!("lastHttpStatusCode {status}")),
        Some(format!("deliveryAttempts {}", letter.delivery_attempts)),
    ];
    members.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::testkit::documents;

    #[test]
    fn a_dead_letter_is_shown_with_its_reason() {
        let letter = documents::dead_letter(&json!({
            "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "lastDeliveryOutcome": "BadRequest", "lastHttpStatusCode": 400,
        }));
        let letter: DeadLetter = serde_json::from_value(letter).expect("a dead letter");
        assert_eq!(
            describe(&letter.content),
            "eventType \"T\", deadLetterReason \"UndeliverableDueToHttpBadRequest\", lastDeliveryOutcome \
             \"BadRequest\", lastHttpStatusCode 400, deliveryAttempts 1"
        );
    }
}
