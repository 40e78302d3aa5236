//! The results of requests. Data only.

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{partial::EventOutcome, state::PartRecord},
    retry::outcome::Answer,
    time::Timestamp,
};

/// The answers for the events of one delivery.
#[derive(Clone, Debug)]
pub enum AttemptResult {
    /// One answer for all events: a webhook's response covers its whole request.
    Whole(Answer),
    /// One answer per event: AWS services answer for each event, and webhooks may.
    Each(Vec<EventOutcome>),
    /// The answers in a batch that was split.
    Parts(Box<Parts>),
}

/// A delivery's part in a batch that was split.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub met: Vec<EventOutcome>,
    /// The requests that have carried some of its events, the first one for all of them.
    pub tries: Vec<Try>,
}

/// One request of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    pub answer: Answer,
    pub times: Times,
    /// The number of the attempt for its events, and how many of the delivery's events it carried.
    pub part: PartRecord,
}

impl AttemptResult {
    /// All answers, duplicates included.
    pub fn answers(&self) -> impl Iterator<Item = Answer> + Clone + '_ {
        let (whole, each) = match self {
            Self::Whole(answer) => (Some(*answer), [].as_slice()),
            Self::Each(each) => (None, each.as_slice()),
            Self::Parts(parts) => (None, parts.met.as_slice()),
        };
        whole.into_iter().chain(each.iter().map(|met| met.answer))
    }
}

/// When a request began and ended.
pub type Times = (Timestamp, Timestamp);

/// The result of one request.
pub struct Response {
    pub times: Times,
    /// One result per delivery, in the order of the request.
    pub results: Vec<AttemptResult>,
    /// The beginning of a response that failed in whole or in part, escaped, if the deployment
    /// keeps it.
    pub response_text: Option<String>,
}

/// Resolves to the answer if it arrives after 30 s.
pub type LateAnswer = BoxFuture<'static, Option<Answer>>;
