//! The topic of a run: created, published to, removed.

use std::time::Duration;

use anyhow::Context;
use gridpost_api::{
    requests::PurgeDeadLettersInput,
    subscription::{EventSubscriptionInput, EventSubscriptionSettings, Filter},
    topic::TopicInput,
};
use gridpost_core::topic::InputSchema;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    clock,
    failure::{Refusal, chain},
    http_client::date_ms,
    lookup::if_there,
    manage_api::ManageApi,
    probing::{Publisher, final_refusal},
    progress::Progress,
    publish,
    target::Target,
};

/// The prefix of the names of probe topics; nothing else may have it.
pub(super) const PREFIX: &str = "gridpost-verify-";

/// The event subscription whose events become dead letters.
pub(super) const REFUSED: &str = "refused";

/// How long a publish that is not accepted is repeated.
const ACCEPT_MAX: Duration = Duration::from_secs(60);

/// The pause before a publish, or the removal of a topic, is repeated.
const AGAIN: Duration = Duration::from_secs(1);

const REMOVALS_MAX: u32 = 15;

/// Lists the probe topics that earlier runs left behind.
pub(super) async fn leftovers(api: &ManageApi) -> anyhow::Result<Vec<String>> {
    let names = api.topics().await?.into_iter().map(|topic| topic.name);
    Ok(names.filter(|name| is_probe(name)).collect())
}

