//! Lists and handles what waits for an operator: the poison queue and parked deliveries.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ManageApi, path_segment};

/// The results for parked deliveries, and whether all requests were answered: one may fail behind
/// others that have changed hundreds.
pub type Changed = (Vec<Value>, anyhow::Result<()>);

/// A choice of parked deliveries.
#[derive(Clone, Debug, Default)]
pub struct ParkedChoice {
    /// Ids; empty for all.
    pub ids: Vec<String>,
    pub topic: Option<String>,
    pub subscription: Option<String>,
}

impl ParkedChoice {
    /// The document of a request that changes them; one that chooses nothing says so.
    fn document(&self) -> Value {
        let mut document = json!({});
        if !self.ids.is_empty() {
            document["ids"] = json!(self.ids);
        }
        if let Some(topic) = &self.topic {
            document["topic"] = json!(topic);
        }
        if let Some(name) = &self.subscription {
            document["eventSubscription"] = json!(name);
        }
        if document == json!({}) {
            document["all"] = json!(true);
        }
        document
    }

    pub(super) fn list_path(&self) -> String {
        let names = [("topic", &self.topic), ("eventSubscription", &self.subscription)];
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in names {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        match query.finish() {
            none if none.is_empty() => "/parked".to_owned(),
            query => format!("/parked?{query}"),
        }
    }
}

impl ManageApi {
    /// Up to `most` messages of the poison queue.
    pub async fn poison(&self, most: u32) -> anyhow::Result<Value> {
        Ok(self.call(Method::GET, &format!("/poison?$top={most}"), None).await?.document)
    }

    /// One message of the poison queue, its body included. Fails with 404 when it is not among what the
    /// queue gives out.
    pub async fn poison_message(&self, id: &str) -> anyhow::Result<Value> {
        Ok(self.call(Method::GET, &format!("/poison/{}", path_segment(id)?), None).await?.document)
    }

    /// Sends messages of the poison queue back: those ids, or without any, the next hundred.
    pub async fn resend_poison(&self, ids: &[String], to: Option<&str>) -> anyhow::Result<Value> {
        let mut document = chosen(ids);
        if let Some(to) = to {
            document["to"] = json!(to);
        }
        Ok(self.call(Method::POST, "/poison:resend", Some(&document)).await?.document)
    }

    /// Removes messages of the poison queue: those ids, or without any, the next hundred.
    pub async fn purge_poison(&self, ids: &[String]) -> anyhow::Result<Value> {
        Ok(self.call(Method::POST, "/poison:purge", Some(&chosen(ids))).await?.document)
    }

    /// Parked deliveries, all that the choice has.
    pub async fn parked(&self, choice: &ParkedChoice) -> anyhow::Result<Vec<Value>> {
        self.list(&choice.list_path()).await
    }

    /// Sends parked deliveries to their retry queues; what became of each.
    pub async fn release_parked(&self, choice: &ParkedChoice) -> Changed {
        self.change_parked("/parked:release", choice).await
    }

    /// Ends parked deliveries; what became of each.
    pub async fn cancel_parked(&self, choice: &ParkedChoice) -> Changed {
        self.change_parked("/parked:cancel", choice).await
    }

    async fn change_parked(&self, path: &str, choice: &ParkedChoice) -> Changed {
        let mut done = Vec::new();
        let take = |answer: &Value| {
            done.extend(answer["value"].as_array().into_iter().flatten().cloned());
        };
        let asked = self.repeat(Method::POST, path, Some(&choice.document()), take).await;
        (done, asked)
    }
}

fn chosen(ids: &[String]) -> Value {
    if ids.is_empty() { json!({"all": true}) } else { json!({ "ids": ids }) }
}

/// Whether nothing of it is parked any more: it was changed, or had ended or was delivered before.
pub fn is_handled(one: &Value, good: &str) -> bool {
    let result = one["result"].as_str().unwrap_or_default();
    result == good || ["AlreadyDelivered", "AlreadyEnded"].contains(&result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeApi;

    #[tokio::test]
    async fn what_was_done_before_a_failure_is_kept() {
        let first = json!({"value": [{"id": "a", "result": "Canceled"}],
            "nextLink": "/parked:cancel?$skiptoken=x"});
        let api = FakeApi::answering(&[
            ("POST /parked:cancel?$skiptoken=x ", 503, json!({})),
            ("POST /parked:cancel ", 200, first),
            ("POST /parked:release ", 503, json!({})),
        ])
        .await;
        let manage = ManageApi::connect(&api.url()).await.expect("built");
        let choice = ParkedChoice::default();
        let (done, asked) = manage.cancel_parked(&choice).await;
        assert_eq!((done, asked.is_err()), (vec![json!({"id": "a", "result": "Canceled"})], true));
        let (done, asked) = manage.release_parked(&choice).await;
        assert!(done.is_empty() && asked.is_err());
    }

    #[test]
    fn a_choice_says_so_when_it_is_of_all() {
        let text = |text: &str| Some(text.to_owned());
        let of =
            |ids: &[&str], topic: &Option<String>, subscription: &Option<String>| ParkedChoice {
                ids: ids.iter().map(|id| (*id).to_owned()).collect(),
                topic: topic.clone(),
                subscription: subscription.clone(),
            };
        let both = json!({"topic": "a b", "eventSubscription": "s"});
        let table = [
            (of(&[], &None, &None), json!({"all": true}), "/parked"),
            (of(&["1"], &None, &None), json!({"ids": ["1"]}), "/parked"),
            (of(&[], &text("t"), &None), json!({"topic": "t"}), "/parked?topic=t"),
            (of(&[], &text("a b"), &text("s")), both, "/parked?topic=a+b&eventSubscription=s"),
        ];
        for (choice, document, path) in table {
            assert_eq!((choice.document(), choice.list_path()), (document, path.to_owned()));
        }
    }
}
