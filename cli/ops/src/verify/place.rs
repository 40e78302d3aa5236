//! The topic of a run: made, published to, removed.

use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    clock,
    failure::{Refusal, chain},
    http_client::date_ms,
    lookup::if_there,
    manage_api::{ManageApi, dead_letters::LetterChoice},
    output::text_at,
    progress::Progress,
    publish::{self, InputSchema},
    target::Target,
};

/// What the names of probe topics begin with; nothing else may be named so.
pub(super) const PREFIX: &str = "gridpost-verify-";

/// The event subscription whose events become dead letters.
pub(super) const REFUSED: &str = "refused";

/// How long a publish that is not accepted is tried again.
const ACCEPT_MAX: Duration = Duration::from_secs(60);

/// The pause before it is, and before a topic that could not be removed is removed again.
const AGAIN: Duration = Duration::from_secs(1);

const REMOVALS_MAX: u32 = 15;

pub(super) fn run_id() -> String {
    clock::random_id()[..8].to_owned()
}

pub(super) async fn leftovers(api: &ManageApi) -> anyhow::Result<Vec<String>> {
    let topics = api.topics().await?;
    let names = topics.iter().map(|topic| text_at(topic, "/name"));
    Ok(names.filter(|name| is_probe(name)).map(str::to_owned).collect())
}

