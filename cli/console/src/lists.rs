//! Lists of many topics, read a few at the same time and up to a limit: a page must not take minutes.

use std::cmp::Reverse;

use futures::{StreamExt, stream};
use gridpost_api::health::{Health, NamedHealth};
use gridpost_core::ledger::Account;
use gridpost_ops::lookup::if_there;
use maud::{Markup, html};

use super::Shared;
use super::standing::Standing;
use super::text::{counted, soft};
use super::traffic::{Totals, total};
use super::urls::{subscription_url, with_query};

/// Topics whose names are read, about.
const TOPICS_MAX: usize = 1_000;

/// Event subscriptions after which no further topic is looked at.
pub(super) const LOOKED_AT_MAX: usize = 1_000;

/// Lists that are read at the same time.
pub(super) const AT_ONCE: usize = 4;

/// The lists of some topics.
pub(super) struct Lists<T> {
    pub(super) read: Vec<(String, Vec<T>)>,
    pub(super) unread: Vec<(String, anyhow::Error)>,
    /// Topics that were not looked at.
    pub(super) left: Vec<String>,
}

/// Reads a list of each of these topics, until `most` things are read. One that is gone by now has nothing.
pub(super) async fn lists<T, F>(
    topics: Vec<String>,
    most: usize,
    list: impl Fn(String) -> F,
) -> Lists<T>
where
    F: Future<Output = anyhow::Result<Vec<T>>>,
{
    let of_topic = |topic: String| {
        let answer = list(topic.clone());
        async move { (topic, if_there(answer.await)) }
    };
    let mut lists = Lists { read: Vec::new(), unread: Vec::new(), left: topics.clone() };
    let mut answers = std::pin::pin!(stream::iter(topics).map(of_topic).buffered(AT_ONCE));
    let mut count = 0;
    while count < most
        && let Some((topic, answer)) = answers.next().await
    {
        lists.left.remove(0);
        match answer {
            Ok(found) => {
                let found = found.unwrap_or_default();
                count += found.len();
                lists.read.push((topic, found));
            }
            Err(error) => lists.unread.push((topic, error)),
        }
    }
    lists
}

/// An event subscription with its endpoint's health, and what was counted of it lately.
#[derive(Clone, Debug)]
pub(super) struct One {
    pub(super) topic: String,
    pub(super) name: String,
    pub(super) health: Health,
    pub(super) counted: Option<Account>,
}

impl One {
    pub(super) fn standing(&self) -> Standing {
        Standing::of(&self.health, self.counted.as_ref())
    }

    pub(super) fn pill(&self) -> Markup {
        self.standing().pill(self.counted.is_some())
    }

    pub(super) fn url(&self) -> String {
        subscription_url(&self.topic, &self.name, "")
    }

    /// Returns the URL of its page that looks back so far.
    pub(super) fn url_since(&self, since: &str) -> String {
        with_query(&self.url(), &[("since", since)])
    }

    /// Links to that page by its name and its topic's.
    pub(super) fn link(&self, since: &str) -> Markup {
        html! { a href=(self.url_since(since)) { (soft(&self.name)) } " " span.m { (soft(&self.topic)) } }
    }

    /// Returns how many events it lost lately.
    pub(super) fn lost(&self) -> u64 {
        self.counted.as_ref().map_or(0, |account| total(&account.dropped))
    }

    /// Returns how many events wait; where that is not known, the deliveries that have failed.
    pub(super) fn backlog(&self) -> u64 {
        let failed = self.health.waiting_deliveries.count as u64;
        self.health.waiting_events.unwrap_or(failed)
    }

    /// Those that lost events come first, then by standing; of the same, the largest backlog.
    pub(super) fn rank(&self) -> (bool, Standing, Reverse<u64>) {
        (self.lost() == 0, self.standing(), Reverse(self.backlog()))
    }

    /// Says what waits, as far as that is known.
    pub(super) fn held(&self) -> String {
        match (self.health.waiting_events, self.backlog()) {
            (Some(events), _) => counted(events, "event", "events"),
            (None, 0) => "events".to_owned(),
            (None, failed) => format!("at least {}", counted(failed, "delivery", "deliveries")),
        }
    }
}

impl Shared {
    /// Reads the names of the first topics, and whether these are all.
    pub(super) async fn topic_names(&self) -> anyhow::Result<(Vec<String>, bool)> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let page = self.api.topics_page(after.as_deref()).await?;
            names.extend(page.items.into_iter().map(|topic| topic.name));
            after = page.next;
            if after.is_none() || names.len() >= TOPICS_MAX {
                return Ok((names, after.is_none()));
            }
        }
    }

    /// Reads the healths of the event subscriptions of these topics.
    pub(super) async fn healths(&self, topics: Vec<String>) -> Lists<NamedHealth> {
        lists(topics, LOOKED_AT_MAX, async |topic| self.api.healths(&topic).await).await
    }
}

/// Returns the event subscriptions of those lists by rank, with what was counted.
pub(super) fn ones(read: Vec<(String, Vec<NamedHealth>)>, totals: Option<&Totals>) -> Vec<One> {
    let of_topic = |(topic, healths): (String, Vec<NamedHealth>)| {
        let one = move |NamedHealth { name, health }| {
            let counted = totals.map(|totals| totals.account(&topic, &name));
            One { topic: topic.clone(), name, health, counted }
        };
        healths.into_iter().map(one)
    };
    let mut all: Vec<_> = read.into_iter().flat_map(of_topic).collect();
    all.sort_by_key(One::rank);
    all
}
