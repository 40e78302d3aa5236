//! Reads what a webhook says about single events in the body of a response that accepts their
//! request, for event subscriptions that ask for it:
//!
//! `{"results": [{"id": "7", "status": "retry"}, {"id": "9", "status": "end", "reason": "closed"}]}`
//!
//! An event that is not named counts as delivered. Whatever can't be understood is taken to ask for
//! a retry: at worst an event comes twice, and none is lost.
//!
//! | body | what follows |
//! |---|---|
//! | empty, or text that is not a JSON object or array (`OK`, a page) | all are delivered |
//! | an array, or bytes that are no UTF-8 text | all are retried |
//! | one with a `Content-Encoding` other than `identity`, which is not read | all are retried |
//! | a JSON object without `results` | all are delivered |
//! | an object that is not JSON to its end, or whose `results` is not an array | all are retried |
//! | longer than is read, or not there in time, and not known to be no object | all are retried |
//! | a result that names no event of the request | the events that no result names are retried |
//! | a result without `status`, or with an unknown one | its event is retried |
//! | several results for an event | retry before end before delivered |
//! | an `id` that events of several sources have, without `source` | to end means to retry |

use std::{borrow::Cow, collections::HashMap};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::retry::outcome::{Answer, Outcome};

/// The most bytes of a body that are read.
pub const RESULTS_BYTES_MAX: usize = 64 * 1_024;

/// The body of an accepted response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseBody {
    pub bytes: Vec<u8>,
    /// Whether nothing is missing: it was neither too long nor too late.
    pub is_whole: bool,
}

/// The wish of an answer; the safest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Delivered,
    End,
    Retry,
}

#[derive(Deserialize)]
struct Results<'b> {
    #[serde(default, borrow, deserialize_with = "present")]
    results: Option<&'b RawValue>,
}

/// Reads a member, even if it is `null`.
fn present<'b, D: Deserializer<'b>>(member: D) -> Result<Option<&'b RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

#[derive(Deserialize)]
struct Named<'b> {
    #[serde(borrow)]
    id: Cow<'b, str>,
    #[serde(default, borrow)]
    source: Option<Cow<'b, str>>,
    #[serde(default, borrow)]
    status: Option<&'b RawValue>,
}

impl Named<'_> {
    fn wish(&self) -> Wish {
        let status =
            self.status.and_then(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()).ok());
        match status.as_deref() {
            Some("delivered") => Wish::Delivered,
            Some("end") => Wish::End,
            _ => Wish::Retry,
        }
    }
}

/// Returns the answers to the events of an accepted request, in order; `None` if all are delivered.
pub fn read<'e>(
    body: &ResponseBody,
    answer: Answer,
    events: impl ExactSizeIterator<Item = &'e RawValue>,
) -> Option<Vec<Answer>> {
    let wishes = wishes(body, events)?;
    let outcome = |wish| match wish {
        Wish::Delivered => Outcome::Delivered,
        Wish::End => Outcome::EventRejected,
        Wish::Retry => Outcome::EventFailed,
    };
    Some(wishes.into_iter().map(|wish| Answer { outcome: outcome(wish), ..answer }).collect())
}

fn wishes<'e>(
    body: &ResponseBody,
    events: impl ExactSizeIterator<Item = &'e RawValue>,
) -> Option<Vec<Wish>> {
    let bytes = body.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&body.bytes);
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let Some(begin) = begin else {
        // A body that is not whole may not be empty.
        return (!body.is_whole).then(|| vec![Wish::Retry; events.len()]);
    };
    let all_again = |events: usize| Some(vec![Wish::Retry; events]);
    if bytes[begin] != b'{' {
        let is_understood = bytes[begin] != b'[' && is_text(&bytes[begin..]);
        return if is_understood { None } else { all_again(events.len()) };
    }
    if !body.is_whole {
        return all_again(events.len());
    }
    let Ok(Results { results }) = serde_json::from_slice(&bytes[begin..]) else {
        return all_again(events.len());
    };
    let results = results?;
    match serde_json::from_str::<Vec<&RawValue>>(results.get()) {
        Ok(results) if results.is_empty() => None,
        Ok(results) => Some(apply(&results, events)),
        Err(_) => all_again(events.len()),
    }
}

/// Returns whether bytes are UTF-8 text, even if cut.
fn is_text(bytes: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !bytes.first().is_some_and(u8::is_ascii_control)
}

/// An event's id and source.
type Name<'n> = (Cow<'n, str>, Option<Cow<'n, str>>);

type Places<'e> = HashMap<Option<Cow<'e, str>>, Vec<usize>>;

struct Index<'e> {
    by_id: HashMap<Cow<'e, str>, Places<'e>>,
    len: usize,
}

impl<'e> Index<'e> {
    fn of(events: impl ExactSizeIterator<Item = &'e RawValue>) -> Self {
        let mut index = Self { by_id: HashMap::new(), len: events.len() };
        for (place, event) in events.enumerate() {
            // An event without an id can't be named.
            if let Ok(Named { id, source, .. }) = serde_json::from_str::<Named<'_>>(event.get()) {
                index.by_id.entry(id).or_default().entry(source).or_default().push(place);
            }
        }
        index
    }

    /// Returns the positions that a name matches, by source: events of two sources may differ.
    fn named<'n>(&'n self, (id, source): &'n Name<'n>) -> Vec<&'n [usize]> {
        let Some(all) = self.by_id.get(id) else { return Vec::new() };
        match source {
            Some(_) => all.get(source).map(Vec::as_slice).into_iter().collect(),
            None => all.values().map(Vec::as_slice).collect(),
        }
    }
}

struct WishesByName<'b> {
    by_name: HashMap<Name<'b>, Wish>,
    names_nothing: bool,
}

impl<'b> WishesByName<'b> {
    /// Merges the results of each name first: a response may repeat a name many times.
    fn by(results: &[&'b RawValue]) -> Self {
        let mut said = Self { by_name: HashMap::new(), names_nothing: false };
        for result in results {
            // serde would also read an array of the members' values.
            let object = Some(result.get()).filter(|json| json.starts_with('{'));
            let Some(Ok(result)) = object.map(serde_json::from_str::<Named<'_>>) else {
                said.names_nothing = true;
                continue;
            };
            let wish = result.wish();
            let known = said.by_name.entry((result.id, result.source)).or_insert(wish);
            *known = wish.max(*known);
        }
        said
    }
}

fn apply<'e>(
    results: &[&RawValue],
    events: impl ExactSizeIterator<Item = &'e RawValue>,
) -> Vec<Wish> {
    let (index, said) = (Index::of(events), WishesByName::by(results));
    let mut wishes: Vec<Option<Wish>> = vec![None; index.len];
    let mut is_understood = !said.names_nothing;
    for (name, wish) in &said.by_name {
        let places = index.named(name);
        is_understood &= !places.is_empty();
        let is_ambiguous = places.len() > 1;
        let wish = if is_ambiguous && *wish == Wish::End { Wish::Retry } else { *wish };
        for place in places.into_iter().flatten() {
            wishes[*place] = wishes[*place].max(Some(wish));
        }
    }
    let unnamed = if is_understood { Wish::Delivered } else { Wish::Retry };
    wishes.into_iter().map(|wish| wish.unwrap_or(unnamed)).collect()
}

#[cfg(test)]
mod tests;
