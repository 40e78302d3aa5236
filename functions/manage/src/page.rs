//! Lists in pages: `$top`, and a token that says where the next page begins.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use gridpost_api::{
    document::{Code, Problems, quoted},
    schema::List,
};
use serde::Serialize;
use url::form_urlencoded::{self, Serializer};

use crate::Reply;

/// Resources in one page; the default is the most. Source: Event Grid's list operations, `$top`.
const TOP: RangeInclusive<usize> = 1..=100;

/// The most bytes of a page's documents: a function's answer has 6 MB at most, so that fewer large
/// resources than [`TOP`] may fit. Source: AWS Lambda, "Quotas".
pub(crate) const BYTES_MAX: usize = 4 * 1024 * 1024;

const TOP_NAME: &str = "$top";
const TOKEN_NAME: &str = "$skiptoken";
const VERSION_NAME: &str = "api-version";

const TOKEN_FORM: &str = "1:";

/// The parameters of a list's query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) filters: &'static [&'static str],
    /// Whether a text is from this list's tokens; `None` if the list has one page.
    pub(crate) is_token: Option<fn(&str) -> bool>,
}

/// Lists of topics and event subscriptions, by name.
const BY_NAME: Form = Form { filters: &[], is_token: Some(is_name) };

impl Form {
    fn rule(&self) -> String {
        let token = self.is_token.map(|_| TOKEN_NAME);
        let others = std::iter::once(TOP_NAME).chain(token).chain(self.filters.iter().copied());
        let others: Vec<_> = others.collect();
        format!("is not known; parameters here are {} and {VERSION_NAME}", others.join(", "))
    }
}

/// The requested part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    top: Option<usize>,
    version: Option<String>,
    /// Where the previous page ended: for lists by name, its last name.
    pub(crate) after: Option<String>,
    filters: BTreeMap<&'static str, String>,
}

impl Page {
    /// Reads a query string of a list by name.
    /// Fails with 400, naming every problem.
    pub(crate) fn of(query: &str) -> Result<Self, Reply> {
        Self::of_form(query, BY_NAME)
    }

    /// Reads a query string of that form.
    /// Fails with 400, naming every problem.
    pub(crate) fn of_form(query: &str, form: Form) -> Result<Self, Reply> {
        let mut problems = Problems::default();
        let mut page = Self::default();
        let mut read = BTreeSet::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let filter = form.filters.iter().find(|filter| **filter == name);
            let once = filter.is_some() || matches!(name.as_ref(), TOP_NAME | TOKEN_NAME);
            if once && !read.insert(name.to_string()) {
                problems.add(Code::InvalidValue, name, "must stand once");
                continue;
            }
            if let Some(filter) = filter {
                page.filters.insert(filter, value.into_owned());
                continue;
            }
            match (name.as_ref(), form.is_token) {
                (TOP_NAME, _) => page.top = top(&value, &mut problems),
                (TOKEN_NAME, Some(is_token)) => {
                    page.after = after(&value, is_token, &mut problems);
                }
                (VERSION_NAME, _) => page.version = Some(value.into_owned()),
                ("$filter", _) => problems.add(
                    Code::NotSupportedYet,
                    "$filter",
                    "is not supported yet by this deployment; list all and choose among them",
                ),
                (other, _) => problems.add(Code::UnknownMember, quoted(other), form.rule()),
            }
        }
        problems.or(Some(page)).map_err(Reply::from_query)
    }

    /// Refuses all parameters of a request that filters by its body: an ignored one would make the
    /// request do more than was meant.
    /// Fails with 400, naming each unknown parameter.
    pub(crate) fn check_none(query: &str) -> Result<(), Reply> {
        let mut problems = Problems::default();
        for (name, _) in form_urlencoded::parse(query.as_bytes()) {
            if name != VERSION_NAME {
                let rule = format!(
                    "is not known; the only parameter here is {VERSION_NAME}, everything else is said by the body"
                );
                problems.add(Code::UnknownMember, quoted(&name), rule);
            }
        }
        problems.or(Some(())).map_err(Reply::from_query)
    }

    pub(crate) fn filter(&self, name: &str) -> Option<&str> {
        self.filters.get(name).map(String::as_str)
    }

    pub(crate) fn most(&self) -> usize {
        self.top.unwrap_or(*TOP.end())
    }

    pub(crate) fn top(&self) -> Option<usize> {
        self.top
    }

    /// Makes a list of the page. `found` are the names and documents after [`Self::after`], one more
    /// than [`Self::most`] if there are so many. `url` is the list's.
    pub(crate) fn write<T: Serialize>(&self, url: &str, mut found: Vec<(&str, T)>) -> List<T> {
        let mut bytes = 0;
        let fit = found.iter().take(self.most()).take_while(|(_, document)| {
            bytes += serde_json::to_vec(document).map_or(0, |json| json.len());
            bytes <= BYTES_MAX
        });
        // One always fits: a document has a few hundred kilobytes at most.
        let count = fit.count().max(1);
        let is_last = found.len() <= count;
        found.truncate(count);
        let next_link =
            found.last().filter(|_| !is_last).map(|(name, _)| self.next_link(url, name));
        List { value: found.into_iter().map(|(_, document)| document).collect(), next_link }
    }

    /// The URL of the next page of the list at `url`, which begins after `last`.
    pub(crate) fn next_link(&self, url: &str, last: &str) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(version) = &self.version {
            query.append_pair(VERSION_NAME, version);
        }
        if let Some(top) = self.top {
            query.append_pair(TOP_NAME, &top.to_string());
        }
        query.extend_pairs(&self.filters);
        let token = BASE64_URL_SAFE_NO_PAD.encode(format!("{TOKEN_FORM}{last}"));
        query.append_pair(TOKEN_NAME, &token);
        format!("{url}?{}", query.finish())
    }
}

fn top(value: &str, problems: &mut Problems) -> Option<usize> {
    let top = value.parse().ok().filter(|top| TOP.contains(top));
    if top.is_none() {
        let (from, to) = TOP.into_inner();
        let rule = format!(
            "must be a whole number from {from} to {to} (default {to}), but is {}",
            quoted(value)
        );
        problems.add(Code::OutOfRange, TOP_NAME, rule);
    }
    top
}

fn after(token: &str, is_token: fn(&str) -> bool, problems: &mut Problems) -> Option<String> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let given = text.as_deref().and_then(|text| text.strip_prefix(TOKEN_FORM));
    let given = given.filter(|text| is_token(text));
    if given.is_none() {
        let rule = "is none that this API gave out; follow nextLink as it is, or begin without it";
        problems.add(Code::InvalidValue, TOKEN_NAME, rule);
    }
    given.map(str::to_owned)
}

/// Whether a text can be the name of a topic or an event subscription.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_an_answer_would_be_too_large() {
        let table = [
            (vec![], 0, false),
            (vec![10, 10], 2, false),
            (vec![BYTES_MAX - 2], 1, false),
            (vec![BYTES_MAX - 2, 10], 1, true),
            (vec![BYTES_MAX + 10, 10], 1, true),
            (vec![BYTES_MAX / 4; 100], 3, true),
            (vec![10; 101], 100, true),
        ];
        for (sizes, count, goes_on) in table {
            let found = sizes.iter().map(|bytes| ("name", "x".repeat(*bytes))).collect();
            let page = Page::default().write("https://manage.example/topics", found);
            assert_eq!((page.value.len(), page.next_link.is_some()), (count, goes_on));
        }
    }
}
