//! `If-Match` and `If-None-Match`. Source: RFC 9110, sections 13.1.1 and 13.1.2.

use gridpost_api::{document::quoted, error::ErrorCode};
use http::HeaderMap;
use uuid::Uuid;

use crate::Reply;

/// The conditions of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Precondition {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`.
    Any,
    /// Strong entity tags without their quotes. Weak ones never match and are left out.
    Of(Vec<String>),
}

/// An entity tag in a header, quotes included.
pub(crate) fn etag(tag: Uuid) -> String {
    format!("\"{}\"", tag.simple())
}

impl Precondition {
    /// Fails with 400 if a header is neither `*` nor a list of entity tags.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Reply> {
        let read = |name: &'static str| {
            let values = headers.get_all(name).iter();
            let values: Vec<_> =
                values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            if values.is_empty() {
                return Ok(None);
            }
            let joined = values.join(",");
            tags(&joined).map(Some).ok_or_else(|| malformed(name, &joined))
        };
        Ok(Self { if_match: read("if-match")?, if_none_match: read("if-none-match")? })
    }

    /// Fails with 412 if the precondition does not hold for the existing tag.
    pub(crate) fn check(&self, existing: Option<Uuid>) -> Result<(), Reply> {
        let tag = existing.map(|tag| tag.simple().to_string());
        let among = |tags: &Tags| match (tags, &tag) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::Of(tags), Some(tag)) => tags.contains(tag),
        };
        if self.if_match.as_ref().is_some_and(|tags| !among(tags)) {
            let found = match existing {
                Some(tag) => format!("its ETag is {}: it has been changed", etag(tag)),
                None => "there is none".to_owned(),
            };
            let message = format!(
                "The resource is not the one that If-Match names; {found}. Nothing was written. \
                 Read it again and decide anew."
            );
            return Err(Reply::error(412, ErrorCode::PreconditionFailed, message));
        }
        if self.if_none_match.as_ref().is_some_and(among) {
            let message = "The resource exists, and If-None-Match says that it must not. Nothing \
                           was written. Choose another name, or leave the header out to replace it.";
            return Err(Reply::error(412, ErrorCode::PreconditionFailed, message));
        }
        Ok(())
    }
}

/// Reads `*`, or entity tags separated by commas. This API's tags contain no commas, so a foreign tag
/// with one is refused.
fn tags(value: &str) -> Option<Tags> {
    if value.trim() == "*" {
        return Some(Tags::Any);
    }
    let mut tags = Vec::new();
    for part in value.split(',').map(str::trim) {
        let (is_weak, quoted) = match part.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, part),
        };
        let tag = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))?;
        if tag.contains('"') {
            return None;
        }
        if !is_weak {
            tags.push(tag.to_owned());
        }
    }
    Some(Tags::Of(tags))
}

fn malformed(name: &str, value: &str) -> Reply {
    let message = format!(
        "The header {name} must be * or an ETag as a read has answered it, quotes included, but is \
         {}.",
        quoted(value)
    );
    Reply::error(400, ErrorCode::InvalidHeader, message)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const TAG: Uuid = Uuid::from_u128(0xabc);

    fn checked(name: &str, value: &str, existing: Option<Uuid>) -> Result<(), u16> {
        let name: HeaderName = name.parse().expect("a name");
        let value = HeaderValue::from_str(value).expect("a value");
        let headers = [(name, value)].into_iter().collect();
        let status = |reply: Reply| reply.status;
        Precondition::of(&headers).map_err(status)?.check(existing).map_err(status)
    }

    #[test]
    fn preconditions_hold_or_not() {
        let tag = etag(TAG);
        let (weak, two) = (format!("W/{tag}"), format!("\"x\", {tag}"));
        let table = [
            ("if-match", tag.as_str(), Some(TAG), Ok(())),
            ("if-match", two.as_str(), Some(TAG), Ok(())),
            ("if-match", "*", Some(TAG), Ok(())),
            ("if-match", " * ", Some(TAG), Ok(())),
            ("if-match", "*", None, Err(412)),
            ("if-match", tag.as_str(), None, Err(412)),
            ("if-match", "\"x\"", Some(TAG), Err(412)),
            ("if-match", weak.as_str(), Some(TAG), Err(412)),
            ("if-match", tag.trim_matches('"'), Some(TAG), Err(400)),
            ("if-match", "", Some(TAG), Err(400)),
            ("if-match", "\"a\"b\"", Some(TAG), Err(400)),
            ("if-match", "*, \"x\"", Some(TAG), Err(400)),
            ("if-none-match", "*", None, Ok(())),
            ("if-none-match", "*", Some(TAG), Err(412)),
            ("if-none-match", tag.as_str(), Some(TAG), Err(412)),
            ("if-none-match", "\"x\"", Some(TAG), Ok(())),
            ("if-modified-since", "yesterday", Some(TAG), Ok(())),
        ];
        for (name, value, existing, want) in table {
            assert_eq!(checked(name, value, existing), want, "{name}: {value}, {existing:?}");
        }
    }
}
