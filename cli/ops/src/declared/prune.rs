//! Deletes what a deployment has and a file does not.

use std::collections::BTreeSet;

use gridpost_core::name;

use super::{
    Declared,
    made::{Made, Outcome},
    told,
};
use crate::{
    failure::{self, InPart},
    lookup::if_there,
    manage_api::ManageApi,
    output::count,
};

/// The resources to delete that the file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Event subscriptions of the file's topics.
    Subscriptions,
    /// The file is of everything: other topics, too.
    Topics,
}

/// A topic, or one event subscription of it, that the file does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Doomed {
    topic: String,
    subscription: Option<String>,
}

impl Doomed {
    fn path(&self) -> String {
        let Self { topic, subscription } = self;
        let own = subscription.as_ref().map(|name| format!(".eventSubscriptions.{name}"));
        format!("topics.{topic}{}", own.unwrap_or_default())
    }
}

/// Everything that the file does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned(Vec<Doomed>);

impl Declared {
    /// Reads what the file does not have. Finds nothing if some of the file could not be read: what is missing
    /// may be in it.
    pub async fn to_prune(&self, api: &ManageApi, prune: Prune) -> anyhow::Result<Pruned> {
        let mut doomed = Vec::new();
        if !self.problems.is_empty() {
            return Ok(Pruned(doomed));
        }
        for topic in &self.topics {
            let kept: BTreeSet<_> = topic.subscriptions.keys().map(|it| name::folded(it)).collect();
            let there = if_there(api.subscriptions(&topic.name).await)?.unwrap_or_default();
            let names = there.into_iter().map(|one| one.name);
            let others = names.filter(|name| !kept.contains(&name::folded(name)));
            doomed.extend(
                others.map(|name| Doomed { topic: topic.name.clone(), subscription: Some(name) }),
            );
        }
        if prune == Prune::Topics {
            let kept: BTreeSet<_> = self.topics.iter().map(|it| name::folded(&it.name)).collect();
            let names = api.topics().await?.into_iter().map(|topic| topic.name);
            let others = names.filter(|name| !kept.contains(&name::folded(name)));
            doomed.extend(others.map(|topic| Doomed { topic, subscription: None }));
        }
        Ok(Pruned(doomed))
    }
}

impl Pruned {
    /// Whether the file has everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks for consent.
    pub fn consent(&self) -> String {
        let topics = self.0.iter().filter(|one| one.subscription.is_none()).count() as u64;
        let subscriptions = self.0.len() as u64 - topics;
        let paths: Vec<_> = self.0.iter().map(Doomed::path).collect();
        format!(
            "This permanently deletes {} with keys and event subscriptions, and {}, which the file does not \
             have:\n  {}\nDeliveries under way are lost, and nothing is applied yet. Repeat with --yes.",
            count(topics, "topic"),
            count(subscriptions, "event subscription"),
            paths.join("\n  ")
        )
    }

    /// Notes it as deleted, without deleting it.
    pub fn note(&self, made: &mut Made) {
        made.outcomes.extend(self.0.iter().map(|one| (one.path(), Outcome::Deleted)));
    }

    /// Deletes it. Fails with [`InPart`] at the end where some of it could not be deleted.
    pub async fn delete(&self, api: &ManageApi, made: &mut Made) -> anyhow::Result<()> {
        let mut refused = Vec::new();
        for one in &self.0 {
            let deleted = match &one.subscription {
                Some(name) => api.delete_subscription(&one.topic, name).await,
                None => api.delete_topic(&one.topic).await,
            };
            match deleted {
                Ok(_) => made.outcomes.push((one.path(), Outcome::Deleted)),
                Err(error) => match told(&one.path(), error) {
                    Ok(problems) => refused.extend(problems),
                    Err(broken) => {
                        let told = failure::chain(&broken);
                        refused
                            .push(format!("{told}; it may be deleted, and the rest was not tried"));
                        break;
                    }
                },
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        let (message, members) = made.in_part(&refused, true);
        Err(InPart { message, members, is_misuse: false }.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{FakeApi, documents};

    #[tokio::test]
    async fn what_is_missing_is_deleted_and_nothing_else() {
        let named = |names: [&str; 3]| {
            documents::list(&names.map(|name| documents::subscription(name, &json!({}))))
        };
        let topics = ["Orders", "other"].map(|name| documents::topic(name, &json!({})));
        let api = FakeApi::answering(&[
            ("GET /topics/orders/eventSubscriptions ", 200, named(["Billing", "old", "older"])),
            ("GET /topics/new/eventSubscriptions ", 404, json!({})),
            ("GET /topics ", 200, documents::list(&topics)),
            ("DELETE /topics/orders/eventSubscriptions/old ", 200, Value::Null),
            ("DELETE /topics/orders/eventSubscriptions/older ", 403, json!({})),
            ("DELETE /topics/other ", 200, Value::Null),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.map(|it| (it, api)).expect("built");
        let declared = |orders: Value| {
            let topics = json!({"orders": {"eventSubscriptions": orders}, "new": {}});
            Declared::of(json!({ "topics": topics }), |_| None)
        };
        let file = declared(json!({"billing": {}}));
        let paths = |pruned: &Pruned| pruned.0.iter().map(Doomed::path).collect::<Vec<_>>();
        let own = ["old", "older"].map(|name| format!("topics.orders.eventSubscriptions.{name}"));
        let some = file.to_prune(&api.0, Prune::Subscriptions).await.expect("read");
        assert_eq!(paths(&some), own);
        let all = file.to_prune(&api.0, Prune::Topics).await.expect("read");
        assert_eq!(paths(&all)[2..], ["topics.other"]);
        let asked = all.consent();
        assert!(asked.contains("deletes 1 topic with keys") && asked.contains(&own[1]), "{asked}");
        for unread in [json!({"billing": {}, "BILLING": {}}), json!(1)] {
            let none = declared(unread).to_prune(&api.0, Prune::Topics).await.expect("read");
            assert!(none.is_empty());
        }

        let mut made = Made::default();
        let error = all.delete(&api.0, &mut made).await.expect_err("one is refused");
        let part = error.downcast::<InPart>().expect("told with what was done");
        assert_eq!(part.members["deleted"], json!([own[0], "topics.other"]));
        assert!(part.message.contains(&format!("refused:\n  {}: ", own[1])), "{}", part.message);
    }
}