/// Whether a topic has the name of a probe topic: the prefix and eight hexadecimal digits.
fn is_probe(name: &str) -> bool {
    let run = name.strip_prefix(PREFIX).unwrap_or_default();
    run.len() == 8 && run.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes a probe topic, if it exists, with its dead letters.
pub(super) async fn remove(api: &ManageApi, topic: &str) -> anyhow::Result<()> {
    let all = PurgeDeadLettersInput { all: Some(true), ..PurgeDeadLettersInput::default() };
    // Without the event subscription, or a place for its dead letters, it has no dead letter.
    // A running redrive is refused with 409 as well, and ends soon.
    let is_redriven = |refusal: &Refusal| {
        refusal.details.iter().any(|detail| detail.target.as_deref() == Some("redrive"))
    };
    let has_none = |error: &anyhow::Error| {
        let refusal = error.downcast_ref::<Refusal>();
        refusal.is_some_and(|it| matches!(it.status, 400 | 404 | 409) && !is_redriven(it))
    };
    match api.purge_dead_letters(topic, REFUSED, &all, |_| {}).await {
        Err(error) if !has_none(&error) => return Err(error.context("its dead letters")),
        _ => {}
    }
    if_there(api.delete_topic(topic).await).map(drop)
}

pub(super) struct ProbeTopic {
    name: String,
    publisher: Publisher,
}

impl ProbeTopic {
    pub(super) async fn create(
        api: &ManageApi,
        target: &Target,
        run: &str,
    ) -> anyhow::Result<Self> {
        let name = format!("{PREFIX}{run}");
        let created = async {
            let topic = api.put_topic(&name, &TopicInput::default()).await?.document;
            Publisher::connect(&topic, api, target).await
        };
        match created.await {
            Ok(publisher) => Ok(Self { name, publisher }),
            Err(error) => {
                // The first error is the one to report.
                let _ = remove(api, &name).await;
                Err(error)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Removes it, and says so where that fails. Returns whether it is gone.
    pub(super) async fn remove(&self, api: &ManageApi, progress: &Progress) -> bool {
        let name = &self.name;
        for attempt in 1..=REMOVALS_MAX {
            match remove(api, name).await {
                Ok(()) => return true,
                Err(error) if attempt == REMOVALS_MAX => progress.line(&format!(
                    "! topic {name} is left behind: {}. `gridpost topic delete {name} --yes` removes it",
                    chain(&error),
                )),
                Err(_) => sleep(AGAIN).await,
            }
        }
        false
    }

    /// Subscribes a destination to the events of that subject.
    pub(super) async fn subscribe(
        &self,
        api: &ManageApi,
        name: &str,
        subject: &str,
        settings: EventSubscriptionSettings,
    ) -> anyhow::Result<()> {
        let subject = Some(subject.to_owned());
        let filter = Some(Filter {
            subject_begins_with: subject.clone(),
            subject_ends_with: subject,
            ..Filter::default()
        });
        let properties = Some(EventSubscriptionSettings { filter, ..settings });
        let input = EventSubscriptionInput { properties };
        let created = api.put_subscription(&self.name, name, &input).await;
        created.with_context(|| format!("the event subscription {name} was refused")).map(drop)
    }

    /// Publishes events with those ids in one request, and repeats it until it is accepted.
    pub(super) async fn publish(
        &self,
        subject: &str,
        ids: &[String],
        filler: &str,
    ) -> anyhow::Result<Published> {
        let events: Vec<_> = ids.iter().map(|id| event(subject, id, filler)).collect();
        let body = format!("[{}]", events.join(","));
        let give_up = Instant::now() + ACCEPT_MAX;
        loop {
            let (begun, begun_ms) = (Instant::now(), clock::now_ms());
            match self.publisher.publish(body.clone()).await {
                Ok(answer) => {
                    let (took, date_ms) = (begun.elapsed(), date_ms(&answer));
                    return Ok(Published { begun_ms, took, date_ms });
                }
                Err(error) if final_refusal(&error).is_some() || Instant::now() >= give_up => {
                    return Err(error.context("a publish was not accepted"));
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }
}

fn event(subject: &str, id: &str, filler: &str) -> String {
    let event = publish::Event {
        id,
        event_type: "Gridpost.Verify",
        subject,
        source: "/gridpost/verify",
        time: &clock::now_rfc3339(),
        data: &json!({ "filler": filler }).to_string(),
    };
    event.text(InputSchema::EventGridSchema)
}

/// An accepted publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// When the request was begun, in milliseconds since the Unix epoch.
    pub(super) begun_ms: i64,
    /// How long it took until its answer.
    pub(super) took: Duration,
    /// The answer's date, in whole seconds of the deployment's clock, as milliseconds; `None` if it had none.
    pub(super) date_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{FakeApi, documents};

    #[tokio::test]
    async fn only_probe_topics_are_leftovers() {
        let names = [
            "orders",
            "gridpost-verify-0000001a",
            "my-gridpost-verify-x",
            "gridpost-verify-staging",
            "gridpost-verify-0000002b",
        ];
        let topics = documents::list(&names.map(|name| documents::topic(name, &json!({}))));
        let fake = FakeApi::answering(&[("GET /topics ", 200, topics)]).await;
        let api = ManageApi::connect(&fake.url()).await.expect("a client");
        let found = leftovers(&api).await.expect("a list");
        assert_eq!(found, ["gridpost-verify-0000001a", "gridpost-verify-0000002b"]);
    }

    #[tokio::test]
    async fn a_topic_is_removed_with_its_dead_letters_or_not_at_all() {
        let purge = "POST /topics/t/eventSubscriptions/refused/deadLetters:purge";
        let delete = "DELETE /topics/t";
        // (status of the purge, status of the deletion, whether the topic is gone)
        let table = [
            (200, 200, true),
            (404, 200, true),
            (400, 404, true),
            (500, 200, false),
            (200, 500, false),
        ];
        let answer = json!({"purgedEvents": 0, "purgedObjects": 0, "leftEvents": 0});
        for (purged, deleted, want) in table {
            let rows = [(purge, purged, answer.clone()), (delete, deleted, json!({}))];
            let fake = FakeApi::answering(&rows).await;
            let api = ManageApi::connect(&fake.url()).await.expect("a client");
            assert_eq!(remove(&api, "t").await.is_ok(), want, "{purged} {deleted}");
        }
    }
}
