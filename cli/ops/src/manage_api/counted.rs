//! Counts what waits, as far as a budget goes, without loading it.

use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::Value;

use super::pages::Page;
use super::{ManageApi, subscription_path, topic_path};
use crate::output::text_at;

/// Requests that may still be made, by all that count at the same time.
#[derive(Debug)]
pub struct Budget(AtomicUsize);

impl Budget {
    /// Allows this many calls.
    pub fn of(calls: usize) -> Self {
        Self(AtomicUsize::new(calls))
    }

    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Deliveries that have failed and not ended, and their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub deliveries: u64,
    pub events: u64,
}

impl Waiting {
    fn of(document: &Value) -> Self {
        let count = |name: &str| document[name].as_u64().unwrap_or(0);
        Self { deliveries: count("deliveries"), events: count("events") }
    }
}

impl ManageApi {
    /// The health of each event subscription of a topic: objects with `name` and `health`.
    pub async fn healths(&self, topic: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("{}/healths", topic_path(topic)?)).await
    }

    /// A page of them: of the same event subscriptions as their own page has.
    pub async fn healths_page(&self, topic: &str, after: Option<&str>) -> anyhow::Result<Page> {
        self.page(&format!("{}/healths", topic_path(topic)?), after).await
    }

    /// The names of the first topics, about `most` of them, and whether these are all.
    pub async fn topic_names(&self, most: usize) -> anyhow::Result<(Vec<String>, bool)> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let page = self.topics_page(after.as_deref()).await?;
            names.extend(page.items.iter().map(|topic| text_at(topic, "/name").to_owned()));
            after = page.next;
            if after.is_none() || names.len() >= most {
                return Ok((names, after.is_none()));
            }
        }
    }

    /// Counts an event subscription's deliveries that have failed and not ended, by the hour of their
    /// publish, as far as the budget goes; whether these are all.
    pub async fn count_waiting(
        &self,
        topic: &str,
        name: &str,
        budget: &Budget,
        mut take: impl FnMut(&str, Waiting),
    ) -> anyhow::Result<bool> {
        let path = subscription_path(topic, name)?;
        let mut next = format!("{}{path}/deliveries:count", self.base_url());
        while budget.take() {
            let page = self.send(Method::GET, &next, None).await?.document;
            for (hour, counts) in page["byPublishHour"].as_object().into_iter().flatten() {
                take(hour, Waiting::of(counts));
            }
            match page["nextLink"].as_str() {
                Some(link) => next = self.resolve(link)?,
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::FakeApi;

    #[tokio::test]
    async fn a_count_goes_on_as_far_as_its_budget() {
        const COUNT: &str = "GET /topics/orders/eventSubscriptions/one/deliveries:count";
        let page = |hour: &str, next: Option<&str>| {
            let mut page = json!({"byPublishHour": {hour: {"deliveries": 2, "events": 5}}});
            if let Some(next) = next {
                page["nextLink"] =
                    json!(format!("/topics/orders/eventSubscriptions/one/deliveries:count{next}"));
            }
            page
        };
        let api = FakeApi::answering(&[
            (&format!("{COUNT}?b "), 200, page("10", None)),
            (&format!("{COUNT}?a "), 200, page("09", Some("?b"))),
            (COUNT, 200, page("09", Some("?a"))),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        for (calls, want, whole) in [(9, 3, true), (3, 3, true), (2, 2, false), (0, 0, false)] {
            let mut found = Vec::new();
            let budget = Budget::of(calls);
            let take = |hour: &str, count: Waiting| found.push((hour.to_owned(), count.events));
            let is_whole =
                client.count_waiting("orders", "one", &budget, take).await.expect("counts");
            assert_eq!((found.len(), is_whole), (want, whole), "{calls}: {found:?}");
        }
    }

    #[tokio::test]
    async fn topics_are_named_as_far_as_is_asked() {
        let names =
            |name: &str, next: Option<&str>| json!({"value": [{"name": name}], "nextLink": next});
        let api = FakeApi::answering(&[
            ("GET /topics?$top=50&$skiptoken=x ", 200, names("b", None)),
            ("GET /topics?$top=50 ", 200, names("a", Some("/topics?$skiptoken=x"))),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let of = |names: &[&str], whole| (names.iter().map(|it| (*it).to_owned()).collect(), whole);
        assert_eq!(client.topic_names(9).await.expect("names"), of(&["a", "b"], true));
        assert_eq!(client.topic_names(1).await.expect("names"), of(&["a"], false));
    }
}
