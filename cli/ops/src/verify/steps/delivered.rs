//! Tries steps whose events are delivered at their first attempt: to the webhook, to a queue, to many, in large.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, anyhow, ensure};
use futures::future::try_join_all;
use gridpost_api::subscription::{Destination, EventSubscriptionSettings, ResourceDestination};
use serde::Deserialize;
use tokio::time::Instant;

use super::{ARRIVED_MAX, Shown, Trial, between};
use crate::{
    clock::Clock,
    output::count,
    verify::{
        bill::Span,
        judge::{Filler, Received, fanned_out, of},
        probe_topic::Published,
        queue::Queue,
        report::{Stage, describe_time},
        step::{Platform, Step},
    },
};

/// Bytes of data that make an event about 1 KiB large, as `gridpost cost` has them.
const FILLER_BYTES: usize = 700;

/// More than a queue message carries by default (`queue_message_bytes_max`, 262,144).
const LARGE_BYTES: usize = 400_000;

/// Time for all of a fan-out, in an account whose quota of concurrency is small.
const FANNED_OUT_MAX: Duration = Duration::from_secs(300);

const AT_ONCE: usize = 5;

/// The default of `inline_fan_out`.
const INLINE_FAN_OUT: u32 = 10_000;

impl Trial<'_> {
    pub(super) async fn to_the_webhook(&self, span: &mut Option<Span>) -> Shown {
        let webhook = self.webhook()?;
        self.subscribe("webhook", "webhook", Default::default()).await?;
        let ids = self.ids(Step::Webhook, self.options.events);
        let published = self.publish_each("webhook", &ids).await?;
        let has_all = |seen: &[Received]| arrived(seen, "webhook").len() >= ids.len();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, has_all).await;
        let arrived = arrived(&seen, "webhook");
        let lines = self.judged(Stage::PublishToWebhook, &published, &arrived, span);
        lines.map_err(|error| anyhow!("{}", webhook.explain(error.to_string())))
    }

    pub(super) async fn to_the_queue(&self, span: &mut Option<Span>) -> Shown {
        let queue = self.setup.queue.as_ref().context("there is no queue")?;
        let resource_id = Some(queue.arn().to_owned());
        let to = ResourceDestination { resource_id, ..ResourceDestination::default() };
        let settings = EventSubscriptionSettings {
            destination: Some(Destination::SqsQueue(to)),
            ..EventSubscriptionSettings::default()
        };
        self.topic.subscribe(self.api, "queue", "queue", settings).await?;
        let ids = self.ids(Step::Queue, self.options.events);
        // A publish may take a second, and is read beside the others.
        let until = Instant::now() + ARRIVED_MAX + Duration::from_secs(ids.len() as u64);
        let (published, arrived) =
            tokio::try_join!(self.publish_each("queue", &ids), taken(queue, &ids, until))?;
        self.judged(Stage::PublishToQueue, &published, &arrived, span)
    }

    async fn publish_each(
        &self,
        subject: &str,
        ids: &[String],
    ) -> anyhow::Result<BTreeMap<String, Published>> {
        let filler = "x".repeat(FILLER_BYTES);
        let mut published = BTreeMap::new();
        for id in ids {
            let one = self.topic.publish(subject, std::slice::from_ref(id), &filler).await?;
            self.measured(Stage::Publish, one.took);
            published.insert(id.clone(), one);
        }
        Ok(published)
    }

    /// Checks that all that was published has arrived, and measures how long it took.
    fn judged(
        &self,
        stage: Stage,
        published: &BTreeMap<String, Published>,
        arrived: &BTreeMap<String, i64>,
        span: &mut Option<Span>,
    ) -> Shown {
        let missing: Vec<_> = published.keys().filter(|id| !arrived.contains_key(*id)).collect();
        ensure!(
            missing.is_empty(),
            "{} of {} did not arrive, the first of them {}",
            missing.len(),
            count(published.len() as u64, "event"),
            missing[0]
        );
        for (id, one) in published {
            let at_ms = arrived.get(id).copied().unwrap_or(one.begun_ms);
            self.measured(stage, between(one.begun_ms, at_ms));
        }
        let from_ms = published.values().map(|one| one.begun_ms).min();
        let to_ms = arrived.values().copied().max();
        if let (Some(from_ms), Some(to_ms), None) = (from_ms, to_ms, &span) {
            let mut clock = Clock::default();
            for one in published.values() {
                let took_ms = i64::try_from(one.took.as_millis()).unwrap_or(i64::MAX);
                if let Some(date_ms) = one.date_ms {
                    clock.take((one.begun_ms, one.begun_ms.saturating_add(took_ms)), date_ms);
                }
            }
            let there_ms = clock.there(from_ms, to_ms);
            *span = Some(Span { there_ms, to_ms, delivered: published.len() as u64 });
        }
        Ok(vec![format!("{} of {}", published.len(), count(published.len() as u64, "event"))])
    }

    /// One publish reaches many event subscriptions.
    pub(super) async fn fan_out(&self) -> Shown {
        let webhook = self.webhook()?;
        let fan_out = 0..self.options.fan_out;
        let names: Vec<_> = fan_out.map(|index| format!("fan-{index:02}")).collect();
        for some in names.chunks(AT_ONCE) {
            try_join_all(
                some.iter().map(|name| self.subscribe(name, "fan-out", Default::default())),
            )
            .await?;
        }
        let ids = self.ids(Step::FanOut, self.options.fan_out_events);
        let published = self.topic.publish("fan-out", &ids, "").await?;
        let is_whole = |seen: &[Received]| fanned_out(seen, &names, &ids).is_ok();
        let seen = webhook.until(Instant::now() + FANNED_OUT_MAX, is_whole).await;
        let repeated = fanned_out(&seen, &names, &ids);
        let repeated = repeated.map_err(|problem| anyhow!("{}", webhook.explain(problem)))?;
        let last_ms = seen.iter().filter(|one| names.contains(&one.of)).map(|one| one.at_ms).max();
        let deliveries = self.options.fan_out * self.options.fan_out_events;
        let mut lines = vec![format!(
            "{deliveries} deliveries, {} to each of {}; the last {} after the publish, {repeated} twice",
            count(ids.len() as u64, "event"),
            count(names.len() as u64, "event subscription"),
            describe_time(between(published.begun_ms, last_ms.unwrap_or(published.begun_ms))),
        )];
        if self.setup.environment.platform != Platform::Stack && deliveries <= INLINE_FAN_OUT {
            let line = "not stored first: that begins above inline_fan_out, 10,000 by default";
            lines.push(line.to_owned());
        }
        Ok(lines)
    }

    /// An event that no queue message carries arrives whole.
    pub(super) async fn large(&self) -> Shown {
        let webhook = self.webhook()?;
        self.subscribe("large", "large", Default::default()).await?;
        let filler = filler(&self.setup.run, LARGE_BYTES);
        let sent = Filler::of(&filler);
        self.topic.publish("large", &self.ids(Step::Large, 1), &filler).await?;
        let is_there = |seen: &[Received]| !of(seen, "large").is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, is_there).await;
        let missing = || webhook.explain("it did not arrive".to_owned());
        let got = of(&seen, "large").first().with_context(missing)?.filler.as_ref();
        ensure!(
            got == Some(&sent),
            "it arrived with {} of {} bytes, or with others",
            got.map_or(0, |got| got.bytes),
            sent.bytes
        );
        Ok(vec![
            format!("{} bytes of data arrived as they were sent, by their SHA-256", sent.bytes),
            "by the payload bucket where queue_message_bytes_max is less: 262,144 by default"
                .to_owned(),
        ])
    }
}

