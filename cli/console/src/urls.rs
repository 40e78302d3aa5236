//! URLs of the console's own pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded::Serializer;

/// Characters that stay as they are in a part of a path.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

pub(super) fn part(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

pub(super) fn topic_url(topic: &str) -> String {
    format!("/topics/{}", part(topic))
}

pub(super) fn subscription_url(topic: &str, name: &str, below: &str) -> String {
    format!("/topics/{}/subscriptions/{}{below}", part(topic), part(name))
}

/// Adds the pairs that have a value.
pub(super) fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        none if none.is_empty() => url.to_owned(),
        query => format!("{url}?{query}"),
    }
}

/// Returns the pages above a topic's.
pub(super) fn above_topic() -> Vec<(String, String)> {
    vec![("/topics".to_owned(), "Topics".to_owned())]
}

/// Returns the pages above an event subscription's.
pub(super) fn above_subscription(topic: &str) -> Vec<(String, String)> {
    [above_topic(), vec![(topic_url(topic), topic.to_owned())]].concat()
}

/// Returns the pages above one that belongs to an event subscription.
pub(super) fn above(topic: &str, name: &str) -> Vec<(String, String)> {
    let own = (subscription_url(topic, name, ""), name.to_owned());
    [above_subscription(topic), vec![own]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_parts_and_values() {
        assert_eq!(with_query("/x", &[("a", "b&c"), ("d", "")]), "/x?a=b%26c");
        assert_eq!(part("../a b"), "..%2Fa%20b");
    }
}
