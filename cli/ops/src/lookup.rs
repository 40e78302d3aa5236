//! Whether what is named exists, and what is said where it does not.

use gridpost_api::{health::Health, schema::Time};
use gridpost_core::{name, time::Timestamp};

use crate::{
    failure::{Misuse, Refusal},
    manage_api::ManageApi,
};

/// Names that an error lists at most.
const NAMES_TOLD_MAX: usize = 10;

/// A name that does not exist, with the one that may be meant, or those that there are.
pub fn no_such<N: AsRef<str>>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = N>,
) -> Misuse {
    let known: Vec<_> = known.into_iter().collect();
    let near = known.iter().map(AsRef::as_ref).find(|it| is_near(name, it));
    let hint = match (near, known.len()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, 0) => "there is not a single one".to_owned(),
        (None, count) => {
            let some = known.iter().map(AsRef::as_ref).take(NAMES_TOLD_MAX);
            let more = if count > NAMES_TOLD_MAX { ", …" } else { "" };
            format!("there are {}{more}", some.collect::<Vec<_>>().join(", "))
        }
    };
    Misuse(format!("there is no {what} `{name}`: {hint}"))
}

/// Refuses a topic that does not exist, or an event subscription of it; one without a topic is looked
/// for in all of them. Fails with [`Misuse`], which says what there is.
pub async fn check_exists(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
) -> anyhow::Result<()> {
    let topics = api.topics().await?;
    let topics: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
    if let Some(topic) = topic.filter(|topic| !topics.iter().any(|it| name::is_same(it, topic))) {
        return Err(no_such("topic", topic, topics).into());
    }
    let Some(subscription) = subscription else { return Ok(()) };
    let mut known = Vec::new();
    for topic in
        topics.into_iter().filter(|name| topic.is_none_or(|wanted| name::is_same(wanted, name)))
    {
        known.extend(api.subscriptions(topic).await?.into_iter().map(|one| one.name));
    }
    match known.iter().any(|name| name::is_same(name, subscription)) {
        true => Ok(()),
        false => Err(no_such("event subscription", subscription, known).into()),
    }
}

/// Returns the name of a topic as it was created, or the given one if the topic can't be read: the
/// next request for it fails with the reason.
pub async fn spelled(api: &ManageApi, topic: &str) -> String {
    let found = api.topic(topic).await;
    found.map_or_else(|_| topic.to_owned(), |found| found.document.name)
}

/// Returns the answer; `None` if the resource does not exist.
pub fn if_there<T>(answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(error) if is_missing(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == 404)
}

/// Returns the answer about a topic or an event subscription of it. Fails with [`Misuse`] if it
/// does not exist, as far as that can be looked up.
pub async fn named<T>(
    api: &ManageApi,
    (topic, subscription): (&str, Option<&str>),
    answer: anyhow::Result<T>,
) -> anyhow::Result<T> {
    if answer.as_ref().is_err_and(is_missing)
        && let Err(error) = check_exists(api, Some(topic), subscription).await
        && error.is::<Misuse>()
    {
        return Err(error);
    }
    answer
}

/// Whether one name is the other one with two letters changed, added or left out at most.
fn is_near(name: &str, other: &str) -> bool {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in name.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row.last().is_some_and(|distance| *distance <= 2)
}

/// Whether the time is past until which an endpoint gets nothing: the next delivery is the probe.
pub fn wait_is_over(health: &Health, now: Timestamp) -> bool {
    health.until.is_some_and(|Time(until)| until <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_leads_to_one_that_does() {
        let table: [(&str, &[&str], &str); 5] = [
            ("order", &["shop", "orders"], "did you mean orders?"),
            ("bilin", &["billing"], "did you mean billing?"),
            ("x", &["orders", "shop"], "there are orders, shop"),
            ("x", &[], "there is not a single one"),
            ("", &["orders"], "there are orders"),
        ];
        for (name, known, want) in table {
            let told = no_such("topic", name, known).to_string();
            assert_eq!(told, format!("there is no topic `{name}`: {want}"));
        }
    }
}
