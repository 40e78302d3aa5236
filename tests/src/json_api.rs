//! A client of the resource API whose answers are JSON, as tests check them.

use std::{future::Future, ops::ControlFlow};

use gridpost_api::{
    client::Tagged,
    requests::{ParkedInput, PurgeDeadLettersInput, PurgeInput, ResendInput, ResumeInput},
    subscription::RotateInput,
};
use gridpost_ops::manage_api::ManageApi;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

/// The resource API of one deployment.
#[derive(Clone, Debug)]
pub struct JsonApi(pub ManageApi);

async fn json<D: Serialize>(
    answer: impl Future<Output = anyhow::Result<D>>,
) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(answer.await?)?)
}

async fn list<D: Serialize>(
    answer: impl Future<Output = anyhow::Result<Vec<D>>>,
) -> anyhow::Result<Vec<Value>> {
    Ok(answer.await?.iter().map(|one| json!(one)).collect())
}

async fn untagged<D: Serialize>(
    answer: impl Future<Output = anyhow::Result<Tagged<D>>>,
) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(answer.await?.document)?)
}

/// Calls that are passed on to the typed client.
macro_rules! passed_on {
    ($($by:ident $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        pub async fn $name(&self, $($arg: $type),*) -> anyhow::Result<$answer> {
            $by(self.0.api.$name($($arg),*)).await
        }
    )*};
}

impl JsonApi {
    /// Connects to the API at `base_url`.
    pub async fn connect(base_url: &str) -> anyhow::Result<Self> {
        Ok(Self(ManageApi::connect(base_url).await?))
    }

    passed_on! {
        untagged put_topic(topic: &str, document: &Value) -> Value;
        list topics() -> Vec<Value>;
        json keys(topic: &str) -> Value;
        untagged put_subscription(topic: &str, name: &str, document: &Value) -> Value;
        untagged patch_subscription(topic: &str, name: &str, patch: &Value) -> Value;
        untagged subscription(topic: &str, name: &str) -> Value;
        list subscriptions(topic: &str) -> Vec<Value>;
        json delete_subscription(topic: &str, name: &str) -> Value;
        json health(topic: &str, name: &str) -> Value;
        json reset_health(topic: &str, name: &str) -> Value;
        json pause(topic: &str, name: &str, time_to_live_runs: bool) -> Value;
        json resume(topic: &str, name: &str) -> Value;
        json delivery(topic: &str, name: &str, id: &str) -> Value;
        json resend(topic: &str, name: &str, id: &str) -> Value;
        json signing_secrets(topic: &str, name: &str) -> Value;
        list dead_letters(topic: &str, name: &str, chosen: &PurgeDeadLettersInput, most: usize)
            -> Vec<Value>;
        json dead_letter(topic: &str, name: &str, id: &str) -> Value;
        list redrives(topic: &str, name: &str) -> Vec<Value>;
        json redrive_job(topic: &str, name: &str, id: &str) -> Value;
        json cancel_redrive(topic: &str, name: &str, id: &str) -> Value;
        json explain(topic: &str, event: &RawValue) -> Value;
        json poison(most: u32) -> Value;
        json poison_message(id: &str) -> Value;
        list parked(chosen: &ParkedInput) -> Vec<Value>;
    }

    /// Reads the URL of a webhook, query included.
    pub async fn full_url(&self, topic: &str, name: &str) -> anyhow::Result<String> {
        Ok(self.0.api.full_url(topic, name).await?.endpoint_url.expose().to_owned())
    }

    /// Replaces the signing secret.
    pub async fn rotate_signing_secret(&self, topic: &str, name: &str) -> anyhow::Result<Value> {
        json(self.0.api.rotate_signing_secret(topic, name, &RotateInput::default())).await
    }

    /// Takes every delivery that has failed and not ended.
    pub async fn each_delivery(
        &self,
        topic: &str,
        name: &str,
        mut take: impl FnMut(&Value) + Send,
    ) -> anyhow::Result<()> {
        let take = |delivery| {
            take(&json!(delivery));
            ControlFlow::Continue(())
        };
        self.0.api.each_delivery(topic, name, take).await.map(drop)
    }

    /// Counts the events of dead letters.
    pub async fn count_dead_letters(
        &self,
        topic: &str,
        name: &str,
        chosen: &PurgeDeadLettersInput,
    ) -> anyhow::Result<u64> {
        let mut events = 0;
        let take = |count: &gridpost_api::dead_letter::DeadLetterCount| {
            events += count.events;
            ControlFlow::Continue(())
        };
        self.0.api.count_dead_letters(topic, name, chosen, take).await?;
        Ok(events)
    }

    /// Deletes dead letters. Returns of how many events.
    pub async fn purge_dead_letters(&self, topic: &str, name: &str) -> anyhow::Result<u64> {
        let all = PurgeDeadLettersInput { all: Some(true), ..PurgeDeadLettersInput::default() };
        let mut events = 0;
        let take = |purged: &gridpost_api::dead_letter::DeadLettersPurged| {
            events += purged.purged_events;
        };
        self.0.api.purge_dead_letters(topic, name, &all, take).await?;
        Ok(events)
    }

    /// Begins a redrive job.
    pub async fn redrive(&self, topic: &str, name: &str, input: &Value) -> anyhow::Result<Value> {
        let input = serde_json::from_value(input.clone())?;
        json(self.0.api.redrive(topic, name, &input)).await
    }

    /// Has a redrive job go on.
    pub async fn resume_redrive(&self, topic: &str, name: &str, id: &str) -> anyhow::Result<Value> {
        json(self.0.api.resume_redrive(topic, name, id, &ResumeInput::default())).await
    }

    /// Sends poison messages back.
    pub async fn resend_poison(&self, ids: &[String], to: Option<&str>) -> anyhow::Result<Value> {
        let to = to.map(|to| serde_json::from_value(to.into())).transpose()?;
        let ids = Some(ids.iter().cloned().collect());
        json(self.0.api.resend_poison(&ResendInput { ids, all: None, to })).await
    }

    /// Removes poison messages.
    pub async fn purge_poison(&self, ids: &[String]) -> anyhow::Result<Value> {
        let ids = Some(ids.iter().cloned().collect());
        json(self.0.api.purge_poison(&PurgeInput { ids, all: None })).await
    }

    /// Releases parked deliveries, or cancels them (`release`, `cancel`). Returns what became of each.
    pub async fn change_parked(
        &self,
        action: &str,
        chosen: &ParkedInput,
    ) -> anyhow::Result<Vec<Value>> {
        let mut done = Vec::new();
        let take = |handled: Vec<_>| done.extend(handled.iter().map(|one| json!(one)));
        self.0.api.change_parked(action, chosen, take).await?;
        Ok(done)
    }
}