/// Whether a topic is named as those of a run are: the prefix and eight hexadecimal digits.
fn is_probe(name: &str) -> bool {
    let run = name.strip_prefix(PREFIX).unwrap_or_default();
    run.len() == 8 && run.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes a probe topic with its dead letters. One that is gone is fine.
pub(super) async fn remove(api: &ManageApi, topic: &str) -> anyhow::Result<()> {
    let all = LetterChoice::default();
    let purged = api.purge_dead_letters(topic, REFUSED, &all, |_| {}).await;
    // Without the event subscription, or a place for its dead letters, it has no dead letter.
    // A redrive that runs is refused with 409 as well, and ends soon.
    let is_redriven =
        |it: &Refusal| it.details.iter().any(|one| one.target.as_deref() == Some("redrive"));
    let has_none = |error: &anyhow::Error| {
        let refusal = error.downcast_ref::<Refusal>();
        refusal.is_some_and(|it| matches!(it.status, 400 | 404 | 409) && !is_redriven(it))
    };
    match purged {
        Err(error) if !has_none(&error) => return Err(error.context("its dead letters")),
        _ => {}
    }
    if_there(api.delete_topic(topic).await).map(drop)
}

pub(super) struct Place {
    topic: String,
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Place {
    pub(super) async fn make(api: &ManageApi, target: &Target, run: &str) -> anyhow::Result<Self> {
        let topic = format!("{PREFIX}{run}");
        let made = async {
            let document = api.put_topic(&topic, &json!({"properties": {}})).await?.document;
            let url = publish::events_url(&topic, &document, target)?;
            let keys = api.keys(&topic).await?;
            let key = keys["key1"].as_str().context("the manage API gave no key1")?.to_owned();
            Ok(Self { topic: topic.clone(), http: target.http_client(&url)?, url, key })
        };
        let made: anyhow::Result<Self> = made.await;
        if made.is_err() {
            // Why it could not be made is what matters.
            let _ = remove(api, &topic).await;
        }
        made
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// Removes it, and says so where that fails; whether it is gone.
    pub(super) async fn remove(&self, api: &ManageApi, progress: &Progress) -> bool {
        for tried in 1..=REMOVALS_MAX {
            match remove(api, &self.topic).await {
                Ok(()) => return true,
                Err(error) if tried == REMOVALS_MAX => progress.line(&format!(
                    "! topic {} is left behind: {}. `gridpost topic delete {} --yes` removes it",
                    self.topic,
                    chain(&error),
                    self.topic,
                )),
                Err(_) => sleep(AGAIN).await,
            }
        }
        false
    }

    /// Subscribes a destination to events whose subject is the event subscription's name.
    pub(super) async fn subscribe(
        &self,
        api: &ManageApi,
        name: &str,
        subject: &str,
        mut properties: Value,
    ) -> anyhow::Result<()> {
        properties["filter"] = json!({"subjectBeginsWith": subject, "subjectEndsWith": subject});
        let document = json!({ "properties": properties });
        let made = api.put_subscription(&self.topic, name, &document).await;
        made.with_context(|| format!("the event subscription {name} was refused")).map(drop)
    }

    /// Publishes events with those ids in one request, until it is accepted; when that one was begun.
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
            match self.publish_once(&body).await {
                Ok(date_ms) => return Ok(Published { begun_ms, took: begun.elapsed(), date_ms }),
                Err(error) if is_final(&error) || Instant::now() >= give_up => {
                    return Err(error.context("a publish was not accepted"));
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    /// Gives the answer's date, in milliseconds since the Unix epoch.
    async fn publish_once(&self, body: &str) -> anyhow::Result<Option<i64>> {
        let request = self.http.post(&self.url).header("aeg-sas-key", &self.key);
        let content_type = InputSchema::EventGrid.content_type(body.as_bytes());
        let answer =
            request.header("content-type", content_type).body(body.to_owned()).send().await;
        let answer = answer.map_err(|error| anyhow!("POST {} got no answer: {error}", self.url))?;
        match answer.status().as_u16() {
            200 => Ok(date_ms(&answer)),
            status => {
                let text = answer.text().await.unwrap_or_default();
                Err(Refusal::from_answer(status, &text).into())
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
    event.text(InputSchema::EventGrid)
}

/// Whether trying again is of no use.
fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|it| (400..429).contains(&it.status))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// When it was begun, in milliseconds since the Unix epoch.
    pub(super) begun_ms: i64,
    /// How long it took until its answer.
    pub(super) took: Duration,
    /// The answer's date, in whole seconds of the deployment's clock, as milliseconds; none if it had none.
    pub(super) date_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeApi;

    #[tokio::test]
    async fn only_probe_topics_are_leftovers() {
        let names = [
            "orders",
            "gridpost-verify-0000001a",
            "my-gridpost-verify-x",
            "gridpost-verify-staging",
            "gridpost-verify-0000002b",
        ];
        let topics = json!({"value": names.map(|name| json!({"name": name}))});
        let fake = FakeApi::answering(&[("GET /topics ", 200, topics)]).await;
        let api = ManageApi::connect(&fake.url()).await.expect("a client");
        let found = leftovers(&api).await.expect("a list");
        assert_eq!(found, ["gridpost-verify-0000001a", "gridpost-verify-0000002b"]);
    }

    #[tokio::test]
    async fn a_topic_is_removed_with_its_dead_letters_or_not_at_all() {
        let purge = "POST /topics/t/eventSubscriptions/refused/deadLetters:purge";
        let delete = "DELETE /topics/t";
        // (what the purge is answered, what the deletion is, whether it is gone)
        let table = [
            (200, 200, true),
            (404, 200, true),
            (400, 404, true),
            (500, 200, false),
            (200, 500, false),
        ];
        for (purged, deleted, want) in table {
            let rows = [(purge, purged, json!({})), (delete, deleted, json!({}))];
            let fake = FakeApi::answering(&rows).await;
            let api = ManageApi::connect(&fake.url()).await.expect("a client");
            assert_eq!(remove(&api, "t").await.is_ok(), want, "{purged} {deleted}");
        }
    }

    #[test]
    fn what_is_refused_for_good_is_not_tried_again() {
        for (status, want) in [(400, true), (401, true), (413, true), (429, false), (503, false)] {
            assert_eq!(is_final(&Refusal::from_answer(status, "{}").into()), want, "{status}");
        }
        assert!(!is_final(&anyhow!("no answer")));
    }
}