#[derive(Deserialize)]
struct Event {
    id: String,
}

/// Makes a text of that length which no other run sends.
fn filler(run: &str, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let mut number = 0_u32;
    while text.len() < bytes {
        text.push_str(&format!("{run}-{number} "));
        number += 1;
    }
    text.truncate(bytes);
    text
}

/// Returns when each event first reached an event subscription.
fn arrived(seen: &[Received], name: &str) -> BTreeMap<String, i64> {
    let mut arrived: BTreeMap<String, i64> = BTreeMap::new();
    for one in of(seen, name) {
        for id in &one.ids {
            let at_ms = arrived.entry(id.clone()).or_insert(one.at_ms);
            *at_ms = one.at_ms.min(*at_ms);
        }
    }
    arrived
}

/// Takes these events out of the queue; others stay. Returns when each was received.
async fn taken(
    queue: &Queue,
    ids: &[String],
    until: Instant,
) -> anyhow::Result<BTreeMap<String, i64>> {
    let mut arrived = BTreeMap::new();
    while arrived.len() < ids.len() && Instant::now() < until {
        let received = queue.receive().await.context("the queue can't be read")?;
        let now_ms = crate::clock::now_ms();
        let mut own = Vec::new();
        for message in received {
            let event = serde_json::from_str(&message.body).ok();
            if let Some(Event { id }) = event.filter(|event: &Event| ids.contains(&event.id)) {
                arrived.entry(id).or_insert(now_ms);
                own.push(message);
            }
        }
        queue.delete(&own).await?;
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::queue::fake;

    #[test]
    fn a_filler_is_as_long_as_it_should_be() {
        for bytes in [1, 1_000, LARGE_BYTES] {
            assert_eq!(filler("0123abcd", bytes).len(), bytes);
        }
        assert_ne!(filler("0123abcd", 1_000), filler("0123abce", 1_000));
    }

    #[tokio::test]
    async fn only_events_of_this_run_are_taken_out_of_a_queue() {
        let ids = ["e-1".to_owned()];
        for (body, want) in [(r#"{"id":"e-1"}"#, 1), (r#"{"id":"other"}"#, 0), ("no JSON", 0)] {
            let (_fake, queue) = fake::with(body).await;
            let until = Instant::now() + Duration::from_millis(300);
            let arrived = taken(&queue, &ids, until).await.expect("read");
            assert_eq!(arrived.len(), want, "{body}");
        }
    }

    #[test]
    fn an_event_arrived_when_it_first_did() {
        let seen = |of: &str, at_ms, id: &str| Received {
            of: of.to_owned(),
            at_ms,
            count: Some(0),
            ids: vec![id.to_owned()],
            filler: None,
        };
        let all = [seen("webhook", 7, "a"), seen("webhook", 5, "a"), seen("other", 1, "b")];
        assert_eq!(arrived(&all, "webhook"), BTreeMap::from([("a".to_owned(), 5)]));
    }
}
