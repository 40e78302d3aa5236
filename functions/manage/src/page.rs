//! Lists in pages: `$top`, and a token that says where the next page begins.

use std::ops::RangeInclusive;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use gridpost::document::{Code, Problems, shown};
use serde_json::{Value, json};
use url::form_urlencoded::{self, Serializer};

use crate::Reply;

/// Resources in one page, the most by default. Source of the range: Event Grid's list operations,
/// `$top`.
const TOP: RangeInclusive<usize> = 1..=100;

/// Bytes of a page's documents: a function can't answer more than 6 MB, and resources may take so
/// much that fewer than [`TOP`] fit. Source: AWS Lambda, "Quotas".
const BYTES_MAX: usize = 4 * 1024 * 1024;

const TOP_NAME: &str = "$top";
const TOKEN_NAME: &str = "$skiptoken";
const VERSION_NAME: &str = "api-version";

/// Stands before the name in a token, so that another form can follow.
const TOKEN_FORM: &str = "1:";

/// Which part of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    top: Option<usize>,
    version: Option<String>,
    /// The last name of the page before.
    pub(crate) after: Option<String>,
}

impl Page {
    /// Reads a query string.
    ///
    /// # Errors
    ///
    /// 400 with every problem of it.
    pub(crate) fn of(query: &str) -> Result<Self, Reply> {
        let mut problems = Problems::default();
        let mut page = Self::default();
        let mut version = None;
        let [mut is_top_read, mut is_token_read] = [false; 2];
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let is_read = match name.as_ref() {
                TOP_NAME => std::mem::replace(&mut is_top_read, true),
                TOKEN_NAME => std::mem::replace(&mut is_token_read, true),
                _ => false,
            };
            match name.as_ref() {
                name if is_read => problems.add(Code::InvalidValue, name, "must stand once"),
                TOP_NAME => page.top = top(&value, &mut problems),
                TOKEN_NAME => page.after = after(&value, &mut problems),
                VERSION_NAME => version = Some(value.into_owned()),
                "$filter" => problems.add(
                    Code::NotSupportedYet,
                    "$filter",
                    "is not supported yet by this deployment; list all and choose among them",
                ),
                other => {
                    let rule = "is not known; parameters here are $top, $skiptoken and api-version";
                    problems.add(Code::UnknownMember, shown(other), rule);
                }
            }
        }
        page.version = version;
        problems.or(Some(page)).map_err(Reply::from_query)
    }

    /// Resources on the page.
    pub(crate) fn most(&self) -> usize {
        self.top.unwrap_or(*TOP.end())
    }

    /// The page as a list document. `found` are the names and documents behind [`Self::after`], one
    /// more than [`Self::most`] where there are so many. `url` is that of the list.
    pub(crate) fn write(&self, url: &str, mut found: Vec<(&str, Value)>) -> Value {
        let mut bytes = 0;
        let fit = found.iter().take(self.most()).take_while(|(_, document)| {
            bytes += document.to_string().len();
            bytes <= BYTES_MAX
        });
        // One always does: a document has a few hundred kilobytes at most.
        let count = fit.count().max(1);
        let is_last = found.len() <= count;
        found.truncate(count);
        let next = found.last().filter(|_| !is_last).map(|(name, _)| self.next_link(url, name));
        let documents: Vec<_> = found.into_iter().map(|(_, document)| document).collect();
        match next {
            None => json!({"value": documents}),
            Some(link) => json!({"value": documents, "nextLink": link}),
        }
    }

    fn next_link(&self, url: &str, last: &str) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(version) = &self.version {
            query.append_pair(VERSION_NAME, version);
        }
        if let Some(top) = self.top {
            query.append_pair(TOP_NAME, &top.to_string());
        }
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
            shown(value)
        );
        problems.add(Code::OutOfRange, TOP_NAME, rule);
    }
    top
}

fn after(token: &str, problems: &mut Problems) -> Option<String> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let is_name = |name: &&str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let name = text.as_deref().and_then(|text| text.strip_prefix(TOKEN_FORM)).filter(is_name);
    if name.is_none() {
        let rule = "is none that this API gave out; follow nextLink as it is, or begin without it";
        problems.add(Code::InvalidValue, TOKEN_NAME, rule);
    }
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_an_answer_would_be_too_large() {
        let large = |bytes: usize| Value::from("x".repeat(bytes));
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
            let found = sizes.iter().map(|bytes| ("name", large(*bytes))).collect();
            let page = Page::default().write("https://manage.example/topics", found);
            let length = page["value"].as_array().map(Vec::len);
            assert_eq!((length, page.get("nextLink").is_some()), (Some(count), goes_on));
        }
    }
}
