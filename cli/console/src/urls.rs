//! URLs of the console's own pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded::Serializer;

/// Characters that stay as they are in a part of a path.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

pub(super) fn part(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

pub(super) fn topic_url(topic: &str, below: &str) -> String {
    format!("/topics/{}{below}", part(topic))
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

/// Returns the pages above one: the list of topics and, if they are given, those of a topic and of one of its event
/// subscriptions.
pub(super) fn above(names: &[&str]) -> Vec<(String, String)> {
    let mut pages = vec![("/topics".to_owned(), "Topics".to_owned())];
    if let [topic, name @ ..] = names {
        pages.push((topic_url(topic, ""), (*topic).to_owned()));
        pages.extend(
            name.iter().map(|name| (subscription_url(topic, name, ""), (*name).to_owned())),
        );
    }
    pages
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
