//! Shows on a stack that it works: events published by Azure's SDK are delivered, retried on schedule,
//! and dead-lettered. All cases run at once and take about half a minute.

pub mod case;
pub mod dead_letter;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::answers::Answers;
use crate::failure;
use crate::local::connection::Connection;
use crate::local::demonstration::case::{CASES, Case, Seen};
use crate::local::demonstration::dead_letter::DeadLetters;
use crate::local::python::Environment;
use crate::local::stack::Stack;
use crate::manage_api::ManageApi;
use crate::progress::Progress;
use crate::receiver::{Arrival, Behaviour, Purpose, Receiver};
use crate::{local::child, wall_clock};

const PUBLISH: &str = include_str!("demonstration/publish.py");

/// From the publish to the end of the last case; the schedule needs 33 s of it.
const CASES_MAX: Duration = Duration::from_secs(90);
/// For Azure's SDK to start and publish four events.
const PUBLISH_MAX: Duration = Duration::from_secs(60);

/// What a case showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What the case is about.
    pub title: &'static str,
    /// What was seen, line by line.
    pub lines: Vec<String>,
}

/// Runs all cases.
///
/// # Errors
///
/// When one does not show what it should; the message says what was seen instead.
pub async fn run(stack: &Stack, progress: &Progress) -> anyhow::Result<Vec<Shown>> {
    let connection = &stack.connection;
    let (sender, arrivals) = mpsc::unbounded_channel();
    let scripts = CASES.iter().filter_map(|case| {
        let answers: Answers = case.answers.parse().ok()?;
        Some((case.path(), Behaviour::prompt(answers)))
    });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let otherwise = Behaviour::prompt(Answers::always(404));
    let receiver = Receiver::start(address, scripts.collect(), otherwise, sender).await?;
    let api = ManageApi::connect(&connection.manage_url).await?;
    let run = Run { connection, api, receiver, run_id: wall_clock::random_id(), progress };
    let shown = run.show(&stack.environment, arrivals).await;
    run.unsubscribe().await;
    shown
}

struct Run<'a> {
    connection: &'a Connection,
    api: ManageApi,
    receiver: Receiver,
    /// Tells this run's events and dead letters from those of others.
    run_id: String,
    progress: &'a Progress,
}

impl Run<'_> {
    async fn show(
        &self,
        environment: &Environment,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    ) -> anyhow::Result<Vec<Shown>> {
        let step = self.progress.step("Demonstrating: subscribing a built-in endpoint");
        try_join_all(CASES.iter().map(|case| self.subscribe(case))).await?;
        step.done("Subscribed a built-in endpoint; both handshakes passed");
        let step = self.progress.step("Demonstrating: publishing with Azure's SDK");
        self.publish(environment).await?;
        let published = Instant::now();
        step.done("Published an event for each case with Azure's SDK");

        let step =
            self.progress.step("Demonstrating: delivering, retrying, dead-lettering (about 30 s)");
        step.total(CASES.iter().map(|case| case.attempts() as u64).sum());
        let deadline = published + CASES_MAX;
        let follow = async {
            let mut seen = Seen::default();
            while !seen.is_complete() {
                let Ok(Some(arrival)) = timeout_at(deadline, arrivals.recv()).await else { break };
                if let Some(case) = self.case_of(&arrival) {
                    self.progress.line(&log_line(&arrival, case, published));
                    step.advance(case.title);
                    seen.add(case, &arrival);
                }
            }
            seen
        };
        let dead_letters = DeadLetters::of(self.connection, &self.dead_letter_prefix())?;
        let dead_letter = async {
            let found = dead_letters.wait(deadline).await;
            if found.is_ok() {
                let since_s = published.elapsed().as_secs_f64();
                let place = format!("s3://{}/", self.connection.dead_letter_bucket);
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

    /// The case that an arrival belongs to; none for a handshake, or an event of somebody else.
    fn case_of(&self, arrival: &Arrival) -> Option<&'static Case> {
        let case = CASES.iter().find(|case| case.path() == arrival.path)?;
        let id = self.event_id(case);
        let is_ours = arrival.events().iter().any(|event| event["id"] == id.as_str());
        (arrival.purpose == Purpose::Delivery && is_ours).then_some(case)
    }

    fn judge(&self, seen: &Seen, dead_letter: anyhow::Result<Value>) -> anyhow::Result<Vec<Shown>> {
        let mut shown = Vec::new();
        let mut problems = Vec::new();
        for case in &CASES {
            match case.judge(seen.of(case)) {
                Ok(lines) => shown.push(Shown { title: case.title, lines }),
                Err(problem) => problems.push(format!("{}: {problem}", case.title)),
            }
        }
        let last = shown.last_mut();
        match (dead_letter, last) {
            (Ok(record), Some(last)) => last.lines.extend(dead_letter::describe(&record)),
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

    async fn publish(&self, environment: &Environment) -> anyhow::Result<()> {
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
        let topic = self.connection.topics.get(case.topic);
        let topic = topic.with_context(|| format!("topic {} is not there", case.topic))?;
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

/// One attempt in the live log.
fn log_line(arrival: &Arrival, case: &Case, published: Instant) -> String {
    let since_s = arrival.at.saturating_duration_since(published).as_secs_f64();
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
