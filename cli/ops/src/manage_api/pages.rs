//! Lists a page at a time, for those who look at one and go on from there.

use reqwest::Method;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use super::dead_letters::LetterChoice;
use super::waiting::ParkedChoice;
use super::{ManageApi, subscription_path, topic_path};

const TOP: u32 = 50;

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub items: Vec<Value>,
    pub next: Option<String>,
    pub document: Value,
}

impl Page {
    fn of(document: Value) -> Self {
        let items = document["value"].as_array().cloned().unwrap_or_default();
        let next = document["nextLink"].as_str().and_then(token);
        Self { items, next, document }
    }
}

impl ManageApi {
    /// A page of the topics, by name; the first one without a token.
    pub async fn topics_page(&self, after: Option<&str>) -> anyhow::Result<Page> {
        self.page("/topics", after).await
    }

    /// A page of a topic's event subscriptions.
    pub async fn subscriptions_page(
        &self,
        topic: &str,
        after: Option<&str>,
    ) -> anyhow::Result<Page> {
        self.page(&format!("{}/eventSubscriptions", topic_path(topic)?), after).await
    }

    /// A page of the deliveries that have failed and not ended.
    pub async fn deliveries_page(
        &self,
        topic: &str,
        name: &str,
        after: Option<&str>,
    ) -> anyhow::Result<Page> {
        self.page(&format!("{}/deliveries", subscription_path(topic, name)?), after).await
    }

    /// A page of an event subscription's dead letters.
    pub async fn dead_letters_page(
        &self,
        topic: &str,
        name: &str,
        choice: &LetterChoice,
        after: Option<&str>,
    ) -> anyhow::Result<Page> {
        let path = format!("{}/deadLetters{}", subscription_path(topic, name)?, choice.query());
        self.page(&path, after).await
    }

    /// Counts the dead letters that one request reaches; there may be more if it has a next page.
    pub async fn count_some_dead_letters(
        &self,
        topic: &str,
        name: &str,
        choice: &LetterChoice,
    ) -> anyhow::Result<Page> {
        let path = subscription_path(topic, name)?;
        let path = format!("{path}/deadLetters:count{}", choice.query());
        Ok(Page::of(self.call(Method::GET, &path, None).await?.document))
    }

    /// A page of the redrives, the newest first.
    pub async fn redrives_page(
        &self,
        topic: &str,
        name: &str,
        after: Option<&str>,
    ) -> anyhow::Result<Page> {
        self.page(&format!("{}/redrives", subscription_path(topic, name)?), after).await
    }

    /// A page of the parked deliveries, in no order.
    pub async fn parked_page(
        &self,
        choice: &ParkedChoice,
        after: Option<&str>,
    ) -> anyhow::Result<Page> {
        self.page(&choice.list_path(), after).await
    }

    pub(super) async fn page(&self, path: &str, after: Option<&str>) -> anyhow::Result<Page> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut path = format!("{path}{mark}$top={TOP}");
        if let Some(after) = after {
            path.push_str("&$skiptoken=");
            path.extend(byte_serialize(after.as_bytes()));
        }
        Ok(Page::of(self.call(Method::GET, &path, None).await?.document))
    }
}

fn token(link: &str) -> Option<String> {
    let query = link.split_once('?')?.1;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "$skiptoken").map(|(_, token)| token.into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::FakeApi;

    #[tokio::test]
    async fn a_page_leads_to_the_next_one() {
        let first =
            json!({"value": [{"name": "a"}], "nextLink": "/topics?$top=50&$skiptoken=a%2Bb"});
        let api = FakeApi::answering(&[
            ("GET /topics?$top=50&$skiptoken=a%2Bb ", 200, json!({"value": [{"name": "b"}]})),
            ("GET /topics?$top=50 ", 200, first),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.expect("a client");
        let page = api.topics_page(None).await.expect("a page");
        assert_eq!(
            (page.items[0]["name"].as_str(), page.next.as_deref()),
            (Some("a"), Some("a+b"))
        );
        let page = api.topics_page(page.next.as_deref()).await.expect("a page");
        assert_eq!((page.items[0]["name"].as_str(), page.next), (Some("b"), None));
    }

    #[test]
    fn a_token_is_read_out_of_its_link() {
        for (link, want) in [
            ("/topics?$top=1&$skiptoken=x%3D", Some("x=")),
            ("https://a.example/topics?%24skiptoken=y", Some("y")),
            ("/topics?$top=1", None),
            ("/topics", None),
        ] {
            assert_eq!(token(link).as_deref(), want, "{link}");
        }
    }
}
