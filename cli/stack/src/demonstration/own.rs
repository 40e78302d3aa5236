//! Finds the demonstration's event subscriptions: those that an interrupted one left behind, and others that
//! must not get its events.

use futures::future::try_join_all;

use gridpost_core::name;

use super::case::{CASES, Case};
use gridpost_ops::manage_api::ManageApi;

/// Whether an event subscription is one of the demonstration's.
pub fn is_own(topic: &str, subscription: &str) -> bool {
    let is_it = |case: &Case| {
        name::is_same(case.topic, topic) && name::is_same(&case.subscription_name(), subscription)
    };
    CASES.iter().any(is_it)
}

/// Removes the event subscriptions of an interrupted demonstration: deliveries to its endpoint would be
/// retried for a day.
pub async fn forget(api: &ManageApi) -> anyhow::Result<()> {
    let has_cases = |topic: &str| CASES.iter().any(|case| case.topic == topic);
    let all = subscriptions(api, has_cases).await?;
    let own = all.iter().filter(|(topic, name)| is_own(topic, name));
    try_join_all(own.map(|(topic, name)| api.delete_subscription(topic, name))).await.map(drop)
}

/// Returns an event subscription that is not the demonstration's, as `topic/name`: it might get events that
/// its owner has not published.
pub async fn other(api: &ManageApi) -> anyhow::Result<Option<String>> {
    let mut all = subscriptions(api, |_| true).await?.into_iter();
    let other = all.find(|(topic, name)| !is_own(topic, name));
    Ok(other.map(|(topic, name)| format!("{topic}/{name}")))
}

async fn subscriptions(
    api: &ManageApi,
    is_wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let topics = api.topics().await?.into_iter().map(|topic| topic.name);
    for topic in topics.filter(|name| is_wanted(name)) {
        let of_it = api.subscriptions(&topic).await?;
        found.extend(of_it.into_iter().map(|one| (topic.clone(), one.name)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gridpost_ops::testkit::{FakeApi, documents};

    /// An API with these event subscriptions of the topic `demo`, and what it answers to a deletion
    /// of `demonstration-retried`. Any other deletion fails.
    async fn with(names: &[&str], deleted: u16) -> (FakeApi, ManageApi) {
        let of_demo = "/topics/demo/eventSubscriptions";
        let subscriptions: Vec<_> =
            names.iter().map(|name| documents::subscription(name, &json!({}))).collect();
        let topics = [documents::topic("demo", &json!({}))];
        let rows = [
            (format!("DELETE {of_demo}/demonstration-retried "), deleted, json!({})),
            (format!("GET {of_demo}"), 200, documents::list(&subscriptions)),
            ("GET /topics ".to_owned(), 200, documents::list(&topics)),
        ];
        let rows: Vec<_> = rows
            .iter()
            .map(|(line, status, told)| (line.as_str(), *status, told.clone()))
            .collect();
        let fake = FakeApi::answering(&rows).await;
        let api = ManageApi::connect(&fake.url()).await.expect("a client");
        (fake, api)
    }

    #[tokio::test]
    async fn what_was_left_behind_is_removed_and_nothing_else() {
        let table: [(&[&str], u16, bool); 4] = [
            (&["demonstration-retried", "own", "demonstration"], 200, true),
            // The deletion was asked for.
            (&["demonstration-retried"], 500, false),
            (&["own"], 500, true),
            (&[], 500, true),
        ];
        for (names, deleted, want) in table {
            let (_fake, api) = with(names, deleted).await;
            assert_eq!(forget(&api).await.is_ok(), want, "{names:?} {deleted}");
        }
    }

    #[tokio::test]
    async fn an_event_subscription_of_the_users_own_is_found() {
        let table: [(&[&str], Option<&str>); 4] = [
            (&["demonstration-retried", "own"], Some("demo/own")),
            (&["demonstration-of-mine"], Some("demo/demonstration-of-mine")),
            (&["demonstration-retried", "demonstration-delivered"], None),
            (&[], None),
        ];
        for (names, want) in table {
            let (_fake, api) = with(names, 200).await;
            assert_eq!(other(&api).await.expect("known").as_deref(), want, "{names:?}");
        }
    }
}
